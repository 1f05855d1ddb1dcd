"""Secret keys and their files (FORMAT.md, section 5). Nothing under pybfv/server may import this."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from pybfv.errors import DataError, KeyRefusedError, OutputError
from pybfv.io.atomic import atomic_output
from pybfv.io.container import Kind, RecordReader, RecordWriter, open_records
from pybfv.io.header import Fields, params_fields, require_array, require_hex
from pybfv.io.key import PublicKey, read_public_records
from pybfv.io.source import PathLike
from pybfv.params import ParameterSet, get_set

SECRET = b"SECR"


class KeyPermissionWarning(UserWarning):
    """A secret key that others may read."""


@dataclass(frozen=True, slots=True, eq=False)
class SecretKey:
    """A secret key: ``s`` is int8 [N], coefficients -1, 0, 1. It knows its study by hash only.

    ``set_name``: a parameter set, ``n`` its N. ``params`` (the set) follows.
    It shows no coefficient, and is written by write_secret alone: pickling and copying are refused.
    """

    study_hash: str
    key_id: str
    set_name: str
    n: int
    s: np.ndarray
    params: ParameterSet = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", get_set(self.set_name))
        if self.n != self.params.n:
            raise DataError(f"set {self.set_name} has N = {self.params.n}, not {self.n!r}")
        require_hex(self.study_hash, 64, "a secret key's study hash")
        require_hex(self.key_id, 32, "a secret key's key id")
        require_array(self.s, (self.n,), np.int8, "a secret key")
        if self.s.min() < -1 or self.s.max() > 1:
            raise DataError("a secret key's coefficients must be -1, 0 or 1")

    @property
    def primes(self) -> tuple[int, ...]:
        """The primes of q."""
        return self.params.primes

    def __repr__(self) -> str:
        return f"SecretKey(key_id={self.key_id}, set={self.set_name}, study={self.study_hash})"

    def wipe(self) -> None:
        """Overwrites the coefficients; the key is of no use afterwards."""
        self.s.fill(0)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise KeyRefusedError("a secret key is never pickled or copied; write it with write_secret")


def write_secret(path: PathLike, key: SecretKey) -> None:
    """Writes a secret key to a new file that only its owner may read from the moment it exists.

    An existing file is never overwritten (OutputError).
    """
    if str(path) == "-":
        raise OutputError("a secret key is not written to standard output; name a new file")
    with atomic_output(path, mode=0o600, hint="a secret key is never overwritten: take another folder") as stream:
        writer = RecordWriter(stream, Kind.SECRET_KEY)
        fields = {"key_id": key.key_id, "study_hash": key.study_hash}
        writer.header(fields | params_fields(key.params))
        writer.record(SECRET, _pack(key.s))
        writer.end()


def read_key(path: PathLike) -> PublicKey | SecretKey:
    """The key in a file (``-``: standard input), whichever it is.

    Raises DataError for a damaged file or another kind, KeyRefusedError for a secret key that is
    reached through a symbolic link; warns (KeyPermissionWarning) when others may read a secret key.
    """
    with open_records(path, Kind.PUBLIC_KEY, Kind.SECRET_KEY) as reader:
        return read_public_records(reader) if reader.kind is Kind.PUBLIC_KEY else _read_secret(reader)


def read_secret(path: PathLike) -> SecretKey:
    """The secret key in a file, as read_key; KeyRefusedError for a public key."""
    with open_records(path, Kind.PUBLIC_KEY, Kind.SECRET_KEY) as reader:
        if reader.kind is Kind.PUBLIC_KEY:
            raise KeyRefusedError(f"{reader.origin} is a public key; this needs a secret key (secret.key)")
        return _read_secret(reader)


def _read_secret(reader: RecordReader) -> SecretKey:
    if reader.source.via_symlink:
        raise KeyRefusedError(f"{reader.origin} is a symbolic link to a secret key; name the key's own file instead")
    fields = Fields(reader.header(), reader.origin)
    key_id = fields.hexadecimal("key_id", 32)
    expected = fields.hexadecimal("study_hash", 64)
    params = fields.params()
    fields.done()
    reader.expect(SECRET, params.n // 4)
    packed = reader.payload(params.n // 4)
    try:
        s = _unpack(packed, reader.origin)
    finally:
        packed[:] = bytes(len(packed))
    if any(reader.end()):
        raise reader.damaged("the end of a key has counts")
    mode = reader.source.mode
    if mode is not None and mode & 0o077:
        warnings.warn(
            f"{reader.origin} is a secret key that others may use (mode {mode:04o}): run chmod 600 on it",
            KeyPermissionWarning,
            stacklevel=3,
        )
    return SecretKey(expected, key_id, params.name, params.n, s)


def _pack(s: np.ndarray) -> bytes:
    """Two bits a coefficient, the first lowest: 0, 1 and 2 for 0, 1 and -1."""
    codes = (s % 3).astype(np.uint8).reshape(-1, 4)
    return (codes << np.array([0, 2, 4, 6], dtype=np.uint8)).sum(axis=1, dtype=np.uint8).tobytes()


def _unpack(packed: bytearray, origin: str) -> np.ndarray:
    octets = np.frombuffer(packed, dtype=np.uint8)[:, None]
    codes = (octets >> np.array([0, 2, 4, 6], dtype=np.uint8)) & 3
    if (codes == 3).any():
        raise DataError(f"{origin} is damaged: a coefficient of the secret key is none of -1, 0, 1")
    return np.array([0, 1, -1], dtype=np.int8)[codes.reshape(-1)]
