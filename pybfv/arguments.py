"""Arguments of the functions that scripts call: refused in one line where they are of the wrong type."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from pybfv.errors import UsageError
from pybfv.workload import show_name

_BOUNDS_FORM = 'bounds are texts "COLUMN=LO:HI", or {"COLUMN": (LO, HI)} with integers, text or decimal.Decimal'


def needed(value: Any, kinds: type | tuple[type, ...], what: str, how: str) -> None:
    """UsageError unless value is of one of the kinds; ``what`` is needed, and ``how`` tells how to come by it."""
    if not isinstance(value, kinds):
        given = "a path" if isinstance(value, str | os.PathLike) else type(value).__name__
        raise UsageError(f"{what} is needed, not {given}; {how}")


def whole_number(value: Any, name: str) -> int:
    """An integer of any type as Python's; UsageError for anything else, text and booleans among it."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise UsageError(f"{name} must be an integer, not {type(value).__name__}")


def texts(value: Any, name: str, form: str) -> list[str]:
    """One text or several as a list; UsageError, with the form of one, for anything else."""
    found = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    for text in found:
        if not isinstance(text, str):
            raise UsageError(f"{name} must be texts such as {form}, not {type(text).__name__}")
    return found


def bounds_texts(bounds: Any, decimal: str) -> list[str]:
    """Bounds of columns as texts COL=LO:HI, from those or a mapping {COL: "LO:HI" or (LO, HI)}.

    ``decimal``: the decimal mark that numbers in the texts have.
    """
    if isinstance(bounds, Mapping):
        return [f"{_column(name)}={_range(ends, decimal)}" for name, ends in bounds.items()]
    found = [bounds] if isinstance(bounds, str) else list(bounds) if isinstance(bounds, Iterable) else [bounds]
    if not all(isinstance(text, str) for text in found):
        raise UsageError(_BOUNDS_FORM)
    return found


def _column(name: Any) -> str:
    if not isinstance(name, str):
        raise UsageError(_BOUNDS_FORM)
    return show_name(name)


def _range(ends: Any, decimal: str) -> str:
    if isinstance(ends, str):
        return ends
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        raise UsageError(_BOUNDS_FORM)
    return ":".join(_end(end, decimal) for end in ends)


def _end(end: Any, decimal: str) -> str:
    if isinstance(end, str):
        return end
    if isinstance(end, Decimal):  # its decimals are the column's scale, as in text
        return format(end, "f").replace(".", decimal)
    try:
        return str(operator.index(end))
    except TypeError:
        raise UsageError(_BOUNDS_FORM) from None


def ddof_of(value: Any) -> int:
    """0 or 1; UsageError for anything else."""
    if not isinstance(value, bool):
        try:
            if operator.index(value) in (0, 1):
                return operator.index(value)
        except TypeError:
            pass
    raise UsageError("ddof must be 1 (sample variance, n - 1) or 0 (population, n)")


_ARGUMENTS = {
    "--bounds": "bounds",
    "--max-rows": "max_rows",
    "--max-contributions": "max_contributions",
    "--min-contributors": "min_contributors",
    "--missing": "missing",
    "--plain-modulus": "plain_moduli",
    "--product": "product",
    "--reveal": "reveal",
    "--set": "set_name",
    "--insecure": "insecure=True",
    "--delimiter": "CsvOptions.delimiter",
    "--decimal": "CsvOptions.decimal",
    "--thousands": "CsvOptions.thousands",
    "--encoding": "CsvOptions.encoding",
}
"""Options of the command line and what they are in pybfv.flow."""
_OPTION = re.compile(
    r'"(?:[^"]|"")*"|(?<![\w-])(?:'  # a name in quotes is not ours
    r"(--(?:max-rows|max-contributions|min-contributors)) (N|[0-9]+)\b|"
    r"(--(?:missing|product|reveal|set)) (drop|error|scaled|scale-free|slots|totals|\w+_q[0-9]+)\b|"
    rf"({'|'.join(sorted(_ARGUMENTS, reverse=True))})(?![\w-]))"
)


def in_python(text: str) -> str:
    """A message that names options of the command line, with the arguments of pybfv.flow in their places."""

    def argument(match: re.Match[str]) -> str:
        number, count, choice, value, alone = match.groups()
        if number:
            return f"{_ARGUMENTS[number]}={count}"
        if choice:
            return f'{_ARGUMENTS[choice]}="{value}"'
        return _ARGUMENTS[alone] if alone else match[0]

    return _OPTION.sub(argument, text)
