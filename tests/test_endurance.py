"""Backends used a thousand times and by 24 threads: no growth in memory, no race, the same bytes."""

from __future__ import annotations

import gc
import os
import random
import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from test_native_backend import P133, uniform

from pybfv import flow, native

N, BLOCKS, THREADS = 256, 4, 24
BACKENDS = {
    "cpu": {"name": "cpu", "threads": 2},
    "cpu-scaled": {"name": "cpu", "threads": 1, "wide": (268369921, 268271617, 268238849, 268042241, 267943937)},
    "sim": {"name": "sim", "dpus": 3, "tasklets": 4, "profile": "strict=0"},
    "sim-limb": {"name": "sim", "kernels": "limb", "dpus": 2, "tasklets": 2},
}


def opened(which: str) -> native.Backend:
    options = dict(BACKENDS[which])
    return native.Backend(options.pop("name"), N, P133, **options)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def data() -> np.ndarray:
    return uniform(random.Random(24), P133, BLOCKS, 2, N)


def states(backend: native.Backend, words: np.ndarray) -> bytes:
    """Sums and products of the ciphertexts, and an array that came back."""
    array = backend.put(words)
    total, product = backend.acc_new("sum", 2), backend.acc_new("product", 3)
    backend.acc_add(total, array, 0, 1, BLOCKS)
    backend.acc_mul(product, array, 0, array, 1, 2, BLOCKS // 2)
    found = b"".join(x.tobytes() for x in (backend.acc_save(total), backend.acc_save(product), backend.get(array)))
    backend.drop(array)
    for acc in (total, product):
        backend.acc_drop(acc)
    return found


@pytest.fixture(scope="module")
def expected() -> bytes:
    with opened("cpu") as backend:
        return states(backend, data())


@pytest.mark.parametrize(
    ("which", "times"),
    [
        ("cpu", 1000),
        ("cpu-scaled", 1000),
        ("sim", 200),
        pytest.param("sim", 1000, marks=pytest.mark.slow),
        pytest.param("sim-limb", 40, marks=pytest.mark.slow),
    ],
)
def test_put_compute_drop_again_and_again(which: str, times: int, expected: bytes) -> None:
    words = data()
    with opened(which) as backend:
        for k in range(times // 5):  # until every buffer has its size
            assert k % 50 or states(backend, words) == expected
            states(backend, words)
        gc.collect()
        before = resident()
        for _ in range(times):
            states(backend, words)
        gc.collect()
        grown = resident() - before
        assert states(backend, words) == expected
    assert grown < 1 << 20, f"{grown} bytes in {times} times"


@pytest.mark.parametrize("which", ["cpu", "sim"])
def test_opened_again_and_again(which: str, expected: bytes) -> None:
    words, times = data(), 60
    for _ in range(10):
        with opened(which) as backend:
            assert states(backend, words) == expected
    gc.collect()
    before, files = resident(), len(os.listdir("/proc/self/fd"))
    for _ in range(times):
        with opened(which) as backend:
            states(backend, words)
    gc.collect()
    assert resident() - before < 4 << 20
    assert len(os.listdir("/proc/self/fd")) == files


def at_once(work, count: int = THREADS) -> list[bytes]:
    """What ``count`` threads return that start together."""
    barrier = threading.Barrier(count)

    def one(k: int) -> bytes:
        barrier.wait()
        return work(k)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.parametrize("which", ["cpu", "sim"])
def test_threads_with_backends_of_their_own(which: str, expected: bytes) -> None:
    words = data()

    def work(_: int) -> bytes:
        with opened(which) as backend:
            return b"".join(states(backend, words) for _ in range(3))

    assert set(at_once(work)) == {3 * expected}


@pytest.mark.parametrize("which", [*list(BACKENDS)[:3], pytest.param("sim-limb", marks=pytest.mark.slow)])
def test_threads_with_one_backend(which: str, expected: bytes) -> None:
    """Each with its own accumulators; then all with one, which holds the sum of all."""
    words = data()
    with opened(which) as backend:
        assert set(at_once(lambda _: b"".join(states(backend, words) for _ in range(3)))) == {3 * expected}
        total = backend.acc_new("sum", 2)

        def add(_: int) -> bytes:
            array = backend.put(words)
            for _ in range(5):
                backend.acc_add(total, array, 0, 1, BLOCKS)
            backend.drop(array)
            return b""

        at_once(add)
        primes = np.array(P133, dtype=object)[:, None]
        want = words.astype(object).sum(axis=0) * (5 * THREADS) % primes
        assert (backend.acc_save(total) == want).all()


def test_threads_with_one_ring() -> None:
    words, primes = data(), np.array(P133, dtype=object)[:, None]
    with native.Ring(N, P133) as ring:

        def work(k: int) -> bytes:
            x = words[k % BLOCKS].copy()
            assert (ring.add(x, x) == x.astype(object) * 2 % primes).all()
            assert (ring.inverse(ring.forward(x.copy())) == x).all()
            return ring.forward(x).tobytes()

        found = at_once(work)
    assert all(found[k] == found[k % BLOCKS] for k in range(THREADS))
    assert len(set(found)) == BLOCKS


@pytest.mark.parametrize("product", ["scale-free", "scaled"])
def test_threads_that_do_whole_jobs_of_one_study(product: str, tmp_path: Path) -> None:
    """One study, key and folder of contributions for all."""
    table = {"x": [3, 5, 9, 0, 10], "y": [1, 2, 3, 4, 0]}
    study = flow.plan(
        table, ["linreg:y~x"], bounds=["x=0:10", "y=0:10"], max_contributions=THREADS, set_name="insecure_n64_q214",
        insecure=True, product=product, max_rows=1000,
    ).study  # fmt: skip
    secret, public = flow.keygen(study)
    (tmp_path / "in").mkdir()
    at_once(lambda k: flow.encrypt(study, table, public, str(tmp_path / "in" / f"{k}.bfvc")))

    def work(k: int) -> bytes:
        flow.compute_to_partial(
            str(tmp_path / "in"), str(tmp_path / f"{k}.bfvp"), engine=flow.Engine(threads=1 + k % 3)
        )
        result = flow.compute(str(tmp_path / "in"), str(tmp_path / f"{k}.bfvr"), key=public)
        told = flow.decrypt(result, secret)
        return (tmp_path / f"{k}.bfvp").read_bytes() + repr((told["results"], told["rows"])).encode()

    assert len(set(at_once(work))) == 1
    assert flow.decrypt(str(tmp_path / "0.bfvr"), secret)["rows"] == 5 * THREADS
