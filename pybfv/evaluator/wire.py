"""Bytes of an evaluator's objects: one record, checked before anything is made of it.

magic            8 bytes, 89 50 42 46 45 0d 0a 01
header length    u32, little-endian, at most MAX_HEADER
header           canonical JSON: kind, n, moduli, t, batching, insecure, and the kind's own fields
payload          the object's arrays, little-endian, in C order; the header's fields fix their sizes
checksum         CRC-32C of everything before it, u32
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import astuple
from typing import Any

import numpy as np

from pybfv import native
from pybfv.errors import DataError, PlanError
from pybfv.evaluator.context import Context
from pybfv.evaluator.noise import Model, Norms
from pybfv.io.canonical import canonical_bytes, parse_canonical

MAGIC = b"\x89PBFE\r\n\x01"
MAX_HEADER = 1 << 14
KEY_ID_BYTES = 16
_LENGTH = struct.Struct("<I")


def key_identity(context: Context, polys: np.ndarray) -> str:
    """The key id: the first 16 bytes, in hexadecimal, of SHA-256 over the parameters and the public key."""
    digest = hashlib.sha256(b"pybfv evaluator key" + canonical_bytes(_parameters(context)))
    digest.update(_wire(polys))
    return digest.digest()[:KEY_ID_BYTES].hex()


def _parameters(context: Context) -> dict[str, Any]:
    return {
        "batching": context.batching,
        "insecure": context.insecure,
        "moduli": list(context.moduli),
        "n": context.n,
        "t": context.t,
    }


def _wire(array: np.ndarray) -> memoryview:
    fixed = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return memoryview(fixed).cast("B")


def dump(kind: str, context: Context, fields: dict[str, Any], arrays: list[np.ndarray]) -> bytes:
    """The bytes of an object."""
    header = canonical_bytes({"kind": kind, **_parameters(context), **fields})
    body = b"".join([MAGIC, _LENGTH.pack(len(header)), header, *map(_wire, arrays)])
    return body + _LENGTH.pack(native.crc32c(body))


class Fields:
    """A header's fields, each taken once and checked."""

    def __init__(self, values: dict[str, Any], origin: str) -> None:
        self._values, self._origin = values, origin

    def take(self, name: str, kind: type) -> Any:
        """The field, of exactly this type."""
        value = self._values.pop(name, None)
        if type(value) is not kind:
            raise DataError(f"{self._origin}: field {name!r} is missing or has another type; the bytes are not ours")
        return value

    def integer(self, name: str, low: int, high: int) -> int:
        """An integer field from low to high."""
        value = self.take(name, int)
        if not low <= value <= high:
            raise DataError(f"{self._origin}: {name} is outside {low}..{high}")
        return value

    def unit(self, name: str, t: int) -> int:
        """A unit mod t, in [0, t)."""
        value = self.integer(name, 0, t - 1)
        if math.gcd(value, t) != 1:
            raise DataError(f"{self._origin}: {name} is no unit mod t")
        return value

    def key_id(self) -> str:
        """The key id."""
        value = self.take("key_id", str)
        if len(value) != 2 * KEY_ID_BYTES or not set(value) <= set("0123456789abcdef"):
            raise DataError(f"{self._origin}: the key id is not {2 * KEY_ID_BYTES} hexadecimal digits")
        return value

    def noise(self, name: str, model: Model) -> Norms:
        """Noise bounds that a ciphertext of the model can have: positive, and small enough to decrypt."""
        texts = self.take(name, list)
        try:
            values = [float.fromhex(x) for x in texts]
        except (TypeError, ValueError, OverflowError):
            values = []
        if [v.hex() for v in values] != texts or len(values) != 4 or not all(0 < v < math.inf for v in values):
            raise DataError(f"{self._origin}: the noise bounds are not four positive numbers")
        noise = Norms(*values)
        least = model.fresh("symmetric")
        if any(mine < fresh for mine, fresh in zip(astuple(noise), astuple(least), strict=True)):
            raise DataError(f"{self._origin}: the noise bound is below a fresh ciphertext's")
        if not model.decryptable(noise):
            raise DataError(f"{self._origin}: the noise bound is beyond what these parameters decrypt")
        return noise

    def done(self) -> None:
        """DataError when a field is left."""
        if self._values:
            raise DataError(f"{self._origin}: unknown field {min(self._values)!r}")


class Payload:
    """The bytes after the header, taken array by array."""

    def __init__(self, data: memoryview, origin: str) -> None:
        self._data, self._origin = data, origin

    def array(self, shape: tuple[int, ...], dtype: type) -> np.ndarray:
        """The next array, a copy; DataError when the bytes do not suffice, before memory is taken."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if len(self._data) < size:
            raise DataError(f"{self._origin}: {size} bytes are due and {len(self._data)} there; it is cut or damaged")
        raw, self._data = self._data[:size], self._data[size:]
        out = native.empty(shape) if dtype is np.uint32 else np.empty(shape, dtype=dtype)
        out[...] = np.frombuffer(raw, dtype=np.dtype(dtype).newbyteorder("<")).reshape(shape)
        return out

    def done(self) -> None:
        """DataError when bytes are left."""
        if self._data:
            raise DataError(f"{self._origin}: {len(self._data)} bytes too many; it is damaged")


def load(kind: str, data: bytes) -> tuple[Context, Fields, Payload]:
    """Context, remaining fields and payload of an object's bytes; DataError for anything else."""
    origin = f"bytes of a {kind}"
    try:
        view = memoryview(data).cast("B")
    except TypeError:
        raise DataError(f"{origin}: a bytes object is needed, not {type(data).__name__}") from None
    start = len(MAGIC) + _LENGTH.size
    if len(view) < start + _LENGTH.size or view[: len(MAGIC)] != MAGIC:
        raise DataError(f"{origin}: this is no such object of pybfv's evaluator")
    if native.crc32c(view[: -_LENGTH.size]) != _LENGTH.unpack(view[-_LENGTH.size :])[0]:
        raise DataError(f"{origin}: the checksum does not fit; it is damaged or cut")
    length = _LENGTH.unpack(view[len(MAGIC) : start])[0]
    if length > min(MAX_HEADER, len(view) - start - _LENGTH.size):
        raise DataError(f"{origin}: the header's length is out of bounds")
    values = parse_canonical(bytes(view[start : start + length]), origin)
    if not isinstance(values, dict):
        raise DataError(f"{origin}: the header is not an object")
    fields = Fields(values, origin)
    found = fields.take("kind", str)
    if found != kind:
        raise DataError(f"{origin}: these are bytes of a {found[:40]!r}")
    n, moduli, t = fields.take("n", int), fields.take("moduli", list), fields.take("t", int)
    batching, insecure = fields.take("batching", bool), fields.take("insecure", bool)
    try:
        context = Context(n=n, moduli=moduli, t=t, batching=batching, insecure=insecure)
    except PlanError as error:
        raise DataError(f"{origin}: {error}") from None
    if context.insecure != insecure:
        raise DataError(f"{origin}: the mark of insecure parameters is wrong")
    return context, fields, Payload(view[start + length : -_LENGTH.size], origin)
