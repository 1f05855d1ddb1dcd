"""Numbers in CSV cells, exactly: text to integers with a count of decimals, never through binary floats."""

from __future__ import annotations

import codecs
import re
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pybfv.errors import InternalError, UsageError
from pybfv.native import decimals
from pybfv.workload import Column, ColumnBounds, Interval, decimal_text

MAX_DIGITS = 400  # digits of a number plus its exponent
_FAST_DIGITS = 18  # 10^18 < 2^63
_POW10 = np.array([10**i for i in range(_FAST_DIGITS + 1)], np.int64)

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How a CSV file is written. UsageError when the options contradict each other.

    delimiter: one character, or \\t for a tab. decimal, thousands: the marks in numbers.
    """

    header: bool = True
    delimiter: str = ","
    decimal: str = "."
    thousands: str | None = None
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if self.delimiter in ("\\t", "tab"):
            object.__setattr__(self, "delimiter", "\t")
        marks = {"delimiter": self.delimiter, "decimal": self.decimal}
        if self.thousands is not None:
            marks["thousands"] = self.thousands
        for option, mark in marks.items():
            if len(mark) != 1 or mark.isalnum() or mark in '"+-_\r\n\0':
                raise UsageError(
                    f"--{option} {mark!r}: must be one character that is not a letter, digit, sign or quote"
                )
        if self.decimal.isspace():
            raise UsageError(f"--decimal {self.decimal!r}: a blank can't be told from one around a number")
        if len(set(marks.values())) < len(marks):
            shown = ", ".join(f"--{option} {mark!r}" for option, mark in marks.items())
            raise UsageError(f"{shown}: the characters must differ; write the file with another delimiter")
        try:
            codecs.getincrementaldecoder(self.encoding)
            "a".encode(self.encoding)  # refuses codecs that are not for text
            b"a".decode(self.encoding, "ignore")  # and those that can't pass over a bad byte to name it
        except (LookupError, UnicodeError, ValueError):
            raise UsageError(
                f"--encoding {self.encoding!r}: unknown encoding; try utf-8, utf-16, latin-1 or cp1252"
            ) from None


Parser = Callable[[str], tuple[int, int] | None]


@lru_cache(maxsize=16)
def _parser(mark: str, thousands: str | None) -> Parser:
    """parse_number for one pair of decimal and thousands marks."""
    whole = "[0-9]+"
    if thousands is not None:
        whole = f"(?:[1-9][0-9]{{0,2}}(?:{re.escape(thousands)}[0-9]{{3}})+|[0-9]+)"
    point = re.escape(mark)
    match_number = re.compile(
        f"([+-]?)(?:({whole})(?:{point}([0-9]*))?|{point}([0-9]+))(?:[eE]([+-]?[0-9]+))?"
    ).fullmatch

    def parse(text: str) -> tuple[int, int] | None:
        # Nearly every cell is short, plain and ASCII: no need of the pattern then.
        negative = text.startswith("-")
        left, _, right = (text[1:] if negative else text).partition(mark)
        digits = left + right
        if digits.isdigit() and digits.isascii() and len(digits) < 32:
            return -int(digits) if negative else int(digits), len(right)
        text = text.strip()
        match = match_number(text) if len(text) <= 2 * MAX_DIGITS else None
        if match is None:
            return None
        sign, left, right, bare, exponent_text = match.groups()
        right = right or bare or ""
        digits = (left or "") + right
        if thousands is not None:
            digits = digits.replace(thousands, "")
        exponent = int(exponent_text or 0)
        if len(digits) + abs(exponent) > MAX_DIGITS:
            return None
        mantissa, decimals = int(digits), len(right) - exponent
        if decimals < 0:
            mantissa, decimals = mantissa * 10**-decimals, 0
        return -mantissa if sign == "-" else mantissa, decimals

    return parse


def parse_number(text: str, options: CsvOptions) -> tuple[int, int] | None:
    """A number as (mantissa, decimals), meaning mantissa * 10^-decimals, decimals >= 0; else None.

    Exact, trailing zeros kept ("0.00" has two decimals). ASCII sign, digits, decimal mark, exponent,
    blanks around; groups of three before the mark when there is a thousands mark. None also when
    digits + |exponent| exceed MAX_DIGITS.
    """
    return _parser(options.decimal, options.thousands)(text)


def is_missing(text: object) -> bool:
    """Whether a cell says that there is no value: it is empty or exactly NA."""
    return isinstance(text, str) and text.strip() in ("", "NA")


def shown_cell(text: str) -> str:
    """A cell for messages, cut and escaped."""
    shown = repr(str(text[:41]))
    return shown if len(shown) <= 42 else shown[:40] + "..."


class BadCell(Exception):
    """A cell that can't be used; str() says why and what to do."""


def not_a_number(options: CsvOptions) -> str:
    """Why a cell that `parse_number` refuses is refused."""
    marks = f"decimal mark {options.decimal!r}"
    if options.thousands is not None:
        marks += f", thousands mark {options.thousands!r}"
    return f"is not a number (digits, sign, {marks}, exponent): mend it, or see --decimal, --thousands, --missing"


def reduced(mantissa: int, decimals: int) -> tuple[int, int]:
    """The same number without trailing zeros among its decimals."""
    while decimals and mantissa % 10 == 0:
        mantissa, decimals = mantissa // 10, decimals - 1
    return mantissa, decimals


@dataclass(slots=True)
class Numbers:
    """A column's cells as numbers mantissa * 10^-decimals.

    mantissa, decimals: int64 [rows], |mantissa| < 10^18. long: by row, the numbers that don't fit there.
    bad: the rows, ascending, whose cell is no number (missing ones too). Both hold zeros in the arrays.
    """

    mantissa: Int64s
    decimals: Int64s
    long: dict[int, tuple[int, int]]
    bad: list[int]

    @classmethod
    def zeros(cls, count: int) -> Numbers:
        """That many zeros."""
        return cls(np.zeros(count, np.int64), np.zeros(count, np.int64), {}, [])

    def fill(self, text: bytes | memoryview, ends: npt.NDArray[np.int32], mark: str) -> npt.NDArray[np.bool_]:
        """Write the plain numbers among as many cells of a text, zeros for the others; which ones are plain."""
        self.mantissa, self.decimals = decimals(text, ends, mark)
        plain: npt.NDArray[np.bool_] = self.decimals >= 0
        np.maximum(self.decimals, 0, out=self.decimals)
        return plain

    def put(self, row: int, number: tuple[int, int] | None) -> None:
        """Write one number, or with None that there is none."""
        self.long.pop(row, None)
        self.mantissa[row] = self.decimals[row] = 0
        if number is None:
            insort(self.bad, row)
        elif abs(number[0]) < 10**_FAST_DIGITS:
            self.mantissa[row], self.decimals[row] = number
        else:
            self.long[row] = number

    def at(self, row: int) -> tuple[int, int]:
        """One number as (mantissa, decimals)."""
        return self.long.get(row) or (int(self.mantissa[row]), int(self.decimals[row]))

    def keep(self, rows: Sequence[int]) -> Numbers:
        """Only these rows, in this order; none of them may be bad."""
        long = {i: self.long[row] for i, row in enumerate(rows) if row in self.long}
        return Numbers(self.mantissa[rows], self.decimals[rows], long, [])

    def extremes(self) -> list[tuple[int, int]]:
        """Numbers in lowest terms among which are the minimum, the maximum and one with most decimals."""
        found = [reduced(*number) for number in self.long.values()]
        short = np.ones(len(self.mantissa), bool)
        short[list(self.long)] = False
        mantissa, decimals = self.mantissa[short], self.decimals[short]
        while len(decimals) and len(zeros := np.flatnonzero((decimals > 0) & (mantissa % 10 == 0))):
            mantissa[zeros] //= 10
            decimals[zeros] -= 1
        for d in np.unique(decimals).tolist():
            group = mantissa[decimals == d]
            found += [(int(group.min()), d), (int(group.max()), d)]
        return found


@dataclass(slots=True)
class Whole:
    """A column of an array of integers: int64 or uint64 [rows]; bad: as in Numbers."""

    values: Int64s | npt.NDArray[np.uint64]
    bad: list[int]

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Whole:
        """A copy of an array of any integer or boolean type."""
        large = values.dtype.kind == "u" and values.size > 0 and int(values.max()) >= 1 << 63
        return cls(values.astype(np.uint64 if large else np.int64), [])

    def at(self, row: int) -> tuple[int, int]:
        """One number as (mantissa, decimals)."""
        return int(self.values[row]), 0

    def keep(self, rows: Sequence[int]) -> Whole:
        """Only these rows, in this order; none of them may be bad."""
        return Whole(self.values[rows], [])

    def extremes(self) -> list[tuple[int, int]]:
        """The minimum and the maximum, where there are any."""
        return [(int(self.values.min()), 0), (int(self.values.max()), 0)] if len(self.values) else []

    def within(self, range_: Interval) -> npt.NDArray[np.bool_]:
        """Which of them lie in a range."""
        kind = np.iinfo(self.values.dtype)
        lo, hi = max(range_.lo, int(kind.min)), min(range_.hi, int(kind.max))
        if lo > hi:
            return np.zeros(len(self.values), bool)
        return (self.values >= kind.dtype.type(lo)) & (self.values <= kind.dtype.type(hi))

    def minus(self, middle: int) -> Int64s:
        """The differences, which the caller knows to fit; without overflow, as both are taken mod 2^64."""
        return (self.values.astype(np.uint64) - np.uint64(middle % (1 << 64))).view(np.int64)

    def general(self) -> Numbers:
        """The same as Numbers."""
        short = self.within(Interval(1 - 10**_FAST_DIGITS, 10**_FAST_DIGITS - 1))
        mantissa = np.where(short, self.values, 0).astype(np.int64)
        long = {row: (int(self.values[row]), 0) for row in np.flatnonzero(~short).tolist()}
        return Numbers(mantissa, np.zeros(len(mantissa), np.int64), long, self.bad)


def read_numbers(texts: Sequence[str], options: CsvOptions) -> Numbers:
    """All cells of a column: plain short ones at once, the others one by one by `parse_number`."""
    numbers = Numbers.zeros(len(texts))
    plain = _read_plain(texts, options.decimal, numbers)
    parse = _parser(options.decimal, options.thousands)
    for row in np.flatnonzero(~plain).tolist():
        numbers.put(row, parse(texts[row]))
    return numbers


def _read_plain(texts: Sequence[str], mark: str, numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Fill in the cells of form -?[0-9]*mark?[0-9]* with 1 to 18 digits; which ones they are."""
    count = len(texts)
    text = "".join(texts)
    if not mark.isascii() or not text.isascii():
        return np.zeros(count, bool)
    ends = np.zeros(count + 1, np.int32)
    np.cumsum(np.fromiter(map(len, texts), np.int32, count), out=ends[1:])
    return numbers.fill(text.encode("ascii"), ends, mark)


class Wire:
    """Numbers of a column to wire integers x' = x * 10^scale - mid; for a power column x is the power."""

    def __init__(self, column: Column, bounds: ColumnBounds) -> None:
        if bounds.scale % column.power:
            raise InternalError(f"bounds of {column} with {bounds.scale} decimals are not those of a power")
        self.column, self._bounds = column, bounds
        self._scale = bounds.scale // column.power
        self._scaled, self._mid = bounds.scaled, bounds.mid
        wire = bounds.wire
        self.fits = wire.lo >= -(1 << 63) and wire.hi < 1 << 63  # in int64

    def one(self, number: tuple[int, int]) -> int:
        """One number. BadCell when it is outside the bounds or has more decimals than the scale."""
        mantissa, decimals = reduced(*number)
        power, bounds = self.column.power, self._bounds
        if decimals > self._scale:
            raise BadCell(f"has more than {self._scale} decimals, the study's scale: round it or plan anew")
        value = (mantissa * 10 ** (self._scale - decimals)) ** power
        if value not in self._scaled:
            shown = decimal_text(value, bounds.scale)[:40]
            what = "is" if power == 1 else f"has the power {power} = {shown}, which is"
            raise BadCell(f"{what} outside the declared bounds {bounds.text}: mend it or plan anew")
        return value - self._mid

    def many(self, numbers: Numbers | Whole) -> tuple[Int64s | list[int], list[int]]:
        """All of them, as int64 if `fits`, and the rows that are to be refused (`one` says why)."""
        if isinstance(numbers, Whole):
            if self._scale == 0 and self.column.power == 1:
                refused = np.flatnonzero(~numbers.within(self._scaled)).tolist()
                if self.fits:
                    return numbers.minus(self._mid), refused
                return [value - self._mid for value in numbers.values.tolist()], refused
            numbers = numbers.general()
        count = len(numbers.mantissa)
        values, done = self._fast(numbers)
        slow, refused = {}, []
        for row in np.flatnonzero(~done).tolist():
            try:
                slow[row] = self.one(numbers.at(row))
            except BadCell:
                refused.append(row)
        if not self.fits:
            return [slow.get(row, 0) for row in range(count)], refused
        for row, value in slow.items():
            values[row] = value
        return values, refused

    def _fast(self, numbers: Numbers) -> tuple[Int64s, npt.NDArray[np.bool_]]:
        """The rows that int64 arithmetic can do without overflow, and which ones they are."""
        none = np.zeros(len(numbers.mantissa), bool)
        big = max(abs(self._scaled.lo), abs(self._scaled.hi)) > 10**_FAST_DIGITS
        if big or self._scale > _FAST_DIGITS:
            return np.zeros(len(none), np.int64), none
        mantissa, decimals = numbers.mantissa, numbers.decimals
        if len(decimals) and not numbers.long and (least := int(decimals.min())) == int(decimals.max()):
            # one number of decimals, as in most columns: no arrays of shifts
            shift = self._scale - least
            if shift < 0 or max(-int(mantissa.min()), int(mantissa.max())) > 10 ** (_FAST_DIGITS - shift):
                return np.zeros(len(none), np.int64), none
            done, values = ~none, mantissa * 10**shift
        else:
            shifts = self._scale - decimals
            done = shifts >= 0
            done[list(numbers.long)] = False
            shifts[~done] = 0
            # |mantissa| <= 10^(18 - shift) keeps the product at or below 10^18.
            done &= np.abs(mantissa) <= _POW10[_FAST_DIGITS - shifts]
            values = np.where(done, mantissa, 0) * _POW10[shifts]
        if self.column.power > 1:
            if len(values) and int(np.abs(values).max()) ** self.column.power >= 1 << 62:
                return values, none
            values = values**self.column.power
        done &= (values >= self._scaled.lo) & (values <= self._scaled.hi)
        return values - self._mid, done


def to_fraction(number: tuple[int, int]) -> Fraction:
    """mantissa * 10^-decimals."""
    return Fraction(number[0], 10 ** number[1])
