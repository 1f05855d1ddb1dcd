"""Prints what the assembly blocks of dpu/core take: ``python -m tests.dpu.counts`` (``make dpu-counts``).

Instructions of a run: one cycle each from 11 tasklets up, 11 below. The last column are instructions whose two
source registers are both even or both odd; an independent simulator charges a cycle for each, UPMEM's documents
say nothing. Every run is compared with Python's integers and with the twin in C.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from .blocks import blocks
from .cases import CASES, Draw, twins

RUNS = 20


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


def main() -> None:
    print(f"{'block':24}{'what it computes':46}{'text':>5}{'executed':>13}{'at most':>9}{'parity':>8}")
    for block, what, size, taken, most, conflicts in rows():
        print(f"{block:24}{what:46}{size:5}{taken:>13}{most:9}{conflicts:8.1f}")


if __name__ == "__main__":
    main()
