"""`Evaluator.dot` on every backend: the integer tensor of any context, rounded once on the host."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from itertools import islice

import numpy as np
import pytest
from evaluator_tools import KINDS, Party, integers, party, vector
from test_evaluator import tensor
from test_seal_moduli import MODULI

from pybfv import native
from pybfv.errors import BackendUnavailableError, UsageError
from pybfv.evaluator import Ciphertext, Context, Engine, NoiseError, accumulate
from pybfv.params import is_prime
from pybfv.ring import centred_mod

ENGINES = {
    "cpu": Engine(),
    "cpu, one thread": Engine(threads=1),
    "auto": Engine("auto"),
    "sim, ntt": Engine("sim", dpus=3, tasklets=5),
    "sim, limb": Engine("sim", "limb", dpus=3, tasklets=5),
}
PRODUCTS = ("scaled", "scale-free")


@cache
def seals(bits: int, n: int) -> Party:
    """SEAL's default moduli at a ring that Python multiplies in."""
    return Party(Context(n=n, moduli=MODULI[bits], t=786433, insecure=True))


@pytest.fixture(params=[*sorted(KINDS), *MODULI], ids=str)
def p(request: pytest.FixtureRequest) -> Party:
    return party(request.param) if isinstance(request.param, str) else seals(request.param, 64)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """What backends said of themselves at their end, stats included."""
    found: list[dict] = []

    class Watched(native.Backend):
        def close(self) -> None:
            found.append({**self.info(), **self.stats(), "primes": len(self.primes)})
            super().close()

    monkeypatch.setattr(native, "Backend", Watched)
    return found


@pytest.mark.parametrize("product", PRODUCTS)
def test_every_backend_gives_the_evaluators_own_bytes(p: Party, product: str, opened: list[dict]) -> None:
    rng = random.Random(1)
    t, ev = p.t, p.evaluator
    values = [vector(rng, p.n, t) for _ in range(5)]
    cts = [p.encrypt(v, rng.choice(("public", "symmetric"))) for v in values]
    pairs = [(0, 0), (1, 1), (2, 3), (3, 0), (4, 4)]  # squares, and products of two
    a, b = [cts[i] for i, _ in pairs], [cts[j] for _, j in pairs]
    own = ev.dot(a, b, product)
    expected = [sum(c) % t for c in zip(*(p.product(values[i], values[j]) for i, j in pairs), strict=True)]
    assert p.decrypt(own) == expected
    for name, engine in ENGINES.items():
        opened.clear()
        found = ev.dot(a, b, product, engine=engine)
        assert found.to_bytes() == own.to_bytes(), name
        assert (found.size, found.factor, found.noise) == (3, own.factor, own.noise)
        assert p.decrypt(ev.relinearize(found, p.relin)) == expected
        # it was computed there: all five products, by these kernels
        assert [(x["kernels"], x["products"]) for x in opened] == [(engine.kernels, 5)], name
        assert engine.backend in ("auto", opened[0]["name"])


def test_every_backend_rounds_the_integer_tensor(p: Party) -> None:
    """Coefficients next to +-q/2, where another multiple of q or of the backend's own modulus would show."""
    arithmetic, q, t = p.context.arithmetic, p.context.q, p.t
    rng = random.Random(7)
    edge = [(q - 1) // 2, (q + 1) // 2, (q - 3) // 2, (q + 3) // 2, 0, 1, q - 1, q // t, q // (2 * t)]

    def ciphertext(draw) -> Ciphertext:
        values = [[draw() for _ in range(p.n)] for _ in range(2)]
        x = np.array([[[v % m for v in part] for m in p.context.moduli] for part in values], dtype=arithmetic.dtype)
        x = arithmetic.ring.forward(x) if arithmetic.dtype is np.uint32 else x
        return Ciphertext.of_parts(p.context, p.keys.public_key.key_id, x)

    low, high, mixed = ciphertext(lambda: q // 2 + 1), ciphertext(lambda: q // 2), ciphertext(lambda: rng.choice(edge))
    pairs = [(low, low), (low, high), (mixed, mixed), (mixed, high)] + [(high, high)] * 3
    sums = [[sum(v) for v in zip(*parts, strict=True)] for parts in zip(*(tensor(*x) for x in pairs), strict=True)]
    arrays = [(x.parts, y.parts) for x, y in pairs]
    for name, engine in ENGINES.items():
        scaled, free = arithmetic.scaled(arrays, t, engine), arithmetic.scale_free(arrays, t, engine)
        assert [integers(p.context, x) for x in scaled] == [
            [centred_mod((2 * t * v + q) // (2 * q), q) for v in part] for part in sums
        ], name
        assert [integers(p.context, x) for x in free] == [[centred_mod(t * v, q) for v in part] for part in sums], name


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_batches_of_any_size_are_the_same(engine: Engine, monkeypatch: pytest.MonkeyPatch, opened: list[dict]) -> None:
    p, rng = seals(72, 64), random.Random(3)
    cts = [p.encrypt(vector(rng, p.n, p.t)) for _ in range(4)]
    a, b = [rng.choice(cts) for _ in range(9)], [rng.choice(cts) for _ in range(9)]
    own = p.evaluator.dot(a, b)
    for pairs in (1, 2, 9):
        monkeypatch.setattr(accumulate, "BATCH_BYTES", pairs * 4 * 3 * p.n * 4)
        assert p.evaluator.dot(a, b, engine=engine).to_bytes() == own.to_bytes()
    assert [x["products"] for x in opened] == [9, 9, 9]


def test_unlike_factors_meet_on_the_host() -> None:
    p, rng = seals(174, 64), random.Random(4)
    a, b = (vector(rng, p.n, p.t) for _ in range(2))
    x, y = p.encrypt(a), p.encrypt(b)
    low = p.evaluator.relinearize(p.evaluator.multiply(x, y, "scale-free"), p.relin)
    own = p.evaluator.dot([x, low], [y, x])
    for engine in ENGINES.values():
        assert p.evaluator.dot([x, low], [y, x], engine=engine).to_bytes() == own.to_bytes()


def test_the_largest_moduli() -> None:
    """512 bits on every backend but the limb kernels, which say that 255 bits are theirs."""
    large = list(islice(filter(is_prime, range(2**61 - 1, 2**60, -2)), 8))
    small = list(islice(filter(is_prime, range(2**30 - 127, 2**29, -128)), 16))
    for moduli in (large, small):
        p = Party(Context(n=64, moduli=moduli, t=65537, insecure=True))
        x, y = (p.encrypt(vector(random.Random(i), p.n, p.t)) for i in range(2))
        own = p.evaluator.dot([x, x], [x, y])
        for name, engine in ENGINES.items():
            if engine.kernels == "limb":
                with pytest.raises(BackendUnavailableError, match=r"limb kernels can't serve this ring.*kernels ntt"):
                    p.evaluator.dot([x], [y], engine=engine)
            else:
                assert p.evaluator.dot([x, x], [x, y], engine=engine).to_bytes() == own.to_bytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("bits", MODULI)
def test_seals_defaults_at_their_own_size(bits: int, monkeypatch: pytest.MonkeyPatch, opened: list[dict]) -> None:
    monkeypatch.setenv("PYBFV_SIM", "faithful")
    p = Party(Context(n={72: 4096, 174: 8192}[bits], moduli=MODULI[bits], t=1032193))
    assert not p.context.insecure
    rng = random.Random(bits)
    a, b = vector(rng, p.n, p.t), vector(rng, p.n, p.t)
    x, y = p.encrypt(a), p.encrypt(b)
    own = p.evaluator.dot([x, x], [x, y])
    assert p.decrypt(own) == [(u * u + u * v) % p.t for u, v in zip(a, b, strict=True)]
    # 61 seconds on one core, so limb products of 174 bits are compared at N = 64 alone
    for engine in (Engine(), Engine("sim"), *([Engine("sim", "limb")] if bits == 72 else [])):
        assert p.evaluator.dot([x, x], [x, y], engine=engine).to_bytes() == own.to_bytes()
    assert {x["primes"] for x in opened} == {{72: 3, 174: 7}[bits]}  # docs/evaluator.md


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    p = seals(72, 64)
    x, ev = p.encrypt([1]), p.evaluator
    for wrong in ("sim", {"backend": "sim"}, 3):
        with pytest.raises(UsageError, match=r"dot: engine must be an Engine, not (str|dict|int); give engine=Engine"):
            ev.dot([x], [x], engine=wrong)  # type: ignore[arg-type]
    with pytest.raises(BackendUnavailableError, match="NTT kernels only"):
        Engine(kernels="limb")
    with pytest.raises(UsageError, match="dpus and tasklets belong to the backends sim and upmem"):
        Engine(dpus=3)
    with pytest.raises(UsageError, match="tasklets"):
        ev.dot([x], [x], engine=replace(ENGINES["sim, ntt"], tasklets=25))
    # what can't be decrypted is refused before a backend is asked for
    low = ev.relinearize(ev.square(x), p.relin)
    monkeypatch.setattr(Engine, "open", None)
    with pytest.raises(NoiseError, match="dot"):
        ev.dot([low] * 2, [low] * 2, engine=Engine())
