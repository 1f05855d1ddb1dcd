"""Bounds on the noise of every ciphertext an evaluator makes, known before the operation runs.

docs/evaluator.md derives them. A noise v is bounded in four norms at once (`Norms`): its largest
coefficient, which decides whether decryption is right, its Euclidean length, the Euclidean length of v s,
and its largest embedding |v(zeta)|, which multiplies. Fresh noise obeys its bound except with
probability 2^-FRESH_BITS; what operations add to it is worst case, so that the result of a circuit of
2^20 fresh ciphertexts obeys its own except with probability 2^-128, whatever the circuit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from pybfv.errors import PlanError
from pybfv.scheme.noise import (
    ERROR_VARIANCE,
    KeyFunctionals,
    embeddings,
    euclidean_bound,
    key_ceilings,
    sum_bound,
)

FRESH_BITS = 148
"""A fresh ciphertext's bounds fail with probability at most 2^-FRESH_BITS."""
HALF = 0.5
"""Largest |round(x) - x|."""
_UP = 1 + 2.0**-40
"""More than the rounding errors of any one bound in double precision."""


class NoiseError(PlanError):
    """An operation whose result could not be decrypted, refused before it runs."""


@dataclass(frozen=True, slots=True)
class Norms:
    """Upper bounds on a polynomial v: max |v_k|, ||v||, ||v s||, max |v(zeta)| (zeta^n = -1, s the secret)."""

    largest: float
    length: float
    keyed: float
    embedding: float

    def __add__(self, other: Norms) -> Norms:
        return Norms(
            _UP * (self.largest + other.largest),
            _UP * (self.length + other.length),
            _UP * (self.keyed + other.keyed),
            _UP * (self.embedding + other.embedding),
        )

    def times(self, factor: float) -> Norms:
        """The bounds on an integer multiple, |integer| <= factor."""
        up = _UP * factor
        return Norms(up * self.largest, up * self.length, up * self.keyed, up * self.embedding)

    def times_polynomial(self, p: Plain) -> Norms:
        """The bounds on v p for a known polynomial p."""
        return Norms(
            _UP * min(p.total * self.largest, p.length * self.length),
            _UP * p.embedding * self.length,
            _UP * p.embedding * self.keyed,
            _UP * p.embedding * self.embedding,
        )

    def times_noise(self, other: Norms, factor: float) -> Norms:
        """The bounds on factor v w for another noise w."""
        return Norms(
            _UP * factor * self.length * other.length,
            _UP * factor * min(self.embedding * other.length, self.length * other.embedding),
            _UP * factor * min(self.embedding * other.keyed, self.keyed * other.embedding),
            _UP * factor * self.embedding * other.embedding,
        )


@dataclass(frozen=True, slots=True)
class Plain:
    """A known integer polynomial's sum of |coefficients|, Euclidean length and largest embedding."""

    total: float
    length: float
    embedding: float


def measure_plain(coefficients: list[int]) -> Plain:
    """The norms of a plaintext polynomial with n centred coefficients below 2^512, rounded up."""
    x = np.array([float(c) for c in coefficients])
    scale = float(np.abs(x).max()) or 1.0  # squares of 512-bit numbers are beyond a double
    y = x / scale
    up = scale * (1 + 1e-9)
    total, length = float(np.abs(y).sum()), math.sqrt(float((y * y).sum()))
    return Plain(up * total, up * length, up * math.sqrt(float(embeddings(y).max())))


def _tail(n: int, bits: float) -> float:
    """tau with (n/2) tau exp(1 - tau) <= 2^-bits: |v(zeta)|^2 <= tau E|v(zeta)|^2 at all n/2 pairs of roots at once.

    For every v(zeta) whose projections on all directions are strictly sub-Gaussian with half the variance.
    """
    need = bits * math.log(2) + math.log(n / 2) + 1
    tau = need + 1
    for _ in range(60):  # a contraction: the derivative is 1/tau
        tau = need + math.log(tau)
    return tau * (1 + 1e-9)


@dataclass(frozen=True)
class Model:
    """All bounds for a ring dimension n, ciphertext modulus q and plaintext modulus t.

    Rests on the published ceilings on keys (pybfv.scheme.noise), which every key of a KeyGenerator meets.
    """

    n: int
    q: int
    t: int

    @property
    def _key(self) -> KeyFunctionals:
        return key_ceilings(self.n)

    @cached_property
    def secret_embedding(self) -> float:
        """Ceiling on |s(zeta)|."""
        return math.sqrt(self._key.r_max)

    # ceilings on what is drawn or public, each checked where it is relied on

    @cached_property
    def part_embedding(self) -> float:
        """Ceiling on |c_i(zeta)| / q of a ciphertext's centred part; a uniform part exceeds it once in 2^148."""
        return min(math.sqrt(self.n / 12 * _tail(self.n, FRESH_BITS)), self.n / 2)

    @cached_property
    def part_length(self) -> float:
        """Ceiling on ||c_i|| / q of a ciphertext's centred part (Bernstein's inequality); never above sqrt(n)/2."""
        need = FRESH_BITS * math.log(2) / self.n
        delta = need / 18 + math.sqrt((need / 18) ** 2 + need / 90)
        return math.sqrt(self.n * min(1 / 12 + delta, 1 / 4)) * _UP

    @cached_property
    def error_embedding(self) -> float:
        """Ceiling on |e(zeta)| of a relinearisation key's error."""
        return math.sqrt(ERROR_VARIANCE * self.n * _tail(self.n, FRESH_BITS))

    @cached_property
    def error_length(self) -> float:
        """Ceiling on ||e|| of a relinearisation key's error."""
        return euclidean_bound(self.n, ERROR_VARIANCE, ERROR_VARIANCE, ERROR_VARIANCE, FRESH_BITS)

    # noises

    def fresh(self, mode: str) -> Norms:
        """Bounds on a fresh encryption's noise, its encoding's rounding included; mode "public" or "symmetric"."""
        return _fresh(self.n, mode, self.secret_embedding)

    def rounding(self) -> Norms:
        """Bounds on a polynomial with coefficients of at most 1/2."""
        root = math.sqrt(self.n)
        return Norms(HALF, HALF * root, HALF * root * self.secret_embedding, HALF * self.n)

    def scaled_product(self, a: Norms, b: Norms) -> Norms:
        """Bounds on t/q (c(s) w + d(s) v) - t/q v w, the noise of a product before it is rounded."""
        t, s = _double(self.t), self.secret_embedding
        part, far = t * self.part_length, t * self.part_embedding
        length, keyed = a.length + b.length, a.keyed + b.keyed
        main = Norms(
            _UP * part * (length + keyed),
            _UP * far * (length + keyed),
            _UP * far * (1 + s) * keyed,
            _UP * far * (1 + s) * (a.embedding + b.embedding),
        )
        return main + a.times_noise(b, t / _double(self.q))

    def product_rounding(self) -> Norms:
        """Bounds on r0 + r1 s + r2 s^2, the rounding of a scaled product, coefficients of r_i at most 1/2."""
        key, s, root = self._key, self.secret_embedding, HALF * math.sqrt(self.n)
        length = root * (1 + s + s * s)
        largest = HALF + root * (math.sqrt(key.r_mean) + key.r_rms)
        return Norms(_UP * largest, _UP * length, _UP * s * length, _UP * HALF * self.n * (1 + s + s * s))

    def scale_free_product(self, a: Norms, b: Norms) -> Norms:
        """Bounds on t v w."""
        return a.times_noise(b, _double(self.t))

    def relinearisation(self, digits: tuple[int, ...]) -> Norms:
        """Bounds on the sum of D_i e_i for integer digits |D_i| <= digits[i]."""
        size = float(sum(digits))
        length = size * math.sqrt(self.n) * self.error_embedding
        return Norms(
            _UP * size * math.sqrt(self.n) * self.error_length,
            _UP * length,
            _UP * length * self.secret_embedding,
            _UP * size * self.n * self.error_embedding,
        )

    # the limit

    def bits_needed(self, v: Norms) -> float:
        """log2 of the smallest q that decrypts a noise v: 2 t |v| < q."""
        return math.log2(_double(self.t)) + 1 + math.log2(v.largest) if v.largest < math.inf else math.inf

    def decryptable(self, v: Norms) -> bool:
        """Whether 2 t |v_k| < q for certain."""
        return 2 * _double(self.t) * v.largest * _UP < _double(self.q)

    def check(self, v: Norms, operation: str, way_out: str) -> Norms:
        """v when its ciphertext can be decrypted; NoiseError naming operation, bits needed and bits there."""
        if self.decryptable(v):
            return v
        needed = self.bits_needed(v)
        size = f"a modulus q of {needed:.1f} bits" if needed < math.inf else "a modulus q beyond all bounds"
        raise NoiseError(
            f"{operation}: to be decrypted for certain, the result needs {size}, there are "
            f"{math.log2(self.q):.1f} (N = {self.n}, log2 t = {math.log2(self.t):.1f}); {way_out}"
        )


def _double(x: int) -> float:
    return float(x) if x.bit_length() < 1000 else math.inf


@lru_cache
def _fresh(n: int, mode: str, secret_embedding: float) -> Norms:
    """Each of the four bounds fails with probability 2^-(FRESH_BITS + 2) at most."""
    key, bits = key_ceilings(n), FRESH_BITS + 2
    largest = float(sum_bound(n, mode, 1, bits + math.log2(n)))  # PlanError for an unknown mode
    if mode == "public":
        w, rw = (key.w_mean, key.w_rms, key.w_max), (key.rw_mean, key.rw_rms, key.rw_max)
    else:
        w = (ERROR_VARIANCE,) * 3
        rw = tuple(ERROR_VARIANCE * r for r in (key.r_mean, key.r_rms, key.r_max))
    root = HALF * math.sqrt(n)
    length = euclidean_bound(n, *w, bits) + root
    keyed = euclidean_bound(n, *rw, bits) + root * secret_embedding
    embedding = math.sqrt(n * w[2] * _tail(n, bits)) + HALF * n
    return Norms(largest, _UP * length, _UP * keyed, _UP * embedding)
