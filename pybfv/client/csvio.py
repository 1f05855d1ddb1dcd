"""Reading tables exactly, CSV files and arrays: to integers, never through binary floats, in flat memory.

Rows of files are numbered from 1 over the data rows (header and blank lines left out), lines from 1 over
the whole file. A cell that is empty or exactly NA is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from pybfv.client.arrays import ArrayBatch, Arrays, ArrayTable
from pybfv.client.csvarrow import ArrowBatch, ArrowTable, open_table
from pybfv.client.csvnumbers import (
    BadCell,
    CsvOptions,
    Numbers,
    Whole,
    Wire,
    parse_number,
    to_fraction,
)
from pybfv.client.csvrecords import Batch, Table
from pybfv.client.csvsource import Source, Spool, as_source, open_chunks, source_name, spool
from pybfv.errors import DataError, UsageError
from pybfv.workload import ONES, Column, ColumnBounds, show_name, show_names

__all__ = [
    "Block",
    "Blocks",
    "ColumnFacts",
    "CsvOptions",
    "Source",
    "Spool",
    "TableFacts",
    "as_source",
    "blocks",
    "parse_number",
    "read_header",
    "records",
    "scan",
    "spool",
]

_SCAN_CELLS = 1 << 18  # cells of a batch while scanning


def _positions(table: Table | ArrowTable | ArrayTable, names: Sequence[str]) -> list[int]:
    """Where the named columns are. UsageError when unknown, DataError when a name is there twice."""
    found = []
    for name in names:
        if name not in table.names:
            raise UsageError(f"{table.name}: no column {show_name(name)}; the columns are {show_names(table.names)}")
        if table.names.count(name) > 1:
            raise DataError(f"{table.name}: {_twice(name, table.names)}")
        found.append(table.names.index(name))
    return found


def _twice(name: str, names: Sequence[str]) -> str:
    at = [str(i + 1) for i, other in enumerate(names) if other == name]
    return f"column {show_name(name)} is in the header {len(at)} times (columns {', '.join(at)}): rename one"


@contextmanager
def _open_table(source: Source, options: CsvOptions) -> Iterator[Table | ArrowTable | ArrayTable]:
    if isinstance(source, Arrays):
        yield ArrayTable(source, options)
        return
    with open_chunks(source) as chunks:
        yield open_table(source_name(source), chunks, options)


def read_header(source: Source, options: CsvOptions) -> list[str]:
    """The column names, blanks around them removed; unnamed ones, or all without header: c1, c2, ..."""
    with _open_table(source, options) as table:
        return table.names


# --- complete rows ----------------------------------------------------------------------------


class _Complete:
    """A batch's complete rows as numbers, by column; `dropped` counts the others."""

    def __init__(self, batch: Batch | ArrowBatch | ArrayBatch, names: Sequence[str], missing: str) -> None:
        self._batch, self._names = batch, names
        numbers = [batch.numbers(j) for j in range(len(names))]
        rows = range(batch.rows)
        incomplete: set[int] = set()
        without_number = [set(column.bad) for column in numbers]
        for row in sorted(set().union(*without_number)):
            bad = [j for j, column in enumerate(without_number) if row in column]
            gaps = [j for j in bad if batch.missing(j, row)]
            if gaps and missing != "drop":
                raise self.refusal(row, gaps[0], "is missing: fill it in, or plan with --missing drop")
            if not gaps:
                raise DataError(f"{batch.place(row, names[bad[0]])}: {batch.problem(bad[0], row)}")
            incomplete.add(row)
        self._rows: Sequence[int] = [row for row in rows if row not in incomplete] if incomplete else rows
        self.numbers = [column.keep(self._rows) for column in numbers] if incomplete else numbers
        self.count, self.dropped = len(self._rows), len(incomplete)

    def refusal(self, row: int, j: int, why: str) -> DataError:
        """The error for a cell of the batch."""
        return DataError(f"{self._batch.place(row, self._names[j])}: {self._batch.shown(j, row)} {why}")

    def wire(self, j: int, wire: Wire) -> npt.NDArray[np.int64] | list[int]:
        """Column j as wire integers; DataError for the first that can't be."""
        values, refused = wire.many(self.numbers[j])
        if refused:
            try:
                wire.one(self.numbers[j].at(refused[0]))
            except BadCell as bad:
                raise self.refusal(self._rows[refused[0]], j, str(bad)) from None
        return values


def _check_missing(missing: str) -> None:
    if missing not in ("error", "drop"):
        raise UsageError(f"--missing {missing!r}: is error or drop")


# --- scan: facts about a table ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What a column holds. min and max are None when it has no value.

    decimals: the smallest scale that holds every value exactly. numeric: every value that is not
    missing is a number, and there is one. problem: if not numeric, one line on why.
    """

    min: Fraction | None
    max: Fraction | None
    decimals: int
    numeric: bool
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class TableFacts:
    """names: every column of the file. rows, dropped: complete rows and others. columns: by name."""

    names: list[str]
    rows: int
    dropped: int
    columns: dict[str, ColumnFacts]


class _Range:
    """Minimum, maximum and decimals of the numbers seen, kept as integers at the largest scale so far."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._decimals = 0

    def add(self, numbers: Numbers | Whole) -> None:
        new = numbers.extremes()
        scale = max((decimals for _, decimals in new), default=0)
        if scale > self._decimals:
            self._ends = [end * 10 ** (scale - self._decimals) for end in self._ends]
            self._decimals = scale
        self._ends += [mantissa * 10 ** (self._decimals - decimals) for mantissa, decimals in new]
        if self._ends:
            self._ends = [min(self._ends), max(self._ends)]

    def facts(self, problem: str | None) -> ColumnFacts:
        lo, hi = (Fraction(end, 10**self._decimals) for end in self._ends) if self._ends else (None, None)
        if problem is None and lo is None:
            problem = "it has no value"
        return ColumnFacts(lo, hi, self._decimals, problem is None, problem)


def scan(
    source: Source, options: CsvOptions, columns: Sequence[str] | None = None, missing: str = "error"
) -> TableFacts:
    """One pass over the table for the ranges and decimals of columns.

    With names: rows that miss one of them are refused (missing="error") or dropped and counted, bad
    cells refused; only complete rows count. With None: every column is looked at by itself, missing
    cells are passed over, nothing is dropped and a bad cell makes a column not numeric. Of columns with
    one name the first is looked at; SPECs and readers that name it refuse.
    """
    _check_missing(missing)
    with _open_table(source, options) as table:
        names = list(dict.fromkeys(table.names if columns is None else columns))
        positions = _positions(table, names) if columns else [table.names.index(name) for name in names]
        ranges = [_Range() for _ in names]
        problems: dict[str, str] = {}
        dropped = 0
        size = max(1, min(_SCAN_CELLS // max(1, len(names)), 8192))
        while (batch := table.read(size, positions)).rows:
            if columns is None:
                numbers = [_lenient(batch, j, name, problems) for j, name in enumerate(names)]
            else:
                complete = _Complete(batch, names, missing)
                numbers, dropped = complete.numbers, dropped + complete.dropped
            for collected, found in zip(ranges, numbers, strict=True):
                collected.add(found)
        facts = {name: found.facts(problems.get(name)) for name, found in zip(names, ranges, strict=True)}
        return TableFacts(table.names, table.read_rows - dropped, dropped, facts)


def _lenient(batch: Batch | ArrowBatch | ArrayBatch, j: int, name: str, problems: dict[str, str]) -> Numbers | Whole:
    """The column's numbers without the missing; its first bad cell goes to `problems` and ends it."""
    if name in problems:
        return Numbers.zeros(0)
    numbers = batch.numbers(j)
    if not numbers.bad:
        return numbers
    for row in numbers.bad:
        if not batch.missing(j, row):
            problems[name] = f"{batch.place(row, name)}: {batch.problem(j, row)}"
            return Numbers.zeros(0)
    bad = set(numbers.bad)
    return numbers.keep([row for row in range(batch.rows) if row not in bad])


# --- blocks: wire integers --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Block:
    """Up to `size` rows. values: by column, wire integers: int64 [rows] if their range fits, else a list."""

    rows: int
    values: list[npt.NDArray[np.int64] | list[int]]


class Blocks:
    """The complete rows in blocks of `size` (the last may be shorter); made by `blocks`.

    Iterate once at a time; afterwards `rows` and `dropped` are the totals. A table without rows has no block.
    """

    def __init__(
        self,
        source: Source,
        options: CsvOptions,
        columns: Sequence[Column],
        bounds: Mapping[Column, ColumnBounds],
        missing: str,
        size: int,
    ) -> None:
        _check_missing(missing)
        self._source, self._options, self._missing, self._size = source, options, missing, size
        self._columns = list(columns)
        self._wires = [Wire(column, bounds[column]) for column in dict.fromkeys(columns) if column != ONES]
        self.rows = 0
        self.dropped = 0

    def __iter__(self) -> Iterator[Block]:
        self.rows = self.dropped = 0
        names = list(dict.fromkeys(wire.column.name for wire in self._wires))
        with _open_table(self._source, self._options) as table:
            positions = _positions(table, names)
            held: list[list[Any]] = [[] for _ in self._wires]  # by column, pieces of the block to be
            rows = 0
            while (batch := table.read(self._size - rows, positions)).rows:
                complete = _Complete(batch, names, self._missing)
                for pieces, wire in zip(held, self._wires, strict=True):
                    pieces.append(complete.wire(names.index(wire.column.name), wire))
                rows += complete.count
                self.dropped += complete.dropped
                if rows == self._size:
                    yield self._block(rows, held)
                    held, rows = [[] for _ in self._wires], 0
            if rows:
                yield self._block(rows, held)

    def _block(self, rows: int, held: list[list[Any]]) -> Block:
        self.rows += rows
        by_column: dict[Column, npt.NDArray[np.int64] | list[int]] = {ONES: np.ones(rows, np.int64)}
        for wire, pieces in zip(self._wires, held, strict=True):
            by_column[wire.column] = np.concatenate(pieces) if wire.fits else [*chain.from_iterable(pieces)]
        return Block(rows, [by_column[column] for column in self._columns])


def blocks(
    source: Source,
    options: CsvOptions,
    columns: Sequence[Column],
    bounds: Mapping[Column, ColumnBounds],
    missing: str,
    size: int,
) -> Blocks:
    """The table as blocks of wire integers, one value list per column (ONES among them gives ones).

    bounds: of each column but ONES; a power column has the bounds of the power. DataError naming row,
    column and text for a value outside its bounds, with more decimals than its scale, or not a number.
    """
    return Blocks(source, options, columns, bounds, missing, size)


def records(
    source: Source, options: CsvOptions, names: Sequence[str], missing: str
) -> Iterator[dict[Column, Fraction]]:
    """The complete rows as exact values of the named columns: what a workload's oracle reads."""
    _check_missing(missing)

    names = list(dict.fromkeys(names))
    keys = [Column(name) for name in names]
    with _open_table(source, options) as table:
        positions = _positions(table, names)
        while (batch := table.read(1024, positions)).rows:
            complete = _Complete(batch, names, missing)
            for row in range(complete.count):
                numbers = zip(keys, complete.numbers, strict=True)
                yield {key: to_fraction(column.at(row)) for key, column in numbers}
