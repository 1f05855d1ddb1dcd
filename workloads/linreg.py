"""linreg: least-squares regression of one column on others, in exact rationals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
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
        n = len(rows)
        self._need_rows(n)
        xs = [[cell(row, term) for term in self.terms] for row in rows]
        ys = [cell(row, self.target) for row in rows]
        solution = _least_squares(xs, ys, self.intercept)
        if solution is None:
            raise DataError(
                f"{self.label}: no single answer: the terms are linearly dependent; leave one out"
            )
        padded = [[Fraction(1), *x] for x in xs] if self.intercept else xs
        fitted = [_total(b * z for b, z in zip(solution, line, strict=True)) for line in padded]
        rss = _total((y - f) ** 2 for y, f in zip(ys, fitted, strict=True))
        centre = _total(ys) / n if self.intercept else Fraction(0)
        return self._result(n, solution, rss, _total((y - centre) ** 2 for y in ys))

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
            raise DataError(
                f"{self.label}: {n} rows can't determine {k} coefficients; add rows or leave out terms"
            )

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
        shown = [
            INTERCEPT if c == ONES else show_name(c.name) + f"^{c.power}" * (c.power > 1)
            for c in self._design()
        ]
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


def _least_squares(xs: Matrix, ys: list[Fraction], intercept: bool) -> list[Fraction] | None:
    """The oracle's own way: columns centred on their means, then Cramer's rule. None when singular."""
    n, k = len(ys), len(xs[0])
    table = [[*x, y] for x, y in zip(xs, ys, strict=True)]
    centres = [_total(column) / n if intercept else Fraction(0) for column in zip(*table, strict=True)]
    table = [[value - centre for value, centre in zip(row, centres, strict=True)] for row in table]
    moments = [[_total(row[i] * row[j] for row in table) for j in range(k + 1)] for i in range(k)]
    whole = _determinant([line[:k] for line in moments])
    if whole == 0:
        return None
    slopes = [_determinant([[*m[:j], m[k], *m[j + 1 : k]] for m in moments]) / whole for j in range(k)]
    constant = centres[k] - _total(b * c for b, c in zip(slopes, centres[:k], strict=True))
    return [constant, *slopes] if intercept else slopes


def _determinant(matrix: Matrix) -> Fraction:
    """Bareiss: every step divides exactly by the previous pivot."""
    rows, sign, previous = [list(line) for line in matrix], 1, Fraction(1)
    size = len(rows)
    for k in range(size - 1):
        found = next((i for i in range(k, size) if rows[i][k]), None)
        if found is None:
            return Fraction(0)
        if found != k:
            rows[k], rows[found], sign = rows[found], rows[k], -sign
        for i in range(k + 1, size):
            for j in range(k + 1, size):
                rows[i][j] = (rows[i][j] * rows[k][k] - rows[i][k] * rows[k][j]) / previous
        previous = rows[k][k]
    return sign * rows[-1][-1]
