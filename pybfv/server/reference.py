"""The backend that defines the others: accumulators as Python integers mod p, on the ring of ring.py.

Slow and exact: for small rings in tests. Values are those of the C backends bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pybfv.errors import UsageError
from pybfv.ring import Ring


class ReferenceBackend:
    """Implements server.backend.Backend; arrays are lists of ciphertexts of Python integers."""

    def __init__(self, n: int, primes: Sequence[int], wide: Sequence[int] = ()) -> None:
        self.n = n
        self.primes = tuple(primes)
        self.wide = tuple(wide)
        self._rings = (Ring(n, self.primes), Ring(n, self.primes + self.wide)) if wide else None

    def info(self) -> dict[str, Any]:
        """Names the backend; no threads or devices apply."""
        return {
            "name": "reference", "body": None, "kernels": "ntt", "threads": None, "dpus": None, "tasklets": None,
        }  # fmt: skip

    def put(self, array: np.ndarray, borrow: bool = False) -> list[Any]:
        """A copy of [count, parts, L, N] as nested lists; residues must be below their primes."""
        found = np.asarray(array).tolist()
        for ciphertext in found:
            for part in ciphertext:
                for p, plane in zip(self.primes, part, strict=True):
                    if not all(0 <= x < p for x in plane):
                        raise UsageError(f"a residue is not below its prime {p}")
        return found

    def get(self, array: list[Any], first: int = 0, count: int | None = None) -> np.ndarray:
        """[count, parts, L, N] as uint32."""
        last = len(array) if count is None else first + count
        return np.array(array[first:last], dtype=np.uint32)

    def drop(self, array: list[Any]) -> None:
        """Nothing to free."""

    def acc_new(self, kind: str, parts: int) -> list[Any]:
        """Zero, [parts][L][N]; of kind "scaled" [3][L + K][N]."""
        if kind == "scaled" and not self.wide:
            raise UsageError("a scaled accumulator needs wide primes")
        planes = self.primes + (self.wide if kind == "scaled" else ())
        return [[[0] * self.n for _ in planes] for _ in range(parts)]

    def acc_drop(self, acc: list[Any]) -> None:
        """Nothing to free."""

    def _add(self, acc: list[Any], part: int, x: list[list[int]]) -> None:
        primes = (self.primes + self.wide)[: len(x)]
        for plane, p, values in zip(acc[part], primes, x, strict=True):
            plane[:] = [(a + b) % p for a, b in zip(plane, values, strict=True)]

    def acc_add(self, acc: list[Any], arr: list[Any], first: int, stride: int, count: int) -> None:
        """acc += the selected ciphertexts, part by part."""
        for k in range(count):
            for part, x in enumerate(arr[first + k * stride]):
                self._add(acc, part, x)

    def acc_mul(
        self, acc: list[Any], a: list[Any], first_a: int, b: list[Any], first_b: int, stride: int, count: int
    ) -> None:
        """acc += (a0 b0, a0 b1 + a1 b0, a1 b1) for each pair; scaled: of the centred integers."""
        scaled = len(acc[0]) > len(self.primes)
        for k in range(count):
            for i, x in enumerate(self._wide(a[first_a + k * stride], scaled)):
                for j, y in enumerate(self._wide(b[first_b + k * stride], scaled)):
                    pairs = zip(x, y, strict=True)
                    self._add(acc, i + j, [[u * v for u, v in zip(*pair, strict=True)] for pair in pairs])

    def _wide(self, ciphertext: list[Any], scaled: bool) -> list[Any]:
        """The parts mod all primes, [2][L + K][N], of the centred integers when ``scaled``, else as they are."""
        if not scaled or self._rings is None:
            return ciphertext
        ring, full = self._rings
        return [full.to_ntt([ring.centred(x) for x in ring.from_ntt(part)]) for part in ciphertext]

    def acc_merge(self, acc: list[Any], other: list[Any]) -> None:
        """acc += other."""
        for part, x in enumerate(other):
            self._add(acc, part, x)

    def acc_save(self, acc: list[Any]) -> np.ndarray:
        """[parts, L, N], scaled [3, L + K, N], as uint32."""
        return np.array(acc, dtype=np.uint32)

    def acc_load(self, acc: list[Any], state: np.ndarray) -> None:
        """Replaces the state."""
        acc[:] = np.asarray(state).tolist()

    def acc_finish(self, acc: list[Any], factor: Sequence[int]) -> list[Any]:
        """The accumulator times factor[i] mod p_i; not for a scaled one."""
        scaled = [
            [[x * f % p for x in plane] for plane, f, p in zip(part, factor, self.primes, strict=True)] for part in acc
        ]
        return [scaled]

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
