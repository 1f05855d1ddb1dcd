"""The group that every command joins."""

from __future__ import annotations

from typing import Any

import click

from pybfv import __version__
from pybfv.cli.options import EXIT_CODES
from pybfv.errors import UsageError


class KnownGroup(click.Group):
    """A group that answers an unknown command with the known ones."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise UsageError(f"unknown command {args[0]!r}; known are {', '.join(self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


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
