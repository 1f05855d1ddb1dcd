"""From file to file: memory and speed of `pybfv encrypt`, and of computing on a folder of contributions."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

from pybfv import flow
from pybfv.bench.measure import Row, check, wall

ROWS = 600_000
MORE = (50_000, 50_001, 50_002)
"""Rows of the big table, and of the smaller contributions that share the folder with it."""

COLUMNS = "abcd"
BOUNDS = {"a": "0.00:99.99", "b": "0:120", "c": "-500.0:500.0", "d": "0:65535"}
UNITS = (100, 1, 10, 1)
MEMORY_MB = 300

# A process of its own starts the command: a child's peak counts from its parent's size at the fork.
_CHILD = """
import json, os, sys, time
start = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), time.perf_counter() - start, usage.ru_maxrss]))
"""


def run_measured(*arguments: str) -> tuple[float, float]:
    """Runs a pybfv command; returns (seconds, peak memory in MB of 10^6 bytes)."""
    command = [sys.executable, "-c", _CHILD, sys.executable, "-m", "pybfv", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    code, seconds, kilobytes = json.loads(done.stdout.splitlines()[-1])
    if code != 0:
        raise SystemExit(f"bench: pybfv {arguments[0]} failed with exit code {code}")
    return seconds, kilobytes * 1024 / 1e6


Sums = list[tuple[int, int]]


def write_table(path: Path, rows: int, seed: int) -> Sums:
    """A CSV of four columns; returns each one's sum and sum of squares, in units of its last decimal."""
    rng = random.Random(seed)
    table = []
    with open(path, "w", encoding="ascii") as out:
        out.write(",".join(COLUMNS) + "\n")
        for _ in range(rows):
            a, b, c, d = (rng.randrange(x) for x in (10000, 121, 10001, 65536))
            out.write(f"{a // 100}.{a % 100:02},{b},{(c - 5000) / 10},{d}\n")
            table.append((a, b, c - 5000, d))
    return [(sum(column), sum(x * x for x in column)) for column in zip(*table, strict=True)]


def variances(sums: list[Sums], n: int) -> list[Fraction]:
    """The sample variances over all tables, from the definition."""
    found = []
    for unit, column in zip(UNITS, zip(*sums, strict=True), strict=True):
        s, ss = (sum(x) for x in zip(*column, strict=True))
        found.append(Fraction(n * ss - s * s, n * (n - 1)) / unit**2)
    return found


def measure() -> list[Row]:
    """Rows without counterpart: peak memory, rows a second, MB a second."""
    with tempfile.TemporaryDirectory(prefix="pybfv-bench-") as name:
        return _measure(Path(name))


def _measure(folder: Path) -> list[Row]:
    tables = [folder / f"{k}.csv" for k in range(1 + len(MORE))]
    sums = [write_table(path, rows, k) for k, (path, rows) in enumerate(zip(tables, (ROWS, *MORE), strict=True))]
    planned = flow.plan(
        str(tables[0]),
        [f"variance:{','.join(COLUMNS)}"],
        bounds=[f"{name}={ends}" for name, ends in BOUNDS.items()],
        max_rows=ROWS + sum(MORE),
        max_contributions=len(tables),
        product="scale-free",
    )
    study = folder / "study.json"
    study.write_bytes(planned.study.doc.raw)
    secret, public = flow.keygen(planned.study)
    flow.write_keys(secret, public, str(folder / "keys"))
    key, inputs = str(folder / "keys" / "public.key"), folder / "in"
    inputs.mkdir()
    outputs = [str(inputs / f"{path.stem}.bfvc") for path in tables]
    measured = [
        run_measured("encrypt", str(study), str(path), "--key", key, "-o", output)
        for path, output in zip(tables, outputs, strict=True)
    ]
    seconds, memory = measured[0]
    size = sum(os.path.getsize(path) for path in outputs)
    result = folder / "result.bfvr"
    _, compute_memory = run_measured("compute", str(inputs), "--key", key, "--threads", "1", "-o", str(result))
    document = flow.decrypt(str(result), secret)
    exact = [Fraction(found["exact"]) for found in document["results"]]
    check(exact == variances(sums, ROWS + sum(MORE)), "the variances of the folder")
    compute_seconds = wall(
        3, lambda: flow.compute([str(inputs)], str(result), key=public, engine=flow.Engine(threads=1), force=True)
    )
    decrypt_seconds = wall(3, lambda: flow.decrypt(str(result), secret))
    at = planned.study.ps.name
    files = f"{len(outputs)} files"
    return [
        Row(f"peak memory of pybfv encrypt, {ROWS} rows x 4 columns, {at}", "MB", memory, below=MEMORY_MB),
        Row(f"pybfv encrypt, {ROWS} rows x 4 columns, whole command", "rows/s", ROWS / seconds),
        Row(f"peak memory of pybfv compute, {files}", "MB", compute_memory),
        Row(f"contributions to result, {files}, {size / 1e6:.0f} MB", "MB/s", size / compute_seconds / 1e6),
        Row("decrypt the result: 4 variances, 9 totals", "ms", decrypt_seconds * 1e3),
    ]
