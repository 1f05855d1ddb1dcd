"""The command line in a few seconds, on toy parameters: what make check sees of it. The rest: test_cli.py."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import Command

TOY = ("--set", "insecure_n64_q106", "--insecure")


def test_the_whole_way(pybfv: Command, write) -> None:
    write("data.csv", "x,y\n1,2.5\n2,0.5\n3,-1.0\n4,7.5\n")
    pybfv.ok("plan", "data.csv", "--stat", "mean:x", "--stat", "variance:y", *TOY, "-o", "study.json")
    pybfv.ok("keygen", "study.json", "-o", "keys")
    pybfv.ok("encrypt", "study.json", "data.csv", "--key", "keys/public.key", "-o", "data.bfvc")
    pybfv.ok("compute", "data.bfvc", "--key", "keys/public.key", "-o", "r.bfvr")
    found = json.loads(pybfv.ok("decrypt", "r.bfvr", "--key", "keys/secret.key", "--json"))
    # y: squares 6.25 + 0.25 + 1 + 56.25 = 63.75, sum 9.5: (63.75 - 9.5^2 / 4) / 3 = 659/48
    assert [r["exact"] for r in found["results"]] == ["5/2", "659/48"]
    line = pybfv.refused(77, "compute", "data.bfvc", "--key", "keys/secret.key", "-o", "x.bfvr")
    assert "secret key" in line


def test_run_verifies_and_refuses(pybfv: Command, write) -> None:
    write("data.csv", "x,y\n1,2\n2,5\n3,4\n")
    found = json.loads(pybfv.ok("run", "data.csv", "--stat", "linreg:y~x", *TOY, "--verify", "--json"))
    assert found["verified"] is True
    assert found["results"][0]["exact"] == ["5/3", "1/1"]
    assert "z" in pybfv.refused(2, "run", "data.csv", "--stat", "mean:z", *TOY)
    pybfv.refused(66, "run", "no.csv", "--stat", "count")


def test_version_and_help(pybfv: Command) -> None:
    import pybfv as package

    assert pybfv.ok("--version").strip() == f"pybfv {package.__version__}"
    for command in ("plan", "keygen", "encrypt", "compute", "combine", "decrypt", "run", "inspect"):
        text = pybfv.ok(command, "--help")
        assert "Example" in text
        assert "Exit codes" in text


def test_refused_notices_what_is_no_refusal(tmp_path: Path) -> None:
    """The helper of every negative test can fail."""
    (tmp_path / "old.txt").write_text("old")
    note, line = "pybfv: warning: careful\n", "pybfv: x.csv is empty; give data\n"

    class Fake(Command):
        def __call__(self, *args: object, **kwargs: object) -> subprocess.CompletedProcess:
            action, code, out, error = args
            if action is not None:
                action()
            return subprocess.CompletedProcess([], code, out, error.encode())

    def nothing() -> None:
        (tmp_path / "begun").write_text("")
        (tmp_path / "begun").unlink()

    fake = Fake(tmp_path)
    assert fake.refused(65, nothing, 65, b"", note + note + line) == line.rstrip()
    for wrong in (
        (None, 66, b"", line),
        (None, 65, b"text", line),
        (None, 65, b"", ""),
        (None, 65, b"", note),
        (None, 65, b"", line + line),
        (None, 65, b"", line + note),
        (None, 65, b"", line + "more\n"),
        (lambda: (tmp_path / "new.txt").write_text(""), 65, b"", line),
        (lambda: (tmp_path / "old.txt").write_text("new"), 65, b"", line),
        (lambda: (tmp_path / "old.txt").write_text("new"), 65, b"", line),  # the same again: only its time differs
        (lambda: (tmp_path / "old.txt").chmod(0o600), 65, b"", line),
        (lambda: (tmp_path / "old.txt").unlink(), 65, b"", line),
    ):
        with pytest.raises(AssertionError):
            fake.refused(65, *wrong)
