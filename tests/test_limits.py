"""Full disks, outputs that fail, little memory, few open files: one line, the right exit code, nothing lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fork_server import Server
from io_tools import put_together, take_apart

from pybfv import flow
from pybfv.io.canonical import canonical_bytes, parse_canonical
from pybfv.io.partial import read_partial
from pybfv.study import Study

MANY = 5000
COMMANDS = {
    "plan": ["plan", "data.csv", "--stat", "variance:x", "--insecure", "--set", "insecure_n64_q214"],
    "encrypt": ["encrypt", "study.json", "data.csv", "--key", "keys/public.key"],
    "compute": ["compute", "0.bfvc", "--key", "keys/public.key"],
    "partial": ["compute", "0.bfvc", "--partial"],
    "combine": ["combine", "0.bfvp", "--key", "keys/public.key"],
    "decrypt": ["decrypt", "result", "--key", "keys/secret.key"],
    "run": ["run", "data.csv", "--stat", "mean:x", "--insecure", "--set", "insecure_n64_q214"],
    "keygen": ["keygen", "study.json"],
}
SHOWN = ("plan", "decrypt", "run")
"""Commands that print text without -o."""
NOTES = ("INSECURE", "reveals", "the study publishes", "planned: ", "gives", "one row a file")


def each(*quick: str, but: str = "") -> pytest.MarkDecorator:
    """Every command; all but the quick ones are slow tests."""
    return pytest.mark.parametrize(
        "command", [pytest.param(c, marks=[] if c in quick else pytest.mark.slow) for c in COMMANDS if c != but]
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("limits")
    table = {"x": [(7 * k) % 11 for k in range(40)]}
    study = flow.plan(
        table, "variance:x", max_contributions=1, set_name="insecure_n64_q214", insecure=True, bounds="x=0:10"
    ).study
    secret, public = flow.keygen(study)
    flow.write_study(study, str(folder / "study.json"))
    flow.write_keys(secret, public, str(folder / "keys"))
    (folder / "data.csv").write_text("x\n" + "".join(f"{x}\n" for x in table["x"]))
    flow.encrypt(study, table, public, str(folder / "0.bfvc"))
    flow.compute_to_partial(str(folder / "0.bfvc"), str(folder / "0.bfvp"))
    flow.compute(str(folder / "0.bfvc"), str(folder / "result"), key=public)
    with Server(folder) as made:
        yield made


def refused(server: Server, code: int, args: list[str], **how) -> str:
    """The one line with which a command is refused; nothing is left of it."""
    before = {path: path.stat().st_mtime_ns for path in server.folder.rglob("*") if path.is_file()}
    names = set(server.folder.rglob("*"))
    found, said, _ = server(args, **how)
    lines = [line for line in said.splitlines() if not any(note in line for note in NOTES)]
    assert found == code, (args, how, found, said)
    assert len(lines) == 1, (args, how, said)
    assert lines[0].startswith("pybfv: "), said
    assert "internal error" not in said, said
    assert set(server.folder.rglob("*")) == names, (args, how)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    return lines[0]


def succeeds(server: Server, args: list[str], out: Path) -> None:
    code, said, _ = server([*args, "-o", str(out)])
    assert code == 0, said
    subprocess.run(["rm", "-r", str(out)], check=True)


@each(*COMMANDS)
def test_no_room_for_the_output(command: str, server: Server) -> None:
    """By a limit on the size of files, to nothing and to a part of the output."""
    args = [*COMMANDS[command], "-o", "out"]
    for size in (0, 50):
        line = refused(server, 73, args, limits={"RLIMIT_FSIZE": size})
        assert "can't be written: File too large" in line or "no temporary file" in line, line
    succeeds(server, COMMANDS[command], server.folder / "out")


@each("compute", "keygen")
def test_a_full_disk(command: str, server: Server) -> None:
    """A file system of 64 KB, full; then it has room again. A replaced output stays until the new one is whole."""
    disk = server.folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        disk.rmdir()
        pytest.skip(f"a file system of a given size can't be mounted here: {mounted.stderr.strip()}")
    try:
        (disk / "old").write_bytes(b"old")
        with (disk / "filler").open("wb", buffering=0) as stream:
            stream.write(bytes(1 << 20))  # as much as there is room for
        args = COMMANDS[command]
        outputs = ["disk/out"] if command == "keygen" else ["disk/out", "disk/old"]
        for output in outputs:
            force = ["--force"] if output == "disk/old" else []
            line = refused(server, 73, [*args, "-o", output, *force])
            assert "No space left on device" in line, line
        (disk / "filler").unlink()
        succeeds(server, args, disk / "out")
        assert sorted(os.listdir(disk)) == ["old"]
        assert (disk / "old").read_bytes() == b"old"
    finally:
        subprocess.run(["umount", str(disk)], check=True)
        disk.rmdir()


@each("encrypt", "decrypt", but="keygen")
def test_standard_output_that_fails(command: str, server: Server) -> None:
    args = COMMANDS[command]
    for piped in [[*args, "-o", "-"], *([args, [*args, "--json"]] if command in SHOWN else [])]:
        line = refused(server, 73, piped, stdout="/dev/full")
        assert line == "pybfv: standard output can't be written: No space left on device"
        line = refused(server, 73, piped, stdout="closed")
        assert line == "pybfv: standard output can't be written: Bad file descriptor"
        code, said, _ = server(piped, stdout="broken")
        assert code not in (0, 70), (code, said)
        assert all(any(note in line for note in NOTES) for line in said.splitlines()), said


def test_standard_output_of_what_only_shows(server: Server) -> None:
    for args in (["inspect", "result"], ["inspect", "result", "--json"], ["doctor"], ["--version"], ["--help"]):
        refused(server, 73, args, stdout="/dev/full")
        refused(server, 73, args, stdout="closed")


def test_a_closed_standard_output_is_no_concern_of_files(server: Server) -> None:
    for command, args in COMMANDS.items():
        code, said, _ = server([*args, "-o", "out"], stdout="closed")
        assert code == 0, (command, said)
        subprocess.run(["rm", "-r", str(server.folder / "out")], check=True)


@each("compute")
def test_little_memory(command: str, server: Server) -> None:
    """Whatever more it may map, a command succeeds or says in one line that memory is short."""
    args, short = COMMANDS[command], 0
    for kib in (512, 1024, 2048, 4096, 8192, 16384, 65536, 1 << 20):
        how = {"limits": {"RLIMIT_AS": kib << 10}}
        code, said, _ = server([*args, "-o", "out"], **how)
        out = server.folder / "out"
        if code == 0:
            subprocess.run(["rm", "-r", str(out)], check=True)
            continue
        short += 1
        line = refused(server, 70, [*args, "-o", "out"], **how)
        assert "memory" in line, line
        assert kib < 1 << 20, said
    assert short or command != "compute", "the limits are small enough to be met"


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """5,000 contributions of one row, copies under different ids."""
    folder = tmp_path_factory.mktemp("crowd")
    study = flow.plan(
        {"x": [3]}, "sum:x", bounds="x=0:5", max_rows=MANY, max_contributions=MANY, set_name="insecure_n16_q53",
        insecure=True,
    ).study  # fmt: skip
    flow.encrypt(study, {"x": [3]}, flow.keygen(study)[1], str(folder / "one"))
    kind, records = take_apart((folder / "one").read_bytes())
    (folder / "inbox").mkdir()
    head = parse_canonical(records[0][1], "one")
    for k in range(MANY):
        named = canonical_bytes({**head, "contribution_id": f"{k + 1:032x}"})
        (folder / "inbox" / f"{k:04}.bfvc").write_bytes(put_together(kind, [(records[0][0], named), *records[1:]]))
    with Server(folder) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("most", [64, 4096])
def test_five_thousand_files_under_a_limit_on_open_ones(most: int, crowd: Server) -> None:
    out = crowd.folder / f"out{most}"
    code, said, _ = crowd(["compute", "inbox", "--partial", "-o", out.name], limits={"RLIMIT_NOFILE": most})
    assert code == 0, said
    found = read_partial(out)
    assert (found.contributions, found.rows) == (MANY, MANY)
    one = take_apart((crowd.folder / "one").read_bytes())[1][2][1]
    primes, study = np.array(found.params.primes, dtype=object)[:, None], Study(found.study)
    block = np.frombuffer(one, "<u4").reshape(study.per_block, 2, len(primes), -1).astype(object)
    for name, key, modulus, _ in study.names():
        assert (found.accumulators[name] == block[study.index(key[0], modulus)] * MANY % primes).all()


def test_no_file_can_be_opened(server: Server) -> None:
    for command, args in COMMANDS.items():
        for most in (3, 4):
            code, said, _ = server([*args, "-o", "out"], limits={"RLIMIT_NOFILE": most})
            if code == 0:
                subprocess.run(["rm", "-r", str(server.folder / "out")], check=True)
                continue
            lines = [line for line in said.splitlines() if not any(note in line for note in NOTES)]
            assert code in (66, 69, 70, 73), (command, most, code, said)
            assert len(lines) == 1, (command, most, said)
            assert "open files" in lines[0], (command, most, said)
            assert not (server.folder / "out").exists()
