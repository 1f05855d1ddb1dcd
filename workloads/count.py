"""count: the number of rows, from the encrypted column of ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pybfv.workload import ONES, Column, ServerOps, SpecContext, SpecReader, Totals, Workload


@dataclass(frozen=True)
class Count(Workload):
    """The number of rows n = sum of 1."""

    name = "count"
    syntax = "count                    number of rows"
    example = "count"

    @classmethod
    def parse(cls, reader: SpecReader, context: SpecContext) -> Sequence[Workload]:
        reader.end()
        return [cls()]

    @property
    def canonical(self) -> str:
        return self.name

    def columns(self) -> tuple[Column, ...]:
        return ()

    def server(self, ops: ServerOps) -> None:
        ops.acc_add(ONES)

    def finish(self, totals: Totals, ddof: int) -> dict[str, Any]:
        return {"stat": self.name, "n": totals.n}

    def plain(self, rows: Sequence[Mapping[Column, Fraction]], ddof: int) -> dict[str, Any]:
        return {"stat": self.name, "n": len(rows)}
