"""Many ciphertexts in one call, slots out of phases, and seeds expanded at once, beside the single calls."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pybfv import native
from pybfv.errors import DataError, UsageError
from pybfv.native.secret import Secret, phase_slots, round_phase
from pybfv.params import get_set
from pybfv.scheme import noise, public
from pybfv.scheme import random as rnd
from pybfv.scheme.symmetric import SymmetricBatch

PS = get_set("insecure_n64_q214")
BOUND = 2**62
T_PRIMES = (257, 641, 769, 1153, 7681, 12289, 13441)  # = 1 mod 128; their product takes two words


@pytest.fixture
def world():
    with native.Ring(PS.n, PS.primes) as ring:
        s = np.array([random.choice((-1, 0, 1)) for _ in range(PS.n)], dtype=np.int8)
        a = rnd.expand_uniform(ring, rnd.fresh_seed(), native.empty((len(PS.primes), PS.n)))
        with Secret(ring, s) as secret:
            yield ring, secret, np.stack([secret.public(a, np.zeros(PS.n, dtype=np.int8)), a])


def rows_of(t: int, count: int, width: int) -> list[list[int]]:
    return [[random.choice((0, 1, -1, t // 2, random.randrange(t))) for _ in range(width)] for _ in range(count)]


@pytest.mark.parametrize("primes", [T_PRIMES[:1], T_PRIMES[:3], T_PRIMES])
@pytest.mark.parametrize("threads", [1, 2])
def test_batches_decrypt(world, primes: tuple[int, ...], threads: int) -> None:
    ring, secret, pk = world
    with native.Encoder.batched(ring, primes) as encoder:
        rows = rows_of(encoder.t, 5, 60)
        expected = [[v % encoder.t for v in row] + [0] * 4 for row in rows]
        out = native.empty((10, 2, *pk.shape[1:]))
        public.BatchEncryptor(ring, pk, threads).encrypt(encoder, rows, out[1:], 2)
        seeds, halves = np.zeros((10, 32), dtype=np.uint8), native.empty((10, *pk.shape[1:]))
        SymmetricBatch(ring, secret, threads).encrypt(encoder, rows, seeds, halves, 2)
        assert len({seed.tobytes() for seed in seeds[::2]}) == 5
        assert not seeds[1::2].any()
        for k, row in enumerate(expected):
            a = rnd.expand_uniform(ring, seeds[2 * k].tobytes(), native.empty(pk.shape[1:]))
            for ct in (out[2 * k + 1], np.stack([halves[2 * k], a])):
                phase = secret.phase(ct)
                slots = phase_slots(ring, phase, encoder, BOUND)
                assert encoder.joined(slots) == row
                assert encoder.joined(slots, 5) == [5 * x % encoder.t for x in row]
                assert encoder.decode_slots(round_phase(ring, phase, encoder.t, 0, PS.n, BOUND)) == row


def test_every_ciphertext_has_randomness_of_its_own(world) -> None:
    ring, secret, pk = world
    with native.Encoder.batched(ring, T_PRIMES[:1]) as encoder:
        batch, out = public.BatchEncryptor(ring, pk), native.empty((3, 2, *pk.shape[1:]))
        found = {batch.encrypt(encoder, [[1]] * 3, out)[k].tobytes() for _ in range(2) for k in range(3)}
        assert len(found) == 6
        assert not batch._streams._buffer[: 3 * batch._streams.size].any()  # wiped
        symmetric = SymmetricBatch(ring, secret)
        symmetric.encrypt(encoder, [[1]] * 3, np.empty((3, 32), dtype=np.uint8), out[:, 0].copy())
        assert not symmetric._streams._buffer[: 3 * symmetric._streams.size].any()


def test_a_batch_refuses(world) -> None:
    ring, secret, pk = world
    out, seeds = native.empty((2, 2, *pk.shape[1:])), np.empty((2, 32), dtype=np.uint8)
    with native.Encoder.batched(ring, T_PRIMES[:1]) as encoder, native.Ring(64, PS.primes[:2]) as other:
        batch = public.BatchEncryptor(ring, pk)
        for rows, stride in (([], 1), ([[1], [1, 2]], 1), ([[1]] * 3, 1), ([[1]] * 2, 2), ([[1] * 65], 1)):
            with pytest.raises(UsageError):
                batch.encrypt(encoder, rows, out, stride)
            with pytest.raises(UsageError):
                SymmetricBatch(ring, secret).encrypt(encoder, rows, seeds, out[:, 0].copy(), stride)
        with pytest.raises(UsageError, match="another ring"):
            other.encrypt_many(pk[:, :2].copy(), encoder, [[1]], bytes(10000), out[:, :, :2].copy())
        with pytest.raises(UsageError, match="threads"):
            public.BatchEncryptor(ring, pk, 10**6).encrypt(encoder, [[1]], out)
        uniform = rnd.expand_uniform(ring, bytes(32), native.empty(pk.shape[1:]))
        with pytest.raises(DataError, match="^told$"):
            phase_slots(ring, uniform, encoder, 1, "told")
        with native.Encoder.coefficients(ring, 257) as coefficients, pytest.raises(UsageError, match="no slots"):
            phase_slots(ring, uniform, coefficients, 1)


def test_a_seed_that_refuses_many_words_is_expanded_all_the_same(world, monkeypatch: pytest.MonkeyPatch) -> None:
    ring, _, _ = world
    shape = (len(PS.primes), PS.n)
    expected = [rnd.expand_uniform(ring, bytes([k]) * 32, native.empty(shape)) for k in range(5)]
    for words in (0, 1, 7, PS.n):
        sizes = (4 * words,) * len(PS.primes)
        starts = tuple(4 * words * i for i in range(len(PS.primes) + 1))
        monkeypatch.setattr(rnd, "_expansion", lambda primes, n, found=(sizes, starts): found)
        for k, polynomial in enumerate(expected):
            assert np.array_equal(rnd.expand_uniform(ring, bytes([k]) * 32, native.empty(shape)), polynomial)


def test_a_stream_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = bytes(range(32))
    for old in (False, True):
        stream = rnd.Stream(seed)
        stream.read(33)
        if old:
            # as with releases of the library that can't start a cipher again
            monkeypatch.setattr(stream, "_encryptor", rnd.Cipher(rnd.algorithms.AES(seed), rnd.modes.CTR(bytes(16))))
        stream.restart(5)
        assert np.array_equal(stream.read(99), rnd.Stream(seed, 5).read(99))


@pytest.mark.parametrize("n", [8, 64, 1024])
def test_embeddings_come_in_one_order(n: int) -> None:
    x = np.random.default_rng(n).integers(-21, 22, (2, n))
    roots = np.exp(1j * np.pi / n * (4 * np.arange(n // 2) + 1))
    expected = np.abs(np.array([np.polyval(row[::-1], roots) for row in x])) ** 2
    assert np.allclose(noise.embeddings(x), expected)
