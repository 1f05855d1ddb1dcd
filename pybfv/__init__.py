"""pybfv: exact statistics on data encrypted under BFV, computed where the data lies.

pybfv.flow has the steps as functions, pybfv.params the parameter sets, pybfv.errors the refusals.
"""

__version__ = "0.1.0"
