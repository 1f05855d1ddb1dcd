"""The simulated DPUs beside the cpu: how much slower a functional check is. No hardware's time."""

from __future__ import annotations

import numpy as np

from pybfv import native
from pybfv.bench.measure import Row, check, wall
from pybfv.bench.our_side import OurSide
from pybfv.params import get_set

SET, T = "n4096_q109", 1032193
COUNT = 2560
DPUS, TASKLETS = 64, 16
MODES = {"faithful": 0.1, "strict": 0.1 / 3}
"""What share of the cpu's speed each mode must keep."""


def measure() -> list[Row]:
    """Variance of the contributions on the NTT kernels: the simulator's speed over that of one cpu thread."""
    messages = np.random.default_rng(2).integers(0, T, (4, get_set(SET).n), dtype=np.int64)
    ours = OurSide(SET, T, messages, COUNT)
    expected = ours.backend.acc_save(ours.squares())
    cpu = wall(5, lambda: ours.backend.acc_save(ours.squares()))
    rows = []
    for mode, share in MODES.items():
        found, seconds = _simulated(ours, mode == "strict")
        check(np.array_equal(found, expected), f"the simulator in {mode} mode")
        name = f"simulator, {mode}, {DPUS} DPUs: variance of {COUNT}, share of the cpu's speed (one thread)"
        rows.append(Row(name, "", cpu / seconds, at_least=share))
    return rows


def _simulated(ours: OurSide, strict: bool) -> tuple[np.ndarray, float]:
    ps = get_set(SET)
    with native.Backend("sim", ps.n, ps.primes, dpus=DPUS, tasklets=TASKLETS, strict=strict) as backend:

        def work() -> np.ndarray:
            array = backend.put(ours.ciphertexts, borrow=True)
            acc = backend.acc_new("product", 3)
            backend.acc_mul(acc, array, 0, array, 0, 1, COUNT)
            saved = backend.acc_save(acc)
            backend.drop(array)
            return saved

        found = work()
        return found, wall(5, work)
