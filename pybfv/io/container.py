"""The container of every binary file: a prologue, records, an end record (FORMAT.md, section 3).

A record's CRC-32C also covers its place in the file and its file's header, so that records that
were swapped, repeated, dropped or taken from another file are refused like flipped bits are.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from pybfv import native
from pybfv.errors import DataError, KeyRefusedError
from pybfv.io import canonical, sign
from pybfv.io.source import CHUNK, PathLike, Source, open_source

MAGIC = b"\x89PBFV\r\n\x1a"
VERSION = 1

HEAD = b"HEAD"
STUDY = b"STDY"
SIGNED = b"SIGN"
END = b"END "

MAX_RECORD = 1 << 30
"""A record's payload has at most this many bytes."""

_PROLOGUE = struct.Struct("<8sHHI")
_RECORD = struct.Struct("<4sQ")
_CRC = struct.Struct("<I")
_BINDING = struct.Struct("<IQ")
_TOTALS = struct.Struct("<QQQQ")
END_SIZE = _RECORD.size + _TOTALS.size + _CRC.size
"""Bytes of a whole end record."""
RECORD_OVERHEAD = _RECORD.size + _CRC.size
"""Bytes of a record beside its payload."""
SIGNED_SIZE = RECORD_OVERHEAD + sign.SIGNATURE_BYTES
"""Bytes of a whole signature record."""
PROLOGUE_SIZE = _PROLOGUE.size
PIECE = 1 << 19
"""Bytes of a large payload that are read and checked at a time: they stay in a core's cache meanwhile."""
MAX_COUNT = (1 << 63) - 1
"""Counts of rows, blocks and contributions are at most this."""


class Kind(IntEnum):
    """What a file holds; the values are those in the prologue."""

    SECRET_KEY = 1
    PUBLIC_KEY = 2
    CONTRIBUTION = 3
    PARTIAL = 4
    RESULT = 5

    @property
    def label(self) -> str:
        """The kind with its article, for messages."""
        return "a " + self.name.lower().replace("_", " ")

    @property
    def extension(self) -> str:
        """The usual end of such a file's name."""
        return {3: ".bfvc", 4: ".bfvp", 5: ".bfvr"}.get(self.value, ".key")


SIGNABLE = (Kind.CONTRIBUTION, Kind.PARTIAL, Kind.RESULT)
"""Kinds that may carry a signature."""


class EndTotals(NamedTuple):
    """The counts in the end record: all 0 where a kind has no such count."""

    rows: int
    dropped: int
    blocks: int


def wire(array: np.ndarray) -> memoryview:
    """The bytes of an integer array as files hold them (little-endian, C order)."""
    fixed = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return memoryview(fixed).cast("B")


class RecordWriter:
    """Writes one file to a binary stream, forward only; ``end`` completes it.

    ``signer``: signs the file, of a kind in SIGNABLE.
    """

    def __init__(self, stream: BinaryIO, kind: Kind, signer: sign.SigningKey | None = None) -> None:
        self._stream = stream
        self._records = 0
        self._signer = signer
        self._digest = None if signer is None else sign.new_digest()
        start = _PROLOGUE.pack(MAGIC, VERSION, kind, 0)[:-4]
        self._bound = native.crc32c(start)
        self._write(start + _CRC.pack(self._bound))

    def record(self, tag: bytes, *parts: bytes | memoryview) -> None:
        """Appends a record whose payload is the parts in a row."""
        size = sum(len(part) for part in parts)
        if size > MAX_RECORD:
            raise DataError(f"a record of {size} bytes is beyond the format's limit of {MAX_RECORD}: use fewer columns")
        head = _RECORD.pack(tag, size)
        crc = native.crc32c(head, native.crc32c(_BINDING.pack(self._bound, self._records)))
        self._write(head)
        for part in parts:
            crc = native.crc32c(part, crc)
            self._write(part)
        self._write(_CRC.pack(crc))
        if self._records == 0:
            self._bound = crc
        self._records += 1

    def header(self, fields: dict[str, Any]) -> None:
        """Appends the header record, always the first."""
        signer = {} if self._signer is None else {"signer": self._signer.signer}
        self.record(HEAD, canonical.canonical_bytes(fields | signer))

    def end(self, rows: int = 0, dropped: int = 0, blocks: int = 0) -> None:
        """Appends the signature, where there is a signer, and the end record. Counts are 0..2^63 - 1."""
        if self._signer is not None and self._digest is not None:
            signed = sign.message(self._digest.digest(), rows, dropped, blocks)
            self.record(SIGNED, self._signer.sign(signed))
        self.record(END, _TOTALS.pack(self._records, rows, dropped, blocks))

    def _write(self, data: bytes | memoryview) -> None:
        self._stream.write(data)
        if self._digest is not None:
            self._digest.update(data)


class RecordReader:
    """Reads one file forward. Every refusal names the file.

    ``wanted``: the kinds that serve here. Raises KeyRefusedError when the file is a secret key and
    none is wanted (before anything of it beyond the prologue is read), DataError for another kind,
    an unknown version, or anything that is not such a file. ``start``: the first PROLOGUE_SIZE bytes,
    where the caller has read them. ``trust``: the file must be signed by one of these signers; who it names is
    checked with its header, the signature at its end, where every byte has been read.
    Known after the header: ``signer``, "" where the file is not signed.
    """

    def __init__(
        self,
        source: Source,
        *wanted: Kind,
        start: bytes | None = None,
        need: str | None = None,
        trust: sign.Trust | None = None,
    ) -> None:
        """``need``: the wanted kinds in words, where there are more than ``wanted``."""
        need = need or needs(wanted)
        self.source = source
        self.origin = source.origin
        self._records = 0
        if start is None:
            start = source.read_up_to(PROLOGUE_SIZE)
        self.kind = sniff(start, self.origin, need)
        if self.kind not in wanted:
            message = f"{self.origin} is {self.kind.label}; this needs {need}"
            if wanted == (Kind.RESULT,) and self.kind in (Kind.CONTRIBUTION, Kind.PARTIAL):
                message += ": contributions and partials must never reach the key holder, whose key opens them"
            if self.kind is Kind.SECRET_KEY:
                raise KeyRefusedError(f"{message}: a secret key stays with its holder")
            raise DataError(message)
        (self._bound,) = _CRC.unpack_from(start, PROLOGUE_SIZE - _CRC.size)
        self.signer = ""
        self._trust = trust
        self._signature: bytes | None = None
        self._digest = None if trust is None else sign.new_digest()
        self._took(start)

    def head(self) -> tuple[bytes, int]:
        """(tag, payload size) of the next record; its payload must be read next. A signature is taken on the way."""
        raw = self.source.read(_RECORD.size, f"the head of record {self._records}")
        tag, size = _RECORD.unpack(raw)
        left = self.source.left
        if size > MAX_RECORD or (left is not None and size + _CRC.size > left):
            raise DataError(
                f"{self.origin} is cut short or damaged: record {self._records} claims {size} bytes;"
                " get the file again from its maker"
            )
        crc = native.crc32c(_BINDING.pack(self._bound, self._records))
        self._crc = native.crc32c(raw, crc)
        if tag == SIGNED and self.signer and self._signature is None:
            if size != sign.SIGNATURE_BYTES:
                raise self.damaged(f"its signature claims {size} bytes")
            signed, self._digest = self._digest, None
            self._signature = bytes(self.payload(size))
            self._digest = signed
            return END, self.expect(END)
        if tag != END:
            self._took(raw)
        return tag, size

    def expect(self, tag: bytes, size: int | None = None) -> int:
        """As head, but refuses another tag or size; the payload's size."""
        found, length = self.head()
        if found != tag or (size is not None and length != size):
            raise self.damaged(
                f"record {self._records} is {_tag_text(found)} of {length} bytes, not {_tag_text(tag)}"
                + ("" if size is None else f" of {size}")
            )
        return length

    def payload(self, size: int) -> bytearray:
        """The payload of a record whose head said ``size``, checked."""
        data = self.source.read(size, f"record {self._records}")
        self._check(data)
        return data

    def payload_into(self, *arrays: np.ndarray, check: Callable[[np.ndarray], None] | None = None) -> None:
        """Fills C-contiguous arrays, in a row, with the payload (their sizes add up to it), checked.

        ``check``: looks at the last array in pieces [polynomials, L, N], each while it is in the cache; what it raises
        gives way to an error of the checksum, which is then the cause.
        The arrays' contents are undefined after an error.
        """
        refusal: DataError | None = None
        for array in arrays:
            for piece in _pieces(array):
                view = memoryview(piece).cast("B")
                self.source.fill(view, f"record {self._records}")
                self._crc = native.crc32c(view, self._crc)
                self._took(view)
                if sys.byteorder == "big":
                    piece.byteswap(inplace=True)
                if check is not None and array is arrays[-1] and refusal is None:
                    try:
                        check(piece)
                    except DataError as error:
                        refusal = error
        self._check()
        if refusal is not None:
            raise refusal

    def skip_payload(self, size: int) -> None:
        """Reads a payload in chunks and only checks it."""
        buffer = memoryview(bytearray(min(CHUNK, size)))
        while size:
            part = buffer[: min(CHUNK, size)]
            self.source.fill(part, f"record {self._records}")
            self._crc = native.crc32c(part, self._crc)
            self._took(part)
            size -= len(part)
        self._check()

    def _check(self, *parts: bytearray | memoryview) -> None:
        for part in parts:
            self._crc = native.crc32c(part, self._crc)
            self._took(part)
        raw = self.source.read(_CRC.size, f"record {self._records}")
        (stored,) = _CRC.unpack(raw)
        self._took(raw)
        if stored != self._crc:
            # The record is not counted, so that every later one is refused too.
            raise self.damaged(f"the checksum of record {self._records} is wrong")
        if self._records == 0:
            self._bound = stored
        self._records += 1

    def header(self) -> Any:
        """The value of the header record, which is the first."""
        size = self.expect(HEAD)
        if size > canonical.MAX_BYTES:
            raise self.damaged(f"its header claims {size} bytes; at most {canonical.MAX_BYTES} are allowed")
        value = canonical.parse_canonical(bytes(self.payload(size)), f"{self.origin}: header")
        if isinstance(value, dict) and "signer" in value and self.kind in SIGNABLE:
            signer = value.pop("signer")
            if type(signer) is not str or re.fullmatch(f"[0-9a-f]{{{sign.SIGNER_DIGITS}}}", signer) is None:
                raise self.damaged(f"its signer is not {sign.SIGNER_DIGITS} lower-case hexadecimal digits")
            self.signer = signer
        if self._trust is not None:
            self._trust.admit(self.signer, self.origin)
        return value

    def end(self) -> EndTotals:
        """The counts of the end record, which must be the next and the last thing in the file."""
        return self.end_payload(self.expect(END))

    def end_payload(self, size: int) -> EndTotals:
        """As end, where head has just read the end record's head with that size."""
        if size != _TOTALS.size:
            raise self.damaged(f"its end record claims {size} bytes")
        if self.signer and self._signature is None:
            raise self.damaged("its header names a signer, and it has no signature")
        digest, self._digest = self._digest, None
        before = self._records
        records, *counts = _TOTALS.unpack(self.payload(_TOTALS.size))
        if records != before:
            raise self.damaged(f"it has {before} records before its end, which counts {records}")
        if max(counts) > MAX_COUNT:
            raise self.damaged(f"a count of {max(counts)} is beyond the limit of {MAX_COUNT}")
        if self.source.left or self.source.read_up_to(1):
            raise self.damaged("there are bytes after its end")
        if self._trust is not None and self._signature is not None and digest is not None:
            sign.verify(self.signer, self._signature, sign.message(digest.digest(), *counts), self.origin)
        return EndTotals(*counts)

    def _took(self, data: bytes | bytearray | memoryview) -> None:
        if self._digest is not None:
            self._digest.update(data)

    def skip_to_end(self) -> tuple[EndTotals, int]:
        """(counts, payload bytes skipped): on a regular file by seeking, else by reading to the end.

        The skipped records are checked only where they are read; the record of a signature always is. On a regular
        file the number of skipped bytes must fit the number of records that the end record gives.
        """
        before = self._records
        skipped = 0
        if self.source.left is None:
            while (found := self.head())[0] != END:
                self.skip_payload(found[1])
                skipped += found[1]
            return self.end_payload(found[1]), skipped
        marks = 1 if self.signer else 0
        span = self.source.left - END_SIZE - marks * SIGNED_SIZE
        self.source.skip_to_last(END_SIZE + marks * SIGNED_SIZE, "its last records")
        mark = self.source.read(marks * SIGNED_SIZE, "its signature")
        raw = self.source.read(_RECORD.size + _TOTALS.size, "its last record")
        if bytes(raw[: _RECORD.size]) != _RECORD.pack(END, _TOTALS.size):
            raise self.damaged("its last bytes are not an end record")
        records, *counts = _TOTALS.unpack_from(raw, _RECORD.size)
        self._crc = native.crc32c(raw, native.crc32c(_BINDING.pack(self._bound, records)))
        self._check()
        skipped = span - (records - marks - before) * RECORD_OVERHEAD
        if records < before + marks or skipped < 0:
            raise self.damaged(f"its end counts {records} records, more or fewer than it has")
        if max(counts) > MAX_COUNT:
            raise self.damaged(f"a count of {max(counts)} is beyond the limit of {MAX_COUNT}")
        if marks:
            self._check_mark(mark, records - 1)
        return EndTotals(*counts), skipped

    def _check_mark(self, mark: bytearray, number: int) -> None:
        """Refuses a record that is not that of a signature, whole and in its place."""
        if bytes(mark[: _RECORD.size]) != _RECORD.pack(SIGNED, sign.SIGNATURE_BYTES):
            raise self.damaged("its header names a signer, and there is no signature before its end")
        crc = native.crc32c(mark[: -_CRC.size], native.crc32c(_BINDING.pack(self._bound, number)))
        if mark[-_CRC.size :] != _CRC.pack(crc):
            raise self.damaged(f"the checksum of record {number} is wrong")

    def damaged(self, why: str) -> DataError:
        """A refusal of this file."""
        return DataError(f"{self.origin} is damaged: {why}; get the file again from its maker")


def _pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """A C-contiguous array in pieces of about PIECE bytes, whole polynomials [L, N] where it holds such."""
    if array.ndim < 3:
        yield array
        return
    polys = array.reshape(-1, *array.shape[-2:])
    step = max(1, PIECE // max(1, polys[:1].nbytes))
    for first in range(0, len(polys), step):
        yield polys[first : first + step]


@contextmanager
def open_records(path: PathLike, *wanted: Kind, trust: sign.Trust | None = None) -> Iterator[RecordReader]:
    """A reader of the file at ``path`` (``-``: standard input) that is closed at the end."""
    with open_source(path) as source:
        yield RecordReader(source, *wanted, trust=trust)


def verify_file(path: PathLike, trust: sign.Trust) -> str:
    """The signer of a contribution, partial or result whose every record and signature was checked, by a trusted one.

    DataError otherwise. What the records hold is not looked at.
    """
    with open_records(path, *SIGNABLE, trust=trust) as reader:
        reader.header()
        while (found := reader.head())[0] != END:
            reader.skip_payload(found[1])
        reader.end_payload(found[1])
        return reader.signer


def needs(wanted: tuple[Kind, ...]) -> str:
    """The wanted kinds in words."""
    return " or ".join(f"{kind.label} ({kind.extension})" for kind in wanted)


def sniff(start: bytes, origin: str, need: str) -> Kind:
    """The kind that a file's first 16 bytes announce; DataError when it is none of ours."""
    if not start:
        raise DataError(f"{origin} is empty; this needs {need}")
    if not start.startswith(MAGIC[: len(start)]):
        if start.startswith(MAGIC[:5]):
            raise DataError(f"{origin} is damaged, as by a transfer in text mode; copy it again in binary mode")
        if start.startswith(b"{"):
            raise DataError(f"{origin} is JSON text, perhaps a study; this needs {need}")
        raise DataError(f"{origin} is not a pybfv file; this needs {need}")
    if len(start) < PROLOGUE_SIZE:
        raise DataError(f"{origin} is cut short: it has {len(start)} bytes; get the file again from its maker")
    _, version, number, crc = _PROLOGUE.unpack(start)
    if native.crc32c(start[: PROLOGUE_SIZE - _CRC.size]) != crc:
        raise DataError(f"{origin} is damaged: its first bytes fail their checksum; get it again from its maker")
    if version != VERSION:
        raise DataError(
            f"{origin} has format version {version}; this pybfv reads version {VERSION}:"
            " use the pybfv that the file was made with, or a newer one"
        )
    if number not in list(Kind):
        raise DataError(f"{origin} is of kind {number}, which this pybfv doesn't know; use a newer pybfv")
    return Kind(number)


def _tag_text(tag: bytes) -> str:
    return ascii(tag.decode("latin-1"))
