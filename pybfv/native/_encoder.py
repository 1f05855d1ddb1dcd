"""Encoders: integers to scaled plaintexts round(q m / t) mod q, and slots back."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pybfv.errors import UsageError
from pybfv.native._lib import BFV, check, check_array, check_integer, empty, view, words_of
from pybfv.native._ring import Ring, prime_argument


def _index(value: Any) -> int:
    if isinstance(value, np.timedelta64):  # a time is no number, though NumPy derives it from integers
        raise TypeError
    return int(value) if isinstance(value, np.bool_) else operator.index(value)


class Encoder:
    """Made by ``Encoder.batched`` or ``Encoder.coefficients``; independent of the ring afterwards.

    ``t`` is the plaintext modulus, ``t_primes`` its primes, None for coefficients.
    """

    def __init__(self, ring: Ring, pointer: Any, t: int, t_primes: tuple[int, ...] | None) -> None:
        self._pointer = pointer
        self._close = weakref.finalize(self, BFV.lib.bfv_encoder_close, pointer)
        self.n = ring.n
        self.t = t
        self.t_primes = t_primes
        self.ring_primes = ring.primes
        self._shape = (len(ring.primes), ring.n)

    @classmethod
    def batched(cls, ring: Ring, t_primes: Sequence[int]) -> Encoder:
        """Value i in slot i; t < q is a product of distinct primes = 1 mod 2N below 2^30, none in q."""
        argument = prime_argument(t_primes, BFV.lib.BFV_MAX_T_PRIMES, "t_primes")
        out = BFV.ffi.new("bfv_encoder **")
        status = BFV.lib.bfv_encoder_open_batched(ring.pointer, argument, len(argument), out)
        check(
            status,
            "opening a batched encoder",
            argument=f"t = {' * '.join(map(str, t_primes))} can't batch: its primes must be distinct, 1 mod "
            f"{2 * ring.n}, below 2^30 and not in q, and t below q and 2^512",
        )
        primes = tuple(int(p) for p in t_primes)
        return cls(ring, out[0], prod(primes), primes)

    @classmethod
    def coefficients(cls, ring: Ring, t: int) -> Encoder:
        """Value i in coefficient i; any t, 2 <= t < q, t < 2^512, prime to q."""
        limit = BFV.lib.BFV_MAX_T_WORDS
        check_integer(t, 2, 2 ** (64 * limit) - 1, "t")
        words = view(BFV, "uint64_t[]", words_of([int(t)], limit, signed=False), "t")
        out = BFV.ffi.new("bfv_encoder **")
        status = BFV.lib.bfv_encoder_open_coefficients(ring.pointer, words, limit, out)
        check(
            status,
            "opening a coefficient encoder",
            argument=f"t = {t} can't be a plaintext modulus here: it must be below q and prime to q",
        )
        return cls(ring, out[0], int(t), None)

    @property
    def pointer(self) -> Any:
        """The C handle; UsageError once closed."""
        if not self._close.alive:
            raise UsageError("this encoder is closed: open another")
        return self._pointer

    def close(self) -> None:
        """Frees the encoder; closing twice is fine."""
        self._close()

    def __enter__(self) -> Encoder:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _numbers(self, values: np.ndarray | Sequence[int]) -> np.ndarray | list[int]:
        """The values as an int64 vector, or as ints where one does not fit."""
        if isinstance(values, np.ma.MaskedArray):
            raise UsageError("values must not be masked: fill the gaps first")
        if isinstance(values, np.ndarray) and values.ndim < 2 and values.dtype.kind in "biuO":
            values = values.reshape(-1)
            large = values.dtype.kind == "u" and values.size > 0 and int(values.max()) >= 1 << 63
            if values.dtype.kind == "O" or large:
                values = values.tolist()
            else:
                values = np.ascontiguousarray(values, dtype=np.int64)
        if isinstance(values, np.ndarray):
            return check_array(values, (None,), "values", np.int64)
        try:
            return [_index(v) for v in values]
        except TypeError:
            raise UsageError("values must be integers: scale them first") from None

    def _words(self, rows: Sequence[np.ndarray | Sequence[int]]) -> tuple[Any, int, int]:
        """A buffer of rows of values, words of each value, values of each row; UsageError when rows differ in length."""
        found = [self._numbers(values) for values in rows]
        count = len(found[0])
        if any(len(row) != count for row in found):
            raise UsageError(f"the vectors differ in length: {', '.join(str(len(row)) for row in found)}")
        if count > self.n:
            raise UsageError(f"{count} values don't fit into {self.n} places: use more ciphertexts")
        if all(isinstance(row, np.ndarray) for row in found):
            return found[0] if len(found) == 1 else np.stack(found), 1, count
        numbers = [int(v) for row in found for v in row]
        words = max((max(v, ~v).bit_length() for v in numbers), default=0) // 64 + 1  # a bit for the sign
        if words > BFV.lib.BFV_MAX_T_WORDS:
            # centred residues fit: t has at most eight words
            half = self.t // 2
            numbers = [(v + half) % self.t - half for v in numbers]
            words = BFV.lib.BFV_MAX_T_WORDS
        return words_of(numbers, words, signed=True), words, count

    def batch(self, rows: Sequence[np.ndarray | Sequence[int]], ring: Ring) -> tuple[Any, int, int]:
        """What C takes of one or more vectors of one length: a buffer, words of each value, values of a vector."""
        if not rows:
            raise UsageError("no vectors to encrypt: give at least one")
        if ring.n != self.n or ring.primes != self.ring_primes:
            raise UsageError("the encoder was made for another ring")
        return self._words(rows)

    def encode(self, values: np.ndarray | Sequence[int], out: np.ndarray | None = None) -> np.ndarray:
        """Up to N integers, mod t, scaled: [L, N] in coefficient form.

        A sequence, or an array with at most one dimension, of integers or booleans of any type, in any layout.

        Coefficients: exactly round(q m / t), ties towards minus infinity. Batched: within 2^-28 of it.
        """
        buffer, words, count = self._words([values])
        target = empty(self._shape) if out is None else check_array(out, self._shape, "out", write=True)
        source = view(BFV, "uint64_t[]", buffer, "values")
        into = view(BFV, "uint32_t[]", target, "out", write=True)
        check(BFV.lib.bfv_encode(self.pointer, source, words, count, into), "encoding")
        return target

    def decode_slots(self, m: Sequence[int]) -> list[int]:
        """The N slots, ints in [0, t), of a plaintext polynomial with N coefficients in [0, t)."""
        if self.t_primes is None:
            raise UsageError("this encoder has no slots: it puts values into coefficients")
        if len(m) != self.n or any(not 0 <= x < self.t for x in m):
            raise UsageError(f"a plaintext has {self.n} coefficients from 0 to t - 1")
        words = (self.t.bit_length() + 63) // 64
        source = view(BFV, "uint64_t[]", words_of(m, words, signed=False), "m")
        residues = empty((len(self.t_primes), self.n))
        into = view(BFV, "uint32_t[]", residues, "slots", write=True)
        check(BFV.lib.bfv_decode_slots(self.pointer, source, words, into), "decoding slots")
        return self.joined(residues)

    def joined(self, residues: np.ndarray, factor: int = 1) -> list[int]:
        """The slots in [0, t), times a factor, whose residues mod the primes of t are uint32 [primes of t, N].

        By mixed radix, x = d_1 + t_1 (d_2 + t_2 (d_3 + ...)): all slots at once while words hold the numbers,
        integers of any length last.
        """
        if self.t_primes is None:
            raise UsageError("this encoder has no slots: it puts values into coefficients")
        check_array(residues, (len(self.t_primes), self.n), "residues")
        digits: list[np.ndarray] = []
        below = 1  # the product of the primes before p
        for plane, p in zip(residues, self.t_primes, strict=True):
            prime = np.uint64(p)
            digit = plane.astype(np.uint64) * np.uint64(factor % p) % prime
            if digits:
                known = digits[-1] % prime
                for lower, q in zip(digits[-2::-1], self.t_primes[len(digits) - 2 :: -1], strict=False):
                    known = (known * np.uint64(q % p) + lower) % prime
                digit = (digit + prime - known) % prime * np.uint64(pow(below, -1, p)) % prime
            digits.append(digit)
            below *= p
        words: list[tuple[np.ndarray, int]] = []  # numbers and how many there are of them
        for digit, p in zip(digits[::-1], self.t_primes[::-1], strict=True):
            if words and words[-1][1] * p < 1 << 63:
                high, size = words.pop()
                words.append((high * np.uint64(p) + digit, size * p))
            else:
                words.append((digit, p))
        found = words[0][0].tolist()
        for word, size in words[1:]:
            found = [x * size + low for x, low in zip(found, word.tolist(), strict=True)]
        return found
