"""Commands that only show: inspect, doctor."""

from __future__ import annotations

import json

import click

from pybfv.cli.group import cli
from pybfv.cli.options import EXIT_CODES, json_option, trust_option
from pybfv.cli.tools import trust_of
from pybfv.errors import DataError, PybfvError, UsageError
from pybfv.words import plain


@cli.command("inspect", epilog=EXIT_CODES)
@click.argument("file", metavar="FILE")
@trust_option
@json_option
def inspect_command(file: str, trusted: tuple[str, ...], as_json: bool) -> None:
    """Say what one of our files is: kind, version, study, key id, rows, statistics. Needs no key.

    \b
    Example:
      pybfv inspect data.bfvc
    """
    from pybfv.io.inspect import facts_and_study
    from pybfv.study import Study

    trust = trust_of(trusted)
    if trust is not None:
        from pybfv.io.container import verify_file

        if file == "-":
            raise UsageError("a signature is checked in a file, not in standard input; name one")
        verify_file(file, trust)
    found, study = facts_and_study(file)
    if "signer" in found:
        found["signature"] = "not checked" if trust is None else "good"
    try:
        Study(study)
    except PybfvError as error:
        raise DataError(f"{found['file']} holds no valid study: {error}") from None
    facts = {"schema_version": 1, **found}
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=True))
        return
    width = max(len(key) for key in facts)
    for key, value in facts.items():
        if key != "schema_version":
            click.echo(f"{key.replace('_', ' '):<{width}}  {plain(value)}")


@cli.command("doctor", epilog=EXIT_CODES)
@json_option
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
