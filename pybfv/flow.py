"""The steps of the command line as functions: what scripts call, and what the command line only words.

    study = plan("data.csv", ["mean:bmi"]).study  # or columns in memory: plan({"bmi": values}, ["mean:bmi"])
    secret, public = keygen(study)
    encrypt(study, "data.csv", public, "data.bfvc")
    compute(["data.bfvc"], "result.bfvr", key=public)
    decrypt("result.bfvr", secret)["results"]

Every function raises an error of pybfv.errors rather than return a doubtful number.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from itertools import combinations
from typing import Any, BinaryIO

from pybfv.arguments import bounds_texts, ddof_of, in_python, needed, texts, whole_number
from pybfv.client import csvio
from pybfv.client.arrays import Arrays, SupportsArray
from pybfv.client.csvio import CsvOptions
from pybfv.client.csvsource import Source, as_source, source_name
from pybfv.client.decrypt import decrypt as decrypt_result
from pybfv.client.encrypt import check_key
from pybfv.client.encrypt import encrypt as encrypt_stream
from pybfv.client.keys import keygen as draw_keys
from pybfv.client.plan import make_study
from pybfv.client.propose import propose
from pybfv.engine import CPU, Engine
from pybfv.errors import (
    DataError,
    InternalError,
    MissingInputError,
    OutputError,
    PybfvError,
    UsageError,
    in_a_line,
)
from pybfv.io import study as study_io
from pybfv.io.atomic import atomic_output, check_pair, pair_folder
from pybfv.io.key import PublicKey, write_public
from pybfv.io.partial import Partial, read_partial, write_partial
from pybfv.io.protect import Passphrase, passphrase_bytes
from pybfv.io.result import Result, read_result, write_result
from pybfv.io.secret_key import SecretKey, secret_output
from pybfv.io.sign import SigningKey, Trust
from pybfv.server.accumulate import accumulate, merge
from pybfv.server.backend import opener
from pybfv.server.checkpoint import SECONDS, Checkpoint
from pybfv.server.finish import COMBINED, finish, require_key
from pybfv.study import Study
from pybfv.workload import discover

Progress = Callable[[int], None]
Inputs = Sequence[str | os.PathLike[str]] | str | os.PathLike[str]


Data = Source | Mapping[str, Any] | SupportsArray
"""A table: the path of a CSV file, or columns in memory.

In memory: a mapping {column name: values}; a data frame; a NumPy array, whose columns are c1, c2, ... (one
dimension is one column) or, if it is structured, its fields. Values: a list, tuple or array of integers or booleans
of any type, decimal text, decimal.Decimal, fractions.Fraction with a finite decimal. Floats are taken for the
decimal that they print as (0.1 for one tenth) up to 15 significant digits, whole ones below 2^53, else refused.
None, a masked value, "", "NA", and in columns of pandas NaN, are missing.
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
    bounds: Mapping[str, Any] | Sequence[str] | str = (),
    max_rows: int | None = None,
    max_contributions: int | None = None,
    min_contributors: int = 1,
    reveal: str = "totals",
    missing: str = "error",
    product: str | None = None,
    set_name: str | None = None,
    plain_moduli: Sequence[int] | int = (),
    insecure: bool = False,
    options: CsvOptions | None = None,
) -> Planned:
    """Plans a study for one or more tables: reads them for bounds and rows unless those are given.

    ``source``: a `Data`, or a list of them. ``bounds``: texts COL=LO:HI, or {"COL": (LO, HI)} with integers, text or
    decimal.Decimal; the number of decimals of LO and HI is the column's scale. A table without rows serves when every
    column has bounds and ``max_rows`` is given.
    ``product``: "scale-free" or "scaled" restricts the choice; None leaves it to the planner.
    ``min_contributors``: no result of the study is made, or decrypted, over fewer contributions.
    """
    options = _options(options)
    moduli = plain_moduli if isinstance(plain_moduli, list | tuple) else [plain_moduli]
    moduli = tuple(whole_number(t, "plain_moduli") for t in moduli)
    files = None if max_contributions is None else whole_number(max_contributions, "max_contributions")
    sources = _several(source)
    with _arguments_named(sources) as named:
        found = propose(
            sources,
            texts(statistics, "statistics", '"mean:age"'),
            bounds=bounds_texts(bounds, options.decimal),
            max_rows=None if max_rows is None else whole_number(max_rows, "max_rows"),
            max_contributions=files,
            min_contributors=whole_number(min_contributors, "min_contributors"),
            reveal=reveal,
            missing=missing,
            product=product,
            options=options,
        )
        study = make_study(found.job, set_name, moduli, insecure=insecure)
    return Planned(study, [named(note) for note in found.notes], found.publishes and named(found.publishes))


@contextmanager
def _arguments_named(sources: Sequence[Source]) -> Iterator[Callable[[str], str]]:
    """Messages about columns in memory name our arguments: who reads them has no command line."""
    named = in_python if any(isinstance(source, Arrays) for source in sources) else str
    try:
        yield named
    except PybfvError as error:
        error.args = (named(str(error)),)
        raise


def _options(options: CsvOptions | None) -> CsvOptions:
    if options is None:
        return CsvOptions()
    needed(options, CsvOptions, "options of class CsvOptions", "make them with pybfv.client.csvio.CsvOptions")
    return options


def _need_study(study: Any) -> None:
    if isinstance(study, Planned):
        raise UsageError("a Study is needed, not a Planned; take its study: flow.plan(...).study")
    needed(study, Study, "a Study", "read it with flow.load_study(path)")


def _need_public(key: Any) -> None:
    if key is not None:
        needed(key, PublicKey, "a PublicKey", "read it with pybfv.io.key.read_public(path)")


def _need_signing(sign: Any, trust: Any = None) -> None:
    if sign is not None:
        needed(sign, SigningKey, "a SigningKey", "read it with pybfv.io.signing_keys.read_signing_key(path)")
    if trust is not None:
        needed(trust, Trust, "a Trust", "read it with pybfv.io.signing_keys.read_trust([path])")


def _need_engine(engine: Any) -> None:
    if isinstance(engine, str):
        raise UsageError(f"engine must be an Engine, not text; give engine=flow.Engine(backend={engine[:20]!r})")
    needed(engine, Engine, "an Engine", 'give engine=flow.Engine(backend="cpu")')


_PLANNING = tuple(sorted(set(plan.__kwdefaults__) - {"options"}))


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
    return Study(study_io.read_study(path))


def write_study(study: Study, path: str, *, force: bool = False) -> None:
    """Writes a study to a file (study.json), for `load_study`; OutputError when the file exists, unless ``force``."""
    _need_study(study)
    with atomic_output(path, force=force) as stream:
        study_io.write_study(stream, study.doc)


def keygen(study: Study) -> tuple[SecretKey, PublicKey]:
    """A fresh key pair for a study. One key serves one study."""
    _need_study(study)
    return draw_keys(study)


_NEVER = "keys are never overwritten: name another folder"


def write_keys(
    secret: SecretKey, public: PublicKey, folder: str, passphrase: Passphrase | None = None
) -> tuple[str, str]:
    """Writes secret.key (mode 0600 from creation) and public.key; never overwrites either.

    Both are whole on the disk before either has its name, and public.key gets its name first: what a kill between the
    two leaves protects no data. ``passphrase``: text, bytes, or a function that asks for one; encrypts secret.key.
    """
    paths = os.path.join(folder, "secret.key"), os.path.join(folder, "public.key")
    whole = BytesIO()
    write_public(whole, public)
    with ExitStack() as stack:
        if passphrase is not None:  # asked for before anything is made
            check_pair(*paths, _NEVER)
            passphrase = stack.enter_context(passphrase_bytes(passphrase, paths[0]))
        stack.enter_context(pair_folder(*paths, whole.getbuffer(), _NEVER))
        with secret_output(paths[0], secret, passphrase), atomic_output(paths[1], hint=_NEVER) as stream:
            stream.write(whole.getbuffer())
    return paths


def _temporary(make: Callable[[], Any]) -> Any:
    """A temporary file or folder."""
    try:
        return make()
    except OSError as e:
        raise OutputError(f"no temporary file can be made ({e.strerror}); see TMPDIR") from None


@contextmanager
def _whole_output(path: str, force: bool, inputs: Sequence[Any] = ()) -> Iterator[BinaryIO]:
    """atomic_output, and for "-" too nothing is written before everything has succeeded."""
    if path != "-":
        with atomic_output(path, force=force, inputs=inputs) as stream:
            yield stream
        return
    with _temporary(tempfile.TemporaryFile) as spool:
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
    sign: SigningKey | None = None,
) -> tuple[int, int]:
    """Encrypts a table into a contribution file; returns (rows, dropped rows).

    An array with one dimension serves a study of one column, whatever its name. ``sign``: signs the contribution.
    """
    _need_signing(sign)
    _need_study(study)
    needed(key, (PublicKey, SecretKey), "a PublicKey", "read it with pybfv.io.key.read_public(path)")
    options = _options(options)
    check_key(study, key)
    source = as_source(source, _names(study))
    with _arguments_named([source]), _whole_output(output, force, [source]) as stream:
        return encrypt_stream(study, source, options, key, stream, progress, sign)


def expand(inputs: Inputs, extension: str) -> list[str]:
    """Files, folders' files with the extension in name order, and "-" at most once; one path may stand for a list."""
    found: list[str] = []
    for given in [inputs] if isinstance(inputs, str | os.PathLike) or not isinstance(inputs, Iterable) else inputs:
        if not isinstance(given, str | os.PathLike):
            raise UsageError(f"inputs must be paths of {extension} files or of folders, not {type(given).__name__}")
        item = os.fspath(given)
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


def finish_partial(partial: Partial, key: PublicKey | None, info: dict[str, Any], min_contributors: int = 1) -> Result:
    """Finishes a partial on the CPU: factor, and under totals re-randomising and blinding.

    DataError when it holds fewer contributions than the study, or ``min_contributors``, asks for.
    """
    study = Study(partial.study)
    study.check_enough(partial.contributions, "this computation", min_contributors)
    backend = opener(Engine(threads=1))(study)
    try:
        return finish(partial, study, key, backend, info)
    finally:
        backend.close()


def _check_enough(contributions: int, least: int, what: str) -> None:
    if contributions < least:
        raise DataError(
            f"this {what} is over {contributions} contribution(s), and --min-contributors asks for {least} at least:"
            " get more"
        )


@contextmanager
def _checkpoint(
    sources: Sequence[str], output: str, seconds: float, resume: bool, told: Callable[[str], None]
) -> Iterator[Checkpoint | None]:
    """The checkpoint of a computation, removed when the block ends well; None where there can't be any."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise UsageError(f"checkpoint must be a number of seconds from 0, not {in_a_line(seconds)}")
    if output == "-" or "-" in sources:
        if resume:
            raise UsageError("only a computation on files with a named output can be resumed; give them in place of -")
        yield None
        return
    if not seconds and not resume:
        yield None
        return
    checkpoint = Checkpoint(output, sources, seconds=seconds, resume=resume, told=told)
    try:
        yield checkpoint
    except BaseException:
        checkpoint.ended()
        raise
    checkpoint.done()


def compute(
    inputs: Inputs,
    output: str,
    *,
    key: PublicKey | None = None,
    engine: Engine = CPU,
    force: bool = False,
    progress: Progress = _quiet,
    report: Report = _quiet,
    sign: SigningKey | None = None,
    trust: Trust | None = None,
    min_contributors: int = 1,
    checkpoint: float = SECONDS,
    resume: bool = False,
    told: Callable[[str], None] = _quiet,
) -> Result:
    """Contributions to a result file.

    ``sign``: signs the result. ``trust``: every contribution must be signed by one of these signers.
    ``min_contributors``: refused over fewer contributions; the study may ask for more.
    What was computed so far is kept in the file OUTPUT.checkpoint every ``checkpoint`` seconds (0: never), until the
    result is there; ``resume`` goes on from it. ``told`` takes lines about that.
    """
    _need_public(key)
    _need_engine(engine)
    _need_signing(sign, trust)
    least = whole_number(min_contributors, "min_contributors")
    sources = expand(inputs, ".bfvc")
    _check_enough(len(sources), least, "computation")

    def check(study: Study, key_id: str) -> None:
        require_key(study, key_id, key)
        study.check_enough(len(sources), "this computation")  # before the work: a file is one contribution

    with (
        _checkpoint(sources, output, checkpoint, resume, told) as kept,
        _whole_output(output, force, sources) as stream,
    ):
        partial, info = accumulate(sources, opener(engine), progress, check, kept, trust)
        result = finish_partial(partial, key, info, least)
        write_result(stream, result, sign)
    report(info)
    return result


def compute_to_partial(
    inputs: Inputs,
    output: str,
    *,
    engine: Engine = CPU,
    force: bool = False,
    progress: Progress = _quiet,
    report: Report = _quiet,
    sign: SigningKey | None = None,
    trust: Trust | None = None,
    min_contributors: int = 1,
    checkpoint: float = SECONDS,
    resume: bool = False,
    told: Callable[[str], None] = _quiet,
) -> Partial:
    """Contributions to a partial file; arguments as for `compute`.

    A study's own minimum of contributors is for results, not for partials.
    """
    _need_engine(engine)
    _need_signing(sign, trust)
    least = whole_number(min_contributors, "min_contributors")
    sources = expand(inputs, ".bfvc")
    _check_enough(len(sources), least, "partial")
    with (
        _checkpoint(sources, output, checkpoint, resume, told) as kept,
        _whole_output(output, force, sources) as stream,
    ):
        partial, info = accumulate(sources, opener(engine), progress, checkpoint=kept, trust=trust)
        _check_enough(partial.contributions, least, "partial")
        write_partial(stream, partial, sign)
    report(info)
    return partial


def combine(
    inputs: Inputs,
    output: str,
    *,
    key: PublicKey | None = None,
    force: bool = False,
    sign: SigningKey | None = None,
    trust: Trust | None = None,
    min_contributors: int = 1,
) -> Result:
    """Partials to a result file; arguments as for `compute`, ``trust`` for the partials."""
    _need_public(key)
    _need_signing(sign, trust)
    least = whole_number(min_contributors, "min_contributors")
    sources = expand(inputs, ".bfvp")
    with _whole_output(output, force, sources) as stream:
        partial = merge(sources, lambda path: read_partial(path, trust), opener(Engine(threads=1)))
        result = finish_partial(partial, key, COMBINED, least)
        write_result(stream, result, sign)
    return result


def decrypt(
    source: str | Result,
    key: SecretKey,
    ddof: int = 1,
    *,
    trust: Trust | None = None,
    min_contributors: int = 1,
) -> dict[str, Any]:
    """The result document of a result file. ``ddof``: a variance divides by n - ddof, 1 or 0.

    ``trust``: the file must be signed by one of these signers. ``min_contributors``: refused over fewer
    contributions; the study may ask for more.
    """
    _need_signing(None, trust)
    least = whole_number(min_contributors, "min_contributors")
    needed(key, SecretKey, "a SecretKey", "read it with pybfv.io.secret_key.read_secret(path)")
    needed(source, (str, os.PathLike, Result), "a result file's path or a Result", "take what flow.compute made")
    ddof = ddof_of(ddof)
    if isinstance(source, Result) and trust is not None:
        raise UsageError("a Result in memory carries no signature; give trust where its file is read")
    result = source if isinstance(source, Result) else read_result(source, trust)
    return decrypt_result(result, key, ddof, least)


def _names(study: Study) -> list[str]:
    return sorted({c.name for c in study.columns[1:]})


def oracle(study: Study, sources: Sequence[Data], options: CsvOptions, ddof: int) -> list[dict[str, Any]]:
    """Every statistic recomputed in plaintext, from the rows, by each workload's definition."""
    ddof = ddof_of(ddof)
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
    options = _options(options)
    _need_engine(engine)
    ddof = ddof_of(ddof)
    for name in planning:
        if name in Engine.__dataclass_fields__:
            raise UsageError(f"{name} is a field of the engine: give engine=flow.Engine({name}={planning[name]!r})")
        if name not in _PLANNING:
            raise UsageError(f"unknown argument {name[:40]!r}; those of plan are {', '.join(_PLANNING)}")
    sources = _several(source)
    if planning.get("max_contributions") is None:
        planning["max_contributions"] = len(sources)
    planned = plan(sources, statistics, options=options, **planning)
    for note in planned.notes:
        told(note)
    study = planned.study
    with _temporary(lambda: tempfile.TemporaryDirectory(prefix="pybfv-")) as folder:
        secret, public = keygen(study)
        done = 0
        for number, table in enumerate(sources):
            contribution = os.path.join(folder, f"{number:06}.bfvc")
            rows, _ = encrypt(
                study, table, public, contribution, options=options, progress=lambda n, done=done: progress(done + n)
            )
            done += rows
        document = decrypt(
            compute([folder], os.path.join(folder, "r"), key=public, engine=engine, report=report, checkpoint=0),
            secret,
            ddof,
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
    "write_study",
]
