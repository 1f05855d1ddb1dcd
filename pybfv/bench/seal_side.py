"""SEAL's side, through tenseal.sealapi: its add loop and its square-and-add loop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import log2, prod

import numpy as np
import tenseal.sealapi as seal

N = 4096
DEFAULT = "default"
LIKE = "109-bit"
BGV = "BGV"


class SealSide:
    """``count`` distinct fresh public-key ciphertexts; the messages [rows, N] repeat in turn.

    kind DEFAULT: SEAL's BFVDefault moduli for 128 bits, at N = 4096 a data level of 72 bits. LIKE (N = 4096 only): a
    data level of 109 bits like ours, from primes of 54 and 55 bits and one for key switching, security check off.
    BGV: SEAL's other scheme, over the default moduli.
    """

    def __init__(self, kind: str, t: int, messages: np.ndarray, count: int) -> None:
        self.kind, self.t, self.count, self.n = kind, t, count, messages.shape[1]
        parms = seal.EncryptionParameters(seal.SCHEME_TYPE(3) if kind == BGV else seal.SCHEME_TYPE.BFV)
        parms.set_poly_modulus_degree(self.n)
        if kind == LIKE:
            level = seal.SEC_LEVEL_TYPE.NONE
            moduli = seal.CoeffModulus.Create(N, [54, 55, 60])
        else:
            level = seal.SEC_LEVEL_TYPE.TC128
            moduli = seal.CoeffModulus.BFVDefault(self.n, level)
        parms.set_coeff_modulus(moduli)
        parms.set_plain_modulus(seal.Modulus(t))
        self.context = seal.SEALContext(parms, True, level)
        if not self.context.parameters_set():
            raise SystemExit(f"bench: SEAL refuses its parameters: {self.context.parameters_error_name()}")
        self.relinearises = len(moduli) > 1
        """Whether there is a prime for key switching; it then is no part of the data level."""
        self.data_primes = [m.value() for m in (moduli[:-1] if self.relinearises else moduli)]
        self._generator = seal.KeyGenerator(self.context)
        key = seal.PublicKey()
        self._generator.create_public_key(key)
        self.encryptor = seal.Encryptor(self.context, key)
        self.encryptor.set_secret_key(self._generator.secret_key())
        self.decryptor = seal.Decryptor(self.context, self._generator.secret_key())
        self.evaluator = seal.Evaluator(self.context)
        self.encoder = seal.BatchEncoder(self.context)
        self.lists = messages.tolist()  # SEAL's encoder is slower from an array
        plains = [self._encoded(m) for m in self.lists]
        self.ciphertexts = [self._encrypted(plains[k % len(plains)]) for k in range(count)]

    @property
    def bits(self) -> float:
        """log2 of the data level's modulus."""
        return log2(prod(self.data_primes))

    @property
    def bytes(self) -> int:
        """Bytes of one ciphertext in memory."""
        return 2 * len(self.data_primes) * self.n * 8

    def _encoded(self, values: list[int]) -> seal.Plaintext:
        plain = seal.Plaintext()
        self.encoder.encode(values, plain)
        return plain

    def _encrypted(self, plain: seal.Plaintext) -> seal.Ciphertext:
        ct = seal.Ciphertext()
        self.encryptor.encrypt(plain, ct)
        return ct

    def encrypt(self) -> seal.Ciphertext:
        """Encodes and encrypts the first message."""
        return self._encrypted(self._encoded(self.lists[0]))

    def encrypt_symmetric(self) -> seal.Ciphertext:
        """Encodes and encrypts the first message under the secret key."""
        ct = seal.Ciphertext()
        self.encryptor.encrypt_symmetric(self._encoded(self.lists[0]), ct)
        return ct

    def keygen(self) -> seal.PublicKey:
        """A fresh key pair; its public key."""
        key = seal.PublicKey()
        seal.KeyGenerator(self.context).create_public_key(key)
        return key

    @cached_property
    def _circuit(self) -> tuple[seal.RelinKeys, seal.Ciphertext]:
        keys, product = seal.RelinKeys(), seal.Ciphertext()
        self._generator.create_relin_keys(keys)
        self.evaluator.multiply(self.ciphertexts[0], self.ciphertexts[1], product)
        return keys, product

    def relinearise(self) -> seal.Ciphertext:
        """The product of the first two to size 2."""
        keys, product = self._circuit
        out = seal.Ciphertext()
        self.evaluator.relinearize(product, keys, out)
        return out

    def multiply_relinearise(self) -> seal.Ciphertext:
        """The product of the first two, in size 2."""
        keys, _ = self._circuit
        out = seal.Ciphertext()
        self.evaluator.multiply(self.ciphertexts[0], self.ciphertexts[1], out)
        self.evaluator.relinearize_inplace(out, keys)
        return out

    def decrypt_only(self, ct: seal.Ciphertext) -> seal.Plaintext:
        """Decrypts; SEAL always decrypts all coefficients."""
        plain = seal.Plaintext()
        self.decryptor.decrypt(ct, plain)
        return plain

    def decrypt(self, ct: seal.Ciphertext) -> list[int]:
        """Decrypts and decodes all slots."""
        return self.encoder.decode_uint64(self.decrypt_only(ct))

    def budget(self, ct: seal.Ciphertext) -> int:
        """Bits of noise budget left."""
        return self.decryptor.invariant_noise_budget(ct)

    def sum(self, count: int | None = None) -> seal.Ciphertext:
        """Adds all ciphertexts, or the first ones, in a loop."""
        total = seal.Ciphertext()
        self.evaluator.add(self.ciphertexts[0], self.ciphertexts[1], total)
        add = self.evaluator.add_inplace
        for ct in self.ciphertexts[2:count]:
            add(total, ct)
        return total

    def squares(self, count: int, distinct: int) -> seal.Ciphertext:
        """Squares and adds ``count`` ciphertexts, ``distinct`` ones in turn; no relinearisation."""
        total, one = seal.Ciphertext(), seal.Ciphertext()
        square, add = self.evaluator.square, self.evaluator.add_inplace
        square(self.ciphertexts[0], total)
        for k in range(1, count):
            square(self.ciphertexts[k % distinct], one)
            add(total, one)
        return total

    def products(self, pairs: Sequence[tuple[int, int]], stride: int, groups: int) -> list[seal.Ciphertext]:
        """For each pair (a, b) the sum of ciphertext k stride + a times k stride + b over the groups k."""
        totals, one = [seal.Ciphertext() for _ in pairs], seal.Ciphertext()
        multiply, add, cts = self.evaluator.multiply, self.evaluator.add_inplace, self.ciphertexts
        for k in range(groups):
            for total, (a, b) in zip(totals, pairs, strict=True):
                multiply(cts[k * stride + a], cts[k * stride + b], one if k else total)
                if k:
                    add(total, one)
        return totals
