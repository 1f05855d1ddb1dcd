"""Processes that are killed, at random moments and at every line that publishes a file: what is under a final name is
complete and valid, nothing else is left, and the next run succeeds (issue age#57 and its kind)."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from fork_server import Server

from pybfv import flow
from pybfv.io.key import read_public
from pybfv.io.partial import read_partial
from pybfv.io.result import read_result
from pybfv.io.secret_key import read_secret

ROWS = 40
SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A job of a tiny ring: contributions in inbox/, a partial, a result and its text."""
    folder = tmp_path_factory.mktemp("kill")
    table = {"x": [(7 * k) % 11 for k in range(ROWS)]}
    study = flow.plan(
        table, "variance:x", max_rows=1000, max_contributions=20, set_name="insecure_n64_q214", insecure=True
    ).study
    secret, public = flow.keygen(study)
    flow.write_study(study, str(folder / "study.json"))
    flow.write_keys(secret, public, str(folder / "keys"))
    (folder / "data.csv").write_text("x\n" + "".join(f"{x}\n" for x in table["x"]))
    (folder / "inbox").mkdir()
    for k in range(12):
        flow.encrypt(study, table, public, str(folder / "inbox" / f"{k}.bfvc"))
    flow.compute_to_partial(str(folder / "inbox"), str(folder / "partial"))
    flow.compute(str(folder / "inbox"), str(folder / "result"), key=public)
    with Server(folder) as made:
        assert made(["decrypt", "result", "--key", "keys/secret.key", "-o", "text"])[0] == 0
        yield made


def valid_contribution(folder: Path) -> None:
    partial, _ = flow.accumulate([str(folder / "out")], flow.opener(flow.CPU))
    assert (partial.rows, partial.contributions) == (ROWS, 1)


def valid_partial(folder: Path) -> None:
    assert (folder / "out").read_bytes() == (folder / "partial").read_bytes()


def valid_result(folder: Path) -> None:
    secret = read_secret(folder / "keys" / "secret.key")
    made, known = (flow.decrypt(read_result(folder / name), secret) for name in ("out", "result"))
    assert made["results"] == known["results"]


def valid_text(folder: Path) -> None:
    assert (folder / "out").read_bytes() == (folder / "text").read_bytes()


def valid_keys(folder: Path) -> None:
    """A pair, or a public key alone, of which the next run says what to do; never a secret key alone."""
    found = sorted(os.listdir(folder / "out"))
    if found:
        public = read_public(folder / "out" / "public.key")
        assert found in (["public.key", "secret.key"], ["public.key"])
        if "secret.key" in found:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # its mode
                assert read_secret(folder / "out" / "secret.key").key_id == public.key_id


COMMANDS = {
    "encrypt": (["encrypt", "study.json", "data.csv", "--key", "keys/public.key"], valid_contribution),
    "partial": (["compute", "inbox", "--partial"], valid_partial),
    "compute": (["compute", "inbox", "--key", "keys/public.key"], valid_result),
    "decrypt": (["decrypt", "result", "--key", "keys/secret.key"], valid_text),
    "keygen": (["keygen", "study.json"], valid_keys),
}


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def told(text: str, code: int) -> bool:
    """Only our own lines; no traceback, and no note of an exception that was lost on the way."""
    lines = [line for line in text.splitlines() if "INSECURE" not in line and "reveals" not in line]
    return all(line == "pybfv: interrupted" for line in lines) if code else True


@pytest.mark.parametrize("times", [9, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", COMMANDS)
def test_killed_at_random_moments(command: str, times: int, server: Server) -> None:
    args, valid = COMMANDS[command]
    args, out, before = [*args, "-o", "out"], server.folder / "out", set(os.listdir(server.folder))
    code, said, seconds = server(args)
    assert code == 0, said
    remove(out)
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    for k in range(times):
        number = list(SIGNALS)[k % 3]
        delay = chance.uniform(0, 1.1 * seconds)
        code, said, _ = server(args, delay, number)
        where = f"seed {seed}, kill {k}: {number.name} after {delay:.4f} s of {seconds:.4f}: exit {code}, {said!r}"
        assert code in (0, SIGNALS[number], -number), where
        assert told(said, code), where
        if out.exists():
            try:
                valid(server.folder)
            except Exception as error:
                pytest.fail(f"{where}: {error!r}")
        else:
            assert code, where
        assert set(os.listdir(server.folder)) - {"out"} == before, where
        if code == 0 or out.is_file() or k % 4 == 3:  # else the next run meets what this one left
            remove(out)
        elif out.is_dir() and os.listdir(out):
            assert server(args)[0] == 73, where
            remove(out)
    code, said, _ = server(args)
    assert code == 0, f"seed {seed}: {said}"
    valid(server.folder)
    remove(out)


@pytest.mark.parametrize("times", [6, pytest.param(20, marks=pytest.mark.slow)])
def test_compute_is_killed_and_resumed_until_it_is_done(times: int, server: Server) -> None:
    folder, seed = server.folder, random.SystemRandom().randrange(1 << 32)
    args = ["compute", "inbox", "--partial", "--checkpoint", "1e-9", "--resume", "-o", "out"]
    seconds = server(args)[2]
    remove(folder / "out")
    chance, kills, held, rounds = random.Random(seed), 0, [0], 0
    while kills < times:
        number = list(SIGNALS)[kills % 3]
        code, said, _ = server(args, chance.uniform(0, seconds), number)
        where = f"seed {seed}, kill {kills}, {number.name}: exit {code}, {said!r}"
        assert code in (0, SIGNALS[number], -number), where
        assert "Traceback" not in said, where
        if (folder / "out").exists():  # begin again
            valid_partial(folder)
            remove(folder / "out")
            remove(folder / "out.checkpoint")
            held, rounds = [0], rounds + 1
            assert rounds < 20 + times, f"{where}: it ends before it is killed"
        else:
            kills += 1
            held.append(read_partial(folder / "out.checkpoint").contributions if kept(folder) else 0)
            assert held == sorted(held), f"{where}: {held}"
    code, said, _ = server(args)
    assert code == 0, f"seed {seed}: {said}"
    valid_partial(folder)
    assert not kept(folder)
    remove(folder / "out")


def kept(folder: Path) -> bool:
    return (folder / "out.checkpoint").exists()


LINES = """
import json, linecache, os, shutil, signal, sys
from pybfv import flow
from pybfv.io import atomic
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
way, named, number = sys.argv[1], sys.argv[2] == "named", int(sys.argv[3])
if named:
    del os.O_TMPFILE
study = flow.load_study("../study.json")
secret, public = flow.keygen(study)

def write():
    if way == "keys":
        flow.write_keys(secret, public, "out")
    else:
        with atomic.atomic_output("out", force=way == "force") as stream:
            stream.write(b"new")

def trace(last):
    count = 0
    def line(frame, event, arg):
        nonlocal count
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event == "line" and text != "try:":  # signals are handled at calls and jumps, never there
            count += 1
            if count == last:
                sys.settrace(None)
                os.kill(os.getpid(), number)
        return line
    def call(frame, event, arg):
        name = frame.f_code.co_filename
        ours = name == atomic.__file__ or (name == flow.__file__ and frame.f_code.co_name == "write_keys")
        return line if ours else None
    return call

def child(last):
    code = 1
    try:
        try:
            sys.settrace(trace(last))
            write()
            code = 0
        except BaseException:
            pass  # which frees what it holds, as the end of a command does
    finally:
        sys.settrace(None)
        os._exit(code)

for last in range(1, 10000, int(sys.argv[4])):
    for name in os.listdir():
        shutil.rmtree(name) if os.path.isdir(name) else os.unlink(name)
    if way == "force":
        open("out", "wb").write(b"old")
    pid = os.fork()
    if pid == 0:
        child(last)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    found = {os.path.join(at, name): open(os.path.join(at, name), "rb").read().hex()
             for at, _, names in os.walk(".") for name in names}
    print(json.dumps([last, ended, found]))
    if ended == 0:
        break
"""


@pytest.mark.parametrize(
    ("named", "step"), [("nameless", 3), *(pytest.param(x, 1, marks=pytest.mark.slow) for x in ("nameless", "named"))]
)
@pytest.mark.parametrize("way", ["new", "force", "keys"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_killed_at_each_line_that_publishes(number: int, way: str, named: str, step: int, server: Server) -> None:
    """In files without a name, and in named ones, as where the file system has no others."""
    folder = server.folder / f"{number}{way}{named}"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", LINES, way, named, str(int(number)), str(step)],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    trials = [json.loads(line) for line in done.stdout.splitlines()]
    shutil.rmtree(folder)
    assert len(trials) > 40 / step, done.stderr
    assert trials[-1][1] == 0
    whole = trials[-1][2]
    pair = {"./out/public.key", "./out/secret.key"}
    states = set()
    for last, ended, found in trials:
        where = f"line {last}, exit {ended}: {sorted(found)}"
        parts = {name for name in found if name.rpartition("/")[2].startswith(".pybfv-")}
        if way == "keys":
            assert set(found) - parts in (set(), {"./out/public.key"}, pair), where
        else:
            assert set(found) - parts <= {"./out"}, where
            assert found.get("./out", "") in ("", whole["./out"], b"old".hex()), where
            assert way == "new" or "./out" in found, where
        for name in set(found) - parts:
            assert len(found[name]) in (len(whole[name]), len(b"old".hex()))
        if number == signal.SIGINT:
            assert "./out/public.key" not in found or "./out/secret.key" in found, where
        # a name of its own is left where no file is without one, and where one replaces another
        assert not parts or (number == signal.SIGKILL and (named == "named" or way == "force")), where
        states.add(frozenset(set(found) - parts))
    assert len(states) >= 2 - (way == "force")


def test_half_a_pair_is_refused_with_what_to_do(server: Server) -> None:
    folder = server.folder
    assert server(["keygen", "study.json", "-o", "half"])[0] == 0
    (folder / "half" / "secret.key").rename(folder / "half" / "vault")
    code, said, _ = server(["keygen", "study.json", "-o", "half"])
    assert code == 73
    assert said == (
        "pybfv: half/public.key exists without its secret.key (if an interrupted run left it, remove it and run "
        "again); keys are never overwritten: name another folder\n"
    )
    assert sorted(os.listdir(folder / "half")) == ["public.key", "vault"]
    (folder / "half" / "public.key").unlink()
    assert server(["keygen", "study.json", "-o", "half"])[0] == 0
    shutil.rmtree(folder / "half")


def test_keys_of_two_at_once(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who loses the race removes nothing of the other's."""
    study = flow.load_study(str(server.folder / "study.json"))
    first, second = flow.keygen(study), flow.keygen(study)
    real = flow.atomic_output

    def later(*args, **kwargs):
        monkeypatch.setattr(flow, "atomic_output", real)
        flow.write_keys(*second, str(tmp_path / "k"))
        return real(*args, **kwargs)

    monkeypatch.setattr(flow, "atomic_output", later)
    with pytest.raises(flow.OutputError, match="never overwritten"):
        flow.write_keys(*first, str(tmp_path / "k"))
    assert sorted(os.listdir(tmp_path / "k")) == ["public.key", "secret.key"]
    assert read_public(tmp_path / "k" / "public.key").key_id == second[1].key_id
    assert read_secret(tmp_path / "k" / "secret.key").key_id == second[1].key_id
