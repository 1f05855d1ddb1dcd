"""The benchmark: what it measures is right, and a missed target is told and ends with exit code 1."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from pybfv.bench import __main__ as command
from pybfv.bench import accumulate, files, report, simulator
from pybfv.bench.measure import Row, check, interleaved
from pybfv.bench.our_side import OurSide
from pybfv.bench.seal_side import DEFAULT, LIKE, N, SealSide


def test_targets() -> None:
    assert Row("a", "us", 1.0, 20.0, at_least=20).met is True
    assert Row("a", "us", 1.0, 19.9, at_least=20).met is False
    assert Row("a", "us", 1.0, 1.0, above=1).met is False
    assert Row("a", "us", 1.0, 1.01, above=1).met is True
    assert Row("a", "MB", 300.0, below=300).met is False
    assert Row("a", "MB", 299.0, below=300).met is True
    assert Row("a", "MB", 299.0).met is None


@pytest.mark.parametrize("kind", [DEFAULT, LIKE])
def test_both_sides_compute_the_same(kind: str) -> None:
    t = accumulate.T
    messages = np.random.default_rng(2).integers(0, t, (2, N), dtype=np.int64)
    ours, seal = OurSide(accumulate.SET, t, messages, 4), SealSide(kind, t, messages, 4)
    sums = (2 * messages.sum(axis=0) % t).tolist()
    squares = (2 * (messages**2 % t).sum(axis=0) % t).tolist()
    assert ours.slots(ours.sum()) == seal.decrypt(seal.sum()) == sums
    assert ours.slots(ours.squares()) == seal.decrypt(seal.squares(4, 2)) == squares
    assert ours.decrypt_one(ours.encrypt()) < t
    assert round(seal.bits) == (72 if kind == DEFAULT else 109)
    assert round(ours.bits) == 109


def test_medians_of_interleaved_work() -> None:
    calls: list[str] = []
    times = interleaved(3, lambda: calls.append("a"), lambda: calls.append("b"))
    assert calls == ["a", "b"] * 4  # one warm-up
    assert len(times) == 2


def test_wrong_results_are_no_benchmark() -> None:
    check(True, "a sum")
    with pytest.raises(SystemExit, match="a sum gave a wrong result"):
        check(False, "a sum")


def test_small_tables_and_their_variances(tmp_path) -> None:
    sums = [files.write_table(tmp_path / f"{k}.csv", 50, k) for k in range(2)]
    text = [(tmp_path / f"{k}.csv").read_text().splitlines()[1:] for k in range(2)]
    rows = [[float(x) for x in line.split(",")] for lines in text for line in lines]
    found = [float(x) for x in files.variances(sums, 100)]
    assert found == pytest.approx(np.var(rows, axis=0, ddof=1))


@pytest.mark.parametrize("ratio", [25.0, 19.0])
def test_the_command_tells_missed_targets(monkeypatch, capsys, ratio: float) -> None:
    monkeypatch.setattr(accumulate, "measure", lambda: ([Row("variance", "us", 1.0, ratio, at_least=20)], []))
    monkeypatch.setattr(files, "measure", lambda: [Row("memory", "MB", 64.0, below=300)])
    monkeypatch.setattr(simulator, "measure", lambda: [Row("simulator", "", 0.2, at_least=0.1)])
    monkeypatch.setattr(sys, "argv", ["bench", "--json"])
    assert command.main() == (0 if ratio > 20 else 1)
    out, err = capsys.readouterr()
    assert [row["met"] for row in json.loads(out)["rows"]] == [ratio > 20, True, True]
    assert ("target missed: variance" in err) == (ratio < 20)


def test_the_table() -> None:
    rows = [Row("variance", "us", 8.0, 1760.0, at_least=20), Row("memory", "MB", 310.0, below=300)]
    side = {"side": "ours", "data_level_bits": 109.0, "t": 5, "bytes_per_ciphertext": 131072}
    side |= {"noise_budget_after_sum": 61, "noise_budget_after_squares": 8}
    text = report.table(rows, [side | {"product": "scale-free", "security": "128 bits"}], "some CPU")
    assert "some CPU" in text
    assert ["variance", "us", "8", "1,760", "220x", ">=", "20", "met"] in [x.split() for x in text.splitlines()]
    assert ["memory", "MB", "310", "<", "300", "MISSED"] in [x.split() for x in text.splitlines()]
    assert "131,072" in text
    assert " 61 " in text


def test_the_readme_has_one_table(tmp_path) -> None:
    side = {"data_level_bits": 109.0, "t": 5, "bytes_per_ciphertext": 131072, "security": "128 bits"}
    side |= {"noise_budget_after_sum": 61, "noise_budget_after_squares": 8, "product": "scaled"}
    names = ("pybfv n4096_q109, scale-free", "pybfv n4096_q109, scaled", "SEAL default", "SEAL 109-bit")
    rows = [Row("variance, per ciphertext; SEAL default", "us", 8.0, 1760.0)]
    rows += [Row("variance, per ciphertext; SEAL 109-bit", "us", 8.0, 3520.0), Row("memory", "MB", 1.0)]
    text = report.markdown(rows, [side | {"side": x} for x in names], "some CPU", {"tenseal": "1"})
    assert "| variance, per ciphertext, us | 8 | 1,760 (220x) | 3,520 (440x) |" in text.splitlines()
    assert "memory" not in text
    assert "| the same after the squares | 8 (scale-free), 8 (scaled) | 8 | 8 |" in text
    page = tmp_path / "page.md"
    page.write_text(f"a\n{report.BEGIN}old\n{report.END}b\n")
    report.put(page, text)
    report.put(page, text)
    assert page.read_text() == f"a\n{report.BEGIN}{text}{report.END}b\n"
    page.write_text("no marks")
    with pytest.raises(SystemExit, match="lacks the marks"):
        report.put(page, text)


def test_budgets_are_those_of_seal() -> None:
    t = accumulate.T
    messages = np.random.default_rng(2).integers(0, t, (2, N), dtype=np.int64)
    ours, seal = OurSide(accumulate.SET, t, messages, 2), SealSide(LIKE, t, messages, 2)
    assert abs(ours.budget(ours.encrypt()) - seal.budget(seal.encrypt())) < 4
    scaled, theirs = ours.budget(ours.finish(ours.scaled_squares())), seal.budget(seal.squares(2, 2))
    assert abs(scaled - theirs) < 4
    assert ours.budget(ours.finish(ours.squares())) < scaled
