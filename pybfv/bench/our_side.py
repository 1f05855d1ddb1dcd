"""Our side: distinct ciphertexts in memory, their sum and the sum of their squares."""

from __future__ import annotations

from fractions import Fraction
from math import log2

import numpy as np

from pybfv import native
from pybfv.client.keys import draw_secret
from pybfv.native.secret import Secret, round_phase
from pybfv.params import get_set, wide_primes
from pybfv.scheme import public
from pybfv.scheme.random import expand_uniform, fresh_seed

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
        self.ciphertexts = native.empty((count, 2, len(ps.primes), ps.n))
        scaled = [self.encoder.encode(m) for m in messages]
        for k in range(count):
            public.encrypt(self.ring, self.pk, scaled[k % len(scaled)], self.ciphertexts[k])
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
        return public.encrypt(self.ring, self.pk, self.encoder.encode(self.messages[0]))

    def decrypt(self, ct: np.ndarray) -> list[int]:
        """Decrypts and decodes all slots."""
        phase = self.secret.phase(ct)
        return self.encoder.decode_slots(round_phase(self.ring, phase, self.t, 0, self.n, _HALF))

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
