"""Columns in memory (case B10 and its kind): every type of value gives what Python's integers give, or a refusal."""

from __future__ import annotations

import array
import random
import tracemalloc
from collections import UserDict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybfv import flow
from pybfv.client.arrays import float_number, read_values
from pybfv.client.csvio import CsvOptions, as_source, blocks, records, scan
from pybfv.client.csvnumbers import Numbers, Whole, Wire, parse_number, reduced
from pybfv.errors import DataError, PybfvError, UsageError
from pybfv.workload import Column, ColumnBounds

PLAIN = CsvOptions()
X = Column("x")
TOY: dict[str, Any] = {"set_name": "insecure_n64_q214", "insecure": True}
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def values_of(data: Any, missing: str = "error", options: CsvOptions = PLAIN) -> list[Fraction]:
    """Column x as the oracle reads it; the scan must agree about its ends, the wire about each value."""
    source = as_source(data, ["x"])
    found = [row[X] for row in records(source, options, ["x"], missing)]
    facts = scan(source, options, ["x"], missing)
    assert facts.rows == len(found)
    if found:
        column = facts.columns["x"]
        assert (column.min, column.max) == (min(found), max(found))
        limits = ColumnBounds(min(found), max(found), column.decimals)
        unit, wire = 10**column.decimals, []
        for block in blocks(source, options, [X], {X: limits}, missing, 5):
            wire += list(block.values[0])
        assert [int(v) + limits.mid for v in wire] == [v * unit for v in found]
    return found


def refused(call: Callable[[], object], *says: str, error: type[PybfvError] = DataError) -> None:
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 400
    for text in says:
        assert text in message


def mean(data: Any, **options: Any) -> Fraction:
    document = flow.run(data, ["mean:x"], verify=True, **TOY, **options)
    return Fraction(document["results"][0]["exact"])


# --- B10 ------------------------------------------------------------------------------------------


def layouts(values: list[int], dtype: str) -> dict[str, Any]:
    plain = np.array(values, dtype)
    table = np.zeros((len(values), 3), dtype, order="F")
    table[:, 1] = plain
    sealed = plain.copy()
    sealed.flags.writeable = False
    spread = np.zeros(3 * len(values), dtype)
    spread[::3] = plain
    return {
        "plain": plain,
        "read-only": sealed,
        "slice with gaps": spread[::3],
        "backwards": plain[::-1][::-1],
        "column of a C array": np.ascontiguousarray(table)[:, 1],
        "column of a Fortran array": table[:, 1],
        "Fortran order": np.asfortranarray(plain),
        "other byte order": plain.astype(plain.dtype.newbyteorder()),
        "broadcast": np.broadcast_to(plain, (2, len(values)))[1],
        "list of numpy scalars": list(plain),
        "tuple of numpy scalars": tuple(plain),
        "objects": plain.astype(object),
        "masked, without a gap": np.ma.array(plain),
        "unaligned": np.frombuffer(b"\0" + plain.tobytes(), plain.dtype, offset=1),
    }


@pytest.mark.parametrize("dtype", INTEGERS)
def test_b10_every_integer_type_and_layout(dtype: str) -> None:
    values = [0, 7, 255, 8] if dtype == "u1" else [0, 7, -7, 3] if dtype[0] == "i" else [0, 7, 255, 65]
    ends = np.iinfo(dtype)
    for chosen in (values, [int(ends.min), int(ends.max), 1]):
        for name, data in layouts(chosen, dtype).items():
            assert values_of({"x": data}) == chosen, name


@pytest.mark.parametrize("dtype", ["i1", "i8", "u8"])
def test_b10_through_ciphertexts(dtype: str) -> None:
    values = [0, 7, -7] if dtype[0] == "i" else [0, 7, 255]
    table = np.asfortranarray(np.array([values, values], dtype).T)
    for data in ({"x": values}, {"x": np.array(values, dtype)}, {"x": table[:, 1]}, {"x": list(table[:, 0])}):
        assert mean(data) == Fraction(sum(values), 3)
    assert mean({"x": np.array(values[1], dtype)}) == 7  # no dimension: one row
    top = [2**64 - 1, 2**63, 5] if dtype == "u8" else [int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)]
    assert mean({"x": np.array(top, dtype)}) == Fraction(sum(top), len(top))


def test_b10_booleans_and_single_values() -> None:
    assert values_of({"x": np.array([True, False, True])}) == [1, 0, 1]
    assert values_of({"x": [True, np.False_, 3]}) == [1, 0, 3]
    for one in (np.array(5), np.uint64(5), 5, "5", Decimal(5), 5.0, np.array("5"), np.array(5, object)):
        assert values_of({"x": one}) == [5]


def test_mixed_integers_do_not_wrap() -> None:
    large = [np.uint64(2**64 - 1), np.int64(-(2**63)), 2**63, -(2**70), np.int8(-1)]
    assert values_of({"x": large}) == [int(v) for v in large]
    assert values_of({"x": [np.uint64(2**63)]}) == [2**63]


# --- other values -----------------------------------------------------------------------------------


def test_text_decimals_and_fractions_are_exact() -> None:
    given_ = ["1.50", Decimal("-2E+3"), Decimal("0.10"), Fraction(3, 8), " 7 ", np.str_("1e-3"), Decimal("-0")]
    assert values_of({"x": given_}) == [Fraction(3, 2), -2000, Fraction(1, 10), Fraction(3, 8), 7, Fraction(1, 1000), 0]
    assert values_of({"x": np.array(["1.5", "20"])}) == [Fraction(3, 2), 20]
    euro = CsvOptions(delimiter=";", decimal=",", thousands=".")
    assert values_of({"x": ["1.234,5", 0.5]}, options=euro) == [Fraction("1234.5"), Fraction(1, 2)]
    for bad in (Fraction(1, 3), Fraction(1, 2**500), Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"),
                Decimal("1e400"), Decimal("1e999999"), 10**400, -(10**400), "1_000", "x", "nan"):  # fmt: skip
        refused(lambda bad=bad: values_of({"x": [1, bad]}), "index 1, column x")


def test_what_is_no_number_is_refused_with_its_index() -> None:
    for bad in (1 + 0j, b"1", np.timedelta64(4, "s"), np.datetime64("2020-01-01"), [1], {}, object(), float):
        refused(lambda bad=bad: values_of({"x": [1, 2, bad]}), "index 2, column x", "is of type")
    for data in (np.array([1, 2], "m8[s]"), np.array(["2020-01-01"], "M8[D]"), np.array([1j]), np.array([b"1"])):
        refused(lambda data=data: values_of({"x": data}), "index 0, column x", "is of type")


@pytest.mark.parametrize("kind", [list, tuple, deque, lambda v: array.array("q", v), lambda v: memoryview(np.array(v))])
def test_containers(kind: Callable[[list[int]], Any]) -> None:
    assert values_of(UserDict(x=kind([3, -4]))) == [3, -4]
    assert values_of({"x": range(-2, 9)}) == list(range(-2, 9))


# --- floats -----------------------------------------------------------------------------------------


def test_floats_mean_the_decimal_that_they_print_as() -> None:
    assert values_of({"x": [0.1, 1.25, -3.0, -0.0, 1e-7]}) == [Fraction(t) for t in ("0.1", "1.25", "-3", "0", "1e-7")]
    for dtype in (np.float16, np.float32, np.float64, np.longdouble):
        floats = np.array(["0.1", "2.5", "-7", "100"], dtype)
        for data in (floats, np.repeat(floats, 2)[::2], list(floats), np.ma.array(floats)):
            assert values_of({"x": data}) == [Fraction(1, 10), Fraction(5, 2), -7, 100]
        whole = np.array([3, -200, 0], dtype)
        assert isinstance(read_values(whole, PLAIN), Whole) or dtype is np.longdouble
        assert values_of({"x": whole}) == [3, -200, 0]


def test_floats_that_stand_for_no_single_number_are_refused() -> None:
    for bad in (0.1 + 0.2, 4 / 3, 2.0**53, -(2.0**53), 1e20, 5e-324, float("nan"), float("inf"), -float("inf"),
                np.float32(2**24), np.float32(1) / np.float32(3), np.float16(2048), np.float16(6e-8),
                np.longdouble(2) ** 64):  # fmt: skip
        refused(lambda bad=bad: values_of({"x": [1, 0.5, bad]}), "index 2, column x")
        data = np.array([1, bad], np.asarray(bad).dtype)
        refused(lambda data=data: values_of({"x": data}), "index 1, column x")
    assert values_of({"x": [2.0**53 - 1, np.float32(2**24 - 1), np.float16(2047)]}) == [2**53 - 1, 2**24 - 1, 2047]


def test_float_decimals_are_held_against_the_study() -> None:
    study = flow.plan({"x": [0, 9]}, "sum:x", bounds="x=0.0:9.9", **TOY).study
    wire = Wire(X, study.bounds[X])
    assert wire.many(read_values(np.array([0.1, 9.9, 2.0]), PLAIN))[1] == []
    assert wire.many(read_values(np.array([0.1, 0.25, 10.0]), PLAIN))[1] == [1, 2]
    _, public = flow.keygen(study)
    for data, says in (([0.5, 0.25], "0.25 has more than 1 decimals"), ([1, 10.0], "10.0 is outside")):
        refused(lambda data=data: flow.encrypt(study, {"x": data}, public, "/nowhere/x"), error=PybfvError)
        with pytest.raises(DataError, match=f"index 1, column x: {says}"):
            list(blocks(as_source({"x": data}), PLAIN, [X], study.bounds, "error", 8))


@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
def test_the_number_of_a_float_is_the_only_one_with_its_decimals(value: float) -> None:
    found = float_number(value)
    if found is None:
        assert value != int(value) or abs(value) >= 2**53
        return
    mantissa, decimals = found
    assert mantissa / 10**decimals == value
    for other in (mantissa - 1, mantissa + 1):  # true division of integers is correctly rounded
        assert other / 10**decimals != value


@given(st.integers(-(10**15) + 1, 10**15 - 1), st.integers(0, 20))
def test_fifteen_digits_survive_in_a_float(mantissa: int, decimals: int) -> None:
    found = float_number(mantissa / 10**decimals)
    assert found is not None
    assert Fraction(found[0], 10 ** found[1]) == Fraction(mantissa, 10**decimals)


@given(st.lists(st.floats(width=64) | st.integers(-(2**60), 2**60).map(lambda k: k / 100), max_size=12))
def test_floats_at_once_equal_one_by_one(values: list[float]) -> None:
    numbers = read_values(np.array(values, float), PLAIN)
    single = [float_number(value) for value in values]
    assert numbers.bad == [row for row, number in enumerate(single) if number is None]
    for row, number in enumerate(single):
        if number is not None:
            mantissa, decimals = numbers.at(row)
            assert Fraction(mantissa, 10**decimals) == Fraction(number[0], 10 ** number[1])


# --- missing values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [1, None, 5],
        [1, "NA", 5],
        ["1", "", "5"],
        [1, np.ma.masked, 5],
        np.ma.array([1, 99, 5], mask=[0, 1, 0]),
        np.ma.array([1.0, np.nan, 5.0], mask=[0, 1, 0]),
        np.ma.array(["1", "x", "5"], mask=[0, 1, 0]),
        np.ma.array([1, None, 5], mask=[0, 1, 0]),
        np.array([1, None, 5]),
        np.array(["1", "NA", "5"]),
    ],
    ids=repr,
)
def test_missing_values_are_refused_or_dropped(values: Any) -> None:
    refused(lambda: values_of({"x": values}), "index 1, column x", "is missing")
    assert values_of({"x": values}, "drop") == [1, 5]
    other = {"y": [1, 2, 3], "x": values}
    found = records(as_source(other), PLAIN, ["x", "y"], "drop")
    assert [tuple(row.values()) for row in found] == [(1, 1), (5, 3)]


def test_nan_is_no_missing_value() -> None:
    for data in ([1.0, float("nan")], np.array([1, np.nan]), [1, Decimal("NaN")]):
        refused(lambda data=data: values_of({"x": data}, "drop"), "index 1, column x")


# --- tables -------------------------------------------------------------------------------------------


def test_arrays_as_tables(tmp_path: Path) -> None:
    def means(data: Any, *names: str) -> list[Fraction]:
        document = flow.run(data, [f"mean:{name}" for name in names], verify=True, **TOY)
        return [Fraction(result["exact"]) for result in document["results"]]

    assert means(np.arange(4), "c1") == [Fraction(3, 2)]
    assert means(np.asfortranarray([[1, 10], [2, 20]]), "c2", "c1") == [15, Fraction(3, 2)]
    fields = np.array([(1, 2.5), (2, 3.5)], [("a", "i4"), ("b", "f8")])
    assert means(fields, "a", "b") == [Fraction(3, 2), 3]
    assert means([{"a": [1, 2]}, {"a": [6]}], "a") == [3]
    study = flow.plan({"a": [0, 9]}, "sum:a", max_contributions=2, max_rows=4, **TOY).study
    secret, public = flow.keygen(study)
    outputs = [str(tmp_path / name) for name in ("1.bfvc", "2.bfvc", "r.bfvr")]
    assert flow.encrypt(study, np.array([4, 5]), public, outputs[0]) == (2, 0)
    (tmp_path / "a.csv").write_text("a\n7\n")
    flow.encrypt(study, str(tmp_path / "a.csv"), public, outputs[1])
    flow.compute(outputs[:2], outputs[2], key=public)
    assert flow.decrypt(outputs[2], secret)["results"][0]["exact"] == "16/1"


class Frame:
    """As data frames of other libraries look to us."""

    dtypes = ("int64",)

    def __init__(self, columns: list[str], series: Any) -> None:
        self.columns, self._series = columns, series

    def __getitem__(self, name: str) -> Any:
        return self._series


class Series:
    """A column whose conversion to an array rounds: integers with a gap become floats."""

    dtype = "nullable integers"
    name = "x"

    def __init__(self, *values: int | None) -> None:
        self._values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array([np.nan if v is None else v for v in self._values])

    def __iter__(self) -> Any:
        return iter(self._values)


def test_columns_of_other_libraries_are_not_rounded() -> None:
    large = 2**60 + 1
    for data in (Frame(["x"], Series(large, None, 1)), {"x": Series(large, None, 1)}, Series(large, None, 1)):
        assert values_of(data, "drop") == [large, 1]
    refused(lambda: as_source(Frame(["x", "y", "x"], Series(1))), "'x' is there twice")


class PandasSeries(Series):
    """A column of floats, or of objects, as pandas has it."""

    __module__ = "pandas.core.series"

    def __init__(self, values: np.ndarray) -> None:
        self._array, self.dtype = values, values.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._array

    def __iter__(self) -> Any:
        return iter(self._array.tolist())


def test_nan_is_missing_in_pandas_columns_only() -> None:
    nan = float("nan")
    for column in (np.array([0.5, nan, 2]), np.array([0.5, nan, 2], np.float32), np.array([0.5, nan, 2], object)):
        for data in (Frame(["x"], PandasSeries(column)), {"x": PandasSeries(column)}, PandasSeries(column)):
            found = flow.run(data, "sum:x", missing="drop")
            assert (found["results"][0]["exact"], found["dropped_rows"]) == ("5/2", 1)
            refused(lambda data=data: flow.run(data, "sum:x"), "index 1", "missing")
        refused(lambda column=column: flow.run({"x": column}, "sum:x", missing="drop"), "masked_invalid")
    refused(lambda: flow.run(PandasSeries(np.array([1.0, np.inf])), "sum:x", missing="drop"), "inf")
    assert flow.run(PandasSeries(np.array([1.0, 2.0])), "sum:x")["results"][0]["exact"] == "3/1"


def test_it_is_not_luck_which_floats_pass() -> None:
    for bad in (3 * 1.4, 1234567890123.456, 1.000000000000001, np.float32(1.000001)):
        refused(lambda bad=bad: flow.run({"x": [1, bad]}, "sum:x"), "significant digits")
        refused(lambda bad=bad: flow.run({"x": np.array([1, bad], type(bad))}, "sum:x"), "significant digits")
    for good in (123456789012.345, 1.00000000000001, 999999999999999 / 10, -0.123456789012345, 1.5e-200, 2.0**53 - 1):
        assert float_number(good) == reduced(*parse_number(repr(good), PLAIN))
    for large in (2.0**53, 1e300, np.float32(2**24)):
        refused(lambda large=large: flow.run({"x": [large]}, "sum:x"), "not every integer")


def test_what_is_no_table_is_refused() -> None:
    for data in ({}, 5, None, {"x": {1}}, {"x": iter([1])}, {"x": b"12"}, {1: [2]}, {"": [1]}, {"x": np.zeros((2, 2))},
                 {"x": object()}, np.zeros((2, 2, 2)), [1, 2], [[1, 2]], [], ()):  # fmt: skip
        refused(lambda data=data: flow.plan(data, "count"), error=UsageError)
    refused(lambda: flow.plan({"x": [1, 2], "y": [1]}, "count"), "column x has 2 values, column y 1")
    refused(lambda: flow.run({"x": [1], "y": [2]}, "mean:z"), "columns are x, y", error=UsageError)
    refused(lambda: flow.run([{"x": [1]}, {"x": ["?"]}], "mean:x"), "arrays 2, index 0")


def test_nothing_to_compute(tmp_path: Path) -> None:
    for empty in ([], (), np.array([], np.int64), np.array([]), "", range(0)):
        refused(lambda empty=empty: flow.run({"x": empty}, "mean:x"))
    study = flow.plan({"x": []}, "mean:x", bounds="x=0:9", max_rows=3, **TOY).study
    _, public = flow.keygen(study)
    refused(lambda: flow.encrypt(study, {"x": []}, public, str(tmp_path / "never.bfvc")), "no complete rows")


def test_star_means_the_numeric_columns() -> None:
    data = {"a": [1, None], "day": np.array(["2020-01-01", "2020-01-02"], "M8[D]"), "b": [0.5, 1.5], "t": ["u", "v"]}
    told: list[str] = []
    document = flow.run(data, "sum:*", told=told.append, missing="drop", **TOY)
    assert [result["exact"] for result in document["results"]] == ["1/1", "1/2"]
    assert "day (arrays, index 0, column day: " in told[0]


# --- integers at once -----------------------------------------------------------------------------------

corners = st.sampled_from([0, 1, -1, 10**18, -(10**18), 2**63 - 1, -(2**63), 2**63, 2**64 - 1])


@given(st.lists(corners | st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=9), st.data())
def test_whole_columns_equal_general_ones(values: list[int], data: st.DataObject) -> None:
    values = [v for v in values if v >= 0] if max(values) >= 2**63 else values
    whole = Whole.of(np.array(values, np.uint64 if max(values) >= 2**63 else np.int64))
    general = whole.general()
    assert [general.at(row)[0] for row in range(len(values))] == values
    assert [number for number, _ in whole.extremes()] == [min(values), max(values)]
    low, high = sorted(data.draw(st.tuples(*[corners | st.integers(-(2**65), 2**65)] * 2)))
    wire = Wire(X, ColumnBounds(Fraction(low), Fraction(high), data.draw(st.integers(0, 2))))
    found, refusals = wire.many(whole)
    expected, others = wire.many(Numbers(general.mantissa, general.decimals, general.long, []))
    assert refusals == others == [row for row, value in enumerate(values) if not low <= value <= high]
    kept = [row for row in range(len(values)) if row not in refusals]
    assert [int(found[row]) for row in kept] == [int(expected[row]) for row in kept]


def test_arrays_are_read_in_flat_memory_and_not_value_by_value() -> None:
    rng = random.Random(4)
    base = np.arange(2_000_000, dtype=np.int32)
    limits = {X: ColumnBounds(Fraction(0), Fraction(2_000_000), 0)}

    def peak(data: np.ndarray) -> int:
        tracemalloc.start()
        source = as_source({"x": data})
        assert scan(source, PLAIN, ["x"]).rows == len(data)
        total = sum(int(block.values[0].sum()) for block in blocks(source, PLAIN, [X], limits, "error", 4096))
        assert total == int(data.sum(dtype=np.int64)) - len(data) * limits[X].mid
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(base) < 1.2 * peak(base[-20_000:]) < 2 << 20
    assert isinstance(read_values(base[:: rng.randrange(2, 9)], PLAIN), Whole)


NUL_TEXTS = ["1\x002", "\x0012", "12\x00", "1.\x002", "-\x001", "\x00", "1\x002" + "0" * 40]


@pytest.mark.parametrize("text", NUL_TEXTS)
def test_a_nul_in_text_is_no_digit_less(text: str) -> None:
    kinds: list[Any] = [[text, "3"], ["3", text], [text], np.array([text, "3"], dtype=object)]
    if not text.endswith("\x00"):  # NumPy's own text ends there
        kinds.append(np.array(["3", text]))
    for values in kinds:
        with pytest.raises(DataError, match=r"index \d, column x: .* is not a number"):
            flow.plan({"x": values}, ["sum:x"])
