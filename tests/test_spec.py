"""The vocabulary of workloads: SPEC grammar, bounds, intervals, totals, rounding, discovery."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybfv.errors import DataError, InternalError, UsageError
from pybfv.workload import (
    ONES,
    Column,
    ColumnBounds,
    Interval,
    Recorder,
    Totals,
    decimal_text,
    discover,
    exact_text,
    parse_bounds,
    parse_specs,
    quote_name,
    show_name,
    sqrt_to_float,
    to_float,
)

KNOWN = ["age", "pay", "x y", "y"]


def canonical(text: str, known: list[str] = KNOWN, numeric: list[str] = KNOWN) -> list[str]:
    return [workload.canonical for workload in parse_specs([text], known, numeric)]


# --- SPEC -------------------------------------------------------------------------------------


def test_specs_give_one_instance_per_result() -> None:
    assert canonical("count") == ["count"]
    assert canonical("sum:age") == ["sum:age"]
    assert canonical("mean:age,pay") == ["mean:age", "mean:pay"]
    assert canonical('variance:"x y"') == ['variance:"x y"']
    assert canonical("linreg:y~age+pay+age^2-1") == ["linreg:y~age+pay+age^2-1"]


def test_star_is_every_numeric_column() -> None:
    assert canonical("mean:*", numeric=["pay", "y"]) == ["mean:pay", "mean:y"]
    assert canonical("mean:y,*", numeric=["pay", "y"]) == ["mean:y", "mean:pay"]


def test_duplicates_are_merged_in_order() -> None:
    found = parse_specs(["mean:pay,age,pay", "count", "mean:age", "mean:*", "count"], KNOWN, ["age"])
    assert [w.canonical for w in found] == ["mean:pay", "mean:age", "count"]


def test_blanks_around_the_parts_are_allowed() -> None:
    assert canonical(" mean : age , pay ") == ["mean:age", "mean:pay"]
    assert canonical('linreg: y ~ "age" + pay ^ 2 - 1') == ["linreg:y~age+pay^2-1"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "known are count, linreg, mean, sum, variance"),
        ("median:age", "known are count, linreg, mean, sum, variance"),
        ("mean:wage", 'the columns are age, pay, "x y", y'),
        ("mean", "expected a column name"),
        ("mean:", "nothing after the colon"),
        ("count:", "nothing after the colon"),
        ("count:age", "can't be read at 'age'"),
        ("mean:age,", "expected a column name"),
        ("mean:,age", "expected a column name"),
        ("mean:age,,pay", "expected a column name"),
        ("mean:age pay", "can't be read at 'pay'"),
        ("mean:x y", "unknown column x"),
        ("mean:age^2", "can't be read at '^2'"),
        ('mean:"age', "never closed"),
        ('mean:""', "expected a column name"),
        ('mean:"age"x', "can't be read at 'x'"),
        ("mean:age:pay", "can't be read at ':pay'"),
        ("linreg:y", "expected '~'"),
        ("linreg:y~", "expected a term"),
        ("linreg:~age", "expected the target"),
        ("linreg:*~age", "expected the target"),
        ("linreg:y~*", "expected a term"),
        ("linreg:y~-1", "expected a term"),
        ("linreg:y^2~age", "expected '~'"),
        ("linreg:y~y", "can't be a term"),
        ("linreg:y~age+y^2", "can't be a term"),
        ("linreg:y~age+age", "age appears twice"),
        ("linreg:y~age^2+age^2", "age^2 appears twice"),
        ("linreg:y~age^0", "from 1 to 16"),
        ("linreg:y~age^17", "from 1 to 16"),
        ("linreg:y~age^1e1", "from 1 to 16"),
        ("linreg:y~age^\u0662", "from 1 to 16"),
        ("linreg:y~age^", "expected a whole number"),
        ("linreg:y~age-2", "only -1"),
        ("linreg:y~age-pay", "only -1"),
        ("linreg:y~age-1+pay", "can't be read at '+pay'"),
        ("linreg:y~age+-1", "expected a term"),
        ("linreg:y~age,pay", "can't be read at ',pay'"),
    ],
)
def test_bad_specs_are_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_specs([text], KNOWN, KNOWN)
    assert says in str(caught.value)
    assert repr(text) in str(caught.value)
    assert str(caught.value).isprintable()


def test_star_without_numeric_columns_and_no_spec_are_refused() -> None:
    with pytest.raises(UsageError, match="there is none"):
        parse_specs(["mean:*"], KNOWN, [])
    with pytest.raises(UsageError, match="no statistic"):
        parse_specs([], KNOWN, KNOWN)


def test_a_name_that_the_header_has_twice_is_refused_only_when_used() -> None:
    assert canonical("mean:b", ["a", "b", "a"]) == ["mean:b"]
    with pytest.raises(DataError, match="more than once"):
        parse_specs(["mean:a"], ["a", "b", "a"], [])


def test_quoting() -> None:
    assert quote_name("pay") == "pay"
    assert quote_name("Größe_1.5%") == "Größe_1.5%"
    for name in [",", ":", "~", "+", "^", "=", "*", "-", " ", "\t", "\u00a0"]:
        assert quote_name(f"a{name}b") == f'"a{name}b"'
    assert quote_name('5" pipe') == '"5"" pipe"'
    assert quote_name("") == '""'
    assert str(Column("x y", 3)) == '"x y"^3'
    assert str(Column("x", 1)) == "x"


def test_names_in_messages_stay_on_one_line() -> None:
    for name in ["a\nb", "a\x1b[31m", "\u2028", "x" * 1000]:
        assert show_name(name).isprintable()
        assert len(show_name(name)) <= 60
    for known in (["a\nb"], ["x" * 1000] * 1000):
        with pytest.raises(UsageError) as caught:
            parse_specs(["mean:zz"], known, [])
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 2000


names = st.text(min_size=1, max_size=8) | st.text(alphabet=',:~+^=*-" a1(', min_size=1, max_size=6)


@st.composite
def specs(draw: st.DrawFn) -> tuple[list[str], str]:
    known = draw(st.lists(names, min_size=3, max_size=6, unique=True))
    stat = draw(st.sampled_from(["count", "sum", "mean", "variance", "linreg"]))
    if stat == "count":
        return known, stat
    if stat != "linreg":
        return known, f"{stat}:{quote_name(draw(st.sampled_from(known)))}"
    powers = draw(st.lists(st.tuples(st.sampled_from(known[1:]), st.integers(1, 16)), min_size=1, unique=True))
    terms = "+".join(f"{quote_name(name)}^{power}" for name, power in powers)
    return known, f"linreg:{quote_name(known[0])}~{terms}{draw(st.sampled_from(['', '-1']))}"


@given(specs())
def test_canonical_text_round_trips(case: tuple[list[str], str]) -> None:
    known, text = case
    (workload,) = parse_specs([text], known, known)
    (again,) = parse_specs([workload.canonical], known, known)
    assert again == workload
    assert again.canonical == workload.canonical
    assert workload.label.isprintable()


@given(st.text(max_size=30))
def test_arbitrary_text_is_read_or_refused(text: str) -> None:
    for prefix in ("", "mean:", "linreg:y~"):
        message = ""
        try:
            parse_specs([prefix + text], KNOWN, KNOWN)
        except UsageError as error:
            message = str(error)
        assert message.isprintable()


def test_bounds_option() -> None:
    assert parse_bounds("pay=0.00:250.00") == ("pay", "0.00", "250.00")
    assert parse_bounds('"a=b:c" = -1,5 : 2') == ("a=b:c", "-1,5", "2")
    for text in ["", "pay", "pay=", "pay=1", "pay=1:", "pay=:1", "pay=1:2:3", "=1:2", "a b=1:2", '"a=1:2']:
        with pytest.raises(UsageError):
            parse_bounds(text)


# --- intervals and bounds -----------------------------------------------------------------------


def test_intervals_are_exact_and_tight() -> None:
    ends = range(-3, 4)
    intervals = [Interval(lo, hi) for lo, hi in itertools.product(ends, ends) if lo <= hi]
    for a in intervals:
        squares = [x * x for x in range(a.lo, a.hi + 1)]
        assert (a.square().lo, a.square().hi) == (min(squares), max(squares))
        for k in ends:
            assert a.scale(k) == a * Interval(k, k)
        for b in intervals:
            products = [x * y for x in range(a.lo, a.hi + 1) for y in range(b.lo, b.hi + 1)]
            assert (a * b).lo == min(products)
            assert (a * b).hi == max(products)
            assert a + b == Interval(a.lo + b.lo, a.hi + b.hi)
            assert a.hull(b) == Interval(min(a.lo, b.lo), max(a.hi, b.hi))
    with pytest.raises(InternalError):
        Interval(1, 0)


def test_bounds_scale_and_centre() -> None:
    bounds = ColumnBounds(Fraction(-1), Fraction("2.5"), 2)
    assert bounds.scaled == Interval(-100, 250)
    assert bounds.mid == 75
    assert bounds.wire == Interval(-175, 175)
    assert bounds.text == "-1.00:2.50"
    assert ColumnBounds(Fraction(-4), Fraction(-1), 0).mid == -3  # floor, not truncation
    assert ColumnBounds(Fraction(-4), Fraction(-1), 0).wire == Interval(-1, 2)


def test_bounds_refuse_nonsense() -> None:
    for lo, hi, scale in [("2", "1", 0), ("0.5", "1", 0), ("0", "0.125", 2), ("0", "1", -1)]:
        with pytest.raises(UsageError):
            ColumnBounds(Fraction(lo), Fraction(hi), scale)


def test_power_bounds_are_tight() -> None:
    for lo, hi, k in itertools.product(range(-4, 5), range(-4, 5), range(1, 5)):
        if lo <= hi:
            tenths = [Fraction(x, 10) ** k for x in range(lo, hi + 1)]
            power = ColumnBounds(Fraction(lo, 10), Fraction(hi, 10), 1).power(k)
            assert power == ColumnBounds(min(tenths), max(tenths), k)


@given(
    st.lists(st.tuples(st.integers(-50, 999), st.integers(-999, 50)), max_size=20),
)
def test_totals_undo_centring_and_scaling(pairs: list[tuple[int, int]]) -> None:
    a, b = Column("a"), Column("b")
    bounds = {
        a: ColumnBounds(Fraction(-5), Fraction("99.9"), 1),
        b: ColumnBounds(Fraction(-999), Fraction(50), 0),
    }
    wire = [(x - bounds[a].mid, y - bounds[b].mid) for x, y in pairs]
    totals = Totals(
        len(pairs),
        {a: sum(x for x, _ in wire), b: sum(y for _, y in wire)},
        {(a, b): sum(x * y for x, y in wire), (a, a): sum(x * x for x, _ in wire)},
        bounds,
    )
    assert totals.sum(ONES) == totals.product(ONES, ONES) == len(pairs)
    assert totals.sum(a) == totals.product(a, ONES) == Fraction(sum(x for x, _ in pairs), 10)
    assert totals.sum(b) == sum(y for _, y in pairs)
    assert totals.product(a, b) == totals.product(b, a) == Fraction(sum(x * y for x, y in pairs), 10)
    assert totals.product(a, a) == Fraction(sum(x * x for x, _ in pairs), 100)
    with pytest.raises(InternalError, match=r"b \* b"):
        totals.product(b, b)


def test_recorder_is_canonical() -> None:
    a, b = Column("a"), Column("b")
    recorder = Recorder()
    assert (recorder.sums, recorder.products) == ([ONES], [])
    recorder.acc_mul(b, a)
    recorder.acc_mul(a, b)
    recorder.acc_mul(b, ONES)
    recorder.acc_add(Column("A"))
    assert recorder.sums == [ONES, Column("A"), a, b]
    assert recorder.products == [(a, b)]


# --- rounding -------------------------------------------------------------------------------------


def test_exact_and_decimal_text() -> None:
    assert exact_text(Fraction(-4, 6)) == "-2/3"
    assert exact_text(Fraction(5)) == "5/1"
    assert decimal_text(-5, 2) == "-0.05"
    assert decimal_text(1234, 0) == "1234"
    assert exact_text(Fraction(10**9000, 3)) == "1" + "0" * 9000 + "/3"
    assert exact_text(Fraction(-(10**4500 + 7))) == "-1" + "0" * 4499 + "7/1"


@given(st.integers(-(10**40), 10**40), st.integers(1, 10**40))
def test_to_float_is_nearest(p: int, q: int) -> None:
    value, found = Fraction(p, q), to_float(Fraction(p, q))
    error = abs(Fraction(found) - value)
    for other in (math.nextafter(found, -math.inf), math.nextafter(found, math.inf)):
        assert error <= abs(Fraction(other) - value)


def test_to_float_at_the_ends_of_the_range() -> None:
    tiny, top = Fraction(5e-324), Fraction(1.7976931348623157e308)
    assert to_float(tiny / 2) == 0.0  # a tie goes to even
    assert to_float(tiny / 2 + Fraction(1, 10**2000)) == 5e-324
    assert to_float(tiny * 3 / 2) == 1e-323
    assert to_float(top) == 1.7976931348623157e308
    assert to_float(top + Fraction(2**970) - 1) == 1.7976931348623157e308
    with pytest.raises(DataError, match="binary64"):
        to_float(top + Fraction(2**970))


def assert_nearest_root(value: Fraction, found: float) -> None:
    """found is nearest to sqrt(value): value lies between the squares of the half-way points."""
    below, above = math.nextafter(found, -math.inf), math.nextafter(found, math.inf)
    low = (Fraction(found) + Fraction(below)) / 2
    assert low < 0 or low * low <= value
    if above != math.inf:
        assert value <= ((Fraction(found) + Fraction(above)) / 2) ** 2


@given(st.integers(0, 10**60), st.integers(1, 10**60), st.integers(-1070, 960))
def test_square_roots_are_nearest(p: int, q: int, exponent: int) -> None:
    value = Fraction(p, q) * Fraction(2) ** exponent
    assert_nearest_root(value, sqrt_to_float(value))


@given(st.integers(1, 2**54), st.integers(-2148, 1900), st.sampled_from([-1, 0, 1]))
def test_square_roots_near_ties(odd: int, exponent: int, off: int) -> None:
    # Squares of half-way points, hit or missed by one part in 2^300: only the sticky bit tells.
    value = Fraction(2 * odd + 1) ** 2 * Fraction(2) ** exponent * (1 + Fraction(off, 2**300))
    assert_nearest_root(value, sqrt_to_float(value))


def test_square_roots_against_decimals() -> None:
    with localcontext() as context:
        context.prec = 2000
        for value in [2, 3, Fraction(1, 3), 10**-300, Fraction(7, 10**640), Fraction(10**612), Fraction(4)]:
            value = Fraction(value)
            root = (Decimal(value.numerator) / Decimal(value.denominator)).sqrt()
            assert sqrt_to_float(value) == float(root)
    assert sqrt_to_float(Fraction(0)) == 0.0
    assert sqrt_to_float(Fraction(5e-324) ** 2) == 5e-324
    assert sqrt_to_float(Fraction(1, 10**2000)) == 0.0
    with pytest.raises(DataError, match="binary64"):
        sqrt_to_float(Fraction(10**620))
    with pytest.raises(InternalError):
        sqrt_to_float(Fraction(-1))


# --- discovery --------------------------------------------------------------------------------------

GOOD = """
from dataclasses import dataclass
from pybfv.workload import ONES, Workload

@dataclass(frozen=True)
class {cls}(Workload):
    name = "{name}"
    syntax = "{name}"
    example = "{name}"
    canonical = "{name}"

    @classmethod
    def parse(cls, reader, context):
        reader.end()
        return [cls()]

    def columns(self):
        return ()

    def server(self, ops):
        ops.acc_add(ONES)

    def finish(self, totals, ddof):
        return {{"stat": self.name, "twice": 2 * totals.n}}

    def plain(self, rows, ddof):
        return {{"stat": self.name, "twice": len(rows) + len(rows)}}
"""


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, **files: str) -> str:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("")
    for file, text in files.items():
        (folder / name / f"{file}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    return name


def test_the_workloads_are_found() -> None:
    found = discover()
    assert {"count", "linreg", "mean", "sum", "variance"} <= set(found)
    for name, cls in found.items():
        assert cls.name == name
        assert cls.syntax.startswith(name)
        (workload, *_) = parse_specs([cls.example], ["pay", "age"], [])
        assert type(workload) is cls


def test_a_file_more_is_a_workload_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pybfv_workloads

    (tmp_path / "twice.py").write_text(GOOD.format(cls="Twice", name="twice"))
    monkeypatch.setattr(pybfv_workloads, "__path__", [*pybfv_workloads.__path__, str(tmp_path)])
    assert "twice" in discover()
    (workload,) = parse_specs(["twice"], [], [])
    assert workload.finish(Totals(3, {}, {}, {}), 1) == workload.plain([{}] * 3, 1) == {"stat": "twice", "twice": 6}
    assert workload.depth == 0


def test_bad_modules_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, half = (
        GOOD.format(cls="A", name="a"),
        GOOD.format(cls="B", name="b").replace("def plain", "def other"),
    )
    cases = [
        ("discover_broken", "import nothing_like_this", r"workloads/b\.py can't be imported"),
        ("discover_syntax", "def", r"workloads/b\.py can't be imported"),
        ("discover_empty", "x = 1", r"workloads/b\.py must hold exactly one"),
        ("discover_two", GOOD.format(cls="B", name="b") + GOOD.format(cls="C", name="c"), "not 2"),
        ("discover_partial", half, r"workloads/b\.py: B lacks plain"),
        ("discover_nameless", good.replace('    name = "a"\n', ""), "A lacks name"),
        ("discover_same", good, r"the name 'a' is taken"),
        ("discover_odd", GOOD.format(cls="B", name="b-b"), "lower-case word"),
    ]
    for name, text, says in cases:
        with pytest.raises(InternalError, match=says):
            discover(package(tmp_path, monkeypatch, name, a=good, b=text))
