"""Canonical JSON: one value, one byte string (the rules are in FORMAT.md, section 2).

Study documents and file headers are written in this form, so that they can be hashed and compared
as bytes. A text that parses but is not in this form is refused.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from pybfv.errors import DataError

MAX_BYTES = 1 << 20
"""A canonical text, its newline included, has at most this many bytes."""
MAX_DEPTH = 32
"""Arrays and objects nest at most this deep."""
MAX_DIGITS = 1000
"""An integer has at most this many decimal digits."""

_BEYOND = 10**MAX_DIGITS


class _NotCanonical(ValueError):
    """Internal: why a value or text is outside the canonical form."""


def canonical_bytes(value: Any) -> bytes:
    """The canonical text of ``value`` with its newline.

    ``value``: dict (string keys), list, tuple, str, int, bool or None, nested. Raises DataError for
    anything else (floats and numpy integers too), lone surrogates, and values beyond the limits above.
    """
    try:
        _check_value(value, MAX_DEPTH)
    except _NotCanonical as exc:
        raise DataError(f"this value has no canonical JSON form: {exc}") from None
    text = json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
    raw = text.encode("ascii") + b"\n"
    if len(raw) > MAX_BYTES:
        raise DataError(
            f"this value takes {len(raw)} bytes of canonical JSON; at most {MAX_BYTES} are allowed:"
            " use fewer or shorter names"
        )
    return raw


def parse_canonical(raw: bytes, origin: str) -> Any:
    """The value of a canonical text; ``origin`` (a file's name) begins every message.

    Raises DataError when ``raw`` is not byte for byte what canonical_bytes writes for its value.
    """
    if len(raw) > MAX_BYTES:
        raise DataError(f"{origin}: JSON text of {len(raw)} bytes; at most {MAX_BYTES} are allowed")
    try:
        value = json.loads(
            raw.decode("ascii"),
            object_pairs_hook=_unique,
            parse_float=_no_float,
            parse_constant=_no_float,
            parse_int=_integer,
        )
        _check_value(value, MAX_DEPTH)
        same = canonical_bytes(value) == raw
    except UnicodeDecodeError as exc:
        raise DataError(f"{origin}: byte {exc.start} of the JSON text is not ASCII") from None
    except RecursionError:
        raise DataError(f"{origin}: JSON nested deeper than {MAX_DEPTH}") from None
    except json.JSONDecodeError as exc:
        raise DataError(f"{origin}: not JSON: {exc.msg} at character {exc.pos}") from None
    except _NotCanonical as exc:
        raise DataError(f"{origin}: {exc}") from None
    if not same:
        raise DataError(
            f"{origin}: this JSON is not in canonical form (edited or reformatted?);"
            " use the file as it was written, or write it again"
        )
    return value


def _check_value(value: Any, depth: int) -> None:
    kind = type(value)
    if value is None or kind is bool:
        return
    if kind is int:
        if not -_BEYOND < value < _BEYOND:
            raise _NotCanonical(f"an integer of more than {MAX_DIGITS} digits")
    elif kind is str:
        _check_text(value)
    elif kind in (list, tuple, dict):
        if depth == 0:
            raise _NotCanonical(f"JSON nested deeper than {MAX_DEPTH}")
        items = value
        if kind is dict:
            for key in value:
                if type(key) is not str:
                    raise _NotCanonical(f"a key of type {type(key).__name__}; keys are strings")
                _check_text(key)
            items = value.values()
        for item in items:
            _check_value(item, depth - 1)
    else:
        raise _NotCanonical(f"a value of type {kind.__name__}")


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise _NotCanonical("a string with half of a surrogate pair") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _NotCanonical(f"key {ascii(key)[:60]} is given twice")
            seen.add(key)
    return made


def _no_float(text: str) -> NoReturn:
    raise _NotCanonical(f"number {text[:40]} is not an integer; numbers here are integers")


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS + 1:
        raise _NotCanonical(f"an integer of more than {MAX_DIGITS} digits")
    return int(text)
