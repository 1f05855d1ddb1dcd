"""What stands in for a DPU's instructions: the assembly blocks of dpu/core, run and counted without an SDK."""
