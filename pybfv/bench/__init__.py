"""Benchmarks beside Microsoft SEAL: `python -m pybfv.bench`, or `make bench`.

Every row is measured in one run on one thread; ratios are what to read, times belong to the machine.
"""
