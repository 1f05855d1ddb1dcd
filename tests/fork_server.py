"""Commands as forks of one process that has their imports: killed, limited, or with a standard output that fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SERVER = """
import json, os, resource, signal, sys, time
from pybfv import cli, flow
import pybfv.client.decrypt, pybfv.client.csvio, pybfv.server.accumulate, pybfv.io.secret_key, pybfv.io.inspect

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored

def limit(limits):
    for name, value in limits.items():
        if name == "RLIMIT_AS":  # beside what is mapped already
            value += int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(getattr(resource, name), (value, value))

def run(args, out, err, where, limits):
    code = 99
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(err, 2)
        if where == "closed":
            os.close(1)
        elif where == "broken":
            ends = os.pipe()
            os.close(ends[0])
            os.dup2(ends[1], 1)
        else:
            os.dup2(os.open(where, os.O_WRONLY) if where else out, 1)
        try:
            sys.stdin = open(0)
            sys.stdout, sys.stderr = None if where == "closed" else open(1, "w"), open(2, "w")
            limit(limits)
            code = cli.main(args)
        except SystemExit as end:
            code = end.code
        except Exception as error:
            os.write(2, f"escaped: {type(error).__name__}: {error}".encode())
        except KeyboardInterrupt:  # it came before the command began, or after it ended
            code = 130
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(code)

for line in sys.stdin:
    args, delay, number, where, limits = json.loads(line)
    outs, errs = os.pipe(), os.pipe()  # a limit on the size of files is none on pipes
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        run(args, outs[1], errs[1], where, limits)
    os.close(outs[1])
    os.close(errs[1])
    if number:
        time.sleep(delay)
        os.kill(child, number)
    with open(outs[0], "rb") as out, open(errs[0], "rb") as err:
        texts = [err.read().decode(), len(out.read())]
    status = os.waitpid(child, 0)[1]
    print(json.dumps([os.waitstatus_to_exitcode(status), *texts, time.monotonic() - begun]), flush=True)
"""


class Server:
    """Runs commands in ``folder``; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip

    def __call__(
        self, args: list[str], delay: float = 0, number: int = 0, stdout: str = "", limits: dict[str, int] | None = None
    ) -> tuple[int, str, float]:
        """(exit code, stderr, seconds); ``number`` is a signal sent after ``delay`` seconds.

        ``stdout``: a file to write to, "closed", "broken" (a pipe without a reader), or nowhere. ``limits``: by their
        names in `resource`; RLIMIT_AS counts from what is mapped when the command begins.
        """
        return self.whole(args, delay, number, stdout, limits)[:3]

    def whole(
        self, args: list[str], delay: float = 0, number: int = 0, stdout: str = "", limits: dict[str, int] | None = None
    ) -> tuple[int, str, float, int]:
        """As a call, and how many bytes came on standard output."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order: list[Any] = [args, delay, int(number), stdout, limits or {}]
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        code, said, size, seconds = json.loads(self._process.stdout.readline())
        return code, said, seconds, size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()
