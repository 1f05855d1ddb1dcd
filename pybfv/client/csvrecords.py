"""Records of a CSV file by the standard csv module: every dialect and encoding, and the words of every refusal."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

from pybfv.client.csvnumbers import CsvOptions, Numbers, is_missing, not_a_number, read_numbers, shown_cell
from pybfv.client.csvsource import Lines
from pybfv.errors import DataError
from pybfv.workload import show_name

_BATCH_CHARACTERS = 1 << 24  # a batch ends after about this much text, however few rows that is
CELL = 2000  # characters of a cell that should hold a number
_BLANK_LINES = 1_000_000


def reader_of(lines: Iterable[str], options: CsvOptions) -> Any:
    """A csv.reader of the one dialect that is read."""
    return csv.reader(lines, delimiter=options.delimiter, strict=True, skipinitialspace=options.delimiter != " ")


def names_of(first: Sequence[str], options: CsvOptions) -> list[str]:
    """The columns' names, from the first record."""
    positions = [f"c{i}" for i in range(1, len(first) + 1)]
    if not options.header:
        return positions
    return [cell.strip() or position for cell, position in zip(first, positions, strict=True)]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader takes over: after so many lines, rows and bytes of a table whose columns are known."""

    names: list[str]
    lines: int
    rows: int
    offset: int


class Table:
    """An open table: `names`, then batches of records. DataError on anything that is not clean CSV.

    ``place``: the chunks begin there, and not with the first record.
    """

    def __init__(self, name: str, chunks: Iterator[bytes], options: CsvOptions, place: Place | None = None) -> None:
        self.name, self.options, self._blank = name, options, 0
        self.read_rows, self._before = (place.rows, place.lines) if place else (0, 0)
        self._lines = Lines(name, chunks, options.encoding, self._before, place.offset if place else 0)
        self._reader = reader_of(self._lines, options)
        self._records: Iterator[list[str]] = self._reader
        if place:
            self.names = place.names
            return
        first = self._first()
        self.names = names_of(first, options)
        if not options.header:
            self._records = chain([first], self._reader)

    def _first(self) -> list[str]:
        with self._csv_errors():
            for record in self._reader:
                if record:  # only an empty line is skipped: a line of empty cells is a header without names
                    if record[0].lower().startswith("sep=") and len("".join(record)) <= 5:
                        line = self._reader.line_num
                        raise DataError(
                            f"{self.name} line {line}: {shown_cell(record[0])} is a line for spreadsheets: remove it, "
                            "and give --delimiter"
                        )
                    return record
        what = "has nothing but blank lines" if self._lines.started else "is empty"
        raise DataError(f"{self.name}: {what}: a CSV file with column names and rows is needed")

    @contextmanager
    def _csv_errors(self) -> Iterator[None]:
        try:
            yield
        except csv.Error as error:
            line, why = self._before + self._reader.line_num, str(error)
            why = why if why.isprintable() else ascii(why)[1:-1]  # it quotes the delimiter, perhaps a tab
            raise DataError(f"{self.name} line {line}: broken CSV ({why}); check the quotes") from None

    def read(self, count: int, positions: Sequence[int]) -> Batch:
        """The next `count` records, or fewer at the end; only the cells at `positions` are kept."""
        rows: list[Any] = []
        lines: list[int] = []
        source = self._lines
        source.rows = rows
        pick: Callable[[list[str]], Any] = itemgetter(*positions) if positions else len
        width, reader, before, end = len(self.names), self._reader, self._before, source.taken + _BATCH_CHARACTERS
        add_row, add_line, left = rows.append, lines.append, count
        with self._csv_errors():
            for record in self._records:
                if len(record) != width:
                    if not record:
                        self._blank += 1
                        if self._blank > _BLANK_LINES:
                            raise DataError(f"{self.name}: more than {_BLANK_LINES} empty lines; is it a CSV file?")
                        continue
                    raise DataError(
                        f"{self.name} line {before + reader.line_num}: {len(record)} cells, but {width} columns; "
                        "mend the line or check --delimiter"
                    )
                add_row(pick(record))
                add_line(reader.line_num)
                left -= 1
                if not left or source.taken > end:
                    break
        if before:
            lines = [before + line for line in lines]
        texts = list(zip(*rows, strict=True)) if len(positions) > 1 else [rows] if positions else []
        batch = Batch(self, texts or [()] * len(positions), self.read_rows + 1, lines)
        for position, column in zip(positions, texts, strict=False):
            if column and len(longest := max(column, key=len)) > CELL:
                where = batch.place(column.index(longest), self.names[position])
                raise DataError(f"{where}: a cell of {len(longest)} characters is no number; mend it")
        self.read_rows += len(lines)
        return batch


@dataclass(slots=True)
class Batch:
    table: Table
    texts: list[Sequence[str]]  # by column
    first: int  # number of its first data row
    lines: list[int]

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.lines)

    def place(self, row: int, name: str) -> str:
        """Where a cell is, for messages."""
        where = f"row {self.first + row} (line {self.lines[row]})"
        return f"{self.table.name} {where}, column {show_name(name)}"

    def numbers(self, j: int) -> Numbers:
        """Column j's numbers."""
        return read_numbers(self.texts[j], self.table.options)

    def missing(self, j: int, row: int) -> bool:
        """Whether a cell holds no value."""
        return is_missing(self.texts[j][row])

    def shown(self, j: int, row: int) -> str:
        """A cell for messages, short."""
        return shown_cell(self.texts[j][row])

    def problem(self, j: int, row: int) -> str:
        """Why a cell that is no number is none."""
        return f"{self.shown(j, row)} {not_a_number(self.table.options)}"
