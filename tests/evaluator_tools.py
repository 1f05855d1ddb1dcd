"""Shared by the evaluator's tests: contexts of both kinds, and everything once more on Python integers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from math import isqrt, prod, sqrt

import numpy as np

from pybfv.evaluator import BatchEncoder, Ciphertext, CoefficientEncoder, Context, Decryptor, Encryptor, Evaluator
from pybfv.evaluator import KeyGenerator as Generator
from pybfv.evaluator.arithmetic import RnsArithmetic
from pybfv.ring import centred_mod, negacyclic
from pybfv.scheme.noise import embeddings

WORD_PRIMES = (2305843009213693951, 2305843009213693921, 1152921504606846883)
"""Two of 61 bits and one of 60, none = 1 mod 2n for n > 16: 2^61 - 1 among them."""


def slots_of_64() -> Context:
    """Eight primes, n = 64, slots for a composite t."""
    return Context("insecure_n64_q214", t=12289 * 40961, insecure=True)


def words_of_64() -> Context:
    """61-bit primes, n = 64, slots."""
    return Context(n=64, moduli=WORD_PRIMES, t=786433, insecure=True)


def coefficients_of_64() -> Context:
    """Eight primes, n = 64, t a power of two."""
    return Context("insecure_n64_q214", t=2**24, batching=False, insecure=True)


def odd_words_of_64() -> Context:
    """Small primes that are not = 1 mod 2n beside a large one: the 64-bit form, an odd composite t."""
    return Context(
        n=64, moduli=(1009, 2147483647, WORD_PRIMES[0], 2**31 + 11), t=3**9 * 5**4, batching=False, insecure=True
    )


KINDS = {f.__name__: f for f in (slots_of_64, words_of_64, coefficients_of_64, odd_words_of_64)}


class Party:
    """One key pair and everything that goes with it."""

    def __init__(self, context: Context) -> None:
        self.context, self.t, self.n = context, context.t, context.n
        self.keys = Generator(context)
        self.encoder = BatchEncoder(context) if context.batching else CoefficientEncoder(context)
        self.evaluator = Evaluator(context)
        self.public, self.symmetric = Encryptor(self.keys.public_key), Encryptor(self.keys.secret_key)
        self.decryptor = Decryptor(self.keys.secret_key)
        self.relin = self.keys.relin_keys()

    def encrypt(self, values: Sequence[int], mode: str = "public") -> Ciphertext:
        return getattr(self, mode).encrypt(self.encoder.encode(values))

    def decrypt(self, ct: Ciphertext) -> list[int]:
        return self.encoder.decode(self.decryptor.decrypt(ct))

    def product(self, a: Sequence[int], b: Sequence[int]) -> list[int]:
        """What the plaintexts' product is, mod t."""
        if self.context.batching:
            return [x * y % self.t for x, y in zip(a, b, strict=True)]
        return [x % self.t for x in negacyclic(a, b)]


@cache
def party(kind: str) -> Party:
    """A party for one of KINDS, made once."""
    return Party(KINDS[kind]())


def vector(rng: random.Random, n: int, t: int) -> list[int]:
    """n integers in [0, t): uniform, the extremes, or bits in runs."""
    style = rng.randrange(4)
    if style == 0:
        return [rng.choice((0, 1, t - 1, t // 2, t // 2 + 1)) for _ in range(n)]
    if style == 1:
        return [(1 << rng.randrange(t.bit_length() + 1)) % t for _ in range(n)]
    if style == 2:
        return [((1 << rng.randrange(t.bit_length() + 1)) - 1) % t for _ in range(n)]
    return [rng.randrange(t) for _ in range(n)]


# --- ciphertexts as Python integers


def joined(residues: Sequence[int], primes: Sequence[int]) -> int:
    q = prod(primes)
    return sum(int(r) * (q // p) * pow(q // p, -1, p) for r, p in zip(residues, primes, strict=True)) % q


def integers(context: Context, poly: np.ndarray) -> list[int]:
    """The centred coefficients of a stored polynomial [L, n]."""
    arithmetic = context.arithmetic
    x = arithmetic.ring.inverse(poly.copy()) if isinstance(arithmetic, RnsArithmetic) else poly
    return [centred_mod(joined(column, context.moduli), context.q) for column in x.T.tolist()]


def parts_of(ct: Ciphertext) -> list[list[int]]:
    return [integers(ct.context, part) for part in ct.parts]


def secret_of(p: Party) -> list[int]:
    return p.keys.secret_key.coefficients().astype(int).tolist()


def phase_of(p: Party, ct: Ciphertext) -> list[int]:
    """c0 + c1 s + c2 s^2 mod q, centred, schoolbook."""
    s, power, total = secret_of(p), None, [0] * p.n
    for part in parts_of(ct):
        term = part if power is None else negacyclic(part, power)
        power = s if power is None else negacyclic(power, s)
        total = [x + y for x, y in zip(total, term, strict=True)]
    return [centred_mod(x, p.context.q) for x in total]


def noise_of(p: Party, ct: Ciphertext, plain: Sequence[int]) -> list[Fraction]:
    """The exact noise: phase - q f m / t for the plaintext polynomial m, centred mod q."""
    q, t = p.context.q, p.t
    found = []
    for x, m in zip(phase_of(p, ct), plain, strict=True):
        w = t * x - q * (ct.factor * m % t)
        w = (w + q * t // 2) % (q * t) - q * t // 2
        found.append(Fraction(w, t))
    return found


def length_of(x: Sequence[Fraction | int]) -> float:
    """The Euclidean length, rounded up to an integer's root."""
    return float(isqrt(int(sum(v * v for v in x))) + 1)


def norms_of(p: Party, noise: Sequence[Fraction]) -> tuple[float, float, float, float]:
    """The four norms of an exact noise: largest, length, length of v s, largest embedding."""
    t = p.t
    w = [int(v * t) for v in noise]
    keyed = negacyclic(w, secret_of(p))
    far = sqrt(float(embeddings(np.array([v / t for v in w])).max()))
    return max(map(abs, w)) / t, length_of(w) / t, length_of(keyed) / t, far
