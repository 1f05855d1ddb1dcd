"""The binding of the backends against Python integers; who owns memory, and what is refused."""

from __future__ import annotations

import gc
import pickle
import random
import threading
import weakref

import numpy as np
import pytest

from pybfv import native
from pybfv.errors import BackendUnavailableError, DataError, UsageError

P133 = (67043329, 134348801, 132120577, 67239937, 134250497)
TOY = (17, 97, 113)  # = 1 mod 16: N = 8


def uniform(rng: random.Random, primes: tuple[int, ...], *shape: int) -> np.ndarray:
    """Random residues [*shape[:-1], L, N], N = shape[-1]; extremes are common."""
    out = native.empty((*shape[:-1], len(primes), shape[-1]))
    for i, p in enumerate(primes):
        plane = [rng.choice((0, p - 1, rng.randrange(p))) for _ in range(out[..., i, :].size)]
        out[..., i, :] = np.array(plane, dtype=np.uint32).reshape(out[..., i, :].shape)
    return out


def test_backend_arithmetic_and_accumulators() -> None:
    rng = random.Random(6)
    n, primes = 64, P133
    column = np.array(primes, dtype=object)[:, None]
    a, b = uniform(rng, primes, 5, 2, n), uniform(rng, primes, 5, 2, n)
    u, v = a.astype(object), b.astype(object)
    tensor = np.stack([u[:, 0] * v[:, 0], u[:, 0] * v[:, 1] + u[:, 1] * v[:, 0], u[:, 1] * v[:, 1]], axis=1)
    m = uniform(rng, primes, n)
    factor = [p - 2 for p in primes]
    states = set()
    for body in native.bodies():
        with native.Backend("cpu", n, primes, threads=2, body=body) as backend:
            info = backend.info()
            assert (info["name"], info["body"], info["kernels"], info["threads"]) == ("cpu", body, "ntt", 2)
            assert info["dpus"] is None
            assert info["tasklets"] is None
            x, y = backend.put(a), backend.put(b, borrow=True)
            assert (x.count, x.parts, x.form) == (5, 2, "ntt")
            assert (backend.get(x) == a).all()
            assert (backend.get(y, 3, 2) == b[3:]).all()
            assert (backend.get(backend.add(x, y)) == (u + v) % column).all()
            assert (backend.get(backend.sub(x, y)) == (u - v) % column).all()
            assert (backend.get(backend.neg(x)) == -u % column).all()
            plain = u.copy()
            plain[:, 0] += m
            assert (backend.get(backend.add_plain(x, m)) == plain % column).all()
            assert (backend.get(backend.mul_plain(x, m)) == u * m % column).all()
            products = backend.mul(x, y)
            assert products.parts == 3
            assert (backend.get(products) == tensor % column).all()

            total = backend.acc_new("sum", 2)
            backend.acc_add(total, x, 0, 2, 3)
            backend.acc_add(total, x, 1, 2, 2)
            assert (backend.acc_save(total) == u.sum(axis=0) % column).all()
            product = backend.acc_new("product", 3)
            backend.acc_mul(product, x, 0, y, 0, 1, 5)
            state = backend.acc_save(product)
            assert (state == tensor.sum(axis=0) % column).all()
            states.add(state.tobytes())
            other = backend.acc_new("product", 3)
            backend.acc_load(other, state)
            backend.acc_merge(other, product)
            assert (backend.acc_save(other) == 2 * tensor.sum(axis=0) % column).all()
            finished = backend.acc_finish(product, factor)
            assert (finished.count, finished.parts) == (1, 3)
            assert (backend.get(finished)[0] == state * np.array(factor, dtype=object)[:, None] % column).all()
            stats = backend.stats()
            assert (stats["sums"], stats["products"]) == (5, 5)
            assert stats["bytes_in"] == 2 * a.nbytes
            backend.sync()
    assert len(states) == 1


def test_backend_refuses() -> None:
    with pytest.raises(BackendUnavailableError, match="'upmem'"):
        native.Backend("upmem", 8, TOY)
    with pytest.raises(BackendUnavailableError, match="limb"):
        native.Backend("cpu", 8, TOY, kernels="limb")
    with pytest.raises(BackendUnavailableError, match=r"body 'mmx'.*portable"):
        native.Backend("cpu", 8, TOY, body="mmx")
    for arguments in ({"threads": 257}, {"threads": -1}, {"kernels": "fft"}):
        with pytest.raises(UsageError):
            native.Backend("cpu", 8, TOY, **arguments)
    with pytest.raises(UsageError, match="no ring"):
        native.Backend("cpu", 8, (19,))
    good = np.zeros((2, 2, 3, 8), dtype=np.uint32)
    with native.Backend("cpu", 8, TOY) as backend, native.Backend("cpu", 8, TOY) as other:
        for bad in (good[:0], good[:, :1], good[0], good[..., :4], good.astype(np.uint64), good[:, :, ::-1]):
            with pytest.raises(UsageError):
                backend.put(bad)
        wrong = good.copy()
        wrong[1, 1, 0, 3] = 17
        with pytest.raises(DataError, match="not below its prime"):
            backend.put(wrong)
        x = backend.put(good)
        for first, count in ((2, 1), (0, 3), (-1, 1), (0, 0)):
            with pytest.raises(UsageError):
                backend.get(x, first, count)
        foreign = other.put(good)
        total, product = backend.acc_new("sum", 2), backend.acc_new("product", 3)
        for call in (
            lambda: backend.get(foreign),
            lambda: backend.add(x, foreign),
            lambda: backend.acc_add(total, foreign, 0, 1, 1),
            lambda: backend.drop(foreign),
            lambda: backend.get(total),
            lambda: backend.acc_add(total, x, 0, 1, 3),
            lambda: backend.acc_add(total, x, 2, 1, 1),
            lambda: backend.acc_add(total, x, 1, 1, 2),
            lambda: backend.acc_add(total, x, 0, 0, 1),
            lambda: backend.acc_add(product, x, 0, 1, 1),
            lambda: backend.acc_mul(total, x, 0, x, 0, 1, 1),
            lambda: backend.acc_mul(product, x, 0, x, 1, 1, 2),
            lambda: backend.acc_merge(total, total),
            lambda: backend.acc_merge(total, product),
            lambda: backend.acc_new("mean", 2),
            lambda: backend.acc_new("product", 2),
            lambda: backend.acc_load(total, good),
            lambda: backend.acc_finish(total, [1, 1]),
            lambda: backend.acc_finish(total, [17, 1, 1]),
            lambda: backend.mul(x, backend.mul(x, x)),
            lambda: backend.add_plain(x, good[0]),
            lambda: backend.acc_mul(product, backend.mul(x, x), 0, x, 0, 1, 1),
        ):
            with pytest.raises(UsageError):
                call()
        with pytest.raises(DataError):
            backend.acc_load(total, wrong[1])
        assert not backend.acc_save(total).any()
        for thing in (backend, x, total):
            with pytest.raises(TypeError):
                pickle.dumps(thing)
        backend.drop(x)
        backend.acc_drop(total)
        for call in (lambda: backend.drop(x), lambda: backend.acc_drop(total), lambda: backend.get(x)):
            with pytest.raises(UsageError, match="dropped"):
                call()


def test_borrowed_and_lent_memory_is_kept_alive() -> None:
    class Tracked(np.ndarray):
        pass

    def source() -> Tracked:
        return np.ones((1, 2, 3, 8), dtype=np.uint32).view(Tracked)

    with native.Backend("cpu", 8, TOY) as backend:
        data = source()
        alive = weakref.ref(data)
        x = backend.put(data, borrow=True)
        del data
        gc.collect()
        assert alive() is not None
        assert (backend.get(x) == 1).all()
        backend.sync()
        assert alive() is not None
        backend.drop(x)
        gc.collect()
        assert alive() is None

        data = source()
        alive = weakref.ref(data)
        x = backend.put(data, wait=False)
        del data
        gc.collect()
        assert alive() is not None
        backend.wait(x)
        gc.collect()
        assert alive() is None

        data = source()
        alive = weakref.ref(data)
        x = backend.put(data)
        del data
        gc.collect()
        assert alive() is None
        assert (backend.get(x) == 1).all()


def test_handles_close_in_any_order() -> None:
    good = np.ones((1, 2, 3, 8), dtype=np.uint32)
    backend = native.Backend("cpu", 8, TOY)
    x, total = backend.put(good), backend.acc_new("sum", 2)
    backend.acc_add(total, x, 0, 1, 1)
    backend.close()
    backend.close()
    for call in (lambda: backend.get(x), lambda: backend.acc_save(total), backend.info):
        with pytest.raises(UsageError, match="closed"):
            call()
    x = total = None
    # an array outlives the name of its backend
    x = native.Backend("cpu", 8, TOY).put(good)
    gc.collect()
    assert (x.backend.get(x) == 1).all()


def test_a_handle_freed_on_another_thread_waits_for_the_computation() -> None:
    good = np.ones((64, 2, 3, 8), dtype=np.uint32)
    with native.Backend("cpu", 8, TOY) as backend:
        handles = [backend.put(good) for _ in range(50)]
        keep = backend.put(good)
        worker = threading.Thread(target=handles.clear)
        worker.start()
        total = backend.acc_new("sum", 2)
        for _ in range(200):
            backend.acc_add(total, keep, 0, 1, 64)
        worker.join()
        want = [200 * 64 % p for p in TOY]
        assert backend.acc_save(total)[0, :, 0].tolist() == want

        # while the lock is held a drop is put off, and done before the next call
        owner, x = backend._owner, backend.put(good)
        with owner._lock:
            worker = threading.Thread(target=lambda: backend.drop(x))
            worker.start()
            worker.join()
            assert len(owner._pending) == 1
        backend.info()
        assert owner._pending == []
