"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

EXIT_CODES = """\b
Exit codes: 0 done; 2 usage; 65 bad data or file; 66 input missing; 69 backend not available;
70 internal or verification failure; 73 output exists or can't be written; 77 key refused;
78 the plan can't be carried."""


class SpecCommand(click.Command):
    """A command whose help lists the statistics that are installed."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from pybfv.flow import workload_help

        with formatter.section("Statistics (SPEC)"):
            for syntax, _ in workload_help():
                formatter.write(f"  {syntax}\n")
            formatter.write('  Names with any of ,:~+^=*-" or blanks go in double quotes, " doubled.\n')
        super().format_epilog(ctx, formatter)


def options(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


csv_options = options(
    click.option("--no-header", is_flag=True, help="The first row is data; columns are called c1, c2, ..."),
    click.option("--delimiter", default=",", show_default=True, help="Between fields; \\t is a tab."),
    click.option("--decimal", default=".", show_default=True, help="Decimal mark of numbers."),
    click.option("--thousands", default=None, help="Mark between groups of three digits."),
    click.option("--encoding", default="utf-8", show_default=True, help="Of the file."),
)
plan_options = options(
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
compute_options = options(
    click.option("--backend", default="cpu", show_default=True, help="Where to compute: cpu, sim, upmem or auto."),
    click.option("--kernels", default="ntt", show_default=True, help="ntt, or limb: the paper's (sim and upmem)."),
    click.option("--threads", type=click.IntRange(0, 256), default=0, show_default=True, help="Of cpu; 0: all cores."),
    click.option("--dpus", metavar="N", help="DPUs of sim (else 64) or upmem (else all); a number or all."),
    click.option("--tasklets", type=click.IntRange(1, 24), metavar="T", help="Of each DPU, 1 to 24; else 16."),
    click.option(
        "--check",
        type=click.Choice(["linear", "full", "none"]),
        help="Of what DPUs return, by the host: at random points (the default), all of it, nothing.",
    ),
    click.option("--timings", is_flag=True, help="Say on stderr where the backend's time went."),
)
force_option = click.option("--force", is_flag=True, help="Overwrite the output.")
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
ddof_option = click.option(
    "--ddof", type=click.Choice(["0", "1"]), default="1", show_default=True,
    help="variance divides by n - ddof: 1 sample, 0 population.",
)  # fmt: skip
public_key_option = click.option(
    "--key", "key_path", metavar="PUBLIC.KEY", help="The public key; needed where totals are finished."
)
