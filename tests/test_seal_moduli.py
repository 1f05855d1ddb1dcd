"""Scaled products for SEAL's moduli on every backend: integers, lifted, accumulated mod the wide primes.

The residue of the accumulated integers mod one wide prime does not depend on the others, so a backend may take the wide
base in groups: limb kernels serve products of primes of up to 255 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from pybfv import native
from pybfv.params import wide_base
from pybfv.ring import Ring, negacyclic

MODULI = {
    72: (68719403009, 68719230977),
    174: (8796092858369, 8796092792833, 17592186028033, 17592185438209),
}
"""SEAL's default data levels at N = 4096 and 8192."""
BACKENDS = {
    "cpu": {},
    "cpu, portable": {"body": "portable"},
    "sim, ntt": {"dpus": 3, "tasklets": 5},
    "sim, limb": {"kernels": "limb", "dpus": 3, "tasklets": 5},
}


def groups(wide: Sequence[int]) -> list[slice]:
    """Neighbours of the wide base, each group's product below 2^255."""
    ends = [0]
    for i in range(1, len(wide) + 1):
        if i == len(wide) or math.prod(wide[ends[-1] : i + 1]).bit_length() > 255:
            ends.append(i)
    return [slice(a, b) for a, b in pairwise(ends)]


def ciphertexts(rng: np.random.Generator, n: int, primes: Sequence[int], count: int) -> tuple[np.ndarray, list]:
    """Residues uint64 [count, 2, L, n], and the centred integers: random ones, and the ends of the range."""
    q = math.prod(primes)
    edges = (0, 1, q - 1, q // 2, q // 2 + 1)
    drawn = [int.from_bytes(rng.bytes(40), "little") % q for _ in range(count * 2 * n)]
    drawn[: n + 3] = [edges[i % len(edges)] for i in range(n + 3)]  # the first part of all, and more
    drawn[2 * n : 4 * n] = [q // 2 + i % 2 for i in range(2 * n)]  # the largest products
    values = np.array(drawn, dtype=object).reshape(count, 2, n)
    words = np.stack([(values % p).astype(np.uint64) for p in primes], axis=2)
    return words, np.where(values > q // 2, values - q, values).tolist()


@pytest.mark.parametrize("n", [16, 64])
@pytest.mark.parametrize("bits", MODULI)
def test_partials_of_every_backend_are_the_tensor_over_the_integers(bits: int, n: int) -> None:
    primes, count, t = MODULI[bits], 5, 1032193
    q, wide = math.prod(primes), wide_base(n, math.prod(primes), count)
    words, centred = ciphertexts(np.random.default_rng([bits, n]), n, primes, count)
    tensor = np.zeros((3, n), dtype=object)
    pairs = [(0, 0), (1, 1), (2, 2), (3, 1), (4, 0)]  # squares, and products of two
    for (c0, c1), (d0, d1) in ((centred[a], centred[b]) for a, b in pairs):
        tensor[0] += np.array(negacyclic(c0, d0), dtype=object)
        tensor[1] += np.array(negacyclic(c0, d1), dtype=object) + np.array(negacyclic(c1, d0), dtype=object)
        tensor[2] += np.array(negacyclic(c1, d1), dtype=object)
    # the canonical state: residues of the integers in NTT form, by the definition of ring.py
    expected = np.array([[Ring(n, [p]).ntt([int(x) for x in part], 0) for p in wide] for part in tensor])

    with native.Lifter64(n, primes, wide) as lifter:
        lifted = lifter.lift(words)
        for name, options in BACKENDS.items():
            planes = []
            for group in groups(wide):
                with native.Backend(name.split(",")[0], n, wide[group], **options) as backend:
                    x = backend.put(np.ascontiguousarray(lifted[:, :, group]))
                    y = backend.put(np.ascontiguousarray(lifted[::-1, :, group]))
                    total, other, again = (backend.acc_new("product", 3) for _ in range(3))
                    backend.acc_mul(total, x, 0, x, 0, 1, 2)
                    backend.acc_mul(other, x, 2, y, 2, 1, count - 2)
                    backend.acc_load(again, backend.acc_save(other))
                    backend.acc_merge(total, again)
                    planes.append(backend.acc_save(total))
            state = np.concatenate(planes, axis=1)
            assert (state == expected).all(), name
        rounded = lifter.scale_round(np.ascontiguousarray(state), t)
    exact = [[(2 * t * int(x) + q) // (2 * q) for x in part] for part in tensor]
    assert rounded.tolist() == [[[x % p for x in part] for p in primes] for part in exact]


def test_only_the_wider_one_needs_two_groups() -> None:
    assert [len(groups(wide_base(8192, math.prod(primes), 2560))) for primes in MODULI.values()] == [1, 2]
