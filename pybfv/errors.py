"""Errors of pybfv: one class per documented exit code, all refusals.

A message is one line that says what is wrong, where, and what to do about it.
The command line prints it on stderr and leaves with ``exit_code``.
"""

from __future__ import annotations

import errno


class PybfvError(Exception):
    """Base of every error that pybfv raises on purpose."""

    exit_code = 70


class UsageError(PybfvError, ValueError):
    """A command, option, name or specification that can't be understood."""

    exit_code = 2


class DataError(PybfvError, ValueError):
    """Bad data or a bad file: unparsable, damaged, mixed, out of bounds, singular."""

    exit_code = 65


class MissingInputError(PybfvError):
    """An input that does not exist or can't be read."""

    exit_code = 66


class BackendUnavailableError(PybfvError):
    """The chosen backend is not available on this machine."""

    exit_code = 69


class InternalError(PybfvError):
    """A state that should be impossible, or a verification that failed."""

    exit_code = 70


class OutputError(PybfvError):
    """An output that exists already or can't be written."""

    exit_code = 73


class KeyRefusedError(PybfvError):
    """A key that does not belong here: wrong kind, wrong study, mixed keys."""

    exit_code = 77


class PlanError(PybfvError, ValueError):
    """Parameters that are invalid, or a plan that they can't carry."""

    exit_code = 78


def in_a_line(value: object) -> str:
    """A wrong value as a message shows it: short, and in one line, which an array's repr is not."""
    if isinstance(value, int) and value.bit_length() > 192:
        return f"an integer of {value.bit_length()} bits"
    try:
        return " ".join(repr(value).split())[:60]
    except ValueError:  # Python refuses to write very long integers, which may be inside
        return f"of type {type(value).__name__}"


def is_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is short, as loaders of libraries and starters of threads do in other words."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    said = str(error).lower()
    words = ("can't start new thread",) if isinstance(error, RuntimeError) else ("failed to map", "allocate memory")
    return isinstance(error, OSError | ImportError | RuntimeError) and any(w in said for w in words)
