"""The functional simulator: its conformance programs (tests/sim), in every way it can be built."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SIM = ROOT / "host_c" / "sim"
PROGRAMS = ROOT / "tests" / "sim"
CC = os.environ.get("CC", "cc")
WARNINGS = ["-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-g"]
LINK = ["-shared", "-fPIC", f"-I{SIM / 'device'}", "-Wl,-Bsymbolic", "-Wl,-z,now", "-DNR_TASKLETS=24"]
BUILDS = {
    "plain": ["-O1"],
    "portable": ["-DDPUSIM_UCONTEXT"],  # without the assembly of fibre.c
    "tsan": ["-fsanitize=thread"],
    "asan": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
}

FAST = [
    "profiles",
    "sets",
    "load",
    "transfers",
    "queue",
    "asynchronous",
    "tasklets_faithful",
    "tasklets_threads",
    "synchronisation_faithful",
    "synchronisation_threads",
    "dma_faithful",
    "memory_faithful",
    "faults_faithful",
    "parallel",
    "texts",
    "time_out",
    "fork",
    "truncated",
    "callbacks",
    "gather",
    "from_memory",
    "chips",
    "drop_in",
    "machine",
    "injections",
    "records",
]
STRICT = [
    "tasklets_strict",
    "synchronisation_strict",
    "dma_strict",
    "memory_strict",
    "faults_strict",
    "too_few",
    "endless",
    "races",
    "seeds",
    "log",
]
PORTABLE = ["synchronisation_strict", "faults_strict", "tasklets_faithful", "too_few"]
SANITIZED = [
    "callbacks",
    "gather",
    "records",
    "load",
    "queue",
    "tasklets_strict",
    "synchronisation_strict",
    "too_few",
    "log",
    "dma_strict",
]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def conform(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """conform(build, program, case) runs one case of conform*.c with a DPU program."""
    folder = tmp_path_factory.mktemp("sim")
    jobs: list[subprocess.Popen[str]] = []

    def compile_all(*commands: list[str]) -> None:
        jobs.extend(subprocess.Popen(c, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for c in commands)
        while jobs:
            job = jobs.pop()
            output, _ = job.communicate()
            assert job.returncode == 0, output

    sources = sorted(str(p) for p in (*PROGRAMS.glob("conform*.c"), *SIM.glob("*.c")))
    commands = []
    for name, flags in BUILDS.items():
        host = [CC, *WARNINGS, f"-I{SIM / 'include'}", *sources, *flags, "-pthread", "-ldl"]
        kernel = [CC, *WARNINGS, "-O1", *LINK, *flags]
        commands.append([*host, "-o", str(folder / name)])
        commands.append([*kernel, str(PROGRAMS / "calls.c"), "-o", str(folder / f"calls.{name}.so")])
    kernel = [CC, *WARNINGS, "-O1", *LINK]
    strict = [*kernel, "-fsanitize-coverage=trace-pc", str(PROGRAMS / "calls.c")]
    compile_all(
        *commands,
        [*kernel, str(PROGRAMS / "quiet.c"), "-o", str(folder / "quiet.plain.so")],
        [*strict, "-o", str(folder / "calls.strict.so")],
    )

    def run(build: str, program: str, case: str) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("UPMEM_")}
        return subprocess.run(
            [folder / build, folder / program, case],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


def check(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stderr[-4000:]


@pytest.mark.parametrize("case", FAST)
def test_plain_program(conform: Run, case: str) -> None:
    check(conform("plain", "calls.plain.so", case))


@pytest.mark.parametrize("case", STRICT)
def test_program_that_counts_its_blocks(conform: Run, case: str) -> None:
    check(conform("plain", "calls.strict.so", case))


def test_program_without_log(conform: Run) -> None:
    check(conform("plain", "quiet.plain.so", "no_log"))


@pytest.mark.parametrize("case", PORTABLE)
def test_without_assembly(conform: Run, case: str) -> None:
    check(conform("portable", "calls.strict.so", case))


@pytest.mark.parametrize("case", SANITIZED)
@pytest.mark.parametrize("build", ["tsan", "asan"])
def test_clean_under_sanitizers(conform: Run, build: str, case: str) -> None:
    check(conform(build, f"calls.{build}.so", case))


def lines_of(pattern: str) -> set[int]:
    text = (PROGRAMS / "calls.c").read_text().splitlines()
    return {i for i, line in enumerate(text, 1) if re.search(pattern, line)}


@pytest.mark.parametrize(
    ("case", "pattern"),
    [
        ("race_count", r"mram_(read|write)\(.*heap\(0\).*buffer|mram_write\(buffer, heap\(0\)"),
        ("race_hand_over", "RACE:"),
    ],
)
def test_thread_sanitizer_names_the_racy_line(conform: Run, case: str, pattern: str) -> None:
    result = conform("tsan", "calls.tsan.so", case)
    assert result.returncode != 0
    assert "data race" in result.stderr
    named = {int(n) for n in re.findall(r"calls\.c:(\d+)", result.stderr)}
    assert named & lines_of(pattern), result.stderr[:4000]


def test_strict_report_names_the_barrier(conform: Run) -> None:
    # conform's own case checks the text; the line is checked here, where the source can be read
    result = conform("plain", "calls.strict.so", "too_few_text")
    assert result.returncode == 0, result.stderr
    (line,) = lines_of("/\\* BARRIER \\*/")
    assert f"calls.c:{line}: DPU 0 tasklet" in result.stdout
