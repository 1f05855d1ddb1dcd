"""The backend with limb kernels on the simulator: the bytes of ``cpu``, however the work is cut.

The environment's PYBFV_MRAM_LIMIT makes MRAM small, so that work takes rounds.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from test_limb import CHAIN, LIMBS, PAPER, residues, tensor
from test_workload_suite import SPECS, make

from pybfv import native
from pybfv.errors import BackendUnavailableError
from pybfv.params import SETS
from pybfv.ring import Ring
from pybfv.server.accumulate import Accumulation
from pybfv.workload import discover


def uniform(seed: int, primes: tuple[int, ...], *shape: int) -> np.ndarray:
    """Random residues [*shape[:-1], L, N], N = shape[-1]; 0 and p - 1 are common."""
    rng = np.random.default_rng(seed)
    out = native.empty((*shape[:-1], len(primes), shape[-1]))
    for i, p in enumerate(primes):
        plane = rng.integers(0, p, size=out[..., i, :].shape, dtype=np.uint32)
        kind = rng.integers(0, 8, size=plane.shape)
        out[..., i, :] = np.where(kind == 0, 0, np.where(kind == 1, p - 1, plane))
    return out


def everything(backend: native.Backend, a: np.ndarray, b: np.ndarray) -> list[bytes]:
    """Every operation that depends on the kernels, on two arrays of equal count."""
    count = len(a)
    x, y, m = backend.put(a), backend.put(b, borrow=True), a[0, 0].copy()
    total, square, product = backend.acc_new("sum", 2), backend.acc_new("product", 3), backend.acc_new("product", 3)
    backend.acc_add(total, x, 0, 1, count)
    backend.acc_add(total, y, count - 1, 3, 1)
    backend.acc_mul(square, x, 0, x, 0, 1, count)
    backend.acc_mul(product, x, 0, y, 0, 1, count)
    backend.acc_mul(product, x, count - 1, y, 0, 1, 1)
    loaded = backend.acc_new("product", 3)
    backend.acc_load(loaded, backend.acc_save(square))
    backend.acc_merge(loaded, product)
    states = [backend.acc_save(acc) for acc in (total, square, product, loaded)]
    tensors = backend.mul(x, y)
    finished = backend.acc_finish(product, [3] * len(backend.primes))
    arrays = [backend.add(x, y), backend.sub(x, y), backend.neg(x), tensors, backend.add(tensors, tensors)]
    arrays += [backend.add_plain(x, m), backend.mul_plain(x, m), finished]
    return [z.tobytes() for z in (*states, *map(backend.get, arrays))]


SHAPES = [(1, 1, 1, False), (3, 2, 2, True), (7, 11, 5, False), (63, 24, 9, True), (65, 16, 70, False)]


@pytest.mark.parametrize(("dpus", "tasklets", "count", "strict"), SHAPES)
def test_backend_is_cpu(dpus: int, tasklets: int, count: int, strict: bool) -> None:
    """All prefixes of the chain that fit, tiny and odd rings among them."""
    rings = [(8, (17, 97, 113)), (2, (5, 13, 17)), (16, CHAIN[:3]), *((64, CHAIN[:k]) for k in (1, 2, 4, 5, 8))]
    for n, primes in rings if count < 70 else rings[:5]:
        a, b = uniform(n, primes, count, 2, n), uniform(n + 1, primes, count, 2, n)
        with native.Backend("cpu", n, primes) as backend:
            expected = everything(backend, a, b)
        with native.Backend("sim", n, primes, kernels="limb", dpus=dpus, tasklets=tasklets, strict=strict) as backend:
            info = backend.info()
            assert (info["kernels"], info["dpus"], info["tasklets"]) == ("limb", dpus, tasklets)
            found = everything(backend, a, b)
            assert backend.stats()["convert"] > 0
        assert found == expected, (n, len(primes))


def test_rounds_in_a_small_mram(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of every kind take rounds, and give way to nothing."""
    n, primes, count = 64, CHAIN[:4], 33
    a, b = uniform(1, primes, count, 2, n), uniform(2, primes, count, 2, n)
    with native.Backend("cpu", n, primes) as backend:
        expected = everything(backend, a, b)
    monkeypatch.setenv("PYBFV_MRAM_LIMIT", str(16 << 10))
    for dpus in (1, 3):
        with native.Backend("sim", n, primes, kernels="limb", dpus=dpus, tasklets=4) as backend:
            assert everything(backend, a, b) == expected
    monkeypatch.setenv("PYBFV_MRAM_LIMIT", str(4 << 10))
    with native.Backend("sim", n, primes, kernels="limb", dpus=1, tasklets=4) as backend:
        x, acc = backend.put(a), backend.acc_new("product", 3)
        with pytest.raises(MemoryError):
            backend.acc_mul(acc, x, 0, x, 0, 1, count)
        assert not backend.acc_save(acc).any()


@pytest.mark.parametrize("n", LIMBS)
def test_paper_levels_sums(n: int) -> None:
    level = SETS[PAPER[n]]
    cts = uniform(n, level.primes, 3, 2, level.n)
    states = []
    for name, options in (("cpu", {}), ("sim", {"kernels": "limb", "dpus": 7, "strict": False})):
        with native.Backend(name, level.n, level.primes, **options) as backend:
            acc = backend.acc_new("sum", 2)
            backend.acc_add(acc, backend.put(cts), 0, 1, len(cts))
            states.append(backend.acc_save(acc).tobytes())
    assert states[0] == states[1]


def partials(specs: list[str], n: int, primes: tuple[int, ...], blocks: int) -> None:
    study = make(specs, blocks * 64, "totals")
    cts = uniform(n, primes, blocks * study.per_block, 2, n)
    found = []
    for name, options in (("cpu", {}), ("sim", {"kernels": "limb", "dpus": 64, "strict": False})):
        with native.Backend(name, n, primes, **options) as backend:
            sums = Accumulation(study, backend)
            sums.feed(cts, blocks)
            found.append({key: state.tobytes() for key, state in sums.save().items()})
    assert found[0] == found[1]


@pytest.mark.parametrize("name", sorted(discover()))
def test_partials_of_every_workload(name: str) -> None:
    """At N = 64 for each limb count and at the paper's first two levels; ciphertexts are uniform, as real ones look."""
    specs = SPECS.get(name, [discover()[name].example])
    for count in (1, 2, 4, 8):
        partials(specs, 64, CHAIN[:count], 3)
    for level in ("n1024_q27", "n2048_q54"):
        partials(specs, SETS[level].n, SETS[level].primes, 1)


@pytest.mark.slow
def test_regression_at_4096() -> None:
    partials(["linreg:y~x"], 4096, SETS["n4096_q109"].primes, 1)


def test_what_does_not_fit_is_refused() -> None:
    level = SETS["n16384_q430"]
    with pytest.raises(BackendUnavailableError, match="limb"):
        native.Backend("sim", level.n, level.primes, kernels="limb")


def test_values_are_those_of_the_ring() -> None:
    """End to end against Python: the tensor of two ciphertexts in R_q."""
    n, primes = 32, CHAIN[:4]
    ring = Ring(n, primes)
    rng = random.Random(4)
    a, b = ([residues(rng, ring.q, n) for _ in range(2)] for _ in range(2))
    cts = np.array([[ring.to_ntt(poly) for poly in x] for x in (a, b)], dtype=np.uint32)
    with native.Backend("sim", n, primes, kernels="limb", dpus=3) as backend:
        x = backend.put(cts)
        acc = backend.acc_new("product", 3)
        backend.acc_mul(acc, x, 0, x, 1, 1, 1)
        state = backend.acc_save(acc)
    expected = [ring.to_ntt(part) for part in tensor(a, b)]
    assert state.tolist() == expected
