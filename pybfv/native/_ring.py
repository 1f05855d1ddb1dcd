"""Rings, samplers and encryption under a public key: one method per C function."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pybfv.errors import UsageError
from pybfv.native._lib import (
    BFV,
    bodies,
    check,
    check_apart,
    check_array,
    check_in_place,
    check_integer,
    check_polys,
    empty,
    text_argument,
    view,
)

if TYPE_CHECKING:
    from pybfv.native._encoder import Encoder


def body_message(body: str | None) -> str:
    """What to say when a kernel body can't run here."""
    asked = "PYBFV_CPU names a kernel body that" if body is None else f"kernel body {body!r}"
    return f"{asked} can't run here; this machine has: {', '.join(bodies())}"


def prime_argument(primes: Sequence[int], limit: int, name: str) -> Any:
    """A list of primes for C: at most ``limit`` words below 2^32."""
    values = [check_integer(p, 2, 2**32 - 1, f"each of {name}") for p in primes]
    if not 1 <= len(values) <= limit:
        raise UsageError(f"{name} must be 1 to {limit} primes, not {len(values)}")
    return BFV.ffi.new("uint32_t[]", values)


class Ring:
    """R_q = Z_q[X]/(X^N + 1), q the product of distinct primes = 1 mod 2N below 2^30.

    Residue polynomials are uint32 arrays [L, N], C-contiguous. UsageError for parameters that are
    no ring and arrays that don't fit; BackendUnavailableError for a kernel body that can't run here.
    """

    def __init__(self, n: int, primes: Sequence[int], body: str | None = None) -> None:
        lib, ffi = BFV.lib, BFV.ffi
        check_integer(n, lib.BFV_MIN_N, lib.BFV_MAX_N, "n")
        argument = prime_argument(primes, lib.BFV_MAX_PRIMES, "primes")
        out = ffi.new("bfv_ring **")
        status = lib.bfv_ring_open(n, argument, len(argument), text_argument(body, "body"), out)
        check(
            status,
            f"opening a ring of N = {n}",
            argument=f"N = {n} with primes {', '.join(map(str, primes))} is no ring: N must be a power of "
            f"two, the primes distinct, prime, 1 mod {2 * n} and below 2^30",
            unsupported=body_message(body) if status == lib.BFV_E_UNSUPPORTED else "",
        )
        self._pointer = out[0]
        self._close = weakref.finalize(self, lib.bfv_ring_close, out[0])
        self.n = int(n)
        self.primes = tuple(int(p) for p in primes)
        self.body: str = ffi.string(lib.bfv_ring_body(out[0])).decode()
        self.roots: tuple[int, ...] = tuple(lib.bfv_ring_root(out[0], i) for i in range(len(self.primes)))
        self._tail = (len(self.primes), self.n)

    @property
    def pointer(self) -> Any:
        """The C handle; UsageError once closed."""
        if not self._close.alive:
            raise UsageError("this ring is closed: open another")
        return self._pointer

    def close(self) -> None:
        """Frees the ring; closing twice is fine."""
        self._close()

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ring(n={self.n}, primes={self.primes}, body={self.body!r})"

    def _u32(self, x: np.ndarray, write: bool = False) -> Any:
        return view(BFV, "uint32_t[]", x, "the array", write=write)

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Coefficients to NTT form (SEAL's order) in place, [..., L, N]; returns ``x``."""
        polys = check_polys(x, self._tail, "x", write=True)
        check(BFV.lib.bfv_ntt_forward(self.pointer, self._u32(x, True), polys), "forward NTT")
        return x

    def inverse(self, x: np.ndarray) -> np.ndarray:
        """NTT form to coefficients in place, [..., L, N]; returns ``x``."""
        polys = check_polys(x, self._tail, "x", write=True)
        check(BFV.lib.bfv_ntt_inverse(self.pointer, self._u32(x, True), polys), "inverse NTT")
        return x

    def check_residues(self, x: np.ndarray, what: str = "residues") -> None:
        """DataError when a residue of [..., L, N] is not below its prime; ``what`` opens the message."""
        polys = check_polys(x, self._tail, "x")
        check(BFV.lib.bfv_check_residues(self.pointer, self._u32(x), polys), what)

    def _pointwise(self, function: Any, what: str, out: np.ndarray | None, *inputs: np.ndarray) -> np.ndarray:
        counts = {check_polys(x, self._tail, "an operand") for x in inputs}
        if len({x.shape for x in inputs}) != 1:
            raise UsageError(f"operands differ in shape: {', '.join(str(list(x.shape)) for x in inputs)}")
        target = empty(inputs[0].shape) if out is None else out
        check_array(target, inputs[0].shape, "out", write=True)
        check_in_place(target, *inputs)
        views = [self._u32(x) for x in inputs]
        check(function(self.pointer, *views, counts.pop(), self._u32(target, True)), what)
        return target

    def add(self, a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """a + b, residues [..., L, N]; ``out`` may be an operand."""
        return self._pointwise(BFV.lib.bfv_poly_add, "add", out, a, b)

    def sub(self, a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """a - b, residues [..., L, N]; ``out`` may be an operand."""
        return self._pointwise(BFV.lib.bfv_poly_sub, "sub", out, a, b)

    def neg(self, a: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """-a, residues [..., L, N]; ``out`` may be the operand."""
        return self._pointwise(BFV.lib.bfv_poly_neg, "neg", out, a)

    def mul(self, a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """a b point by point, residues [..., L, N]: the ring's product in NTT form."""
        return self._pointwise(BFV.lib.bfv_poly_mul, "mul", out, a, b)

    def mul_scalar(self, a: np.ndarray, s: Sequence[int], out: np.ndarray | None = None) -> np.ndarray:
        """Plane i of a times s[i], 0 <= s[i] < p_i."""
        factors = [check_integer(x, 0, p - 1, f"the factor mod {p}") for x, p in zip(s, self.primes, strict=False)]
        if len(factors) != len(self.primes) or len(s) != len(self.primes):
            raise UsageError(f"{len(self.primes)} factors are needed, one a prime, not {len(s)}")
        polys = check_polys(a, self._tail, "a")
        target = empty(a.shape) if out is None else out
        check_array(target, a.shape, "out", write=True)
        check_in_place(target, a)
        scalars = BFV.ffi.new("uint32_t[]", factors)
        status = BFV.lib.bfv_poly_mul_scalar(self.pointer, self._u32(a), scalars, polys, self._u32(target, True))
        check(status, "mul_scalar")
        return target

    def from_int64(self, values: np.ndarray) -> np.ndarray:
        """N signed integers, |v| < 2^62, int64 [N], to residues [L, N]."""
        check_array(values, (self.n,), "values", np.int64)
        out = empty(self._tail)
        status = BFV.lib.bfv_from_int64(self.pointer, view(BFV, "int64_t[]", values, "values"), self._u32(out, True))
        check(status, "from_int64", argument="a value lies outside -2^62 to 2^62: split it into limbs")
        return out

    def fractions(self, x: np.ndarray) -> np.ndarray:
        """The coefficients of x / q, centred, float64 [..., N], for x [..., L, N] in NTT form; within 2^-42."""
        polys = check_polys(x, self._tail, "x")
        out = np.empty((*x.shape[:-2], self.n))
        status = BFV.lib.bfv_fractions(self.pointer, self._u32(x), polys, view(BFV, "double[]", out, "out", write=True))
        check(status, "fractions")
        return out

    def switch_keys(self, x: np.ndarray, keys: np.ndarray, out: np.ndarray) -> np.ndarray:
        """out [2, L, N] += the sum of D_i keys[i], keys [L, 2, L, N], in NTT form.

        D_i: the integer polynomial of the centred residues of x (q/p_i)^-1 mod p_i, x [L, N] in NTT form.
        """
        count, _ = self._tail
        check_array(x, self._tail, "x")
        check_array(keys, (count, 2, *self._tail), "keys")
        check_array(out, (2, *self._tail), "out", write=True)
        check_apart(out, x, keys)
        status = BFV.lib.bfv_switch_keys(self.pointer, self._u32(x), self._u32(keys), self._u32(out, True))
        check(status, "key switching")
        return out

    def expand_uniform(self, index: int, stream: Any, out: np.ndarray, filled: int) -> int:
        """Uniform residues mod prime ``index`` from a stream's next bytes (a multiple of 4).

        Appends to ``out`` [N] from position ``filled`` and returns the new ``filled``; less than N
        means that the bytes ran out. The rejection rule is FORMAT.md's.
        """
        check_integer(index, 0, len(self.primes) - 1, "index")
        check_array(out, (self.n,), "out", write=True)
        data = view(BFV, "uint8_t[]", stream, "stream")
        if len(data) % 4 != 0:
            raise UsageError(f"stream must have a multiple of 4 bytes, not {len(data)}")
        position = BFV.ffi.new("uint32_t *", check_integer(filled, 0, self.n, "filled"))
        status = BFV.lib.bfv_expand_uniform(self.pointer, index, data, len(data), self._u32(out, True), position)
        check(status, "expand_uniform")
        return int(position[0])

    def expand_planes(self, streams: Any, sizes: Sequence[int], out: np.ndarray) -> list[int]:
        """`expand_uniform` of every prime from its start: streams in turn, ``sizes`` bytes of each, to ``out`` [L, N].

        Returns how many residues of each plane are there.
        """
        check_array(out, self._tail, "out", write=True)
        data = view(BFV, "uint8_t[]", streams, "streams")
        if len(sizes) != len(self.primes) or any(size < 0 or size % 4 for size in sizes) or sum(sizes) > len(data):
            raise UsageError("streams must hold a multiple of 4 bytes for each prime")
        filled = BFV.ffi.new("uint32_t[]", len(self.primes))
        bytes_ = BFV.ffi.new("size_t[]", list(sizes))
        check(BFV.lib.bfv_expand_planes(self.pointer, data, bytes_, self._u32(out, True), filled), "expand_planes")
        return list(filled)

    def encrypt_bytes(self, parts: int) -> int:
        """Random bytes that one encryption with 2 or 3 parts takes."""
        check_integer(parts, 2, 3, "parts")
        return int(BFV.lib.bfv_encrypt_bytes(self.n, parts))

    def encrypt_public(
        self, pk: np.ndarray, m: np.ndarray | None, rnd: Any, out: np.ndarray | None = None
    ) -> np.ndarray:
        """(p0 u + e0 + m, p1 u + e1) in NTT form, [2, L, N].

        pk [2, L, N] in NTT form; m [L, N], scaled, in coefficient form, or None for zero; rnd:
        ``encrypt_bytes(2)`` fresh random bytes.
        """
        target = self._encrypt_arguments(pk, m, out, 2)
        scaled = BFV.ffi.NULL if m is None else self._u32(m)
        data = view(BFV, "uint8_t[]", rnd, "rnd")
        status = BFV.lib.bfv_encrypt_public(
            self.pointer, self._u32(pk), scaled, data, len(data), self._u32(target, True)
        )
        check(status, "encryption under the public key")
        return target

    def encrypt_many(
        self,
        pk: np.ndarray,
        encoder: Encoder,
        rows: Sequence[np.ndarray | Sequence[int]],
        rnd: Any,
        out: np.ndarray,
        stride: int = 1,
        threads: int = 1,
    ) -> np.ndarray:
        """Encodes and encrypts vectors of one length: vector k to out[k * stride], ``out`` [*, 2, L, N].

        What `Encoder.encode` and `encrypt_public` give, in one call of C; rnd: ``encrypt_bytes(2)`` fresh random
        bytes for each vector, in turn. threads: 0 for all cores.
        """
        values, words, width = encoder.batch(rows, self)
        check_array(pk, (2, *self._tail), "pk")
        check_array(out, (None, 2, *self._tail), "out", write=True)
        check_integer(stride, 1, 2**31, "stride")
        if (len(rows) - 1) * stride >= len(out):
            raise UsageError(f"out holds {len(out)} ciphertexts: {len(rows)} at every {stride} don't fit")
        check_apart(out, pk)
        data = view(BFV, "uint8_t[]", rnd, "rnd")
        status = BFV.lib.bfv_encrypt_many(
            self.pointer, self._u32(pk), encoder.pointer, view(BFV, "uint64_t[]", values, "values"), words, width,
            len(rows), data, len(data), _threads(threads), self._u32(out, True), stride,
        )  # fmt: skip
        check(status, "encryption under the public key")
        return out

    def encrypt_zero3(self, pk: np.ndarray, rnd: Any, out: np.ndarray | None = None) -> np.ndarray:
        """(p0 u1 + e0, p1 u1 + p0 u2 + e1, p1 u2 + e2) in NTT form, [3, L, N]: a zero in a product's size.

        pk [2, L, N] in NTT form; rnd: ``encrypt_bytes(3)`` fresh random bytes.
        """
        target = self._encrypt_arguments(pk, None, out, 3)
        data = view(BFV, "uint8_t[]", rnd, "rnd")
        status = BFV.lib.bfv_encrypt_zero3(self.pointer, self._u32(pk), data, len(data), self._u32(target, True))
        check(status, "encryption of zero")
        return target

    def _encrypt_arguments(
        self, pk: np.ndarray, m: np.ndarray | None, out: np.ndarray | None, parts: int
    ) -> np.ndarray:
        check_array(pk, (2, *self._tail), "pk")
        if m is not None:
            check_array(m, self._tail, "m")
        target = empty((parts, *self._tail)) if out is None else out
        check_array(target, (parts, *self._tail), "out", write=True)
        check_apart(target, pk, m)
        return target


def _threads(threads: int) -> int:
    return check_integer(threads, 0, BFV.lib.BFV_MAX_THREADS, "threads")


def _check_dimension(n: int) -> int:
    return check_integer(n, BFV.lib.BFV_MIN_N, BFV.lib.BFV_MAX_N, "n")


def ternary_bytes(n: int) -> int:
    """Random bytes that suffice for N ternary coefficients with probability 1 - 2^-128 and more."""
    return int(BFV.lib.bfv_ternary_bytes(_check_dimension(n)))


def error_bytes(n: int) -> int:
    """Random bytes that N error coefficients take."""
    return int(BFV.lib.bfv_error_bytes(_check_dimension(n)))


def _sample(function: Any, n: int, rnd: Any, what: str) -> np.ndarray:
    out = np.empty(_check_dimension(n), dtype=np.int8)
    data = view(BFV, "uint8_t[]", rnd, "rnd")
    check(function(n, data, len(data), view(BFV, "int8_t[]", out, "out", write=True)), what)
    return out


def sample_ternary(n: int, rnd: Any) -> np.ndarray:
    """N uniform coefficients of {-1, 0, 1}, int8: bytes but 255, in turn, mod 3 minus 1."""
    return _sample(BFV.lib.bfv_sample_ternary, n, rnd, "sampling a ternary polynomial")


def sample_error(n: int, rnd: Any) -> np.ndarray:
    """N centred binomial coefficients (21 + 21 bits), int8, from 6 bytes each."""
    return _sample(BFV.lib.bfv_sample_error, n, rnd, "sampling an error polynomial")
