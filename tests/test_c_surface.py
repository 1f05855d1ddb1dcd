"""No function of the C interface is forgotten: each is refused its bad arguments in C, and fuzzed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pybfv.native import _cdef, _cdef_secret

TESTS = Path(__file__).resolve().parent
DECLARED = sorted(
    set(re.findall(r"\b(bfv_[a-z0-9_]+)\(", _cdef.CDEF)) | set(re.findall(r"\b(bfv_[a-z0-9_]+)\(", _cdef_secret.CDEF))
)


def missing(declared: list[str], texts: list[str]) -> list[str]:
    """The declared functions that no text calls, or names in a table of functions."""
    words = {word for text in texts for word in re.findall(r"\bbfv_[a-z0-9_]+\b", text)}
    return [name for name in declared if name not in words]


def test_the_declarations_are_found() -> None:
    assert len(DECLARED) >= 62
    assert {"bfv_open", "bfv_acc_mul", "bfv_secret_round", "bfv_wipe", "bfv_crc32c"} <= set(DECLARED)
    assert missing(["bfv_new"], ["bfv_new_one(1)"]) == ["bfv_new"]


@pytest.mark.parametrize(("folder", "files"), [("c", "test_arguments*.c"), ("fuzz", "fuzz*.[ch]")])
def test_every_function_is_tried(folder: str, files: str) -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted((TESTS / folder).glob(files))]
    assert texts
    assert missing(DECLARED, texts) == []


def test_every_argument_test_is_run() -> None:
    """A test body that is not in the list of tests would be dead."""
    listed = re.findall(r"X\((\w+)\)", (TESTS / "c" / "test.h").read_text(encoding="utf-8"))
    bodies = {
        name
        for path in (TESTS / "c").glob("test_*.c")
        for name in re.findall(r"^void test_(\w+)\(void\)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert bodies <= set(listed)
