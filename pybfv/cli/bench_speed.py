"""`pybfv bench speed` and `pybfv bench growth`."""

from __future__ import annotations

import json
from typing import Any

import click

from pybfv.cli.bench import bench
from pybfv.cli.options import EXIT_CODES, force_option, json_option
from pybfv.cli.tools import check_free, note
from pybfv.errors import BackendUnavailableError


def _write(document: dict[str, Any], text: str, output: str | None, force: bool, as_json: bool) -> None:
    from pybfv.io.atomic import atomic_output

    shown = json.dumps(document, indent=2) if as_json else text
    if output is None:
        click.echo(shown)
        return
    with atomic_output(output, force=force) as stream:
        stream.write(shown.encode() + b"\n")


@bench.command("speed", epilog=EXIT_CODES)
@click.option("--quick", is_flag=True, help="Under a minute, less exact, in memory only.")
@click.option("-o", "--output", metavar="FILE", help="Write there instead of on stdout.")
@force_option
@json_option
def speed_command(quick: bool, output: str | None, force: bool, as_json: bool) -> None:
    """Every job of the CPU beside Microsoft SEAL, in turn in one process; results of both are checked.

    \b
    Example:
      pybfv bench speed --quick --json -o speed.json
    """
    check_free(output, force)
    try:
        import tenseal.sealapi  # noqa: F401
    except ImportError:
        raise BackendUnavailableError(
            "Microsoft SEAL is not here to compare with: install the extra: pip install 'pybfv[seal]'"
        ) from None
    from pybfv.bench.speed import report, rows, run

    document = run.measure(rows.QUICK if quick else rows.WHOLE, note)
    _write(document, report.text(document), output, force, as_json)
    for name in run.missed(document):
        note(f"less than asked: {name}")


@bench.command("growth", epilog=EXIT_CODES)
@click.option("--quick", is_flag=True, help="Half a minute, smaller sizes.")
@click.option("--plot", metavar="FILE", help="Draw it too, as .svg or .png (extra: plots).")
@click.option("-o", "--output", metavar="FILE", help="Write there instead of on stdout.")
@force_option
@json_option
def growth_command(quick: bool, plot: str | None, output: str | None, force: bool, as_json: bool) -> None:
    """Time and memory of encrypt and compute against rows, contributors, columns, N and threads.

    \b
    Example:
      pybfv bench growth --quick --plot growth.svg
    """
    check_free(output, force)
    check_free(plot, force)
    from pybfv.bench import growth

    if plot is not None:
        growth.check_plot(plot)
    document = growth.measure(growth.QUICK if quick else growth.WHOLE, note)
    if plot is not None:
        growth.draw(document, plot, force)
    _write(document, growth.text(document), output, force, as_json)
