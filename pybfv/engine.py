"""Where and how to compute: the backends by name, opened for a ring and never replaced in silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pybfv import native
from pybfv.errors import BackendUnavailableError, UsageError, in_a_line

BACKENDS = ("cpu", "sim", "upmem", "auto")
AUTO = ("upmem", "cpu")
"""What auto tries, in this order; the result names the one that was taken."""
KERNELS = ("ntt", "limb")
MAX_DPUS = 4096


@dataclass(frozen=True)
class Engine:
    """Where and how to compute.

    ``backend``: cpu, sim (the functional simulator), upmem (real DPUs) or auto. ``kernels``: ntt or limb.
    ``threads``: of the cpu, 0 = all cores. ``dpus``, ``tasklets``: of sim and upmem; 0 = their defaults
    (64 simulated or all real DPUs, 16 tasklets). ``check``: of sim and upmem, how far the host checks what DPUs
    return: linear, full or none (native.Backend).
    """

    backend: str = "cpu"
    kernels: str = "ntt"
    threads: int = 0
    dpus: int = 0
    tasklets: int = 0
    check: str = native.CHECKS[0]

    def __post_init__(self) -> None:
        for name, known in (("backend", BACKENDS), ("kernels", KERNELS), ("check", native.CHECKS)):
            given = getattr(self, name)
            if not isinstance(given, str) or given not in known:
                shown = repr(given[:20]) if isinstance(given, str) else f"of type {type(given).__name__}"
                raise UsageError(f"unknown {name} {shown}; known are {', '.join(known)}")
        for name in ("threads", "dpus", "tasklets"):
            count = getattr(self, name)
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                shown = in_a_line(count) if isinstance(count, int) else f"of type {type(count).__name__}"
                raise UsageError(f"{name} is {shown}; it must be an integer from 0, which is the default")
        if self.backend == "cpu" and self.kernels == "limb":
            raise BackendUnavailableError(
                "the cpu backend has NTT kernels only; take the backend sim or upmem for limb"
            )
        if self.backend == "cpu" and (self.dpus or self.tasklets):
            raise UsageError("dpus and tasklets belong to the backends sim and upmem; leave them out")
        if self.backend == "cpu" and self.check != native.CHECKS[0]:
            raise UsageError("check belongs to the backends sim and upmem; leave it out")
        if self.backend in ("sim", "upmem") and self.threads:
            raise UsageError("threads belong to the backend cpu; leave them out")
        if self.dpus > MAX_DPUS:
            raise UsageError(f"dpus is {in_a_line(self.dpus)}; it can be 1 to {MAX_DPUS}, or all")

    def open(self, n: int, primes: Sequence[int], wide: Sequence[int] = ()) -> native.Backend:
        """Opens the backend for a ring, with wide primes for scaled products; never another one than asked for.

        BackendUnavailableError where it isn't there or can't serve the ring.
        """
        if self.backend != "auto":
            return self._open(self.backend, n, primes, wide)
        refused: list[str] = []
        only_dpus = self.dpus or self.tasklets or self.kernels == "limb"
        for name in AUTO[:1] if only_dpus else AUTO:
            try:
                return self._open(name, n, primes, wide)
            except BackendUnavailableError as e:
                refused.append(str(e))
        if only_dpus:
            refused.append("auto takes no cpu where DPUs, tasklets or limb kernels are asked for; see the backend sim")
        raise BackendUnavailableError("; ".join(refused))

    def _open(self, name: str, n: int, primes: Sequence[int], wide: Sequence[int]) -> native.Backend:
        if name == "cpu":
            return native.Backend(name, n, primes, kernels=self.kernels, wide=wide, threads=self.threads)
        where = {"dpus": self.dpus, "tasklets": self.tasklets}
        return native.Backend(name, n, primes, kernels=self.kernels, wide=wide, check=self.check, **where)


CPU = Engine()
