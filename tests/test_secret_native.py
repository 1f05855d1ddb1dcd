"""The binding of bfv_secret.h against Python integers: keys, phases, exact rounding at its bound."""

from __future__ import annotations

import copy
import pickle
import random
from fractions import Fraction
from itertools import islice
from math import prod

import numpy as np
import pytest

from pybfv import native
from pybfv.errors import DataError, InternalError, UsageError
from pybfv.native import secret as secret_binding
from pybfv.native.secret import Secret, round_phase, wipe
from pybfv.params import SETS
from pybfv.ring import Ring as Reference
from pybfv.ring import is_prime, negacyclic

Q430 = SETS["n16384_q430"].primes
TOY = (17, 97, 113)
CASES = [(2, (5, 13)), (8, TOY), (64, Q430[:2]), (64, Q430[:5])]


class Key:
    """A ring with a key pair, drawn from a seeded generator, and the same in Python integers."""

    def __init__(self, n: int, primes: tuple[int, ...]) -> None:
        self.rng = random.Random(n + len(primes))
        self.reference, self.ring = Reference(n, primes), native.Ring(n, primes)
        self.n, self.primes, self.q = n, primes, prod(primes)
        self.s = [self.rng.choice((-1, 0, 1)) for _ in range(n)]
        self.e = [self.rng.choice((-21, 21, self.rng.randrange(-21, 22))) for _ in range(n)]
        self.secret = Secret(self.ring, np.array(self.s, dtype=np.int8))

    def uniform(self) -> np.ndarray:
        rows = [[self.rng.choice((0, p - 1, self.rng.randrange(p))) for _ in range(self.n)] for p in self.primes]
        return np.array(rows, dtype=np.uint32)

    def integers(self, x: np.ndarray) -> list[int]:
        """Coefficient form to integers mod q."""
        return [self.reference.crt(column) for column in x.T.tolist()]

    def coefficients(self, x: np.ndarray) -> list[int]:
        """NTT form to integers mod q."""
        return self.integers(self.ring.inverse(x.copy()))

    def times_s(self, a: list[int]) -> list[int]:
        return negacyclic(a, self.s)


@pytest.fixture(params=CASES, ids=lambda c: f"{c[0]}-{len(c[1])}")
def key(request) -> Key:
    return Key(*request.param)


def test_public_key(key: Key) -> None:
    a = key.uniform()
    found = key.coefficients(key.secret.public(a, np.array(key.e, dtype=np.int8)))
    product = key.times_s(key.coefficients(a))
    assert found == [-(x + y) % key.q for x, y in zip(product, key.e, strict=True)]


def test_symmetric_encryption(key: Key) -> None:
    a, m = key.uniform(), key.uniform()
    rnd = key.rng.randbytes(native.error_bytes(key.n))
    e = native.sample_error(key.n, rnd).tolist()
    product = key.times_s(key.coefficients(a))
    for plain, message in ((m, key.integers(m)), (None, [0] * key.n)):
        found = key.coefficients(key.secret.encrypt(a, plain, rnd))
        want = [(u + v - w) % key.q for u, v, w in zip(e, message, product, strict=True)]
        assert found == want


def test_phase(key: Key) -> None:
    ct = np.stack([key.uniform() for _ in range(3)])
    c = [key.coefficients(x) for x in ct]
    linear = key.times_s(c[1])
    square = key.times_s(key.times_s(c[2]))
    two = [(x + y) % key.q for x, y in zip(c[0], linear, strict=True)]
    three = [(x + y) % key.q for x, y in zip(two, square, strict=True)]
    assert key.integers(key.secret.phase(ct[:2])) == two
    assert key.integers(key.secret.phase(ct)) == three
    out = native.empty((len(key.primes), key.n))
    assert key.secret.phase(ct, out) is out
    assert key.integers(out) == three


def test_fresh_ciphertexts_decrypt() -> None:
    key = Key(64, Q430[:4])
    a = key.uniform()
    pk = np.stack([key.secret.public(a, np.array(key.e, dtype=np.int8)), a])
    values = [key.rng.randrange(-(2**30), 2**30) for _ in range(64)]
    with native.Encoder.coefficients(key.ring, 2**31 + 11) as encoder:
        m = encoder.encode(values)
        ct = key.ring.encrypt_public(pk, m, key.rng.randbytes(key.ring.encrypt_bytes(2)))
        zero = key.ring.encrypt_zero3(pk, key.rng.randbytes(key.ring.encrypt_bytes(3)))
        zero[:2] = key.ring.add(zero[:2], ct)
        for found in (ct, zero):
            phase = key.secret.phase(found)
            assert round_phase(key.ring, phase, encoder.t, 0, 64, Fraction(1, 8)) == [v % encoder.t for v in values]
        # the zero is one: its phase is small, e0 + e1 s + e2 s^2 - e u1 - e s u2
        noise = [x - key.q if 2 * x > key.q else x for x in key.integers(key.secret.phase(zero))]
        scaled = [x - key.q if 2 * x > key.q else x for x in key.integers(m)]
        assert max(abs(x - y) for x, y in zip(noise, scaled, strict=True)) < 21 * (2 + 64 * 2 + 2 * 64 * 64)


# rounding


def exact(x: int, t: int, q: int) -> tuple[int, Fraction]:
    """round(t x/q) mod t and |t x/q - round(t x/q)|; q is odd, so there is no tie."""
    rounded = (2 * t * x + q) // (2 * q)
    return rounded % t, abs(Fraction(t * x, q) - rounded)


def phase_of(primes: tuple[int, ...], xs: list[int]) -> np.ndarray:
    return np.array([[x % p for x in xs] for p in primes], dtype=np.uint32)


def test_rounding_over_all_phases_of_a_toy_ring() -> None:
    """Every x mod q, every t: message and decision, at bounds on both sides of every residual."""
    primes = (97,)
    with native.Ring(16, primes) as ring:
        for t in range(2, 97):
            phases = phase_of(primes, [*range(97), *([0] * 15)])
            for k in range(0, 112, 16):
                block = np.ascontiguousarray(phases[:, k : k + 16])
                xs = block[0].tolist()
                want = [exact(x, t, 97) for x in xs]
                worst = max(residual for _, residual in want)
                units = worst * 2**64
                top = units.numerator // units.denominator
                enough = top if top == units else top + 1
                assert round_phase(ring, block, t, 0, 16, enough) == [m for m, _ in want]
                if enough:
                    with pytest.raises(DataError):
                        round_phase(ring, block, t, 0, 16, enough - 1)


def moduli(q: int) -> list[int]:
    rng = random.Random(q)
    limit = min(q.bit_length() - 1, 512)
    found = [2, 3, 4, 97, 2**16, 65537, 2**31 - 1, 10**18, 2**64 - 59, 2**64, 2**64 + 1, 2**128 + 51, 2**200]
    found += [
        2**200 - 75,
        (1 << limit) - 1,
        1 << (limit - 1),
        *(rng.getrandbits(limit) | 2 for _ in range(3)),
    ]
    return [t for t in found if 2 <= t < q]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 16])
def test_rounding_decides_exactly(count: int) -> None:
    """Phases whose residual k/q is the last one inside the bound, and the first one outside."""
    primes = Q430[:count]
    q = prod(primes)
    rng = random.Random(count)
    with native.Ring(16, primes) as ring:
        for t in moduli(q):
            inverse = pow(t, -1, q) if all(t % p for p in primes) else None
            xs = [0, 1, q - 1, q // 2, q // 2 + 1, *(q * m // t for m in (1, t // 2, t - 1))]
            xs += [rng.randrange(q) for _ in range(16 - len(xs))]
            near = [(q * rng.randrange(t)) // t + rng.randrange(-3, 4) for _ in range(16)]
            for group in (xs, [x % q for x in near]):
                want = [exact(x, t, q) for x in group]
                phase = phase_of(primes, group)
                for k, (m, residual) in enumerate(want):
                    if residual < Fraction(1, 2) - Fraction(1, 2**60):
                        bound = Fraction(int(residual * 2**64) + 1, 2**64)
                        assert round_phase(ring, phase, t, k, 1, bound) == [m]
                    scaled = residual * 2**64
                    if scaled.denominator != 1:
                        with pytest.raises(DataError):
                            round_phase(ring, phase, t, k, 1, scaled.numerator // scaled.denominator)
            if inverse is None:
                continue
            for bound in (0, 1, 2**32, 2**63 - 1, rng.getrandbits(63)):
                last = bound * q // 2**64  # k/q <= bound/2^64
                for k in (last, -last):
                    x = k * inverse % q
                    m, residual = exact(x, t, q)
                    assert residual == Fraction(abs(k), q)
                    phase = phase_of(primes, [x] * 16)
                    assert round_phase(ring, phase, t, 3, 2, bound) == [m, m]
                for k in (last + 1, -last - 1):
                    if 2 * abs(k) < q:
                        phase = phase_of(primes, [0] * 7 + [k * inverse % q] + [0] * 8)
                        with pytest.raises(DataError):
                            round_phase(ring, phase, t, 0, 16, bound)
                        assert round_phase(ring, phase, t, 0, 7, bound) == [0] * 7


def test_rounding_at_the_largest_sizes() -> None:
    primes = tuple(islice((p for p in range(2**30 - 31, 2**29, -32) if is_prime(p)), 24))
    q = prod(primes)
    assert q.bit_length() == 720
    rng = random.Random(1)
    with native.Ring(16, primes) as ring:
        for t in (2**512 - 1, 2**511, 2**448 + 1, 2):
            inverse = pow(t, -1, q)
            for bound in (2**63 - 1, 12345):
                last = bound * q // 2**64
                ks = [last, -last, *(rng.randrange(-last, last + 1) for _ in range(14))]
                xs = [k * inverse % q for k in ks]
                assert round_phase(ring, phase_of(primes, xs), t, 0, 16, bound) == [exact(x, t, q)[0] for x in xs]
                xs[5] = (last + 1) * inverse % q
                with pytest.raises(DataError):
                    round_phase(ring, phase_of(primes, xs), t, 0, 16, bound)


def test_noise_refusal_tells_nothing_more() -> None:
    with native.Ring(8, TOY) as ring:
        phase = phase_of(TOY, [1, 50, 3, 4, 5, 6, 7, 8])
        with pytest.raises(DataError, match=r"^no\.$"):
            round_phase(ring, phase, 10, 0, 8, 0, "no.")
        with pytest.raises(DataError) as caught:
            round_phase(ring, phase, 10, 0, 8, 0)
        assert not any(c.isdigit() for c in str(caught.value))


# refusals


def test_c_checks_its_own_arguments() -> None:
    """The C functions, called past the wrappers: a status, and outputs unchanged."""
    lib, ffi = secret_binding._SECRET.lib, secret_binding._SECRET.ffi
    null, wrong = ffi.NULL, -1
    with native.Ring(8, TOY) as ring, Secret(ring, np.zeros(8, dtype=np.int8)) as secret:
        r, k = secret_binding._ring_pointer(ring), secret._pointer
        small, rnd, spare = ffi.new("int8_t[8]"), ffi.new("uint8_t[48]"), ffi.new("bfv_secret **")
        a, out = ffi.new("uint32_t[96]"), ffi.new("uint32_t[24]", [7] * 24)
        t, m = ffi.new("uint64_t[9]", [10] + [0] * 8), ffi.new("uint64_t[72]", [7] * 72)
        for status in (
            lib.bfv_secret_open(null, small, spare),
            lib.bfv_secret_open(r, null, spare),
            lib.bfv_secret_open(r, small, null),
            lib.bfv_secret_public(null, a, small, out),
            lib.bfv_secret_public(k, null, small, out),
            lib.bfv_secret_public(k, a, null, out),
            lib.bfv_secret_public(k, a, small, null),
            lib.bfv_secret_encrypt(null, a, null, rnd, 48, out),
            lib.bfv_secret_encrypt(k, null, null, rnd, 48, out),
            lib.bfv_secret_encrypt(k, a, null, null, 48, out),
            lib.bfv_secret_encrypt(k, a, null, rnd, 48, null),
            lib.bfv_secret_phase(null, a, 2, out),
            lib.bfv_secret_phase(k, null, 2, out),
            lib.bfv_secret_phase(k, a, 1, out),
            lib.bfv_secret_phase(k, a, 4, out),
            lib.bfv_secret_phase(k, a, 2, null),
            lib.bfv_secret_round(null, a, t, 1, 0, 8, 1, m),
            lib.bfv_secret_round(r, null, t, 1, 0, 8, 1, m),
            lib.bfv_secret_round(r, a, null, 1, 0, 8, 1, m),
            lib.bfv_secret_round(r, a, t, 0, 0, 8, 1, m),
            lib.bfv_secret_round(r, a, t, 9, 0, 8, 1, m),
            lib.bfv_secret_round(r, a, t, 1, 9, 0, 1, m),
            lib.bfv_secret_round(r, a, t, 1, 1, 8, 1, m),
            lib.bfv_secret_round(r, a, t, 1, 1, 2**32 - 1, 1, m),
            lib.bfv_secret_round(r, a, t, 1, 0, 8, 2**63, m),
            lib.bfv_secret_round(r, a, t, 1, 0, 8, 1, null),
        ):
            assert status == wrong
        assert list(out) == [7] * 24
        assert list(m) == [7] * 72
        assert spare[0] == null
        # refused for noise: zeroed, to the last word and no further
        a[1] = 8
        assert lib.bfv_secret_round(r, a, t, 8, 0, 8, 1, m) == -6
        assert list(m) == [0] * 64 + [7] * 8
        lib.bfv_secret_close(null)
        lib.bfv_wipe(null, 0)


def test_refusals() -> None:
    ring = native.Ring(8, TOY)
    s, e = np.array([1, 0, -1, 0, 1, 1, 0, -1], dtype=np.int8), np.zeros(8, dtype=np.int8)
    a, ct = np.zeros((3, 8), dtype=np.uint32), np.zeros((2, 3, 8), dtype=np.uint32)
    for k, v in ((0, 2), (7, -2), (3, 127), (3, -128)):
        bad = s.copy()
        bad[k] = v
        with pytest.raises(UsageError, match="-1, 0 or 1"):
            Secret(ring, bad)
    for bad in (s[:7], s.astype(np.int64), s.tolist(), np.zeros(16, dtype=np.int8)[::2]):
        with pytest.raises(UsageError):
            Secret(ring, bad)
    with Secret(ring, s) as secret:
        for k, v in ((0, 22), (7, -22), (7, -128), (7, 127)):
            bad = e.copy()
            bad[k] = v
            with pytest.raises(UsageError, match="-21 to 21"):
                secret.public(a, bad)
        high = a.copy()
        high[1, 5] = 97
        with pytest.raises(DataError, match="not below its prime"):
            secret.public(high, e)
        rnd = bytes(48)
        for arguments in ((high, None), (a, high)):
            with pytest.raises(DataError):
                secret.encrypt(*arguments, rnd)
        with pytest.raises(InternalError, match="did not suffice"):
            secret.encrypt(a, None, rnd[:-1])
        with pytest.raises(DataError):
            secret.phase(np.stack([a, high]))
        for bad in (
            ct[:1],
            np.zeros((4, 3, 8), dtype=np.uint32),
            ct[0],
            ct.astype(np.int32),
            ct[..., :4],
            None,
        ):
            with pytest.raises(UsageError):
                secret.phase(bad)
        with pytest.raises(UsageError, match="overlap"):
            secret.phase(ct, ct[0])
        with pytest.raises(UsageError):
            secret.encrypt(a[:2], None, rnd)
        with pytest.raises(UsageError):
            secret.public(a, e[:4])
        with pytest.raises(DataError, match="not below its prime"):
            round_phase(ring, high, 10, 0, 8, 1)
        assert round_phase(ring, high, 10, 0, 5, 1) == [0] * 5
        assert round_phase(ring, a, 10, 8, 0, 1) == []
        q = prod(TOY)
        for t, first, count, bound in (
            (1, 0, 8, 1),
            (q, 0, 8, 1),
            (2**512, 0, 8, 1),
            (10, 0, 9, 1),
            (10, 9, 0, 1),
            (10, -1, 2, 1),
            (10, 0, 8, 2**63),
            (10, 0, 8, Fraction(1, 2)),
            (10, 0, 8, -1),
            (10, 0, 8, 0.25),
        ):
            with pytest.raises(UsageError):
                round_phase(ring, a, t, first, count, bound)
    with pytest.raises(UsageError, match="closed"):
        secret.phase(ct)
    secret.close()
    other = Secret(ring, s)
    ring.close()
    with pytest.raises(UsageError, match="closed"):
        other.phase(ct)
    other.close()


def test_a_secret_key_does_not_leak_into_text_or_copies() -> None:
    s = np.array([1, 0, -1, 0, 1, 1, 0, -1], dtype=np.int8)
    with native.Ring(8, TOY) as ring, Secret(ring, s) as secret:
        assert repr(secret) == str(secret) == "<secret key, N = 8, open>"
        for act in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="can't be copied or pickled"):
                act(secret)
    assert repr(secret) == "<secret key, N = 8, closed>"


def test_wipe() -> None:
    array = np.arange(1, 100, dtype=np.uint32)
    wipe(array)
    assert not array.any()
    data = bytearray(b"secret")
    wipe(data)
    assert data == bytes(6)
    wipe(bytearray())
    for bad in (b"secret", np.arange(10)[::2], "text"):
        with pytest.raises(UsageError):
            wipe(bad)
