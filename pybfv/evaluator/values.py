"""Values to integers for encoders, exactly: whatever is a whole number, however it is written and held."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from pybfv.errors import UsageError, in_a_line
from pybfv.evaluator.context import Context

MAX_DIGITS = 400
"""Digits of a value in text or of a Decimal, exponent included: no t has as many."""
_DECIMAL = re.compile(r"[+-]?[0-9]{1,400}(?:\.[0-9]{0,400})?(?:[eE][+-]?[0-9]{1,3})?")
_SCALE = "plaintexts take whole numbers: scale them first"


def values_of(values: Any, context: Context) -> list[int]:
    """Up to n integers from -t/2 to t - 1 as such; UsageError naming the place of one that is not.

    ``values``: a list, an array with one dimension or none (one value), or whatever else gives values in an order.
    Each an integer or boolean of any type, decimal text, a Decimal, a Fraction, or a float so small that its neighbours
    are less than 1 apart (2^53 for 64 bits); of the last four those that are whole.
    """
    if isinstance(values, dict | set | frozenset | bytes | bytearray | str) or not isinstance(values, Iterable):
        raise UsageError(f"values must be a sequence of integers, not {type(values).__name__}")
    if isinstance(values, np.ndarray) and values.ndim == 0:
        values = values.reshape(1)
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biu":
        values = map(int, values.tolist())
    numbers = [v if type(v) is int else whole_value(v, i) for i, v in enumerate(values)]
    for i, x in enumerate(numbers):
        if not -(context.t // 2) <= x < context.t:
            raise UsageError(f"value {i} is {in_a_line(x)}; a plaintext mod t = {context.t} takes -t/2 to t - 1")
    if len(numbers) > context.n:
        raise UsageError(f"{len(numbers)} values don't fit into {context.n} places; use more plaintexts")
    return numbers


def whole_value(value: Any, place: int) -> int:
    """The integer that a value is; UsageError naming its place when it is none for certain."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    try:
        if isinstance(value, np.bool_):
            return int(value)
        if not isinstance(value, np.timedelta64):
            return operator.index(value)
    except TypeError:
        pass
    exact = _exact(value, place)
    if exact is None or exact.denominator != 1:
        raise UsageError(f"value {place} is {in_a_line(value)}; {_SCALE}")
    return exact.numerator


def _exact(value: Any, place: int) -> Fraction | None:
    """The rational number that a value is, if it is one."""
    if isinstance(value, str):
        return Fraction(value) if _DECIMAL.fullmatch(value) else None
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        fits = isinstance(exponent, int) and len(digits) + abs(exponent) <= MAX_DIGITS
        return Fraction(value) if fits else None
    if isinstance(value, Fraction):
        return value
    if isinstance(value, float | np.floating) and np.isfinite(value):
        limit = np.finfo(value.dtype if isinstance(value, np.floating) else float).nmant + 1
        if abs(value) >= 2.0**limit:
            raise UsageError(
                f"value {place} is {in_a_line(value)}: from 2^{limit} on not every integer has such a float; give "
                "integers, text or decimal.Decimal"
            )
        return Fraction(*value.as_integer_ratio())
    return None
