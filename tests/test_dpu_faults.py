"""DPUs that err, on purpose (host_c/sim/README.md, inject): what they got wrong is found, done again, or refused.

Also machines whose ranks differ, that have fewer DPUs than asked for, or none that is free.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import Command
from test_upmem_ntt import P133, TOY, arithmetic, both, uniform

from pybfv import native
from pybfv.errors import BackendUnavailableError, InternalError, UsageError

N, PRIMES, WIDE = 64, P133[:3], P133[3:]
ROWS = 12
KERNELS = ("ntt", "limb")


def opened(inject: str = "", *, dpus: int = 11, kernels: str = "ntt", **options: Any) -> native.Backend:
    """sim, in strict mode, with injections."""
    profile = "seed=5,timeout=300" + (f",inject={inject}" if inject else "") + options.pop("profile", "")
    return native.Backend(
        "sim", N, PRIMES, dpus=dpus, kernels=kernels, wide=WIDE, **{"strict": True, **options}, profile=profile
    )


def cpu() -> native.Backend:
    return native.Backend("cpu", N, PRIMES, wide=WIDE)


DATA = uniform(1, PRIMES, ROWS, 2, N)


def sums(backend: native.Backend, batches: int = 3) -> list[bytes]:
    """Accumulators of every kind, in batches whose memory is used again."""
    accs = {kind: backend.acc_new(kind, 2 if kind == "sum" else 3) for kind in ("sum", "product", "scaled")}
    rows = ROWS // batches
    buffer = native.empty((rows, *DATA.shape[1:]))
    for at in range(0, ROWS, rows):
        buffer[:] = DATA[at : at + rows]
        x = backend.put(buffer, borrow=True)
        backend.acc_add(accs["sum"], x, 0, 1, rows)
        for kind in ("product", "scaled"):
            backend.acc_mul(accs[kind], x, 0, x, 0, 1, rows)
            backend.acc_mul(accs[kind], x, 0, x, 1, 2, rows // 2)
        backend.drop(x)
        buffer[:] = 0
    return [backend.acc_save(acc).tobytes() for acc in accs.values()]


@pytest.fixture(scope="module")
def right() -> list[bytes]:
    with cpu() as backend:
        return sums(backend)


# ---- machines


@pytest.mark.parametrize(
    ("dpus", "profile"),
    [
        (20, "nrDpusPerCI=8"),
        (19, "nrDpusPerCI=8,disabledMask=0x5a"),
        (37, "nrDpusPerCI=4,nrCIs=4,disabledMask=0x8001"),
        (9, "nrDpusPerCI=8,disabledMask=0x7f"),
        (64, "nrDpusPerCI=1"),
    ],
)
def test_ranks_may_differ(dpus: int, profile: str) -> None:
    both(N, P133, 13, [6, 7], dpus, 11, strict=False, profile=profile)
    both(8, TOY, 9, [9], dpus, 16, strict=True, profile=profile, kernels="limb")


def test_exactly_as_many_dpus_as_asked_for_or_how_many_there_are() -> None:
    profile = "nrDpusPerCI=8,nrRanks=3,disabledMask=0x81"
    for dpus in (1, 21, 22):
        with native.Backend("sim", N, PRIMES, dpus=dpus, profile=profile) as backend:
            assert backend.info()["dpus"] == dpus
    with native.Backend("sim", N, PRIMES, profile=profile) as backend:
        assert backend.info()["dpus"] == 22
    with pytest.raises(UsageError) as refused:
        native.Backend("sim", N, PRIMES, dpus=23, profile=profile)
    assert "23 DPUs were asked for, this machine gives 22: give --dpus all or --dpus 22" in str(refused.value)


def test_a_busy_machine_is_told_as_such() -> None:
    for dpus in (0, 5):
        with pytest.raises(BackendUnavailableError, match=r"no DPU is free: .*try again later"):
            native.Backend("sim", N, PRIMES, dpus=dpus, profile="nrRanks=0")


@pytest.mark.parametrize(
    "text", ["", "fault", "fault:1", "fault:1@0", "fault:1@x", "crash:1@1", "wrong:1@1:0-8", "flip:1@1:8-8",
             "fault:1@1/", "fault:1@1x", "/".join(["fault:1@1"] * 9), "fault:4096@1"],
)  # fmt: skip
def test_injections_that_are_not_understood_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="inject="):
        native.Backend("sim", N, PRIMES, dpus=1, profile=f"inject={text}")


# ---- a DPU that errs


@pytest.mark.parametrize("check", ["linear", "full"])
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("inject", ["fault:3@2", "fault:3@2+", "hang:3@2", "wrong:3@3+", "fault:0@1", "fault:10@9+"])
def test_what_a_dpu_did_not_do_or_did_wrong_is_done_again(
    right: list[bytes], inject: str, kernels: str, check: str
) -> None:
    number = re.match(r"\w+:(\d+)", inject)
    assert number
    with opened(inject, kernels=kernels, check=check) as backend:
        assert sums(backend) == right
        info, stats = backend.info(), backend.stats()
    place = divmod(int(number[1]), 8)
    assert info["dpus"] == 10
    assert stats["left_out"] == 1
    if "wrong" not in inject or kernels == "ntt":
        assert stats["redone"] == 1
        assert f"rank {place[0]} DPU {place[1]} (number {number[1]} of 11)" in info["mended"]


@pytest.mark.parametrize("kernels", KERNELS)
def test_without_checks_a_fault_is_told_and_a_wrong_result_is_not(right: list[bytes], kernels: str) -> None:
    with opened("fault:3@2", kernels=kernels, check="none") as backend:
        with pytest.raises(InternalError, match=r"rank 0 DPU 3 \(number 3 of 11\) is in fault"):
            sums(backend)
        assert backend.stats()["redone"] == 0
    with opened("wrong:3@4", kernels=kernels, check="none") as backend:
        assert sums(backend) != right  # so the injection does something
        assert backend.stats()["check"] == 0


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("second", ["fault:5@2+", "wrong:5@1+"])
def test_the_second_failure_is_refused_naming_both(kernels: str, second: str) -> None:
    with opened(f"fault:3@1/{second}", kernels=kernels) as backend:
        with pytest.raises(InternalError) as refused:
            sums(backend)
        said = str(refused.value)
        assert re.search(r"rank 0 DPU 3 .*; and when that was computed again: rank 0 DPU 5 ", said), said
        for call in (
            lambda: backend.acc_new("sum", 2),
            lambda: backend.add(x := backend.put(DATA), x),
            backend.sync,
        ):
            with pytest.raises(InternalError, match="given up"):
                call()


def test_a_fault_in_each_of_several_ranks(right: list[bytes]) -> None:
    """The ranks that lack a DPU are launched DPU by DPU; failures far enough apart are mended one by one."""
    with opened("fault:9@2+/fault:2@2+/fault:17@2+", dpus=20) as backend:  # at once: one failure
        assert sums(backend) == right
        assert (backend.info()["dpus"], backend.stats()["redone"]) == (17, 1)


def test_failures_with_a_result_between_them_are_mended_each(
    right: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYBFV_JOURNAL_LIMIT", "0")  # each batch is checked before the next
    with opened("fault:3@2/fault:5@13") as backend:
        assert sums(backend) == right
        assert (backend.info()["dpus"], backend.stats()["redone"]) == (9, 2)


@pytest.mark.parametrize("kernels", KERNELS)
def test_the_only_dpu_is_tried_again(right: list[bytes], kernels: str) -> None:
    with opened("fault:0@2", dpus=1, kernels=kernels) as backend:
        assert sums(backend) == right
        assert (backend.info()["dpus"], backend.stats()["redone"], backend.stats()["left_out"]) == (1, 1, 0)
    with opened("fault:0@2+", dpus=1, kernels=kernels) as backend, pytest.raises(InternalError, match="computed again"):
        sums(backend)


def everything(backend: native.Backend) -> Iterator[bytes]:
    """Each operation of a backend once or twice."""
    yield from (x.tobytes() for x in arithmetic(backend, DATA[:3].copy(), DATA[3:6].copy()))
    x = backend.put(DATA)
    first, second = backend.acc_new("product", 3), backend.acc_new("product", 3)
    backend.acc_mul(first, x, 0, x, 1, 2, 6)
    backend.acc_mul(second, x, 3, x, 3, 1, 5)
    backend.acc_merge(first, second)
    backend.acc_load(second, backend.acc_save(first))
    backend.acc_mul(second, x, 1, x, 1, 1, 2)
    backend.acc_merge(second, first)
    yield backend.acc_save(second).tobytes()
    yield backend.get(backend.acc_finish(first, [2] * len(PRIMES))).tobytes()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("kind", ["fault", "wrong"])
def test_at_every_run_in_every_operation(kernels: str, kind: str) -> None:
    with cpu() as backend:
        want = list(everything(backend))
    mended = 0
    for launch in range(1, 60):
        with opened(f"{kind}:1@{launch}", dpus=3, kernels=kernels, strict=False) as backend:
            assert list(everything(backend)) == want, (kind, launch)
            redone = backend.stats()["redone"]
        mended += redone
        if kind == "fault" and not redone:
            break  # there are no more launches
    assert mended >= 10, mended


# ---- memory that flips


LAYOUT = {"prime": (64, 72), "accumulator": (320, 1088), "operands": (1088, 1088 + ROWS * 512)}
"""MRAM of DPU 1 of three, which has the plane of the second prime: five rows of tables, 3 and 2 parts of 4 units."""


def product(backend: native.Backend) -> bytes:
    """Three launches on one accumulator, of ciphertexts that stay on the DPUs."""
    x, acc = backend.put(DATA), backend.acc_new("product", 3)
    backend.acc_mul(acc, x, 0, x, 0, 1, ROWS)
    backend.acc_mul(acc, x, 0, x, 1, 1, ROWS - 1)
    backend.acc_mul(acc, x, 0, x, 0, 1, ROWS)
    return backend.acc_save(acc).tobytes()


def flips(make: Callable[[native.Backend], bytes], want: bytes, text: str, kernels: str) -> tuple[int, int]:
    """How many of 24 flips change the result, and how many of them are found."""
    changed = found = 0
    for seed in range(1, 25):
        options = {"dpus": 3, "strict": False, "kernels": kernels, "profile": f",seed={seed}"}
        with opened(text, check="none", **options) as backend:
            try:
                wrong = make(backend) != want
            except InternalError:  # a word that no computation gives
                wrong = True
        with opened(text, **options) as backend:
            assert make(backend) == want, (text, seed)
            found += wrong and backend.stats()["redone"] > 0
        changed += wrong
    return changed, found


@pytest.mark.parametrize("place", LAYOUT)
def test_flips_in_memory_are_found(place: str) -> None:
    with cpu() as backend:
        want = product(backend)
    low, high = LAYOUT[place]
    for launch in (1, 2):
        changed, found = flips(product, want, f"flip:1@{launch}:{low}-{high}", "ntt")
        assert found == changed
        assert changed >= {"prime": 4, "accumulator": 24, "operands": 16}[place], (place, changed)


def test_flips_are_found_in_limbs_too() -> None:
    with cpu() as backend:
        want = product(backend)
    changed, found = flips(product, want, "flip:1@2:0-24576", "limb")
    assert found == changed
    assert changed > 0


def test_the_same_seed_flips_the_same_bit() -> None:
    def run(seed: int) -> bytes:
        with opened("flip:1@3:320-321", dpus=3, check="none", profile=f",seed={seed}") as backend:
            return product(backend)

    assert run(7) == run(7)
    assert run(7) != run(8)


def test_transforms_are_checked() -> None:
    with cpu() as backend:
        want = backend.get(backend.convert(backend.put(DATA), "coefficient")).tobytes()
    found = 0
    for check in ("linear", "full"):
        for launch in range(1, 3):
            with opened(f"wrong:1@{launch}", dpus=3, check=check) as backend:
                x = backend.put(DATA)
                assert backend.get(backend.convert(x, "coefficient")).tobytes() == want
                assert (
                    backend.get(backend.convert(backend.convert(x, "coefficient"), "ntt")).tobytes() == DATA.tobytes()
                )
                found += "gave a wrong transform" in (backend.info()["mended"] or "")
    assert found == 4


def test_smallest_primes_and_rings() -> None:
    """Few points, and few residues: a wrong part is found all the same."""
    for n, primes in ((2, (5, 13)), (8, TOY)):
        a = uniform(3, primes, 6, 2, n)
        with native.Backend("cpu", n, primes) as backend:
            acc = backend.acc_new("sum", 2)
            backend.acc_add(acc, backend.put(a), 0, 1, 6)
            want = backend.acc_save(acc).tobytes()
        for seed in range(1, 9):
            profile = f"inject=wrong:0@1,seed={seed}"
            with native.Backend("sim", n, primes, dpus=2, strict=False, profile=profile) as backend:
                acc = backend.acc_new("sum", 2)
                backend.acc_add(acc, backend.put(a), 0, 1, 6)
                assert backend.acc_save(acc).tobytes() == want


# ---- through the command line

SET = ("--set", "insecure_n256_q133", "--insecure")


@pytest.fixture
def inbox(pybfv: Command, write: Callable[[str, str], str]) -> Command:
    """Two contributions to a mean and a variance, and the partial of cpu."""
    for k in (0, 1):
        write(f"{k}.csv", "x\n" + "".join(f"{(7 * i + k) % 5}\n" for i in range(40)))
    pybfv.ok("plan", "0.csv", "--stat", "variance:x", "--max-rows", 80, "--max-contributions", 2, *SET, "-o", "s.json")
    pybfv.ok("keygen", "s.json", "-o", "k")
    (pybfv.folder / "in").mkdir()
    for k in (0, 1):
        pybfv.ok("encrypt", "s.json", f"{k}.csv", "--key", "k/public.key", "-o", f"in/{k}.bfvc")
    pybfv.ok("compute", "in", "--partial", "-o", "cpu.bfvp")
    return pybfv


def test_compute_warns_of_what_it_mended_and_refuses_the_rest(inbox: Command) -> None:
    def env(inject: str) -> dict[str, str]:
        return {"PYBFV_SIM": "faithful", "UPMEM_PROFILE": inject and f"inject={inject}"}

    want = (inbox.folder / "cpu.bfvp").read_bytes()
    sim = ("compute", "in", "--partial", "--backend", "sim", "--dpus", 9, "-o", "x.bfvp", "--force")
    for inject in ("fault:8@2", "wrong:8@1+"):
        done = inbox(*sim, env=env(inject))
        assert done.returncode == 0, done.stderr
        assert (inbox.folder / "x.bfvp").read_bytes() == want
        assert b"warning: DPUs erred, and their work was done again (8 DPUs; 1 left out): rank 1 DPU 0 " in done.stderr
    done = inbox(*sim, env=env(""))
    assert (done.returncode, done.stderr) == (0, b"")
    # standard input can't be read again, and need not be
    data = (inbox.folder / "in" / "0.bfvc").read_bytes()
    inbox.ok("compute", "in/0.bfvc", "--partial", "-o", "one.bfvp")
    inbox.ok("compute", "-", "--partial", "--backend", "sim", "-o", "y.bfvp", stdin=data, env=env("fault:3@2"))
    assert (inbox.folder / "y.bfvp").read_bytes() == (inbox.folder / "one.bfvp").read_bytes()
    new = ("compute", "in", "--partial", "--backend", "sim", "--dpus", 9, "-o", "new.bfvp")
    line = inbox.refused(70, *new, env=env("fault:8@1/fault:2@2+"))
    assert "rank 1 DPU 0" in line
    assert "rank 0 DPU 2" in line
    assert "rank 1 DPU 0" in inbox.refused(70, *new, "--check", "none", env=env("fault:8@1"))
    machine = {"PYBFV_SIM": "faithful", "UPMEM_PROFILE": "nrRanks=1"}
    assert "9 DPUs were asked for, this machine gives 8" in inbox.refused(2, *new, env=machine)
    assert "no DPU is free" in inbox.refused(69, *new, env=machine | {"UPMEM_PROFILE": "nrRanks=0"})
    said = inbox(*sim[:5], "--dpus", "all", "-o", "x.bfvp", "--force", "--timings", "--check", "full", env=machine)
    assert b"8 DPUs, 16 tasklets" in said.stderr
    assert "--check" in inbox.refused(2, "compute", "in", "--check", "full", "--partial", "-o", "new.bfvp")
