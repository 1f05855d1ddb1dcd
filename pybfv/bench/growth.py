"""`pybfv bench growth`: how time and memory of encrypt and compute grow, and whether they grow as they should."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from pybfv import flow
from pybfv.bench.files import run_measured
from pybfv.bench.measure import check, machine
from pybfv.errors import UsageError
from pybfv.io.atomic import atomic_output
from pybfv.native import Encoder, Ring, empty
from pybfv.params import get_set
from pybfv.scheme import public
from pybfv.study import Study

TOLERANCE = 0.2
"""A series counts as linear when no point lies further from the line than this share of its own value."""

SETS = ("n1024_q26", "n2048_q53", "n4096_q109", "n8192_q214")


@dataclass(frozen=True, slots=True)
class Scale:
    """The sizes of each series, ascending."""

    name: str
    rows: tuple[int, ...]
    contributors: tuple[int, ...]
    columns: tuple[int, ...]
    each: int
    repeats: int


WHOLE = Scale("whole", (100_000, 200_000, 400_000, 800_000, 1_600_000), (4, 8, 16, 32, 64), (1, 2, 4, 8, 16), 50_000, 5)
QUICK = Scale("quick", (25_000, 50_000, 100_000, 200_000), (2, 4, 8, 16), (1, 2, 4, 8), 20_000, 3)


@dataclass(slots=True)
class Series:
    """Seconds (and peak memory, MB of 10^6 bytes, None where it isn't looked at) of a job against a size.

    ``linear``: whether seconds = fixed + per_unit x size fits; ``deviation``: by which share of itself a point lies off
    the line at most. ``expected``: how the seconds should grow; ``flat``: whether memory stays as it is.
    """

    job: str
    against: str
    expected: str
    sizes: list[int]
    seconds: list[float]
    memory_mb: list[float] | None = None
    fixed: float = 0.0
    per_unit: float = 0.0
    deviation: float = 0.0
    linear: bool = False
    flat: bool | None = field(default=None)

    def fitted(self) -> Series:
        """The same with its line: least squares of relative errors, so that small sizes count as well."""
        x, y = np.array(self.sizes, float), np.array(self.seconds)
        matrix = np.stack([np.ones(len(x)), x], axis=1) / y[:, None]
        (self.fixed, self.per_unit), *_ = (found.tolist() for found in np.linalg.lstsq(matrix, np.ones(len(x)))[:1])
        self.deviation = float(np.max(np.abs(self.fixed + self.per_unit * x - y) / y))
        self.linear = self.deviation <= TOLERANCE and self.per_unit > 0
        if self.memory_mb is not None:
            self.flat = max(self.memory_mb) <= 1.2 * min(self.memory_mb) + 20
        return self


def _spent(repeats: int, work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return median(times)


def _table(path: Path, rows: int, columns: int) -> list[int]:
    """A CSV of small whole numbers; the sums of its columns."""
    values = np.random.default_rng(rows + columns).integers(0, 1000, (rows, columns))
    names = ",".join(f"x{k}" for k in range(columns))
    np.savetxt(path, values, fmt="%d", delimiter=",", header=names, comments="")
    return [int(x) for x in values.sum(axis=0)]


class _Folder:
    """A study with keys in a temporary folder, and what the commands make there."""

    def __init__(self, root: Path, name: str, columns: int, rows: int, contributors: int) -> None:
        self.root = root / name
        self.inbox = self.root / "in"
        self.inbox.mkdir(parents=True)
        names = [f"x{k}" for k in range(columns)]
        table = {name: [0, 999] for name in names}
        self.study: Study = flow.plan(
            table, [f"variance:{','.join(names)}"], bounds=dict.fromkeys(names, (0, 999)), max_rows=rows,
            max_contributions=contributors, product="scale-free", set_name="n8192_q187",
        ).study  # fmt: skip
        self.secret, self.public = flow.keygen(self.study)
        flow.write_keys(self.secret, self.public, str(self.root))
        flow.write_study(self.study, str(self.root / "study.json"))
        self.key = str(self.root / "public.key")

    def encrypt(self, table: Path, name: str = "one.bfvc") -> None:
        flow.encrypt(self.study, str(table), self.public, str(self.inbox / name), force=True)

    def encrypt_memory(self, table: Path) -> float:
        """Peak memory of the command."""
        output = str(self.root / "out.bfvc")
        study = str(self.root / "study.json")
        return run_measured("encrypt", study, str(table), "--key", self.key, "-o", output, "--force")[1]

    def compute(self, files: Sequence[str], threads: int = 1) -> None:
        engine = flow.Engine(threads=threads)
        flow.compute(files, str(self.root / "r.bfvr"), key=self.public, engine=engine, force=True)

    def compute_memory(self, files: Sequence[str]) -> float:
        return run_measured("compute", *files, "--key", self.key, "-o", str(self.root / "r.bfvr"), "--force")[1]


def _rows(root: Path, scale: Scale) -> Series:
    folder = _Folder(root, "rows", 2, scale.rows[-1], 1)
    seconds, memory = [], []
    for rows in scale.rows:
        _table(table := root / f"r{rows}.csv", rows, 2)
        seconds.append(_spent(scale.repeats, lambda t=table: folder.encrypt(t)))
        memory.append(folder.encrypt_memory(table))
    return Series("encrypt, 2 columns", "rows", "linear", list(scale.rows), seconds, memory).fitted()


def _contributors(root: Path, scale: Scale) -> Series:
    most = scale.contributors[-1]
    folder = _Folder(root, "contributors", 2, most * scale.each, most)
    _table(table := root / "each.csv", scale.each, 2)
    files = []
    for k in range(most):
        folder.encrypt(table, f"{k:04}.bfvc")
        files.append(str(folder.inbox / f"{k:04}.bfvc"))
    seconds, memory = [], []
    for count in scale.contributors:
        seconds.append(_spent(scale.repeats, lambda c=count: folder.compute(files[:c])))
        memory.append(folder.compute_memory(files[:count]))
    document = flow.decrypt(str(folder.root / "r.bfvr"), folder.secret)
    check(document["rows"] == most * scale.each, "the count of all contributions")
    job = f"compute, contributions of {scale.each} rows"
    return Series(job, "contributors", "linear", list(scale.contributors), seconds, memory).fitted()


def _columns(root: Path, scale: Scale) -> Series:
    seconds, memory = [], []
    for columns in scale.columns:
        folder = _Folder(root, f"columns{columns}", columns, scale.each, 1)
        _table(table := root / f"c{columns}.csv", scale.each, columns)
        seconds.append(_spent(scale.repeats, lambda f=folder, t=table: f.encrypt(t)))
        memory.append(folder.encrypt_memory(table))
    return Series(f"encrypt, {scale.each} rows", "columns", "linear", list(scale.columns), seconds, memory).fitted()


def _degrees(scale: Scale) -> Series:
    """Encryption of 16 ciphertexts, a prime of q each, so that only N differs: N log N."""
    sizes, seconds = [], []
    for name in SETS:
        ps = get_set(name)
        ring = Ring(ps.n, ps.primes)
        encoder = Encoder.coefficients(ring, 65537)
        encryptor = public.BatchEncryptor(ring, np.zeros((2, len(ps.primes), ps.n), np.uint32))
        values, out = [np.arange(ps.n)] * 16, empty((16, 2, len(ps.primes), ps.n))
        encryptor.encrypt(encoder, values, out)
        spent = _spent(10 * scale.repeats, lambda e=encryptor, c=encoder, v=values, o=out: e.encrypt(c, v, o))
        sizes.append(ps.n)
        seconds.append(spent / len(ps.primes))
    return Series("encode and encrypt 16 ciphertexts, a prime of q", "N", "N log N", sizes, seconds).fitted()


def _threads(root: Path, scale: Scale) -> Series:
    folder = _Folder(root, "threads", 4, 2 * scale.each, 2)
    _table(table := root / "threads.csv", scale.each, 4)
    for name in ("a.bfvc", "b.bfvc"):
        folder.encrypt(table, name)
    files = [str(folder.inbox / name) for name in ("a.bfvc", "b.bfvc")]
    sizes = [count for count in (1, 2, 4, 8, 16) if count <= (os.cpu_count() or 1)]
    seconds = [_spent(scale.repeats, lambda c=c: folder.compute(files, c), time.perf_counter) for c in sizes]
    return Series("compute, wall clock", "threads", "falling", sizes, seconds)


def _series(root: Path, scale: Scale, told: Callable[[str], None]) -> Iterator[Series]:
    told("bench: rows ...")
    yield _rows(root, scale)
    told("bench: contributors ...")
    yield _contributors(root, scale)
    told("bench: columns ...")
    yield _columns(root, scale)
    told("bench: N and threads ...")
    yield _degrees(scale)
    yield _threads(root, scale)


def measure(scale: Scale, told: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """All series as a document."""
    with tempfile.TemporaryDirectory(prefix="pybfv-bench-") as name:
        series = list(_series(Path(name), scale, told))
    return {
        "schema_version": 1, "scale": scale.name, "machine": machine(), "tolerance": TOLERANCE,
        "series": [asdict(found) for found in series],
    }  # fmt: skip


def verdict(series: dict[str, Any]) -> str:
    """What the numbers say, in words."""
    said = []
    if series["expected"] != "falling":
        line = f"{1e6 * series['per_unit']:.3g} us each, {1e3 * series['fixed']:.3g} ms once"
        off = f"at most {100 * series['deviation']:.0f}% off the line"
        said.append(f"{'linear' if series['linear'] else 'NOT linear'} ({line}; {off}); expected: {series['expected']}")
    if series["flat"] is not None:
        memory = series["memory_mb"]
        said.append(f"memory {'flat' if series['flat'] else 'grows'} ({memory[0]:.0f} to {memory[-1]:.0f} MB)")
    return "; ".join(said)


def text(document: dict[str, Any]) -> str:
    """For a reader."""
    parts = [f"Times on: {document['machine']}; CPU seconds, medians, unless the job says wall clock."]
    for series in document["series"]:
        lines = [f"{series['job']}, against {series['against']}"]
        memory = series["memory_mb"] or [None] * len(series["sizes"])
        for size, seconds, peak in zip(series["sizes"], series["seconds"], memory, strict=True):
            lines.append(f"  {size:>10,}  {1e3 * seconds:>10,.2f} ms" + ("" if peak is None else f"  {peak:>6.0f} MB"))
        if said := verdict(series):
            lines.append(f"  {said}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def check_plot(path: str) -> str:
    """The kind of plot that a file's name asks for. UsageError without matplotlib or with another ending."""
    kind = Path(path).suffix.removeprefix(".")
    if kind not in ("svg", "png"):
        raise UsageError(f"--plot {path!r}: the name must end in .svg or .png")
    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: install the extra: pip install 'pybfv[plots]'")
    return kind


def draw(document: dict[str, Any], path: str, force: bool = False) -> None:
    """A plot of all series, as the name's ending says; `check_plot` first."""
    from matplotlib.figure import Figure

    kind = check_plot(path)
    shown = document["series"]
    figure = Figure(figsize=(4 * len(shown), 3.5), layout="constrained")
    for axes, series in zip(figure.subplots(1, len(shown)), shown, strict=True):
        axes.plot(series["sizes"], [1e3 * s for s in series["seconds"]], "o")
        if series["expected"] != "falling":
            ends = [series["sizes"][0], series["sizes"][-1]]
            axes.plot(ends, [1e3 * (series["fixed"] + series["per_unit"] * x) for x in ends], "-")
        axes.set(xlabel=series["against"], ylabel="ms", title=series["job"], ylim=(0, None))
    drawn = BytesIO()
    figure.savefig(drawn, format=kind)
    with atomic_output(path, force=force) as stream:
        stream.write(drawn.getvalue())
