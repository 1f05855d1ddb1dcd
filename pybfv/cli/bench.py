"""The group of measuring commands: each in a module of its own, which process.py imports."""

from __future__ import annotations

from pybfv.cli.group import KnownGroup, cli
from pybfv.cli.options import EXIT_CODES


@cli.group("bench", cls=KnownGroup, epilog=EXIT_CODES)
def bench() -> None:
    """Measure: on this machine, beside SEAL, and beside a published system."""
