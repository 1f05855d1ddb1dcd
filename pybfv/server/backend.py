"""What a backend is: the Python mirror of the backend part of host_c/include/bfv.h.

Three implementations: pybfv.native.Backend (C: "cpu"), server/reference.py (Python integers, the
definition) and server/noop.py (plaintexts). accumulate.py uses this interface and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pybfv.engine import Engine
from pybfv.study import Study


class Backend(Protocol):
    """Arrays of ciphertexts and exact accumulators; the types of arrays and accumulators are its own."""

    n: int
    primes: tuple[int, ...]

    def info(self) -> dict[str, Any]:
        """name, body, kernels, threads, dpus, tasklets; None where one does not apply."""

    def put(self, array: Any, borrow: bool = False) -> Any:
        """Takes ciphertexts [count, parts, L, N]; with ``borrow`` the source must stay unchanged until drop."""

    def get(self, array: Any, first: int = 0, count: int | None = None) -> Any:
        """Ciphertexts back, [count, parts, L, N]."""

    def drop(self, array: Any) -> None:
        """Frees an array."""

    def acc_new(self, kind: str, parts: int) -> Any:
        """A new accumulator, 0: kind "sum" with 2 or 3 parts, "product" with 3, or "scaled" with 3.

        "scaled": the tensor of the centred integers, over the integers, mod the primes and the backend's wide
        ones; its first L planes are those of "product".
        """

    def acc_drop(self, acc: Any) -> None:
        """Frees an accumulator."""

    def acc_add(self, acc: Any, arr: Any, first: int, stride: int, count: int) -> None:
        """acc += sum over k < count of arr[first + k stride]."""

    def acc_mul(self, acc: Any, a: Any, first_a: int, b: Any, first_b: int, stride: int, count: int) -> None:
        """acc += sum over k < count of the tensor a[first_a + k stride] (x) b[first_b + k stride]."""

    def acc_merge(self, acc: Any, other: Any) -> None:
        """acc += other."""

    def acc_save(self, acc: Any) -> Any:
        """The canonical state [parts, L, N]; of a scaled one [3, L + K, N]."""

    def acc_load(self, acc: Any, state: Any) -> None:
        """Replaces the state."""

    def acc_finish(self, acc: Any, factor: Sequence[int]) -> Any:
        """The accumulator times factor[i] mod p_i, as an array of one ciphertext; not for a scaled one."""

    def stats(self) -> dict[str, int]:
        """Counts of ciphertexts, products and bytes, and nanoseconds by where they went."""

    def events(self) -> list[dict[str, Any]]:
        """What was done on DPUs, where that is recorded."""

    def sync(self) -> None:
        """Waits for everything and reports the first error."""

    def close(self) -> None:
        """Frees the backend and what it owns."""


def opener(engine: Engine) -> Callable[[Study], Backend]:
    """What opens an engine's backend for a study."""
    return lambda study: engine.open(study.ps.n, study.ps.primes, study.wide)
