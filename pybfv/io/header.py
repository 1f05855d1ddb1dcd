"""What the headers and records of several kinds have in common: checked fields, set, residues."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from pybfv import native
from pybfv.errors import DataError, PlanError, UsageError
from pybfv.io.container import MAX_COUNT, RecordReader, RecordWriter, wire
from pybfv.io.study import StudyDoc, read_study_record
from pybfv.params import ParameterSet, get_set

MIN_PARTS, MAX_PARTS = 2, 8
"""Polynomials of a stored ciphertext or accumulator."""
MAX_NAME = 1024
"""Characters of a polynomial's name."""
MAX_PIPED = 1 << 31
"""A whole object that comes through a pipe has at most this many bytes of polynomials."""


class Fields:
    """A header's fields, each taken once and checked; ``done`` refuses what is left."""

    def __init__(self, value: Any, origin: str) -> None:
        self._origin = origin
        if not isinstance(value, dict):
            raise self.bad("it is not an object")
        self._left = dict(value)

    def bad(self, why: str) -> DataError:
        """A refusal of this header."""
        return DataError(f"{self._origin} has a wrong header: {why}; get the file again from its maker")

    def any(self, name: str) -> Any:
        """The value of a field, whatever it is."""
        if name not in self._left:
            raise self.bad(f"field {name!r} is missing")
        return self._left.pop(name)

    def has(self, name: str) -> bool:
        """Whether an optional field is there, and not yet taken."""
        return name in self._left

    def integer(self, name: str, low: int = 0, high: int = MAX_COUNT) -> int:
        """An integer in low..high."""
        value = self.any(name)
        if type(value) is not int or not low <= value <= high:
            raise self.bad(f"{name} is not an integer from {low} to {high}")
        return value

    def text(self, name: str) -> str:
        """A string of 1 to MAX_NAME characters."""
        value = self.any(name)
        if type(value) is not str or not 0 < len(value) <= MAX_NAME:
            raise self.bad(f"{name} is not a string of 1 to {MAX_NAME} characters")
        return value

    def hexadecimal(self, name: str, digits: int) -> str:
        """A string of exactly that many lower-case hexadecimal digits."""
        value = self.any(name)
        if not is_hex(value, digits):
            raise self.bad(f"{name} is not {digits} lower-case hexadecimal digits")
        return value

    def choice(self, name: str, options: tuple[str, ...]) -> str:
        """One of some strings."""
        value = self.any(name)
        if type(value) is not str or value not in options:
            raise self.bad(f"{name} is not one of {', '.join(options)}")
        return value

    def params(self) -> ParameterSet:
        """The parameter set; n, primes and the insecure mark must be what this pybfv knows of it."""
        name = self.text("set")
        try:
            found = get_set(name)
        except PlanError as exc:
            raise DataError(f"{self._origin}: {exc}") from None
        stated = [self.any("n"), self.any("primes"), self.any("insecure")]
        known = [found.n, list(found.primes), found.insecure]
        for field, one, other in zip(("n", "primes", "insecure"), stated, known, strict=True):
            if type(one) is not type(other) or one != other:
                raise self.bad(f"its {field} is not that of set {name}, {other}")
        return found

    def done(self) -> None:
        """Refuses fields that nobody took."""
        if self._left:
            raise self.bad(f"unknown field {ascii(min(self._left))[:60]}")


def params_fields(params: ParameterSet) -> dict[str, Any]:
    """The header fields that Fields.params reads back."""
    return {
        "set": params.name,
        "n": params.n,
        "primes": list(params.primes),
        "insecure": params.insecure,
    }


def study_params(study: StudyDoc) -> ParameterSet:
    """The parameter set that a study names as "set"; DataError when this pybfv has no such set."""
    name = study.data.get("set")
    if type(name) is not str:
        raise DataError(f'study {study.hash[:16]} names no parameter set in "set"; make the study with pybfv plan')
    try:
        return get_set(name)
    except PlanError as exc:
        raise DataError(f"study {study.hash[:16]}: {exc}") from None


def read_study_of(reader: RecordReader, expected_hash: str, params: ParameterSet) -> StudyDoc:
    """The embedded study, which must be of the header's set."""
    study = read_study_record(reader, expected_hash)
    if study.data.get("set") != params.name:
        raise reader.damaged(f"its header names set {params.name}, and its study another")
    return study


def is_hex(value: Any, digits: int) -> bool:
    """Whether value is a string of exactly that many lower-case hexadecimal digits."""
    return type(value) is str and re.fullmatch(f"[0-9a-f]{{{digits}}}", value) is not None


def require_hex(value: Any, digits: int, what: str) -> str:
    """value, when it is such a string; DataError otherwise."""
    if not is_hex(value, digits):
        raise DataError(f"{what} must be {digits} lower-case hexadecimal digits, not {ascii(value)[:80]}")
    return value


def require_count(value: Any, what: str, low: int = 0) -> int:
    """value as an int in low..2^63 - 1; DataError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= MAX_COUNT:
        raise DataError(f"{what} must be an integer from {low} to {MAX_COUNT}, not {ascii(value)[:80]}")
    return int(value)


def require_array(array: Any, shape: tuple[int, ...], dtype: type, what: str) -> np.ndarray:
    """array, when it has that shape and type; DataError otherwise."""
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
        found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise DataError(f"{what} must be an array of {np.dtype(dtype)} {shape}, not {found}")
    return array


def wide_primes_of(study: StudyDoc, where: str = "") -> tuple[int, ...]:
    """The primes that the accumulators of a study's scaled products have beyond the set's; () without such products.

    DataError when the study names scaled products and no primes; whether they are the right ones, a study's
    checks tell (FORMAT.md, section 1). ``where`` begins messages.
    """
    if study.data.get("product") != "scaled":
        return ()
    primes = study.data.get("wide")
    if type(primes) is not list or not primes or any(type(p) is not int or not 1 < p < 1 << 32 for p in primes):
        raise DataError(f"{where}study {study.hash[:16]} has scaled products and no list of wide primes; plan it anew")
    return tuple(primes)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which primes the residue polynomials of named ciphertexts have.

    Those of the set; accumulators of scaled products, whose names begin with ``product.``, have ``wide`` primes
    after them. Ciphertexts proper have none.
    """

    params: ParameterSet
    wide: tuple[int, ...] = ()

    def primes(self, name: str) -> tuple[int, ...]:
        """The primes of a polynomial's planes, in their order."""
        return self.params.primes + (self.wide if name.startswith("product.") else ())

    def shape(self, name: str, parts: int) -> tuple[int, int, int]:
        """The shape of a named array."""
        return parts, len(self.primes(name)), self.params.n

    def bytes(self, entries: list[tuple[str, int]]) -> int:
        """Bytes of all those polynomials."""
        return sum(4 * math.prod(self.shape(name, parts)) for name, parts in entries)


@lru_cache(maxsize=32)
def _ring(n: int, primes: tuple[int, ...]) -> native.Ring:
    return native.Ring(n, primes)


def check_residues(params: ParameterSet, array: np.ndarray, where: str, primes: tuple[int, ...] | None = None) -> None:
    """Refuses an array [..., L, N] in which a residue is not below its prime; ``where`` begins messages.

    ``primes``: the planes', where they are not the set's.
    """
    try:
        _ring(params.n, primes or params.primes).check_residues(array)
    except (DataError, UsageError) as exc:  # UsageError: a study's wide primes are none
        raise DataError(f"{where}: {exc}") from None


def check_not_transparent(array: np.ndarray, where: str) -> None:
    """Refuses a ciphertext [parts, L, N] whose parts after the first are all zero: it hides nothing."""
    if not array[1, 0, 0] and not array[1:].any():
        raise DataError(f"{where}: it is not encrypted (its second part is zero); encrypt the data again")


def check_named(layout: Layout, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuses named polynomials that a file must not hold: names, shapes, residues, transparency."""
    if not arrays:
        raise DataError("there are no ciphertexts to write; give at least one")
    for name, array in arrays.items():
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            raise DataError(f"a ciphertext's name must have 1 to {MAX_NAME} characters: {ascii(name)[:60]}")
        where = f"ciphertext {name!a}"
        parts = array.shape[0] if isinstance(array, np.ndarray) and array.ndim == 3 else 0
        if not MIN_PARTS <= parts <= MAX_PARTS:
            raise DataError(f"{where} must have {MIN_PARTS} to {MAX_PARTS} parts of shape [L, N]")
        require_array(array, layout.shape(name, parts), np.uint32, where)
        check_residues(layout.params, np.ascontiguousarray(array), where, layout.primes(name))
        check_not_transparent(array, where)


def named_field(arrays: Mapping[str, np.ndarray]) -> list[list[Any]]:
    """The header's list of [name, parts], by name."""
    return [[name, arrays[name].shape[0]] for name in sorted(arrays)]


def write_named(writer: RecordWriter, tag: bytes, arrays: Mapping[str, np.ndarray]) -> None:
    """One record for each polynomial array, by name."""
    for name in sorted(arrays):
        writer.record(tag, wire(arrays[name]))


def take_named(fields: Fields, field: str) -> list[tuple[str, int]]:
    """The list that named_field wrote, checked: strictly rising names, parts in range."""
    entries = fields.any(field)
    if type(entries) is not list or not entries:
        raise fields.bad(f"{field} is not a list with entries")
    last = ""
    for entry in entries:
        if type(entry) is not list or len(entry) != 2:
            raise fields.bad(f"an entry of {field} is not [name, parts]")
        name, parts = entry
        if type(name) is not str or not 0 < len(name) <= MAX_NAME or name <= last:
            raise fields.bad(f"the names in {field} are not distinct, sorted, of 1 to {MAX_NAME} characters")
        if type(parts) is not int or not MIN_PARTS <= parts <= MAX_PARTS:
            raise fields.bad(f"parts in {field} are not {MIN_PARTS} to {MAX_PARTS}")
        last = name
    return [(name, parts) for name, parts in entries]


def read_named(
    reader: RecordReader, tag: bytes, layout: Layout, entries: list[tuple[str, int]]
) -> dict[str, np.ndarray]:
    """The arrays of the records that write_named wrote, checked; none is allocated before its size is."""
    total = layout.bytes(entries)
    left = reader.source.left
    if total > (MAX_PIPED if left is None else left):
        raise reader.damaged(f"its header announces {total} bytes of ciphertexts, more than it can hold")
    arrays = {}
    for name, parts in entries:
        reader.expect(tag, layout.bytes([(name, parts)]))
        array = np.empty(layout.shape(name, parts), dtype=np.uint32)
        reader.payload_into(array)
        where = f"{reader.origin}: ciphertext {name!a}"
        check_residues(layout.params, array, where, layout.primes(name))
        check_not_transparent(array, where)
        arrays[name] = array
    return arrays
