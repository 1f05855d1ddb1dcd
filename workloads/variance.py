"""variance: the exact variance of a column, and its square root."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pybfv.workload import (
    Column,
    ColumnWorkload,
    DataError,
    InternalError,
    ServerOps,
    Totals,
    cell,
    exact_text,
    sqrt_to_float,
    to_float,
)


@dataclass(frozen=True)
class Variance(ColumnWorkload):
    """sum of (x - mean)^2 / (n - ddof) = (sum x^2 - (sum x)^2 / n) / (n - ddof); needs n > ddof."""

    name = "variance"
    syntax = "variance:COL[,COL...]    variance and standard deviation of each column; * as in mean"
    example = "variance:pay"

    def server(self, ops: ServerOps) -> None:
        ops.acc_add(self.column)
        ops.acc_mul(self.column, self.column)

    def finish(self, totals: Totals, ddof: int) -> dict[str, Any]:
        n = totals.n
        self._need_rows(n, ddof)
        total, squares = totals.sum(self.column), totals.product(self.column, self.column)
        variance = (squares - total * total / n) / (n - ddof)
        if variance < 0:
            raise InternalError(f"{self.label}: the totals contradict each other (negative variance)")
        return self._result(n, ddof, variance)

    def plain(self, rows: Sequence[Mapping[Column, Fraction]], ddof: int) -> dict[str, Any]:
        n = len(rows)
        self._need_rows(n, ddof)
        # Two passes by definition, in integers: with x = k / unit, (x - mean) n unit = n k - sum k.
        values = [cell(row, self.column) for row in rows]
        unit = math.lcm(*{value.denominator for value in values})
        scaled = [value.numerator * (unit // value.denominator) for value in values]
        total = sum(scaled)
        deviations = sum((n * k - total) ** 2 for k in scaled)
        return self._result(n, ddof, Fraction(deviations, (n * unit) ** 2 * (n - ddof)))

    def _need_rows(self, n: int, ddof: int) -> None:
        if ddof not in (0, 1):
            raise DataError(f"{self.label}: ddof is 0 or 1, not {ddof}")
        if n < 1:
            raise DataError(f"{self.label}: there are no rows, so there is no variance; add data")
        if n <= ddof:
            raise DataError(
                f"{self.label}: one row has no sample variance (division by n - 1 = 0); "
                "add rows or ask for the population's with --ddof 0"
            )

    def _result(self, n: int, ddof: int, variance: Fraction) -> dict[str, Any]:
        return {
            "stat": self.name,
            "column": self.column.name,
            "n": n,
            "ddof": ddof,
            "value": to_float(variance, self.label),
            "exact": exact_text(variance),
            "sd": sqrt_to_float(variance, self.label),
        }
