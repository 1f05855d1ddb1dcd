"""What the benchmarks share: rows, timing, the machine's name."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pybfv import native


@dataclass(frozen=True, slots=True)
class Row:
    """One measured line. ``ours``, ``seal``: in ``unit``; ``seal`` is None where SEAL has no counterpart.

    ``at_least``, ``above``, ``below``: the target, for the ratio where there is one, else for ``ours``.
    """

    name: str
    unit: str
    ours: float
    seal: float | None = None
    at_least: float | None = None
    above: float | None = None
    below: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times faster than SEAL."""
        return None if self.seal is None else self.seal / self.ours

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without target."""
        value = self.ours if self.ratio is None else self.ratio
        if self.at_least is not None:
            return value >= self.at_least
        if self.above is not None:
            return value > self.above
        return None if self.below is None else value < self.below


def wall(repeats: int, work: Callable[[], object]) -> float:
    """The median wall-clock seconds of a work that also waits for files."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return median(times)


def check(right: bool, what: str) -> None:
    """A benchmark of wrong results is worth nothing."""
    if not right:
        raise SystemExit(f"bench: {what} gave a wrong result; no figure is printed")


def machine() -> str:
    """The CPU's model, and the kernel body that runs on it."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.M)
        model = found[1].strip() if found else model
    return f"{model}, {native.bodies()[0]}"
