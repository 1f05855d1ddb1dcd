"""The ring of ciphertexts behind one interface, for primes of two kinds.

`RnsArithmetic`: primes = 1 mod 2n below 2^30. Polynomials are uint32 [..., L, n] in NTT form, as in pybfv's files.
`WordArithmetic`: any odd primes below 2^61, SEAL's among them. Polynomials are uint64 [..., L, n] in coefficient form.
Whatever multiplies is done over integers, modulo enough auxiliary 28-bit primes to hold them, and then reduced mod q.

Both have a `ring` of 30-bit primes in which keys and encryptions are made by the library's own functions: `widen`
brings polynomials there (as they are, or as centred integers), `narrow` back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from pybfv import native
from pybfv.engine import Engine
from pybfv.errors import DataError
from pybfv.evaluator.accumulate import Pairs, sum_of_tensors
from pybfv.params import ParameterSet, wide_base, wide_primes
from pybfv.ring import encode_round
from pybfv.scheme.random import Stream, expand_uniform, fresh_seed

MAX_PAIRS = 4096
"""Products that one scaled dot can add up before it rounds."""


class Arithmetic(Protocol):
    """R_q and its ciphertext products; x, y: polynomials in storage form, [..., L, n]."""

    n: int
    primes: tuple[int, ...]
    q: int
    ring: native.Ring
    dtype: type

    def widen(self, x: np.ndarray) -> np.ndarray:
        """Storage form to `ring`, [..., L', n] in NTT form."""

    def narrow(self, x: np.ndarray) -> np.ndarray:
        """`ring` to storage form."""

    def check(self, x: np.ndarray, what: str) -> None:
        """DataError when a residue is not below its prime."""

    def uniform(self) -> np.ndarray:
        """A uniform polynomial, [L, n], from the operating system's randomness."""

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """x + y."""

    def sub(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """x - y."""

    def neg(self, x: np.ndarray) -> np.ndarray:
        """-x."""

    def scale(self, x: np.ndarray, k: int) -> np.ndarray:
        """k x, |k| < q."""

    def encoded(self, m: Sequence[int]) -> np.ndarray:
        """round(q m / t) of n coefficients m, over `ring`, [L', n] in coefficient form."""

    def encode(self, m: Sequence[int]) -> np.ndarray:
        """round(q m / t) in storage form, [L, n]."""

    def times(self, x: np.ndarray, p: Sequence[int]) -> np.ndarray:
        """x p for a polynomial p of n integers, |p_k| < q."""

    def fractions(self, x: np.ndarray) -> np.ndarray:
        """Coefficients of x / q, centred, float64 [..., n]; within 1e-12."""

    def scaled(self, pairs: Pairs, t: int, engine: Engine | None = None) -> np.ndarray:
        """round(t T / q), T the sum over 1 to MAX_PAIRS pairs of tensors of centred integers; [3, L, n].

        With an engine T is accumulated there, else here; it is the same.
        """

    def scale_free(self, pairs: Pairs, t: int, engine: Engine | None = None) -> np.ndarray:
        """t times the sum of tensors, mod q; [3, L, n]. The engine as for `scaled`."""

    def digits(self, x: np.ndarray, bits: int) -> list[np.ndarray]:
        """Integers D_d, int64 [n] each, with sum D_d g_d = x (mod q), g from `gadget`."""

    def gadget(self, bits: int) -> list[int]:
        """g_d mod q: (q/p_i) 2^(bits k), for primes i in order and pieces k of each."""

    def combine(self, digits: list[np.ndarray], keys: np.ndarray) -> np.ndarray:
        """Sum of D_d keys[d], keys [digits, 2, L', n] over `product ring`; storage form [2, L, n]."""

    def switched(self, parts: np.ndarray, keys: np.ndarray, bits: int) -> np.ndarray:
        """Three parts to two, [2, L, n]: the third one's digits of ``bits`` bits times keys, added to the others."""

    def widen_keys(self, keys: np.ndarray) -> np.ndarray:
        """Relinearisation keys in storage form as `combine` wants them."""


def pieces(p: int, bits: int) -> int:
    """Pieces of ``bits`` bits that a residue mod p is cut into; 0 bits: one."""
    return -(-p.bit_length() // bits) if bits else 1


def digit_bounds(primes: Sequence[int], bits: int) -> tuple[int, ...]:
    """The largest |D_d| of each digit."""
    found: list[int] = []
    for p in primes:
        count = pieces(p, bits)
        found += [p // 2] if count == 1 else [1 << (bits - 1)] * count
    return tuple(found)


def _cut(centred: np.ndarray, p: int, bits: int) -> list[np.ndarray]:
    """Centred residues mod p, int64 [n], as balanced pieces of ``bits`` bits; the last takes what is left."""
    count = pieces(p, bits)
    out = []
    for _ in range(count - 1):
        low = ((centred + (1 << (bits - 1))) & ((1 << bits) - 1)) - (1 << (bits - 1))
        out.append(low)
        centred = (centred - low) >> bits
    return [*out, centred]


def _gadget(primes: Sequence[int], bits: int) -> list[int]:
    q = math.prod(primes)
    return [(q // p << bits * k) % q for p in primes for k in range(pieces(p, bits))]


def _tensor(ring: native.Ring, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(a0 b0, a0 b1 + a1 b0, a1 b1) of ciphertexts [2, ., n] in NTT form over the ring."""
    out = native.empty((3, *a.shape[1:]))
    ring.mul(a[0], b[0], out[0])
    ring.add(ring.mul(a[0], b[1]), ring.mul(a[1], b[0]), out[1])
    ring.mul(a[1], b[1], out[2])
    return out


def _sum_of_tensors(ring: native.Ring, pairs: Pairs, lift) -> np.ndarray:
    total = None
    for a, b in pairs:
        left = lift(a)
        right = left if b is a else lift(b)
        product = _tensor(ring, left, right)
        total = product if total is None else ring.add(total, product, total)
    assert total is not None, "a sum of products has at least one"
    return total


def _polynomial(ring: native.Ring, p: Sequence[int]) -> np.ndarray:
    """A polynomial of n integers of any size over the ring, [L', n] in NTT form."""
    wide = max(max(p), -min(p)) >= 2**62
    x = np.array(p, dtype=object if wide else np.int64)
    out = native.empty((len(ring.primes), ring.n))
    for i, prime in enumerate(ring.primes):
        out[i] = x % prime
    return ring.forward(out)


def _first(primes: Sequence[int], size: int) -> tuple[int, ...]:
    """The first primes, as many as are needed for a product above ``size``."""
    product = 1
    for count, p in enumerate(primes, 1):
        product *= p
        if product > size:
            return tuple(primes[:count])
    return tuple(primes)


class RnsArithmetic:
    """The arithmetic of pybfv's own sets: primes = 1 mod 2n below 2^30."""

    dtype = np.uint32

    def __init__(self, n: int, primes: tuple[int, ...], t: int) -> None:
        self.n, self.primes, self.q = n, primes, math.prod(primes)
        self.ring = native.Ring(n, primes)
        self._encoder = native.Encoder.coefficients(self.ring, t)
        self._inverses = [pow(self.q // p, -1, p) for p in primes]

    @cached_property
    def _lifter(self) -> native.Lifter:
        return native.Lifter(
            self.ring, wide_primes(ParameterSet("insecure_evaluator", self.n, self.primes, insecure=True), MAX_PAIRS)
        )

    def widen(self, x: np.ndarray) -> np.ndarray:
        return x

    def narrow(self, x: np.ndarray) -> np.ndarray:
        return x

    def check(self, x: np.ndarray, what: str) -> None:
        self.ring.check_residues(x, what)

    def uniform(self) -> np.ndarray:
        return expand_uniform(self.ring, fresh_seed(), native.empty((len(self.primes), self.n)))

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.ring.add(x, y)

    def sub(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.ring.sub(x, y)

    def neg(self, x: np.ndarray) -> np.ndarray:
        return self.ring.neg(x)

    def scale(self, x: np.ndarray, k: int) -> np.ndarray:
        return self.ring.mul_scalar(x, [k % p for p in self.primes])

    def encoded(self, m: Sequence[int]) -> np.ndarray:
        return self._encoder.encode(m)

    def encode(self, m: Sequence[int]) -> np.ndarray:
        return self.ring.forward(self._encoder.encode(m))

    def times(self, x: np.ndarray, p: Sequence[int]) -> np.ndarray:
        factor = _polynomial(self.ring, p)
        return np.stack([self.ring.mul(part, factor) for part in x])

    def _residues(self, x: np.ndarray) -> np.ndarray:
        """[x_i (q/p_i)^-1] mod p_i, uint32 [..., L, n]: x/q is the sum of these over p_i, mod 1."""
        y = self.ring.inverse(x.copy())
        return self.ring.mul_scalar(y, self._inverses, y)

    def fractions(self, x: np.ndarray) -> np.ndarray:
        return self.ring.fractions(x)

    def scaled(self, pairs: Pairs, t: int, engine: Engine | None = None) -> np.ndarray:
        lifter = self._lifter
        if engine is None:
            return lifter.scaled_dot(pairs, t)
        return lifter.scale_round(sum_of_tensors(engine, self.n, self.primes, lifter.wide, pairs, lambda x: x), t)

    def scale_free(self, pairs: Pairs, t: int, engine: Engine | None = None) -> np.ndarray:
        if engine is not None:
            total = sum_of_tensors(engine, self.n, self.primes, (), pairs, lambda x: x)
        else:
            total = _sum_of_tensors(self.ring, pairs, lambda x: x)
        return self.scale(total, t)

    def digits(self, x: np.ndarray, bits: int) -> list[np.ndarray]:
        found: list[np.ndarray] = []
        for y, p in zip(self._residues(x).astype(np.int64), self.primes, strict=True):
            found += _cut(np.where(y > p // 2, y - p, y), p, bits)
        return found

    def gadget(self, bits: int) -> list[int]:
        return _gadget(self.primes, bits)

    def combine(self, digits: list[np.ndarray], keys: np.ndarray) -> np.ndarray:
        return _combine(self.ring, digits, keys)

    def switched(self, parts: np.ndarray, keys: np.ndarray, bits: int) -> np.ndarray:
        if bits:
            return self.add(parts[:2], self.combine(self.digits(parts[2], bits), keys))
        out = native.empty(keys.shape[1:])
        out[:] = parts[:2]
        return self.ring.switch_keys(parts[2], keys, out)

    def widen_keys(self, keys: np.ndarray) -> np.ndarray:
        return keys


def _combine(ring: native.Ring, digits: list[np.ndarray], keys: np.ndarray) -> np.ndarray:
    total = np.zeros(keys.shape[1:], dtype=np.uint32)
    for digit, key in zip(digits, keys, strict=True):
        factor = ring.forward(ring.from_int64(digit))
        for part, out in zip(key, total, strict=True):
            ring.add(out, ring.mul(part, factor), out)
    return total


class WordArithmetic:
    """The arithmetic of any odd primes below 2^61, in 64-bit words."""

    dtype = np.uint64

    def __init__(self, n: int, primes: tuple[int, ...], t: int) -> None:
        self.n, self.primes, self.q, self._t = n, primes, math.prod(primes), t
        # keys and encryptions: integers of less than 2 q n^2, as a part times s^2 is
        self.ring, self._lifter = self._base(_first(wide_base(n, self.q, 4 * n), 4 * n * n * self.q))
        self._moduli = np.array(primes, dtype=np.uint64)[:, None]
        self._inverses = [pow(self.q // p, -1, p) for p in primes]

    def _base(self, wide: Sequence[int]) -> tuple[native.Ring, native.Lifter64]:
        return native.Ring(self.n, wide), native.Lifter64(self.n, self.primes, wide)

    @cached_property
    def _products(self) -> tuple[native.Ring, native.Lifter64]:
        """A base for tensors; it holds a part times a polynomial below q too."""
        return self._base(wide_base(self.n, self.q, MAX_PAIRS))

    def widen(self, x: np.ndarray) -> np.ndarray:
        return self._lifter.lift(x)

    def narrow(self, x: np.ndarray) -> np.ndarray:
        return self._lifter.reduce(x)

    def check(self, x: np.ndarray, what: str) -> None:
        if (x >= self._moduli).any():
            raise DataError(f"{what}: a residue is not below its prime; the data are damaged or have other parameters")

    def uniform(self) -> np.ndarray:
        seed, out = fresh_seed(), np.empty((len(self.primes), self.n), dtype=np.uint64)
        for i, p in enumerate(self.primes):
            stream, filled, mask = Stream(seed, i), 0, np.uint64((1 << p.bit_length()) - 1)
            while filled < self.n:
                words = stream.read(8 * self.n).view("<u8") & mask
                words = words[words < p][: self.n - filled]
                out[i, filled : filled + len(words)] = words
                filled += len(words)
        return out

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        total = x + y  # below 2^62
        return np.where(total >= self._moduli, total - self._moduli, total)

    def sub(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.add(x, self.neg(y))

    def neg(self, x: np.ndarray) -> np.ndarray:
        return np.where(x == 0, x, self._moduli - x)

    def scale(self, x: np.ndarray, k: int) -> np.ndarray:
        ring, lifter = self._products
        return lifter.reduce(ring.mul_scalar(lifter.lift(x), [k % p for p in ring.primes]))

    def encoded(self, m: Sequence[int]) -> np.ndarray:
        scaled = self.encode(m)
        try:
            return self.ring.inverse(self._lifter.lift(scaled))
        finally:
            scaled.fill(0)  # the message

    def encode(self, m: Sequence[int]) -> np.ndarray:
        scaled = encode_round(m, self._t, self.q)
        return np.array([[x % p for x in scaled] for p in self.primes], dtype=np.uint64)

    def times(self, x: np.ndarray, p: Sequence[int]) -> np.ndarray:
        ring, lifter = self._products
        factor = _polynomial(ring, p)
        return lifter.reduce(np.stack([ring.mul(part, factor) for part in lifter.lift(x)]))

    def _residues(self, x: np.ndarray) -> list[np.ndarray]:
        """[x_i (q/p_i)^-1] mod p_i for each prime, objects [..., n]."""
        planes = zip(np.moveaxis(x, -2, 0), self._inverses, self.primes, strict=True)
        return [plane.astype(object) * inverse % p for plane, inverse, p in planes]

    def fractions(self, x: np.ndarray) -> np.ndarray:
        planes = zip(self._residues(x), self.primes, strict=True)
        total = sum((y / p).astype(np.float64) for y, p in planes)
        return total - np.rint(total)

    @cached_property
    def _narrow(self) -> native.Lifter64:
        """To the first primes of the products' base, as many as hold a part: the centred integers are the same."""
        return native.Lifter64(self.n, self.primes, _first(self._products[0].primes, self.q))

    def _tensors(self, pairs: Pairs, engine: Engine | None) -> np.ndarray:
        """The sum of tensors over the integers, mod the products' base."""
        ring, lifter = self._products
        if engine is None:
            return _sum_of_tensors(ring, pairs, lifter.lift)
        narrow = self._narrow
        return sum_of_tensors(engine, self.n, narrow.wide, lifter.wide[len(narrow.wide) :], pairs, narrow.lift)

    def scaled(self, pairs: Pairs, t: int, engine: Engine | None = None) -> np.ndarray:
        return self._products[1].scale_round(self._tensors(pairs, engine), t)

    def scale_free(self, pairs: Pairs, t: int, engine: Engine | None = None) -> np.ndarray:
        return self.scale(self._products[1].reduce(self._tensors(pairs, engine)), t)

    def digits(self, x: np.ndarray, bits: int) -> list[np.ndarray]:
        found: list[np.ndarray] = []
        for y, p in zip(self._residues(x), self.primes, strict=True):
            found += _cut(np.where(y > p // 2, y - p, y).astype(np.int64), p, bits)
        return found

    def gadget(self, bits: int) -> list[int]:
        return _gadget(self.primes, bits)

    def combine(self, digits: list[np.ndarray], keys: np.ndarray) -> np.ndarray:
        ring, lifter = self._products
        return lifter.reduce(_combine(ring, digits, keys))

    def switched(self, parts: np.ndarray, keys: np.ndarray, bits: int) -> np.ndarray:
        return self.add(parts[:2], self.combine(self.digits(parts[2], bits), keys))

    def widen_keys(self, keys: np.ndarray) -> np.ndarray:
        return self._products[1].lift(keys)
