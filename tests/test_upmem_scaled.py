"""Scaled products on the simulator, both families: the bytes of ``cpu`` and of Python integers, however cut."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from test_limb import CHAIN, runs
from test_workload_suite import SPECS, make

from pybfv import flow, native
from pybfv.errors import UsageError
from pybfv.params import SETS, ParameterSet, wide_primes
from pybfv.ring import Ring
from pybfv.server.accumulate import Accumulation
from pybfv.server.reference import ReferenceBackend
from pybfv.workload import discover

KERNELS = ("ntt", "limb")
TOY = (17, 97, 113)  # = 1 mod 16: N = 8
TOY_WIDE = (193, 241, 257, 337)


def wide_of(n: int, primes: Sequence[int], count: int) -> tuple[int, ...]:
    if n <= 8:
        return TOY_WIDE
    return wide_primes(ParameterSet("insecure_test", n, tuple(primes), insecure=True), count)


def ciphertexts(seed: int, n: int, primes: Sequence[int], count: int) -> np.ndarray:
    """[count, 2, L, N]: the ends of the centred range, alone and in company."""
    ring, rng = Ring(n, primes), random.Random(seed)
    q = ring.q
    ends = (0, 1, q - 1, (q - 1) // 2, (q + 1) // 2, (q - 3) // 2)
    polys = []
    for k in range(2 * count):
        if k < 2 * len(ends) and k % 2 == 0:
            polys.append([ends[k // 2]] * n)
        else:
            polys.append([rng.choice((*ends, rng.randrange(q), runs(rng, q.bit_length()) % q)) for _ in range(n)])
    found = np.array([ring.to_ntt(poly) for poly in polys], dtype=np.uint32)
    return found.reshape(count, 2, len(primes), n)


def everything(backend: native.Backend | ReferenceBackend, a: np.ndarray) -> list[bytes]:
    """Squares, pairs of one array and of two, pieces, merges, loads; and the scale-free product beside them."""
    count = len(a)
    x, y = backend.put(a, borrow=True), backend.put(a[::-1].copy())
    squares, pairs, pieces, plain = (backend.acc_new(kind, 3) for kind in ["scaled"] * 3 + ["product"])
    backend.acc_mul(squares, x, 0, x, 0, 1, count)
    backend.acc_mul(plain, x, 0, x, 0, 1, count)
    backend.acc_mul(pairs, x, 0, y, 0, 1, count)
    backend.acc_mul(pairs, x, 0, x, count - 1, 1, 1)
    backend.acc_mul(pieces, x, 0, x, 0, 2, (count + 1) // 2)
    if count > 1:
        backend.acc_mul(pieces, x, 1, x, 1, 2, count // 2)
    backend.drop(x)
    loaded = backend.acc_new("scaled", 3)
    backend.acc_load(loaded, backend.acc_save(pairs))
    backend.acc_mul(loaded, y, 0, y, 0, 1, 1)
    backend.acc_merge(loaded, squares)
    states = [backend.acc_save(acc) for acc in (squares, pieces, pairs, loaded)]
    assert (states[0] == states[1]).all()
    assert (states[0][:, : len(backend.primes)] == backend.acc_save(plain)).all()
    return [state.tobytes() for state in states]


RINGS = [(8, TOY), *((64, CHAIN[:k]) for k in (1, 2, 4, 5, 8))]


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize(
    ("dpus", "tasklets", "count", "strict"), [(1, 1, 2, False), (3, 24, 7, True), (7, 11, 9, False), (65, 5, 9, False)]
)
def test_scaled_is_cpu(kernels: str, dpus: int, tasklets: int, count: int, strict: bool) -> None:
    for n, primes in RINGS:
        wide, a = wide_of(n, primes, 2 * count), ciphertexts(n, n, primes, count)
        with native.Backend("cpu", n, primes, wide=wide) as backend:
            expected = everything(backend, a)
        options = {"kernels": kernels, "dpus": dpus, "tasklets": tasklets, "strict": strict}
        with native.Backend("sim", n, primes, wide=wide, **options) as backend:
            assert everything(backend, a) == expected, (n, len(primes))
            stats = backend.stats()
            assert min(stats[key] for key in ("products", "host_to_dpu", "kernel", "dpu_to_host", "convert")) > 0


@pytest.mark.parametrize("kernels", KERNELS)
def test_scaled_is_the_definition(kernels: str) -> None:
    for n, primes in ((2, (5, 13)), (4, (17, 41, 73)), (8, TOY), (16, CHAIN[:3])):
        wide, a = wide_of(n, primes, 14), ciphertexts(7, n, primes, 7)
        expected = everything(ReferenceBackend(n, primes, wide), a)
        for tasklets in (1, 24):
            with native.Backend("sim", n, primes, wide=wide, kernels=kernels, dpus=2, tasklets=tasklets) as backend:
                assert everything(backend, a) == expected, (n, tasklets)


@pytest.mark.parametrize(("kernels", "kilobytes"), [("ntt", 26), ("ntt", 60), ("limb", 24), ("limb", 40)])
def test_scaled_rounds_in_a_small_mram(kernels: str, kilobytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    n, primes, count = 64, CHAIN[:4], 13
    wide, a = wide_of(n, primes, 2 * count), ciphertexts(1, n, primes, count)
    with native.Backend("cpu", n, primes, wide=wide) as backend:
        expected = everything(backend, a)
    monkeypatch.setenv("PYBFV_MRAM_LIMIT", str(kilobytes << 10))
    for dpus in (1, 3):
        with native.Backend("sim", n, primes, wide=wide, kernels=kernels, dpus=dpus, tasklets=4) as backend:
            assert everything(backend, a) == expected
    monkeypatch.setenv("PYBFV_MRAM_LIMIT", str(6 << 10))
    with native.Backend("sim", n, primes, wide=wide, kernels=kernels, dpus=1) as backend:
        x, acc = backend.put(a), backend.acc_new("scaled", 3)
        with pytest.raises(MemoryError):
            backend.acc_mul(acc, x, 0, x, 0, 1, count)
        assert not backend.acc_save(acc).any()


@pytest.mark.parametrize("kernels", KERNELS)
def test_scaled_more_pairs_than_a_launch_adds(kernels: str) -> None:
    n, primes, count = 2, (5, 13), (1 << 16) + 3
    a = np.tile(ciphertexts(5, n, primes, 8), (count // 8 + 1, 1, 1, 1))[:count]
    states = []
    for name, options in (("cpu", {}), ("sim", {"kernels": kernels, "dpus": 1, "strict": False})):
        with native.Backend(name, n, primes, wide=TOY_WIDE, **options) as backend:
            x, acc = backend.put(a), backend.acc_new("scaled", 3)
            backend.acc_mul(acc, x, 0, x, 0, 1, count)
            backend.acc_mul(acc, x, 0, x, 1, 1, count - 1)
            states.append(backend.acc_save(acc).tobytes())
    assert states[0] == states[1]


@pytest.mark.parametrize("kernels", KERNELS)
def test_scaled_launch_runs_on_after_the_call(kernels: str) -> None:
    n, primes = 64, CHAIN[:2]
    wide, a = wide_of(n, primes, 8), ciphertexts(2, n, primes, 4)
    with native.Backend("sim", n, primes, wide=wide, kernels=kernels, dpus=3, strict=False) as backend:
        x, acc, dropped = backend.put(a), backend.acc_new("scaled", 3), backend.acc_new("scaled", 3)
        backend.acc_mul(dropped, x, 0, x, 1, 1, 3)
        assert backend.stats()["kernel"] == 0
        backend.acc_drop(dropped)
        backend.acc_mul(acc, x, 0, x, 1, 1, 3)
        backend.drop(x)
        once = backend.stats()["kernel"]
        assert once > 0
        backend.sync()
        assert backend.stats()["kernel"] > once
        state = backend.acc_save(acc)
    with native.Backend("cpu", n, primes, wide=wide) as backend:
        x, acc = backend.put(a), backend.acc_new("scaled", 3)
        backend.acc_mul(acc, x, 0, x, 1, 1, 3)
        assert backend.acc_save(acc).tobytes() == state.tobytes()


@pytest.mark.parametrize("name", ["n1024_q27", "n2048_q54"])
def test_scaled_at_the_papers_levels(name: str) -> None:
    level = SETS[name]
    wide, a = wide_primes(level, 2), ciphertexts(3, level.n, level.primes, 2)
    states = []
    for backend_name, options in (("cpu", {}), ("sim", {"kernels": "limb"}), ("sim", {})):
        strict = {} if backend_name == "cpu" else {"strict": False}
        with native.Backend(backend_name, level.n, level.primes, wide=wide, **options, **strict) as backend:
            x, acc = backend.put(a), backend.acc_new("scaled", 3)
            backend.acc_mul(acc, x, 0, x, 1, 1, 1)
            states.append(backend.acc_save(acc).tobytes())
    assert states[0] == states[1] == states[2]


@pytest.mark.parametrize("kernels", KERNELS)
def test_scaled_refuses(kernels: str) -> None:
    with native.Backend("sim", 8, TOY, kernels=kernels, dpus=1) as backend, pytest.raises(UsageError, match="wide"):
        backend.acc_new("scaled", 3)
    with native.Backend("sim", 8, TOY, wide=TOY_WIDE, kernels=kernels, dpus=1) as backend:
        acc = backend.acc_new("scaled", 3)
        with pytest.raises(UsageError):
            backend.acc_finish(acc, [1, 1, 1])
        assert not backend.acc_save(acc).any()


def partials(specs: list[str], n: int, primes: tuple[int, ...], blocks: int) -> None:
    study = make(specs, blocks * 64, "totals", allowed=("scaled",))
    wide, cts = wide_of(n, primes, study.shape.ciphertexts), ciphertexts(n, n, primes, blocks * study.per_block)
    found = []
    for name, options in (("cpu", {}), *(("sim", {"kernels": k, "dpus": 64, "strict": False}) for k in KERNELS)):
        with native.Backend(name, n, primes, wide=wide, **options) as backend:
            sums = Accumulation(study, backend)
            for k in range(blocks):
                sums.feed(cts[k * study.per_block : (k + 1) * study.per_block], 1)
            found.append({key: state.tobytes() for key, state in sums.save().items()})
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", sorted(discover()))
def test_scaled_partials_of_every_workload(name: str) -> None:
    """At N = 64 for each limb count and at the paper's first level."""
    specs = SPECS.get(name, [discover()[name].example])
    for count in (1, 2, 4, 8):
        partials(specs, 64, CHAIN[:count], 3)
    level = SETS["n1024_q27"]
    partials(specs, level.n, level.primes, 1)


@pytest.mark.parametrize("kernels", KERNELS)
def test_scaled_statistics_from_file_to_result(kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYBFV_SIM", "faithful")
    rng = random.Random(6)
    rows = [(rng.randrange(1000), rng.randrange(1000)) for _ in range(150)]
    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    found = flow.run(
        str(tmp_path / "rows.csv"),
        ["variance:x", "linreg:y~x"],
        engine=flow.Engine("sim", kernels, dpus=7),
        verify=True,
        product="scaled",
        set_name="insecure_n64_q214",
        insecure=True,
    )
    assert found["verified"]
