"""The command line: thin click commands over pybfv.flow. docs/cli.md is its contract.

stdout holds only the result; notes, progress and refusals go to stderr, a refusal in one line.
Imports that cost time are made inside the commands, so that --help stays quick.
"""

from pybfv.cli.group import cli
from pybfv.cli.options import EXIT_CODES
from pybfv.cli.process import entry, main

__all__ = ["EXIT_CODES", "cli", "entry", "main"]
