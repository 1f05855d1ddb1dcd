"""Secret keys and their files (FORMAT.md, section 5). Nothing under pybfv/server may import this."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from pybfv.errors import DataError, KeyRefusedError, OutputError
from pybfv.io.atomic import atomic_output
from pybfv.io.canonical import canonical_bytes
from pybfv.io.container import MAGIC, VERSION, Kind, RecordReader, RecordWriter, open_records
from pybfv.io.header import Fields, params_fields, require_array, require_hex
from pybfv.io.key import PublicKey, read_public_records
from pybfv.io.protect import TAG_BYTES, Passphrase, Protection
from pybfv.io.source import KeyPermissionWarning, PathLike, shown
from pybfv.native.secret import private, wipe
from pybfv.params import ParameterSet, get_set

SECRET, SEALED = b"SECR", b"SEAL"


@dataclass(frozen=True, slots=True, eq=False)
class SecretKey:
    """A secret key: ``s`` is int8 [N], coefficients -1, 0, 1. It knows its study by hash only.

    ``set_name``: a parameter set, ``n`` its N. ``params`` (the set) follows. The key keeps a copy of ``s`` in memory
    that no core dump holds; the array that was given is the caller's to wipe.
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
        own = private(self.n).view(np.int8)
        own[:] = self.s
        object.__setattr__(self, "s", own)

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


def write_secret(
    path: PathLike, key: SecretKey, passphrase: Passphrase | None = None, *, replace: bool = False
) -> None:
    """Writes a secret key to a new file that only its owner may read from the moment it exists.

    ``passphrase``: encrypts the key; KeyRefusedError when it is empty or too long. An existing file is never
    overwritten (OutputError), unless ``replace``: for the same key under another passphrase, in one step.
    """
    with secret_output(path, key, passphrase, replace=replace):
        pass


@contextmanager
def secret_output(
    path: PathLike, key: SecretKey, passphrase: Passphrase | None = None, *, replace: bool = False
) -> Iterator[None]:
    """As write_secret: the key is on the disk when the block begins, and takes its name when it ends well."""
    if str(path) == "-":
        raise OutputError("a secret key is not written to standard output; name a new file")
    fields = {"key_id": key.key_id, "study_hash": key.study_hash, **params_fields(key.params)}
    packed = _pack(key.s)
    try:
        tag, payload = SECRET, memoryview(packed)
        if passphrase is not None:
            protection = Protection()
            fields["protection"] = protection.described()
            tag, payload = SEALED, memoryview(protection.seal(passphrase, shown(path), packed, _associated(fields)))
        hint = "a secret key is never overwritten: take another folder"
        with atomic_output(path, secret=True, force=replace, hint=hint) as stream:
            writer = RecordWriter(stream, Kind.SECRET_KEY)
            writer.header(fields)
            writer.record(tag, payload)
            writer.end()
            stream.sync()  # type: ignore[attr-defined]
            yield
    finally:
        wipe(packed)


def read_key(path: PathLike, passphrase: Passphrase | None = None) -> PublicKey | SecretKey:
    """The key in a file (``-``: standard input), whichever it is.

    ``passphrase``: for a protected key; one that asks is called only then. Raises DataError for a damaged file or
    another kind; KeyRefusedError for a secret key that is reached through a symbolic link, or does not open with
    the passphrase; warns (KeyPermissionWarning) when others may read a secret key.
    """
    with open_records(path, Kind.PUBLIC_KEY, Kind.SECRET_KEY) as reader:
        if reader.kind is Kind.PUBLIC_KEY:
            return read_public_records(reader)
        return _read_secret(reader, passphrase)


def read_secret(path: PathLike, passphrase: Passphrase | None = None) -> SecretKey:
    """The secret key in a file, as read_key; KeyRefusedError for a public key."""
    with open_records(path, Kind.PUBLIC_KEY, Kind.SECRET_KEY) as reader:
        if reader.kind is Kind.PUBLIC_KEY:
            raise KeyRefusedError(f"{reader.origin} is a public key; this needs a secret key (secret.key)")
        return _read_secret(reader, passphrase)


def _read_secret(reader: RecordReader, passphrase: Passphrase | None) -> SecretKey:
    if reader.source.via_symlink:
        raise KeyRefusedError(f"{reader.origin} is a symbolic link to a secret key; name the key's own file instead")
    header = reader.header()
    fields = Fields(header, reader.origin)
    key_id = fields.hexadecimal("key_id", 32)
    expected = fields.hexadecimal("study_hash", 64)
    params = fields.params()
    protection = None
    if isinstance(header, dict) and "protection" in header:
        protection = Protection.read(fields.any("protection"), reader.origin)
    fields.done()
    size = params.n // 4
    packed = private(size if protection is None else size + TAG_BYTES)
    reader.expect(SECRET if protection is None else SEALED, len(packed))
    try:
        reader.payload_into(packed)
        if any(reader.end()):
            raise reader.damaged("the end of a key has counts")
        _warn_if_open(reader)
        if protection is not None:
            if passphrase is None:
                raise KeyRefusedError(f"{reader.origin} is protected by a passphrase, and none was given; give it")
            packed = protection.open(passphrase, reader.origin, packed.tobytes(), _associated(header))
        s = _unpack(packed, reader.origin)
    finally:
        wipe(packed)
    try:
        return SecretKey(expected, key_id, params.name, params.n, s)
    finally:
        wipe(s)


def _associated(header: dict[str, Any]) -> bytes:
    """What a protected key authenticates beside itself: its file's kind and version, and the whole header."""
    return MAGIC + bytes([VERSION, 0, Kind.SECRET_KEY, 0]) + canonical_bytes(header)


def _warn_if_open(reader: RecordReader) -> None:
    mode = reader.source.mode
    if mode is not None and mode & 0o077:
        warnings.warn(
            f"{reader.origin} is a secret key that others may use (mode {mode:04o}): run chmod 600 on it",
            KeyPermissionWarning,
            stacklevel=4,
        )


_SHIFTS = np.array([0, 2, 4, 6], dtype=np.uint8)


def _pack(s: np.ndarray) -> np.ndarray:
    """Two bits a coefficient, the first lowest: 0, 1 and 2 for 0, 1 and -1. The caller's to wipe, as _unpack's."""
    codes, packed = private(len(s)), private(len(s) // 4)
    np.remainder(s, 3, out=codes.view(np.int8))
    rows = codes.reshape(-1, 4)
    np.left_shift(rows, _SHIFTS, out=rows)
    np.bitwise_or.reduce(rows, axis=1, out=packed)
    wipe(codes)
    return packed


def _unpack(packed: np.ndarray, origin: str) -> np.ndarray:
    codes = private(4 * len(packed))
    rows = codes.reshape(-1, 4)
    np.right_shift(packed[:, None], _SHIFTS, out=rows)
    np.bitwise_and(rows, 3, out=rows)
    if codes.max() > 2:
        wipe(codes)
        raise DataError(f"{origin} is damaged: a coefficient of the secret key is none of -1, 0, 1")
    codes += 1  # in place, so that no copies are left: 0, 1, 2 to 0, 1, -1 is (c + 1) mod 3 - 1
    np.remainder(codes, 3, out=codes)
    codes -= 1
    return codes.view(np.int8)
