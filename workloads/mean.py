"""mean: the exact arithmetic mean of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pybfv.workload import (
    Column,
    ColumnWorkload,
    DataError,
    ServerOps,
    Totals,
    cell,
    exact_text,
    to_float,
)


@dataclass(frozen=True)
class Mean(ColumnWorkload):
    """sum of x / n; refused when there are no rows."""

    name = "mean"
    syntax = "mean:COL[,COL...]        mean of each column; * means every numeric column"
    example = "mean:age,pay"

    def server(self, ops: ServerOps) -> None:
        ops.acc_add(self.column)

    def finish(self, totals: Totals, ddof: int) -> dict[str, Any]:
        self._need_rows(totals.n)
        return self._result(totals.n, totals.sum(self.column) / totals.n)

    def plain(self, rows: Sequence[Mapping[Column, Fraction]], ddof: int) -> dict[str, Any]:
        self._need_rows(len(rows))
        mean = Fraction(0)
        for k, row in enumerate(rows, start=1):  # m_k = m_(k-1) + (x_k - m_(k-1)) / k
            mean += (cell(row, self.column) - mean) / k
        return self._result(len(rows), mean)

    def _need_rows(self, n: int) -> None:
        if n < 1:
            raise DataError(f"{self.label}: there are no rows, so there is no mean; add data")

    def _result(self, n: int, mean: Fraction) -> dict[str, Any]:
        return {
            "stat": self.name,
            "column": self.column.name,
            "n": n,
            "value": to_float(mean, self.label),
            "exact": exact_text(mean),
        }
