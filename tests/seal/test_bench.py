"""The benchmark beside SEAL: what it measures is right, and a missed target is told and ends with exit code 1."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pybfv.bench import __main__ as command
from pybfv.bench import files
from pybfv.bench.measure import Row, check
from pybfv.bench.our_side import OurSide
from pybfv.bench.seal_side import BGV, DEFAULT, LIKE, N, SealSide
from pybfv.bench.speed import report, rows, run, server
from pybfv.bench.speed.rows import QUICK, SETS, Pair, SpeedRow, Work, alternate
from pybfv.cli import main

SET, T = SETS[4096]
TINY = replace(QUICK, name="tiny", count=8, repeats=1, batch=2, sizes=(1024, 4096))
FIELDS = {"job", "set", "threads", "ours_us", "seal_us", "ratio", "at_least", "spread"}


def test_targets() -> None:
    assert Row("a", "us", 1.0, 20.0, at_least=20).met is True
    assert Row("a", "us", 1.0, 19.9, at_least=20).met is False
    assert Row("a", "us", 1.0, 1.0, above=1).met is False
    assert Row("a", "us", 1.0, 1.01, above=1).met is True
    assert Row("a", "MB", 300.0, below=300).met is False
    assert Row("a", "MB", 299.0, below=300).met is True
    assert Row("a", "MB", 299.0).met is None
    for asked, met in ((None, None), (4.0, True), (4.1, False)):
        assert SpeedRow("a", SET, 1, "SEAL", 1.0, 4.0, 4.0, asked, 0.0).met is met


@pytest.mark.parametrize("kind", [DEFAULT, LIKE, BGV])
def test_both_sides_compute_the_same(kind: str) -> None:
    messages = np.random.default_rng(2).integers(0, T, (4, N), dtype=np.int64)
    ours, seal = OurSide(SET, T, messages, 8), SealSide(kind, T, messages, 8)
    sums = (2 * messages.sum(axis=0) % T).tolist()
    squares = (2 * (messages**2 % T).sum(axis=0) % T).tolist()
    assert ours.slots(ours.sum()) == seal.decrypt(seal.sum()) == sums
    assert ours.slots(ours.squares()) == seal.decrypt(seal.squares(8, 4)) == squares
    product = (2 * messages[1] * messages[3] % T).tolist()
    assert seal.decrypt(seal.products([(1, 3)], 4, 2)[0]) == product
    assert seal.decrypt(seal.encrypt_symmetric()) == messages[0].tolist()
    assert seal.decrypt(seal.multiply_relinearise()) == (messages[0] * messages[1] % T).tolist()
    assert round(seal.bits) == (109 if kind == LIKE else 72)
    assert round(ours.bits) == 109


def test_wrong_results_are_no_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    check(True, "a sum")
    with pytest.raises(SystemExit, match="a sum gave a wrong result"):
        check(False, "a sum")
    messages = rows.random_messages(1024, 12289)
    ours = OurSide("n1024_q26", 12289, messages, 8)
    sums = server.Sums(ours)
    sums.checked_mod_q()
    ours.ciphertexts[3, 1, 0, 5] ^= 1  # the backend reads them in place, the check's expectation too ...
    sums.checked_mod_q()
    saved = sums.backend.acc_save
    monkeypatch.setattr(sums.backend, "acc_save", lambda acc: saved(acc) ^ 1)  # ... so its result is made wrong
    with pytest.raises(SystemExit, match="our sum, mod q"):
        sums.checked_mod_q()


def test_sums_of_products_are_checked() -> None:
    messages = rows.random_messages(4096, T)
    sums = server.Sums(OurSide(SET, T, messages, 8))
    total, squares = server.expected_sums(sums.ours)
    for kind, expected in (("sum", total), ("product", squares), ("scaled", squares)):
        sums.checked(kind, expected)
        with pytest.raises(SystemExit, match=f"our {kind} of 8"):
            sums.checked(kind, [*expected[:-1], (expected[-1] + 1) % T])
    sums.checked_regression()
    messages[5, 0] += 1  # what is expected is no longer what was encrypted
    with pytest.raises(SystemExit, match="our regression"):
        sums.checked_regression()


def test_works_take_turns() -> None:
    calls: list[str] = []
    now = iter(range(1000))
    pair = alternate(3, Work(lambda: calls.append("a"), 2), Work(lambda: calls.append("b")), lambda: next(now), 0.5)
    assert calls == ["a", "a", "b", "b"] + ["a", "b"] * 3  # two warm-ups of each
    assert pair.ours == [0.5e6] * 3
    assert pair.others == [1e6] * 3


def test_ratios_and_spread() -> None:
    pair = Pair([1.0, 2.0, 4.0, 4.0, 5.0], [10.0, 20.0, 44.0, 40.0, 45.0])
    row = pair.row("a", SET, "SEAL default", 9.5)
    assert (row.ours_us, row.seal_us, row.ratio, row.met) == (4.0, 40.0, 10.0, True)
    assert row.spread == pytest.approx((10.5 - 9.5) / 10)
    assert row.document().keys() > FIELDS
    beside = pair.row("a", SET, "one thread", threads=2, seal=False)
    assert (beside.seal_us, beside.other_us, beside.threads) == (None, 40.0, 2)


def test_small_tables_and_their_variances(tmp_path) -> None:
    sums = [files.write_table(tmp_path / f"{k}.csv", 50, k) for k in range(2)]
    lines = [line for k in range(2) for line in (tmp_path / f"{k}.csv").read_text().splitlines()[1:]]
    values = [[float(x) for x in line.split(",")] for line in lines]
    found = [float(x) for x in files.variances(sums, 100)]
    assert found == pytest.approx(np.var(values, axis=0, ddof=1))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return run.measure(TINY)


def test_the_document(document: dict[str, Any]) -> None:
    json.dumps(document, allow_nan=False)
    assert document["schema_version"] == 2
    assert all(row.keys() > FIELDS and row["ratio"] > 0 and row["ours_us"] > 0 for row in document["rows"])
    default = {row["job"]: row for row in document["rows"] if row["against"] == "SEAL default" and row["set"] == SET}
    asked = {
        "sum of 8": 4, "variance of 8, scale-free": 100, "variance of 8, scaled": 15,
        "encode and encrypt, public key": 8, "encode and encrypt, secret key": 12, "decrypt what a total needs": 4,
        "decrypt and decode all slots": 4, "key generation": 3, "relinearise": 3, "multiply and relinearise": 3,
        "sum of 8, portable body": 2, "variance of 8, scale-free, portable body": 50,
    }  # fmt: skip
    assert {job: row["at_least"] for job, row in default.items() if "regression" not in job} == asked
    assert [row["at_least"] for job, row in default.items() if "regression" in job] == [80, 80]
    small = [row["at_least"] for row in document["rows"] if row["set"] == "n1024_q26"]
    assert small == [2.4, 60]
    against = {row["against"] for row in document["rows"]}
    assert {"SEAL 109-bit", "SEAL BGV, square and add", "a plain read of the same bytes", "one thread"} < against
    sides = {side["side"]: side for side in document["sides"] if side["n"] == 4096}
    assert sides["SEAL default"]["data_level_bits"] == 72.0
    assert sides["pybfv n4096_q109"]["noise_budget_after_squares"].keys() == {"scale-free", "scaled"}


def test_the_table(document: dict[str, Any]) -> None:
    text = report.text(document)
    assert document["machine"]["cpu"] in text
    line = next(x for x in text.splitlines() if x.startswith("sum of 8 ") and x.endswith(("met", "MISSED")))
    assert ">= 2.4" in line
    assert "131,072" in text


def test_the_readme_has_one_table(document: dict[str, Any], tmp_path) -> None:
    text = report.markdown(document)
    assert text.startswith("| | pybfv n4096_q109 | SEAL default | SEAL 109-bit |\n")
    lines = [line for line in text.splitlines() if line.startswith("| variance of 8, scaled, us |")]
    assert len(lines) == 1
    assert lines[0].count("x)") == 2
    assert "1024" not in text
    page = tmp_path / "page.md"
    page.write_text(f"a\n{report.BEGIN}old\n{report.END}b\n")
    report.put(page, text)
    report.put(page, text)
    assert page.read_text() == f"a\n{report.BEGIN}{text}{report.END}b\n"
    page.write_text("no marks")
    with pytest.raises(SystemExit, match="lacks the marks"):
        report.put(page, text)


@pytest.mark.parametrize("ratio", [25.0, 3.9])
def test_the_module_tells_missed_targets(monkeypatch, capsys, ratio: float) -> None:
    row = SpeedRow("sum", SET, 1, "SEAL default", 1.0, ratio, ratio, 4.0, 0.0)
    made = {"rows": [row.document()], "others": [{"name": "memory", "met": True}]}
    monkeypatch.setattr(run, "measure", lambda scale, told: made)
    monkeypatch.setattr(sys, "argv", ["bench", "--json"])
    assert command.main() == (0 if ratio > 4 else 1)
    out, err = capsys.readouterr()
    assert [found["met"] for found in json.loads(out)["rows"]] == [ratio > 4]
    assert ("less than asked: sum" in err) == (ratio < 4)


def test_the_command(monkeypatch, capsys, document: dict[str, Any], tmp_path) -> None:
    monkeypatch.setattr(run, "measure", lambda scale, told: document)
    output = tmp_path / "speed.json"
    assert main(["bench", "speed", "--quick", "--json", "-o", str(output)]) == 0
    assert json.loads(output.read_text()) == document
    assert main(["bench", "speed", "-o", str(output)]) == 73
    capsys.readouterr()
    assert main(["bench", "speed"]) == 0
    assert capsys.readouterr().out == report.text(document) + "\n"


def test_without_seal_the_command_names_the_extra(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "tenseal", None)
    assert main(["bench", "speed", "--quick"]) == 69
    out, err = capsys.readouterr()
    assert out == ""
    assert "pybfv[seal]" in err
    assert err.count("\n") == 1


def test_budgets_are_those_of_seal() -> None:
    messages = np.random.default_rng(2).integers(0, T, (2, N), dtype=np.int64)
    ours, seal = OurSide(SET, T, messages, 2), SealSide(LIKE, T, messages, 2)
    assert abs(ours.budget(ours.encrypt()) - seal.budget(seal.encrypt())) < 5
    scaled, theirs = ours.budget(ours.finish(ours.scaled_squares())), seal.budget(seal.squares(2, 2))
    assert abs(scaled - theirs) < 4
    assert ours.budget(ours.finish(ours.squares())) < scaled
