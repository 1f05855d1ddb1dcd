"""linreg: least-squares regression of one column on others, in exact rationals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from operator import mul
from typing import Any

from pybfv.workload import (
    ONES,
    Column,
    DataError,
    InternalError,
    ServerOps,
    SpecContext,
    SpecReader,
    Totals,
    Workload,
    cell,
    exact_text,
    show_name,
    sqrt_to_float,
    to_float,
)

INTERCEPT = "(intercept)"
Matrix = list[list[Fraction]]


def _total(values: Iterable[Fraction]) -> Fraction:
    return sum(values, Fraction(0))


@dataclass(frozen=True)
class LinearRegression(Workload):
    """b minimises sum (y - Z b)^2, Z = the terms' columns, after a column of ones with `intercept`.

    Normal equations: (Z'Z) b = Z'y. RSS = y'y - b'Z'y. r_squared = 1 - RSS / TSS with
    TSS = y'y - n mean(y)^2 with an intercept, else y'y. residual_sd = sqrt(RSS / (n - k)), k = columns of Z.
    """

    name = "linreg"
    syntax = "linreg:Y~X1+X2[-1]       regression of Y on terms (also powers, X^2); -1 drops the intercept"
    example = "linreg:pay~age+age^2"

    target: Column
    terms: tuple[Column, ...]
    intercept: bool = True

    @classmethod
    def parse(cls, reader: SpecReader, context: SpecContext) -> Sequence[Workload]:
        target = context.column(reader.name("the target column"), reader)
        reader.expect("~")
        terms: list[Column] = []
        while not terms or reader.take("+"):
            name = reader.name("a term")
            term = context.column(name, reader, reader.power())
            if term.name == target.name:
                raise reader.fail(f"the target {target} can't be a term of its own regression")
            if term in terms:
                raise reader.fail(f"the term {term} appears twice")
            terms.append(term)
        intercept = not reader.take("-")
        if not intercept and reader.name("1, as -1 drops the intercept") != "1":
            raise reader.fail("only -1 may follow the terms; a name with - in it goes in double quotes")
        reader.end()
        return [cls(target, tuple(terms), intercept)]

    @property
    def canonical(self) -> str:
        return f"{self.name}:{self.target}~{'+'.join(map(str, self.terms))}{'' if self.intercept else '-1'}"

    def columns(self) -> tuple[Column, ...]:
        return (self.target, *self.terms)

    def server(self, ops: ServerOps) -> None:
        for a, b in combinations_with_replacement(self.columns(), 2):
            ops.acc_mul(a, b)

    def finish(self, totals: Totals, ddof: int) -> dict[str, Any]:
        n, design = totals.n, self._design()
        self._need_rows(n)
        gram = [[totals.product(a, b) for b in design] for a in design]
        right = [totals.product(a, self.target) for a in design]
        solution = self._solve(gram, right)
        square = totals.product(self.target, self.target)
        rss = square - _total(b * r for b, r in zip(solution, right, strict=True))
        tss = square - totals.sum(self.target) ** 2 / n if self.intercept else square
        if not 0 <= rss <= tss:
            raise InternalError(f"{self.label}: the totals contradict each other (bad residuals)")
        return self._result(n, solution, rss, tss)

    def plain(self, rows: Sequence[Mapping[Column, Fraction]], ddof: int) -> dict[str, Any]:
        self._need_rows(len(rows))
        table = [[cell(row, column) for column in (*self.terms, self.target)] for row in rows]
        fit = _least_squares(table, self.intercept)
        if fit is None:
            raise DataError(f"{self.label}: no single answer: the terms are linearly dependent; leave one out")
        return self._result(len(rows), *fit)

    def _design(self) -> list[Column]:
        return [ONES, *self.terms] if self.intercept else list(self.terms)

    def _names(self) -> list[str]:
        """Coefficient names in order: bare columns, X^2 for powers; quoted if two would look alike."""
        bare = [term.name if term.power == 1 else str(term) for term in self.terms]
        clash = len({INTERCEPT, *bare}) <= len(bare)
        names = [str(term) for term in self.terms] if clash else bare
        return [INTERCEPT, *names] if self.intercept else names

    def _need_rows(self, n: int) -> None:
        k = len(self._design())
        if n < k:
            raise DataError(f"{self.label}: {n} rows can't determine {k} coefficients; add rows or leave out terms")

    def _solve(self, gram: Matrix, right: list[Fraction]) -> list[Fraction]:
        """gram^-1 right by Gauss-Jordan elimination; DataError naming the dependent columns if singular."""
        k = len(gram)
        rows = [[*line, r] for line, r in zip(gram, right, strict=True)]
        pivots: list[int] = []
        for column in range(k):
            at = len(pivots)
            found = next((i for i in range(at, k) if rows[i][column]), None)
            if found is None:
                continue
            rows[at], rows[found] = rows[found], rows[at]
            rows[at] = [value / rows[at][column] for value in rows[at]]
            for i in range(k):
                if i != at and rows[i][column]:
                    factor = rows[i][column]
                    rows[i] = [a - factor * b for a, b in zip(rows[i], rows[at], strict=True)]
            pivots.append(column)
        if len(pivots) == k:
            return [row[k] for row in rows]
        # Each column without a pivot gives a null vector: 1 there, minus the reduced entries at the pivots.
        free = [column for column in range(k) if column not in pivots]
        dependent = {pivots[i] for i in range(len(pivots)) for column in free if rows[i][column]} | set(free)
        shown = [INTERCEPT if c == ONES else show_name(c.name) + f"^{c.power}" * (c.power > 1) for c in self._design()]
        raise DataError(
            f"{self.label}: no single answer, as these columns are linearly dependent: "
            f"{', '.join(shown[i] for i in sorted(dependent))}; "
            f"leave out {' and '.join(shown[i] for i in free)}"
        )

    def _result(self, n: int, solution: list[Fraction], rss: Fraction, tss: Fraction) -> dict[str, Any]:
        spare = n - len(solution)
        return {
            "stat": self.name,
            "target": self.target.name,
            "terms": self._names(),
            "coefficients": [to_float(value, self.label) for value in solution],
            "exact": [exact_text(value) for value in solution],
            "n": n,
            "r_squared": to_float(1 - rss / tss, self.label) if tss else None,
            "residual_sd": sqrt_to_float(rss / spare, self.label) if spare else None,
        }


def _least_squares(table: Matrix, intercept: bool) -> tuple[list[Fraction], Fraction, Fraction] | None:
    """The oracle's own way, from rows [x_1 .. x_k, y]: coefficients, RSS and TSS; None when singular.

    In integers: each column times its unit u_j, with an intercept then centred as n v - sum v; Cramer's
    rule for the slopes; RSS and TSS as sums of squares over the rows.
    """
    n, k = len(table), len(table[0]) - 1
    columns = list(zip(*table, strict=True))
    units = [math.lcm(*{value.denominator for value in column}) for column in columns]
    whole = [[int(v * unit) for v in column] for column, unit in zip(columns, units, strict=True)]
    if intercept:
        whole = [[n * v - total for v in column] for column, total in zip(whole, map(sum, whole), strict=True)]
    ys, factor = whole[k], units[k] * (n if intercept else 1)

    moments = [[sum(map(mul, a, b)) for b in whole] for a in whole[:k]]
    det = _determinant([line[:k] for line in moments])
    if det == 0:
        return None
    tops = [_determinant([[*m[:j], m[k], *m[j + 1 : k]] for m in moments]) for j in range(k)]
    slopes = [Fraction(top * unit, det * units[k]) for top, unit in zip(tops, units[:k], strict=True)]

    residuals = [det * y - sum(map(mul, tops, xs)) for y, xs in zip(ys, zip(*whole[:k], strict=True), strict=True)]
    rss = Fraction(sum(r * r for r in residuals), (det * factor) ** 2)
    tss = Fraction(sum(y * y for y in ys), factor**2)
    if intercept:
        means = [_total(column) / n for column in columns]
        slopes.insert(0, means[k] - _total(b * mean for b, mean in zip(slopes, means[:k], strict=True)))
    return slopes, rss, tss


def _determinant(matrix: list[list[int]]) -> int:
    """Bareiss: every step divides exactly by the previous pivot."""
    rows, sign, previous = [list(line) for line in matrix], 1, 1
    size = len(rows)
    for k in range(size - 1):
        found = next((i for i in range(k, size) if rows[i][k]), None)
        if found is None:
            return 0
        if found != k:
            rows[k], rows[found], sign = rows[found], rows[k], -sign
        for i in range(k + 1, size):
            for j in range(k + 1, size):
                rows[i][j] = (rows[i][j] * rows[k][k] - rows[i][k] * rows[k][j]) // previous
        previous = rows[k][k]
    return sign * rows[-1][-1]
