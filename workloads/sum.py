"""sum: the exact total of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pybfv.workload import (
    Column,
    ColumnWorkload,
    ServerOps,
    Totals,
    cell,
    exact_text,
    to_float,
)


@dataclass(frozen=True)
class Sum(ColumnWorkload):
    """sum of x over all rows; 0 when there are none."""

    name = "sum"
    syntax = "sum:COL[,COL...]         total of each column; * means every numeric column"
    example = "sum:pay"

    def server(self, ops: ServerOps) -> None:
        ops.acc_add(self.column)

    def finish(self, totals: Totals, ddof: int) -> dict[str, Any]:
        return self._result(totals.n, totals.sum(self.column))

    def plain(self, rows: Sequence[Mapping[Column, Fraction]], ddof: int) -> dict[str, Any]:
        return self._result(len(rows), sum((cell(row, self.column) for row in rows), Fraction(0)))

    def _result(self, n: int, total: Fraction) -> dict[str, Any]:
        return {
            "stat": self.name,
            "column": self.column.name,
            "n": n,
            "value": to_float(total, self.label),
            "exact": exact_text(total),
        }
