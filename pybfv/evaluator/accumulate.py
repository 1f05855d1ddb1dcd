"""Sums of tensors on a backend, as the statistics have them: lazily accumulated there, and exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pybfv import native
from pybfv.engine import Engine

Pairs = Sequence[tuple[np.ndarray, np.ndarray]]
"""Products to add up: parts [2, L, n] of two ciphertexts each, one array twice for a square."""
BATCH_BYTES = 32 << 20
"""Ciphertexts are handed to the backend in batches of about this size, so memory stays flat."""


def sum_of_tensors(
    engine: Engine,
    n: int,
    primes: Sequence[int],
    wide: Sequence[int],
    pairs: Pairs,
    residues: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """The sum of (a0 b0, a0 b1 + a1 b0, a1 b1) over the pairs, [3, L + K, n] in NTT form.

    It is over the integers, mod ``primes`` and ``wide``, or without wide primes mod ``primes`` alone.
    ``residues`` brings ciphertexts [count, 2, ., n] to residues mod ``primes``, uint32 in NTT form.
    """
    with engine.open(n, primes, wide) as backend:
        acc = backend.acc_new("scaled" if wide else "product", 3)
        squares = [pair for pair in pairs if pair[0] is pair[1]]
        others = [pair for pair in pairs if pair[0] is not pair[1]]
        size = _batch(backend)
        for some in (squares, others):
            for at in range(0, len(some), size):
                _add(backend, acc, some[at : at + size], residues)
        return backend.acc_save(acc)


def _batch(backend: native.Backend) -> int:
    """Pairs that are added in one call."""
    info = backend.info()
    if (info["name"], info["kernels"]) == ("sim", "limb"):
        return 1  # a product takes seconds on a simulator: so Ctrl-C is heard
    return max(1, BATCH_BYTES // (4 * len(backend.primes) * backend.n * 4))


def _add(backend: native.Backend, acc: native.Acc, pairs: Pairs, residues: Callable[[np.ndarray], np.ndarray]) -> None:
    """acc += the tensors of pairs that are all squares, or none of them."""
    a = _array(backend, [a for a, _ in pairs], residues)
    b = a if pairs[0][0] is pairs[0][1] else _array(backend, [b for _, b in pairs], residues)
    backend.acc_mul(acc, a, 0, b, 0, 1, len(pairs))
    backend.sync()  # a device may still be reading


def _array(
    backend: native.Backend, parts: list[np.ndarray], residues: Callable[[np.ndarray], np.ndarray]
) -> native.Array:
    return backend.put(np.ascontiguousarray(residues(np.stack(parts))), borrow=True)
