"""From file to file: start-up, memory and speed of `pybfv encrypt`, and of computing on a folder of contributions."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from unittest.mock import patch

from pybfv import flow
from pybfv.bench.measure import Row, check, wall
from pybfv.client import csvio
from pybfv.client.csvrecords import Table
from pybfv.io.key import PublicKey
from pybfv.study import Study

ROWS = 1_000_000
MORE = (50_000, 50_001, 50_002)
"""Rows of the big table, and of the smaller contributions that share the folder with it."""

COLUMNS = "abcd"
BOUNDS = {"a": "0.00:99.99", "b": "0:120", "c": "-500.0:500.0", "d": "0:65535"}
UNITS = (100, 1, 10, 1)
MEMORY_MB = 300
COPIES = 8
"""Contributions of the big table in the folder that is read as a whole: about 2 GB, which stay in the page cache."""

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
    """Rows without counterpart: start-up, peak memory, rows a second, MB a second."""
    with tempfile.TemporaryDirectory(prefix="pybfv-bench-") as name:
        return _measure(Path(name))


def _measure(folder: Path) -> list[Row]:
    tables = [folder / f"{k}.csv" for k in range(1 + len(MORE))]
    sums = [write_table(path, rows, k) for k, (path, rows) in enumerate(zip(tables, (ROWS, *MORE), strict=True))]
    planned = flow.plan(
        str(tables[0]),
        [f"variance:{','.join(COLUMNS)}"],
        bounds=[f"{name}={ends}" for name, ends in BOUNDS.items()],
        max_rows=COPIES * ROWS + sum(MORE),
        max_contributions=COPIES + len(MORE),
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
    result = folder / "result.bfvr"
    _, compute_memory = run_measured("compute", str(inputs), "--key", key, "--threads", "1", "-o", str(result))
    document = flow.decrypt(str(result), secret)
    exact = [Fraction(found["exact"]) for found in document["results"]]
    check(exact == variances(sums, ROWS + sum(MORE)), "the variances of the folder")
    decrypt_seconds = wall(3, lambda: flow.decrypt(str(result), secret))
    help_seconds = median(run_measured("--help")[0] for _ in range(5))
    inspect_seconds = median(run_measured("inspect", str(result))[0] for _ in range(5))
    at, files = planned.study.ps.name, f"{len(outputs)} files"
    return [
        Row("pybfv --help, whole command", "ms", help_seconds * 1e3, below=150),
        Row("pybfv inspect, whole command", "ms", inspect_seconds * 1e3, below=300),
        Row(f"peak memory of pybfv encrypt, {ROWS} rows x 4 columns, {at}", "MB", memory, below=MEMORY_MB),
        Row(f"pybfv encrypt, {ROWS} rows x 4 columns, whole command", "rows/s", ROWS / seconds),
        *_rates(planned.study, str(tables[0]), public, str(folder / "rate.bfvc")),
        Row(f"peak memory of pybfv compute, {files}", "MB", compute_memory),
        *_folder(planned.study, str(tables[0]), public, inputs, str(result)),
        Row("decrypt the result: 4 variances, 9 totals", "ms", decrypt_seconds * 1e3),
    ]


def _rates(study: Study, table: str, public: PublicKey, output: str) -> list[Row]:
    """Encryption without start-up, with each reader of tables."""

    def rate() -> float:
        return ROWS / wall(3, lambda: flow.encrypt(study, table, public, output, force=True))

    with patch.object(csvio, "open_table", Table):
        rows = [Row(f"encrypt {ROWS} rows x 4 columns, csv module", "rows/s", rate(), at_least=500_000)]
    if find_spec("pyarrow"):
        flow.encrypt(study, table, public, output, force=True)  # loads it
        rows.append(Row(f"encrypt {ROWS} rows x 4 columns, pyarrow", "rows/s", rate(), at_least=2_000_000))
    return rows


def _folder(study: Study, table: str, public: PublicKey, inputs: Path, result: str) -> list[Row]:
    """Computing on a folder, on all cores, beside reading it: both from the page cache."""
    for k in range(1, COPIES):
        flow.encrypt(study, table, public, str(inputs / f"copy{k}.bfvc"))
    paths = sorted(inputs.iterdir())
    size = sum(path.stat().st_size for path in paths)
    buffer = memoryview(bytearray(1 << 20))

    def read() -> None:
        for path in paths:
            with open(path, "rb", buffering=0) as stream:
                while stream.readinto(buffer):
                    pass

    shares, speeds = [], []
    for _ in range(4):
        reading = wall(1, read)
        spent = wall(1, lambda: flow.compute([str(inputs)], result, key=public, force=True))
        shares.append(reading / spent)
        speeds.append(size / spent / 1e6)
    what = f"compute on a folder of {size / 1e9:.1f} GB"
    return [
        Row(f"{what}, all cores", "MB/s", median(speeds[1:])),
        Row(f"{what}: share of the speed of reading it", "", median(shares[1:]), at_least=0.7),
    ]
