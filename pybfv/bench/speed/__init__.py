"""`pybfv bench speed`: every job of the CPU beside Microsoft SEAL, in turn in one process, results checked."""
