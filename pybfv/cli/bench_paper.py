"""`pybfv bench paper`."""

from __future__ import annotations

import json

import click

from pybfv.cli.bench import bench
from pybfv.cli.options import EXIT_CODES, json_option
from pybfv.cli.tools import note, progress_bar


@bench.command("paper", epilog=EXIT_CODES)
@click.option("--quick", is_flag=True, help="Under a minute, less exact.")
@click.option(
    "--kernels", type=click.Choice(["both", "limb", "ntt"]), default="both", show_default=True,
    help="limb: the paper's method; ntt: ours.",
)  # fmt: skip
@click.option("-o", "--output", metavar="FOLDER", help="Write JSON, CSV, text and plots; a rerun continues there.")
@click.option("--force", is_flag=True, help="Start anew where the folder holds panels.")
@json_option
def paper_command(quick: bool, kernels: str, output: str | None, force: bool, as_json: bool) -> None:
    """The figures of the published system beside this CPU and SEAL, measured, and UPMEM hardware, modelled.

    \b
    Example:
      pybfv bench paper --quick -o figures
    """
    from pybfv.bench.paper import report, run

    scale = run.quick() if quick else run.whole()
    chosen = ["limb", "ntt"] if kernels == "both" else [kernels]
    with progress_bar(" steps", run.STEPS) as progress:
        document = run.measure(scale, chosen, output, force, progress, note)
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=True))
    else:
        click.echo(report.text(document))
