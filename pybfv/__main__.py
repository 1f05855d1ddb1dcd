"""python -m pybfv."""

from pybfv.cli import entry

entry()
