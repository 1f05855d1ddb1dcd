"""Modelled time: what a launch or a transfer would take on UPMEM hardware. docs/time-model.md explains every number.

Pure functions of counts; nothing here measures. Times are seconds, sizes bytes, clocks MHz.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

from pybfv.bench.dpu_counts import COSTS, LAUNCH, UNIT, Cost

CLOCKS = (350.0, 425.0)
"""MHz: UPMEM's documented clock, and the one that the published system states."""

PIPELINE = 11
"""A tasklet issues an instruction every 11 cycles at most; 11 of them fill the pipeline."""

DMA_READ, DMA_WRITE, DMA_PER_BYTE = 77.0, 61.0, 0.5
"""Cycles of a DMA transfer beside its bytes, and of a byte: PrIM, section 3.2. A DPU moves one transfer at a time."""


@dataclass(frozen=True, slots=True)
class Dma:
    """DMA transfers: how many of each direction, and all their bytes."""

    reads: int = 0
    writes: int = 0
    bytes: int = 0

    @property
    def cycles(self) -> float:
        """The engine's, one transfer after the other."""
        return DMA_READ * self.reads + DMA_WRITE * self.writes + DMA_PER_BYTE * self.bytes


def cycles(instructions: float, longest: float, dma: Dma, longest_dma: Dma) -> float:
    """Cycles of a launch on one DPU.

    The largest of three: one instruction a cycle; the tasklet with the most to do, 11 cycles an
    instruction and standing still during its own transfers; the DMA engine. ``instructions``: of all
    tasklets; ``longest``, ``longest_dma``: of that one tasklet.
    """
    return max(instructions, PIPELINE * longest + longest_dma.cycles, dma.cycles)


# --- launches, as pybfv.native.Backend.events tells them


def instructions(event: Mapping[str, Any]) -> float:
    """Instructions of the DPU with the most work in a launch; KeyError for a command that was never counted."""
    command, count, positions = event["command"], event["count"], event["positions"]
    cost = _cost(event)
    n = 1 << event["log_n"]
    if command in (0x101, 0x102, 0x103):
        results = positions * UNIT * event["parts"]
        passes = count * (results if command == 0x101 else positions * UNIT)
    elif command in (0x111, 0x112, 0x113, 0x114):
        passes, results = count * positions * UNIT * (1 if command == 0x114 else event["parts"]), 0
    elif command in (0x121, 0x122):
        stages = count * event["log_n"]
        passes, results = stages * n // 2, stages
    elif command in (0x211, 0x212):
        passes, results = count * positions * n * (3 if command == 0x212 else 1), positions
    else:
        passes, results = count * positions, positions
    return (
        LAUNCH
        + cost.step * passes
        + cost.finish * results
        + cost.read * event["reads"]
        + cost.tasklet * event["tasklets"]
    )


def _cost(event: Mapping[str, Any]) -> Cost:
    return COSTS[event["primes"] if event["command"] >= 0x200 else 0, event["command"]]


def launch_seconds(event: Mapping[str, Any], clock: float, conflicts: bool = False) -> float:
    """One launch; all DPUs run at once, so it takes what the one with the most work takes.

    The longest tasklet's share of the instructions is taken to be its share of the bytes that were moved.
    ``conflicts``: each instruction with two sources of equal parity takes the pipeline for a cycle more.
    """
    total = instructions(event)
    dma = Dma(event["reads"], event["writes"], event["read_bytes"] + event["write_bytes"])
    busiest = Dma(event["busiest_reads"], event["busiest_writes"], event["busiest_bytes"])
    share = busiest.bytes / dma.bytes if dma.bytes else 1.0
    issued = total * (1 + _cost(event).conflicts) if conflicts else total
    return cycles(issued, total * share, dma, busiest) / (clock * 1e6)


# --- transfers between host and DPUs

_SIZES = (32, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 32 << 20)
_MRAM: dict[bool, dict[int, tuple[float, ...]]] = {
    True: {
        64: (59, 86, 155, 879, 1_817, 6_608, 326_598),
        512: (196, 258, 557, 4_352, 10_293, 28_482, 1_115_329),
        2048: (276, 484, 1_401, 4_926, 18_053, 51_033, 1_477_654),
    },
    False: {
        64: (157, 212, 364, 2_317, 5_589, 20_051, 787_607),
        512: (255, 543, 1_658, 10_299, 29_928, 112_678, 3_596_624),
        2048: (373, 901, 3_289, 14_257, 46_837, 184_276, 5_462_982),
    },
}
"""Microseconds of one push to (True) or from MRAM, by DPUs, then by bytes of each DPU (_SIZES)."""

_WRAM_SIZES = {64: (8, 64, 1 << 10, 32 << 10), 2048: (8, 1 << 10)}
_WRAM = {64: (230.0, 464.0, 3_771.0, 119_893.0), 2048: (459.0, 8_445.0)}
"""The same to or from WRAM."""

_RANK = 64
_ONE_DPU = {True: 0.33e9, False: 0.12e9}
"""Bytes a second of one DPU alone, to it or from it: PrIM, Fig. 10."""
_WHOLE_RANK = {True: 6.68e9, False: 4.74e9, None: 16.88e9}
"""Of a rank of 64 in one push to or from it, and in a broadcast (None), there."""


def _between(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """y at x on the broken line through the points, in logarithms; below the first point y stays, beyond the last it
    grows in proportion to x."""
    if x <= xs[0]:
        return ys[0]
    if x >= xs[-1]:
        return ys[-1] * x / xs[-1]
    i = bisect_right(xs, x)
    slope = log(ys[i] / ys[i - 1]) / log(xs[i] / xs[i - 1])
    return ys[i - 1] * exp(slope * log(x / xs[i - 1]))


def transfer_seconds(size: int, dpus: int, *, to_dpus: bool, wram: bool = False, way: str = "parallel") -> float:
    """One transfer of ``size`` bytes to or from each of ``dpus`` DPUs, 1 or more.

    ``way``: "parallel", "gather" (taken as parallel), "broadcast" or "serial" (one DPU after the other). Times
    between the measured points are interpolated in logarithms; beyond 2,048 DPUs the bandwidth no longer grows.
    """
    if way == "serial" and dpus > 1:
        return dpus * transfer_seconds(size, 1, to_dpus=to_dpus, wram=wram, way=way)
    table, sizes = (_WRAM, _WRAM_SIZES) if wram else (_MRAM[to_dpus], dict.fromkeys(_MRAM[to_dpus], _SIZES))
    ranks = sorted(table)
    times = [_between(size, sizes[d], table[d]) for d in ranks]
    if dpus >= _RANK:
        us = _between(dpus, ranks, times)
    else:  # a rank's bandwidth grows with its DPUs, but less than they do
        growth = log(_RANK * _ONE_DPU[to_dpus] / _WHOLE_RANK[to_dpus]) / log(_RANK)
        us = times[0] * (dpus / _RANK) ** growth
    if way == "broadcast" and not wram:
        us *= _WHOLE_RANK[True] / _WHOLE_RANK[None]
    return us / 1e6


# --- all that a backend did


@dataclass(frozen=True, slots=True)
class Modelled:
    """Seconds on hardware, modelled: kernels, and transfers to and from the DPUs (of MRAM and of WRAM)."""

    kernel: float
    to_dpus: float
    from_dpus: float

    @property
    def end_to_end(self) -> float:
        """Kernels and transfers one after the other: a DPU's memory can't be reached while it runs. Without the host's
        own work."""
        return self.kernel + self.to_dpus + self.from_dpus


def price(events: Iterable[Mapping[str, Any]], clock: float) -> Modelled:
    """The time of everything that a backend recorded (pybfv.native.Backend.events) at ``clock`` MHz."""
    sums = {"launch": 0.0, "to_dpus": 0.0, "from_dpus": 0.0}
    for event in events:
        kind = event["kind"]
        if kind == "launch":
            one = launch_seconds(event, clock)
        else:
            one = transfer_seconds(
                event["bytes"], event["dpus"], to_dpus=kind == "to_dpus", wram=event["wram"], way=event["way"]
            )
        sums[kind] += one * event["times"]
    return Modelled(sums["launch"], sums["to_dpus"], sums["from_dpus"])


def summary(events: Iterable[Mapping[str, Any]]) -> str:
    """One line: what hardware would take for what was recorded."""
    events = list(events)
    try:
        slow, fast = (price(events, clock) for clock in CLOCKS)
    except KeyError:
        return "modelled: nothing; these kernels' instructions have never been counted"
    return (
        f"modelled for UPMEM hardware, not measured: host to DPU {slow.to_dpus * 1e3:.1f} ms, "
        f"kernel {slow.kernel * 1e3:.1f} ms at {CLOCKS[0]:.0f} MHz ({fast.kernel * 1e3:.1f} at {CLOCKS[1]:.0f}), "
        f"DPU to host {slow.from_dpus * 1e3:.1f} ms"
    )
