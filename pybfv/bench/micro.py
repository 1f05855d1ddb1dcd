"""Published micro-benchmarks of UPMEM hardware beside the model: `python -m pybfv.bench.micro` prints the table.

Sources: PrIM is "Benchmarking a New Paradigm", arXiv 2105.03814, one DPU at 350 MHz. DMA is an independent table for
one tasklet of a DPU at 350 MHz, cycles of a transfer with its loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from pybfv.bench.model import CLOCKS, Dma, cycles, transfer_seconds

CLOCK = CLOCKS[0]
TASKLETS = 16

LOOP = 3
"""Instructions of a transfer's loop beside the transfer, whose own issue is in the 77 or 61 cycles: two addresses that
advance, one of them with the jump, and a counter."""

TOLERANCE = 0.10


@dataclass(frozen=True, slots=True)
class Figure:
    """A published number and the model's. ``why``: what explains a deviation above TOLERANCE."""

    name: str
    unit: str
    published: float
    modelled: float
    source: str
    why: str = ""

    @property
    def deviation(self) -> float:
        """(modelled - published) / published."""
        return self.modelled / self.published - 1

    @property
    def met(self) -> bool:
        """Within TOLERANCE."""
        return abs(self.deviation) <= TOLERANCE


def rate(per_element: float, tasklets: int = TASKLETS, clock: float = CLOCK) -> float:
    """Elements a second of a loop of so many instructions, shared by so many tasklets."""
    elements = 1e6
    total = per_element * elements
    return elements / cycles(total, total / tasklets, Dma(), Dma()) * clock * 1e6


def transfer_cycles(dma: Dma, loop: float = LOOP) -> float:
    """Cycles of DMA transfers in a loop of one tasklet."""
    return cycles(loop, loop, dma, dma)


_OPERATIONS = (
    ("int32 add", 6, 58.56),
    ("int32 subtract", 6, 58.45),
    ("int32 multiply", 34, 10.27),
    ("int64 add", 7, 50.16),
    ("int64 subtract", 7, 50.11),
    ("int64 multiply", 136, 2.56),
)
"""Name, instructions of the loop as compiled, published million operations a second."""

_STREAMS = (("WRAM copy", 2, 16, 2_818.98), ("WRAM add", 5, 24, 1_682.46))
"""Name, instructions and bytes of an element, published MB/s."""

_SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
_READS = (97.8, 102, 124, 137, 171, 207, 342, 617, 1235)
_WRITES = (114, 116, 124, 141, 174, 199, 336, 606, 1213)
"""The independent table."""

_DISAGREE = "PrIM's constants make a small read 16 cycles slower than a write, this table up to 16 faster"
_KINK = "the table's point at 256 B lies below the line between its neighbours"


def figures() -> list[Figure]:
    """Everything that is compared."""
    found = [Figure(name, "MOPS", mops, rate(n) / 1e6, "PrIM, Fig. 4") for name, n, mops in _OPERATIONS]
    found += [Figure(name, "MB/s", mbs, rate(n) * size / 1e6, "PrIM, Fig. 5") for name, n, size, mbs in _STREAMS]
    found += [
        Figure(name, "MB/s", mbs, 2048 * CLOCK / dma.cycles, source)
        for name, mbs, dma, source in (
            ("MRAM read, 2,048 B", 628.23, Dma(reads=1, bytes=2048), "PrIM, Fig. 6"),
            ("MRAM write, 2,048 B", 633.22, Dma(writes=1, bytes=2048), "PrIM, Fig. 6"),
            ("MRAM copy, 1,024 B", 624.02, Dma(1, 1, 2048), "PrIM, Fig. 7"),
        )
    ]
    found += [_table_row(*row) for row in zip(_SIZES, _READS, _WRITES, strict=True)]
    for name, table, dma in (("read", _READS, Dma(reads=1)), ("write", _WRITES, Dma(writes=1))):
        for size, published in zip(_SIZES, table, strict=True):
            modelled = transfer_cycles(Dma(dma.reads, dma.writes, size))
            row = Figure(f"MRAM {name}, {size:,} B", "cycles", published, modelled, "DMA")
            why = "" if row.met else _KINK if size == 256 else _DISAGREE
            found.append(Figure(row.name, row.unit, published, modelled, row.source, why))
    pairs = 31 * (1 << 20) // 2048
    copied = pairs * transfer_cycles(Dma(1, 1, 2 * 2048)) / (CLOCK * 1e3)
    found.append(Figure("MRAM to MRAM, 31 MiB by 2,048 B", "ms", 109, copied, "DMA"))
    rank = 64 * (32 << 20)
    slower = "another machine, whose table the model takes: 2.7 GB/s from a rank"
    for name, gbs, to_dpus, way, why in (
        ("push to 64 DPUs", 6.68, True, "parallel", ""),
        ("push from 64 DPUs", 4.74, False, "parallel", slower),
        ("broadcast to 64 DPUs", 16.88, True, "broadcast", ""),
    ):
        seconds = transfer_seconds(32 << 20, 64, to_dpus=to_dpus, way=way)
        found.append(Figure(f"{name}, 32 MiB each", "GB/s", gbs, rank / seconds / 1e9, "PrIM, Fig. 10", why))
    return found


def _table_row(size: int, read: float, write: float) -> Figure:
    modelled = (transfer_cycles(Dma(reads=1, bytes=size)) + transfer_cycles(Dma(writes=1, bytes=size))) / 2
    row = Figure(f"MRAM read and write, mean, {size:,} B", "cycles", (read + write) / 2, modelled, "DMA")
    return row if row.met else Figure(row.name, row.unit, row.published, row.modelled, row.source, _KINK)


def markdown() -> str:
    """The table, as docs/time-model.md has it."""
    lines = ["| benchmark | published | modelled | deviation | source |", "| --- | --- | --- | --- | --- |"]
    for f in figures():
        why = f": {f.why}" if f.why else ""
        lines.append(
            f"| {f.name} | {f.published:,.4g} {f.unit} | {f.modelled:,.4g} | {f.deviation:+.1%}{why} | {f.source} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
