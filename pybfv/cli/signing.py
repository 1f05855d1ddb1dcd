"""The command that makes signing keys."""

from __future__ import annotations

import click

from pybfv.cli.group import cli
from pybfv.cli.options import EXIT_CODES
from pybfv.cli.tools import note


@cli.command("signkey", epilog=EXIT_CODES)
@click.option("-o", "--output", required=True, metavar="DIR", help="Folder for sign.key and verify.key.")
def signkey_command(output: str) -> None:
    """Make a pair of keys to sign files with: DIR/sign.key (mode 0600) and DIR/verify.key; never overwrites.

    Give verify.key to those who shall know your files, over a channel that proves it is yours.

    \b
    Example:
      pybfv signkey -o me
    """
    from pybfv.io.sign import SigningKey
    from pybfv.io.signing_keys import write_signing_pair

    key = SigningKey.generate()
    write_signing_pair(output, key)
    note(f"signer {key.signer}")
