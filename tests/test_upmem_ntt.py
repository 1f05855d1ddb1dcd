"""The UPMEM backend with NTT kernels on the simulator: the bytes of ``cpu``, however the work is cut.

The environment's PYBFV_MRAM_LIMIT makes MRAM small, so that work takes rounds and things give way.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from pybfv import native
from pybfv.errors import DataError, UsageError
from pybfv.params import SETS

ROOT = Path(__file__).resolve().parent.parent
P133 = (67043329, 134348801, 132120577, 67239937, 134250497)
TOY = (17, 97, 113)  # = 1 mod 16: N = 8


def uniform(seed: int, primes: Sequence[int], *shape: int) -> np.ndarray:
    """Random residues [*shape[:-1], L, N], N = shape[-1]; 0 and p - 1 are common."""
    rng = np.random.default_rng(seed)
    out = native.empty((*shape[:-1], len(primes), shape[-1]))
    for i, p in enumerate(primes):
        plane = rng.integers(0, p, size=out[..., i, :].shape, dtype=np.uint32)
        kind = rng.integers(0, 8, size=plane.shape)
        out[..., i, :] = np.where(kind == 0, 0, np.where(kind == 1, p - 1, plane)).astype(np.uint32)
    return out


def job(backend: native.Backend, a: np.ndarray, b: np.ndarray, batches: Sequence[int]) -> list[np.ndarray]:
    """Sums, squares and products over the rows of two columns, in batches of rows: the saved accumulators."""
    total, square, product = backend.acc_new("sum", 2), backend.acc_new("product", 3), backend.acc_new("product", 3)
    at = 0
    for rows in batches:
        x, y = backend.put(a[at : at + 2 * rows], borrow=True), backend.put(b[at : at + 2 * rows])
        backend.acc_add(total, x, 0, 2, rows)
        backend.acc_add(total, y, 0, 1, 2 * rows)
        backend.acc_mul(square, x, 1, x, 1, 2, rows)
        backend.acc_mul(product, x, 0, x, 1, 2, rows)
        backend.acc_mul(product, x, 1, y, 0, 2, rows)
        backend.sync()
        backend.drop(x)
        at += 2 * rows
    assert at == len(a)
    return [backend.acc_save(acc) for acc in (total, square, product)]


def both(
    n: int, primes: Sequence[int], rows: int, batches: Sequence[int], dpus: int, tasklets: int, **options: object
) -> None:
    """Asserts that sim's accumulators are cpu's."""
    a, b = uniform(1, primes, 2 * rows, 2, n), uniform(2, primes, 2 * rows, 2, n)
    with native.Backend("cpu", n, primes) as backend:
        want = job(backend, a, b, [rows])
    with native.Backend("sim", n, primes, dpus=dpus, tasklets=tasklets, **options) as backend:
        for found, expected in zip(job(backend, a, b, batches), want, strict=True):
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("tasklets", [1, 2, 11, 16, 24])
@pytest.mark.parametrize("dpus", [1, 3, 7, 63, 65])
def test_any_number_of_dpus_and_tasklets(dpus: int, tasklets: int) -> None:
    both(256, P133, 13, [13], dpus, tasklets, strict=False)


@pytest.mark.parametrize("batches", [[23], [1, 22], [7, 7, 9], [1] * 23])
def test_any_batches(batches: list[int]) -> None:
    both(64, P133, 23, batches, 3, 11, strict=False)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_strict_mode_switches_tasklets_anywhere(seed: int) -> None:
    both(64, P133, 9, [4, 5], 5, 16, strict=True, profile=f"seed={seed}")
    both(8, TOY, 9, [9], 2, 24, strict=True, profile=f"seed={seed}")


@pytest.mark.parametrize("name", sorted(SETS))
def test_every_chain_set(name: str) -> None:
    ps = SETS[name]
    both(ps.n, ps.primes, 5, [2, 3], 17, 16, strict=False)


@pytest.mark.parametrize(("n", "primes"), [(2, (5, 13)), (4, (17, 41)), (8, TOY), (16, (97, 193))])
def test_rings_smaller_than_a_unit(n: int, primes: tuple[int, ...]) -> None:
    for dpus in (1, 2, 5):
        both(n, primes, 6, [6], dpus, 3, strict=False)


def test_largest_residues_at_the_limits() -> None:
    # the largest primes that a ring takes, one of 28 bits, and the smallest
    primes = (1073741441, 1073739937, 268369921, 97)
    n = 16
    column = np.array(primes, dtype=object)[:, None]
    for terms in (1, 2, 3, 4, 5, 8, 63, 64, 65, 127, 128, 129, 300):
        a = native.empty((terms, 2, len(primes), n))
        a[:] = (np.array(primes, dtype=np.uint32) - 1)[:, None]
        wide = a[0].astype(object)
        with native.Backend("sim", n, primes, dpus=2, tasklets=1, strict=False) as backend:
            x, y = backend.put(a), backend.put(a)
            total, square, product = (backend.acc_new(k, p) for k, p in (("sum", 2), ("product", 3), ("product", 3)))
            backend.acc_add(total, x, 0, 1, terms)
            backend.acc_mul(square, x, 0, x, 0, 1, terms)
            backend.acc_mul(product, x, 0, y, 0, 1, terms)
            assert (backend.acc_save(total) == wide * terms % column).all()
            tensor = np.stack([wide[0] * wide[0], 2 * wide[0] * wide[1], wide[1] * wide[1]]) * terms % column
            assert (backend.acc_save(square) == tensor).all()
            assert (backend.acc_save(product) == tensor).all()


def arithmetic(backend: native.Backend, a: np.ndarray, b: np.ndarray) -> Iterator[np.ndarray]:
    x, y = backend.put(a), backend.put(b)
    for array in (
        backend.add(x, y),
        backend.sub(x, y),
        backend.neg(x),
        backend.add_plain(x, a[0, 0]),
        backend.mul_plain(x, b[0, 0]),
        (three := backend.mul(x, y)),
        backend.add(three, three),
        backend.neg(three),
        (coefficients := backend.convert(x, "coefficient")),
        backend.sub(coefficients, coefficients),
        backend.convert(coefficients, "ntt"),
        backend.convert(backend.convert(three, "coefficient"), "ntt"),
    ):
        yield backend.get(array)
    sum3 = backend.acc_new("sum", 3)
    backend.acc_add(sum3, three, 0, 1, len(a))
    yield backend.acc_save(sum3)
    yield backend.get(backend.acc_finish(sum3, [p - 2 for p in backend.primes]))


@pytest.mark.parametrize(("n", "primes"), [(2, (5, 13)), (8, TOY), (64, P133), (1024, P133[:2])])
@pytest.mark.parametrize(
    ("dpus", "tasklets", "strict"), [(1, 24, False), (3, 1, False), (7, 11, True), (65, 16, False)]
)
def test_arithmetic(n: int, primes: tuple[int, ...], dpus: int, tasklets: int, strict: bool) -> None:
    a, b = uniform(3, primes, 4, 2, n), uniform(4, primes, 4, 2, n)
    with native.Backend("cpu", n, primes) as backend:
        want = list(arithmetic(backend, a, b))
    with native.Backend("sim", n, primes, dpus=dpus, tasklets=tasklets, strict=strict) as backend:
        for found, expected in zip(arithmetic(backend, a, b), want, strict=True):
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("n", [4096, 8192, 16384])
@pytest.mark.parametrize("tasklets", [1, 16, 24])
def test_transforms_of_every_size(n: int, tasklets: int) -> None:
    primes = P133[:3]
    a = uniform(5, primes, 1, 2, n)
    with native.Backend("cpu", n, primes) as backend:
        want = backend.get(backend.convert(backend.put(a), "coefficient"))
    with native.Backend("sim", n, primes, dpus=4, tasklets=tasklets, strict=False) as backend:
        x = backend.convert(backend.put(a), "coefficient")
        assert backend.get(x).tobytes() == want.tobytes()
        assert backend.get(backend.convert(x, "ntt")).tobytes() == a.tobytes()


@pytest.mark.parametrize("kilobytes", [14, 24, 90])
def test_rounds_when_mram_is_small(kilobytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYBFV_MRAM_LIMIT", str(kilobytes << 10))
    # a ciphertext takes 2.5 KB, a product accumulator 3.75 KB
    both(64, P133, 23, [11, 12], 1, 16, strict=False)
    a, b = uniform(3, P133[:1], 9, 2, 64), uniform(4, P133[:1], 9, 2, 64)
    with native.Backend("cpu", 64, P133[:1]) as backend:
        want = list(arithmetic(backend, a, b))
    with native.Backend("sim", 64, P133[:1], dpus=1, strict=False) as backend:
        for found, expected in zip(arithmetic(backend, a, b), want, strict=True):
            assert found.tobytes() == expected.tobytes()


def test_too_small_mram_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYBFV_MRAM_LIMIT", "4096")
    with native.Backend("sim", 64, P133, dpus=1, strict=False) as backend:
        x, product = backend.put(uniform(1, P133, 2, 2, 64)), backend.acc_new("product", 3)
        with pytest.raises(MemoryError, match="MRAM of 1 DPU"):
            backend.acc_mul(product, x, 0, x, 0, 1, 2)
        assert not backend.acc_save(product).any()
    monkeypatch.setenv("PYBFV_MRAM_LIMIT", "64")
    with pytest.raises(MemoryError, match="MRAM"):
        native.Backend("sim", 64, P133, dpus=1, strict=False)


def test_accumulators_load_merge_and_stay() -> None:
    a = uniform(6, P133, 6, 2, 64)
    states = []
    for name, options in (("cpu", {}), ("sim", {"dpus": 7, "strict": True})):
        with native.Backend(name, 64, P133, **options) as backend:
            x = backend.put(a)
            one, two, three = (backend.acc_new("product", 3) for _ in range(3))
            backend.acc_mul(one, x, 0, x, 0, 1, 6)
            backend.acc_load(two, backend.acc_save(one))
            backend.acc_mul(two, x, 0, x, 1, 2, 3)
            backend.acc_merge(three, two)
            backend.acc_merge(three, one)
            empty = backend.acc_new("product", 3)
            backend.acc_merge(three, empty)
            assert not backend.acc_save(empty).any()
            backend.acc_drop(one)
            states.append([backend.acc_save(acc).tobytes() for acc in (two, three)])
    assert states[0] == states[1]


def test_borrowed_memory_is_not_copied_until_used() -> None:
    a = uniform(7, P133, 2, 2, 64)
    with native.Backend("sim", 64, P133, dpus=2, strict=False) as backend:
        x = backend.put(a, borrow=True)
        a[1] = a[0]
        total = backend.acc_new("sum", 2)
        backend.acc_add(total, x, 1, 1, 1)
        assert (backend.acc_save(total) == a[0]).all()
        wrong = a.copy()
        wrong[1, 1, 4, 3] = P133[4]
        with pytest.raises(DataError, match="not below its prime"):
            backend.put(wrong, borrow=True)


def test_info_and_stats() -> None:
    with native.Backend("sim", 64, P133, profile="seed=9") as backend:
        info = backend.info()
        assert info == {
            "name": "sim",
            "body": "dpu",
            "kernels": "ntt",
            "threads": None,
            "dpus": 64,
            "tasklets": 16,
            "seed": 9,
            "mended": None,
        }
        x, total = backend.put(uniform(1, P133, 3, 2, 64)), backend.acc_new("sum", 2)
        backend.acc_add(total, x, 0, 1, 3)
        backend.acc_save(total)
        stats = backend.stats()
        assert stats["sums"] == 3
        assert stats["convert"] == 0
        assert min(stats[key] for key in ("host_to_dpu", "kernel", "dpu_to_host")) > 0


def test_numbers_out_of_range_are_refused() -> None:
    for options in ({"dpus": 4097}, {"dpus": -1}, {"tasklets": 25}, {"tasklets": -1}):
        with pytest.raises(UsageError, match=r"dpus|tasklets"):
            native.Backend("sim", 64, P133, **options)
    with pytest.raises(UsageError, match="no ring"):
        native.Backend("sim", 8, (19,), dpus=1)


def test_the_environment_chooses_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in ("strict", "faithful"):
        monkeypatch.setenv("PYBFV_SIM", mode)
        both(8, TOY, 2, [2], 2, 3)


def test_a_missing_plugin_says_what_is_missing(tmp_path: Path) -> None:
    left_out = shutil.ignore_patterns("__pycache__", "dpu", "libpybfv_upmem.so")  # also where there is an SDK
    shutil.copytree(ROOT / "pybfv", tmp_path / "pybfv", ignore=left_out)
    code = (
        "import re\nfrom pybfv import native, errors\n"
        "try:\n    native.Backend('upmem', 8, (17,))\n"
        "except errors.BackendUnavailableError as e:\n    assert re.search('hardware.*SDK.*doctor', str(e))\n"
        "try:\n    native.Backend('sim', 8, (17,))\n"
        "except errors.BackendUnavailableError as e:\n    print(e)\n"
    )

    def said() -> str:
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    assert "bfv_ntt" in said()  # the programs are missing
    (tmp_path / "pybfv" / "native" / "libpybfv_sim.so").unlink()
    assert "libpybfv_sim.so" in said()
    assert "make lib" in said()


# A program that writes nothing and says that it has, or that refuses launches of one term.
IDLE = """
#include <defs.h>
#include "abi.h"
__host struct bfv_args bfv_args;
__host struct bfv_report bfv_report;
int main(void) {
    if (me() == 0) {
        bfv_report.status = bfv_args.count == 1 ? BFV_DPU_ARGUMENT : BFV_DPU_OK;
        bfv_report.serial = bfv_args.serial;
    }
    return 0;
}
"""
FAILING = """
import os, sys
import numpy as np
from pybfv import native, errors

def refused(call, *arguments):
    try:
        call(*arguments)
    except errors.PybfvError as e:
        return str(e)
    return "no error"

kernels, primes = sys.argv[1], (257, 641)
ones = np.ones((5, 2, 2, 64), dtype=np.uint32)
with native.Backend("sim", 64, primes, kernels=kernels, dpus=1, strict=True, check="none") as backend:
    a, sums, other = backend.put(ones), backend.acc_new("sum", 2), backend.acc_new("sum", 2)
    backend.acc_load(sums, ones[0])
    backend.acc_load(other, ones[1])
    print(refused(backend.acc_add, sums, a, 0, 1, 5))  # ntt: rounds of two, two and one, which fails, later
    print(refused(backend.sync))
    print(refused(backend.sync))
    for call, arguments in (
        (backend.acc_save, (sums,)),
        (backend.acc_finish, (sums, [1, 1])),
        (backend.acc_add, (sums, a, 0, 1, 2)),
        (backend.acc_merge, (other, sums)),
        (backend.acc_merge, (sums, other)),
    ):
        print(refused(call, *arguments))
    print((backend.acc_save(other) == ones[1]).all())
    backend.acc_load(sums, ones[2])
    print((backend.acc_save(sums) == ones[2]).all())
    refused(backend.sync)
    # whoever needs the DPUs next hears of it, and is not harmed
    print(refused(backend.acc_add, sums, a, 0, 1, 1))
    print(refused(backend.acc_add, other, a, 0, 1, 2))
    print((backend.acc_save(other) == ones[1]).all(), refused(backend.acc_save, sums))
    refused(backend.sync)
    # loading or dropping an accumulator does not wait; the error comes out all the same
    for discard in (lambda acc: backend.acc_load(acc, ones[3]), backend.acc_drop):
        fresh = backend.acc_new("sum", 2)
        print(refused(backend.acc_add, fresh, a, 0, 1, 1), refused(discard, fresh))
        print(refused(backend.sync))
    backend.acc_add(backend.acc_new("sum", 2), a, 0, 1, 1)  # closed under way
del os.environ["PYBFV_MRAM_LIMIT"]
with native.Backend("sim", 64, primes, kernels=kernels, dpus=1, strict=True, wide=(769, 1153), check="none") as backend:
    fresh, b = backend.acc_new("sum", 2), backend.put(ones[:2])
    print(refused(backend.acc_add, fresh, b, 0, 1, 2))
    print(refused(backend.acc_save, fresh))
    print(refused(backend.acc_finish, fresh, [1, 1]))
    print(refused(backend.add, b, b))
    refused(backend.sync)
    for kind in ("product", "scaled"):
        product, healthy = backend.acc_new(kind, 3), backend.acc_new(kind, 3)
        print(refused(backend.acc_mul, product, b, 0, b, 1, 1, 1), refused(backend.sync))
        print(refused(backend.acc_save, product), refused(backend.acc_merge, healthy, product))
        print(not backend.acc_save(healthy).any())
    bad, healthy = backend.acc_new("sum", 2), backend.acc_new("sum", 2)
    print(refused(backend.acc_add, bad, b, 0, 1, 1), refused(backend.acc_add, healthy, b, 0, 1, 2))
    print(refused(backend.acc_save, bad), not backend.acc_save(healthy).any())
"""


def failing(kernels: str, folder: Path, program: str) -> list[str]:
    """What FAILING prints with IDLE in place of the DPUs' program, in a copy of the package."""
    shutil.copytree(ROOT / "pybfv", folder / "pybfv", ignore=shutil.ignore_patterns("__pycache__"))
    source = folder / "idle.c"
    source.write_text(IDLE)
    flags = [
        "-std=c11",
        "-shared",
        "-fPIC",
        "-Wl,-Bsymbolic",
        "-Wl,-z,now",
        "-DNR_TASKLETS=24",
        "-fsanitize-coverage=trace-pc",
    ]
    include = [f"-I{ROOT / 'host_c/sim/device'}", f"-I{ROOT / 'dpu/core'}"]
    output = folder / "pybfv" / "native" / "dpu" / f"{program}.strict.so"
    output.unlink()
    plain = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    subprocess.run([os.environ.get("CC", "cc"), *flags, *include, "-o", output, source], check=True, env=plain)
    environment = os.environ | {"PYTHONPATH": str(folder), "PYBFV_MRAM_LIMIT": "3584"}
    return subprocess.run(
        [sys.executable, "-c", FAILING, kernels],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.splitlines()


@pytest.mark.parametrize(("kernels", "program"), [("ntt", "bfv_ntt"), ("limb", "bfv_limb1")])
def test_a_failing_launch_leaves_no_number(tmp_path: Path, kernels: str, program: str) -> None:
    """Also when it fails after the call that began it has returned."""
    found = failing(kernels, tmp_path, program)
    # IDLE says that it has summed two terms and more: what it left is refused when it comes back
    lie = "not below its prime" if kernels == "ntt" else "not below q"
    refusal = "refused command 0x101" if kernels == "ntt" else "refused command 0x204"
    undefined = "earlier device error left this accumulator undefined; compute again"
    assert found[0] == "no error"
    assert (refusal if kernels == "ntt" else lie) in found[1]
    assert re.search(r"\(seed \d+\)", found[1])  # which repeats the run
    assert found[2] == "no error"
    assert all(undefined in said for said in found[3:8])
    # another accumulator keeps its value, and loading gives this one a new value
    assert found[8:10] == ["True", "True"]
    assert found[10] == "no error"
    assert refusal in found[11]
    assert found[12].startswith("True ")
    assert undefined in found[12]
    for i in (13, 15):
        assert found[i] == "no error no error"
        assert refusal in found[i + 1]
    assert found[17] == "no error"
    assert lie in found[18]
    assert (lie if kernels == "ntt" else undefined) in found[19]
    assert kernels == "limb" or lie in found[20]
    for i in (21, 24):
        assert found[i].startswith("no error")
        assert "refused command" in found[i]
        assert found[i + 1].count(undefined) == 2
        assert found[i + 2] == "True"
    assert found[27].startswith("no error")
    assert refusal in found[27]
    assert undefined in found[28]
    assert found[28].endswith("True")
    assert len(found) == 29


@pytest.mark.parametrize("kernels", ["ntt", "limb"])
def test_the_last_launch_runs_on_after_the_call(kernels: str) -> None:
    """Kernel time counts when a launch ends: not in the call that began it, but in the next that needs the DPUs."""
    a = uniform(8, P133[:2], 4, 2, 64)
    with native.Backend("sim", 64, P133[:2], kernels=kernels, dpus=3, strict=False) as backend:
        total, product = backend.acc_new("sum", 2), backend.acc_new("product", 3)

        def kernel() -> int:
            return backend.stats()["kernel"]

        for add in (
            lambda x: backend.acc_mul(product, x, 0, x, 1, 1, 3),
            lambda x: backend.acc_add(total, x, 0, 1, 4),
        ):
            x = backend.put(a)
            before = kernel()
            add(x)
            assert kernel() == before
            y = backend.put(a)  # host work goes on, and what was read may go
            backend.drop(x)
            assert kernel() == before
            add(y)
            once = kernel()
            assert once > before
            backend.sync()
            assert kernel() > once
        states = [backend.acc_save(acc).tobytes() for acc in (total, product)]
    with native.Backend("cpu", 64, P133[:2]) as backend:
        total, product = backend.acc_new("sum", 2), backend.acc_new("product", 3)
        x = backend.put(a)
        for _ in range(2):
            backend.acc_mul(product, x, 0, x, 1, 1, 3)
            backend.acc_add(total, x, 0, 1, 4)
        assert states == [backend.acc_save(acc).tobytes() for acc in (total, product)]


@pytest.mark.parametrize("kernels", ["ntt", "limb"])
def test_everything_may_follow_a_launch_under_way(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads, merges, saves, results of other kinds, more accumulators than MRAM holds, closing."""
    monkeypatch.setenv("PYBFV_MRAM_LIMIT", str(16 << 10))
    primes = P133[:2]
    a, b = uniform(8, primes, 5, 2, 64), uniform(9, primes, 5, 2, 64)
    found = []
    for name, options in (("cpu", {}), ("sim", {"kernels": kernels, "dpus": 1, "strict": False})):
        with native.Backend(name, 64, primes, **options) as backend:
            x, y = backend.put(a), backend.put(b)
            accs = [backend.acc_new("product", 3) for _ in range(12)]
            for i, acc in enumerate(accs):
                backend.acc_mul(acc, x, 0, y, i % 3, 1, 2)
                if i % 4 == 0:
                    backend.acc_load(acc, backend.acc_save(accs[0]))
                elif i % 4 == 1:
                    backend.acc_merge(accs[i - 1], acc)
                elif i % 4 == 2:
                    backend.acc_drop(backend.acc_new("product", 3))
                    found.append(backend.get(backend.add(x, y)).tobytes())
                else:
                    other = backend.acc_new("product", 3)
                    backend.acc_mul(other, y, 0, y, 0, 1, 5)
                    backend.acc_drop(other)
            found += [backend.acc_save(acc).tobytes() for acc in accs]
            backend.acc_mul(accs[0], x, 0, y, 0, 1, 5)
    assert found[: len(found) // 2] == found[len(found) // 2 :]
