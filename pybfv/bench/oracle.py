"""Statistics of rows of fractions by definition: what random jobs are compared with.

Shares no code with pybfv: regressions by orthogonalising the columns, binary64 results by looking at their neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Row = dict[str, Fraction]
Vector = list[Fraction]
INTERCEPT = "(intercept)"


@dataclass(frozen=True)
class Statistic:
    """One statistic: ``kind`` as in a SPEC; ``column``, of linreg the target; ``terms``: (column, power)."""

    kind: str
    column: str = ""
    terms: tuple[tuple[str, int], ...] = ()
    intercept: bool = True

    @property
    def spec(self) -> str:
        """The text after --stat."""
        if self.kind == "count":
            return self.kind
        if self.kind != "linreg":
            return f"{self.kind}:{self.column}"
        return f"linreg:{self.column}~{'+'.join(self.names)}{'' if self.intercept else '-1'}"

    @property
    def names(self) -> list[str]:
        """The terms, x or x^2."""
        return [name + (f"^{power}" if power > 1 else "") for name, power in self.terms]

    @property
    def columns(self) -> set[str]:
        """The columns of the table that it needs."""
        return ({self.column} if self.column else set()) | {name for name, _ in self.terms}


def _dot(a: Vector, b: Vector) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def _minus(a: Vector, factor: Fraction, b: Vector) -> Vector:
    return [x - factor * y for x, y in zip(a, b, strict=True)]


def fit(columns: Sequence[Vector], y: Vector) -> tuple[list[Fraction], Vector] | None:
    """Least squares of y on the columns: coefficients and residuals; None where they are dependent."""
    basis: list[Vector] = []
    upper: list[list[Fraction]] = []  # column j = basis j + sum over i < j of upper[j][i] basis i
    for column in columns:
        rest, factors = column, []
        for b in basis:
            factors.append(_dot(column, b) / _dot(b, b))
            rest = _minus(rest, factors[-1], b)
        if not any(rest):
            return None
        basis.append(rest)
        upper.append(factors)
    rest, projected = y, []
    for b in basis:
        projected.append(_dot(y, b) / _dot(b, b))
        rest = _minus(rest, projected[-1], b)
    found = list(projected)
    for j in reversed(range(len(columns))):
        for i in range(j):
            found[i] -= upper[j][i] * found[j]
    return found, rest


def expect(statistic: Statistic, rows: Sequence[Row], ddof: int) -> dict[str, Any] | None:
    """The exact values of a statistic's fields; None where it has no answer (then it must be refused).

    Fields whose names begin with "root " hold the square of what the result states.
    """
    n = len(rows)
    if statistic.kind == "count":
        return {"stat": "count", "n": n}
    y = [row[statistic.column] for row in rows]
    total = sum(y, Fraction(0))
    if statistic.kind in ("sum", "mean"):
        value = total if statistic.kind == "sum" else total / n
        return {"stat": statistic.kind, "n": n, "column": statistic.column, "value": value, "exact": value}
    if statistic.kind == "variance":
        if n == ddof:
            return None
        value = sum(((x - total / n) ** 2 for x in y), Fraction(0)) / (n - ddof)
        return {
            "stat": "variance", "n": n, "column": statistic.column, "value": value, "exact": value,
            "root sd": value, "ddof": ddof,
        }  # fmt: skip
    columns = [[row[name] ** power for row in rows] for name, power in statistic.terms]
    if statistic.intercept:
        columns.insert(0, [Fraction(1)] * n)
    found = fit(columns, y)
    if found is None:
        return None
    coefficients, residuals = found
    centre = total / n if statistic.intercept else Fraction(0)
    tss = sum(((x - centre) ** 2 for x in y), Fraction(0))
    rss, spare = _dot(residuals, residuals), n - len(columns)
    return {
        "stat": "linreg", "n": n, "target": statistic.column,
        "terms": [*([INTERCEPT] if statistic.intercept else []), *statistic.names],
        "coefficients": coefficients, "exact": coefficients,
        "r_squared": 1 - rss / tss if tss else None,
        "root residual_sd": rss / spare if spare else None,
    }  # fmt: skip


def nearest(x: float, exact: Fraction) -> bool:
    """Whether no binary64 number is nearer to the exact value than x."""
    return type(x) is float and all(
        abs(Fraction(x) - exact) <= abs(Fraction(math.nextafter(x, way)) - exact) for way in (math.inf, -math.inf)
    )


def nearest_root(x: float, square: Fraction) -> bool:
    """Whether no binary64 number is nearer to the root of ``square`` than x."""
    if type(x) is not float or x < 0:
        return False
    low, high = ((Fraction(x) + Fraction(math.nextafter(x, way))) / 2 for way in (-math.inf, math.inf))
    return max(low, Fraction(0)) ** 2 <= square <= high**2


def _same(name: str, found: Any, wanted: Any) -> bool:
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], Fraction):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(_same(name, a, b) for a, b in zip(found, wanted, strict=True))
        )
    if isinstance(wanted, Fraction):
        if name == "exact":
            return found == f"{wanted.numerator}/{wanted.denominator}"
        return nearest_root(found, wanted) if name.startswith("root ") else nearest(found, wanted)
    return type(found) is type(wanted) and found == wanted


def differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """The fields of a result that are not what they should be, missing and additional ones too."""
    fields = {name.removeprefix("root "): (name, value) for name, value in wanted.items()}
    shared = {field for field, (name, value) in fields.items() if field in found and _same(name, found[field], value)}
    return sorted({*found, *fields} - shared)
