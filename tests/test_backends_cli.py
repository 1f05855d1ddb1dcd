"""Backends through the command line: case B29, doctor, and no backend replaced in silence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import Command

from pybfv import doctor

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parent.parent

SET = ("--set", "insecure_n256_q133", "--insecure")
FAST = {"PYBFV_SIM": "faithful"}


@pytest.fixture
def users(pybfv: Command, write) -> Command:
    """641 users in 3 files; a study of mean and variance under a small ring."""
    rows = [i % 5 for i in range(641)]
    for name, part in (("a", rows[:1]), ("b", rows[1:4]), ("c", rows[4:])):
        write(f"{name}.csv", "u\n" + "".join(f"{x}\n" for x in part))
    write("u.csv", "u\n" + "".join(f"{x}\n" for x in rows))
    pybfv.ok(
        "plan", "u.csv", "--stat", "mean:u", "--stat", "variance:u", "--max-contributions", 3, *SET, "-o", "s.json"
    )
    pybfv.ok("keygen", "s.json", "-o", "k")
    (pybfv.folder / "in").mkdir()
    for name in "abc":
        pybfv.ok("encrypt", "s.json", f"{name}.csv", "--key", "k/public.key", "-o", f"in/{name}.bfvc")
    pybfv.ok("compute", "in", "--partial", "-o", "cpu.bfvp")
    return pybfv


def partial(users: Command, *args: object) -> bytes:
    users.ok("compute", "in", "--partial", "-o", "x.bfvp", "--force", *args, env=FAST)
    return (users.folder / "x.bfvp").read_bytes()


def test_b29_every_valid_combination_gives_the_same_partial(users: Command) -> None:
    expected = (users.folder / "cpu.bfvp").read_bytes()
    for dpus, tasklets in ((1, 1), (3, 11), (63, 16), (65, 24), ("all", 7)):
        assert partial(users, "--backend", "sim", "--dpus", dpus, "--tasklets", tasklets) == expected
    assert partial(users, "--backend", "sim", "--kernels", "limb", "--dpus", 3, "--tasklets", 11) == expected
    assert partial(users, "--backend", "auto") == expected


def test_b29_numbers_and_names(users: Command) -> None:
    users.ok("compute", "in", "--key", "k/public.key", "--backend", "sim", "--dpus", 7, "--tasklets", 5, "-o", "r.bfvr")
    found = json.loads(users.ok("decrypt", "r.bfvr", "--key", "k/secret.key", "--json", "--ddof", "0"))
    assert found["backend"] == {"name": "sim", "kernels": "ntt", "threads": None, "dpus": 7, "tasklets": 5}
    mean, variance = found["results"]
    assert (mean["exact"], mean["n"]) == ("1280/641", 641)
    assert variance["exact"] == "823040/410881"
    assert str(variance["value"]).startswith("2.00311038")


@pytest.mark.parametrize("count", [1, 3, 7])
def test_b29_few_users(pybfv: Command, write, count: int) -> None:
    write("u.csv", "u\n" + "".join(f"{i % 5}\n" for i in range(count)))
    for kernels in ("ntt", "limb"):
        args = ("--stat", "mean:u", *SET, "--backend", "sim", "--kernels", kernels, "--verify", "--json")
        found = json.loads(pybfv.ok("run", "u.csv", *args, env=FAST))
        assert found["results"][0]["value"] == sum(i % 5 for i in range(count)) / count


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("--backend", "sim", "--dpus", 0), 2),
        (("--backend", "sim", "--dpus", 10000), 2),
        (("--backend", "sim", "--dpus", "-1"), 2),
        (("--backend", "sim", "--dpus", "1e3"), 2),
        (("--backend", "sim", "--tasklets", 0), 2),
        (("--backend", "sim", "--tasklets", 25), 2),
        (("--backend", "simulator"), 2),
        (("--backend", "sim", "--kernels", "fft"), 2),
        (("--backend", "cpu", "--dpus", 3), 2),
        (("--backend", "cpu", "--dpus", "all"), 2),
        (("--backend", "sim", "--threads", 4), 2),
        (("--backend", "cpu", "--kernels", "limb"), 69),
    ],
    ids=lambda x: " ".join(map(str, x)) if isinstance(x, tuple) else str(x),
)
def test_b29_out_of_range(users: Command, args: tuple[object, ...], code: int) -> None:
    users.refused(code, "compute", "in", "--partial", "-o", "x.bfvp", *args)


@pytest.fixture
def no_sdk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a pybfv that was built without the SDK, on machines that have it too."""
    copy = tmp_path_factory.mktemp("no_sdk")
    shutil.copytree(ROOT / "pybfv", copy / "pybfv", ignore=shutil.ignore_patterns("libpybfv_upmem.so", "__pycache__"))
    shutil.copytree(ROOT / "workloads", copy / "pybfv_workloads", ignore=shutil.ignore_patterns("__pycache__"))
    return {"PYTHONPATH": str(copy)}


def test_upmem_without_sdk_says_what_is_missing(users: Command, no_sdk: dict[str, str]) -> None:
    line = users.refused(69, "compute", "in", "--partial", "-o", "x.bfvp", "--backend", "upmem", env=no_sdk)
    for word in ("UPMEM", "SDK", "doctor"):
        assert word in line


def test_auto_says_what_it_took(users: Command, no_sdk: dict[str, str]) -> None:
    users.ok("compute", "in", "--key", "k/public.key", "--backend", "auto", "-o", "r.bfvr", env=no_sdk)
    assert json.loads(users.ok("inspect", "r.bfvr", "--json"))["backend"]["name"] == "cpu"


def test_timings_are_labelled(users: Command) -> None:
    done = users("compute", "in", "--partial", "-o", "x.bfvp", "--backend", "sim", "--timings", env=FAST)
    assert done.returncode == 0
    assert b"simulator wall time, not hardware" in done.stderr
    assert b"modelled for UPMEM hardware, not measured" in done.stderr
    assert done.stdout == b""


def test_doctor(pybfv: Command, no_sdk: dict[str, str]) -> None:
    found = json.loads(pybfv.ok("doctor", "--json", env=no_sdk))
    assert found["schema_version"] == 1
    assert found["backends"]["cpu"]["available"] is True
    assert found["backends"]["sim"]["available"] is True
    assert found["backends"]["upmem"]["available"] is False
    assert "SDK" in found["backends"]["upmem"]["why"]
    assert "portable" in found["cpu"]["bodies"]
    text = pybfv.ok("doctor")
    assert "backend sim" in text


def test_doctor_says_what_is_where_upmem_home_points(pybfv: Command, write) -> None:
    def said(home: str) -> str:
        lines = pybfv.ok("doctor", env={"UPMEM_HOME": home}).splitlines()
        return next(line.removeprefix("UPMEM SDK").strip() for line in lines if line.startswith("UPMEM SDK"))

    home = str(pybfv.folder)
    assert said("") == "not found: UPMEM_HOME is not set"
    assert said(home).startswith(f"not found: UPMEM_HOME={home} holds no SDK: no bin/")
    write("include/dpu/dpu.h", "")
    assert said(home) == f"incomplete: UPMEM_HOME={home} has no bin/dpu-upmem-dpurte-clang, no lib/libdpu.so"
    write("bin/dpu-upmem-dpurte-clang", "")
    write("lib/libdpu.so", "")
    assert said(home) == f"{home}: bin/dpu-upmem-dpurte-clang, include/dpu/dpu.h, lib/libdpu.so"


def test_doctor_counts_dpus() -> None:
    found = doctor.examine()
    found["backends"]["upmem"] = {"available": True, "why": None, "dpus": 2543, "tasklets": 16}
    assert dict(doctor.words(found))["backend upmem"] == "available, 2543 DPUs"
