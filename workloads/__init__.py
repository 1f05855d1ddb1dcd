"""The statistics of pybfv, one file each; `pybfv.workload.discover` finds them by scanning."""
