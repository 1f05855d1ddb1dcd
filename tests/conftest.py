"""Shared fixtures. Property tests draw the same examples in every run, so that CI is repeatable."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from pybfv import native

settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parent.parent
NOTE = re.compile(
    r"pybfv: (warning: |planned: |all column names of |\* means the numeric columns |no statistic uses "
    r"|this study (uses|reveals) |no statistic takes products: |the study publishes "
    r"|\d+ of \d+ rows have missing values )"
)
"""What stderr may say beside a refusal."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes seconds; make check leaves it out")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test that fails names the seeds of the strict simulators that it opened: UPMEM_PROFILE=seed=N repeats one."""
    opened, seeds = native.Backend.__init__, []

    def opening(self: native.Backend, *args: Any, **kwargs: Any) -> None:
        opened(self, *args, **kwargs)
        seed = self.info()["seed"]
        seeds.extend(() if seed is None else (str(seed),))

    native.Backend.__init__ = opening  # type: ignore[method-assign]
    try:
        return (yield)
    except BaseException:  # pytest.fail among them
        if seeds:
            item.add_report_section("call", "simulator seeds", ", ".join(seeds))
        raise
    finally:
        native.Backend.__init__ = opened  # type: ignore[method-assign]


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root reads and writes everything: act as nobody meanwhile. The test is skipped where root can't."""
    root = os.geteuid() == 0
    if root:
        try:
            os.seteuid(65534)
        except OSError as e:
            pytest.skip(f"root can't give up its rights here ({e.strerror}), and would be refused nothing")
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


class Command:
    """Runs pybfv as a user does; checks what every refusal must look like."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *args: object, stdin: bytes | str | None = None, env: dict[str, str] | None = None):
        data = stdin.encode() if isinstance(stdin, str) else stdin
        return subprocess.run(
            [sys.executable, "-m", "pybfv", *map(str, args)],
            cwd=self.folder,
            input=data if data is not None else b"",
            capture_output=True,
            env={**os.environ, **(env or {})},
            timeout=120,
        )

    def ok(self, *args: object, **kwargs) -> str:
        done = self(*args, **kwargs)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def refused(self, code: int, *args: object, **kwargs) -> str:
        """Exit ``code``, nothing on stdout, no file new, gone or changed, one line that says why; the line.

        Notes and warnings may come before it; they say so, and it does not.
        """
        before = self._files()
        done = self(*args, **kwargs)
        error = done.stderr.decode()
        assert done.returncode == code, (done.returncode, error)
        assert done.stdout == b""
        assert "Traceback" not in error
        assert self._files() == before
        lines = error.splitlines()
        assert lines, "a refusal says why"
        assert all(line.startswith("pybfv: ") for line in lines), error
        refusals = [line for line in lines if not NOTE.match(line)]
        assert refusals == lines[-1:], error
        return refusals[0]

    def _files(self) -> dict[Path, tuple[object, ...]]:
        """Every path's mode; of a file the time of its last change and its contents too.

        A folder's time is left out: an output that was begun and taken back changes it.
        """
        found: dict[Path, tuple[object, ...]] = {}
        for path in self.folder.rglob("*"):
            facts = path.lstat()
            found[path] = (facts.st_mode, facts.st_mtime_ns, path.read_bytes()) if path.is_file() else (facts.st_mode,)
        return found


@pytest.fixture
def pybfv(tmp_path: Path) -> Command:
    """The command line, run in a fresh folder."""
    return Command(tmp_path)


@pytest.fixture
def write(tmp_path: Path):
    """write(name, text or bytes) makes a file in the fresh folder and returns its name."""

    def make(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return make
