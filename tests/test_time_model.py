"""The time model: it gives back published figures and counted launches; what the simulator records is priced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pybfv import native
from pybfv.bench import micro, model
from pybfv.bench.dpu_counts import COUNTED, LAUNCH, TIMED
from pybfv.bench.model import CLOCKS, Dma
from pybfv.bench.paper import pim
from pybfv.errors import UsageError
from pybfv.params import get_set

ROOT = Path(__file__).resolve().parent.parent
PRIMES = get_set("n4096_q109").primes


def test_published_micro_benchmarks() -> None:
    print(micro.markdown())
    found = {f.name: f for f in micro.figures()}
    for figure in found.values():
        assert figure.met != bool(figure.why), figure
    off = {name for name, figure in found.items() if not figure.met}
    assert off == {
        "push from 64 DPUs, 32 MiB each",
        *(f"MRAM {way}, 256 B" for way in ("read", "write", "read and write, mean")),
        *(f"MRAM read, {size} B" for size in (8, 16)),
        *(f"MRAM write, {size} B" for size in (8, 16, 32, 64)),
    }


def test_the_one_point_off_the_table_lies_below_its_neighbours() -> None:
    means = {f.name: f for f in micro.figures() if "mean" in f.name}
    between = np.interp(256, (128, 512), [means[f"MRAM read and write, mean, {s} B"].published for s in (128, 512)])
    assert means["MRAM read and write, mean, 256 B"].modelled == pytest.approx(between, rel=0.05)


def test_the_documents_have_the_table() -> None:
    assert micro.markdown() in (ROOT / "docs" / "time-model.md").read_text()


def test_a_figure_can_miss() -> None:
    assert not micro.Figure("x", "s", 1.0, 1.11, "nowhere").met
    assert micro.Figure("x", "s", 1.0, 0.91, "nowhere").met


@pytest.mark.parametrize("row", COUNTED, ids=lambda r: f"{r[0]:#x}-{r[1]}-{r[2]}-{r[6]}x{r[7]}")
def test_counted_launches(row: tuple[int, ...]) -> None:
    names = ("command", "primes", "log_n", "parts", "tasklets", "block", "count", "positions", "reads")
    event = dict(zip(names, row[:-1], strict=True))
    assert model.instructions(event) == pytest.approx(row[-1], rel=0.1)


@pytest.mark.parametrize("row", TIMED, ids=lambda r: f"{r[1]}-{r[0]}-{r[3]}x{r[4]}")
def test_timed_launches(row: tuple[str, str, int, int, int, int, int]) -> None:
    """Beside a third-party simulator of the pipeline."""
    what, kernels, primes, n, count, cycles, conflicts = row
    event = pim.simulate(what, kernels, n, get_set("n16384_q430").primes[:primes], count).event
    hertz = CLOCKS[0] * 1e6
    assert model.launch_seconds(event, CLOCKS[0]) * hertz == pytest.approx(cycles - conflicts, rel=0.1)
    assert model.launch_seconds(event, CLOCKS[0], True) * hertz == pytest.approx(cycles, rel=0.03)


def test_the_pipeline() -> None:
    none = Dma()
    assert model.cycles(1100, 1100, none, none) == 12_100  # one tasklet
    assert model.cycles(1100, 100, none, none) == 1100  # eleven: full
    assert model.cycles(1600, 100, none, none) == 1600  # sixteen: no faster
    assert micro.rate(6, 1) * 11 == pytest.approx(micro.rate(6, 11)) == pytest.approx(micro.rate(6, 24))
    many = Dma(reads=10, writes=5, bytes=4096)
    assert many.cycles == 770 + 305 + 2048
    assert model.cycles(1000, 90, many, Dma(1, 0, 64)) == many.cycles  # the engine holds it
    assert model.cycles(100, 100, many, many) == 1100 + many.cycles  # one tasklet waits for its own


def seconds(size: int, dpus: int, to_dpus: bool = True, **kind: object) -> float:
    return model.transfer_seconds(size, dpus, to_dpus=to_dpus, **kind)  # type: ignore[arg-type]


def test_transfers_at_measured_points() -> None:
    assert seconds(32, 64) == pytest.approx(59e-6)
    assert seconds(1 << 20, 512, False) == pytest.approx(112_678e-6)
    assert seconds(32 << 20, 2048) == pytest.approx(1.477654)
    assert seconds(64, 64, wram=True) == pytest.approx(464e-6)
    assert seconds(1024, 2048, wram=True) == pytest.approx(8445e-6)


def test_transfers_between_and_beyond() -> None:
    for to_dpus in (True, False):
        for wram in (False, True):
            times = [seconds(size, 64, to_dpus, wram=wram) for size in range(8, 40_000, 8)]
            assert times == sorted(times)
            times = [seconds(4096, dpus, to_dpus, wram=wram) for dpus in range(1, 2600)]
            assert times == sorted(times)
    assert seconds(8, 64) == seconds(32, 64)
    assert seconds(64 << 20, 64) == pytest.approx(2 * seconds(32 << 20, 64))
    assert seconds(4096, 2524) == pytest.approx(seconds(4096, 2048) * 2524 / 2048)
    assert (32 << 20) / seconds(32 << 20, 1) == pytest.approx(0.33e9, rel=0.02)  # one DPU, as published
    assert seconds(4096, 10, way="serial") == pytest.approx(10 * seconds(4096, 1))
    assert seconds(4096, 64, way="broadcast") < seconds(4096, 64)


def uniform(count: int, n: int, primes: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(3)
    out = native.empty((count, 2, len(primes), n))
    for i, p in enumerate(primes):
        out[:, :, i] = rng.integers(0, p, (count, 2, n), dtype=np.uint32)
    return out


def test_events_of_the_simulator() -> None:
    n, count = 64, 40
    with native.Backend("sim", n, PRIMES[:1], dpus=3, tasklets=16) as backend:
        opened = backend.events()
        assert [e["kind"] for e in opened] == ["to_dpus"]  # the table of primes
        array = backend.put(uniform(count, n, PRIMES[:1]))
        acc = backend.acc_new("product", 3)
        for _ in range(3):
            backend.acc_mul(acc, array, 0, array, 0, 1, count)
        backend.acc_save(acc)
        events = backend.events()
    launches = [e for e in events if e["kind"] == "launch"]
    assert [e["times"] for e in launches] == [1, 2]  # onto nothing; onto what is there
    for e in launches:
        assert (e["command"], e["count"], e["positions"], e["dpus"], e["tasklets"]) == (0x103, count, 3, 3, 16)
        assert sum(e["sizes"]) == e["reads"] + e["writes"]
        assert e["busiest_bytes"] * 16 >= e["read_bytes"] + e["write_bytes"]
        assert e["read_bytes"] >= count * 3 * 2 * 32  # every term's slice
    sent = [e for e in events if e["kind"] == "to_dpus" and not e["wram"] and e["way"] == "parallel"]
    assert [(e["bytes"], e["dpus"], e["times"]) for e in sent] == [(count * 3 * 2 * 32, 3, 1)]
    arguments = [e for e in events if e.get("wram")]
    assert {(e["kind"], e["bytes"], e["times"]) for e in arguments} == {("to_dpus", 56, 3), ("from_dpus", 16, 3)}
    slow, fast = (model.price(events, clock) for clock in CLOCKS)
    assert slow.kernel == pytest.approx(fast.kernel * CLOCKS[1] / CLOCKS[0])
    assert slow.kernel > 3 * LAUNCH / 350e6
    assert slow.to_dpus == fast.to_dpus > 3 * 200e-6  # arguments go to WRAM, which is slow
    assert slow.end_to_end == slow.kernel + slow.to_dpus + slow.from_dpus


def test_limb_events_are_priced() -> None:
    with native.Backend("sim", 16, PRIMES, kernels="limb", dpus=2, tasklets=16) as backend:
        array = backend.put(uniform(3, 16, PRIMES))
        acc = backend.acc_new("product", 3)
        backend.acc_mul(acc, array, 0, array, 0, 1, 3)
        backend.acc_save(acc)
        launch = next(e for e in backend.events() if e["kind"] == "launch")
    assert (launch["command"], launch["primes"], launch["log_n"]) == (0x212, 4, 4)
    work = launch["count"] * launch["positions"] * 16 * 3 * 449
    assert work < model.instructions(launch) < 4 * work
    assert "kernel" in model.summary([launch])
    assert "never been counted" in model.summary([launch | {"primes": 8}])


def test_other_backends_record_nothing() -> None:
    with native.Backend("cpu", 64, PRIMES) as backend:
        array = backend.put(uniform(2, 64, PRIMES))
        backend.add(array, array)
        assert backend.events() == []
    with pytest.raises(UsageError, match="closed"):
        backend.events()
