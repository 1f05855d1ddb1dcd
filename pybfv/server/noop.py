"""A backend without cryptography: "ciphertexts" are vectors of N plaintext integers.

It runs a workload's server part on plain values, so that a workload can be tested without keys. Its
accumulators hold sums and sums of products slot by slot, as exact integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class NoopBackend:
    """Implements the part of server.backend.Backend that accumulation uses."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.primes: tuple[int, ...] = ()

    def info(self) -> dict[str, Any]:
        """Names the backend; nothing else applies."""
        return {
            "name": "noop", "body": None, "kernels": None, "threads": None, "dpus": None, "tasklets": None,
        }  # fmt: skip

    def put(self, array: Sequence[Sequence[int]], borrow: bool = False) -> list[list[int]]:
        """[count][N] integers."""
        return [list(map(int, vector)) for vector in array]

    def get(self, array: list[list[int]], first: int = 0, count: int | None = None) -> list[list[int]]:
        """[count][N] integers."""
        return array[first : len(array) if count is None else first + count]

    def drop(self, array: list[list[int]]) -> None:
        """Nothing to free."""

    def acc_new(self, kind: str, parts: int) -> list[int]:
        """Zero in every slot."""
        return [0] * self.n

    def acc_drop(self, acc: list[int]) -> None:
        """Nothing to free."""

    def acc_add(self, acc: list[int], arr: list[list[int]], first: int, stride: int, count: int) -> None:
        """acc += the selected vectors."""
        for k in range(count):
            acc[:] = [a + x for a, x in zip(acc, arr[first + k * stride], strict=True)]

    def acc_mul(
        self, acc: list[int], a: list[Any], first_a: int, b: list[Any], first_b: int, stride: int, count: int
    ) -> None:
        """acc += the products of the selected pairs, slot by slot."""
        for k in range(count):
            pairs = zip(acc, a[first_a + k * stride], b[first_b + k * stride], strict=True)
            acc[:] = [s + x * y for s, x, y in pairs]

    def acc_merge(self, acc: list[int], other: list[int]) -> None:
        """acc += other."""
        acc[:] = [x + y for x, y in zip(acc, other, strict=True)]

    def acc_save(self, acc: list[int]) -> list[int]:
        """The slots."""
        return list(acc)

    def acc_load(self, acc: list[int], state: Sequence[int]) -> None:
        """Replaces the state."""
        acc[:] = state

    def acc_finish(self, acc: list[int], factor: Sequence[int]) -> list[list[int]]:
        """The slots as an array of one vector; plaintexts carry no factor."""
        return [list(acc)]

    def stats(self) -> dict[str, int]:
        """Nothing is counted."""
        return {}

    def events(self) -> list[dict[str, Any]]:
        """Nothing is recorded."""
        return []

    def sync(self) -> None:
        """Nothing is pending."""

    def close(self) -> None:
        """Nothing to free."""
