"""Columns that are in memory, as tables: lists, NumPy arrays and what converts to them, exactly.

Values are integers and booleans of any type and size, decimal text, `decimal.Decimal`, `fractions.Fraction`
with a finite decimal, and floats that stand for one decimal number (`float_number`). Indices count from 0.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from pybfv.client.csvnumbers import (
    MAX_DIGITS,
    CsvOptions,
    Numbers,
    Whole,
    is_missing,
    not_a_number,
    parse_number,
    read_numbers,
    reduced,
    shown_cell,
)
from pybfv.errors import DataError, UsageError
from pybfv.workload import show_name


class SupportsArray(Protocol):
    """What NumPy can convert: its own arrays, series and frames of other libraries."""

    def __array__(self) -> np.ndarray: ...


_PLAIN = CsvOptions()
_INTS = (int, np.integer, np.bool_)
_ONE_VALUE = (int, float, str, Decimal, Fraction, np.generic, type(None))
_LARGEST = 10**MAX_DIGITS
Values = np.ndarray | list[Any] | tuple[Any, ...] | range


class Arrays:
    """A table of columns in memory, which is read in slices: no array is copied whole.

    UsageError for what is no column, DataError when the columns differ in length.
    """

    def __init__(self, columns: Mapping[Any, Any], name: str = "arrays") -> None:
        self.name = name
        self.names: list[str] = []
        self.columns: list[Values] = []
        if not columns:
            raise UsageError(f"{name}: there is no column; give {{column name: values}}")
        for key, values in columns.items():
            if not isinstance(key, str) or not key:
                raise UsageError(f"{name}: {shown_value(key)} is no column name: names are text, and not empty")
            self.names.append(str(key))
            self.columns.append(_column(f"{name}: column {show_name(key)}", values))
        self.rows = len(self.columns[0])
        for other, column in zip(self.names, self.columns, strict=True):
            if len(column) != self.rows:
                raise DataError(
                    f"{name}: column {show_name(self.names[0])} has {self.rows} values, column {show_name(other)} "
                    f"{len(column)}; columns of one table have one length"
                )


def as_arrays(data: Any, names: Sequence[str] = (), name: str = "arrays") -> Arrays:
    """A mapping, an array or a data frame as a table.

    An array with one dimension (or none: one row) is the one column of ``names``, if that is one, else c1;
    one with two has the columns c1, c2, ...; a structured one has its fields, a data frame its columns.
    """
    if isinstance(data, Arrays):
        return data
    if isinstance(data, Mapping):
        return Arrays(data, name)
    heads = getattr(data, "columns", None) if hasattr(data, "dtypes") else getattr(data, "column_names", None)
    if isinstance(data, np.ndarray) and data.dtype.names:
        heads = data.dtype.names
    if heads is not None:
        return Arrays(_by_name(data, list(heads), name), name)
    if isinstance(data, np.ndarray) and data.ndim == 2:
        return Arrays({f"c{i + 1}": data[:, i] for i in range(data.shape[1])}, name)
    if hasattr(data, "__array__"):
        own = getattr(data, "name", None)
        head = own if isinstance(own, str) and own else names[0] if len(names) == 1 else "c1"
        return Arrays({head: data}, name)
    raise UsageError(
        f"{type(data).__name__} is no table: give the path of a CSV file, or a mapping {{column name: values}}"
    )


def _by_name(frame: Any, heads: list[Any], name: str) -> dict[Any, Any]:
    twice = [head for head in heads if heads.count(head) > 1]
    if twice:
        raise DataError(f"{name}: column {shown_value(twice[0])} is there twice: rename one")
    return {head: frame[head] for head in heads}


def _column(where: str, values: Any) -> Values:
    """One column's values: an array with one dimension, or a sequence that can be sliced."""
    if isinstance(values, _ONE_VALUE):
        return [values]
    if isinstance(values, list | tuple | range):
        return values
    if isinstance(values, array | memoryview):
        values = np.asarray(values)
    elif not isinstance(values, np.ndarray) and hasattr(values, "__array__"):
        values = _without_nan(values, _foreign(values))
    elif isinstance(values, Sequence) and not isinstance(values, bytes | bytearray):
        return list(values)
    if isinstance(values, np.ndarray) and values.ndim == 0:
        values = values.reshape(1)
    if isinstance(values, np.ndarray) and values.ndim > 1:
        raise UsageError(f"{where} has the shape {values.shape}; a column has one dimension: give a slice of it")
    if not isinstance(values, np.ndarray | list):
        raise UsageError(f"{where} is of type {type(values).__name__}; give a list or an array")
    return values


def _foreign(values: Any) -> np.ndarray | list[Any]:
    """What another library's column holds.

    Its own conversion may round (integers with gaps become floats), so the array is taken only where nothing
    can have been lost; otherwise the column's values one by one.
    """
    found = np.asarray(values)
    kept = getattr(values, "dtype", None)
    if found.dtype.kind in "biu" or (isinstance(kept, np.dtype) and kept == found.dtype) or found.ndim != 1:
        return found
    convert = getattr(values, "to_pylist", None)
    return list(values if convert is None else convert())


def _without_nan(column: Any, values: np.ndarray | list[Any]) -> np.ndarray | list[Any]:
    """The values of a pandas column with NaN masked: it is how pandas writes a missing value."""
    if type(column).__module__.partition(".")[0] != "pandas":
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and values.ndim == 1:
        gaps = np.isnan(values)
        return np.ma.MaskedArray(values, mask=gaps, copy=False) if gaps.any() else values
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return values
    return [None if isinstance(value, float) and value != value else value for value in values]


class ArrayTable:
    """An open table of arrays, read as CSV files are: batches of rows."""

    def __init__(self, arrays: Arrays, options: CsvOptions) -> None:
        self.name, self.names, self.read_rows = arrays.name, arrays.names, 0
        self._arrays, self._options = arrays, options

    def read(self, count: int, positions: Sequence[int]) -> ArrayBatch:
        """The next `count` rows, or fewer at the end, of the columns at `positions`."""
        first = self.read_rows
        self.read_rows = min(first + count, self._arrays.rows)
        pieces = [self._arrays.columns[position][first : self.read_rows] for position in positions]
        return ArrayBatch(self.name, self._options, pieces, first, self.read_rows - first)


@dataclass(slots=True)
class ArrayBatch:
    """Some rows of an ArrayTable."""

    name: str
    options: CsvOptions
    pieces: list[Values]  # by column
    first: int  # index of its first row
    rows: int

    def place(self, row: int, name: str) -> str:
        """Where a value is, for messages."""
        return f"{self.name}, index {self.first + row}, column {show_name(name)}"

    def numbers(self, j: int) -> Numbers | Whole:
        """Column j's numbers."""
        piece = self.pieces[j]
        if not isinstance(piece, np.ma.MaskedArray):
            return read_values(piece, self.options)
        masked = np.ma.getmaskarray(piece)
        data = np.array(np.ma.getdata(piece))
        data[masked] = 0
        numbers = read_values(data, self.options)
        numbers.bad = sorted({*numbers.bad, *np.flatnonzero(masked).tolist()})
        return numbers

    def missing(self, j: int, row: int) -> bool:
        """Whether there is no value."""
        value = self.pieces[j][row]
        # pandas has a value of its own for missing ones
        return value is None or value is np.ma.masked or type(value).__name__ == "NAType" or is_missing(value)

    def shown(self, j: int, row: int) -> str:
        """A value for messages, short."""
        return shown_value(self.pieces[j][row])

    def problem(self, j: int, row: int) -> str:
        """Why a value that is no number here is none."""
        return f"{self.shown(j, row)} {_why(self.pieces[j][row], self.options)}"


def shown_value(value: Any) -> str:
    """A value for messages, short and in one line."""
    if isinstance(value, str):
        return shown_cell(value)
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    text = str(value) if isinstance(value, np.generic | float | int | Decimal | Fraction) else repr(value)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= 42 else text[:39] + "..."


def _why(value: Any, options: CsvOptions) -> str:
    if isinstance(value, str):
        return not_a_number(options)
    if isinstance(value, float | np.floating):
        if not np.isfinite(value):
            return "is not a number: mend it; a missing value is None or masked (np.ma.masked_invalid(a) masks NaN)"
        kind = _kind(value)
        if value == np.trunc(value):
            return (
                f"is a float from 2^{kind.nmant + 1} on, where not every integer has a float: "
                "give integers, text or decimal.Decimal"
            )
        return (
            f"is a float with more than {kind.precision} significant digits, or next to 0: round it to fewer decimals, "
            "or give decimal.Decimal, text or an integer"
        )
    if isinstance(value, Fraction):
        return "has no decimal of at most 400 digits: round it"
    if isinstance(value, int | Decimal):
        return f"is not a number of at most {MAX_DIGITS} digits, exponent included: mend it"
    return f"is of type {type(value).__name__}, not a number: give integers, decimal text or decimal.Decimal"


# --- values to numbers --------------------------------------------------------------------------


def read_values(values: Values, options: CsvOptions) -> Numbers | Whole:
    """All of some values (one dimension), at once where their type allows it."""
    if isinstance(values, np.ndarray):
        kind = values.dtype.kind
        if kind in "biu":
            return Whole.of(values)
        if kind == "f":
            return _read_floats(values)
        if kind in "UT":
            return read_numbers(values.tolist(), options)
        # tolist would turn dates into integers
        values = values.tolist() if kind == "O" else list(values)
    values = list(values)
    types = set(map(type, values))
    if types and all(issubclass(one, _INTS) and not issubclass(one, np.timedelta64) for one in types):
        try:
            return Whole(np.array([int(value) for value in values], np.int64), [])
        except OverflowError:
            pass
    if types == {str}:
        return read_numbers(values, options)
    return _collect([_number(value, options) for value in values])


def _collect(found: Sequence[tuple[int, int] | None]) -> Numbers:
    numbers = Numbers.zeros(len(found))
    for row, number in enumerate(found):
        numbers.put(row, number)
    return numbers


def _number(value: Any, options: CsvOptions) -> tuple[int, int] | None:
    """One value of any type as (mantissa, decimals); None when it is no number."""
    if value is np.ma.masked:
        return None
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, str):
        return parse_number(value, options)
    if isinstance(value, float | np.floating):
        return float_number(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, Fraction):
        return _fraction(value)
    if isinstance(value, np.bool_):
        return int(value), 0
    try:
        whole = operator.index(value)
    except TypeError:
        return None
    return (whole, 0) if abs(whole) < _LARGEST and not isinstance(value, np.timedelta64) else None


def _decimal(value: Decimal) -> tuple[int, int] | None:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or len(digits) + abs(exponent) > MAX_DIGITS:
        return None
    mantissa = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    return (mantissa * 10**exponent, 0) if exponent > 0 else (mantissa, -exponent)


def _fraction(value: Fraction) -> tuple[int, int] | None:
    """x = p / (2^a 5^b) has max(a, b) decimals."""
    rest, powers = value.denominator, []
    for prime in (2, 5):
        power = 0
        while rest % prime == 0 and power <= MAX_DIGITS:
            rest, power = rest // prime, power + 1
        powers.append(power)
    decimals = max(powers)
    if rest != 1 or decimals > MAX_DIGITS or abs(value.numerator) >= _LARGEST:
        return None
    return value.numerator * (10**decimals // value.denominator), decimals


def float_number(value: float | np.floating[Any]) -> tuple[int, int] | None:
    """The decimal number m * 10^-d that a float stands for, in lowest terms; None when that is not one number.

    It is the shortest decimal that rounds to the float, which is what the float prints as: 0.1 is one tenth.
    With p bits of precision floats near x lie at most 2^(1 - p) |x| apart, so that for |m| < 2^(p - 1) no
    other number with d decimals rounds to it; whole floats have all integers below 2^p. Of the others those are taken
    that have no more digits than every such m has (15 of 16 for 64 bits, numpy's ``precision``), so that it is not
    luck which pass: with 0.1 + 0.2 or 3 * 1.4 it is not for us to say which number was meant.
    """
    if not np.isfinite(value):
        return None
    kind = _kind(value)
    if value != 0 and abs(value) < kind.smallest_normal:
        return None
    # not str: print options change a NumPy scalar's
    text = float.__repr__(float(value)) if kind.bits == 64 else np.format_float_scientific(value, unique=True)
    number = parse_number(text, _PLAIN)
    if number is None:
        return None
    mantissa, decimals = reduced(*number)
    limit = 10**kind.precision if decimals else 1 << (kind.nmant + 1)  # p = nmant + 1
    return (mantissa, decimals) if abs(mantissa) < limit else None


def _kind(value: float | np.floating[Any]) -> Any:
    return np.finfo(value.dtype if isinstance(value, np.floating) else float)


def _read_floats(values: np.ndarray) -> Numbers | Whole:
    kind = np.finfo(values.dtype)
    if kind.bits <= 64:
        whole = np.abs(values) < 2.0 ** (kind.nmant + 1)  # false for NaN
        if whole.all() and (values == np.trunc(values)).all():
            return Whole(values.astype(np.int64), [])
    if kind.bits != 64:
        return _collect([float_number(value) for value in values])
    numbers = read_numbers([float.__repr__(value) for value in values.tolist()], _PLAIN)
    # What read_numbers can't know is which of them a float does not stand for.
    doubtful = np.abs(numbers.mantissa) >= 10**kind.precision
    doubtful |= (np.abs(values) < kind.smallest_normal) & (values != 0)
    doubtful[list(numbers.long)] = True
    for row in np.flatnonzero(doubtful).tolist():
        numbers.put(row, float_number(values[row]))
    return numbers
