"""Encryption under the secret key, several vectors in one call of C. Nothing under pybfv/server may import this."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pybfv import native
from pybfv.native import Encoder, Ring
from pybfv.native.secret import Secret, wipe
from pybfv.scheme.random import PrivateStreams, expand_uniform, fresh_seeds


class SymmetricBatch:
    """Encodes and encrypts vectors under a secret key; part 1 of a ciphertext is a seed.

    Its buffers are used again from call to call, and the random bytes wiped after each. threads: 0 for all cores.
    """

    def __init__(self, ring: Ring, secret: Secret, threads: int = 1) -> None:
        self.ring, self.secret, self.threads = ring, secret, threads
        self._a = native.empty((0, len(ring.primes), ring.n))
        self._streams = PrivateStreams(native.error_bytes(ring.n))

    def encrypt(
        self,
        encoder: Encoder,
        rows: Sequence[np.ndarray | Sequence[int]],
        seeds: np.ndarray,
        out: np.ndarray,
        stride: int = 1,
    ) -> None:
        """Fresh encryptions of vectors of one length: vector k's seed to seeds[k * stride], uint8 [*, 32], and its
        part 0 to out[k * stride], ``out`` [*, L, N].
        """
        count = len(rows)
        if len(self._a) < count:
            self._a = native.empty((count, *self._a.shape[1:]))
        a, fresh = self._a[:count], fresh_seeds(count)
        for polynomial, seed in zip(a, fresh, strict=True):
            expand_uniform(self.ring, seed.tobytes(), polynomial)
        rnd = self._streams.draw(count)
        try:
            self.secret.encrypt_many(a, encoder, rows, rnd, out, stride, self.threads)
        finally:
            wipe(rnd)
        seeds[: count * stride : stride] = fresh
