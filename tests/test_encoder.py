"""The C encoder against exact arithmetic: rounding, signs, multi-word values, slots, refusals."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import islice
from math import prod

import numpy as np
import pytest

from pybfv.errors import UsageError
from pybfv.native import Encoder, Ring, bodies
from pybfv.params import SETS, batching_primes
from pybfv.ring import Ring as Reference
from pybfv.ring import is_prime, slot_map

TOY = (97, 113)  # = 1 mod 16: N = 8
Q430 = SETS["n16384_q430"].primes


def crt(primes: tuple[int, ...], x: np.ndarray) -> list[int]:
    """Residues [L, N] to integers mod q."""
    q = prod(primes)
    units = [q // p * pow(q // p, -1, p) for p in primes]
    return [sum(u * r for u, r in zip(units, column, strict=True)) % q for column in x.T.tolist()]


def wide_primes(count: int) -> tuple[int, ...]:
    """The largest primes = 1 mod 16 below 2^30."""
    return tuple(islice((p for p in range(2**30 - 15, 2**29, -16) if is_prime(p)), count))


def rounded(m: int, t: int, q: int) -> int:
    """round(q m / t) with ties towards minus infinity."""
    return -((t - 2 * q * m) // (2 * t))


def signed(rng: random.Random, bits: int) -> int:
    """Integers with runs of ones and zeros and extremes, |x| < 2^bits."""
    top = 1 << bits
    x = rng.choice((0, 1, top - 1, rng.randrange(top), rng.randrange(top) >> rng.randrange(bits + 1)))
    return rng.choice((1, -1)) * x


def test_rounding_rule() -> None:
    """The test's own formula: nearest, and at a tie the lower one."""
    for q, t in ((97, 2), (97, 4), (91, 6), (97 * 113, 10)):
        for m in range(t):
            exact = Fraction(q * m, t)
            lower = exact.numerator // exact.denominator
            want = lower if exact - lower <= Fraction(1, 2) else lower + 1
            assert rounded(m, t, q) == want


# coefficients


@pytest.mark.parametrize("primes", [(97,), (113,), TOY])
def test_coefficients_over_all_small_moduli_and_messages(primes: tuple[int, ...]) -> None:
    q = prod(primes)
    with Ring(8, primes) as ring:
        for t in [t for t in range(2, 97) if all(t % p for p in primes)]:
            with Encoder.coefficients(ring, t) as encoder:
                for k in range(0, t, 8):
                    messages = list(range(k, min(k + 8, t)))
                    found = crt(primes, encoder.encode(messages))
                    assert found == [rounded(m, t, q) for m in messages] + [0] * (8 - len(messages))


def large_moduli(q: int) -> list[int]:
    rng = random.Random(q)
    limit = min(q.bit_length() - 1, 512)
    found = [2, 3, 2**16, 65537, 10**9 + 7, 2**63, 2**64 - 59, 2**64, 2**64 + 13, 2**127, 2**200]
    found += [(1 << limit) - 1, 1 << (limit - 1), (1 << (limit - 1)) + 1]
    found += [rng.getrandbits(limit - rng.randrange(limit - 2)) for _ in range(8)]
    return [t for t in found if 2 <= t < q and t < 2**512]


@pytest.mark.parametrize("count", [1, 2, 4, 5, 8, 16])
def test_coefficients_are_exact(count: int) -> None:
    primes = Q430[:count]
    q = prod(primes)
    rng = random.Random(count)
    moduli = large_moduli(q)
    with Ring(64, primes) as ring:
        for t in moduli:
            if any(t % p == 0 for p in primes):
                continue
            # the messages nearest to a tie: q m = (t +- small)/2 mod t
            half = [(t // 2 + d) * pow(q, -1, t) % t for d in range(-3, 4)]
            values = [*half, 0, t - 1, t, -t, t // 2, -(t // 2), 1 - t, 2**511 - 1, -(2**511), 3**400]
            values += [signed(rng, min(510, t.bit_length() + 2)) for _ in range(64 - len(values))]
            with Encoder.coefficients(ring, t) as encoder:
                found = crt(primes, encoder.encode(values))
                assert found == [rounded(v % t, t, q) for v in values]
                small = np.array([signed(rng, 62) for _ in range(62)] + [2**63 - 1, -(2**63)], dtype=np.int64)
                words = crt(primes, encoder.encode(small))
                assert words == [rounded(int(v) % t, t, q) for v in small]
                assert words == crt(primes, encoder.encode(small.tolist()))


def test_coefficients_at_the_largest_q() -> None:
    """24 primes below 2^30 and an eight-word t: the longest buffers."""
    primes = wide_primes(24)
    q = prod(primes)
    assert q.bit_length() == 720
    rng = random.Random(24)
    with Ring(8, primes) as ring:
        for t in (2**511, 2**512 - 1, 2**512 - 569, 2**448 + 1, 2):
            with Encoder.coefficients(ring, t) as encoder:
                for _ in range(20):
                    values = [signed(rng, 511) for _ in range(8)]
                    assert crt(primes, encoder.encode(values)) == [rounded(v % t, t, q) for v in values]


# batched


def twin(values: list[int], t_primes: tuple[int, ...], n: int, q: int) -> list[int]:
    """bfv.h's formula: sum y_i floor(q/t_i) + (sum y_i frac_i + 2^63) >> 64, mod q."""
    padded = values + [0] * (n - len(values))
    t = prod(t_primes)
    total, fraction = [0] * n, [1 << 63] * n
    for ti in t_primes:
        placed = [0] * n
        for index, value in zip(slot_map(n), padded, strict=True):
            placed[index] = value % ti
        plain = Reference(n, (ti,)).intt(placed, 0)
        inverse = pow(t // ti, -1, ti)
        frac = ((q % ti) << 64) // ti
        for k, m in enumerate(plain):
            y = m * inverse % ti
            total[k] += y * (q // ti)
            fraction[k] += y * frac
    return [(a + (b >> 64)) % q for a, b in zip(total, fraction, strict=True)]


def batched_cases() -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    p = batching_primes(64)
    big = tuple(x for x in p if x > 2**29)
    return [
        (2, (13, 17, 29, 37), (5,)),
        (8, (97, 113, 193), (17,)),
        (8, (97, 113, 193), (17, 241)),
        (64, Q430[:4], p[:1]),
        (64, Q430[:4], (65537, 114689)),
        (64, Q430[:8], p[:9]),
        (64, Q430[:5], big[:3]),
        (64, Q430, p[:15]),
        (64, Q430, p[:16]),
        (64, Q430, p[:20]),
        (64, Q430, big[:10]),
    ]


@pytest.mark.parametrize("case", batched_cases(), ids=lambda c: f"{c[0]}-{len(c[1])}-{len(c[2])}")
def test_batched_encoding(case) -> None:
    n, primes, t_primes = case
    q, t = prod(primes), prod(t_primes)
    rng = random.Random(t)
    plain = Reference(n, t_primes)
    for body in bodies():
        with Ring(n, primes, body) as ring, Encoder.batched(ring, t_primes) as encoder:
            assert (encoder.t, encoder.t_primes) == (t, t_primes)
            for bits in (min(62, t.bit_length()), 200, 510, 600):
                values = [signed(rng, bits) for _ in range(n)]
                values[0], values[-1] = 2 ** (bits + 1) - 1, -(2 ** (bits + 1))
                found = crt(primes, encoder.encode(values))
                assert found == twin(values, t_primes, n, q)
                messages = plain.encode_slots(values)
                for x, m in zip(found, messages, strict=True):
                    distance = (Fraction(q * m, t) - x + Fraction(q, 2)) % q - Fraction(q, 2)
                    assert abs(distance) <= Fraction(1, 2) + Fraction(1, 2**28)
                assert encoder.decode_slots(messages) == [v % t for v in values]


def test_short_vectors_are_padded() -> None:
    with Ring(8, TOY) as ring, Encoder.batched(ring, (17,)) as encoder:
        full = encoder.encode([3, -4, 5, 0, 0, 0, 0, 0])
        assert (encoder.encode([3, -4, 5]) == full).all()
        assert (encoder.encode(np.array([3, -4, 5])) == full).all()
        assert not encoder.encode([]).any()
        assert not encoder.encode(np.zeros(0, dtype=np.int64)).any()
        out = np.full((2, 8), 7, dtype=np.uint32)
        assert encoder.encode([3, -4, 5], out) is out
        assert (out == full).all()
    with Ring(8, TOY) as ring, Encoder.coefficients(ring, 16) as encoder:
        assert not encoder.encode([]).any()
        assert (encoder.encode([5]) == encoder.encode([5] + [0] * 7)).all()


def test_slots_of_the_first_automorphism_rotate() -> None:
    """SEAL's order: X -> X^3 rotates both rows by one; checked without slot_map."""
    n, t = 16, 97
    values = list(range(1, 17))
    plain = Reference(n, (t,))
    polynomial = plain.encode_slots(values)
    moved = [0] * n
    for k, c in enumerate(polynomial):
        sign = -1 if (3 * k) // n % 2 else 1
        moved[3 * k % n] = sign * c % t
    with Ring(n, (193, 257)) as ring, Encoder.batched(ring, (t,)) as encoder:
        assert encoder.decode_slots(moved) == [*values[1:8], values[0], *values[9:], values[8]]


def test_an_encoder_outlives_its_ring() -> None:
    ring = Ring(8, TOY)
    batched, plain = Encoder.batched(ring, (17,)), Encoder.coefficients(ring, 10)
    want = batched.encode([1, 2]), plain.encode([1, 2])
    ring.close()
    assert (batched.encode([1, 2]) == want[0]).all()
    assert (plain.encode([1, 2]) == want[1]).all()
    assert batched.decode_slots([1] + [0] * 7) == [1] * 8


@pytest.mark.parametrize("kind", ["?", "i1", "u1", ">i2", "u2", "i4", ">u4", "i8", "u8", ">u8", "O"])
def test_arrays_of_every_type_and_layout(kind: str) -> None:
    rng = np.random.default_rng(len(kind) + ord(kind[-1]))
    info = np.iinfo(np.dtype(kind)) if kind not in "?O" else np.iinfo(np.int8)
    values = rng.integers(info.min, info.max, 16, np.int64 if info.min else np.uint64, endpoint=True)
    values[:4] = [info.min, info.max, 0, 1]
    table = np.zeros((16, 3), kind, order="F")
    table[:, 1] = values if kind != "?" else values % 2
    column = table[::2, 1]
    column.flags.writeable = False
    expected = [int(v) for v in column.tolist()]
    with Ring(8, TOY) as ring, Encoder.batched(ring, (17,)) as encoder:
        for given in (column, column.copy(), list(column), expected):
            assert np.array_equal(encoder.encode(given), encoder.encode([v % 17 for v in expected]))
        assert np.array_equal(encoder.encode(column[0, ...]), encoder.encode([expected[0] % 17]))


def test_refusals() -> None:
    with Ring(8, TOY) as ring:
        q = prod(TOY)
        for t_primes in ((), (97,), (17, 17), (19,), (33,), (17, 241, 193), (17.0,), (2**31 - 1,), (0,)):
            with pytest.raises(UsageError):
                Encoder.batched(ring, t_primes)
        for t in (1, 0, -2, 97, 97 * 3, q, q + 1, 2**600, 2.0, True):
            with pytest.raises(UsageError):
                Encoder.coefficients(ring, t)
        encoder = Encoder.batched(ring, (17,))
        for values in (
            [1.0],
            ["1"],
            [None],
            [0] * 9,
            np.zeros(9, dtype=np.int64),
            np.zeros(8),
            np.zeros((1, 8), dtype=np.int64),
            np.ma.zeros(8, dtype=np.int64),
            np.zeros(8, dtype="m8[s]"),
            [np.timedelta64(1, "s")],
        ):
            with pytest.raises(UsageError):
                encoder.encode(values)
        for m in ([0] * 7, [0] * 9, [17] + [0] * 7, [-1] + [0] * 7):
            with pytest.raises(UsageError):
                encoder.decode_slots(m)
        with pytest.raises(UsageError):
            encoder.encode([1], np.zeros((2, 8), dtype=np.int32))
        with pytest.raises(UsageError, match="no slots"):
            Encoder.coefficients(ring, 10).decode_slots([0] * 8)
        encoder.close()
        encoder.close()
        with pytest.raises(UsageError, match="closed"):
            encoder.encode([1])
    # t below q is not enough: a plaintext modulus has at most eight words
    primes = wide_primes(41)
    with Ring(8, primes[:24]) as ring:
        Encoder.batched(ring, primes[24:]).close()
        with pytest.raises(UsageError, match=r"2\^512"):
            Encoder.batched(ring, (*primes[24:], 17))
