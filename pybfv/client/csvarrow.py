"""Large plain CSV files split by pyarrow, where it is installed; the standard reader takes over where one is not plain.

Cells are read as text, never as floats. Both readers give the same rows and the same refusals, because a block of text
is only given to pyarrow when it has no quotes, no blank lines and no NUL, decodes, and has lines of moderate length:
splitting it at line ends and delimiters is then all there is to do. The standard reader gets the first batch that
touches another block, from the bytes at which it begins and in the same pieces, and all that comes after.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

from pybfv.client.csvnumbers import CsvOptions, Numbers, is_missing, not_a_number, parse_number, shown_cell
from pybfv.client.csvrecords import CELL, Batch, Place, Table, names_of, reader_of
from pybfv.workload import show_name

_ENCODINGS = ("utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252")
"""Encodings in which the bytes below 128 are ASCII, wherever they stand."""

_LEAST = 1 << 18  # bytes of a file that is worth loading pyarrow for
_BATCH_BYTES = 1 << 24  # a batch ends after about this much text, however few rows that is
_LINE = 1 << 16  # bytes


@lru_cache(maxsize=1)
def _arrow() -> Any:
    """The module pyarrow with pyarrow.csv in it, or None."""
    try:
        import pyarrow
        import pyarrow.csv
    except ImportError:
        return None
    return pyarrow


def open_table(name: str, chunks: Iterator[bytes], options: CsvOptions) -> Table | ArrowTable:
    """The table, by pyarrow when it is installed and the size, options and first line allow it."""
    first = next(chunks, b"")
    if len(first) >= _LEAST and (start := _header(first, options)) and _arrow():
        table = ArrowTable(name, first, chunks, options, *start)
        if table.good:
            return table
    return Table(name, chain([first] if first else [], chunks), options)


def _header(first: bytes, options: CsvOptions) -> tuple[list[str], int] | None:
    """The names, and where the data begin, when options and the first line are plain."""
    encoding = codecs.lookup(options.encoding).name
    if encoding not in _ENCODINGS or not options.delimiter.isascii() or not options.decimal.isascii():
        return None
    begin = len(codecs.BOM_UTF8) if encoding == "utf-8" and first.startswith(codecs.BOM_UTF8) else 0
    end = first.find(b"\n")
    line = first[begin:end].removesuffix(b"\r")
    if end < 0 or not line or b'"' in line or b"\r" in line:
        return None
    try:
        cells = next(reader_of([line.decode(options.encoding)], options))
    except (UnicodeError, csv.Error):
        return None
    if cells[0].lower().startswith("sep="):
        return None  # refused there, if it is such a line
    return names_of(cells, options), end + 1 if options.header else begin


@dataclass(slots=True)
class _Block:
    """Whole lines of text, split. ``cells``: by wanted column, its text and where cells end (as native.decimals)."""

    lines: np.ndarray  # where in the text each line begins, and the last one ends
    cells: list[tuple[memoryview, np.ndarray]]
    taken: int = 0  # lines that went into batches


class ArrowTable:
    """An open table: `names`, then batches of records."""

    def __init__(
        self, name: str, first: bytes, chunks: Iterator[bytes], options: CsvOptions, names: list[str], start: int
    ) -> None:
        self.name, self.options, self.names, self.read_rows = name, options, names, 0
        self._chunks = chunks
        self._decoder = codecs.getincrementaldecoder(options.encoding)("strict")
        self._text, self._offset = first[start:], start  # of the text in the source
        self._lines = 1 if options.header else 0
        self._ended = False
        self._added = 0  # bytes at the end of the text that are not the source's
        self._block: _Block | None = None
        self._slow: Table | None = None
        self.good = self._decodes(first)
        """Whether all text so far decodes and has no NUL."""

    def _decodes(self, chunk: bytes, final: bool = False) -> bool:
        try:
            self._decoder.decode(chunk, final)
        except UnicodeError:
            return False
        return b"\0" not in chunk

    def read(self, count: int, positions: Sequence[int]) -> Batch | ArrowBatch:
        """The next `count` records, or fewer at the end; only the cells at `positions`, always the same, are kept."""
        batch = None if self._slow else self._read(count, positions)
        if batch is None:
            assert self._slow is not None
            batch = self._slow.read(count, positions)
        self.read_rows += batch.rows
        return batch

    def _read(self, count: int, positions: Sequence[int]) -> ArrowBatch | None:
        batch = ArrowBatch(self, [], 0, self.read_rows + 1, self._lines + 1)
        at = int(self._block.lines[self._block.taken]) if self._block else 0
        begin, taken = self._offset + at, 0
        pieces = [self._text[at : len(self._text) - self._added]]  # what the standard reader would get
        while self.good:
            block = self._block = self._block or self._split(positions)
            if block is None:
                break
            more = min(count - batch.rows, len(block.lines) - 1 - block.taken)
            if more:
                batch.parts.append((batch.rows, block, block.taken))
                block.taken += more
                batch.rows += more
            at = int(block.lines[-1])
            if batch.rows == count or taken > _BATCH_BYTES or (self._ended and at == len(self._text)):
                self._lines += batch.rows
                return batch
            if chunk := next(self._chunks, b""):
                pieces.append(chunk)
                self.good = self._decodes(chunk)
            else:
                self.good = not self._ended and self._decodes(b"", True)
                self._ended = True
                if at < len(self._text):  # the last line's end is missing
                    chunk, self._added = b"\n", 1
            taken += len(chunk)
            self._offset += at
            self._text, self._block = self._text[at:] + chunk, None
        place = Place(self.names, self._lines, self.read_rows, begin)
        self._slow = Table(self.name, chain(filter(None, pieces), self._chunks), self.options, place)
        self._text, self._block = b"", None
        return None

    def _split(self, positions: Sequence[int]) -> _Block | None:
        """The whole lines of the text; None when they are not plain."""
        text = self._text
        size = text.rfind(b"\n") + 1
        ends = np.flatnonzero(np.frombuffer(text, np.uint8, size) == ord("\n")) + 1
        lines = np.concatenate([np.zeros(1, ends.dtype), ends])
        if max(np.diff(lines, append=len(text)), default=0) > _LINE or b'"' in text:
            return None
        if not size:
            return _Block(lines, [])
        # pyarrow drops a byte order mark wherever a text begins, whatever the encoding; it belongs to a cell here
        if text.startswith((b"\n", b"\r\n", codecs.BOM_UTF8)) or b"\n\n" in text or b"\n\r\n" in text:
            return None
        if text.count(b"\r", 0, size) != text.count(b"\r\n", 0, size):
            return None
        arrow = _arrow()
        columns = [str(k) for k in range(len(self.names))]
        wanted = [columns[k] for k in positions]
        try:
            table = arrow.csv.read_csv(
                arrow.BufferReader(arrow.py_buffer(memoryview(text)[:size])),
                arrow.csv.ReadOptions(use_threads=False, block_size=size + 1, column_names=columns),
                arrow.csv.ParseOptions(delimiter=self.options.delimiter, quote_char=False, escape_char=False),
                arrow.csv.ConvertOptions(
                    check_utf8=False, include_columns=wanted or columns[:1], strings_can_be_null=False,
                    column_types=dict.fromkeys(columns, arrow.string()),
                ),
            )  # fmt: skip
        except arrow.ArrowInvalid:
            return None  # a line with too many or too few cells, most likely
        if table.num_rows != len(ends):
            return None
        cells = [_buffers(table.column(name)) for name in wanted]
        if any(len(where) > 1 and int(np.diff(where).max()) > CELL for _, where in cells):
            return None
        return _Block(lines, cells)


def _buffers(column: Any) -> tuple[memoryview, np.ndarray]:
    """A column of text: its bytes, and where its cells end."""
    array = column.combine_chunks()
    array = array if hasattr(array, "buffers") else array.chunk(0)
    _, ends, text = array.buffers()
    where = np.frombuffer(ends, np.int32)[array.offset : array.offset + len(array) + 1]
    return memoryview(text) if text is not None else memoryview(b""), where


@dataclass(slots=True)
class ArrowBatch:
    """Rows of plain records; `parts`: from which row of the batch on they come from which block, and its line."""

    table: ArrowTable
    parts: list[tuple[int, _Block, int]]
    rows: int
    first: int  # number of its first data row
    line: int  # and of that row's line

    def place(self, row: int, name: str) -> str:
        """Where a cell is, for messages."""
        return f"{self.table.name} row {self.first + row} (line {self.line + row}), column {show_name(name)}"

    def text(self, j: int, row: int) -> str:
        """A cell as the standard reader gives it."""
        start, block, line = next(part for part in reversed(self.parts) if part[0] <= row)
        data, ends = block.cells[j]
        begin, end = ends[line + row - start : line + row - start + 2].tolist()
        text = str(data[begin:end], self.table.options.encoding)
        return text if self.table.options.delimiter == " " else text.lstrip(" ")

    def numbers(self, j: int) -> Numbers:
        """Column j's numbers."""
        options, found, odd = self.table.options, [], []
        for start, block, line in self.parts:
            data, ends = block.cells[j]
            stop = min(self.rows - start, len(ends) - 1 - line)
            part = Numbers.zeros(0)
            odd += (start + np.flatnonzero(~part.fill(data, ends[line : line + stop + 1], options.decimal))).tolist()
            found.append(part)
        numbers = Numbers.zeros(0)
        if found:
            numbers.mantissa = np.concatenate([part.mantissa for part in found])
            numbers.decimals = np.concatenate([part.decimals for part in found])
        for row in odd:
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
