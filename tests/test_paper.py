"""`pybfv bench paper`: its arithmetic, what is modelled of it, the command, its folder. SEAL's own side: tests/seal."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pybfv import cli, native
from pybfv.bench.model import CLOCKS
from pybfv.bench.paper import facts, measured, pim, report, rows, run
from pybfv.bench.paper.facts import PANELS, READINGS, Job, Ratio
from pybfv.bench.paper.measured import OPERATIONS, Scale, Seal, Timing
from pybfv.params import ParameterSet, get_set

TINY = {32: "insecure_n16_q53", 64: "insecure_n64_q106", 128: "insecure_n64_q106"}
SMALL = Scale("quick", 1 << 18, 4, 1)
PANEL = {p.name: p for p in PANELS}
FILES = {"paper.json", "paper.csv", "paper.txt", *(f"panel-{name}.json" for name in PANEL)}
plots = report.plots


# --- the paper's sizes and ratios


def test_sizes() -> None:
    assert [(p.name, p.sizes[0], p.sizes[-1], p.bits) for p in PANELS] == [
        ("addition", 20_480, 327_680, (32, 64, 128)),
        ("product", 5_120, 81_920, (32, 64, 128)),
        ("mean", 640, 2560, (128,)),
        ("variance", 640, 2560, (128,)),
        ("regression-32", 640, 640, (128,)),
        ("regression-64", 640, 640, (128,)),
    ]
    for bits, name in facts.SETS.items():
        ps = get_set(name)
        assert (ps.n, round(ps.log2_q)) == {32: (1024, 27), 64: (2048, 54), 128: (4096, 109)}[bits]


def test_operations() -> None:
    assert facts.job_of(PANEL["addition"], 20_480) == Job(additions=20_480)
    assert facts.job_of(PANEL["product"], 5_120) == Job(products=5_120)
    assert facts.job_of(PANEL["mean"], 640) == Job(additions=640)
    assert facts.job_of(PANEL["variance"], 640) == Job(squares=640)
    normal, predictions = READINGS
    for panel, factor in (("regression-32", 1), ("regression-64", 2)):
        job = facts.job_of(PANEL[panel], 640, normal)
        assert job == Job(squares=factor * 640 * 8 * 3, products=factor * 640 * 8 * 6)
        assert facts.job_of(PANEL[panel], 640, predictions) == Job(products=factor * 640 * 32 * 3)


def test_ratios_in_words() -> None:
    assert str(Ratio(35, 80)) == "35-80x faster"
    assert str(Ratio(7.5, 7.5)) == "7.5x faster"
    assert str(Ratio(1 / 4, 1 / 2)) == "2-4x slower"
    assert str(Ratio(1 / 11.4, 1 / 11.4)) == "11.4x slower"
    faster, slower = Ratio(35, 80), Ratio(1 / 4, 1 / 2)
    assert rows.holds(faster, [20, 40]) == "holds"
    assert rows.holds(faster, [2, 3]) == "holds in direction, not in size"
    assert rows.holds(faster, [0.5, 0.7]) == "does not hold"
    assert rows.holds(slower, [0.3]) == "holds"
    assert rows.holds(slower, [0.01]) == "holds in direction, not in size"
    assert rows.holds(slower, [0.3, 1.4]) == "holds for some of them"


# --- how jobs lie on DPUs: as the backend itself gives them out


def uniform(ps: ParameterSet, count: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    out = native.empty((count, 2, len(ps.primes), ps.n))
    for i, p in enumerate(ps.primes):
        out[:, :, i] = rng.integers(0, p, (count, 2, ps.n), dtype=np.uint32)
    return out


def launch_of(ps: ParameterSet, kernels: str, kind: str, count: int, dpus: int) -> dict[str, Any]:
    """The event of one accumulation by the backend."""
    with native.Backend("sim", ps.n, ps.primes, kernels=kernels, dpus=dpus, tasklets=16, strict=False) as backend:
        array = backend.put(uniform(ps, count))
        acc = backend.acc_new("sum" if kind == "sum" else "product", 2 if kind == "sum" else 3)
        if kind == "sum":
            backend.acc_add(acc, array, 0, 1, count)
        else:
            backend.acc_mul(acc, array, 0, array, 0, 1, count)
        backend.acc_save(acc)
        (event,) = (e for e in backend.events() if e["kind"] == "launch")
    return event


@pytest.mark.parametrize("dpus", [1, 3, 7, 16, 40])
@pytest.mark.parametrize("panel", ["mean", "variance"])
@pytest.mark.parametrize("kernels", ["ntt", "limb"])
@pytest.mark.parametrize("count", [2, 9, 41])
def test_shares_are_those_of_the_backend(kernels: str, panel: str, dpus: int, count: int) -> None:
    ps = get_set("insecure_n64_q106")
    share = pim.share_of(PANEL[panel], count, ps, kernels, "", dpus)
    ((event, times),) = share.launches
    real = launch_of(ps, kernels, "sum" if panel == "mean" else "square", count, dpus)
    assert times == 1
    same = ["command", "count", "positions", "tasklets", "block"]
    assert [event[name] for name in same] == [real[name] for name in same]
    if kernels == "ntt" or panel == "mean":
        same = ["reads", "read_bytes", "writes", "write_bytes", "busiest_bytes"]
        assert [event[name] for name in same] == [real[name] for name in same]
    else:
        assert event["read_bytes"] == pytest.approx(real["read_bytes"], rel=0.1)
        assert event["reads"] == pytest.approx(real["reads"], rel=0.1)
    assert share.at_work == real["dpus"]


def test_bytes_of_whole_ciphertexts() -> None:
    ps = get_set("n4096_q109")
    polynomial = 4096 * 16
    for kernels in ("limb", "ntt"):
        share = pim.share_of(PANEL["addition"], 327_680, ps, kernels, "", facts.DPUS)
        assert (share.to_dpus, share.from_dpus) == (130 * 4 * polynomial, 130 * 2 * polynomial)
        assert share.launches[0][0]["count"] == 130
    share = pim.share_of(PANEL["product"], 5_120, ps, "ntt", "", facts.DPUS)
    assert (share.to_dpus, share.from_dpus) == (3 * 4 * polynomial, 3 * 3 * polynomial)
    share = pim.share_of(PANEL["mean"], 2560, ps, "ntt", "", facts.DPUS)
    assert (share.to_dpus, share.from_dpus, share.at_work) == (2560 * 64, 64, 2048)
    share = pim.share_of(PANEL["variance"], 2560, ps, "ntt scaled", "", facts.DPUS)
    assert share.at_work == facts.DPUS  # nine primes, 512 units each
    normal, predictions = READINGS
    share = pim.share_of(PANEL["regression-32"], 640, ps, "ntt", normal, facts.DPUS)
    assert [times for _, times in share.launches] == [3, 6]
    assert share.to_dpus == 4 * 5120 * 64
    share = pim.share_of(PANEL["regression-32"], 640, ps, "ntt", predictions, facts.DPUS)
    ((event, times),) = share.launches
    assert (event["count"], event["positions"], times) == (3, 2048, 9)  # 20,480 samples, 2,524 DPUs


def test_estimates() -> None:
    ps = get_set("insecure_n64_q106")
    share = pim.share_of(PANEL["variance"], 640, ps, "ntt", "", 64)
    slow, fast = (pim.estimate(share, 64, clock) for clock in CLOCKS)
    assert slow.kernel == pytest.approx(fast.kernel * CLOCKS[1] / CLOCKS[0])
    assert 0 < slow.even <= slow.kernel < slow.end_to_end
    assert share.at_work == 32


# --- rows and sentences


def timings(seconds: float) -> dict[str, Timing]:
    return {name: Timing(seconds, 8) for name in OPERATIONS}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Toy rings, and a SEAL that takes a millisecond; what was measured goes to the list."""
    calls: list[str] = []

    def seal(n: int, scale: Scale) -> Seal:
        calls.append(f"seal {n}")
        return Seal(timings(1e-3), 54.0)

    ours = measured.ours

    def spied(ps: ParameterSet, scale: Scale) -> Any:
        calls.append(f"ours {ps.name}")
        return ours(ps, scale)

    for module in (rows, run):
        monkeypatch.setattr(module, "SETS", TINY)
    monkeypatch.setattr(measured, "seal", seal)
    monkeypatch.setattr(measured, "ours", spied)
    monkeypatch.setattr(run, "quick", lambda: SMALL)
    monkeypatch.setattr(report, "plots", lambda panels: {})
    return calls


def made(panel: str, ours: float, seal: float | None, kernels: tuple[str, ...] = ("limb", "ntt")) -> list[rows.Row]:
    times = rows.Times(
        lambda bits: {(k, o): Timing(ours, 8) for k in pim.KERNELS for o in OPERATIONS},
        lambda bits: timings(ours),
        lambda bits: None if seal is None else Seal(timings(seal), 54.0),
    )
    return list(rows.rows_of(PANEL[panel], kernels, times))


def test_rows(tiny: list[str]) -> None:
    found = made("variance", 2e-3, 1e-3)
    assert [(r["size"], r["kernels"]) for r in found[:3]] == [(640, "limb"), (640, "ntt"), (640, "ntt scaled")]
    assert len(found) == 9
    assert len(made("addition", 1, 1)) == 30
    assert len(made("regression-64", 1, 1)) == 4
    assert [r["kernels"] for r in made("variance", 1, 1, ("limb",))] == ["limb"] * 3
    for row in found:
        assert tuple(row) == rows.COLUMNS
        assert row["measured_cpu_s"] == pytest.approx(2e-3 * row["size"])
        assert row["seal_over_measured_cpu"] == pytest.approx(0.5)
        kernel, moved = row["modelled_pim_kernel_s_425mhz"], row["modelled_pim_end_to_end_s_425mhz"]
        assert row["cpu_over_modelled_pim_kernel"] * kernel == pytest.approx(row["measured_cpu_s"])
        assert row["seal_over_modelled_pim_kernel"] * kernel == pytest.approx(row["measured_seal_s"])
        assert row["seal_over_modelled_pim_end_to_end"] * moved == pytest.approx(row["measured_seal_s"])
        assert (row["paper_pim_against_cpu"], row["paper_pim_against_seal"]) == ("6-25x faster", "2-10x slower")


def test_what_is_modelled_says_so() -> None:
    for name in rows.COLUMNS:
        assert ("modelled" in name) == ("pim" in name and not name.startswith("paper_")), name
        assert name.count("mhz") <= name.count("modelled")


def test_rows_without_seal(tiny: list[str]) -> None:
    for row in made("mean", 1e-3, None):
        assert row["measured_seal_s"] is row["seal_over_modelled_pim_kernel"] is row["seal_over_measured_cpu"] is None
        assert row["cpu_over_modelled_pim_kernel"] > 0
    assert report.table([{"rows": made("mean", 1e-3, None)}]).count(b"\n") == 7


def test_sentences(tiny: list[str]) -> None:
    slow = " ".join(rows.text_of(PANEL["variance"], made("variance", 1e-3, 1.0)))
    assert "2-10x slower than SEAL" in slow
    assert "overturned;" in slow
    fast = " ".join(rows.text_of(PANEL["variance"], made("variance", 1e-3, 1e-9)))
    assert "not overturned" in fast
    assert "slower" in fast
    assert "under 4.5 ms. Modelled: " in fast
    assert "1,000,000x faster than SEAL, one thread" in " ".join(rows.text_of(PANEL["mean"], made("mean", 1e-9, 1e-3)))
    only = rows.text_of(PANEL["product"], made("product", 1e-3, None, ("ntt",)))
    assert only == [
        "The paper: PIM 40-50x faster than its CPU at 32, 64, 128 bits.",
        "The paper: PIM 2x faster than SEAL at 32 bits.",
        "The paper: PIM 2-4x slower than SEAL at 64, 128 bits.",
    ]


def test_spans_in_words() -> None:
    assert rows._span([19.96, 29.2]) == "20-29x faster"
    assert rows._span([9.96, 1234]) == "10-1,234x faster"
    assert rows._span([0.25, 0.5]) == "2.0-4.0x slower"
    assert rows._span([0.5, 3]) == "2x slower to 3x faster"
    assert rows._span([7.5]) == "7.5x faster"


def test_times_in_words() -> None:
    assert [rows.seconds(x) for x in (2e-7, 1.5e-5, 0.0123, 2.5, 12_345.6)] == [
        "0.2 us", "15 us", "12.3 ms", "2.5 s", "12,346 s",
    ]  # fmt: skip
    assert (rows.seconds(0.9999), rows.seconds(None)) == ("1 s", "-")


# --- measuring


def test_our_side_and_the_limb_kernels() -> None:
    ps = get_set("insecure_n64_q106")
    found = measured.ours(ps, SMALL)
    assert set(found) == {*(("ntt", o) for o in OPERATIONS), ("ntt scaled", "square and add")}
    assert SMALL.count(ps) == (1 << 18) // (8 * 64 * 4)
    found |= {("limb", o): t for o, t in measured.limb(ps, SMALL).items()}
    assert all(0 < t.seconds < 1 and t.of >= 1 for t in found.values())
    assert {o for k, o in found if k == "limb"} == set(OPERATIONS)


def test_resident_sets_exceed_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    for cache, least in ((1 << 20, 64 << 20), (40 << 20, 80 << 20), (2 << 30, 1 << 30)):
        monkeypatch.setattr(measured, "cache_bytes", lambda cache=cache: cache)
        assert run.quick().resident == least
    assert measured.cache_bytes() > 0


# --- the command


def pybfv(*arguments: str) -> int:
    return cli.main(["bench", "paper", "--quick", *arguments])


def test_folder_and_document(tiny: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "figures"
    assert pybfv("-o", str(folder), "--json") == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document == json.loads((folder / "paper.json").read_text())
    assert (document["schema_version"], document["kernels"], document["scale"]) == (1, ["limb", "ntt"], "quick")
    assert [p["name"] for p in document["panels"]] == list(PANEL)
    section = (Path(__file__).parent.parent / "docs" / "cli.md").read_text().split("## pybfv bench paper")[1]
    assert all(f"`{name}`" in section for name in (*document, *document["panels"][0]))
    assert {p.name for p in folder.iterdir()} == FILES
    table = list(csv.DictReader((folder / "paper.csv").read_text().splitlines()))
    assert len(table) == sum(len(p["rows"]) for p in document["panels"]) == 30 + 30 + 6 + 9 + 4 + 4
    assert tuple(table[0]) == tuple(document["columns"]) == rows.COLUMNS
    text = (folder / "paper.txt").read_text()
    assert text.count("The paper: PIM") == 11
    assert "not reproduced" in text
    for head in (line for line in text.splitlines() if "CPU, measured" in line):
        assert head.count("modelled") == 4
    assert err == ""
    assert len(tiny) == 2 * len(TINY)
    page = report.markdown(document)
    assert page.count("\n## ") == 7
    head = next(line for line in page.splitlines() if line.startswith("| bits"))
    committed = (Path(__file__).parent.parent / "docs" / "paper.md").read_text()
    assert report.PAGE in committed
    assert head in committed


def test_without_a_folder(tiny: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pybfv("--kernels", "ntt") == 0
    out, err = capsys.readouterr()
    assert "Addition of ciphertexts" in out
    assert " limb " not in out
    assert err == ""


def test_a_rerun_continues(tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    folder = tmp_path / "figures"
    whole = rows.rows_of

    def stops(panel: facts.Panel, *rest: Any) -> Any:
        if panel.name == "mean":
            raise KeyboardInterrupt
        return whole(panel, *rest)

    monkeypatch.setattr(rows, "rows_of", stops)
    assert pybfv("-o", str(folder)) == 130
    assert {p.name for p in folder.iterdir()} == {"panel-addition.json", "panel-product.json"}
    before = (folder / "panel-product.json").read_bytes()
    monkeypatch.setattr(rows, "rows_of", whole)
    tiny.clear()
    assert pybfv("-o", str(folder)) == 0
    assert sorted(tiny) == ["ours insecure_n64_q106", "seal 64"]  # 128 bits alone were missing
    assert (folder / "panel-product.json").read_bytes() == before
    tiny.clear()
    assert pybfv("-o", str(folder)) == 0
    assert tiny == []
    (folder / "panel-mean.json").write_text("{ torn")
    assert pybfv("-o", str(folder)) == 73
    assert "--force" in capsys.readouterr().err
    assert pybfv("-o", str(folder), "--force") == 0
    assert len(tiny) == 2 * len(TINY)


def test_another_runs_folder_is_refused(tiny: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "figures"
    assert pybfv("-o", str(folder), "--kernels", "limb") == 0
    capsys.readouterr()
    assert pybfv("-o", str(folder)) == 73
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "another run" in err
    (tmp_path / "file").write_text("")
    assert pybfv("-o", str(tmp_path / "file")) == 73


def test_without_matplotlib(tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(report, "plots", plots)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert pybfv("-o", str(tmp_path / "f"), "--kernels", "ntt") == 0
    err = capsys.readouterr().err
    assert "no plots: matplotlib is not installed" in err
    assert err.count("\n") == 1
    assert {p.name for p in (tmp_path / "f").iterdir()} == FILES


def test_plots(tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = {"name": "mean", "title": "Mean", "counts": "users", "rows": made("mean", 1e-3, None), "text": []}
    files = plots([panel])
    assert files is not None
    assert set(files) == {"mean.svg", "mean.png"}
    assert files["mean.png"].startswith(b"\x89PNG")
    assert b"modelled, 425 MHz" in files["mean.svg"]
    assert files == plots([panel])  # the same bytes
    monkeypatch.setattr(report, "plots", lambda panels: files)
    assert pybfv("-o", str(tmp_path / "f"), "--kernels", "ntt") == 0
    assert (tmp_path / "f" / "mean.svg").read_bytes() == files["mean.svg"]


def test_without_seal_it_says_so(tiny: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(measured, "seal", lambda n, scale: None)
    assert pybfv("--kernels", "limb", "--json") == 0
    out, err = capsys.readouterr()
    assert "pip install 'pybfv[seal]'" in err
    assert all(row["measured_seal_s"] is None for p in json.loads(out)["panels"] for row in p["rows"])
