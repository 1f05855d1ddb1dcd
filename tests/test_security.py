"""SECURITY.md's table is that of tests/security.py, whose check can fail."""

from __future__ import annotations

import importlib.util

import pytest
from conftest import ROOT


@pytest.fixture
def security():
    spec = importlib.util.spec_from_file_location("security_table", ROOT / "tests" / "security.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_table(security) -> None:
    assert security.check() == []


def test_the_check_can_fail(security, tmp_path, monkeypatch) -> None:
    more = ("one more", ("test_nothing.py", "test_io.py::test_none"))
    monkeypatch.setattr(security, "CLAIMS", [*security.CLAIMS, more])
    assert security.check() == [
        "no test test_nothing.py",
        "no test test_io.py::test_none",
        "SECURITY.md has other rows; run python -m tests.security --write",
    ]
    monkeypatch.undo()
    page = tmp_path / "SECURITY.md"
    page.write_text(security.PAGE.read_text().replace("| results that were", "| results which were"))
    monkeypatch.setattr(security, "PAGE", page)
    assert len(security.check()) == 1
