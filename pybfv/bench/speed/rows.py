"""Rows of the comparison, and how two works are measured against each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

import numpy as np

SETS = {
    1024: ("n1024_q26", 12289),
    2048: ("n2048_q53", 12289),
    4096: ("n4096_q109", 1032193),
    8192: ("n8192_q187", 1032193),
}
"""By N the set that is compared and t: prime and 1 mod 2N, so that both sides have slots."""


def fits_products(n: int) -> bool:
    """Whether noise leaves room for a product there; below, products are checked mod q."""
    return n >= 4096


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured. ``count``: ciphertexts in memory; ``repeats``: of a work; ``sizes``: N."""

    name: str
    count: int
    repeats: int
    batch: int
    sizes: tuple[int, ...] = (1024, 2048, 4096, 8192)
    files: bool = True


WHOLE = Scale("whole", 2560, 9, 64)
QUICK = Scale("quick", 512, 3, 16, files=False)

SQUARES, MESSAGES, GROUPS = 48, 16, 6
"""SEAL's squares and regression groups in one repetition, its time being proportional to them; distinct messages."""


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """A job on both sides, in microseconds: of one ciphertext, key or contributor as the job says.

    ``against``: what the other time is of. ``seal_us``: SEAL's; ``other_us``: another's than SEAL's. ``ratio``: the
    median over repetitions of the other's time over ours; ``spread``: the distance of its quartiles over it.
    ``at_least``: what is asked of the ratio.
    """

    job: str
    set: str
    threads: int
    against: str
    ours_us: float
    seal_us: float | None
    ratio: float
    at_least: float | None
    spread: float
    other_us: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the ratio is what is asked; None where nothing is."""
        return None if self.at_least is None else self.ratio >= self.at_least

    def document(self) -> dict[str, Any]:
        """The row as JSON has it."""
        return {
            "job": self.job, "set": self.set, "threads": self.threads, "against": self.against,
            "ours_us": self.ours_us, "seal_us": self.seal_us, "other_us": self.other_us, "ratio": self.ratio,
            "at_least": self.at_least, "spread": self.spread, "met": self.met,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """Something to measure: a call, and how many units (ciphertexts, ...) it does."""

    call: Callable[[], object]
    units: float = 1


@dataclass(slots=True)
class Pair:
    """Times of two works that ran in turn, in microseconds a unit."""

    ours: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)

    def row(
        self, job: str, set_name: str, against: str, at_least: float | None = None, threads: int = 1,
        seal: bool = True,
    ) -> SpeedRow:  # fmt: skip
        """The row; ``seal``: the other is SEAL."""
        ratios = [b / a for a, b in zip(self.ours, self.others, strict=True)]
        middle, other = median(ratios), median(self.others)
        low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else (middle, middle, middle)
        return SpeedRow(
            job, set_name, threads, against, median(self.ours), other if seal else None, middle, at_least,
            (high - low) / middle, None if seal else other,
        )  # fmt: skip


def alternate(
    repeats: int, ours: Work, other: Work, clock: Callable[[], float] = time.process_time, least: float = 0.02
) -> Pair:
    """Both works in turn, ``repeats`` times after a warm-up; short ones several times in a row, for ``least`` seconds.

    CPU time of the whole process unless another clock is given: what else runs on the machine counts less, and a
    second thread would count as well.
    """
    rounds = []
    for work in (ours, other):
        work.call()
        start = clock()
        work.call()
        rounds.append(1 + min(1000, int(least / max(clock() - start, 1e-6))))
    pair = Pair()
    for _ in range(repeats):
        for work, many, found in zip((ours, other), rounds, (pair.ours, pair.others), strict=True):
            start = clock()
            for _ in range(many):
                work.call()
            found.append(max(clock() - start, 1e-9) / many / work.units * 1e6)
    return pair


def random_messages(n: int, t: int, seed: int = 1) -> np.ndarray:
    """Dense messages, int64 [MESSAGES, n] below t."""
    return np.random.default_rng(seed).integers(0, t, (MESSAGES, n), dtype=np.int64)
