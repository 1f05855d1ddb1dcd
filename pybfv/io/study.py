"""The study document: canonical JSON, known by the SHA-256 of its bytes.

What a study says is its maker's affair; here it is an object with ``"format": "pybfv-study"`` and a
version. Every file but a secret key embeds the whole text.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, BinaryIO

from pybfv.errors import DataError
from pybfv.io.canonical import MAX_BYTES, canonical_bytes, parse_canonical
from pybfv.io.container import MAGIC, STUDY, RecordReader, RecordWriter, sniff
from pybfv.io.source import PathLike, open_source

FORMAT = "pybfv-study"
STUDY_VERSION = 1
NEED = "a study (study.json)"


@dataclass(frozen=True, slots=True)
class StudyDoc:
    """A study: ``data`` (read only by convention), its canonical bytes ``raw``, and their ``hash``.

    Two studies are the same study exactly when their hashes are equal.
    """

    data: dict[str, Any]
    raw: bytes
    hash: str

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> StudyDoc:
        """The document of a study's fields; DataError when they are no study or have no canonical form."""
        return parse_study(canonical_bytes(data), "the study")

    def __repr__(self) -> str:
        return f"StudyDoc({self.hash})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StudyDoc) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)


def study_hash(raw: bytes | bytearray) -> str:
    """SHA-256 of a study's canonical bytes, newline included: 64 hexadecimal digits."""
    return hashlib.sha256(raw).hexdigest()


def parse_study(raw: bytes, origin: str) -> StudyDoc:
    """The study in ``raw``; DataError, beginning with ``origin``, when it is not one that we read."""
    if raw.startswith(MAGIC):
        raise DataError(f"{origin} is {sniff(raw[:16], origin, NEED).label}; this needs {NEED}")
    if not raw:
        raise DataError(f"{origin} is empty; this needs {NEED}")
    if not raw.startswith(b"{"):
        raise DataError(f"{origin} is not a study: it is no JSON document; this needs {NEED}, made by pybfv plan")
    data = parse_canonical(raw, origin)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise DataError(f'{origin} is not a study: it has no "format":"{FORMAT}"; this needs {NEED}')
    version = data.get("version")
    if type(version) is not int or version != STUDY_VERSION:
        raise DataError(
            f"{origin} has study version {ascii(version)[:40]}; this pybfv reads version {STUDY_VERSION}:"
            " use the pybfv that made it, or a newer one"
        )
    return StudyDoc(data, raw, study_hash(raw))


def read_study(path: PathLike) -> StudyDoc:
    """The study in a file (``-``: standard input). DataError or MissingInputError, naming the file."""
    with open_source(path) as source:
        return parse_study(source.read_up_to(MAX_BYTES + 1), source.origin)


def write_study(stream: BinaryIO, study: StudyDoc) -> None:
    """Writes the canonical bytes."""
    stream.write(study.raw)


def write_study_record(writer: RecordWriter, study: StudyDoc) -> None:
    """Embeds the study in a binary file."""
    writer.record(STUDY, study.raw)


def read_study_record(reader: RecordReader, expected_hash: str) -> StudyDoc:
    """The embedded study; DataError when it hasn't the hash that the header states."""
    size = reader.expect(STUDY)
    if size > MAX_BYTES:
        raise reader.damaged(f"its study claims {size} bytes; at most {MAX_BYTES} are allowed")
    raw = bytes(reader.payload(size))
    if study_hash(raw) != expected_hash:
        raise reader.damaged("its study has not the hash that its header states")
    return parse_study(raw, f"{reader.origin}: embedded study")
