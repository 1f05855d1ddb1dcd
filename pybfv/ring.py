"""Exact arithmetic of the ring on Python integers: the definition that everything else is tested against.

R = Z[X]/(X^n + 1) and R_q = R/qR, q a product of distinct primes p_i = 1 mod 2n. A polynomial is a
list of n integers, constant coefficient first; residues are a list of L such lists, one per prime.
Nothing here is fast or constant time, and nothing may overflow or round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from pybfv.errors import PlanError

Poly = list[int]
Residues = list[list[int]]


def is_prime(x: int) -> bool:
    """Whether x is prime, by trial division: for x below about 2^40."""
    return x > 1 and all(x % d for d in range(2, math.isqrt(x) + 1))


def bit_reverse(x: int, bits: int) -> int:
    """The number whose ``bits`` binary digits are those of x, 0 <= x < 2^bits, in reverse order."""
    y = 0
    for _ in range(bits):
        x, y = x >> 1, y << 1 | x & 1
    return y


def smallest_root(n: int, p: int) -> int:
    """The smallest primitive 2n-th root of unity modulo the prime p = 1 mod 2n (SEAL's choice).

    Raises PlanError when there is none. n is a power of two, so psi is primitive when psi^n = -1,
    and all primitive roots are its odd powers.
    """
    if p % (2 * n) != 1:
        raise PlanError(f"prime {p} has no primitive {2 * n}-th root of unity: it is not = 1 mod {2 * n}")
    for g in range(2, p):
        psi = pow(g, (p - 1) // (2 * n), p)
        if pow(psi, n, p) == p - 1:
            break
    else:
        raise PlanError(f"{p} has no primitive {2 * n}-th root of unity: it is not prime")
    square, power, best = psi * psi % p, psi, psi
    for _ in range(n - 1):
        power = power * square % p
        best = min(best, power)
    return best


def slot_map(n: int) -> list[int]:
    """Slot i of a batched vector sits at NTT index slot_map(n)[i]: SEAL's BatchEncoder.

    The slots are two rows of n/2; row 0 holds the evaluations at psi^(3^i), row 1 those at psi^(-3^i).
    """
    bits, out, pos = n.bit_length() - 1, [0] * n, 1
    for i in range(n // 2):
        out[i] = bit_reverse((pos - 1) // 2, bits)
        out[i + n // 2] = bit_reverse((2 * n - pos - 1) // 2, bits)
        pos = pos * 3 % (2 * n)
    return out


def negacyclic(a: Sequence[int], b: Sequence[int]) -> Poly:
    """The product a b in Z[X]/(X^n + 1), schoolbook, over the integers."""
    n, out = len(a), [0] * len(a)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            if i + j < n:
                out[i + j] += x * y
            else:
                out[i + j - n] -= x * y
    return out


def centred_mod(x: int, q: int) -> int:
    """The representative of x mod q in [-q/2, q/2)."""
    return (x + q // 2) % q - q // 2


def encode_round(m: Sequence[int], t: int, q: int) -> Poly:
    """round(q m_k / t) mod q for each coefficient: the encoding (docs/noise.md).

    m: any integers (only m mod t matters); gcd(q, t) = 1. Out: [0, q). A tie (even t only) rounds
    down, so that round(q m / t) = (q m - r) / t with r = q m mod t in (-t/2, t/2].
    """
    return [-((t - 2 * q * (x % t)) // (2 * t)) % q for x in m]


def decode_round(x: Sequence[int], t: int, q: int) -> tuple[Poly, list[Fraction]]:
    """(m, eta): the message round(t x_k / q) mod t in [0, t), and the exact residual.

    x: integers mod q, the phase; q odd. eta = x - q m/t, centred mod q, so |eta| < q/(2t): it is the
    noise, encoding rounding included, if the noise is below q/(2t).
    """
    message, residual = [], []
    for value in x:
        value = centred_mod(value, q)
        k = (2 * t * value + q) // (2 * q)
        message.append(k % t)
        residual.append(value - Fraction(q * k, t))
    return message, residual


class Ring:
    """R_q for a dimension n (a power of two, 2 or more) and distinct primes = 1 mod 2n.

    Also serves the plaintext ring R_t of a composite batching t, with the factors of t as primes.
    PlanError when n or a prime breaks these rules.
    """

    def __init__(self, n: int, primes: Sequence[int]) -> None:
        if n < 2 or n & (n - 1):
            raise PlanError(f"ring dimension {n} is not a power of two")
        if not primes or len(set(primes)) != len(primes):
            raise PlanError("a ring needs one or more distinct primes")
        for p in primes:
            if not is_prime(p):
                raise PlanError(f"{p} is not prime")
        self.n, self.primes = n, tuple(primes)
        self.q = math.prod(primes)
        self.bits = n.bit_length() - 1
        self.roots = tuple(smallest_root(n, p) for p in primes)
        self._idempotents = [self.q // p * pow(self.q // p, -1, p) for p in self.primes]
        order = [bit_reverse(i, self.bits) for i in range(n)]
        self._twiddles = []
        for psi, p in zip(self.roots, self.primes, strict=True):
            powers = [1]
            for _ in range(n - 1):
                powers.append(powers[-1] * psi % p)
            self._twiddles.append([powers[k] for k in order])

    def to_residues(self, x: int) -> list[int]:
        """x mod each prime."""
        return [x % p for p in self.primes]

    def crt(self, residues: Sequence[int]) -> int:
        """The integer in [0, q) with these residues, one per prime."""
        return sum(r * e for r, e in zip(residues, self._idempotents, strict=True)) % self.q

    def centred(self, x: int) -> int:
        """The representative of x mod q in [-q/2, q/2)."""
        return centred_mod(x, self.q)

    def ntt_by_definition(self, a: Sequence[int], i: int) -> Poly:
        """[a(psi^(2 brv(k) + 1)) mod p_i for k < n], psi the smallest primitive root: SEAL's order."""
        p, out = self.primes[i], []
        for k in range(self.n):
            point = pow(self.roots[i], 2 * bit_reverse(k, self.bits) + 1, p)
            value = 0
            for c in reversed(a):
                value = (value * point + c) % p
            out.append(value)
        return out

    def ntt(self, a: Sequence[int], i: int) -> Poly:
        """ntt_by_definition in n log n steps (Cooley-Tukey; twiddles psi^brv(k), Longa and Naehrig 2016)."""
        p, w, a = self.primes[i], self._twiddles[i], [c % self.primes[i] for c in a]
        gap, groups = self.n // 2, 1
        while gap:
            for g in range(groups):
                twiddle = w[groups + g]
                for j in range(2 * g * gap, (2 * g + 1) * gap):
                    u, v = a[j], a[j + gap] * twiddle
                    a[j], a[j + gap] = (u + v) % p, (u - v) % p
            gap, groups = gap // 2, groups * 2
        return a

    def intt(self, a: Sequence[int], i: int) -> Poly:
        """The inverse of ntt: coefficients in [0, p_i)."""
        p, w, a = self.primes[i], self._twiddles[i], list(a)
        half = (p + 1) // 2
        gap, groups = 1, self.n // 2
        while groups:
            for g in range(groups):
                # psi^-e = -psi^(n - e): the inverse of twiddle groups + g is minus its mirror image.
                twiddle = p - w[2 * groups - 1 - g]
                for j in range(2 * g * gap, (2 * g + 1) * gap):
                    u, v = a[j], a[j + gap]
                    a[j], a[j + gap] = (u + v) * half % p, (u - v) * twiddle * half % p
            gap, groups = gap * 2, groups // 2
        return a

    def to_ntt(self, a: Sequence[int]) -> Residues:
        """The NTT form [L][n] of a polynomial with any integer coefficients."""
        return [self.ntt(a, i) for i in range(len(self.primes))]

    def from_ntt(self, residues: Sequence[Sequence[int]]) -> Poly:
        """The coefficients in [0, q) of a polynomial in NTT form [L][n]."""
        planes = [self.intt(plane, i) for i, plane in enumerate(residues)]
        return [self.crt(column) for column in zip(*planes, strict=True)]

    def add(self, a: Sequence[int], b: Sequence[int]) -> Poly:
        """a + b in R_q."""
        return [(x + y) % self.q for x, y in zip(a, b, strict=True)]

    def sub(self, a: Sequence[int], b: Sequence[int]) -> Poly:
        """a - b in R_q."""
        return [(x - y) % self.q for x, y in zip(a, b, strict=True)]

    def mul(self, a: Sequence[int], b: Sequence[int]) -> Poly:
        """a b in R_q, schoolbook: the definition, n^2 steps."""
        return [x % self.q for x in negacyclic(a, b)]

    def mul_ntt(self, a: Sequence[int], b: Sequence[int]) -> Poly:
        """a b in R_q through the NTT: the same as mul, for large n."""
        planes = zip(self.to_ntt(a), self.to_ntt(b), self.primes, strict=True)
        return self.from_ntt([[x * y % p for x, y in zip(u, v, strict=True)] for u, v, p in planes])

    def encode_slots(self, values: Sequence[int]) -> Poly:
        """The polynomial mod q (here the plaintext modulus) with these n slot values, in slot_map's order."""
        placed = [0] * self.n
        for index, value in zip(slot_map(self.n), values, strict=True):
            placed[index] = value
        return self.from_ntt([[v % p for v in placed] for p in self.primes])

    def decode_slots(self, a: Sequence[int]) -> Poly:
        """The n slot values in [0, q) of a polynomial: the inverse of encode_slots."""
        at = [self.crt(column) for column in zip(*self.to_ntt(a), strict=True)]
        return [at[index] for index in slot_map(self.n)]
