"""Encoders: vectors of integers to plaintext polynomials mod t and back, exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pybfv import native
from pybfv.evaluator.context import Context, flag
from pybfv.evaluator.objects import Plaintext, same_context, same_kind
from pybfv.evaluator.values import values_of
from pybfv.ring import slot_map


def _decoded(numbers: list[int], t: int, signed: bool) -> list[int]:
    return [x - t if x > (t - 1) // 2 else x for x in numbers] if flag(signed, "signed") else numbers


class BatchEncoder:
    """Value i in slot i, in SEAL's order: sums and products of plaintexts are slot by slot, mod t.

    PlanError when t is not a product of distinct primes = 1 mod 2n below 2^30.
    """

    def __init__(self, context: Context) -> None:
        same_kind(context, Context, "BatchEncoder")
        self.context = context
        primes = context.t_primes
        self._ring = native.Ring(context.n, primes)
        self._order = np.array(slot_map(context.n))
        self._units = [context.t // p * pow(context.t // p, -1, p) for p in primes]

    @property
    def slots(self) -> int:
        """Slots of a plaintext: n."""
        return self.context.n

    def encode(self, values: Sequence[int] | np.ndarray) -> Plaintext:
        """Up to n whole numbers from -t/2 to t - 1; missing slots are 0. UsageError for others, naming the place.

        Lists and arrays of integers and booleans of any type, decimal text, Decimal, Fraction; floats below 2^53.
        """
        numbers = values_of(values, self.context)
        numbers += [0] * (self.context.n - len(numbers))
        x = native.empty((len(self._ring.primes), self.context.n))
        for plane, p in zip(x, self._ring.primes, strict=True):
            plane[self._order] = [v % p for v in numbers]
        return Plaintext(self.context, tuple(self._join(self._ring.inverse(x))))

    def decode(self, plain: Plaintext, signed: bool = False) -> list[int]:
        """The n slots in [0, t), or with ``signed`` in [-t/2, t/2)."""
        same_kind(plain, Plaintext, "decode")
        same_context(self.context, plain.context, "decode")
        x = native.empty((len(self._ring.primes), self.context.n))
        for plane, p in zip(x, self._ring.primes, strict=True):
            plane[:] = [c % p for c in plain.coefficients]
        slots = self._join(self._ring.forward(x)[:, self._order])
        return _decoded(slots, self.context.t, signed)

    def _join(self, residues: np.ndarray) -> list[int]:
        if len(residues) == 1:
            return residues[0].tolist()
        t = self.context.t
        return [sum(u * r for u, r in zip(self._units, column, strict=True)) % t for column in residues.T.tolist()]


class CoefficientEncoder:
    """Value i in coefficient i: sums are value by value, products those of polynomials mod X^n + 1. Any t."""

    def __init__(self, context: Context) -> None:
        same_kind(context, Context, "CoefficientEncoder")
        self.context = context

    def encode(self, values: Sequence[int] | np.ndarray) -> Plaintext:
        """Up to n whole numbers from -t/2 to t - 1, as `BatchEncoder.encode` takes them; missing coefficients are 0."""
        numbers = values_of(values, self.context)
        numbers += [0] * (self.context.n - len(numbers))
        return Plaintext(self.context, tuple(v % self.context.t for v in numbers))

    def decode(self, plain: Plaintext, signed: bool = False) -> list[int]:
        """The n coefficients in [0, t), or with ``signed`` in [-t/2, t/2)."""
        same_kind(plain, Plaintext, "decode")
        same_context(self.context, plain.context, "decode")
        return _decoded(list(plain.coefficients), self.context.t, signed)
