"""Public keys (FORMAT.md, section 4). What a secret key is, io/secret_key.py alone knows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np

from pybfv.errors import DataError
from pybfv.io.container import Kind, RecordReader, RecordWriter, open_records, wire
from pybfv.io.header import (
    Fields,
    check_residues,
    params_fields,
    read_study_of,
    require_array,
    study_params,
)
from pybfv.io.source import PathLike
from pybfv.io.study import StudyDoc, write_study_record
from pybfv.params import ParameterSet

PUBLIC = b"PUBK"
SEED_BYTES = 32


@dataclass(frozen=True, slots=True, eq=False)
class PublicKey:
    """A public key (p0, a) of a study.

    ``n``, ``primes``: those of the study's set. ``seed``: 32 bytes that expand to a (FORMAT.md,
    section 9). ``p0``: uint32 [L, N], NTT form, residues below their primes. ``key_id`` and ``params``
    (the set) follow. DataError when these don't fit each other.
    """

    study: StudyDoc
    n: int
    primes: tuple[int, ...]
    seed: bytes
    p0: np.ndarray
    key_id: str = field(init=False)
    params: ParameterSet = field(init=False)

    def __post_init__(self) -> None:
        params = study_params(self.study)
        if (self.n, tuple(self.primes)) != (params.n, params.primes):
            raise DataError(f"a public key's n and primes must be those of its study's set {params.name}")
        object.__setattr__(self, "primes", params.primes)
        object.__setattr__(self, "params", params)
        if not isinstance(self.seed, bytes) or len(self.seed) != SEED_BYTES:
            raise DataError(f"a public key's seed must be {SEED_BYTES} bytes")
        require_array(self.p0, (len(self.primes), self.n), np.uint32, "a public key's p0")
        object.__setattr__(self, "p0", np.ascontiguousarray(self.p0))
        check_residues(params, self.p0, "public key")
        object.__setattr__(self, "key_id", key_identity(self.study, self.seed, self.p0))

    def __repr__(self) -> str:
        return f"PublicKey(key_id={self.key_id}, set={self.params.name}, study={self.study.hash})"


def key_identity(study: StudyDoc, seed: bytes, p0: np.ndarray) -> str:
    """The key id: the first 16 bytes, in hexadecimal, of SHA-256 over all that a public key says."""
    digest = hashlib.sha256(b"pybfv key id" + bytes.fromhex(study.hash) + seed)
    digest.update(wire(p0))
    return digest.digest()[:16].hex()


def write_public(stream: BinaryIO, key: PublicKey) -> None:
    """Writes a public key to a binary stream."""
    writer = RecordWriter(stream, Kind.PUBLIC_KEY)
    fields = {"key_id": key.key_id, "study_hash": key.study.hash}
    writer.header(fields | params_fields(key.params))
    write_study_record(writer, key.study)
    writer.record(PUBLIC, key.seed, wire(key.p0))
    writer.end()


def read_public(path: PathLike) -> PublicKey:
    """The public key in a file; KeyRefusedError for a secret key, of which nothing more is read."""
    with open_records(path, Kind.PUBLIC_KEY) as reader:
        return read_public_records(reader)


def read_public_records(reader: RecordReader) -> PublicKey:
    """The public key that ``reader`` has opened."""
    fields = Fields(reader.header(), reader.origin)
    key_id = fields.hexadecimal("key_id", 32)
    expected = fields.hexadecimal("study_hash", 64)
    params = fields.params()
    fields.done()
    study = read_study_of(reader, expected, params)
    shape = (len(params.primes), params.n)
    reader.expect(PUBLIC, SEED_BYTES + 4 * shape[0] * shape[1])
    seed, p0 = np.empty(SEED_BYTES, dtype=np.uint8), np.empty(shape, dtype=np.uint32)
    reader.payload_into(seed, p0)
    if any(reader.end()):
        raise reader.damaged("the end of a key has counts")
    try:
        key = PublicKey(study, params.n, params.primes, seed.tobytes(), p0)
    except DataError as exc:
        raise DataError(f"{reader.origin}: {exc}") from None
    if key.key_id != key_id:
        raise reader.damaged(f"its key id {key_id} does not belong to its contents")
    return key
