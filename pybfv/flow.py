"""The steps of the command line as functions: what scripts call, and what the command line only words.

    study = plan("data.csv", ["mean:bmi"]).study
    secret, public = keygen(study)
    encrypt(study, "data.csv", public, "data.bfvc")
    compute(["data.bfvc"], "result.bfvr", key=public)
    decrypt("result.bfvr", secret)["results"]

Every function raises an error of pybfv.errors rather than return a doubtful number.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, BinaryIO

from pybfv import native
from pybfv.client import csvio
from pybfv.client.csvio import CsvOptions
from pybfv.client.csvsource import Source, source_name
from pybfv.client.decrypt import decrypt as decrypt_result
from pybfv.client.encrypt import check_key
from pybfv.client.encrypt import encrypt as encrypt_stream
from pybfv.client.keys import keygen as draw_keys
from pybfv.client.plan import Job, make_study
from pybfv.errors import (
    BackendUnavailableError,
    DataError,
    InternalError,
    MissingInputError,
    OutputError,
    PlanError,
    UsageError,
)
from pybfv.io.atomic import atomic_output
from pybfv.io.key import PublicKey, SecretKey, write_public, write_secret
from pybfv.io.partial import Partial, read_partial, write_partial
from pybfv.io.result import Result, read_result, write_result
from pybfv.io.study import read_study
from pybfv.server.accumulate import accumulate, merge
from pybfv.server.backend import Backend
from pybfv.server.finish import COMBINED, finish
from pybfv.study import Study
from pybfv.workload import (
    ColumnBounds,
    decimal_text,
    discover,
    parse_bounds,
    parse_specs,
    show_name,
)

BACKENDS = ("cpu",)
PLANNED_BACKENDS = ("sim", "upmem", "auto")
"""Names that later versions will know."""
Progress = Callable[[int], None]


def _quiet(done: int) -> None:
    pass


@dataclass(frozen=True)
class Planned:
    """A study, and what its maker should be told: lines for stderr."""

    study: Study
    notes: list[str] = field(default_factory=list)
    publishes: str | None = None
    """What the study tells about the data, where its maker gave no bounds."""


def plan(
    source: Source,
    statistics: Sequence[str],
    *,
    bounds: Sequence[str] = (),
    max_rows: int | None = None,
    max_contributions: int | None = None,
    reveal: str = "totals",
    missing: str = "error",
    set_name: str | None = None,
    plain_moduli: Sequence[int] = (),
    insecure: bool = False,
    options: CsvOptions | None = None,
) -> Planned:
    """Plans a study for a CSV: reads it for bounds and rows unless they are given.

    ``bounds``: texts COL=LO:HI; the number of decimals of LO and HI is the column's scale. A file with a
    header only serves when every column has bounds and ``max_rows`` is given.
    """
    options = options or CsvOptions()
    where = source_name(source)
    declared = _declared(bounds, options)
    names = csvio.read_header(source, options)
    for name in declared:
        if name not in names:
            raise UsageError(f"--bounds {show_name(name)}: no such column; the columns are {', '.join(names)}")
    starred = any("*" in re.sub(r'"[^"]*"', "", text) for text in statistics)
    numeric: list[str] = names
    if starred:
        table = csvio.scan(source, options, None, "drop")
        numeric = [n for n in names if n in declared or table.columns[n].numeric]
    workloads = parse_specs(statistics, names, numeric)
    used = sorted({c.name for w in workloads for c in w.columns()} - {""})
    facts = csvio.scan(source, options, used, missing)
    lacking = [name for name in used if name not in declared]
    if facts.rows == 0 and (lacking or max_rows is None):
        need = [f"--bounds {show_name(name)}=LO:HI" for name in lacking] + ["--max-rows N"] * (max_rows is None)
        raise DataError(f"{where} has no complete rows to plan from; give data, or {' and '.join(need)}")
    base = {name: declared[name] if name in declared else _observed(facts, name) for name in used}
    if facts.rows:
        for name in used:
            _check_observed(where, facts, name, base[name])
    notes, publishes = [], None
    if lacking:
        shown = ", ".join(f"{show_name(name)}={base[name].text}" for name in lacking)
        publishes = f"the study publishes the exact range of {where}: {shown} (give --bounds to publish your own)"
    unused = [show_name(name) for name in declared if name not in used]
    if unused:
        notes.append(f"no statistic uses {', '.join(unused)}: these --bounds have no effect")
    if facts.dropped:
        notes.append(f"{facts.dropped} of {facts.rows + facts.dropped} rows have missing values and are left out")
    rows = max_rows if max_rows is not None else facts.rows
    if rows < facts.rows:
        raise PlanError(f"--max-rows is {rows}, but {where} has {facts.rows} rows; give a larger one")
    job = Job(
        tuple(workloads),
        base,
        rows,
        rows if max_contributions is None else max_contributions,
        reveal,
        missing,
    )
    return Planned(make_study(job, set_name, tuple(plain_moduli), insecure=insecure), notes, publishes)


def _declared(texts: Sequence[str], options: CsvOptions) -> dict[str, ColumnBounds]:
    found: dict[str, ColumnBounds] = {}
    for text in texts:
        name, lo, hi = parse_bounds(text)
        if name in found:
            raise UsageError(f"--bounds {show_name(name)} is given twice; give it once")
        try:
            ends = [csvio.parse_number(end, options) for end in (lo, hi)]
        except ValueError:
            ends = []
        if len(ends) != 2 or None in ends:
            raise UsageError(f"--bounds {text!r}: LO and HI must be numbers, as in pay=0.00:250.00")
        scale = max(0, *(decimals for _, decimals in ends))
        low, high = (Fraction(m) / Fraction(10) ** d for m, d in ends)
        found[name] = ColumnBounds(low, high, scale)
    return found


def _observed(facts: csvio.TableFacts, name: str) -> ColumnBounds:
    column = facts.columns[name]
    return ColumnBounds(column.min, column.max, column.decimals)


def _check_observed(where: str, facts: csvio.TableFacts, name: str, bounds: ColumnBounds) -> None:
    """Refuses a plan whose own data it would not take."""
    column = facts.columns[name]
    if column.min < bounds.lo or column.max > bounds.hi:
        have = ":".join(decimal_text(int(x * 10**column.decimals), column.decimals) for x in (column.min, column.max))
        raise DataError(
            f"{where}: column {show_name(name)} ranges over {have}, outside its --bounds {bounds.text}; widen them"
        )
    if column.decimals > bounds.scale:
        raise DataError(
            f"{where}: column {show_name(name)} has values with {column.decimals} decimals, its --bounds have "
            f"{bounds.scale}; write the bounds with {column.decimals} decimals"
        )


def load_study(path: str) -> Study:
    """The study in a study.json, checked."""
    return Study(read_study(path))


def keygen(study: Study) -> tuple[SecretKey, PublicKey]:
    """A fresh key pair for a study. One key serves one study."""
    return draw_keys(study)


def write_keys(secret: SecretKey, public: PublicKey, folder: str) -> tuple[str, str]:
    """Writes secret.key (mode 0600 from creation) and public.key; never overwrites either."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as e:
        raise OutputError(f"{folder} can't be made: {e.strerror}; name another folder") from None
    paths = os.path.join(folder, "secret.key"), os.path.join(folder, "public.key")
    for path in paths:
        if os.path.lexists(path):
            raise OutputError(f"{path} exists; keys are never overwritten: name another folder")
    write_secret(paths[0], secret)
    try:
        with atomic_output(paths[1], hint="keys are never overwritten: name another folder") as stream:
            write_public(stream, public)
    except BaseException:
        os.unlink(paths[0])  # a secret key without its public half serves nobody
        raise
    return paths


@contextmanager
def _whole_output(path: str, force: bool) -> Iterator[BinaryIO]:
    """atomic_output, and for "-" too nothing is written before everything has succeeded."""
    if path != "-":
        with atomic_output(path, force=force) as stream:
            yield stream
        return
    with tempfile.TemporaryFile() as spool:
        yield spool
        spool.seek(0)
        with atomic_output(path) as stream:
            shutil.copyfileobj(spool, stream, 1 << 20)


def encrypt(
    study: Study,
    source: Source,
    key: PublicKey | SecretKey,
    output: str,
    *,
    options: CsvOptions | None = None,
    force: bool = False,
    progress: Progress = _quiet,
) -> tuple[int, int]:
    """Encrypts a CSV into a contribution file; returns (rows, dropped rows)."""
    check_key(study, key)
    with _whole_output(output, force) as stream:
        return encrypt_stream(study, source, options or CsvOptions(), key, stream, progress)


def open_backend(name: str, study: Study, threads: int = 0, kernels: str = "ntt") -> Backend:
    """Opens a backend for a study; never another one than asked for."""
    if name in PLANNED_BACKENDS:
        raise BackendUnavailableError(f"backend {name} is not in this version of pybfv; take --backend cpu")
    if name not in BACKENDS:
        raise UsageError(f"unknown backend {name!r}; known are {', '.join(BACKENDS)}")
    return native.Backend(name, study.ps.n, study.ps.primes, threads=threads, kernels=kernels)


def expand(inputs: Sequence[str], extension: str) -> list[str]:
    """Files, folders' files with the extension in name order, and "-" at most once."""
    found: list[str] = []
    for item in inputs:
        if item != "-" and os.path.isdir(item):
            try:
                inside = sorted(n for n in os.listdir(item) if n.endswith(extension) and not n.startswith("."))
            except OSError as e:
                raise MissingInputError(f"{item} can't be read: {e.strerror}") from None
            if not inside:
                raise MissingInputError(f"{item} holds no {extension} files; name the files or another folder")
            found += [os.path.join(item, n) for n in inside]
        else:
            found.append(item)
    if found.count("-") > 1:
        raise UsageError("standard input (-) can be read once only")
    if not found:
        raise UsageError(f"no input is given; name {extension} files or a folder that holds some")
    return found


def compute_partial(
    inputs: Sequence[str], *, backend: str = "cpu", threads: int = 0, progress: Progress = _quiet
) -> tuple[Partial, dict[str, Any]]:
    """Accumulates contributions; also what the backend says of itself."""
    sources = expand(inputs, ".bfvc")
    return accumulate(sources, lambda study: open_backend(backend, study, threads), progress)


def finish_partial(partial: Partial, key: PublicKey | None, info: dict[str, Any]) -> Result:
    """Finishes a partial on the CPU: factor, and under totals re-randomising and blinding."""
    study = Study(partial.study)
    backend = open_backend("cpu", study, 1)
    try:
        return finish(partial, study, key, backend, info)
    finally:
        backend.close()


def compute(
    inputs: Sequence[str],
    output: str,
    *,
    key: PublicKey | None = None,
    backend: str = "cpu",
    threads: int = 0,
    force: bool = False,
    progress: Progress = _quiet,
) -> Result:
    """Contributions to a result file."""
    with _whole_output(output, force) as stream:
        partial, info = compute_partial(inputs, backend=backend, threads=threads, progress=progress)
        result = finish_partial(partial, key, info)
        write_result(stream, result)
    return result


def compute_to_partial(
    inputs: Sequence[str],
    output: str,
    *,
    backend: str = "cpu",
    threads: int = 0,
    force: bool = False,
    progress: Progress = _quiet,
) -> Partial:
    """Contributions to a partial file."""
    with _whole_output(output, force) as stream:
        partial, _ = compute_partial(inputs, backend=backend, threads=threads, progress=progress)
        write_partial(stream, partial)
    return partial


def combine(inputs: Sequence[str], output: str, *, key: PublicKey | None = None, force: bool = False) -> Result:
    """Partials to a result file."""
    sources = expand(inputs, ".bfvp")
    with _whole_output(output, force) as stream:
        partial = merge(sources, read_partial, lambda study: open_backend("cpu", study, 1))
        result = finish_partial(partial, key, COMBINED)
        write_result(stream, result)
    return result


def decrypt(source: str | Result, key: SecretKey, ddof: int = 1) -> dict[str, Any]:
    """The result document of a result file."""
    result = source if isinstance(source, Result) else read_result(source)
    return decrypt_result(result, key, ddof)


def oracle(study: Study, source: Source, options: CsvOptions, ddof: int) -> list[dict[str, Any]]:
    """Every statistic recomputed in plaintext, from the rows, by each workload's definition."""
    names = sorted({c.name for c in study.columns[1:]})
    rows = list(csvio.records(source, options, names, study.missing))
    return [w.plain(rows, ddof) for w in study.workloads]


def run(
    source: Source,
    statistics: Sequence[str],
    *,
    backend: str = "cpu",
    threads: int = 0,
    ddof: int = 1,
    verify: bool = False,
    options: CsvOptions | None = None,
    progress: Progress = _quiet,
    told: Callable[[str], None] = lambda note: None,
    **planning: Any,
) -> dict[str, Any]:
    """All steps in a temporary folder with throw-away keys; ``planning``: as for plan.

    With ``verify`` every statistic is recomputed in plaintext; InternalError on any difference.
    """
    options = options or CsvOptions()
    if planning.get("max_contributions") is None:
        planning["max_contributions"] = 1
    planned = plan(source, statistics, options=options, **planning)
    for note in planned.notes:
        told(note)
    study = planned.study
    with tempfile.TemporaryDirectory(prefix="pybfv-") as folder:
        secret, public = keygen(study)
        contribution, output = os.path.join(folder, "data.bfvc"), os.path.join(folder, "result.bfvr")
        encrypt(study, source, public, contribution, options=options, progress=progress)
        compute([contribution], output, key=public, backend=backend, threads=threads)
        document = decrypt(output, secret, ddof)
    if verify:
        if document["results"] != oracle(study, source, options, ddof):
            raise InternalError("verification failed: encrypted and plaintext differ; report this as a defect")
        document["verified"] = True
    return document


def workload_help() -> list[tuple[str, str]]:
    """(syntax, example) of every statistic."""
    return [(w.syntax, w.example) for w in discover().values()]


__all__ = [
    "Planned",
    "combine",
    "compute",
    "compute_to_partial",
    "decrypt",
    "encrypt",
    "keygen",
    "load_study",
    "oracle",
    "plan",
    "run",
    "write_keys",
]
