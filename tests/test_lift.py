"""Lifts, scaled rounding and scaled accumulators against Python integers."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from pybfv import native
from pybfv.errors import BackendUnavailableError, DataError, PlanError, UsageError
from pybfv.params import SETS, ParameterSet, wide_base, wide_primes
from pybfv.ring import Ring, negacyclic
from pybfv.server.reference import ReferenceBackend

TOY = (17, 97, 113)  # = 1 mod 16: N = 8
TOY_WIDE = (193, 241, 257, 337)
SEAL = (68719403009, 68719230977)
SEAL_61 = (2305843009213554689, 2305843009213489153, 2305843009213317121)


def centred(x: int, q: int) -> int:
    x %= q
    return x - q if 2 * x > q else x


def round_div(a: int, q: int) -> int:
    """round(a / q), q odd: no ties."""
    return (2 * a + q) // (2 * q)


def residues(values: np.ndarray, moduli: tuple[int, ...], kind: type = np.uint32) -> np.ndarray:
    """Integers [..., N] to [..., planes, N]."""
    return np.stack([(values % m).astype(kind) for m in moduli], axis=-2)


def integers(x: np.ndarray, moduli: tuple[int, ...]) -> np.ndarray:
    """[..., planes, N] to the centred integers [..., N]."""
    base = math.prod(moduli)
    total = sum(x[..., i, :].astype(object) * (base // m * pow(base // m, -1, m)) for i, m in enumerate(moduli))
    return (total + base // 2) % base - base // 2


def edges(rng: random.Random, base: int, size: int) -> np.ndarray:
    """Integers within base/2 of 0: next to the ends, powers of two and sums of runs of bits, and uniform."""
    half = base // 2
    found = [s * (half - d) for d in range(min(16, half)) for s in (1, -1)]
    found += [s * d for d in range(16) for s in (1, -1)]
    while len(found) < size:
        bits = rng.randrange(base.bit_length())
        run = (1 << bits) - (1 << rng.randrange(bits + 1))
        found.append(rng.choice((run, -run, half - run, run - half, rng.randrange(base) - half, 1 << bits)))
    rng.shuffle(found)
    return np.array([centred(x, base) for x in found[:size]], dtype=object)


def with_ntt(ring: native.Ring, x: np.ndarray) -> np.ndarray:
    return ring.forward(np.ascontiguousarray(x))


def without_ntt(ring: native.Ring, x: np.ndarray) -> np.ndarray:
    return ring.inverse(x.copy())


def check_lifter(n: int, primes: tuple[int, ...], wide: tuple[int, ...], body: str, polys: int, seed: int) -> None:
    rng = random.Random(seed)
    q, everything = math.prod(primes), primes + wide
    with (
        native.Ring(n, primes, body) as ring,
        native.Ring(n, wide, body) as over,
        native.Ring(n, everything, body) as full,
        native.Lifter(ring, wide) as lifter,
    ):
        values = edges(rng, q, polys * n).reshape(polys, n)
        lifted = lifter.lift(with_ntt(ring, residues(values, primes)))
        assert (without_ntt(over, lifted) == residues(values, wide)).all()
        big = edges(rng, math.prod(everything), polys * n).reshape(polys, n)
        source = with_ntt(full, residues(big, everything))
        most = min(math.prod(wide), 2**512 - 1)
        for t in {1, 2, 3, 65537, q - 1, q + 1, 2 * q + 1, most, rng.randrange(1, most)}:
            if t > most:
                continue
            found = without_ntt(ring, lifter.scale_round(source, t))
            want = np.array([round_div(t * x, q) % q for x in big.flat], dtype=object).reshape(big.shape)
            assert (found == residues(want, primes)).all(), t


def test_toy_rings_exhaustively() -> None:
    """Every x mod 17 * 97 * 113 is lifted, in every body; every T of a small base is rounded."""
    for body in native.bodies():
        for primes, wide in ((TOY, TOY_WIDE), ((17,), (97, 113)), ((97, 17), (113,))):
            n, q = 8, math.prod(primes)
            values = np.arange(-(q // 2), q // 2 + 1)
            values = np.concatenate([values, np.zeros(-len(values) % n, dtype=np.int64)]).reshape(-1, n)
            with (
                native.Ring(n, primes, body) as ring,
                native.Ring(n, wide, body) as over,
                native.Lifter(ring, wide) as lifter,
            ):
                lifted = lifter.lift(with_ntt(ring, residues(values, primes)))
                assert (without_ntt(over, lifted) == residues(values, wide)).all()
        primes, wide, n = (17,), (97, 113), 8
        base, q = 17 * 97 * 113, 17
        values = np.arange(-(base // 2), base // 2 + 1)
        values = np.concatenate([values, np.zeros(-len(values) % n, dtype=np.int64)]).reshape(-1, n)
        with (
            native.Ring(n, primes, body) as ring,
            native.Ring(n, primes + wide, body) as full,
            native.Lifter(ring, wide) as lifter,
        ):
            source = with_ntt(full, residues(values, primes + wide))
            for t in (1, 2, 3, 5, 16, 17, 97 * 113 - 1, 97 * 113):
                found = without_ntt(ring, lifter.scale_round(source, t))
                assert (found == residues((2 * t * values + q) // (2 * q) % q, primes)).all()


@pytest.mark.parametrize("ps", SETS.values(), ids=lambda ps: ps.name)
def test_every_set(ps: ParameterSet) -> None:
    """Next to q/2, where the fixed point can't decide, and everywhere else; the set's primes, a small N."""
    n = min(ps.n, 64)
    for body in native.bodies():
        check_lifter(n, ps.primes, wide_primes(ps, 2560), body, 3, ps.n + len(ps.primes))


def test_big_primes_need_reductions_between() -> None:
    """30-bit primes: 16 products fill 64 bits; many primes pass that."""
    primes: list[int] = []
    p = 2**30 - 2**8 + 1
    while len(primes) < 40:
        if all(p % d for d in range(3, 32768, 2)):
            primes.append(p)
        p -= 2**8
    for count in (17, 23, 24, 33):
        check_lifter(64, tuple(primes[:count]), tuple(primes[count:]), native.bodies()[0], 2, count)
        check_lifter(64, tuple(primes[:count]), tuple(primes[count:]), "portable", 2, count)


@pytest.mark.parametrize("n", [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384])
def test_bodies_agree_at_every_length(n: int) -> None:
    primes = SETS["n4096_q109"].primes
    wide = wide_primes(SETS["n4096_q109"], 2560)
    rng = random.Random(n)
    values = edges(rng, math.prod(primes), n).reshape(1, n)
    big = edges(rng, math.prod(primes + wide), n).reshape(1, n)
    found = set()
    for body in native.bodies():
        with (
            native.Ring(n, primes, body) as ring,
            native.Ring(n, primes + wide, body) as full,
            native.Lifter(ring, wide) as lifter,
        ):
            lifted = lifter.lift(with_ntt(ring, residues(values, primes)))
            rounded = lifter.scale_round(with_ntt(full, residues(big, primes + wide)), 1032193)
            found.add((lifted.tobytes(), rounded.tobytes()))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("n", "primes"),
    [(8, (3,)), (8, (9, 25, 7, 11)), (64, SEAL), (64, SEAL_61), (64, (2**61 - 1, 3, 2**61 - 3, 2**40 + 15))],
)
def test_lifter64(n: int, primes: tuple[int, ...]) -> None:
    rng = random.Random(n)
    q = math.prod(primes)
    wide = wide_base(n, q, 2560)
    with native.Ring(n, wide) as ring, native.Lifter64(n, primes, wide) as lifter:
        values = edges(rng, q, 4 * n).reshape(4, n)
        low = residues(values, primes, np.uint64)
        lifted = lifter.lift(low)
        assert (without_ntt(ring, lifted) == residues(values, wide)).all()
        assert (lifter.reduce(lifted) == low).all()
        big = edges(rng, math.prod(wide), 4 * n).reshape(4, n)
        source = with_ntt(ring, residues(big, wide))
        assert (lifter.reduce(source) == residues(big, primes, np.uint64)).all()
        most = min(math.prod(wide), 2**512 - 1)
        for t in (1, 2, 3, 65537, most, rng.randrange(1, most)):
            want = np.array([round_div(t * x, q) % q for x in big.flat], dtype=object).reshape(big.shape)
            assert (lifter.scale_round(source, t) == residues(want, primes, np.uint64)).all()
        low[1, 0, 3] = primes[0]
        with pytest.raises(DataError, match="not below its prime"):
            lifter.lift(low)


def random_ciphertexts(rng: random.Random, ring: native.Ring, count: int) -> np.ndarray:
    """[count, 2, L, N]: centred coefficients at the ends and in between."""
    values = edges(rng, math.prod(ring.primes), count * 2 * ring.n).reshape(count, 2, ring.n)
    return with_ntt(ring, residues(values, ring.primes))


@pytest.mark.parametrize("n", [8, 64])
def test_scaled_accumulators(n: int) -> None:
    """All ways to the same sum: squares, pairs, pieces, merges, threads, bodies; and the integers' product."""
    rng = random.Random(n)
    primes = SETS["insecure_n64_q106"].primes
    ps = ParameterSet("insecure_small", n, primes, insecure=True)
    wide, count = wide_primes(ps, 16), 6
    everything, q = primes + wide, ps.q
    with native.Ring(n, primes) as ring, native.Ring(n, everything) as full, native.Lifter(ring, wide) as lifter:
        a = random_ciphertexts(rng, ring, count)
        exact = integers(without_ntt(ring, a), primes)
        reference = ReferenceBackend(n, primes, wide)
        wanted = {}
        for name, pairs in (("squares", [(k, k) for k in range(count)]), ("pairs", [(k, k + 2) for k in range(4)])):
            tensor = np.zeros((3, n), dtype=object)
            for i, k in pairs:
                x, y = exact[i].tolist(), exact[k].tolist()
                for part, (u, v) in ((0, (0, 0)), (1, (0, 1)), (1, (1, 0)), (2, (1, 1))):
                    tensor[part] += np.array(negacyclic(x[u], y[v]), dtype=object)
            assert max(abs(x) for x in tensor.flat) <= 2 * n * (q // 2 + 1) ** 2 * len(pairs)
            wanted[name] = with_ntt(full, residues(tensor, everything))
            acc = reference.acc_new("scaled", 3)
            held = reference.put(a)
            first, second = pairs[0]
            reference.acc_mul(acc, held, first, held, second, 1, len(pairs))
            assert (reference.acc_save(acc) == wanted[name]).all()
            t = 65537
            want = [[round_div(t * x, q) % q for x in part] for part in tensor]
            rounded = lifter.scale_round(wanted[name], t)
            assert (without_ntt(ring, rounded) == residues(np.array(want, dtype=object), primes)).all()
        for body in native.bodies():
            for threads in (1, 3):
                with native.Backend("cpu", n, primes, threads=threads, body=body, wide=wide) as backend:
                    for cached in (False, True):
                        x = backend.put(a)
                        if cached:
                            pairs = backend.acc_new("scaled", 3)
                            backend.acc_mul(pairs, x, 0, x, 2, 1, 4)
                            assert (backend.acc_save(pairs) == wanted["pairs"]).all()
                        squares = backend.acc_new("scaled", 3)
                        backend.acc_mul(squares, x, 0, x, 0, 1, count)
                        assert (backend.acc_save(squares) == wanted["squares"]).all()
                        pieces, even = backend.acc_new("scaled", 3), backend.acc_new("scaled", 3)
                        backend.acc_mul(even, x, 0, x, 0, 2, 3)
                        backend.acc_mul(pieces, x, 1, x, 1, 2, 3)
                        backend.acc_merge(pieces, even)
                        assert (backend.acc_save(pieces) == wanted["squares"]).all()
                        plain = backend.acc_new("product", 3)
                        backend.acc_mul(plain, x, 0, x, 0, 1, count)
                        assert (backend.acc_save(plain) == wanted["squares"][:, : len(primes)]).all()
                        backend.acc_load(even, wanted["pairs"])
                        assert (backend.acc_save(even) == wanted["pairs"]).all()
                    other = backend.put(a[2:])
                    cross = backend.acc_new("scaled", 3)
                    backend.acc_mul(cross, x, 0, other, 0, 1, 4)
                    assert (backend.acc_save(cross) == wanted["pairs"]).all()


def test_scaled_accumulators_refuse() -> None:
    with native.Backend("cpu", 8, TOY) as backend, pytest.raises(UsageError, match="wide primes"):
        backend.acc_new("scaled", 3)
    with pytest.raises(UsageError, match="wide primes"):
        ReferenceBackend(8, TOY).acc_new("scaled", 3)
    with pytest.raises(UsageError, match="no ring"):
        native.Backend("cpu", 8, TOY, wide=(97,))
    with native.Backend("cpu", 8, TOY, wide=TOY_WIDE) as backend:
        with pytest.raises(UsageError):
            backend.acc_new("scaled", 2)
        acc, x = backend.acc_new("scaled", 3), backend.put(np.zeros((1, 2, 3, 8), dtype=np.uint32))
        for call in (
            lambda: backend.acc_add(acc, x, 0, 1, 1),
            lambda: backend.acc_finish(acc, [1, 1, 1]),
            lambda: backend.acc_merge(acc, backend.acc_new("product", 3)),
            lambda: backend.acc_load(acc, np.zeros((3, 3, 8), dtype=np.uint32)),
        ):
            with pytest.raises(UsageError):
                call()
        state = np.zeros((3, 7, 8), dtype=np.uint32)
        state[2, 6, 7] = TOY_WIDE[-1]
        with pytest.raises(DataError):
            backend.acc_load(acc, state)
        assert not backend.acc_save(acc).any()


def test_lifters_refuse() -> None:
    with native.Ring(8, TOY) as ring:
        for wide in ((), (17,), (193, 193), (19,), (2**30 + 2**15 + 1,), TOY_WIDE * 10):
            with pytest.raises(UsageError):
                native.Lifter(ring, wide)
        lifter = native.Lifter(ring, TOY_WIDE)
        good = np.zeros((2, 7, 8), dtype=np.uint32)
        for bad in (0, -1, math.prod(TOY_WIDE) + 1, 2**512, 1.5):
            with pytest.raises(UsageError):
                lifter.scale_round(good, bad)
        for bad in (good[:, :6], good[..., :4], good.astype(np.uint64), good[:0], good[:, ::-1]):
            with pytest.raises(UsageError):
                lifter.scale_round(bad, 1)
        with pytest.raises(UsageError):
            lifter.lift(good)
        lifter.close()
        lifter.close()
        with pytest.raises(UsageError, match="closed"):
            lifter.lift(good[:, :3].copy())
    for primes in ((), (1,), (4,), (3, 3), (15, 5), (2**61 + 1,), (193 * 3,), (5,) * 17):
        with pytest.raises(UsageError):
            native.Lifter64(8, primes, TOY_WIDE)
    with pytest.raises(UsageError):
        native.Lifter64(8, (3,), (19,))
    with native.Lifter64(8, (3, 5), TOY_WIDE) as lifter, pytest.raises(UsageError):
        lifter.lift(np.zeros((1, 2, 8), dtype=np.uint32))


def test_wide_primes() -> None:
    for ps in SETS.values():
        for count in (1, 2560, 2**32):
            wide = wide_primes(ps, count)
            need = ps.n * ps.q * count
            assert math.prod(wide) > need >= math.prod(wide[:-1])
            assert not set(wide) & set(ps.primes)
            assert len(ps.primes) + len(wide) <= 40
    assert len(wide_primes(SETS["n4096_q109"], 2560)) == 5
    q = math.prod(SEAL)
    wide = wide_base(4096, q, 2560)
    assert math.prod(wide) > 4096 * q * q * 2560 >= math.prod(wide[:-1])
    assert wide_base(16384, 2**438 - 1, 2**32)[0] == wide[0]
    assert wide[0] not in wide_base(8, wide[0] * 3, 1)
    for bad in (0, -1, 2**2000):
        with pytest.raises(PlanError):
            wide_primes(SETS["n4096_q109"], bad)
    for n, q, count in ((4096, 4, 1), (4096, 1, 1), (5, 7, 1), (4096, 7, 0), (4096, 2**1400 + 1, 1)):
        with pytest.raises(PlanError):
            wide_base(n, q, count)


def test_the_reference_ring_knows_the_wide_primes() -> None:
    """The wide primes are NTT primes for every N (their roots exist)."""
    wide = wide_primes(SETS["n16384_q430"], 1)
    assert all((p - 1) % 2**15 == 0 for p in wide)
    assert Ring(8, wide[:2]).primes == wide[:2]


def test_unsupported_kind_is_unavailable() -> None:
    """A backend without scaled accumulators says so (BFV_E_UNSUPPORTED), and so does finishing one."""
    from pybfv.native._lib import BFV, check

    with native.Backend("cpu", 8, TOY, wide=TOY_WIDE) as backend:
        acc = backend.acc_new("scaled", 3)
        factors, out = BFV.ffi.new("uint32_t[]", [1, 1, 1]), BFV.ffi.new("bfv_array **")
        status = backend._owner.run(BFV.lib.bfv_acc_finish, acc._pointer, factors, out)
        assert status == BFV.lib.BFV_E_UNSUPPORTED
        with pytest.raises(BackendUnavailableError):
            check(status, "finish")
