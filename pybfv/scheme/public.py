"""What anyone with the public key can do: encrypt, and re-randomise and blind results.

Ciphertexts are uint32 arrays [parts, L, N], residues in NTT form. A fresh ciphertext's
phase is c0 + c1 s = round(q m / t) + e0 + e1 s - e u (docs/noise.md bounds the noise).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pybfv.native import Encoder, Ring
from pybfv.scheme.random import PrivateStreams, expand_uniform, fresh_seed, private_bytes

_LIMB_BITS = 60
"""Wide integers reach the ring in limbs that fit its 62-bit signed input."""


def public_polys(ring: Ring, seed: bytes, p0: np.ndarray) -> np.ndarray:
    """The public key (p0, a) as [2, L, N]; a is expanded from its seed."""
    out = np.empty((2, len(ring.primes), ring.n), dtype=np.uint32)
    out[0] = p0
    expand_uniform(ring, seed, out[1])
    return out


def encrypt(ring: Ring, pk: np.ndarray, scaled: np.ndarray | None, out: np.ndarray | None = None) -> np.ndarray:
    """A fresh public-key encryption [2, L, N] of a scaled plaintext [L, N] in coefficient form."""
    rnd = private_bytes(ring.encrypt_bytes(2))
    try:
        return ring.encrypt_public(pk, scaled, rnd, out)
    finally:
        rnd.fill(0)  # whoever has these bytes reads the message


class BatchEncryptor:
    """Encodes and encrypts vectors under one public key [2, L, N], several in one call of C.

    Its buffer of random bytes is used again from call to call and wiped after each: whoever has them reads messages.
    threads: 0 for all cores.
    """

    def __init__(self, ring: Ring, pk: np.ndarray, threads: int = 1) -> None:
        self.ring, self.pk, self.threads = ring, pk, threads
        self._streams = PrivateStreams(ring.encrypt_bytes(2))

    def encrypt(
        self, encoder: Encoder, rows: Sequence[np.ndarray | Sequence[int]], out: np.ndarray, stride: int = 1
    ) -> np.ndarray:
        """Fresh encryptions of vectors of one length: vector k to out[k * stride], ``out`` [*, 2, L, N]."""
        rnd = self._streams.draw(len(rows))
        try:
            return self.ring.encrypt_many(self.pk, encoder, rows, rnd, out, stride, self.threads)
        finally:
            rnd.fill(0)


def encrypt_zero(ring: Ring, pk: np.ndarray, parts: int) -> np.ndarray:
    """A fresh encryption of zero with 2 or 3 parts, the size of what it re-randomises."""
    if parts == 2:
        return encrypt(ring, pk, None)
    rnd = private_bytes(ring.encrypt_bytes(3))
    try:
        return ring.encrypt_zero3(pk, rnd)
    finally:
        rnd.fill(0)


def uniform_but_constant(ring: Ring) -> np.ndarray:
    """[L, N] in NTT form: coefficient 0 is zero, the others are uniform mod q.

    Added to a batched result it leaves the sum over all slots, N times coefficient 0, and hides
    everything else.
    """
    x = expand_uniform(ring, fresh_seed(), np.empty((len(ring.primes), ring.n), dtype=np.uint32))
    x[:, 0] = 0
    return ring.forward(x)


def random_integers(count: int, bits: int) -> list[int]:
    """``count`` uniform integers in [0, 2^bits)."""
    size = (bits + 7) // 8
    raw = private_bytes(count * size).tobytes()
    mask = (1 << bits) - 1
    return [int.from_bytes(raw[i * size : (i + 1) * size], "little") & mask for i in range(count)]


def mask_of_sum_zero(n: int, t: int) -> list[int]:
    """n integers mod t whose sum is 0 mod t; any n - 1 of them are uniform up to 2^-128 each."""
    mask = [x % t for x in random_integers(n, t.bit_length() + 128)]
    mask[0] = (mask[0] - sum(mask)) % t
    return mask


def flooding(ring: Ring, bits: int, count: int) -> np.ndarray:
    """[L, N] in NTT form: uniform integers in [-2^bits, 2^bits) in the first ``count`` coefficients."""
    total = np.zeros((len(ring.primes), ring.n), dtype=np.uint32)
    values = [x - (1 << bits) for x in random_integers(count, bits + 1)]
    for shift in range(0, bits + 2, _LIMB_BITS):
        # floor division keeps the sign in the top limb; lower limbs are non-negative
        last = shift + _LIMB_BITS >= bits + 2
        limb = np.zeros(ring.n, dtype=np.int64)
        for i, v in enumerate(values):
            part = v >> shift
            limb[i] = part if last else part & ((1 << _LIMB_BITS) - 1)
        plane = ring.from_int64(limb)
        total = ring.add(total, ring.mul_scalar(plane, [pow(2, shift, p) for p in ring.primes]))
    return ring.forward(total)
