"""What an evaluator passes around: plaintexts, ciphertexts, public keys and relinearisation keys. None holds a secret.

All are immutable. Their `to_bytes` and `from_bytes` are in pybfv.evaluator.wire; pickling and copying go through these.
"""

from __future__ import annotations

import math
import operator
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from pybfv.errors import DataError, KeyRefusedError, PlanError, UsageError, in_a_line
from pybfv.evaluator import wire
from pybfv.evaluator.context import Context
from pybfv.evaluator.noise import Norms, Plain, measure_plain


def frozen(x: np.ndarray) -> np.ndarray:
    """x, no longer writable."""
    x.setflags(write=False)
    return x


def same_kind(x: Any, kind: type, what: str) -> None:
    """UsageError, with the step that is lacking, unless x is of a kind."""
    if not isinstance(x, kind):
        way = _STEPS.get((type(x).__name__, kind.__name__), "")
        way = way or _WAYS.get(kind.__name__, "")
        raise UsageError(f"{what}: a {kind.__name__} is needed, not {type(x).__name__}{way}")


_STEPS = {
    ("Ciphertext", "Plaintext"): "; decrypt it first",
    ("Plaintext", "Ciphertext"): "; encrypt it first",
    ("PublicKey", "SecretKey"): "; a public key only encrypts",
}


_WAYS = {
    "Context": '; make one with Context("n4096_q106", t=1032193)',
    "Plaintext": "; make one with an encoder's encode([...])",
    "RelinKeys": "; make them with a KeyGenerator's relin_keys()",
}


def whole(value: Any, name: str) -> int:
    """An integer of any type as Python's; UsageError for anything else."""
    try:
        if not isinstance(value, bool | np.bool_):
            return operator.index(value)
    except TypeError:
        pass
    raise UsageError(f"{name} must be an integer, not {type(value).__name__}")


def same_context(mine: Context, theirs: Context, what: str) -> None:
    """UsageError naming the parameter in which two contexts differ."""
    if mine is not theirs and (difference := mine.difference(theirs)):
        raise UsageError(f"{what}: the parameters differ: {difference}; use objects of one context")


def same_key(mine: str, theirs: str, what: str) -> None:
    """KeyRefusedError naming both keys when they differ."""
    if mine != theirs:
        raise KeyRefusedError(f"{what}: keys {mine} and {theirs} differ; use objects of one key pair")


def _shape_of(array: np.ndarray, context: Context, lead: tuple[int | None, ...], what: str) -> None:
    same_kind(context, Context, what)
    same_kind(array, np.ndarray, what)
    want = (*lead, len(context.moduli), context.n)
    fits = array.ndim == len(want) and all(w in (None, d) for w, d in zip(want, array.shape, strict=True))
    if not fits or array.dtype != context.arithmetic.dtype:
        shown = ", ".join("*" if w is None else str(w) for w in want)
        raise DataError(
            f"{what} must be {np.dtype(context.arithmetic.dtype)} [{shown}], not {array.dtype} {list(array.shape)}"
        )
    context.arithmetic.check(array, what)


class _Public(ABC):
    """Bytes, pickles and copies of an object without secrets."""

    kind: ClassVar[str]
    __array_ufunc__ = None  # a NumPy number on the left leaves an operator to us
    context: Context

    def to_bytes(self) -> bytes:
        """The object as bytes, its parameters and a checksum included."""
        return wire.dump(self.kind, *self._state())

    @classmethod
    def from_bytes(cls, data: bytes, context: Context | None = None) -> Any:
        """The object in bytes of `to_bytes`; UsageError when it is not of this context, if one is given.

        DataError for bytes that are damaged, cut, too long or of another kind, before anything large is made of them. A
        checksum protects against accidents, not against a sender who means harm: see docs/evaluator.md.
        """
        made = cls._from_state(*wire.load(cls.kind, data))
        if context is not None:
            same_kind(context, Context, "from_bytes")
            same_context(context, made.context, f"these bytes of a {cls.kind}")
        return made

    @abstractmethod
    def _state(self) -> tuple[Context, dict[str, Any], list[np.ndarray]]:
        """Context, further fields and arrays: what `wire.dump` writes."""

    @classmethod
    @abstractmethod
    def _from_state(cls, context: Context, fields: wire.Fields, payload: wire.Payload) -> Any:
        """The object of what `_state` gave."""

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return type(self).from_bytes, (self.to_bytes(),)


@dataclass(frozen=True, repr=False)
class Plaintext(_Public):
    """A polynomial mod t: n coefficients in [0, t), made by an encoder."""

    kind: ClassVar[str] = "plaintext"
    context: Context
    coefficients: tuple[int, ...]

    def __post_init__(self) -> None:
        same_kind(self.context, Context, "a plaintext")
        t = self.context.t
        if isinstance(self.coefficients, str | bytes) or not isinstance(self.coefficients, Sequence | np.ndarray):
            raise UsageError(f"a plaintext's coefficients must be integers, not {type(self.coefficients).__name__}")
        # Python's integers, and a tuple of them: NumPy's would wrap around in what follows
        numbers = tuple(_index(c, i) for i, c in enumerate(self.coefficients))
        if len(numbers) != self.context.n or not all(0 <= c < t for c in numbers):
            raise DataError(f"a plaintext has {self.context.n} coefficients from 0 to t - 1")
        object.__setattr__(self, "coefficients", numbers)

    def centred(self, factor: int = 1) -> list[int]:
        """The coefficients times ``factor``, mod t, in [-t/2, t/2)."""
        t = self.context.t
        half = t // 2
        return [(c * factor + half) % t - half for c in self.coefficients]

    @cached_property
    def norms(self) -> Plain:
        """The norms of the centred polynomial."""
        return measure_plain(self.centred())

    def __repr__(self) -> str:
        return f"Plaintext({self.context.parameters()})"

    def _state(self) -> tuple[Context, dict[str, Any], list[np.ndarray]]:
        size = (self.context.t.bit_length() + 7) // 8
        raw = b"".join(c.to_bytes(size, "little") for c in self.coefficients)
        return self.context, {}, [np.frombuffer(raw, dtype=np.uint8)]

    @classmethod
    def _from_state(cls, context: Context, fields: wire.Fields, payload: wire.Payload) -> Plaintext:
        fields.done()
        size = (context.t.bit_length() + 7) // 8
        raw = payload.array((context.n, size), np.uint8).tobytes()
        payload.done()
        return cls(context, tuple(int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)))


@dataclass(frozen=True, repr=False, eq=False)
class Ciphertext(_Public):
    """An encryption of factor times a message: 2 parts, or 3 after a product until `relinearize`.

    ``parts``: [size, L, n], read-only; uint32 in NTT form for primes = 1 mod 2n below 2^30, else uint64 in
    coefficient form. ``factor``: the unit mod t that decoding divides by. ``noise``: the bounds of docs/evaluator.md.
    It has no state that operations change: `+`, `-`, `*` and `sum` make new ones.
    """

    kind: ClassVar[str] = "ciphertext"
    context: Context
    key_id: str
    parts: np.ndarray
    factor: int
    noise: Norms

    @property
    def size(self) -> int:
        """Parts: 2 or 3."""
        return len(self.parts)

    def __repr__(self) -> str:
        return (
            f"Ciphertext({self.context.parameters()}, key={self.key_id}, size={self.size}, {self.parts.nbytes} bytes)"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ciphertext):
            return NotImplemented
        return (self.context, self.key_id, self.factor, self.noise) == (
            other.context, other.key_id, other.factor, other.noise
        ) and np.array_equal(self.parts, other.parts)  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.key_id, self.factor, zlib.crc32(self.parts)))

    def __add__(self, other: object) -> Ciphertext:
        if isinstance(other, Ciphertext):
            return _evaluator(self).add(self, other)
        return _evaluator(self).add_plain(self, _plain(other, "+"))

    def __radd__(self, other: object) -> Ciphertext:
        if isinstance(other, int) and other == 0:  # where sum() begins
            return self
        return self + other

    def __sub__(self, other: object) -> Ciphertext:
        if isinstance(other, Ciphertext):
            return _evaluator(self).sub(self, other)
        return _evaluator(self).sub_plain(self, _plain(other, "-"))

    def __rsub__(self, other: object) -> Ciphertext:
        return -self + _plain(other, "-")

    def __mul__(self, other: object) -> Ciphertext:
        if isinstance(other, Ciphertext):
            return _evaluator(self).multiply(self, other)
        return _evaluator(self).multiply_plain(self, _plain(other, "*"))

    def __rmul__(self, other: object) -> Ciphertext:
        return self * other

    def __neg__(self) -> Ciphertext:
        return _evaluator(self).negate(self)

    @classmethod
    def of_parts(
        cls, context: Context, key_id: str, parts: np.ndarray, *, factor: int = 1, noise: Norms | None = None
    ) -> Ciphertext:
        """A ciphertext that another library made: its parts in the form described above, checked.

        The caller vouches for factor and noise; without noise it counts as fresh, encrypted with the public key.
        """
        same_kind(context, Context, "of_parts")
        same_kind(key_id, str, "of_parts: key_id")
        if noise is not None:
            same_kind(noise, Norms, "of_parts: noise")
        parts, factor = np.array(parts, order="C"), whole(factor, "factor")
        _check_parts(context, parts)
        if math.gcd(factor, context.t) != 1:
            raise DataError("a ciphertext's factor must be a unit mod t")
        return cls(context, key_id, frozen(parts), factor % context.t, noise or context.model.fresh("public"))

    def _state(self) -> tuple[Context, dict[str, Any], list[np.ndarray]]:
        noise = self.noise
        fields = {
            "factor": self.factor,
            "key_id": self.key_id,
            "noise": [x.hex() for x in (noise.largest, noise.length, noise.keyed, noise.embedding)],
            "size": self.size,
        }
        return self.context, fields, [self.parts]

    @classmethod
    def _from_state(cls, context: Context, fields: wire.Fields, payload: wire.Payload) -> Ciphertext:
        key_id, factor = fields.key_id(), fields.unit("factor", context.t)
        noise, size = fields.noise("noise", context.model), fields.integer("size", 2, 3)
        fields.done()
        parts = payload.array((size, len(context.moduli), context.n), context.arithmetic.dtype)
        payload.done()
        _check_parts(context, parts)
        return cls(context, key_id, frozen(parts), factor, noise)


def _plain(other: object, sign: str) -> Plaintext:
    same_kind(other, Plaintext, f"ciphertext {sign} {type(other).__name__}")
    assert isinstance(other, Plaintext), "it was just looked at"
    return other


def _check_parts(context: Context, parts: np.ndarray) -> None:
    _shape_of(parts, context, (None,), "a ciphertext")
    if parts.shape[0] not in (2, 3):
        raise DataError(f"a ciphertext has 2 or 3 parts, not {parts.shape[0]}")
    if not parts[1].any() and not parts[-1].any():
        raise DataError("a ciphertext whose second part is zero hides nothing: it is damaged or was made wrongly")


def _evaluator(ct: Ciphertext) -> Any:
    from pybfv.evaluator.evaluate import Evaluator  # here: it is built on this module

    return Evaluator(ct.context)


@dataclass(frozen=True, repr=False, eq=False)
class PublicKey(_Public):
    """(p0, a) with p0 + a s = -e: whoever has it can encrypt. ``polys``: [2, L, n] as a ciphertext's parts."""

    kind: ClassVar[str] = "public key"
    context: Context
    key_id: str
    polys: np.ndarray

    def __repr__(self) -> str:
        return f"PublicKey({self.context.parameters()}, key={self.key_id})"

    def _state(self) -> tuple[Context, dict[str, Any], list[np.ndarray]]:
        return self.context, {"key_id": self.key_id}, [self.polys]

    @classmethod
    def _from_state(cls, context: Context, fields: wire.Fields, payload: wire.Payload) -> PublicKey:
        key_id = fields.key_id()
        fields.done()
        polys = payload.array((2, len(context.moduli), context.n), context.arithmetic.dtype)
        payload.done()
        return cls(context, key_id, frozen(polys))

    def __post_init__(self) -> None:
        _shape_of(self.polys, self.context, (2,), "a public key")
        same_kind(self.key_id, str, "a public key: key_id")
        if self.key_id != wire.key_identity(self.context, self.polys):
            raise DataError(
                f"key id {self.key_id[:40]!r} does not belong to this public key; take the key as it was made"
            )


@dataclass(frozen=True, repr=False, eq=False)
class RelinKeys(_Public):
    """What makes products of size 3 ciphertexts of size 2: an encryption of s^2 g_d for every digit d.

    ``polys``: [digits, 2, L, n]. ``digit_bits``: 0 where each residue is one digit, else the bits of its pieces.
    """

    kind: ClassVar[str] = "relinearisation keys"
    context: Context
    key_id: str
    digit_bits: int
    polys: np.ndarray

    def __post_init__(self) -> None:
        same_kind(self.context, Context, "relinearisation keys")
        same_kind(self.key_id, str, "relinearisation keys: key_id")
        digits = len(self.context.arithmetic.gadget(digit_size(self.digit_bits)))
        _shape_of(self.polys, self.context, (digits, 2), "relinearisation keys")

    @cached_property
    def widened(self) -> np.ndarray:
        """The keys as the arithmetic's `combine` takes them."""
        return frozen(self.context.arithmetic.widen_keys(self.polys))

    def __repr__(self) -> str:
        return f"RelinKeys({self.context.parameters()}, key={self.key_id}, digits={len(self.polys)})"

    def _state(self) -> tuple[Context, dict[str, Any], list[np.ndarray]]:
        return self.context, {"digit_bits": self.digit_bits, "key_id": self.key_id}, [self.polys]

    @classmethod
    def _from_state(cls, context: Context, fields: wire.Fields, payload: wire.Payload) -> RelinKeys:
        bits, key_id = fields.integer("digit_bits", 0, MAX_DIGIT_BITS), fields.key_id()
        try:
            digit_size(bits)
        except PlanError as error:
            raise DataError(f"bytes of {cls.kind}: {error}") from None
        fields.done()
        digits = len(context.arithmetic.gadget(bits))
        polys = payload.array((digits, 2, len(context.moduli), context.n), context.arithmetic.dtype)
        payload.done()
        return cls(context, key_id, bits, frozen(polys))


MIN_DIGIT_BITS, MAX_DIGIT_BITS = 4, 60
"""A piece of a residue has so many bits."""


def digit_size(bits: Any) -> int:
    """The bits of a piece, 0 for a whole residue; PlanError for others."""
    bits = whole(bits, "digit_bits")
    if bits != 0 and not MIN_DIGIT_BITS <= bits <= MAX_DIGIT_BITS:
        raise PlanError(
            f"digit_bits is {in_a_line(bits)}; give 0 (whole residues) or {MIN_DIGIT_BITS} to {MAX_DIGIT_BITS}"
        )
    return bits


def _index(value: Any, place: int) -> int:
    try:
        return int(value) if isinstance(value, np.bool_) else operator.index(value)
    except TypeError:
        raise UsageError(f"value {place} is {in_a_line(value)}; coefficients are integers") from None
