"""The reference arithmetic against definitions, exhaustively on toy rings, and against SEAL's batching."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import pytest
import tenseal.sealapi as seal

from pybfv import ring
from pybfv.errors import PlanError
from pybfv.params import SETS, batching_primes
from pybfv.ring import Ring


def random_poly(rng: random.Random, n: int, q: int) -> list[int]:
    """Coefficients in [0, q); runs of the extremes are common."""
    return [rng.choice((0, 1, q - 1, q // 2, rng.randrange(q))) for _ in range(n)]


def test_smallest_root_is_primitive_and_smallest():
    for n, p in ((2, 5), (8, 17), (8, 113), (16, 97), (64, 257)):
        primitive = [x for x in range(p) if pow(x, n, p) == p - 1]
        assert ring.smallest_root(n, p) == primitive[0]
        assert len(primitive) == n


@pytest.mark.parametrize(("n", "p"), [(8, 19), (8, 16 * 4 + 1)])
def test_smallest_root_refuses(n, p):
    with pytest.raises(PlanError, match="primitive"):
        ring.smallest_root(n, p)


@pytest.mark.parametrize(("n", "primes"), [(3, (7,)), (8, ()), (8, (17, 17)), (8, (19,)), (8, (33,)), (1, (3,))])
def test_bad_rings_are_refused(n, primes):
    with pytest.raises(PlanError):
        Ring(n, primes)


def test_bit_reverse():
    for bits in range(1, 8):
        for x in range(2**bits):
            assert ring.bit_reverse(x, bits) == int(f"{x:0{bits}b}"[::-1], 2)


def test_toy_ring_exhaustively():
    r = Ring(2, (5,))
    polys = [list(c) for c in itertools.product(range(5), repeat=2)]
    transforms = set()
    for a in polys:
        assert r.ntt(a, 0) == r.ntt_by_definition(a, 0)
        assert r.intt(r.ntt(a, 0), 0) == a
        transforms.add(tuple(r.ntt(a, 0)))
        for b in polys:
            wanted = [(a[0] * b[0] - a[1] * b[1]) % 5, (a[0] * b[1] + a[1] * b[0]) % 5]
            assert r.mul(a, b) == wanted == r.mul_ntt(a, b)
            assert r.sub(r.add(a, b), b) == a
    assert len(transforms) == 25


@pytest.mark.parametrize(("n", "primes"), [(8, (17, 97)), (16, (97, 193)), (64, SETS["insecure_n64_q106"].primes)])
def test_small_rings(n, primes):
    rng = random.Random(n)
    r = Ring(n, primes)
    for _ in range(5):
        a, b = random_poly(rng, n, r.q), random_poly(rng, n, r.q)
        for i, p in enumerate(primes):
            assert r.ntt(a, i) == r.ntt_by_definition(a, i)
            assert r.intt(r.ntt(a, i), i) == [x % p for x in a]
        assert r.from_ntt(r.to_ntt(a)) == a
        assert r.mul(a, b) == r.mul_ntt(a, b) == [x % r.q for x in ring.negacyclic(a, b)]
        assert r.decode_slots(r.encode_slots(a)) == a


def test_x_to_the_n_is_minus_one():
    r = Ring(8, (17, 97))
    x, x7 = [0, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 1]
    assert r.mul(x, x7) == [r.q - 1, 0, 0, 0, 0, 0, 0, 0] == r.mul_ntt(x, x7)


def test_real_set_round_trip_and_one_point_by_definition():
    ps = SETS["n4096_q109"]
    r = Ring(ps.n, ps.primes)
    a = random_poly(random.Random(1), ps.n, ps.q)
    transformed = r.to_ntt(a)
    assert r.from_ntt(transformed) == a
    for i, p in enumerate(ps.primes):
        for k in (0, 1, 2047, 4095):
            point = pow(r.roots[i], 2 * ring.bit_reverse(k, 12) + 1, p)
            value = 0
            for c in reversed(a):
                value = (value * point + c) % p
            assert transformed[i][k] == value


def test_crt_and_centred():
    r = Ring(8, (17, 97))
    for x in range(r.q):
        assert r.crt(r.to_residues(x)) == x
        assert r.centred(x) in (x, x - r.q)
        assert 2 * abs(r.centred(x)) < r.q
    assert r.crt(r.to_residues(-1)) == r.q - 1
    assert [ring.centred_mod(x, 4) for x in range(4)] == [0, 1, -2, -1]


def test_sum_over_slots_is_n_times_the_constant_coefficient():
    factors = batching_primes(64)[:3]
    r = Ring(64, factors)
    values = random_poly(random.Random(2), 64, r.q)
    assert sum(values) % r.q == 64 * r.encode_slots(values)[0] % r.q


@pytest.mark.parametrize(("n", "t"), [(1024, 12289), (4096, 65537)])
def test_slot_order_is_seals(n, t):
    parameters = seal.EncryptionParameters(seal.SCHEME_TYPE.BFV)
    parameters.set_poly_modulus_degree(n)
    parameters.set_coeff_modulus([seal.Modulus(132120577)])
    parameters.set_plain_modulus(seal.Modulus(t))
    context = seal.SEALContext(parameters, False, seal.SEC_LEVEL_TYPE.NONE)
    values = [(7 * i * i + 3) % t for i in range(n)]
    plain = seal.Plaintext()
    seal.BatchEncoder(context).encode(values, plain)
    coefficients = [plain.data(i) for i in range(plain.coeff_count())]
    assert coefficients + [0] * (n - len(coefficients)) == Ring(n, [t]).encode_slots(values)


def test_slot_map_is_a_permutation_of_evaluation_points():
    for n in (2, 8, 64):
        order = ring.slot_map(n)
        assert sorted(order) == list(range(n))
        bits = n.bit_length() - 1
        exponents = [2 * ring.bit_reverse(k, bits) + 1 for k in order]
        assert exponents == [pow(3, i, 2 * n) for i in range(n // 2)] + [
            -pow(3, i, 2 * n) % (2 * n) for i in range(n // 2)
        ]


@pytest.mark.parametrize(("t", "q"), [(2, 17), (3, 17), (4, 97), (7, 97), (8, 17 * 97), (17, 97)])
def test_encoding_exhaustively(t, q):
    for m in range(-t, 2 * t):
        (x,) = ring.encode_round([m], t, q)
        assert 0 <= x < q
        exact = Fraction(q * (m % t), t)
        error = min((x - exact, x - exact + q, x - exact - q), key=abs)
        assert abs(error) <= Fraction(1, 2)
        # The form that needs no division: (q m - r) / t with the remainder r in (-t/2, t/2].
        assert x == ring.centred_mod(-q * m, t) * pow(t, -1, q) % q
        message, residual = ring.decode_round([x], t, q)
        assert message == [m % t]
        assert residual == [error]


@pytest.mark.parametrize(("t", "q"), [(3, 97), (4, 97), (5, 17 * 97)])
def test_decoding_exhaustively(t, q):
    for x in range(q):
        (m,), (eta,) = ring.decode_round([x], t, q)
        assert 0 <= m < t
        assert abs(eta) < Fraction(q, 2 * t)
        assert (x - eta - Fraction(q * m, t)) % q == 0
