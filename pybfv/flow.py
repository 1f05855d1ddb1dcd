"""The steps of the command line as functions: what scripts call, and what the command line only words.

    study = plan("data.csv", ["mean:bmi"]).study  # or columns in memory: plan({"bmi": values}, ["mean:bmi"])
    secret, public = keygen(study)
    encrypt(study, "data.csv", public, "data.bfvc")
    compute(["data.bfvc"], "result.bfvr", key=public)
    decrypt("result.bfvr", secret)["results"]

Every function raises an error of pybfv.errors rather than return a doubtful number.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, BinaryIO

from pybfv.client import csvio
from pybfv.client.arrays import SupportsArray
from pybfv.client.csvio import CsvOptions
from pybfv.client.csvsource import Source, as_source, source_name
from pybfv.client.decrypt import decrypt as decrypt_result
from pybfv.client.encrypt import check_key
from pybfv.client.encrypt import encrypt as encrypt_stream
from pybfv.client.keys import keygen as draw_keys
from pybfv.client.plan import make_study
from pybfv.client.propose import propose
from pybfv.errors import (
    InternalError,
    MissingInputError,
    OutputError,
    UsageError,
)
from pybfv.io.atomic import atomic_output
from pybfv.io.key import PublicKey, write_public
from pybfv.io.partial import Partial, read_partial, write_partial
from pybfv.io.result import Result, read_result, write_result
from pybfv.io.secret_key import SecretKey, write_secret
from pybfv.io.study import read_study
from pybfv.server.accumulate import accumulate, merge
from pybfv.server.engine import CPU, Engine
from pybfv.server.finish import COMBINED, finish, require_key
from pybfv.study import Study
from pybfv.workload import discover

Progress = Callable[[int], None]


Data = Source | Mapping[str, Any] | SupportsArray
"""A table: the path of a CSV file, or columns in memory.

In memory: a mapping {column name: values}; a data frame; a NumPy array, whose columns are c1, c2, ... (one
dimension is one column) or, if it is structured, its fields. Values: a list, tuple or array of integers or booleans
of any type, decimal text, decimal.Decimal, fractions.Fraction with a finite decimal. Floats are taken where they stand
for one decimal number (0.1 for one tenth) and refused otherwise. None, a masked value, "" and "NA" are missing.
"""

Report = Callable[[dict[str, Any]], None]
"""Takes what the backend says of itself, with its counts and times under "stats"."""


def _quiet(done: Any) -> None:
    pass


@dataclass(frozen=True)
class Planned:
    """A study, and what its maker should be told: lines for stderr."""

    study: Study
    notes: list[str] = field(default_factory=list)
    publishes: str | None = None
    """What the study tells about the data, where its maker gave no bounds."""


def plan(
    source: Data | Sequence[Data],
    statistics: Sequence[str] | str,
    *,
    bounds: Sequence[str] | str = (),
    max_rows: int | None = None,
    max_contributions: int | None = None,
    reveal: str = "totals",
    missing: str = "error",
    product: str | None = None,
    set_name: str | None = None,
    plain_moduli: Sequence[int] = (),
    insecure: bool = False,
    options: CsvOptions | None = None,
) -> Planned:
    """Plans a study for one or more tables: reads them for bounds and rows unless those are given.

    ``source``: a `Data`, or a list of them. ``bounds``: texts COL=LO:HI; the number of decimals of LO and HI
    is the column's scale. A table without rows serves when every column has bounds and ``max_rows`` is given.
    ``product``: "scale-free" or "scaled" restricts the choice; None leaves it to the planner.
    """
    found = propose(
        _several(source),
        [statistics] if isinstance(statistics, str) else list(statistics),
        bounds=[bounds] if isinstance(bounds, str) else list(bounds),
        max_rows=max_rows,
        max_contributions=max_contributions,
        reveal=reveal,
        missing=missing,
        product=product,
        options=options or CsvOptions(),
    )
    return Planned(
        make_study(found.job, set_name, tuple(plain_moduli), insecure=insecure), found.notes, found.publishes
    )


def _same_file(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> bool:
    with suppress(OSError, ValueError):  # what can't be looked at is refused where it is read
        return os.path.samefile(a, b)
    return False


def _several(source: Data | Sequence[Data]) -> list[Source]:
    if not isinstance(source, list | tuple):
        return [as_source(source)]
    if not source:
        raise UsageError("no data is given; name a CSV file, or give a mapping {column name: values}")
    for a, b in combinations([table for table in source if isinstance(table, str | os.PathLike)], 2):
        if _same_file(a, b):
            raise UsageError(f"{source_name(b)} is given twice: its rows would count twice; leave one out")
    return [as_source(table, name=f"arrays {i + 1}") for i, table in enumerate(source)]


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
def _whole_output(path: str, force: bool, inputs: Sequence[Any] = ()) -> Iterator[BinaryIO]:
    """atomic_output, and for "-" too nothing is written before everything has succeeded."""
    if path != "-":
        with atomic_output(path, force=force, inputs=inputs) as stream:
            yield stream
        return
    with tempfile.TemporaryFile() as spool:
        try:
            yield spool
            spool.seek(0)
        except OSError as e:
            raise OutputError(f"no room for a temporary copy of the output ({e.strerror}); see TMPDIR") from None
        with atomic_output(path) as stream:
            shutil.copyfileobj(spool, stream, 1 << 20)


def encrypt(
    study: Study,
    source: Data,
    key: PublicKey | SecretKey,
    output: str,
    *,
    options: CsvOptions | None = None,
    force: bool = False,
    progress: Progress = _quiet,
) -> tuple[int, int]:
    """Encrypts a table into a contribution file; returns (rows, dropped rows).

    An array with one dimension serves a study of one column, whatever its name.
    """
    check_key(study, key)
    source = as_source(source, _names(study))
    with _whole_output(output, force, [source]) as stream:
        return encrypt_stream(study, source, options or CsvOptions(), key, stream, progress)


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


def finish_partial(partial: Partial, key: PublicKey | None, info: dict[str, Any]) -> Result:
    """Finishes a partial on the CPU: factor, and under totals re-randomising and blinding."""
    study = Study(partial.study)
    backend = Engine(threads=1).open(study)
    try:
        return finish(partial, study, key, backend, info)
    finally:
        backend.close()


def compute(
    inputs: Sequence[str],
    output: str,
    *,
    key: PublicKey | None = None,
    engine: Engine = CPU,
    force: bool = False,
    progress: Progress = _quiet,
    report: Report = _quiet,
) -> Result:
    """Contributions to a result file."""
    sources = expand(inputs, ".bfvc")
    with _whole_output(output, force, sources) as stream:
        partial, info = accumulate(
            sources, engine.open, progress, lambda study, key_id: require_key(study, key_id, key)
        )
        result = finish_partial(partial, key, info)
        write_result(stream, result)
    report(info)
    return result


def compute_to_partial(
    inputs: Sequence[str],
    output: str,
    *,
    engine: Engine = CPU,
    force: bool = False,
    progress: Progress = _quiet,
    report: Report = _quiet,
) -> Partial:
    """Contributions to a partial file."""
    sources = expand(inputs, ".bfvc")
    with _whole_output(output, force, sources) as stream:
        partial, info = accumulate(sources, engine.open, progress)
        write_partial(stream, partial)
    report(info)
    return partial


def combine(inputs: Sequence[str], output: str, *, key: PublicKey | None = None, force: bool = False) -> Result:
    """Partials to a result file."""
    sources = expand(inputs, ".bfvp")
    with _whole_output(output, force, sources) as stream:
        partial = merge(sources, read_partial, Engine(threads=1).open)
        result = finish_partial(partial, key, COMBINED)
        write_result(stream, result)
    return result


def decrypt(source: str | Result, key: SecretKey, ddof: int = 1) -> dict[str, Any]:
    """The result document of a result file."""
    result = source if isinstance(source, Result) else read_result(source)
    return decrypt_result(result, key, ddof)


def _names(study: Study) -> list[str]:
    return sorted({c.name for c in study.columns[1:]})


def oracle(study: Study, sources: Sequence[Data], options: CsvOptions, ddof: int) -> list[dict[str, Any]]:
    """Every statistic recomputed in plaintext, from the rows, by each workload's definition."""
    names = _names(study)
    tables = [as_source(source, names) for source in sources]
    rows = [row for table in tables for row in csvio.records(table, options, names, study.missing)]
    return [w.plain(rows, ddof) for w in study.workloads]


def run(
    source: Data | Sequence[Data],
    statistics: Sequence[str] | str,
    *,
    engine: Engine = CPU,
    ddof: int = 1,
    verify: bool = False,
    options: CsvOptions | None = None,
    progress: Progress = _quiet,
    told: Callable[[str], None] = _quiet,
    report: Report = _quiet,
    **planning: Any,
) -> dict[str, Any]:
    """All steps in a temporary folder with throw-away keys; ``planning``: as for plan.

    Several tables are several contributions. With ``verify`` every statistic is recomputed in plaintext;
    InternalError on any difference.
    """
    options = options or CsvOptions()
    sources = _several(source)
    if planning.get("max_contributions") is None:
        planning["max_contributions"] = len(sources)
    planned = plan(sources, statistics, options=options, **planning)
    for note in planned.notes:
        told(note)
    study = planned.study
    with tempfile.TemporaryDirectory(prefix="pybfv-") as folder:
        secret, public = keygen(study)
        done = 0
        for number, table in enumerate(sources):
            contribution = os.path.join(folder, f"{number:06}.bfvc")
            rows, _ = encrypt(
                study, table, public, contribution, options=options, progress=lambda n, done=done: progress(done + n)
            )
            done += rows
        document = decrypt(
            compute([folder], os.path.join(folder, "r"), key=public, engine=engine, report=report), secret, ddof
        )
        secret.wipe()
    if verify:
        _verify(study, document["results"], oracle(study, sources, options, ddof))
        document["verified"] = True
    return document


def _verify(study: Study, results: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    for workload, found, plain in zip(study.workloads, results, expected, strict=True):
        if found != plain:
            raise InternalError(
                f"verification failed for {workload.label}: from ciphertexts {found.get('exact', found)}, in "
                f"plaintext {plain.get('exact', plain)}; report it to who wrote workloads/{workload.name}.py"
            )


def workload_help() -> list[tuple[str, str]]:
    """(syntax, example) of every statistic."""
    return [(w.syntax, w.example) for w in discover().values()]


__all__ = [
    "Engine",
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
