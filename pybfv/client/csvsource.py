"""Where a table's bytes come from: files, standard input, gzip and zstd; and its text as lines.

Everything streams: at most a chunk of the data and one line are in memory, whatever the file holds.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, BinaryIO

import zstandard

from pybfv.client.arrays import Arrays, as_arrays
from pybfv.errors import DataError, MissingInputError, OutputError

CHUNK = 1 << 18
# A zstd block expands 4 bytes to 128 KiB at most, so pieces of this size give 16 MiB at most at once.
_ZSTD_PIECE = 512
_ZSTD_WINDOW = 1 << 27  # what the zstd command itself accepts without being asked
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive or a spreadsheet (unpack it, or save the table as CSV)",
    b"\xd0\xcf\x11\xe0": "a spreadsheet (save the table as CSV)",
    b"\xfd7zXZ": "compressed with xz (unpack it, or use gzip or zstd)",
    b"BZh91AY&SY": "compressed with bzip2 (unpack it, or use gzip or zstd)",
}
RECORD_LIMIT = 1 << 20  # characters in one line, or in one record of several lines


class Spool:
    """Bytes that can be read more than once though they came through a pipe."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self.name = descriptor, name

    def open(self) -> BinaryIO:
        """A new reader from the start; readers do not disturb each other."""
        return io.BufferedReader(_Pread(self._descriptor), CHUNK)


Source = str | os.PathLike[str] | Spool | Arrays


def as_source(data: Any, names: Sequence[str] = (), name: str = "arrays") -> Source:
    """Paths and open sources as they are, anything else as `as_arrays` takes it."""
    return data if isinstance(data, str | os.PathLike | Spool) else as_arrays(data, names, name)


class _Pread(io.RawIOBase):
    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._at = descriptor, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = os.pread(self._descriptor, len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class _Rewound(io.RawIOBase):
    """A stream whose first bytes have been read already."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head, self._stream = io.BytesIO(head), stream

    def read(self, size: int = -1) -> bytes:
        size = CHUNK if size < 0 else size
        data = self._head.read(size)
        return data if len(data) == size else data + self._stream.read(size - len(data))


def source_name(source: Source) -> str:
    """What messages call the source, in one line."""
    if isinstance(source, Spool | Arrays):
        return source.name
    text = os.fspath(source)
    return "standard input" if text == "-" else text if text.isprintable() else repr(text)


def _is_regular(path: str) -> bool:
    """Whether the path is a regular file (or else a pipe). MissingInputError when it is neither."""
    shown = source_name(path)
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise MissingInputError(f"{shown}: no such file; check the name") from None
    except (OSError, ValueError) as error:
        raise MissingInputError(f"{shown}: can't be read ({_reason(error)})") from None
    if stat.S_ISDIR(mode):
        raise MissingInputError(f"{shown}: is a folder; name a CSV file in it")
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise MissingInputError(f"{shown}: is neither a file nor a pipe; for standard input write -")
    return stat.S_ISREG(mode)


def _reason(error: Exception) -> str:
    text = (getattr(error, "strerror", None) or str(error)).lower()
    return text if text.isprintable() else ascii(text)[1:-1]  # some codecs quote what they read


@contextmanager
def _open(source: str | os.PathLike[str] | Spool) -> Iterator[BinaryIO]:
    """The source's raw bytes."""
    if isinstance(source, Spool):
        with source.open() as stream:
            yield stream
        return
    path = os.fspath(source)
    if path == "-":
        if sys.stdin is None:
            raise MissingInputError("standard input: is closed; give a file instead of -")
        yield sys.stdin.buffer
        return
    _is_regular(path)
    try:
        stream = open(path, "rb", buffering=CHUNK)  # noqa: SIM115 (closed below)
    except OSError as error:
        raise MissingInputError(f"{source_name(path)}: can't be read ({_reason(error)})") from None
    with stream:
        yield stream


def _raw_chunks(name: str, stream: BinaryIO) -> Iterator[bytes]:
    try:
        while chunk := stream.read(CHUNK):
            yield chunk
    except OSError as error:
        raise MissingInputError(f"{name}: can't be read ({_reason(error)})") from None


@contextmanager
def spool(source: Source) -> Iterator[Source]:
    """The source in a form that can be read twice.

    A regular file stands for itself. Standard input ("-") and pipes are copied to a temporary
    file that has no name (nothing is left behind, whatever happens). OutputError when it can't be written.
    """
    if isinstance(source, Spool | Arrays) or (os.fspath(source) != "-" and _is_regular(os.fspath(source))):
        yield source
        return
    name = source_name(source)
    try:
        file = tempfile.TemporaryFile(prefix="pybfv-")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise OutputError(f"no temporary file can be made ({_reason(error)}): set TMPDIR") from None
    with file, _open(source) as stream:
        for chunk in _raw_chunks(name, stream):
            try:
                file.write(chunk)
                file.flush()
            except OSError as error:
                raise OutputError(f"{name}: can't be kept in a temporary file ({_reason(error)}): set TMPDIR") from None
        yield Spool(file.fileno(), name)


@contextmanager
def open_chunks(source: str | os.PathLike[str] | Spool) -> Iterator[Iterator[bytes]]:
    """The source's bytes in chunks, uncompressed; gzip and zstd are recognised by their first bytes."""
    name = source_name(source)
    with _open(source) as stream:
        raw = _raw_chunks(name, stream)
        head = b""
        while len(head) < 10 and (more := next(raw, b"")):
            head += more
        for start, what in _OTHER_FORMATS.items():
            if head.startswith(start):
                raise DataError(f"{name}: is {what}, no CSV file")
        if head.startswith(b"\x1f\x8b"):
            yield _gunzip(name, _Rewound(head, stream))
        elif head.startswith(b"\x28\xb5\x2f\xfd"):
            yield _unzstd(name, chain([head], raw))
        else:
            yield chain([head], raw) if head else iter(())


def _gunzip(name: str, stream: _Rewound) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=stream) as file:  # type: ignore[arg-type]
            while chunk := file.read(CHUNK):
                yield chunk
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name}: damaged gzip data ({_reason(error)}): get the file again") from None
    except OSError as error:
        raise MissingInputError(f"{name}: can't be read ({_reason(error)})") from None


def _unzstd(name: str, raw: Iterator[bytes]) -> Iterator[bytes]:
    # Not the library's stream reader: that takes a truncated file for a complete one.
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    frame = None
    try:
        for chunk in raw:
            for at in range(0, len(chunk), _ZSTD_PIECE):
                piece = chunk[at : at + _ZSTD_PIECE]
                while piece:
                    frame = frame or decompressor.decompressobj()
                    data = frame.decompress(piece)
                    yield from (data[i : i + CHUNK] for i in range(0, len(data), CHUNK))
                    piece = frame.unused_data if frame.eof else b""
                    frame = None if frame.eof else frame
    except zstandard.ZstdError as error:
        raise DataError(f"{name}: damaged zstd data ({_reason(error)}): get the file again") from None
    if frame is not None:
        raise DataError(f"{name}: damaged zstd data (it ends in the middle): get the file again")


def likely_rows(source: Source) -> int | None:
    """About how many lines a regular file has, from its first ones and its size; None where that can't be told."""
    if isinstance(source, Spool | Arrays):
        return None
    try:
        found = os.stat(source)
        if not stat.S_ISREG(found.st_mode):
            return None  # a pipe would lose what is read here
        with open(source, "rb") as stream:
            start = stream.read(CHUNK)
    except (OSError, ValueError):
        return None  # refused where it is read
    lines = start.count(b"\n")
    if not lines or start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        return None
    return found.st_size * lines // (start.rindex(b"\n") + 1)


class Lines:
    """Text lines with their ends (LF, CRLF or CR), from chunks of bytes; a byte order mark is dropped.

    DataError, with line or byte, on undecodable bytes, NUL characters and overlong lines or records.
    `started`: whether there was any byte. `taken`: characters read so far. `rows`: a list that grows with
    each record that the caller completes; when it stands still for too long, a quote was never closed.
    `lines`, `offset`: how many lines and bytes of the source come before the chunks.
    """

    def __init__(self, name: str, chunks: Iterator[bytes], encoding: str, lines: int = 0, offset: int = 0) -> None:
        self._name, self._chunks, self._encoding, self._offset = name, chunks, encoding, offset
        self._count, self._pending = lines, ""  # complete lines given out, start of the next one
        self.started = False
        self.taken = 0
        self.rows: list[object] = []

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._batches())

    def _line_after(self, text: str) -> int:
        """The number of the line in which a character after `text` lies."""
        return self._count + len(_split(self._pending + text + "x"))

    def _batches(self) -> Iterator[list[str]]:
        waiting, last = 0, (0, 0)
        for text in self._decoded():
            if "\0" in text:
                line = self._line_after(text[: text.index("\0")])
                kind = _unmarked(text, self._encoding)
                raise DataError(
                    f"{self._name} line {line}: a NUL character; is it a text file? For {kind[:6].upper()} give "
                    f"--encoding {kind}"
                )
            here = (id(self.rows), len(self.rows))
            waiting = waiting + len(text) - text.count("\n") if here == last else 0
            last = here
            lines = _split(self._pending + text)
            # The last line may go on in the next chunk, and a CR at its end may be half of a CRLF.
            self._pending = lines.pop() if lines and not lines[-1].endswith("\n") else ""
            if max(len(self._pending), waiting) > RECORD_LIMIT:
                raise DataError(
                    f"{self._name} line {self._count + len(lines) + 1}: a record of more than {RECORD_LIMIT} "
                    "characters; is a double quote never closed, or is it no CSV file?"
                )
            self._count += len(lines)
            yield lines
        if self._pending:
            yield [self._pending]

    def _decoded(self) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(self._encoding)("strict")
        offset = self._offset
        first = offset == 0
        for chunk, final in chain(((chunk, False) for chunk in self._chunks), [(b"", True)]):
            try:
                text = decoder.decode(chunk, final)
            except UnicodeDecodeError as error:
                good = error.object[: error.start].decode(self._encoding, "ignore")
                hint = _marked(chunk) if offset == 0 else ""
                byte = offset + len(chunk) - len(error.object) + error.start
                raise DataError(
                    f"{self._name} line {self._line_after(good)}: byte {byte} "
                    f"(0x{error.object[error.start]:02x}) is not {self._encoding}: give --encoding{hint}"
                ) from None
            except UnicodeError as error:
                hint = _marked(chunk) if offset == 0 else ""
                raise DataError(
                    f"{self._name}: is not {self._encoding} ({_reason(error)}): give --encoding{hint}"
                ) from None
            offset += len(chunk)
            self.taken += len(text)
            self.started = offset > 0
            if first and text:
                text, first = text.removeprefix("\ufeff"), False
            yield text


def _marked(start: bytes) -> str:
    """The encoding that a byte order mark names, after a space, or ""; UTF-32's may begin with UTF-16's."""
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return " utf-32"
    return " utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else ""


def _unmarked(text: str, encoding: str) -> str:
    """The encoding of a text that had NUL characters when it was read in another one.

    Without a mark they tell the byte order too: of an ASCII character's bytes, all but one are NUL.
    """
    if "16" in encoding:
        return "utf-32"
    kind, first = "utf-32" if "\0\0" in text else "utf-16", text.index("\0")
    return f"{kind}-{'be' if first == 0 else 'le'}" if first <= 1 else kind


def _split(text: str) -> list[str]:
    """Lines with their ends; unlike str.splitlines, only at LF, CRLF and CR."""
    return io.StringIO(text, newline="").readlines()
