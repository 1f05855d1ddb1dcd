"""Prints what the assembly blocks of dpu/core take: ``python -m tests.dpu.counts`` (``make dpu-counts``).

Instructions of a run: one cycle each from 11 tasklets up, 11 below. The last column are instructions whose two
source registers are both even or both odd; an independent simulator charges a cycle for each, UPMEM's documents
say nothing. Every run is compared with Python's integers and with the twin in C.

Below them the hot loops beside what they may take, a block and whole compiled kernels (pybfv/bench/dpu_counts.py),
which may take 15 % more.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pybfv.bench.dpu_counts import COSTS

from .blocks import blocks
from .cases import CASES, Draw, twins

RUNS = 20
WHOLE = 1.15
"""Whole kernels beside their loops."""

TARGETS = (
    # what, at most, block, its argument, instructions of its loop that don't count, kernel (limbs, command, its loops)
    ("128-bit sum mod q", 18, "limb_add_mod", 0, 0, None),
    ("128-bit lazy sum, in registers", 7, "limb_sum_lazy/4", 4, 2, None),
    ("128-bit lazy sum, in memory", 11, "limb_sum_lazy/4", 4, 0, (4, 0x204, 11)),
    ("variance step, in registers", 75, "terms_square", 15, 0, (0, 0x103, 75)),
    ("regression cross step", 160, "terms_product", 7, 0, (0, 0x102, 160)),
    ("butterfly, forward", 60, "ntt_fast_forward", 0, 0, (0, 0x121, 60)),
    ("butterfly, inverse", 60, "ntt_fast_inverse", 0, 0, (0, 0x122, 64)),
    ("Karatsuba 128 x 128 bits onto a sum", 430, "limb_mac_4", 4, 0, (4, 0x211, 430)),
)
"""An inverse transform of 4096 words has a second product in the last of 12 stages."""


def rows() -> list[tuple[str, str, int, str, int, float]]:
    """(block, what, instructions in its text, executed, most allowed, mean of equal parity)."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        library = twins(Path(folder))
        for case in CASES:
            draw = Draw(1)
            runs = [case.check(case, library, draw) for _ in range(RUNS)]
            executed = sorted({run.executed for run in runs})
            taken = str(executed[0]) if len(executed) == 1 else f"{executed[0]} to {executed[-1]}"
            conflicts = sum(run.conflicts for run in runs) / RUNS
            found.append((case.block, case.what, blocks()[case.block].size, taken, case.at_most, conflicts))
    return found


def targets() -> list[tuple[str, int, float, tuple[float, float] | None]]:
    """(what, at most, instructions of the block for each step, of the whole kernel and at most)."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        library = twins(Path(folder))
        for what, most, block, argument, loop, kernel in TARGETS:
            cases = [c for c in CASES if c.block == block and (c.argument == argument or c.steps > 1)]
            taken = {c.steps: max(c.check(c, library, Draw(k)).executed for k in range(RUNS)) for c in cases}
            least, largest = min(taken), max(taken)
            each = taken[least] if least == largest else (taken[largest] - taken[least]) / (largest - least)
            whole = (COSTS[kernel[:2]].step, WHOLE * kernel[2]) if kernel else None
            found.append((what, most, each - loop, whole))
    return found


def main() -> None:
    print(f"{'block':24}{'what it computes':46}{'text':>5}{'executed':>13}{'at most':>9}{'parity':>8}")
    for block, what, size, taken, most, conflicts in rows():
        print(f"{block:24}{what:46}{size:5}{taken:>13}{most:9}{conflicts:8.1f}")
    print(f"\n{'for each step':46}{'at most':>9}{'block':>8}{'kernel':>9}{'at most':>9}")
    for what, most, each, whole in targets():
        tail = f"{whole[0]:9.1f}{whole[1]:9.1f}" if whole else ""
        print(f"{what:46}{most:9}{each:8.1f}{tail}")


if __name__ == "__main__":
    main()
