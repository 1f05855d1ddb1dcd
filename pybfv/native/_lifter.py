"""Lifts out of R_q to the integers and rounding back: what the scaled product is made of."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from pybfv.errors import UsageError
from pybfv.native._lib import BFV, check, check_array, check_integer, check_polys, empty, view
from pybfv.native._ring import Ring, prime_argument


class _Lifter:
    """The C handle, freed with the object, and what both lifters do with arrays."""

    def __init__(self, pointer: Any, free: Any, n: int, wide: Sequence[int]) -> None:
        self._pointer = pointer
        self._close = weakref.finalize(self, free, pointer)
        self.n = int(n)
        self.wide = tuple(int(p) for p in wide)

    @property
    def pointer(self) -> Any:
        """The C handle; UsageError once closed."""
        if not self._close.alive:
            raise UsageError("this lifter is closed: open another")
        return self._pointer

    def close(self) -> None:
        """Frees the lifter; closing twice is fine."""
        self._close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _scale(self, t: int) -> Any:
        """t as words for C."""
        limit = 2 ** (64 * BFV.lib.BFV_MAX_T_WORDS) - 1
        t = check_integer(t, 1, min(limit, math.prod(self.wide)), "t")
        return BFV.ffi.new("uint64_t[]", [t >> at & 2**64 - 1 for at in range(0, t.bit_length(), 64)])

    def _run(
        self, what: str, function: Any, x: np.ndarray, planes: int, kind: Any, to: int, to_kind: Any, *scale: Any
    ) -> np.ndarray:
        """function(lifter, *scale, x, polys, out) on x [..., planes, N] of ``kind``; out [..., to, N]."""
        polys = check_polys(x, (planes, self.n), "x", kind)
        check_integer(polys, 1, 2**63 - 1, "the number of polynomials")
        shape = (*x.shape[:-2], to, self.n)
        out = empty(shape) if to_kind is np.uint32 else np.empty(shape, dtype=to_kind)
        source = view(BFV, f"{np.dtype(kind)}_t[]", x, "x")
        target = view(BFV, f"{np.dtype(to_kind)}_t[]", out, "out", write=True)
        check(function(self.pointer, *scale, source, polys, target), what)
        return out


class Lifter(_Lifter):
    """Between R_q of a ring and the integers, which are kept mod the ring's primes and ``wide`` further ones.

    The integer that residues stand for is the centred one, in (-M/2, M/2), M the product of the primes.
    All results are exact. wide: distinct primes = 1 mod 2N below 2^30, none of them the ring's, 40 at most
    together with those. UsageError for primes and arrays that don't fit.
    """

    def __init__(self, ring: Ring, wide: Sequence[int]) -> None:
        lib, ffi = BFV.lib, BFV.ffi
        argument = prime_argument(wide, lib.BFV_MAX_PRIMES - len(ring.primes), "wide")
        out = ffi.new("bfv_lifter **")
        check(
            lib.bfv_lifter_open(ring.pointer, argument, len(argument), out),
            f"opening a lifter of N = {ring.n}",
            argument=f"wide primes {', '.join(map(str, wide))} don't fit: they must be distinct, none of the ring's, "
            f"prime, 1 mod {2 * ring.n} and below 2^30",
        )
        super().__init__(out[0], lib.bfv_lifter_close, ring.n, wide)
        self.primes = ring.primes

    def lift(self, x: np.ndarray) -> np.ndarray:
        """The centred integers of x [..., L, N] mod the wide primes, [..., K, N]; both in NTT form."""
        count, wide = len(self.primes), len(self.wide)
        return self._run("lift", BFV.lib.bfv_lift, x, count, np.uint32, wide, np.uint32)

    def scaled_dot(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]], t: int) -> np.ndarray:
        """round(t T / q) mod q, [3, L, N], T the sum of the pairs' tensors over the integers; all in NTT form.

        pairs: ciphertexts [2, L, N], so many that the wide primes hold the sum; a pair of one array is a square.
        """
        if not pairs:
            raise UsageError("a sum of products has at least one pair")
        shape = (2, len(self.primes), self.n)
        sides = [
            [view(BFV, "uint32_t[]", check_array(pair[side], shape, "a ciphertext"), "a ciphertext") for pair in pairs]
            for side in (0, 1)
        ]
        a, b = (BFV.ffi.new("uint32_t *[]", side) for side in sides)
        out, scale = empty((3, len(self.primes), self.n)), self._scale(t)
        into = view(BFV, "uint32_t[]", out, "out", write=True)
        check(BFV.lib.bfv_scaled_dot(self.pointer, scale, len(scale), a, b, len(pairs), into), "scaled product")
        return out

    def scale_round(self, x: np.ndarray, t: int) -> np.ndarray:
        """round(t x / q) mod q for the integers x [..., L + K, N], [..., L, N]; both in NTT form.

        1 <= t <= the product of the wide primes, below 2^512.
        """
        count, scale = len(self.primes), self._scale(t)
        planes = count + len(self.wide)
        return self._run(
            "scale_round", BFV.lib.bfv_scale_round, x, planes, np.uint32, count, np.uint32, scale, len(scale)
        )


class Lifter64(_Lifter):
    """As Lifter for a q of 64-bit words, such as SEAL's; its polynomials are in coefficient form, uint64.

    primes: 1 to 16 pairwise coprime odd moduli from 3 to 2^61. The integers are kept mod the wide primes
    alone, uint32 [..., K, N] in NTT form; no wide prime may divide q.
    """

    def __init__(self, n: int, primes: Sequence[int], wide: Sequence[int]) -> None:
        lib, ffi = BFV.lib, BFV.ffi
        check_integer(n, lib.BFV_MIN_N, lib.BFV_MAX_N, "n")
        values = [check_integer(p, 3, 2**61 - 1, "each of primes") for p in primes]
        check_integer(len(values), 1, lib.BFV_MAX_64_PRIMES, "the number of primes")
        argument = prime_argument(wide, lib.BFV_MAX_PRIMES, "wide")
        moduli, out = ffi.new("uint64_t[]", values), ffi.new("bfv_lifter64 **")
        check(
            lib.bfv_lifter64_open(n, moduli, len(values), argument, len(argument), out),
            f"opening a lifter of N = {n}",
            argument=f"N = {n}, moduli {', '.join(map(str, values))} and wide primes {', '.join(map(str, wide))} don't "
            f"fit: N must be a power of two, the moduli odd and pairwise coprime, the wide primes distinct, "
            f"prime, 1 mod {2 * n}, below 2^30 and no factors of a modulus",
        )
        super().__init__(out[0], lib.bfv_lifter64_close, n, wide)
        self.primes = tuple(values)

    def lift(self, x: np.ndarray) -> np.ndarray:
        """The centred integers of x, uint64 [..., L, N], mod the wide primes, uint32 [..., K, N] in NTT form.

        DataError when a word is not below its modulus.
        """
        return self._run("lift", BFV.lib.bfv_lift64, x, len(self.primes), np.uint64, len(self.wide), np.uint32)

    def reduce(self, x: np.ndarray) -> np.ndarray:
        """The centred integers x, uint32 [..., K, N] in NTT form, mod q: uint64 [..., L, N]."""
        return self._run("reduce", BFV.lib.bfv_reduce64, x, len(self.wide), np.uint32, len(self.primes), np.uint64)

    def scale_round(self, x: np.ndarray, t: int) -> np.ndarray:
        """round(t x / q) mod q, uint64 [..., L, N], for the integers x, uint32 [..., K, N] in NTT form.

        1 <= t <= the product of the wide primes, below 2^512.
        """
        count, scale = len(self.primes), self._scale(t)
        return self._run(
            "scale_round",
            BFV.lib.bfv_scale_round64,
            x,
            len(self.wide),
            np.uint32,
            count,
            np.uint64,
            scale,
            len(scale),
        )
