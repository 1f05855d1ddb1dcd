"""SEAL's side, through tenseal.sealapi: its add loop and its square-and-add loop."""

from __future__ import annotations

from math import log2, prod

import numpy as np
import tenseal.sealapi as seal

N = 4096
DEFAULT = "default"
LIKE = "109-bit"


class SealSide:
    """``count`` distinct fresh public-key ciphertexts at N = 4096; the messages repeat in turn.

    kind DEFAULT: SEAL's BFVDefault moduli for 128 bits, data level 72 bits. LIKE: a data level of 109
    bits like ours, from primes of 54 and 55 bits and one for key switching, security check off.
    """

    def __init__(self, kind: str, t: int, messages: np.ndarray, count: int) -> None:
        self.kind, self.count = kind, count
        parms = seal.EncryptionParameters(seal.SCHEME_TYPE.BFV)
        parms.set_poly_modulus_degree(N)
        if kind == DEFAULT:
            level = seal.SEC_LEVEL_TYPE.TC128
            moduli = seal.CoeffModulus.BFVDefault(N, level)
        else:
            level = seal.SEC_LEVEL_TYPE.NONE
            moduli = seal.CoeffModulus.Create(N, [54, 55, 60])
        parms.set_coeff_modulus(moduli)
        parms.set_plain_modulus(seal.Modulus(t))
        self.context = seal.SEALContext(parms, True, level)
        if not self.context.parameters_set():
            raise SystemExit(f"bench: SEAL refuses its parameters: {self.context.parameters_error_name()}")
        self.data_primes = [m.value() for m in moduli[:-1]]
        generator = seal.KeyGenerator(self.context)
        key = seal.PublicKey()
        generator.create_public_key(key)
        self.encryptor = seal.Encryptor(self.context, key)
        self.decryptor = seal.Decryptor(self.context, generator.secret_key())
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
        return 2 * len(self.data_primes) * N * 8

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

    def sum(self) -> seal.Ciphertext:
        """Adds all ciphertexts in a loop."""
        total = seal.Ciphertext()
        self.evaluator.add(self.ciphertexts[0], self.ciphertexts[1], total)
        add = self.evaluator.add_inplace
        for ct in self.ciphertexts[2:]:
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
