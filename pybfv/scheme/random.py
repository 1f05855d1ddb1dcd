"""Randomness: seeds from the operating system, expanded with AES-256 in counter mode.

Private randomness and the uniform halves that seeds stand for use the same expansion; FORMAT.md
states it byte by byte, since the second kind is part of the file format.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from pybfv import native
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
        block = index.to_bytes(4, "little") + bytes(12)
        self._encryptor = Cipher(algorithms.AES(bytes(seed)), modes.CTR(block)).encryptor()

    def read(self, size: int) -> np.ndarray:
        """The stream's next ``size`` bytes, uint8 [size]."""
        out = np.zeros(size + 15, dtype=np.uint8)
        done = self._encryptor.update_into(memoryview(out)[:size], memoryview(out))
        return out[:done]


def private_bytes(size: int) -> np.ndarray:
    """``size`` bytes that nobody else knows, from a seed that is used once and forgotten."""
    return private_streams(1, size)[0]


def private_streams(count: int, size: int, out: np.ndarray | None = None, threads: int = 1) -> np.ndarray:
    """``count`` times ``size`` bytes that nobody else knows, uint8 [count, size], each from a seed of its own."""
    out = np.empty((count, size), dtype=np.uint8) if out is None else out
    seeds = fresh_seeds(count)
    try:
        if not native.random_streams(seeds, out, threads):
            for row, seed in zip(out, seeds, strict=True):
                row[:] = Stream(seed.tobytes()).read(size)
    finally:
        seeds.fill(0)
    return out


def fresh_seeds(count: int) -> np.ndarray:
    """``count`` seeds as `fresh_seed` gives them, uint8 [count, 32]."""
    return np.frombuffer(bytearray(fresh_bytes(SEED_BYTES * count)), dtype=np.uint8).reshape(count, SEED_BYTES)


def expand_uniform(ring: Ring, seed: bytes, out: np.ndarray) -> np.ndarray:
    """The uniform polynomial of a public seed, residues [L, N] in NTT form, into ``out``."""
    if len(seed) != SEED_BYTES:
        raise InternalError(f"a seed has {SEED_BYTES} bytes, not {len(seed)}")
    return expand_seeds(ring, np.frombuffer(seed, dtype=np.uint8)[None], out[None])[0]


def expand_seeds(ring: Ring, seeds: np.ndarray, out: np.ndarray, threads: int = 1) -> np.ndarray:
    """The uniform polynomials of seeds, uint8 [count, 32], into ``out`` [count, L, N]."""
    if not ring.expand_seeds(seeds, out, threads):
        for seed, polys in zip(seeds, out, strict=True):
            _expand(ring, seed.tobytes(), polys)
    return out


def _expand(ring: Ring, seed: bytes, out: np.ndarray) -> None:
    """By the library that brings AES for every machine."""
    for i, p in enumerate(ring.primes):
        stream = Stream(seed, i)
        bits = p.bit_length()
        filled = 0
        while filled < ring.n:
            # expected words for what is missing, and a little more so that one read mostly does
            words = ((ring.n - filled) << bits) // p
            chunk = stream.read(4 * (words + words // 32 + 64))
            filled = ring.expand_uniform(i, chunk, out[i], filled)
