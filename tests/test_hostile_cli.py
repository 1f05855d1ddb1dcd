"""Hostile files through the command line: the right exit code, one line, no output, in little time and memory.

Most commands run as forks of one process that has its imports, so that 200 take seconds; it is limited to 1 GB of
address space, as they are. Some are started as a user starts them.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from io_tools import SAMPLES, put_together, take_apart

GOLDEN = SAMPLES.parent / "golden" / "slots"
LIMIT = 1 << 30
"""Bytes of address space of every command."""
SECONDS = 2
"""Processor time of every command."""
SERVER = (
    f"LIMIT = {LIMIT}"
    + """
import json, os, resource, sys, tempfile
resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
from pybfv import cli, flow
import pybfv.client.decrypt, pybfv.server.accumulate, pybfv.io.inspect
for line in sys.stdin:
    args, source = json.loads(line)
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(source or os.devnull, os.O_RDONLY), 0)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.stdin = open(0)
        sys.stdout, sys.stderr = open(1, "w"), open(2, "w")
        code = cli.main(args)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    _, status, used = os.wait4(child, 0)
    texts = [os.pread(stream.fileno(), 1 << 16, 0).decode() for stream in (out, err)]
    print(json.dumps([os.waitstatus_to_exitcode(status), *texts, used.ru_utime + used.ru_stime]), flush=True)
"""
)


def count_lies(data: bytes) -> list[bytes]:
    kind, records = take_apart(data)
    lies = []
    for place in range(4):
        for count in (0, 1 << 31, 1 << 63, (1 << 64) - 1):
            counts = bytearray(records[-1][1])
            counts[8 * place : 8 * place + 8] = count.to_bytes(8, "little")
            if bytes(counts) != records[-1][1]:
                lies.append(put_together(kind, [*records[:-1], (b"END ", bytes(counts))]))
    return lies


def damaged(name: str) -> list[bytes]:
    """Files that were this one: all to be refused with 65."""
    data = (GOLDEN / name).read_bytes()
    size = len(data)
    chance = random.Random(name)
    bad = [data[:cut] for cut in (0, 1, 8, 15, 16, 20, size // 2, size - 48, size - 1)]
    bad += [b"\x89PNG\r\n\x1a\n" + bytes(100), chance.randbytes(3000), bytes(size), data + data, data + b"\n"]
    if name.endswith(".json"):
        return [*bad, data.replace(b'"n":16', b'"n":32'), data.replace(b'"missing"', b'"absent"')]
    head = 16 + 12 + int.from_bytes(data[20:28], "little")
    for _ in range(5):
        at = chance.randrange(8, head)
        bad.append(data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :])
    lies = count_lies(data)
    if name.endswith(".bfvc"):
        lies = lies[:8] + lies[12:]  # how many rows were dropped is the contributor's word
    return bad + lies


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    for path in GOLDEN.iterdir():
        shutil.copy(path, folder / path.name)
    (folder / "secret.key").chmod(0o600)
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "random").symlink_to("/dev/urandom")
    return folder


def commands(name: str, path: str) -> list[list[str]]:
    """What reads such a file, with the file at ``path`` in its place."""
    out = ["-o", "made"]
    inspect = ["inspect", path]
    by_name = {
        "study.json": [inspect, ["keygen", path, *out], ["encrypt", path, "0.csv", "--key", "public.key", *out]],
        "public.key": [inspect, ["encrypt", "study.json", "0.csv", "--key", path, *out]],
        "secret.key": [["decrypt", "result.bfvr", "--key", path]],
        "0.bfvc": [inspect, ["compute", path, "--partial", *out], ["compute", "1.bfvc", path, *out]],
        "partial.bfvp": [inspect, ["combine", path, *out]],
        "result.bfvr": [inspect, ["decrypt", path, "--key", "secret.key"]],
    }
    return by_name[name]


NAMES = ["study.json", "public.key", "secret.key", "0.bfvc", "partial.bfvp", "result.bfvr"]
THINGS = {"fifo": 65, "folder": 66, "loop": 66, "random": 65, "nowhere": 66}


def cases(folder: Path) -> list[tuple[list[str], str, int]]:
    """(arguments, file on standard input, exit code) of every case; the files are written."""
    found = []
    for name in NAMES:
        for k, data in enumerate(damaged(name)):
            path = f"bad-{k}-{name}"
            (folder / path).write_bytes(data)
            (folder / path).chmod(0o600)
            choices = commands(name, path)
            found.append((choices[k % len(choices)], "", 65))
            if k % 3 == 0:
                choices = commands(name, "-")
                found.append((choices[-1], path, 65))
        for thing, code in THINGS.items():
            if (name, thing) != ("0.bfvc", "folder"):  # of contributions a folder may be named; it is empty
                found.append((commands(name, thing)[-1], "", code))
    for name in NAMES:
        for other in NAMES:
            # the owner of slots may encrypt with the secret key
            if other != name and (name, other) != ("public.key", "secret.key"):
                refused_key = other == "secret.key" and name != "study.json"
                refused_key = refused_key or (name, other) == ("secret.key", "public.key")
                found.append((commands(name, other)[-1], "", 77 if refused_key else 65))
    return found


def check(args: list[str], code: int, expected: int, out: str, err: str, seconds: float) -> None:
    lines = [line for line in err.splitlines() if "INSECURE" not in line and "reveals every slot" not in line]
    assert code == expected, (args, code, err)
    assert out == "", (args, out)
    assert len(lines) == 1, (args, err)
    assert lines[0].startswith("pybfv: "), (args, err)
    assert "internal error" not in err, (args, err)
    assert seconds < SECONDS, (args, seconds)


@pytest.mark.parametrize("share", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_hundreds_of_hostile_files(share, job):
    every = cases(job)
    assert len(every) >= 200
    before = sorted(os.listdir(job))
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], cwd=job, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    with server:
        for args, source, expected in every[::share]:
            server.stdin.write(json.dumps([args, source]).encode() + b"\n")
            server.stdin.flush()
            code, out, err, seconds = json.loads(server.stdout.readline())
            check(args, code, expected, out, err, seconds)
        server.stdin.close()
    assert sorted(os.listdir(job)) == before


def start(job: Path, args: list[str]) -> tuple[int, str, str, float]:
    """As a user starts a command, under a limit of 1 GB."""
    line = f'ulimit -v {LIMIT // 1024}; exec "$0" -m pybfv "$@"'
    process = subprocess.Popen(
        ["bash", "-c", line, sys.executable, *args], cwd=job, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    out, err = process.stdout.read(), process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    return process.returncode, out.decode(), err.decode(), used.ru_utime + used.ru_stime


@pytest.mark.slow
def test_some_as_a_user_starts_them(job):
    every = [case for case in cases(job) if not case[1]]
    for args, _, expected in every[:: len(every) // 20]:
        code, out, err, seconds = start(job, args)
        check(args, code, expected, out, err, seconds)


def test_the_job_itself_fits_into_the_limit(job):
    code, out, err, seconds = start(job, ["decrypt", "result.bfvr", "--key", "secret.key"])
    assert (code, "263.92" in out) == (0, True), err
    assert seconds < SECONDS
    for args in (
        ["compute", "0.bfvc", "1.bfvc", "--partial", "-o", "made"],
        ["combine", "partial.bfvp", "-o", "made2"],
    ):
        assert start(job, args)[0] == 0
        os.unlink(job / args[-1])
