"""Encryption and decryption of single plaintexts."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from pybfv import native
from pybfv.errors import DataError, UsageError
from pybfv.evaluator.arithmetic import RnsArithmetic
from pybfv.evaluator.keys import SecretKey
from pybfv.evaluator.objects import Ciphertext, Plaintext, PublicKey, frozen, same_context, same_key, same_kind
from pybfv.native.secret import round_phase, wipe
from pybfv.scheme import public
from pybfv.scheme.random import private_bytes

REFUSAL = "the ciphertext does not decrypt under this key: it is damaged, forged or was made with another key"
"""One message for every way in which decryption fails: how it failed would help an attacker."""


class Encryptor:
    """Encrypts under a public key, or with a secret key symmetrically (5 to 7 bits less noise).

    NoiseError when the parameters do not even carry a fresh ciphertext.
    """

    def __init__(self, key: PublicKey | SecretKey) -> None:
        if not isinstance(key, (PublicKey, SecretKey)):
            raise UsageError(f"an encryptor takes a public or a secret key, not {type(key).__name__}")
        self.key, self.context = key, key.context
        self.mode = "public" if isinstance(key, PublicKey) else "symmetric"
        self.noise = self.context.model.check(
            self.context.model.fresh(self.mode), "encrypt", "take a smaller t or a larger set"
        )

    def encrypt(self, plain: Plaintext) -> Ciphertext:
        """A fresh ciphertext of size 2 and factor 1. The message must not depend on earlier ciphertexts' randomness."""
        same_kind(plain, Plaintext, "encrypt")
        same_context(self.context, plain.context, "encrypt")
        arithmetic = self.context.arithmetic
        scaled = arithmetic.encoded(plain.coefficients)
        try:
            if isinstance(self.key, PublicKey):
                pk = np.ascontiguousarray(arithmetic.widen(self.key.polys))
                parts = arithmetic.narrow(public.encrypt(arithmetic.ring, pk, scaled))
            else:
                a = arithmetic.uniform()
                errors = private_bytes(native.error_bytes(self.context.n))
                c0 = self.key.secret.encrypt(np.ascontiguousarray(arithmetic.widen(a)), scaled, errors)
                wipe(errors)
                parts = np.stack([arithmetic.narrow(c0), a])
        finally:
            wipe(scaled)
        return Ciphertext(self.context, self.key.key_id, frozen(parts), 1, self.noise)


class Decryptor:
    """Decrypts with a secret key."""

    def __init__(self, key: SecretKey) -> None:
        same_kind(key, SecretKey, "decryptor")
        self.key, self.context = key, key.context

    def decrypt(self, ct: Ciphertext) -> Plaintext:
        """The message mod t; DataError when a coefficient's noise lies outside the ciphertext's bound.

        Moduli of more than 30 bits are rounded in Python integers, whose time may depend on their values.
        """
        same_kind(ct, Ciphertext, "decrypt")
        same_context(self.context, ct.context, "decrypt")
        same_key(self.key.key_id, ct.key_id, "decrypt")
        arithmetic, t = self.context.arithmetic, self.context.t
        bound = Fraction(ct.noise.largest)  # of the noise
        phase = self.key.secret.phase(np.ascontiguousarray(arithmetic.widen(ct.parts)))
        try:
            if isinstance(arithmetic, RnsArithmetic):
                found = round_phase(arithmetic.ring, phase, t, 0, self.context.n, bound * t / self.context.q, REFUSAL)
            else:
                found = self._round(arithmetic.narrow(arithmetic.ring.forward(phase)), bound)
        finally:
            wipe(phase)
        undo = pow(ct.factor, -1, t)
        return Plaintext(self.context, tuple(x * undo % t for x in found))

    def _round(self, phase: np.ndarray, bound: Fraction) -> list[int]:
        q, t, primes = self.context.q, self.context.t, self.context.moduli
        units = [q // p * pow(q // p, -1, p) for p in primes]
        joined = [sum(u * r for u, r in zip(units, column, strict=True)) % q for column in phase.T.tolist()]
        wipe(phase)
        limit, found = math.floor(bound * t), []
        for x in joined:
            x = x - q if x > q // 2 else x
            k = (2 * t * x + q) // (2 * q)
            if abs(t * x - q * k) > limit:
                raise DataError(REFUSAL)
            found.append(k % t)
        return found
