"""The command line: thin click commands over pybfv.flow. docs/cli.md is its contract.

stdout holds only the result; notes, progress and refusals go to stderr, a refusal in one line.
Imports that cost time are made inside the commands, so that --help stays quick.
"""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

import click

from pybfv import __version__
from pybfv.errors import MissingInputError, OutputError, PybfvError, UsageError
from pybfv.words import plain, printable, words

if TYPE_CHECKING:
    from pybfv.client.csvio import CsvOptions
    from pybfv.flow import Engine
    from pybfv.io.key import PublicKey

EXIT_CODES = """\b
Exit codes: 0 done; 2 usage; 65 bad data or file; 66 input missing; 69 backend not available;
70 internal or verification failure; 73 output exists or can't be written; 77 key refused;
78 the plan can't be carried."""


class KnownGroup(click.Group):
    """A group that answers an unknown command with the known ones."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise UsageError(f"unknown command {args[0]!r}; known are {', '.join(self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


class SpecCommand(click.Command):
    """A command whose help lists the statistics that are installed."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from pybfv.flow import workload_help

        with formatter.section("Statistics (SPEC)"):
            for syntax, _ in workload_help():
                formatter.write(f"  {syntax}\n")
            formatter.write('  Names with any of ,:~+^=*-" or blanks go in double quotes, " doubled.\n')
        super().format_epilog(ctx, formatter)


def _options(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


_csv_options = _options(
    click.option("--no-header", is_flag=True, help="The first row is data; columns are called c1, c2, ..."),
    click.option("--delimiter", default=",", show_default=True, help="Between fields; \\t is a tab."),
    click.option("--decimal", default=".", show_default=True, help="Decimal mark of numbers."),
    click.option("--thousands", default=None, help="Mark between groups of three digits."),
    click.option("--encoding", default="utf-8", show_default=True, help="Of the file."),
)
_plan_options = _options(
    click.option("--stat", "stats", multiple=True, required=True, metavar="SPEC", help="A statistic; repeatable."),
    click.option(
        "--bounds", multiple=True, metavar="COL=LO:HI", help="Range and decimals of a column; else those of the data."
    ),
    click.option("--max-rows", type=int, metavar="N", help="Most rows of all contributions; else the file's rows."),
    click.option(
        "--max-contributions", type=int, metavar="C",
        help="Most files; else one row a file is assumed (run: its files).",
    ),
    click.option(
        "--reveal", type=click.Choice(["totals", "slots"]), default="totals", show_default=True,
        help="What the key holder may learn; slots: only where it owns the data.",
    ),
    click.option("--missing", type=click.Choice(["error", "drop"]), default="error", show_default=True,
                 help="Rows with an empty cell or NA: refuse, or drop and count."),
    click.option("--product", metavar="NAME", help="How to multiply: scale-free or scaled; else what suits."),
    click.option("--set", "set_name", metavar="NAME", help="A parameter set; else the cheapest that carries the job."),
    click.option("--plain-modulus", "plain_moduli", multiple=True, type=str, metavar="T", help="t; repeatable."),
    click.option("--insecure", is_flag=True, help="Allow the insecure_ sets, for tests."),
)  # fmt: skip
_compute_options = _options(
    click.option("--backend", default="cpu", show_default=True, help="Where to compute: cpu, sim, upmem or auto."),
    click.option("--kernels", default="ntt", show_default=True, help="ntt, or limb: the paper's (sim and upmem)."),
    click.option("--threads", type=click.IntRange(0, 256), default=0, show_default=True, help="Of cpu; 0: all cores."),
    click.option("--dpus", metavar="N", help="DPUs of sim (else 64) or upmem (else all); a number or all."),
    click.option("--tasklets", type=click.IntRange(1, 24), metavar="T", help="Of each DPU, 1 to 24; else 16."),
    click.option("--timings", is_flag=True, help="Say on stderr where the backend's time went."),
)
_force_option = click.option("--force", is_flag=True, help="Overwrite the output.")
_json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
_ddof_option = click.option(
    "--ddof", type=click.Choice(["0", "1"]), default="1", show_default=True,
    help="variance divides by n - ddof: 1 sample, 0 population.",
)  # fmt: skip
_public_key_option = click.option(
    "--key", "key_path", metavar="PUBLIC.KEY", help="The public key; needed where totals are finished."
)


def _csv(no_header: bool, delimiter: str, decimal: str, thousands: str | None, encoding: str) -> CsvOptions:
    from pybfv.client.csvio import CsvOptions

    tab = "\t" if delimiter == "\\t" else delimiter
    return CsvOptions(not no_header, tab, decimal, thousands, encoding)


def _engine(backend: str, kernels: str, threads: int, dpus: str | None, tasklets: int | None) -> Engine:
    from pybfv.flow import Engine

    count = 0
    if dpus == "all" and backend == "cpu":
        raise UsageError("--dpus belongs to --backend sim or upmem; leave it out")
    if dpus is not None and dpus != "all":
        if not dpus.isascii() or not dpus.isdigit() or len(dpus) > 9 or int(dpus) == 0:
            raise UsageError(f"--dpus {dpus[:20]!r} is not all or a number from 1")
        count = int(dpus)
    return Engine(backend, kernels, threads, count, tasklets or 0)


def _reporter(timings: bool) -> Callable[[dict[str, Any]], None]:
    """Says where a backend's time went; simulated DPUs are not hardware, and the line says so."""

    def report(info: dict[str, Any]) -> None:
        stats, name = info["stats"], info["name"]
        if name == "cpu":
            _note(f"timings: cpu with {info['threads']} threads keeps no split; {stats['bytes_in']} bytes in")
            return
        label = "simulator wall time, not hardware" if name == "sim" else "wall time"
        parts = ("host_to_dpu", "host to DPU"), ("kernel", "kernel"), ("dpu_to_host", "DPU to host")
        split = ", ".join(f"{text} {stats[key] / 1e6:.1f} ms" for key, text in (*parts, ("convert", "conversion")))
        where = f"{info['kernels']} kernels, {info['dpus']} DPUs, {info['tasklets']} tasklets"
        seed = "" if info["seed"] is None else f", seed {info['seed']}"
        _note(f"timings ({label}), {where}{seed}: {split}")

    return report if timings else lambda info: None


def _note(text: str) -> None:
    with suppress(OSError):  # a closed or full stderr must not undo the work
        click.echo(f"pybfv: {printable(text)}", err=True)


def _moduli(texts: tuple[str, ...]) -> list[int]:
    found = []
    for text in texts:
        for part in text.split(","):
            digits = part.strip()
            if not re.fullmatch("-?[0-9]{1,200}", digits):
                raise UsageError(f"--plain-modulus {part[:40]!r} is not a whole number")
            found.append(int(digits))
    return found


@contextmanager
def _progress(unit: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, and nothing when that is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit=unit, file=sys.stderr, leave=False) as bar:
        yield lambda done: bar.update(done - bar.n)


@contextmanager
def _key_warnings() -> Iterator[None]:
    """Turns warnings about a key's permissions into one line on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        _note(f"warning: {warning.message}")


def _public(path: str | None) -> PublicKey | None:
    from pybfv.io.key import read_public

    return None if path is None else read_public(path)


@click.group(
    cls=KnownGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=EXIT_CODES,
    no_args_is_help=False,
    invoke_without_command=False,
)
@click.version_option(__version__, prog_name="pybfv", message="%(prog)s %(version)s")
def cli() -> None:
    """Exact statistics on encrypted data: plan, keygen, encrypt, compute, decrypt.

    \b
    Example, all steps at once with throw-away keys:
      pybfv run data.csv --stat mean:age --stat variance:age --verify
    """


@cli.command("plan", cls=SpecCommand, epilog=EXIT_CODES)
@click.argument("data", metavar="DATA.csv")
@_plan_options
@_csv_options
@click.option("-o", "--output", metavar="STUDY.json", help="Write the study; without it the plan is only shown.")
@_force_option
@_json_option
def plan_command(
    data: str, stats: tuple[str, ...], bounds: tuple[str, ...], max_rows: int | None, max_contributions: int | None,
    reveal: str, missing: str, product: str | None, set_name: str | None, plain_moduli: tuple[str, ...],
    insecure: bool, output: str | None, force: bool, as_json: bool, **csv_args: Any,
) -> None:  # fmt: skip
    """Plan a study: columns, bounds, statistics, and parameters that provably carry them.

    \b
    Examples:
      pybfv plan data.csv --stat mean:age --stat variance:age -o study.json
      pybfv plan header.csv --stat sum:pay --bounds pay=0.00:250.00 --max-rows 1000 -o study.json
    """
    from pybfv import flow
    from pybfv.client.csvsource import spool
    from pybfv.client.plan import describe, summary
    from pybfv.io.atomic import atomic_output
    from pybfv.io.study import write_study

    with spool(data) as source:
        planned = flow.plan(
            source, stats, bounds=bounds, max_rows=max_rows, max_contributions=max_contributions, reveal=reveal,
            missing=missing, product=product, set_name=set_name, plain_moduli=_moduli(plain_moduli), insecure=insecure,
            options=_csv(**csv_args),
        )  # fmt: skip
    for note in (planned.publishes, *planned.notes):
        if note:
            _note(note)
    if output is not None:
        with atomic_output(output, force=force, inputs=[data]) as stream:
            write_study(stream, planned.study.doc)
        _note(f"planned: {summary(planned.study)}")
    if as_json:
        if output != "-":
            click.echo(planned.study.doc.raw.decode("ascii"), nl=False)
    elif output is None:
        lines = describe(planned.study)
        width = max(len(label) for label, _ in lines)
        for label, text in lines:
            click.echo(f"{label:<{width}}  {text}")


@cli.command("keygen", epilog=EXIT_CODES)
@click.argument("study", metavar="STUDY.json")
@click.option("-o", "--output", required=True, metavar="KEYDIR", help="Folder for secret.key and public.key.")
def keygen_command(study: str, output: str) -> None:
    """Make a study's key pair: KEYDIR/secret.key (mode 0600) and KEYDIR/public.key; never overwrites.

    \b
    Example:
      pybfv keygen study.json -o keys
    """
    from pybfv import flow

    secret, public = flow.keygen(flow.load_study(study))
    try:
        flow.write_keys(secret, public, output)
    finally:
        secret.wipe()


@cli.command("encrypt", epilog=EXIT_CODES)
@click.argument("study", metavar="STUDY.json")
@click.argument("data", metavar="DATA.csv")
@click.option(
    "--key",
    "key_path",
    required=True,
    metavar="PUBLIC.KEY",
    help="The study's public key (or, only under --reveal slots, the secret key: half the size).",
)
@click.option("-o", "--output", required=True, metavar="DATA.bfvc", help="The contribution; - for stdout.")
@_csv_options
@_force_option
def encrypt_command(study: str, data: str, key_path: str, output: str, force: bool, **csv_args: Any) -> None:
    """Encrypt a CSV as a contribution to a study. Every value is checked against the study's bounds.

    \b
    Example:
      pybfv encrypt study.json data.csv --key keys/public.key -o data.bfvc
    """  # fmt: skip
    from pybfv import flow
    from pybfv.io.secret_key import read_key

    _one_stdin(study, data, key_path)
    plan_ = flow.load_study(study)
    if plan_.ps.insecure:
        _note(f"this study uses {plan_.ps.name}, which is INSECURE: for tests only")
    if plan_.reveal == "slots":
        _note("this study reveals every slot to its key holder (--reveal slots), not totals only")
    with _key_warnings():
        key = read_key(key_path)
    with _progress(" rows") as progress:
        rows, dropped = flow.encrypt(plan_, data, key, output, options=_csv(**csv_args), force=force, progress=progress)
    if dropped:
        _note(f"{dropped} of {rows + dropped} rows have missing values and were left out")


@cli.command("compute", epilog=EXIT_CODES)
@click.argument("inputs", nargs=-1, required=True, metavar="DATA.bfvc|FOLDER...")
@_public_key_option
@click.option("-o", "--output", required=True, metavar="RESULT.bfvr", help="The result; - for stdout.")
@click.option("--partial", is_flag=True, help="Write a partial (.bfvp) for pybfv combine instead of a result.")
@_compute_options
@_force_option
def compute_command(
    inputs: tuple[str, ...],
    key_path: str | None,
    output: str,
    partial: bool,
    timings: bool,
    force: bool,
    **engine_args: Any,
) -> None:
    """Compute on encrypted contributions. No secret key is needed or accepted.

    \b
    Examples:
      pybfv compute contributions/ --key keys/public.key -o result.bfvr
      pybfv compute half1/ --partial -o part1.bfvp
    """
    from pybfv import flow

    engine = _engine(**engine_args)
    _one_stdin(*inputs, key_path)
    key = _public(key_path)
    sources = flow.expand(inputs, ".bfvc")
    with _progress(" files", len(sources)) as progress:
        if partial:
            flow.compute_to_partial(
                sources, output, engine=engine, force=force, progress=progress, report=_reporter(timings)
            )
        else:
            flow.compute(
                sources, output, key=key, engine=engine, force=force, progress=progress, report=_reporter(timings)
            )


@cli.command("combine", epilog=EXIT_CODES)
@click.argument("inputs", nargs=-1, required=True, metavar="PART.bfvp|FOLDER...")
@_public_key_option
@click.option("-o", "--output", required=True, metavar="RESULT.bfvr", help="The result; - for stdout.")
@_force_option
def combine_command(inputs: tuple[str, ...], key_path: str | None, output: str, force: bool) -> None:
    """Combine partials of one study into a result.

    \b
    Example:
      pybfv combine part1.bfvp part2.bfvp --key keys/public.key -o result.bfvr
    """
    from pybfv import flow

    _one_stdin(*inputs, key_path)
    flow.combine(inputs, output, key=_public(key_path), force=force)


@cli.command("decrypt", epilog=EXIT_CODES)
@click.argument("result", metavar="RESULT.bfvr")
@click.option("--key", "key_path", required=True, metavar="SECRET.KEY", help="The study's secret key.")
@_ddof_option
@click.option("-o", "--output", metavar="OUT", help="Write to a file instead of stdout.")
@_force_option
@_json_option
def decrypt_command(result: str, key_path: str, ddof: str, output: str | None, force: bool, as_json: bool) -> None:
    """Decrypt a result and print its statistics, exact and correctly rounded.

    \b
    Example:
      pybfv decrypt result.bfvr --key keys/secret.key --json
    """
    from pybfv import flow
    from pybfv.io.secret_key import read_secret

    _one_stdin(result, key_path)
    with _key_warnings():
        key = read_secret(key_path)
    try:
        document = flow.decrypt(result, key, int(ddof))
    finally:
        key.wipe()
    _put(document, output, force, as_json, [result, key_path])


@cli.command("run", cls=SpecCommand, epilog=EXIT_CODES)
@click.argument("data", nargs=-1, required=True, metavar="DATA.csv...")
@_plan_options
@_compute_options
@_csv_options
@_ddof_option
@click.option("--verify", is_flag=True, help="Recompute every statistic in plaintext; differ: exit 70, no output.")
@click.option("-o", "--output", metavar="OUT", help="Write to a file instead of stdout.")
@_force_option
@_json_option
def run_command(
    data: tuple[str, ...], stats: tuple[str, ...], bounds: tuple[str, ...],
    max_rows: int | None, max_contributions: int | None,
    reveal: str, missing: str, product: str | None, set_name: str | None, plain_moduli: tuple[str, ...],
    insecure: bool, backend: str, kernels: str, threads: int, dpus: str | None, tasklets: int | None,
    timings: bool, ddof: str, verify: bool, output: str | None, force: bool, as_json: bool, **csv_args: Any,
) -> None:  # fmt: skip
    """All steps in a temporary folder with throw-away keys: plan, keygen, encrypt, compute, decrypt.

    Several files are several contributions.

    \b
    Example:
      pybfv run data.csv --stat 'linreg:y~x1+x2+x3' --verify --json
    """
    from pybfv import flow
    from pybfv.client.csvsource import spool

    _check_free(output, force)
    engine = _engine(backend, kernels, threads, dpus, tasklets)
    _one_stdin(*data)
    with ExitStack() as stack, _progress(" rows") as progress:
        document = flow.run(
            [stack.enter_context(spool(name)) for name in data], stats,
            engine=engine, ddof=int(ddof), verify=verify, options=_csv(**csv_args),
            progress=progress, told=_note, report=_reporter(timings),
            bounds=bounds, max_rows=max_rows, max_contributions=max_contributions,
            reveal=reveal, missing=missing, product=product, set_name=set_name,
            plain_moduli=_moduli(plain_moduli), insecure=insecure,
        )  # fmt: skip
    _put(document, output, force, as_json, data)


@cli.command("inspect", epilog=EXIT_CODES)
@click.argument("file", metavar="FILE")
@_json_option
def inspect_command(file: str, as_json: bool) -> None:
    """Say what one of our files is: kind, version, study, key id, rows, statistics. Needs no key.

    \b
    Example:
      pybfv inspect data.bfvc
    """
    from pybfv.io.inspect import describe

    facts = {"schema_version": 1, **describe(file)}
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=True))
        return
    width = max(len(key) for key in facts)
    for key, value in facts.items():
        if key != "schema_version":
            click.echo(f"{key.replace('_', ' '):<{width}}  {plain(value)}")


@cli.command("doctor", epilog=EXIT_CODES)
@_json_option
def doctor_command(as_json: bool) -> None:
    """Say what this machine has: CPU bodies, compilers, UPMEM SDK and DPUs, backends, versions.

    \b
    Example:
      pybfv doctor
    """
    from pybfv import doctor

    found = doctor.examine()
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=True))
        return
    lines = doctor.words(found)
    width = max(len(label) for label, _ in lines)
    for label, text in lines:
        click.echo(f"{label:<{width}}  {text}")


def _check_free(output: str | None, force: bool) -> None:
    """Refuses an existing output before the work, not after it."""
    if output not in (None, "-") and os.path.lexists(str(output)) and not force:
        raise OutputError(f"{output} exists: give --force or another name")


def _one_stdin(*paths: str | None) -> None:
    if paths.count("-") > 1:
        raise UsageError("standard input (-) can serve one argument only")


def _put(document: dict[str, Any], output: str | None, force: bool, as_json: bool, inputs: Sequence[str]) -> None:
    from pybfv.io.atomic import atomic_output

    text = json.dumps(document, ensure_ascii=True) if as_json else words(document)
    if output is None:
        click.echo(text)
        return
    with atomic_output(output, force=force, inputs=inputs) as stream:
        stream.write(text.encode() + b"\n")


def _interrupt(number: int, frame: Any) -> NoReturn:
    # As an exception, so that temporary files are removed on the way out.
    raise SystemExit(128 + number)


def _fail(error: PybfvError) -> int:
    text = " ".join(str(error).split()) or type(error).__name__
    text = text if len(text) <= 1000 else text[:700] + " ... " + text[-295:]
    _note(text.encode("utf-8", "replace").decode())
    return error.exit_code


class _Closed:
    """Stands for a standard output that was closed before we began: writing to it fails as on a full disk."""

    def __init__(self) -> None:
        self.buffer = self

    def write(self, data: Any) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def _open_streams() -> None:
    """Gives closed standard streams a stand-in, so that their absence shows where they are used."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = _Closed()  # type: ignore[assignment]


def main(args: list[str] | None = None) -> int:
    """Runs the command line and returns the exit code; no traceback reaches a user."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    _open_streams()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # nothing uses it, and its threads take address space
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # keys and data never go into a core dump
    try:
        # not cli.main: it would turn a broken pipe into exit 1
        with cli.make_context("pybfv", list(sys.argv[1:] if args is None else args)) as context:
            cli.invoke(context)
        sys.stdout.flush()
        return 0
    except PybfvError as e:
        return _fail(e)
    except click.exceptions.NoArgsIsHelpError as e:
        click.echo(e.format_message(), err=True)
        return 2
    except click.NoSuchOption as e:
        known = [o for p in e.ctx.command.params for o in p.opts if o.startswith("--")] if e.ctx else []
        return _fail(UsageError(f"unknown option {e.option_name}; known are {', '.join(known)}, --help"))
    except click.ClickException as e:
        where = f" (see: {e.ctx.command_path} --help)" if isinstance(e, click.UsageError) and e.ctx else ""
        return _fail(UsageError(f"{e.format_message()}{where}"))
    except click.exceptions.Exit as e:
        return e.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _interrupted()
    except BrokenPipeError:
        _discard_stdout()
        return 141
    except OSError as e:
        if e.filename is None:  # no file that somebody named: standard output
            _discard_stdout()
            return _fail(OutputError(f"standard output can't be written: {e.strerror or e}"))
        return _fail(MissingInputError(f"{e.filename} can't be used: {e.strerror}; check the name"))
    except MemoryError as e:
        said = f": {e}" if str(e) else ""
        return _fail(PybfvError(f"out of memory{said}; use fewer columns, a smaller set or another machine"))
    except RuntimeError as e:
        if isinstance(e.__cause__, KeyboardInterrupt):  # caught while a module was being imported
            return _interrupted()
        return _defect(e)
    except Exception as e:
        return _defect(e)


def _interrupted() -> int:
    _note("interrupted")
    return 130


def _defect(error: Exception) -> int:
    """Still one line, and a way to see more."""
    if os.environ.get("PYBFV_DEBUG"):
        raise error
    kind = f"internal error, {type(error).__name__}: {error}"
    return _fail(PybfvError(f"{kind}; set PYBFV_DEBUG=1 for details and report it"))


def _discard_stdout() -> None:
    """Lets interpreter shutdown flush what is left to nowhere, quietly."""
    if not isinstance(sys.stdout, _Closed):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def entry() -> NoReturn:
    """The console script."""
    sys.exit(main())
