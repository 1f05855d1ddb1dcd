"""What the Python fuzzers share: the two places where a refusal is judged, and a reader of their input."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

with atheris.instrument_imports(include=["pybfv", "pybfv_workloads"]):
    from pybfv.errors import InternalError, PybfvError

warnings.simplefilter("ignore")  # a secret key that others may read is told about, and read

EDGES = (0, 1, 2, 15, 16, 255, 1 << 16, 1 << 30, 1 << 31, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
"""Numbers at which something may wrap."""


class Input:
    """The bytes of one input, in turn; zeros when there are no more."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return max(0, len(self._data) - self._at)

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def number(self) -> int:
        """0 to 65535."""
        return self.byte() << 8 | self.byte()

    def pick(self, choices):
        return choices[self.byte() % len(choices)]

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def rest(self) -> bytes:
        return self.take(self.left)


def refusal_or(function: Callable, *arguments, also: tuple[type[Exception], ...] = ()):
    """What ``function`` returns, or None where it refuses in one printable line; any other exception is a finding."""
    try:
        return function(*arguments)
    except PybfvError as refusal:
        if isinstance(refusal, InternalError):
            raise  # a state that its author thought impossible
        text = str(refusal)
        assert text, "an empty refusal"
        assert text.isprintable(), f"a refusal that does not print: {text!a}"
    except also:
        pass
    return None


def run(target: Callable[[bytes], None]) -> None:
    """Fuzzes one function; the command line is libFuzzer's."""
    # as a shell would start it: so libFuzzer starts itself again to merge a corpus
    atheris.Setup([f"{sys.executable} {sys.argv[0]}", *sys.argv[1:]], target)
    atheris.Fuzz()
