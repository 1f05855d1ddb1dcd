"""SEAL's side of `pybfv bench paper`, at each of the paper's levels."""

from __future__ import annotations

import pytest

from pybfv.bench.paper import measured
from pybfv.bench.paper.measured import OPERATIONS, Scale


@pytest.mark.parametrize(("n", "bits"), [(1024, 27), (2048, 54), (4096, 72)])
def test_seal_is_timed_at_every_level(n: int, bits: int) -> None:
    found = measured.seal(n, Scale("tiny", 1 << 20, 2, 1))
    assert found is not None
    assert round(found.bits) == bits
    assert set(found.times) == set(OPERATIONS)
    assert all(0 < t.seconds < 1 for t in found.times.values())
    assert found.times["product"].seconds > found.times["add"].seconds
