"""The seed of the simulator's strict mode: it is told, it can be set, and it repeats what a race did."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pybfv import native

ROOT = Path(__file__).resolve().parent.parent
TOY = (17, 97, 113)  # = 1 mod 16: N = 8

# ntt_reduce.c without its barriers: what comes out depends on the schedule, and a run ends in a fault where the first
# sum, of 48 ones, is odd.
RACY = """
#include "stream.h"
#define kernel_sync() ((void)0)
#define stream_write(from, offset, bytes) ((from)[0] % 2 == 1 ? halt() : stream_write(from, offset, bytes))
#include "ntt_reduce.c"
"""
# For each argument, a seed or "": the seed that the backend names, and a sum or what it said instead.
SUM = """
import os, sys
import numpy as np
from pybfv import native, errors

x = np.ones((48, 2, 1, 8), dtype=np.uint32)
for seed in sys.argv[1:]:
    os.environ["UPMEM_PROFILE"] = seed and f"seed={seed}"
    with native.Backend("sim", 8, (67043329,), dpus=1, tasklets=8, strict=True, check="none") as backend:
        total = backend.acc_new("sum", 2)
        try:
            backend.acc_add(total, backend.put(x), 0, 1, len(x))
            found = backend.acc_save(total).tolist()
        except errors.PybfvError as e:
            found = e
        print(backend.info()["seed"], found)
"""
RUNS = 40


def test_the_seed_is_told_and_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def seed(**options: Any) -> Any:
        with native.Backend("sim", 8, TOY, dpus=1, **options) as backend:
            return backend.info()["seed"]

    monkeypatch.delenv("UPMEM_PROFILE", raising=False)
    monkeypatch.delenv("UPMEM_PROFILE_BASE", raising=False)
    assert seed(strict=True) != seed(strict=True)
    assert seed(strict=False) is None
    assert seed(strict=True, profile="seed=7") == 7
    monkeypatch.setenv("UPMEM_PROFILE", "seed=8")
    assert seed(strict=True) == 8
    drawn = {seed(strict=True, profile="seed=0") for _ in range(3)}  # 0 stands for none: one is drawn, and told
    assert len(drawn) > 1
    assert not drawn & {None, 0, 8}
    with native.Backend("cpu", 8, TOY) as backend:
        assert backend.info()["seed"] is None


def racy(folder: Path, seeds: list[str]) -> list[tuple[str, str]]:
    """What SUM prints with RACY among the DPUs' sources, in a copy of the package."""
    output = folder / "pybfv" / "native" / "dpu" / "bfv_ntt.strict.so"
    if not output.exists():
        shutil.copytree(ROOT / "pybfv", folder / "pybfv", ignore=shutil.ignore_patterns("__pycache__"))
        output.unlink()
        (folder / "racy.c").write_text(RACY)
        kernels = ROOT / "dpu" / "kernels"
        sources = [p for p in (kernels / "main.c", *kernels.glob("ntt_*.c")) if p.name != "ntt_reduce.c"]
        flags = ["-std=c11", "-O1", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-Wl,-z,now", "-fsanitize-coverage=trace-pc"]
        flags += ["-DNR_TASKLETS=24", "-DBFV_FAMILY_NTT"]
        flags += [f"-I{ROOT / path}" for path in ("host_c/sim/device", "dpu/core", "dpu/kernels")]
        command = [os.environ.get("CC", "cc"), *flags, "-o", output, *sources, folder / "racy.c"]
        subprocess.run(command, check=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("UPMEM_")} | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", SUM, *seeds], env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    return [(seed, found) for seed, _, found in lines]


def test_the_seed_that_a_racy_run_names_repeats_it(tmp_path: Path) -> None:
    first = racy(tmp_path, [""] * RUNS)
    said = [(seed, found) for seed, found in first if not found.startswith("[[")]
    assert said, "some run must end in an error"
    assert len({found for _, found in first if found.startswith("[[")}) > 1, "schedules must differ in what they give"
    assert all(f"(seed {seed})" in found for seed, found in said)
    assert racy(tmp_path, [seed for seed, _ in first]) == first
