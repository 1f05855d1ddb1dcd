"""Our side of the exchange: keys, encryptions and accumulations from the library's own functions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod

import numpy as np
from sealio import Judge

from pybfv import native
from pybfv.client.keys import draw_secret
from pybfv.native.secret import Secret, round_phase
from pybfv.params import get_set
from pybfv.scheme import public
from pybfv.scheme.random import expand_uniform, fresh_seed, private_bytes

ANY_NOISE = 2**63 - 1
"""round_phase's bound in units of 2^-64: just below one half, so nothing is refused."""


class Keys:
    """A key pair over a ring, and what it is used for."""

    def __init__(self, n: int, primes: Sequence[int], s: np.ndarray | None = None) -> None:
        self.ring = native.Ring(n, primes)
        drawn, error = draw_secret(n)
        self.s = drawn if s is None else s
        self.secret = Secret(self.ring, self.s)
        a = self.uniform()
        self.pk = np.stack([self.secret.public(a, error), a])

    def uniform(self) -> np.ndarray:
        """A uniform polynomial in NTT form."""
        shape = (len(self.ring.primes), self.ring.n)
        return expand_uniform(self.ring, fresh_seed(), np.empty(shape, dtype=np.uint32))

    def encrypt(self, mode: str, scaled: np.ndarray) -> np.ndarray:
        """[2, L, N] of a scaled plaintext; mode "public" or "symmetric"."""
        if mode == "public":
            return public.encrypt(self.ring, self.pk, scaled)
        a = self.uniform()
        c0 = self.secret.encrypt(a, scaled, private_bytes(native.error_bytes(self.ring.n)))
        return np.stack([c0, a])

    def decrypt(self, ct: np.ndarray, t: int) -> list[int]:
        """The N coefficients mod t of a ciphertext of factor 1."""
        return round_phase(self.ring, self.secret.phase(ct), t, 0, self.ring.n, ANY_NOISE)


class Job:
    """Messages under one key pair: we encode and encrypt, SEAL decrypts and decodes.

    ``t``: any plaintext modulus for coefficients, or a tuple of batching primes for slots.
    """

    def __init__(self, set_name: str, t: int | tuple[int, ...]) -> None:
        ps = get_set(set_name)
        self.n, self.q = ps.n, ps.q
        self.keys = Keys(ps.n, ps.primes)
        ring = self.keys.ring
        self.t_primes = t if isinstance(t, tuple) else ()
        self.t = prod(self.t_primes) if isinstance(t, tuple) else t
        batched = bool(self.t_primes)
        self.encoder = (
            native.Encoder.batched(ring, self.t_primes) if batched else native.Encoder.coefficients(ring, self.t)
        )
        self.judge = Judge(ps.n, ps.primes, self.t)
        # SEAL has no slots for a composite t, but a plaintext mod t is one mod each of its primes
        self._by_prime = [Judge(ps.n, ps.primes, p) for p in self.t_primes] if len(self.t_primes) > 1 else []

    def encrypt(self, mode: str, values: Sequence[Sequence[int]]) -> np.ndarray:
        """[count, 2, L, N]."""
        return np.stack([self.keys.encrypt(mode, self.encoder.encode(m)) for m in values])

    def seal_reads(self, ct: np.ndarray) -> list[int]:
        """What SEAL finds in our ciphertext, in [0, t): slots where we batch, else coefficients."""
        plain = self.judge.decrypt(ct, self.keys.s)
        if len(self.t_primes) == 1:
            return self.judge.slots(plain)
        found = self.judge.read_plaintext(plain)
        if not self.t_primes:
            return found
        total = [0] * self.n
        for judge, p in zip(self._by_prime, self.t_primes, strict=True):
            unit = self.t // p * pow(self.t // p, -1, p)
            slots = judge.slots(judge.plaintext([c % p for c in found]))
            total = [(x + unit * slot) % self.t for x, slot in zip(total, slots, strict=True)]
        return total


def messages(count: int, n: int, t: int, seed: int) -> list[list[int]]:
    """``count`` vectors of N uniform integers in [0, t), the extremes among them."""
    rng = random.Random(seed)
    found = [[rng.randrange(t) for _ in range(n)] for _ in range(count)]
    for m in found:
        m[0], m[-1] = t - 1, t - 1
    return found


def _accumulate(ring: native.Ring, arrays: list[np.ndarray], kind: str, factor: int) -> np.ndarray:
    with native.Backend("cpu", ring.n, ring.primes) as backend:
        acc = backend.acc_new(kind, 3 if kind == "product" else 2)
        handles = [backend.put(a) for a in arrays]
        count = len(arrays[0])
        if kind == "sum":
            backend.acc_add(acc, handles[0], 0, 1, count)
        else:
            backend.acc_mul(acc, handles[0], 0, handles[-1], 0, 1, count)
        return backend.get(backend.acc_finish(acc, [factor % p for p in ring.primes]))[0]


def total(ring: native.Ring, cts: np.ndarray) -> np.ndarray:
    """The sum of ciphertexts [count, 2, L, N], finished."""
    return _accumulate(ring, [cts], "sum", 1)


def products(ring: native.Ring, a: np.ndarray, b: np.ndarray, t: int) -> np.ndarray:
    """The scale-free sum of products of ciphertexts [count, 2, L, N], finished: 3 parts, factor -q."""
    return _accumulate(ring, [a, b], "product", t)


def negacyclic(a: Sequence[Sequence[int]], b: Sequence[Sequence[int]]) -> list[int]:
    """sum_i a_i b_i in Z[X]/(X^N + 1), non-negative coefficients, by one big product each (Kronecker)."""
    n = len(a[0])
    size = (max(map(max, a)) * max(map(max, b)) * n * len(a)).bit_length() // 8 + 1

    def packed(x: Sequence[int]) -> int:
        return int.from_bytes(b"".join(v.to_bytes(size, "little") for v in x), "little")

    big = sum(packed(x) * packed(y) for x, y in zip(a, b, strict=True)).to_bytes(2 * n * size, "little")
    c = [int.from_bytes(big[i : i + size], "little") for i in range(0, len(big), size)]
    return [low - high for low, high in zip(c[:n], c[n:], strict=True)]


def slotwise(a: Sequence[Sequence[int]], b: Sequence[Sequence[int]]) -> list[int]:
    """sum_i a_i b_i slot by slot."""
    pairs = [[x * y for x, y in zip(u, v, strict=True)] for u, v in zip(a, b, strict=True)]
    return [sum(column) for column in zip(*pairs, strict=True)]
