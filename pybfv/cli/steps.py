"""The steps of a study: plan, keygen, encrypt, compute, combine, decrypt; run is all of them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click

from pybfv.cli.group import cli
from pybfv.cli.options import (
    EXIT_CODES,
    SpecCommand,
    compute_options,
    csv_options,
    ddof_option,
    force_option,
    json_option,
    least_option,
    plan_options,
    public_key_option,
    sign_option,
    trust_option,
)
from pybfv.cli.passphrase import MAX_FD, asked, passphrase_fd_option
from pybfv.cli.tools import (
    check_free,
    csv_of,
    engine_of,
    key_warnings,
    moduli_of,
    note,
    note_security,
    one_stdin,
    progress_bar,
    public_of,
    put,
    reporter,
    signing_of,
    trust_of,
)


@cli.command("plan", cls=SpecCommand, epilog=EXIT_CODES)
@click.argument("data", metavar="DATA.csv")
@plan_options
@csv_options
@click.option("-o", "--output", metavar="STUDY.json", help="Write the study; without it the plan is only shown.")
@force_option
@json_option
def plan_command(
    data: str, stats: tuple[str, ...], bounds: tuple[str, ...], max_rows: int | None, max_contributions: int | None,
    min_contributors: int, reveal: str, missing: str, product: str | None, set_name: str | None,
    plain_moduli: tuple[str, ...],
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
            source, stats, bounds=bounds, max_rows=max_rows, max_contributions=max_contributions,
            min_contributors=min_contributors, reveal=reveal, missing=missing, product=product, set_name=set_name,
            plain_moduli=moduli_of(plain_moduli),
            insecure=insecure, options=csv_of(**csv_args),
        )  # fmt: skip
    note_security(planned.study)
    for text in (planned.publishes, *planned.notes):
        if text:
            note(text)
    if output is not None:
        with atomic_output(output, force=force, inputs=[data]) as stream:
            write_study(stream, planned.study.doc)
        note(f"planned: {summary(planned.study)}")
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
@click.option("--passphrase", is_flag=True, help="Protect secret.key by a passphrase, asked for twice.")
@click.option(
    "--passphrase-fd", "fd", type=click.IntRange(0, MAX_FD), metavar="N",
    help="Protect secret.key by the passphrase on one line of this file descriptor.",
)  # fmt: skip
def keygen_command(study: str, output: str, passphrase: bool, fd: int | None) -> None:
    """Make a study's key pair: KEYDIR/secret.key (mode 0600) and KEYDIR/public.key; never overwrites.

    \b
    Example:
      pybfv keygen study.json -o keys --passphrase
    """
    from pybfv import flow

    protect = asked(fd, study, new=True) if passphrase or fd is not None else None
    secret, public = flow.keygen(flow.load_study(study))
    try:
        flow.write_keys(secret, public, output, protect)
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
@sign_option
@passphrase_fd_option
@csv_options
@force_option
def encrypt_command(
    study: str,
    data: str,
    key_path: str,
    output: str,
    sign_path: str | None,
    fd: int | None,
    force: bool,
    **csv_args: Any,
) -> None:
    """Encrypt a CSV as a contribution to a study. Every value is checked against the study's bounds.

    \b
    Example:
      pybfv encrypt study.json data.csv --key keys/public.key -o data.bfvc
    """  # fmt: skip
    from pybfv import flow
    from pybfv.client.csvsource import likely_rows
    from pybfv.io.secret_key import read_key

    one_stdin(study, data, key_path, sign_path)
    plan_ = flow.load_study(study)
    note_security(plan_)
    if plan_.reveal == "slots":
        note("this study reveals every slot to its key holder (--reveal slots), not totals only")
    with key_warnings():
        key = read_key(key_path, asked(fd, study, data, key_path))
    signing = signing_of(sign_path)
    with progress_bar(" rows", None if data == "-" else likely_rows(data)) as progress:
        rows, dropped = flow.encrypt(
            plan_,
            data,
            key,
            output,
            options=csv_of(**csv_args),
            force=force,
            progress=progress,
            sign=signing,
        )
    if dropped:
        note(f"{dropped} of {rows + dropped} rows have missing values and were left out")


@cli.command("compute", epilog=EXIT_CODES)
@click.argument("inputs", nargs=-1, required=True, metavar="DATA.bfvc|FOLDER...")
@public_key_option
@click.option("-o", "--output", required=True, metavar="RESULT.bfvr", help="The result; - for stdout.")
@click.option("--partial", is_flag=True, help="Write a partial (.bfvp) for pybfv combine instead of a result.")
@sign_option
@trust_option
@least_option
@click.option("--resume", is_flag=True, help="Go on from RESULT.bfvr.checkpoint, which an ended run left.")
@click.option(
    "--checkpoint", type=click.FloatRange(0), default=60.0, show_default=True, metavar="SECONDS",
    help="How often RESULT.bfvr.checkpoint is written until the result is there; 0: never.",
)  # fmt: skip
@compute_options
@force_option
def compute_command(
    inputs: tuple[str, ...],
    key_path: str | None,
    output: str,
    partial: bool,
    sign_path: str | None,
    trusted: tuple[str, ...],
    min_contributors: int,
    resume: bool,
    checkpoint: float,
    timings: bool,
    force: bool,
    **engine_args: Any,
) -> None:
    """Compute on encrypted contributions. No secret key is needed or accepted.

    \b
    Examples:
      pybfv compute contributions/ --key keys/public.key -o result.bfvr
      pybfv compute half1/ --partial -o part1.bfvp
      pybfv compute contributions/ --key keys/public.key -o result.bfvr --resume
    """
    from pybfv import flow

    engine = engine_of(**engine_args)
    one_stdin(*inputs, key_path, sign_path, *trusted)
    key = public_of(key_path)
    signing, trust = signing_of(sign_path), trust_of(trusted)
    sources = flow.expand(inputs, ".bfvc")
    kept: dict[str, Any] = {"checkpoint": checkpoint, "resume": resume, "told": note}
    with progress_bar(" files", len(sources)) as progress:
        common: dict[str, Any] = {
            "engine": engine, "force": force, "progress": progress, "report": reporter(timings),
            "sign": signing, "trust": trust, "min_contributors": min_contributors,
        }  # fmt: skip
        if partial:
            flow.compute_to_partial(sources, output, **common, **kept)
        else:
            flow.compute(sources, output, key=key, **common, **kept)


@cli.command("combine", epilog=EXIT_CODES)
@click.argument("inputs", nargs=-1, required=True, metavar="PART.bfvp|FOLDER...")
@public_key_option
@click.option("-o", "--output", required=True, metavar="RESULT.bfvr", help="The result; - for stdout.")
@sign_option
@trust_option
@least_option
@force_option
def combine_command(
    inputs: tuple[str, ...], key_path: str | None, output: str, sign_path: str | None, trusted: tuple[str, ...],
    min_contributors: int, force: bool,
) -> None:  # fmt: skip
    """Combine partials of one study into a result.

    \b
    Example:
      pybfv combine part1.bfvp part2.bfvp --key keys/public.key -o result.bfvr
    """
    from pybfv import flow

    one_stdin(*inputs, key_path, sign_path, *trusted)
    flow.combine(
        inputs, output, key=public_of(key_path), force=force, sign=signing_of(sign_path), trust=trust_of(trusted),
        min_contributors=min_contributors,
    )  # fmt: skip


@cli.command("decrypt", epilog=EXIT_CODES)
@click.argument("result", metavar="RESULT.bfvr")
@click.option("--key", "key_path", required=True, metavar="SECRET.KEY", help="The study's secret key.")
@passphrase_fd_option
@trust_option
@least_option
@ddof_option
@click.option("-o", "--output", metavar="OUT", help="Write to a file instead of stdout.")
@force_option
@json_option
def decrypt_command(
    result: str,
    key_path: str,
    fd: int | None,
    trusted: tuple[str, ...],
    min_contributors: int,
    ddof: str,
    output: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Decrypt a result and print its statistics, exact and correctly rounded.

    \b
    Example:
      pybfv decrypt result.bfvr --key keys/secret.key --json
    """
    from pybfv import flow
    from pybfv.io.secret_key import read_secret

    one_stdin(result, key_path, *trusted)
    trust = trust_of(trusted)
    with key_warnings():
        key = read_secret(key_path, asked(fd, result, key_path))
    try:
        document = flow.decrypt(result, key, int(ddof), trust=trust, min_contributors=min_contributors)
    finally:
        key.wipe()
    put(document, output, force, as_json, [result, key_path])


@cli.command("run", cls=SpecCommand, epilog=EXIT_CODES)
@click.argument("data", nargs=-1, required=True, metavar="DATA.csv...")
@plan_options
@compute_options
@csv_options
@ddof_option
@click.option("--verify", is_flag=True, help="Recompute every statistic in plaintext; differ: exit 70, no output.")
@click.option("-o", "--output", metavar="OUT", help="Write to a file instead of stdout.")
@force_option
@json_option
def run_command(
    data: tuple[str, ...], stats: tuple[str, ...], bounds: tuple[str, ...],
    max_rows: int | None, max_contributions: int | None,
    min_contributors: int, reveal: str, missing: str, product: str | None, set_name: str | None,
    plain_moduli: tuple[str, ...],
    insecure: bool, backend: str, kernels: str, threads: int, dpus: str | None, tasklets: int | None, check: str | None,
    timings: bool, ddof: str, verify: bool, output: str | None, force: bool, as_json: bool, **csv_args: Any,
) -> None:  # fmt: skip
    """All steps in a temporary folder with throw-away keys: plan, keygen, encrypt, compute, decrypt.

    Several files are several contributions.

    \b
    Example:
      pybfv run data.csv --stat 'linreg:y~x1+x2+x3' --verify --json
    """
    from pybfv import flow
    from pybfv.client.csvsource import likely_rows, spool

    check_free(output, force)
    engine = engine_of(backend, kernels, threads, dpus, tasklets, check)
    one_stdin(*data)
    sizes = [None if name == "-" else likely_rows(name) for name in data]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    with ExitStack() as stack, progress_bar(" rows", total) as progress:
        document = flow.run(
            [stack.enter_context(spool(name)) for name in data], stats,
            engine=engine, ddof=int(ddof), verify=verify, options=csv_of(**csv_args),
            progress=progress, told=note, report=reporter(timings),
            bounds=bounds, max_rows=max_rows, max_contributions=max_contributions,
            min_contributors=min_contributors, reveal=reveal, missing=missing, product=product, set_name=set_name,
            plain_moduli=moduli_of(plain_moduli), insecure=insecure,
        )  # fmt: skip
    put(document, output, force, as_json, data)
