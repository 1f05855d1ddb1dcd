"""Plain CSV files read in C; the standard reader takes over where a file is not plain.

Both give the same rows and the same refusals, because a batch is only taken here when all of it is plain: one line a
record, every record of the right width, text that decodes. Otherwise the standard reader gets the batch, from the
bytes at which it begins and in the same chunks, and all that comes after. Cells that are no plain number, missing
ones among them, are read one by one as the standard reader does.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from pybfv.client.csvnumbers import CsvOptions, Numbers, is_missing, not_a_number, parse_number, shown_cell
from pybfv.client.csvrecords import Batch, Place, Table, names_of, reader_of
from pybfv.native import PlainRows
from pybfv.workload import show_name

_ENCODINGS = ("utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252")
"""Encodings in which the bytes below 128 are ASCII, wherever they stand."""

_BATCH_BYTES = 1 << 24  # a batch ends after about this much text, however few rows that is


def open_plain(name: str, chunks: Iterator[bytes], options: CsvOptions) -> Table | PlainTable:
    """The table, by the fast reader when options, encoding and the first line allow it."""
    first = next(chunks, b"")
    if start := _header(first, options):
        table = PlainTable(name, first, chunks, options, *start)
        if table.good:
            return table
    return Table(name, chain([first] if first else [], chunks), options)


def _header(first: bytes, options: CsvOptions) -> tuple[list[str], int] | None:
    """The names, and where the data begin, when the first line is plain."""
    encoding = codecs.lookup(options.encoding).name
    if encoding not in _ENCODINGS or not options.delimiter.isascii() or not options.decimal.isascii():
        return None
    begin = len(codecs.BOM_UTF8) if encoding == "utf-8" and first.startswith(codecs.BOM_UTF8) else 0
    end = first.find(b"\n")
    line = first[begin:end].removesuffix(b"\r")
    if end < 0 or not line or any(byte in line for byte in b'"\r'):
        return None
    try:
        cells = next(reader_of([line.decode(options.encoding)], options))
    except (UnicodeError, csv.Error):
        return None
    if cells[0].lower().startswith("sep="):
        return None  # refused there, if it is such a line
    return names_of(cells, options), end + 1 if options.header else begin


class PlainTable:
    """An open table: `names`, then batches of records."""

    def __init__(
        self, name: str, first: bytes, chunks: Iterator[bytes], options: CsvOptions, names: list[str], start: int
    ) -> None:
        self.name, self.options, self.names, self.read_rows = name, options, names, 0
        self._chunks = chunks
        self._decoder = codecs.getincrementaldecoder(options.encoding)("strict")
        self._text, self._at, self._offset = first, start, 0  # at: in the text; offset: of the text in the source
        self._lines = 1 if options.header else 0
        self._ended = False
        self._added = 0  # bytes at the end of the text that are not the source's
        self._slow: Table | None = None
        self.good = self._decodes(first)
        """Whether all text so far decodes and has no NUL."""

    def _decodes(self, chunk: bytes, final: bool = False) -> bool:
        try:
            self._decoder.decode(chunk, final)
        except UnicodeError:
            return False
        return b"\0" not in chunk

    def read(self, count: int, positions: Sequence[int]) -> Batch | PlainBatch:
        """The next `count` records, or fewer at the end; only the cells at `positions` are kept."""
        batch = None if self._slow else self._read(count, positions)
        if batch is None:
            assert self._slow is not None
            batch = self._slow.read(count, positions)
        self.read_rows += batch.rows
        return batch

    def _read(self, count: int, positions: Sequence[int]) -> PlainBatch | None:
        places = [-1] * len(self.names)
        for place, position in enumerate(positions):
            places[position] = place
        rows = PlainRows(places, count, self.options.delimiter, self.options.decimal)
        batch = PlainBatch(self, rows, self.read_rows + 1, self._lines + 1, [])
        begin = self._offset + self._at
        pieces = [self._text[self._at : len(self._text) - self._added]]  # what the standard reader would get
        taken = 0
        while self.good:
            before = rows.rows
            self._at, plain = rows.read(self._text, self._at)
            if rows.rows > before:
                batch.texts.append((before, self._text))
            if not plain:
                break
            if rows.rows == count or taken > _BATCH_BYTES or (self._ended and self._at == len(self._text)):
                self._lines += rows.rows
                return batch
            if chunk := next(self._chunks, b""):
                pieces.append(chunk)
                self.good = self._decodes(chunk)
            else:
                self.good = not self._ended and self._decodes(b"", True)
                self._ended = True
                if self._at < len(self._text):  # the last line's end is missing
                    chunk, self._added = b"\n", 1
            taken += len(chunk)
            self._offset += self._at
            self._text, self._at = self._text[self._at :] + chunk, 0
        place = Place(self.names, self._lines, self.read_rows, begin)
        self._slow = Table(self.name, chain(filter(None, pieces), self._chunks), self.options, place)
        self._text = b""
        return None


@dataclass(slots=True)
class PlainBatch:
    """Rows of plain records; `texts`: the text from which the rows from a number on were read."""

    table: PlainTable
    read: PlainRows
    first: int  # number of its first data row
    line: int  # and of that row's line
    texts: list[tuple[int, bytes]]

    @property
    def rows(self) -> int:
        """How many."""
        return self.read.rows

    def place(self, row: int, name: str) -> str:
        """Where a cell is, for messages."""
        return f"{self.table.name} row {self.first + row} (line {self.line + row}), column {show_name(name)}"

    def text(self, j: int, row: int) -> str:
        """A cell as the standard reader gives it."""
        begin, end = self.read.spans[j, row].tolist()
        text = next(text for start, text in reversed(self.texts) if start <= row)
        return text[begin:end].decode(self.table.options.encoding)

    def numbers(self, j: int) -> Numbers:
        """Column j's numbers."""
        read, rows = self.read, self.rows
        numbers = Numbers(read.mantissa[j, :rows].copy(), read.decimals[j, :rows].copy(), {}, [])
        options = self.table.options
        for row in np.flatnonzero(numbers.decimals < 0).tolist():
            numbers.put(row, parse_number(self.text(j, row), options))
        return numbers

    def missing(self, j: int, row: int) -> bool:
        """Whether a cell holds no value."""
        return is_missing(self.text(j, row))

    def shown(self, j: int, row: int) -> str:
        """A cell for messages, short."""
        return shown_cell(self.text(j, row))

    def problem(self, j: int, row: int) -> str:
        """Why a cell that is no number is none."""
        return f"{self.shown(j, row)} {not_a_number(self.table.options)}"
