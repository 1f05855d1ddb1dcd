"""Key generation, and the one object that holds a secret."""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

import numpy as np

from pybfv.errors import DataError, InternalError, UsageError
from pybfv.evaluator import wire
from pybfv.evaluator.context import Context
from pybfv.evaluator.objects import PublicKey, RelinKeys, digit_size, frozen, same_context, same_kind
from pybfv.native.secret import Secret, wipe
from pybfv.params import PRIME_BITS
from pybfv.scheme.keys import draw_error, draw_secret
from pybfv.scheme.noise import embeddings

WORD_DIGIT_BITS = 20
"""Pieces of a residue mod a prime of more than 30 bits, in relinearisation keys, unless asked otherwise."""


class SecretKey:
    """A secret key: decrypts everything encrypted under its public key.

    Kept in the library's locked memory and wiped by `close` (or at the end of a ``with`` block). It shows
    nothing but its key id, and pickling and copying are refused: `export` is the one way out.
    """

    def __init__(self, context: Context, key_id: str, s: np.ndarray) -> None:
        """s: n coefficients -1, 0 or 1, int8; the caller's to wipe."""
        same_kind(context, Context, "a secret key")
        self.context, self.key_id = context, key_id
        self._secret = Secret(context.arithmetic.ring, s)
        self._close = weakref.finalize(self, self._secret.close)

    @property
    def secret(self) -> Secret:
        """The library's handle; UsageError once closed."""
        if not self._close.alive:
            raise UsageError(f"secret key {self.key_id} is closed: make or restore it again")
        return self._secret

    def close(self) -> None:
        """Wipes the key; closing twice is fine."""
        self._close()

    def __enter__(self) -> SecretKey:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self._close.alive else ", closed"
        return f"SecretKey({self.context.parameters()}, key={self.key_id}{state})"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a secret key can't be pickled or copied; export() gives its bytes to whoever must keep them")

    def coefficients(self) -> np.ndarray:
        """The secret's n coefficients -1, 0, 1, int8: worth everything it protects, the caller's to wipe."""
        ring = self.context.arithmetic.ring
        x = np.zeros((2, len(ring.primes), self.context.n), dtype=np.uint32)
        x[1] = 1  # the polynomial 1 in NTT form: the phase of (0, 1) is s
        phase = self.secret.phase(x)
        residues = phase[0]  # in place, so that no copies are left
        residues += np.uint32(1)
        np.remainder(residues, np.uint32(ring.primes[0]), out=residues)
        s = residues.astype(np.int8)
        s -= np.int8(1)
        wipe(phase)
        return s

    def export(self) -> bytes:
        """The key as bytes, unencrypted: for a file that only its owner can read."""
        s = self.coefficients()
        try:
            return wire.dump("secret key", self.context, {"key_id": self.key_id}, [s])
        finally:
            wipe(s)

    @classmethod
    def restore(cls, data: bytes, context: Context | None = None) -> SecretKey:
        """The key in bytes of `export`; DataError for anything else, UsageError for another context's."""
        found, fields, payload = wire.load("secret key", data)
        key_id = fields.key_id()
        fields.done()
        s = payload.array((found.n,), np.int8)
        try:
            payload.done()
            if s.min() < -1 or s.max() > 1:
                raise DataError("bytes of a secret key: its coefficients are not -1, 0 or 1")
            if context is not None:
                same_kind(context, Context, "restore")
                same_context(context, found, "these bytes of a secret key")
            return cls(found, key_id, s)
        finally:
            wipe(s)


class KeyGenerator:
    """Draws a key pair for a context, from the operating system's randomness.

    The pair meets the published ceilings that noise bounds rely on (pybfv.scheme.noise), so about every second
    draw is thrown away. `secret_key` and `public_key` have one key id, which every ciphertext carries.
    """

    def __init__(self, context: Context) -> None:
        same_kind(context, Context, "KeyGenerator")
        self.context = context
        arithmetic = context.arithmetic
        s, e = draw_secret(context.n)
        try:
            a = arithmetic.uniform()
            with Secret(arithmetic.ring, s) as secret:
                p0 = arithmetic.narrow(secret.public(np.ascontiguousarray(arithmetic.widen(a)), e))
            polys = frozen(np.stack([p0, a]))
            self.public_key = PublicKey(context, wire.key_identity(context, polys), polys)
            self.secret_key = SecretKey(context, self.public_key.key_id, s)
        finally:
            wipe(s)
            wipe(e)

    def relin_keys(self, digit_bits: int | None = None) -> RelinKeys:
        """Keys to relinearise products with, drawn anew at each call.

        digit_bits: 0 makes each residue one digit (the default for primes below 2^30); 4 to 60 cut residues into
        pieces of so many bits (20 for larger primes), for less noise and more work and bytes.
        """
        return relin_keys(self.secret_key, digit_bits)


def relin_keys(key: SecretKey, digit_bits: int | None = None) -> RelinKeys:
    """`KeyGenerator.relin_keys` for a key that was restored."""
    same_kind(key, SecretKey, "relin_keys")
    context, arithmetic = key.context, key.context.arithmetic
    if digit_bits is None:
        digit_bits = 0 if max(context.moduli) < 2**PRIME_BITS else WORD_DIGIT_BITS
    digit_bits = digit_size(digit_bits)
    ring = arithmetic.ring
    square = np.zeros((3, len(ring.primes), context.n), dtype=np.uint32)
    square[2] = 1
    square_s = ring.forward(key.secret.phase(square))
    polys = []
    try:
        for g in arithmetic.gadget(digit_bits):
            a, e = arithmetic.uniform(), _bounded_error(context)
            masked = key.secret.public(np.ascontiguousarray(arithmetic.widen(a)), e)
            wipe(e)
            message = ring.mul_scalar(square_s, [g % p for p in ring.primes])
            ring.add(masked, message, masked)
            wipe(message)
            polys.append(np.stack([arithmetic.narrow(masked), a]))
    finally:
        wipe(square_s)
    return RelinKeys(context, key.key_id, digit_bits, frozen(np.stack(polys)))


def _bounded_error(context: Context) -> np.ndarray:
    """An error within the ceilings that the bounds on relinearisation rely on: practically every one is."""
    model = context.model
    for _ in range(10):
        e = draw_error(context.n)
        x = e.astype(np.float64)
        if embeddings(x).max() <= model.error_embedding**2 and float(x @ x) <= model.error_length**2:
            return e
        wipe(e)
    raise InternalError("no error within its bounds was drawn; report this as a defect")
