"""Evaluator objects: shown, compared, kept as bytes, sent to other processes; hostile bytes; secrets stay."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import random
import struct
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from evaluator_tools import KINDS, Party, party, vector

from pybfv import native
from pybfv.errors import DataError, UsageError
from pybfv.evaluator import (
    Ciphertext,
    CoefficientEncoder,
    Context,
    Decryptor,
    Encryptor,
    KeyGenerator,
    Plaintext,
    PublicKey,
    RelinKeys,
    SecretKey,
)
from pybfv.evaluator.wire import MAGIC
from pybfv.io.canonical import canonical_bytes, parse_canonical


@pytest.fixture(params=sorted(KINDS))
def p(request: pytest.FixtureRequest) -> Party:
    return party(request.param)


def public_things(p: Party) -> list[Any]:
    x = p.encrypt(vector(random.Random(1), p.n, p.t))
    return [x, x * x, p.encoder.encode([1, 2, p.t - 1]), p.keys.public_key, p.relin]


# --- case B13: shown without a secret


def test_ciphertexts_show_parameters_key_and_size_only(p: Party) -> None:
    x = p.encrypt([271828, 314159])
    product = x * x
    for thing, size in ((x, 2), (product, 3)):
        for text in (repr(thing), str(thing), f"{thing}", repr([thing])):
            for fact in (p.context.name, f"N={p.n}", f"t={p.t}", p.keys.public_key.key_id, f"size={size}"):
                assert fact in text
            assert not any(word in text for word in ("noise", "budget", "271828", "314159"))
    assert p.keys.public_key.key_id in repr(p.keys.public_key)
    assert repr(p.keys.secret_key).startswith("SecretKey(")
    assert "314159" not in repr(p.encoder.encode([271828, 314159]))


def test_sum_and_equality_need_no_secret(p: Party) -> None:
    x, y = p.encrypt([1, 2]), p.encrypt([1, 2])
    assert x == x
    assert x != y, "encryption is randomised"
    assert x != 0
    assert sum([x, y]) == x + y == p.evaluator.add(x, y)
    assert sum([x]) is x
    assert np.sum([x, y]) == x + y
    assert len({x, x + y, sum([x, y])}) == 2
    assert x != replace(x, factor=2)
    assert x != replace(x, noise=x.noise.times(2))


# --- case B27: pickling, copies, pools


def test_bytes_pickles_and_copies_are_the_same_object_again(p: Party) -> None:
    for thing in public_things(p):
        raw = thing.to_bytes()
        assert type(thing).from_bytes(raw).to_bytes() == raw == type(thing).from_bytes(bytearray(raw)).to_bytes()
        for again in (pickle.loads(pickle.dumps(thing)), copy.copy(thing), copy.deepcopy(thing)):
            assert type(again) is type(thing)
            assert again.to_bytes() == raw
            assert again.context == thing.context
    x, xx, plain, _, _ = public_things(p)
    for ct in (x, xx):
        again = pickle.loads(pickle.dumps(ct))
        assert again == ct
        assert p.decrypt(again) == p.decrypt(ct)
    assert copy.deepcopy(plain) == plain
    assert pickle.loads(pickle.dumps(p.context)) == copy.deepcopy(p.context) == p.context
    keys = pickle.loads(pickle.dumps((p.keys.public_key, p.relin)))
    fresh = Encryptor(keys[0]).encrypt(p.encoder.encode([5]))
    assert p.decrypt(p.evaluator.relinearize(p.evaluator.square(fresh), keys[1]))[0] == 25


def test_secrets_neither_pickle_nor_leak(p: Party) -> None:
    key = p.keys.secret_key
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        for thing in (key, p.keys, p.decryptor, p.symmetric, [key]):
            with pytest.raises(TypeError, match="secret key can't be pickled"):
                attempt(thing) if attempt is not copy.copy or thing is key else copy.deepcopy(thing)
    s = key.coefficients()
    exported = key.export()
    assert s.tobytes() in exported
    packed = [s.tobytes()[:24], s.astype(np.int64).tobytes(), (s % 3).astype(np.uint8).tobytes()[:24]]
    for thing in public_things(p):
        raw = pickle.dumps(thing)
        assert not any(piece in raw for piece in packed)


def test_secret_keys_are_kept_by_export_alone() -> None:
    p = Party(KINDS["slots_of_64"]())
    x, raw = p.encrypt([7]), p.keys.secret_key.export()
    with SecretKey.restore(raw, p.context) as again:
        assert again.key_id == p.keys.public_key.key_id
        assert p.encoder.decode(Decryptor(again).decrypt(x))[0] == 7
        assert again.export() == raw
    with pytest.raises(UsageError, match="closed"):
        Decryptor(again).decrypt(x)
    assert "closed" in repr(again)
    again.close()
    with pytest.raises(UsageError, match="parameters differ"):
        SecretKey.restore(raw, KINDS["words_of_64"]())
    with pytest.raises(DataError):
        PublicKey.from_bytes(raw)
    with pytest.raises(DataError, match="a 'public key'"):
        SecretKey.restore(p.keys.public_key.to_bytes())


def _add(pair: tuple[Ciphertext, Ciphertext]) -> Ciphertext:
    return pair[0] + pair[1]


def _add_bytes(pair: tuple[bytes, bytes]) -> bytes:
    return (Ciphertext.from_bytes(pair[0]) + Ciphertext.from_bytes(pair[1])).to_bytes()


def _pairs(p: Party, count: int) -> list[tuple[Ciphertext, Ciphertext]]:
    values = [p.encrypt([i, i + 1]) for i in range(8)]
    rng = random.Random(2)
    return [(rng.choice(values), rng.choice(values)) for _ in range(count)]


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_process_pool_adds_like_a_loop(method: str) -> None:
    p = Party(Context("n2048_q53", t=12289))
    pairs = _pairs(p, 100)
    serial = [_add(pair) for pair in pairs]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        assert list(pool.map(_add, pairs, chunksize=10)) == serial
        sent = [(a.to_bytes(), b.to_bytes()) for a, b in pairs[:20]]
        assert list(pool.map(_add_bytes, sent, chunksize=10)) == [ct.to_bytes() for ct in serial[:20]]


@pytest.mark.parametrize("kind", ["slots_of_64", "words_of_64"])
def test_threads_compute_like_a_loop(kind: str) -> None:
    p = party(kind)
    pairs = _pairs(p, 100)
    multiply = partial(_multiply, p)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(_add, pairs)) == [_add(pair) for pair in pairs]
        assert list(pool.map(multiply, pairs[:20])) == [multiply(pair) for pair in pairs[:20]]


def _multiply(p: Party, pair: tuple[Ciphertext, Ciphertext]) -> Ciphertext:
    return p.evaluator.relinearize(p.evaluator.multiply(*pair), p.relin)


# --- hostile bytes


def resealed(
    raw: bytes, change: Callable[[dict], None] | None = None, payload: Callable[[bytes], bytes] = bytes
) -> bytes:
    """The bytes with a changed header or payload and a checksum that fits."""
    start = len(MAGIC) + 4
    length = int.from_bytes(raw[len(MAGIC) : start], "little")
    fields = parse_canonical(raw[start : start + length], "test")
    if change is not None:
        change(fields)
    header = canonical_bytes(fields)
    body = MAGIC + struct.pack("<I", len(header)) + header + payload(raw[start + length : -4])
    return body + struct.pack("<I", native.crc32c(body))


def test_resealing_changes_nothing_by_itself(p: Party) -> None:
    for thing in public_things(p):
        assert resealed(thing.to_bytes()) == thing.to_bytes()


def test_damaged_bytes_are_refused(p: Party) -> None:
    rng = random.Random(3)
    for thing in public_things(p):
        raw, kind = thing.to_bytes(), type(thing)
        places = {0, 7, 8, 9, 11, 12, 40, len(raw) - 1, len(raw) - 5} | {rng.randrange(len(raw)) for _ in range(20)}
        for at in places:
            bad = bytearray(raw)
            bad[at] ^= 1 << rng.randrange(8)
            with pytest.raises(DataError):
                kind.from_bytes(bytes(bad))
        for size in (0, 1, 8, 12, 16, 100, len(raw) // 2, len(raw) - 1):
            with pytest.raises(DataError):
                kind.from_bytes(raw[:size])
        with pytest.raises(DataError):
            kind.from_bytes(raw + b"\0")
        for other in (Ciphertext, Plaintext, PublicKey, RelinKeys):
            if other is not kind:
                with pytest.raises(DataError, match="these are bytes of a"):
                    other.from_bytes(raw)
    for wrong in (None, 5, "text", [1]):
        with pytest.raises(DataError):
            Ciphertext.from_bytes(wrong)


BAD_FIELDS: list[tuple[str, Any]] = [
    ("n", 63), ("n", 2**40), ("n", -64), ("n", "64"), ("n", True), ("n", None),
    ("t", 0), ("t", 1), ("t", 2**600 + 1), ("t", "5"),
    ("moduli", []), ("moduli", [4]), ("moduli", [2**61 + 1] * 3), ("moduli", ["a"]), ("moduli", 7), ("moduli", [True]),
    ("moduli", list(range(3, 2003, 2))),
    ("insecure", False), ("insecure", 1), ("batching", 0),
    ("size", 1), ("size", 4), ("size", 2**50), ("size", "2"),
    ("factor", -1), ("factor", 0), ("factor", 2**700), ("factor", 1.0 and "1"),
    ("key_id", ""), ("key_id", "g" * 32), ("key_id", "A" * 32), ("key_id", "a" * 31), ("key_id", 5),
    ("noise", []), ("noise", ["0x1p0"] * 4), ("noise", ["inf"] * 4), ("noise", ["nan"] * 4), ("noise", ["-0x1p9"] * 4),
    ("noise", ["0x1p1000"] * 4), ("noise", ["1e999999"] * 4), ("noise", [1, 2, 3, 4]), ("noise", ["x"] * 4),
    ("noise", "n"), ("noise", ["0x1p300"] * 3),
    ("kind", "plaintext"), ("kind", 3), ("more", 1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD_FIELDS, ids=lambda v: str(v)[:20])
def test_forged_headers_are_refused(p: Party, name: str, value: object) -> None:
    raw = p.encrypt([1]).to_bytes()
    with pytest.raises(DataError):
        Ciphertext.from_bytes(resealed(raw, lambda fields: fields.update({name: value})))
    with pytest.raises(DataError):
        Ciphertext.from_bytes(resealed(raw, lambda fields: fields.pop(name, None) or fields.update(extra=1)))


def test_forged_payloads_are_refused(p: Party) -> None:
    x = p.encrypt([1])
    raw, size = x.to_bytes(), x.parts[0].nbytes
    above = b"\xff" * x.parts.itemsize
    forgeries: dict[str, Callable[[bytes], bytes]] = {
        "a residue is not below its prime": lambda body: above + body[len(above) :],
        "hides nothing": lambda body: body[:size] + bytes(size),
        "are due": lambda body: body[:-1],
        "too many": lambda body: body + b"\0",
    }
    for words, forge in forgeries.items():
        with pytest.raises(DataError, match=words):
            Ciphertext.from_bytes(resealed(raw, payload=forge))
    key, secret = p.keys.public_key.to_bytes(), p.keys.secret_key.export()
    with pytest.raises(DataError, match="does not belong"):
        PublicKey.from_bytes(resealed(key, payload=lambda body: body[: -x.parts.itemsize] + bytes(x.parts.itemsize)))
    plain = p.encoder.encode([1]).to_bytes()
    with pytest.raises(DataError, match="from 0 to t - 1"):
        Plaintext.from_bytes(resealed(plain, payload=lambda body: b"\xff" * len(body)))
    relin = p.relin.to_bytes()
    for bits in (1, 3, 61, -1):
        with pytest.raises(DataError):
            RelinKeys.from_bytes(resealed(relin, lambda fields, b=bits: fields.update(digit_bits=b)))
    with pytest.raises(DataError):
        SecretKey.restore(resealed(secret, payload=lambda body: b"\2" + body[1:]))


def test_bytes_of_another_context_are_named(p: Party) -> None:
    for name in set(KINDS) - {k for k in KINDS if party(k) is p}:
        with pytest.raises(UsageError, match="these bytes of a ciphertext: the parameters differ"):
            Ciphertext.from_bytes(party(name).encrypt([1]).to_bytes(), p.context)
    x = p.encrypt([1])
    assert Ciphertext.from_bytes(x.to_bytes(), p.context) == x


def test_parts_of_another_library_are_checked(p: Party) -> None:
    x = p.encrypt([9])
    of_parts = partial(Ciphertext.of_parts, p.context, x.key_id)
    assert of_parts(x.parts) == x
    assert p.decrypt(of_parts(x.parts))[0] == 9
    assert of_parts(x.parts, factor=-1).factor == p.t - 1
    for bad in (x.parts[:1], x.parts[0], x.parts[:, :, 1:], x.parts.astype(np.int64), np.zeros_like(x.parts),
                np.full_like(x.parts, np.iinfo(x.parts.dtype).max)):  # fmt: skip
        with pytest.raises(DataError):
            of_parts(bad)
    with pytest.raises(DataError, match="unit"):
        of_parts(x.parts, factor=p.t)


def test_a_key_generator_draws_new_keys() -> None:
    context = Context(n=1024, moduli=[132120577], t=12289)
    keys = [KeyGenerator(context) for _ in range(3)]
    assert len({k.public_key.key_id for k in keys}) == 3
    assert len({k.secret_key.coefficients().tobytes() for k in keys}) == 3
    encoder = CoefficientEncoder(context)
    cts = [Encryptor(keys[0].secret_key).encrypt(encoder.encode([1])) for _ in range(2)]
    assert cts[0] != cts[1]
    assert not np.array_equal(cts[0].parts[1], cts[1].parts[1])


def test_plaintexts_keep_integers_of_any_size() -> None:
    """Arrays of machine words would wrap around where a plaintext is multiplied by a factor."""
    context = Context("insecure_n64_q214", t=2**63 - 25, batching=False, insecure=True)
    keys = KeyGenerator(context)
    x = Encryptor(keys.public_key).encrypt(CoefficientEncoder(context).encode([1]))
    values = [random.Random(5).randrange(context.t) for _ in range(64)]
    decode = CoefficientEncoder(context).decode
    for dtype in (np.int64, np.uint64, object):
        plain = Plaintext(context, np.array(values, dtype=dtype))  # type: ignore[arg-type]
        assert plain.coefficients == tuple(values)
        assert all(type(c) is int for c in plain.coefficients)
        found = decode(Decryptor(keys.secret_key).decrypt(x + plain))
        assert found == [(v + (i == 0)) % context.t for i, v in enumerate(values)]
    with pytest.raises(UsageError, match=r"value 3 is 0\.5"):
        Plaintext(context, (0, 0, 0, 0.5))  # type: ignore[arg-type]
    for values in ({5: 6}, {5, 6}, b"12", "12"):
        with pytest.raises(UsageError, match="must be a sequence of integers"):
            CoefficientEncoder(context).encode(values)  # type: ignore[arg-type]
