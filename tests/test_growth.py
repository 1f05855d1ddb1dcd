"""`pybfv bench growth`: lines through series, and the command on tiny sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pybfv.bench import growth
from pybfv.bench.growth import Scale, Series
from pybfv.cli import main

TINY = Scale("tiny", (100, 200), (1, 2), (1, 2), 100, 1)


def series(seconds: list[float], memory: list[float] | None = None) -> Series:
    return Series("a job", "rows", "linear", [1, 2, 4, 8], seconds, memory).fitted()


def test_lines_are_told_from_curves() -> None:
    line = series([3.0, 5.0, 9.0, 17.0])
    assert (line.fixed, line.per_unit) == (pytest.approx(1), pytest.approx(2))
    assert line.deviation < 1e-9
    assert line.linear
    assert not series([1.0, 4.0, 16.0, 64.0]).linear
    assert not series([4.0, 3.0, 2.0, 1.0]).linear  # falls


def test_memory_that_grows_is_told() -> None:
    seconds = [1.0, 2.0, 4.0, 8.0]
    assert series(seconds, [100.0, 101.0, 105.0, 110.0]).flat is True
    assert series(seconds, [100.0, 120.0, 200.0, 400.0]).flat is False
    assert series(seconds).flat is None


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    monkeypatch.setattr(growth, "QUICK", TINY)
    monkeypatch.setattr(growth, "run_measured", lambda *arguments: (1.0, 50.0))
    output, plot = tmp_path / "g.json", tmp_path / "g.svg"
    assert main(["bench", "growth", "--quick", "--json", "-o", str(output), "--plot", str(plot)]) == 0
    document = json.loads(output.read_text())
    assert [found["against"] for found in document["series"]] == ["rows", "contributors", "columns", "N", "threads"]
    assert all(len(found["sizes"]) == len(found["seconds"]) for found in document["series"])
    assert plot.read_text().startswith("<?xml")
    capsys.readouterr()
    text = growth.text(document)
    assert "encrypt, 2 columns, against rows" in text
    assert "memory flat (50 to 50 MB)" in text
    assert main(["bench", "growth", "--quick", "--plot", str(plot)]) == 73
    assert main(["bench", "growth", "--quick", "--plot", "g.gif"]) == 2
    monkeypatch.setattr(growth, "find_spec", lambda name: None)
    assert main(["bench", "growth", "--quick", "--plot", "g.svg"]) == 2
    assert "pybfv[plots]" in capsys.readouterr().err
