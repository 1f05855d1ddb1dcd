"""We decrypt what SEAL encrypts, sums and multiplies, under SEAL's keys and ours."""

from __future__ import annotations

import numpy as np
import pytest
import tenseal.sealapi as seal
from ours import Keys, draw_secret, messages, negacyclic, slotwise
from sealio import DUMMY_PRIME, Judge

from pybfv import native
from pybfv.params import batching_primes, get_set
from pybfv.scheme import public


class Theirs:
    """A SEAL key pair and its secret as one of ours; slots where t is a batching prime, else coefficients."""

    def __init__(self, set_name: str, t: int, batched: bool) -> None:
        ps = get_set(set_name)
        self.n, self.t, self.batched = ps.n, t, batched
        self.judge = Judge(ps.n, ps.primes, t)
        generator = seal.KeyGenerator(self.judge.context)
        self.public = seal.PublicKey()
        generator.create_public_key(self.public)
        self.secret = generator.secret_key()
        self.encryptor = seal.Encryptor(self.judge.context, self.public, self.secret)
        self.keys = Keys(ps.n, ps.primes, self.judge.read_secret(self.secret))
        ring = self.keys.ring
        self.encoder = native.Encoder.batched(ring, [t]) if batched else native.Encoder.coefficients(ring, t)

    def encrypt(self, mode: str, values: list[int]) -> seal.Ciphertext:
        """SEAL's encryption of values it has encoded itself."""
        plain = self.judge.encode(values) if self.batched else self.judge.plaintext(values)
        ct = seal.Ciphertext()
        (self.encryptor.encrypt if mode == "public" else self.encryptor.encrypt_symmetric)(plain, ct)
        return ct

    def we_read(self, ct: seal.Ciphertext) -> list[int]:
        """What we find in it."""
        found = self.keys.decrypt(self.judge.read_ciphertext(ct), self.t)
        return self.encoder.decode_slots(found) if self.batched else found


SUMS = [
    ("n1024_q26", 12289, True, 2),
    ("n1024_q26", 256, False, 24),
    ("n2048_q53", 65537, False, 16),
    ("n2048_q53", batching_primes(2048)[-1], True, 16),
    ("n4096_q106", batching_primes(4096)[-1], True, 12),
    ("n4096_q106", 2**60 - 1, False, 12),
    ("n8192_q133", 1032193, True, 8),
    ("n8192_q214", 2**59, False, 8),
]


@pytest.mark.parametrize("mode", ["public", "symmetric"])
@pytest.mark.parametrize(("set_name", "t", "batched", "count"), SUMS)
def test_fresh_and_summed(set_name: str, t: int, batched: bool, count: int, mode: str) -> None:
    theirs = Theirs(set_name, t, batched)
    sent = messages(count, theirs.n, t, seed=count)
    cts = [theirs.encrypt(mode, m) for m in sent]
    assert theirs.we_read(cts[0]) == sent[0]
    total = seal.Ciphertext()
    theirs.judge.evaluator.add_many(cts, total)
    assert theirs.we_read(total) == [sum(x) % t for x in zip(*sent, strict=True)]


PRODUCTS = [
    ("n2048_q53", 12289, True),
    ("n2048_q53", 2**12, False),
    ("n4096_q106", 1032193, True),
    ("n4096_q106", 2**36, False),
    ("n8192_q133", batching_primes(8192)[-1], True),
    ("n8192_q214", 2**60 - 2, False),
]


@pytest.mark.parametrize("mode", ["public", "symmetric"])
@pytest.mark.parametrize(("set_name", "t", "batched"), PRODUCTS)
def test_seals_product(set_name: str, t: int, batched: bool, mode: str) -> None:
    """SEAL scales its products: they carry the factor 1. a b + c^2, three parts."""
    theirs = Theirs(set_name, t, batched)
    a, b, c = messages(3, theirs.n, t, seed=11)
    cts = [theirs.encrypt(mode, m) for m in (a, b, c)]
    product, square = seal.Ciphertext(), seal.Ciphertext()
    theirs.judge.evaluator.multiply(cts[0], cts[1], product)
    theirs.judge.evaluator.square(cts[2], square)
    theirs.judge.evaluator.add_inplace(product, square)
    assert product.size() == 3
    multiply = slotwise if batched else negacyclic
    assert theirs.we_read(product) == [x % t for x in multiply([a, c], [b, c])]


@pytest.mark.parametrize("set_name", ["n1024_q26", "n2048_q53", "n4096_q106", "n8192_q133", "n8192_q214"])
def test_seal_encrypts_under_our_public_key(set_name: str) -> None:
    """SEAL encrypts over one more prime and then drops it, so the key is made over that one too."""
    ps = get_set(set_name)
    s, _ = draw_secret(ps.n)
    wide, keys = Keys(ps.n, (*ps.primes, DUMMY_PRIME), s), Keys(ps.n, ps.primes, s)
    t = 12289 if ps.n < 4096 else 2**40
    judge = Judge(ps.n, ps.primes, t)
    (sent,) = messages(1, ps.n, t, seed=12)
    ct = seal.Ciphertext()
    seal.Encryptor(judge.context, judge.public(wide.pk)).encrypt(judge.plaintext(sent), ct)
    assert keys.decrypt(judge.read_ciphertext(ct), t) == sent


@pytest.mark.parametrize("set_name", ["n1024_q26", "n4096_q106", "n8192_q214"])
def test_we_encrypt_under_seals_public_key(set_name: str) -> None:
    theirs = Theirs(set_name, 12289 if set_name.startswith("n1024") else 2**40, False)
    ring, judge = theirs.keys.ring, theirs.judge
    (sent,) = messages(1, theirs.n, theirs.t, seed=13)
    key = np.ascontiguousarray(judge.read_public(theirs.public)[:, : len(ring.primes)])
    ct = public.encrypt(ring, key, theirs.encoder.encode(sent))
    plain = seal.Plaintext()
    seal.Decryptor(judge.context, theirs.secret).decrypt(judge.ciphertext(ct), plain)
    assert judge.read_plaintext(plain) == sent


def test_we_see_one_changed_message() -> None:
    theirs = Theirs("n4096_q106", 1032193, True)
    sent = messages(2, theirs.n, theirs.t, seed=14)
    expected = [sum(x) % theirs.t for x in zip(*sent, strict=True)]
    sent[0][9] = (sent[0][9] + 1) % theirs.t
    ct = theirs.encrypt("public", sent[0])
    theirs.judge.evaluator.add_inplace(ct, theirs.encrypt("public", sent[1]))
    found = theirs.we_read(ct)
    assert [i for i, (x, y) in enumerate(zip(found, expected, strict=True)) if x != y] == [9]
