"""Our side: distinct ciphertexts in memory, their sum and the sum of their squares."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from math import log2

import numpy as np

from pybfv import evaluator as ev
from pybfv import native
from pybfv.native.secret import Secret, phase_slots, round_phase, wipe
from pybfv.params import get_set, wide_primes
from pybfv.scheme import public
from pybfv.scheme.keys import draw_secret
from pybfv.scheme.random import expand_uniform, fresh_seed
from pybfv.scheme.symmetric import SymmetricBatch

_HALF = Fraction(1, 2) - Fraction(1, 2**60)


class OurSide:
    """``count`` fresh public-key ciphertexts of a set; the messages (int64 [rows, N]) repeat in turn."""

    def __init__(self, set_name: str, t: int, messages: np.ndarray, count: int) -> None:
        ps = get_set(set_name)
        self.name, self.n, self.q, self.t, self.count = set_name, ps.n, ps.q, t, count
        self.ring = native.Ring(ps.n, ps.primes)
        s, e = draw_secret(ps.n)
        self.secret = Secret(self.ring, s)
        a = expand_uniform(self.ring, fresh_seed(), native.empty((len(ps.primes), ps.n)))
        self.pk = np.stack([self.secret.public(a, e), a])
        self.encoder = native.Encoder.batched(self.ring, [t])
        self.messages = messages
        self._public = public.BatchEncryptor(self.ring, self.pk)
        self._symmetric = SymmetricBatch(self.ring, self.secret)
        self._out: np.ndarray | None = None
        self.ciphertexts = native.empty((count, 2, len(ps.primes), ps.n))
        for k in range(0, count, len(messages)):
            some = self.ciphertexts[k : k + len(messages)]
            self._public.encrypt(self.encoder, self._rows(len(some)), some)
        wide = wide_primes(ps, count)
        self.lifter = native.Lifter(self.ring, wide)
        self.backend = native.Backend("cpu", ps.n, ps.primes, threads=1, wide=wide)
        self.array = self.backend.put(self.ciphertexts, borrow=True)

    @property
    def bits(self) -> float:
        """log2 q."""
        return get_set(self.name).log2_q

    @property
    def bytes(self) -> int:
        """Bytes of one ciphertext in memory."""
        return self.ciphertexts[0].nbytes

    def encrypt(self) -> np.ndarray:
        """Encodes and encrypts the first message."""
        return self.encrypt_pk()[0]

    def encrypt_pk(self, count: int = 1) -> np.ndarray:
        """Encodes and encrypts the first ``count`` messages under the public key, [count, 2, L, N]."""
        out = self._room(count, 2)
        return self._public.encrypt(self.encoder, self._rows(count), out)

    def encrypt_sym(self, count: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The same under the secret key: seeds of parts 1, uint8 [count, 32], and parts 0, [count, L, N]."""
        seeds, out = np.empty((count, 32), dtype=np.uint8), self._room(count, 1)[:, 0]
        self._symmetric.encrypt(self.encoder, self._rows(count), seeds, out)
        return seeds, out

    def _rows(self, count: int) -> list[np.ndarray]:
        return [self.messages[k % len(self.messages)] for k in range(count)]

    def _room(self, count: int, parts: int) -> np.ndarray:
        """Memory for results, the same from call to call, as SEAL's ciphertexts come from its pool."""
        if self._out is None or self._out.shape[:2] != (count, parts):
            self._out = native.empty((count, parts, len(self.ring.primes), self.n))
        return self._out

    def opened(self, seed: np.ndarray, half: np.ndarray) -> np.ndarray:
        """A symmetric ciphertext in full, [2, L, N]."""
        return np.stack([half, expand_uniform(self.ring, seed.tobytes(), native.empty(half.shape))])

    def keygen(self) -> np.ndarray:
        """A fresh key pair: its secret in the library's memory and thrown away; the public key, [2, L, N]."""
        s, e = draw_secret(self.n)
        pk = native.empty((2, len(self.ring.primes), self.n))
        expand_uniform(self.ring, fresh_seed(), pk[1])
        with Secret(self.ring, s) as secret:
            pk[0] = secret.public(pk[1], e)
        wipe(s)
        wipe(e)
        return pk

    @cached_property
    def _circuit(self) -> tuple[ev.Evaluator, ev.RelinKeys, ev.Ciphertext, ev.Ciphertext, ev.Ciphertext, ev.Decryptor]:
        context = ev.Context(self.name, t=self.t)
        keys, encoder, evaluator = ev.KeyGenerator(context), ev.BatchEncoder(context), ev.Evaluator(context)
        encryptor = ev.Encryptor(keys.public_key)
        a, b = (encryptor.encrypt(encoder.encode(m)) for m in self._rows(2))
        return evaluator, keys.relin_keys(), a, b, evaluator.multiply(a, b), ev.Decryptor(keys.secret_key)

    def relinearise(self) -> ev.Ciphertext:
        """The product of the first two messages to size 2."""
        evaluator, keys, _, _, product, _ = self._circuit
        return evaluator.relinearize(product, keys)

    def multiply_relinearise(self) -> ev.Ciphertext:
        """The first two messages' ciphertexts: their scaled product, in size 2."""
        evaluator, keys, a, b, _, _ = self._circuit
        return evaluator.relinearize(evaluator.multiply(a, b), keys)

    def product_slots(self, ct: ev.Ciphertext) -> list[int]:
        """What a ciphertext of the two above decrypts to."""
        return ev.BatchEncoder(ct.context).decode(self._circuit[-1].decrypt(ct))

    def decrypt(self, ct: np.ndarray) -> list[int]:
        """Decrypts and decodes all slots, to a list as SEAL's binding gives one."""
        return self.decrypt_slots(ct).tolist()

    def decrypt_slots(self, ct: np.ndarray) -> np.ndarray:
        """Decrypts and decodes all slots, an array [N]."""
        return phase_slots(self.ring, self.secret.phase(ct), self.encoder, _HALF)[0]

    def decrypt_one(self, ct: np.ndarray) -> int:
        """The phase, and its coefficient 0 decrypted: all that a total needs."""
        return round_phase(self.ring, self.secret.phase(ct), self.t, 0, 1, _HALF)[0]

    def budget(self, ct: np.ndarray) -> float:
        """Bits of noise budget left, as SEAL counts them: log2(q / (2 max |t phase mod q|)) over all coefficients."""
        phase = self.secret.phase(ct)
        q, inverse = self.q, {p: self.q // p * pow(self.q // p, -1, p) for p in self.ring.primes}
        lifted = sum(plane.astype(object) * inverse[p] for plane, p in zip(phase, self.ring.primes, strict=True))
        scaled = [int(x) * self.t % q for x in lifted]
        return log2(q) - 1 - log2(max(1, *(min(x, q - x) for x in scaled)))

    def sum(self) -> native.Acc:
        """Accumulates all ciphertexts."""
        acc = self.backend.acc_new("sum", 2)
        self.backend.acc_add(acc, self.array, 0, 1, self.count)
        self.backend.sync()
        return acc

    def squares(self) -> native.Acc:
        """Accumulates the squares of all ciphertexts."""
        acc = self.backend.acc_new("product", 3)
        self.backend.acc_mul(acc, self.array, 0, self.array, 0, 1, self.count)
        self.backend.sync()
        return acc

    def scaled_squares(self) -> native.Acc:
        """Accumulates the squares of all ciphertexts over the integers, as SEAL's product needs them."""
        acc = self.backend.acc_new("scaled", 3)
        self.backend.acc_mul(acc, self.array, 0, self.array, 0, 1, self.count)
        self.backend.sync()
        return acc

    def finish(self, acc: native.Acc) -> np.ndarray:
        """The ciphertext of an accumulator, [parts, L, N]."""
        if acc.kind == "scaled":
            return self.lifter.scale_round(self.backend.acc_save(acc), self.t)
        factor = self.t if acc.kind == "product" else 1
        array = self.backend.acc_finish(acc, [factor % p for p in self.ring.primes])
        return self.backend.get(array)[0]

    def slots(self, acc: native.Acc) -> list[int]:
        """What an accumulator holds, slot by slot mod t: finished and decrypted; scale-free, -q taken off."""
        undo = pow(-self.q, -1, self.t) if acc.kind == "product" else 1
        return [x * undo % self.t for x in self.decrypt(self.finish(acc))]
