"""Randomness: seeds from the operating system, expanded with AES-256 in counter mode.

Private randomness and the uniform halves that seeds stand for use the same expansion; FORMAT.md
states it byte by byte, since the second kind is part of the file format.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from pybfv.entropy import fresh_bytes
from pybfv.errors import InternalError
from pybfv.native import Ring

SEED_BYTES = 32


def fresh_seed() -> bytes:
    """32 bytes from the operating system's generator; InternalError rather than weak bytes."""
    return fresh_bytes(SEED_BYTES)


class Stream:
    """The AES-256-CTR key stream of a seed from counter block (prime index, 0, 0, 0)."""

    def __init__(self, seed: bytes, index: int = 0) -> None:
        if len(seed) != SEED_BYTES:
            raise InternalError(f"a seed has {SEED_BYTES} bytes, not {len(seed)}")
        self._seed = bytes(seed)
        self._encryptor = Cipher(algorithms.AES(self._seed), modes.CTR(self._block(index))).encryptor()

    @staticmethod
    def _block(index: int) -> bytes:
        return index.to_bytes(4, "little") + bytes(12)

    def restart(self, index: int) -> None:
        """Goes on with the key stream from another prime's counter block."""
        if hasattr(self._encryptor, "reset_nonce"):  # cryptography 43 and later; a new cipher is dearer
            self._encryptor.reset_nonce(self._block(index))
        else:
            self.__init__(self._seed, index)

    def read(self, size: int) -> np.ndarray:
        """The stream's next ``size`` bytes, uint8 [size]."""
        out = np.empty(size + _MORE, dtype=np.uint8)
        self.read_into(out, size)
        return out[:size]

    def read_into(self, out: np.ndarray, size: int) -> None:
        """The next ``size`` bytes into ``out``, uint8 with 15 bytes of room more, which are not written."""
        self._encryptor.update_into(_zeros(size), out)


_MORE = 15
"""Room that the library asks for beyond its output, for modes that fill up blocks."""


@lru_cache(maxsize=16)
def _zeros(size: int) -> bytes:
    """What is encrypted: the key stream itself comes out."""
    return bytes(size)


def private_bytes(size: int) -> np.ndarray:
    """``size`` bytes that nobody else knows, from a seed that is used once and forgotten."""
    return Stream(fresh_seed()).read(size)


class PrivateStreams:
    """A buffer of rows of ``size`` bytes that nobody else knows, each from a seed of its own; used again and again."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._buffer = np.empty(_MORE, dtype=np.uint8)

    def draw(self, count: int) -> np.ndarray:
        """``count`` fresh rows, uint8 [count, size], the caller's to wipe before the next call."""
        if len(self._buffer) < count * self.size + _MORE:
            self._buffer = np.empty(count * self.size + _MORE, dtype=np.uint8)
        for k in range(count):
            Stream(fresh_seed()).read_into(self._buffer[k * self.size :], self.size)
        return self._buffer[: count * self.size].reshape(count, self.size)


def fresh_seeds(count: int) -> np.ndarray:
    """``count`` seeds as `fresh_seed` gives them, uint8 [count, 32]."""
    return np.frombuffer(b"".join(fresh_seed() for _ in range(count)), dtype=np.uint8).reshape(count, SEED_BYTES)


@lru_cache(maxsize=64)
def _expansion(primes: tuple[int, ...], n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Bytes of each prime's stream that suffice but once in 2^20 or less often, and where each begins."""
    sizes = []
    for p in primes:
        share = p / 2.0 ** p.bit_length()  # of the words that are taken
        words = math.ceil((n + 5 * math.sqrt(n * (1 - share)) + 16) / share)
        sizes.append(4 * words)
    return tuple(sizes), tuple(accumulate(sizes, initial=0))


def expand_uniform(ring: Ring, seed: bytes, out: np.ndarray) -> np.ndarray:
    """The uniform polynomial of a public seed, residues [L, N] in NTT form, into ``out``."""
    sizes, starts = _expansion(ring.primes, ring.n)
    room, stream = np.empty(starts[-1] + _MORE, dtype=np.uint8), Stream(seed)
    for i, (start, size) in enumerate(zip(starts, sizes, strict=False)):
        if i > 0:
            stream.restart(i)
        stream.read_into(room[start:], size)
    for i, filled in enumerate(ring.expand_planes(room, sizes, out)):
        if filled < ring.n:
            stream.restart(i)
            stream.read(sizes[i])  # what has been looked at
        while filled < ring.n:
            filled = ring.expand_uniform(i, stream.read(4 * ring.n), out[i], filled)
    return out
