"""Each statistic against known values, its oracle and its growth, from exact wire totals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybfv.errors import DataError, InternalError
from pybfv.workload import ONES, Column, ColumnBounds, Recorder, Totals, Workload, parse_specs, product_key

Row = dict[Column, Fraction]


def table(**columns: Sequence[Any]) -> list[Row]:
    keys = [Column(name) for name in columns]
    return [
        {key: Fraction(value) for key, value in zip(keys, values, strict=True)}
        for values in zip(*columns.values(), strict=True)
    ]


def one(spec: str, rows: Sequence[Row], names: str | Sequence[str] = "") -> Workload:
    known = [column.name for column in rows[0]] if rows else list(names)
    (workload,) = parse_specs([spec], known, known)
    return workload


def bounds_of(workload: Workload, rows: Sequence[Row]) -> dict[Column, ColumnBounds]:
    """The exact range of each column's data (0:0 without rows), at the scale that the data need."""
    found = {}
    for column in workload.columns():
        values = [row[Column(column.name)] for row in rows] or [Fraction(0)]
        scale = next(s for s in itertools.count() if all((v * 10**s).denominator == 1 for v in values))
        found[column] = ColumnBounds(min(values), max(values), scale).power(column.power)
    return found


def wire_totals(
    workload: Workload, rows: Sequence[Row], bounds: Mapping[Column, ColumnBounds]
) -> tuple[dict[Column, int], dict[tuple[Column, Column], int]]:
    """What the server would add up, in plain integers."""

    def wire(row: Row, column: Column) -> int:
        if column == ONES:
            return 1
        scaled = row[Column(column.name)] ** column.power * 10 ** bounds[column].scale
        assert scaled.denominator == 1
        value = int(scaled) - bounds[column].mid
        assert value in bounds[column].wire
        return value

    asked = Recorder([workload])
    sums = {column: sum(wire(row, column) for row in rows) for column in asked.sums}
    products = {(a, b): sum(wire(row, a) * wire(row, b) for row in rows) for a, b in asked.products}
    return sums, products


def result(spec: str, rows: Sequence[Row], ddof: int = 1, names: str = "") -> dict[str, Any]:
    """finish over the wire totals; checked against the oracle and the growth on the way."""
    workload = one(spec, rows, names)
    bounds = bounds_of(workload, rows)
    sums, products = wire_totals(workload, rows, bounds)
    growth = workload.growth(bounds, len(rows))
    assert set(growth) == {(column,) for column in sums} | set(products)
    for key, interval in growth.items():
        assert (sums[key[0]] if len(key) == 1 else products[key]) in interval
    assert workload.depth == (1 if products else 0)
    found = workload.finish(Totals(len(rows), sums, products, bounds), ddof)
    assert found == workload.plain(rows, ddof)
    assert list(found) == list(workload.plain(rows, ddof))
    return found


# --- count, sum, mean, variance -------------------------------------------------------------------


def test_result_shapes() -> None:
    rows = table(x=[2, 4, 9])
    assert result("count", rows) == {"stat": "count", "n": 3}
    assert result("sum:x", rows) == {"stat": "sum", "column": "x", "n": 3, "value": 15.0, "exact": "15/1"}
    assert result("mean:x", rows) == {"stat": "mean", "column": "x", "n": 3, "value": 5.0, "exact": "5/1"}
    assert list(result("variance:x", rows)) == ["stat", "column", "n", "ddof", "value", "exact", "sd"]


def test_column_is_the_bare_name() -> None:
    rows = [{Column('a "b"'): Fraction(1)}]
    assert result('sum:"a ""b"""', rows)["column"] == 'a "b"'


def test_b01_no_small_modulus_shows() -> None:
    rows = table(wage=[60000] * 9 + [61000])
    assert result("mean:wage", rows)["exact"] == "60100/1"
    assert result("sum:wage", rows)["exact"] == "601000/1"
    assert result("variance:wage", rows, ddof=0)["exact"] == "90000/1"
    assert result("variance:wage", rows, ddof=1)["exact"] == "100000/1"


def test_b05_negative_sums() -> None:
    assert result("sum:d", table(d=[-71, 12]))["value"] == -59
    assert result("mean:d", table(d=[-71, 12]))["value"] == -29.5
    assert result("sum:d", table(d=[-1]))["value"] == -1
    assert math.copysign(1, result("sum:d", table(d=[0, "-0"]))["value"]) == 1
    assert result("sum:d", table(d=[-5, 5]))["exact"] == "0/1"


def test_b19_both_divisors() -> None:
    rows = table(x=[2, 4, 9])
    population, sample = result("variance:x", rows, ddof=0), result("variance:x", rows, ddof=1)
    assert (population["exact"], population["ddof"], population["value"]) == ("26/3", 0, 26 / 3)
    assert (sample["exact"], sample["ddof"], sample["sd"]) == ("13/1", 1, math.sqrt(13))


def test_a_constant_column_has_variance_exactly_0() -> None:
    for value in ["0", "0.1", "-1000000007.3"]:
        found = result("variance:x", table(x=[value] * 7))
        assert (found["value"], found["exact"], found["sd"]) == (0.0, "0/1", 0.0)


def test_b12_too_few_rows() -> None:
    assert result("mean:x", table(x=["0.25"]))["exact"] == "1/4"
    assert result("variance:x", table(x=[3]), ddof=0)["exact"] == "0/1"
    assert result("sum:x", [], names="x")["exact"] == "0/1"
    assert result("count", [], names="x") == {"stat": "count", "n": 0}
    for spec, rows, ddof in [
        ("variance:x", table(x=[3]), 1),
        ("variance:x", [], 0),
        ("mean:x", [], 1),
        ("linreg:x~y", table(x=[3], y=[1]), 1),
        ("linreg:x~y-1", [], 1),
    ]:
        workload = one(spec, rows, "xy")
        bounds = bounds_of(workload, rows)
        with pytest.raises(DataError, match=f"^{spec}: "):
            workload.finish(Totals(len(rows), *wire_totals(workload, rows, bounds), bounds), ddof)
        with pytest.raises(DataError, match=f"^{spec}: "):
            workload.plain(rows, ddof)


def test_only_two_divisors_exist() -> None:
    workload, rows = one("variance:x", table(x=[1, 2])), table(x=[1, 2])
    bounds = bounds_of(workload, rows)
    for ddof in (-1, 2):
        with pytest.raises(DataError, match="ddof"):
            workload.finish(Totals(2, *wire_totals(workload, rows, bounds), bounds), ddof)


def test_impossible_totals_are_not_a_result() -> None:
    x, y = Column("x"), Column("y")
    flat = {x: ColumnBounds(Fraction(0), Fraction(0), 0), y: ColumnBounds(Fraction(0), Fraction(0), 0)}
    with pytest.raises(InternalError, match="contradict"):
        one("variance:x", table(x=[1])).finish(Totals(2, {x: 4}, {(x, x): 7}, flat), 1)
    totals = Totals(2, {x: 0, y: 0}, {(x, x): 1, (x, y): 5, (y, y): 1}, flat)
    with pytest.raises(InternalError, match="contradict"):
        one("linreg:y~x", table(x=[1], y=[1])).finish(totals, 1)


def test_a_result_beyond_binary64_is_refused() -> None:
    rows = table(x=[Fraction(10) ** 200] * 2 + [0])
    assert result("sum:x", rows)["value"] == 2e200
    with pytest.raises(DataError, match=r"variance:x is beyond the range of binary64"):
        result("variance:x", rows)


# --- regression -------------------------------------------------------------------------------------


def test_b21_good_case() -> None:
    rows = table(x1=[1, 2, 3, 4, 5, 6], x2=[2, 1, 4, 3, 6, 5], x3=[0, 1, 2, 5, 1, 4], y=[5, 6, 12, 19, 14, 21])
    found = result("linreg:y~x1+x2+x3", rows)
    assert found["terms"] == ["(intercept)", "x1", "x2", "x3"]
    assert found["exact"] == ["17/12", "53/60", "61/60", "11/5"]
    assert found["coefficients"] == [17 / 12, 53 / 60, 61 / 60, 2.2]
    assert (found["stat"], found["target"], found["n"]) == ("linreg", "y", 6)
    assert list(found) == [
        "stat", "target", "terms", "coefficients", "exact", "n", "r_squared", "residual_sd"
    ]  # fmt: skip


def refused(spec: str, rows: Sequence[Row]) -> str:
    """The message of finish for a singular regression; the oracle refuses too."""
    workload = one(spec, rows)
    bounds = bounds_of(workload, rows)
    with pytest.raises(DataError, match="dependent"):
        workload.plain(rows, 1)
    with pytest.raises(DataError) as caught:
        workload.finish(Totals(len(rows), *wire_totals(workload, rows, bounds), bounds), 1)
    return str(caught.value)


def test_b21_dependent_columns_are_named() -> None:
    x1, x2, y, z = [1, 2, 3, 4, 5], [3, 5, 7, 9, 11], [2, 4, 5, 4, 5], [1, 0, 2, 0, 7]
    message = refused("linreg:y~x1+z+x2", table(x1=x1, x2=x2, y=y, z=z))
    assert "dependent: (intercept), x1, x2; leave out x2" in message
    message = refused("linreg:y~z+c", table(c=[4] * 5, y=y, z=z))
    assert "dependent: (intercept), c; leave out c" in message
    message = refused("linreg:y~z+c-1", table(c=[0] * 5, y=y, z=z))
    assert "dependent: c; leave out c" in message
    message = refused("linreg:y~c+x1+x2+z", table(c=[4] * 5, x1=x1, x2=x2, y=y, z=z))
    assert "dependent: (intercept), c, x1, x2; leave out c and x2" in message
    message = refused("linreg:y~b+b^2", table(b=[0, 1, 1, 0, 1], y=y))
    assert "dependent: b, b^2; leave out b^2" in message
    # Without an intercept a constant column and 2 x + 1 are no trouble.
    assert result("linreg:y~x1+x2-1", table(x1=x1, x2=x2, y=y))["terms"] == ["x1", "x2"]


def test_the_named_columns_are_those_to_leave_out() -> None:
    """Whatever the dependence, the regression is regular once the columns after `leave out` are gone."""
    columns = {"a": [1, 2, 3, 4, 5, 6], "b": [2, 4, 6, 8, 10, 12], "c": [1, 0, 0, 1, 0, 1]}
    columns |= {"d": [3, 4, 6, 9, 10, 13], "e": [0] * 6, "y": [1, 2, 2, 3, 5, 8]}
    rows = table(**columns)
    for terms in itertools.chain.from_iterable(itertools.permutations("abcde", k) for k in (2, 3)):
        spec = f"linreg:y~{'+'.join(terms)}"
        try:
            result(spec, rows)
        except DataError:
            leave = refused(spec, rows).partition("leave out ")[2].split(" and ")
            rest = [term for term in terms if term not in leave]
            assert leave
            assert not rest or result(f"linreg:y~{'+'.join(rest)}", rows)


def test_perfect_flat_and_saturated_fits() -> None:
    rows = table(x=[1, 2, 4], y=[3, 5, 9])
    found = result("linreg:y~x", rows)
    assert (found["exact"], found["r_squared"], found["residual_sd"]) == (["1/1", "2/1"], 1.0, 0.0)
    found = result("linreg:y~x", table(x=[1, 2, 4], y=[7, 7, 7]))
    assert (found["exact"], found["r_squared"], found["residual_sd"]) == (["7/1", "0/1"], None, 0.0)
    found = result("linreg:y~x+x^2", table(x=[1, 2, 4], y=[0, 1, 0]))
    assert (found["terms"], found["residual_sd"]) == (["(intercept)", "x", "x^2"], None)
    assert found["r_squared"] == 1.0
    found = result("linreg:y~x-1", table(x=[1, 2], y=[0, 0]))
    assert (found["exact"], found["r_squared"]) == (["0/1"], None)


def test_r_squared_is_uncentred_without_an_intercept() -> None:
    rows = table(x=[1, 2, 3], y=[11, 12, 13])
    slope = Fraction(11 + 24 + 39, 14)
    rss = sum((y - slope * x) ** 2 for x, y in [(1, 11), (2, 12), (3, 13)])
    found = result("linreg:y~x-1", rows)
    assert found["exact"] == [f"{slope.numerator}/{slope.denominator}"]
    assert found["r_squared"] == float(1 - rss / (121 + 144 + 169))
    assert found["residual_sd"] == pytest.approx(math.sqrt(rss / 2), rel=1e-15)
    assert result("linreg:y~x", rows)["r_squared"] == 1.0


def test_terms_that_would_look_alike_are_quoted() -> None:
    rows = [
        {
            Column("x"): Fraction(x),
            Column("x^2"): Fraction(z),
            Column("y"): Fraction(y),
            Column("(intercept)"): Fraction(w),
        }
        for x, z, y, w in [(1, 2, 3, 1), (2, 1, 4, 5), (4, 5, 9, 2), (3, 3, 3, 2), (7, 9, 1, 3)]
    ]
    assert result('linreg:y~"x^2"', rows)["terms"] == ["(intercept)", "x^2"]
    assert result('linreg:y~x^2+"x^2"', rows)["terms"] == ["(intercept)", "x^2", '"x^2"']
    assert result('linreg:y~"(intercept)"', rows)["terms"] == ["(intercept)", '"(intercept)"']


values = st.integers(-1000, 1000).map(lambda tenths: Fraction(tenths, 10))


@given(st.lists(st.tuples(values, values, values), min_size=1, max_size=8), st.sampled_from(["", "-1"]))
def test_finish_agrees_with_the_oracle(points: list[tuple[Fraction, ...]], ending: str) -> None:
    rows = [dict(zip([Column("a"), Column("b"), Column("y")], point, strict=True)) for point in points]
    for spec in ["count", "sum:a", "mean:a", "variance:a", f"linreg:y~a+b^2{ending}", f"linreg:y~b{ending}"]:
        message = ""
        try:
            result(spec, rows)
        except DataError as error:
            message = str(error)
        if message:
            assert message.startswith(f"{spec}: ")
            with pytest.raises(DataError):
                one(spec, rows).plain(rows, 1)


def test_a_row_may_hold_the_power_itself() -> None:
    rows = table(x=[1, 2, 4], y=[1, 5, 2])
    lifted = [{Column("x", 2): row[Column("x")] ** 2, Column("y"): row[Column("y")]} for row in rows]
    workload = one("linreg:y~x^2", rows)
    assert workload.plain(rows, 1) == workload.plain(lifted, 1)


# --- growth -----------------------------------------------------------------------------------------


def test_growth_is_reached_and_not_exceeded() -> None:
    """Over all tables of 0..2 rows on small ranges, the extreme totals are the growth's very ends."""
    bounds = {
        Column("a"): ColumnBounds(Fraction(-2), Fraction("0.5"), 1),
        Column("b"): ColumnBounds(Fraction(3), Fraction(5), 0),
    }
    (workload,) = parse_specs(["linreg:a~b"], ["a", "b"], [])
    a, b = bounds
    pairs = list(itertools.product(range(bounds[a].wire.lo, bounds[a].wire.hi + 1, 1), range(-1, 2)))
    tables = [(), *((p,) for p in pairs), *itertools.combinations_with_replacement(pairs, 2)]
    growth = workload.growth(bounds, 2)
    for key, interval in growth.items():
        at = {ONES: lambda pair: 1, a: lambda pair: pair[0], b: lambda pair: pair[1]}
        totals = [sum(math.prod(at[column](pair) for column in key) for pair in rows) for rows in tables]
        assert (min(totals), max(totals)) == (interval.lo, interval.hi), key
    assert set(growth) == {(ONES,), (a,), (b,), (a, a), (b, b), product_key(b, a)}
    assert all((i.lo, i.hi) == (0, 0) for i in workload.growth(bounds, 0).values())
