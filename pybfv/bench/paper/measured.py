"""What runs on this machine: seconds of one operation on ciphertexts, on one thread.

Operands cycle through a resident set larger than the caches: the paper's 327,680 ciphertexts would take 129 GB.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from pybfv import native
from pybfv.bench.measure import check
from pybfv.bench.paper import pim
from pybfv.params import ParameterSet, wide_primes

OPERATIONS = ("add", "sum", "product", "square and add", "product and add")
"""add, product: results are kept. sum, .. and add: onto an accumulator."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured. ``resident``: bytes of the set that operands come from; ``products``: of one repetition."""

    name: str
    resident: int
    products: int
    repeats: int

    def count(self, ps: ParameterSet) -> int:
        """Ciphertexts of a set in the resident one."""
        return max(8, self.resident // (8 * ps.n * len(ps.primes)))


def cache_bytes() -> int:
    """The largest cache of CPU 0, 32 MiB where the system doesn't say."""
    found = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        found.append(int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]] if text[-1:] in "KMG" else int(text))
    return max(found, default=32 << 20)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one operation, and how many were timed at once."""

    seconds: float
    of: int


def timed(work: Callable[[], object], of: int, repeats: int) -> Timing:
    """The median of ``repeats`` runs after one more; CPU time, which other jobs of the machine disturb less."""
    times = []
    for repeat in range(repeats + 1):
        start = time.process_time()
        work()
        if repeat:
            times.append(time.process_time() - start)
    return Timing(median(times) / of, of)


# --- our cpu backend: "ntt" and "ntt scaled"


def ours(ps: ParameterSet, scale: Scale) -> dict[tuple[str, str], Timing]:
    """By (kernels, operation): "ntt" every operation, "ntt scaled" squares."""
    count = scale.count(ps)
    rng = np.random.default_rng(5)
    data = native.empty((count, 2, len(ps.primes), ps.n))
    for i, p in enumerate(ps.primes):
        data[:, :, i] = rng.integers(0, p, (count, 2, ps.n), dtype=np.uint32)
    wide = wide_primes(ps, 2560)
    pieces = [data[k : k + scale.products] for k in range(0, count - scale.products + 1, scale.products)]
    with native.Backend("cpu", ps.n, ps.primes, threads=1, wide=wide) as backend:
        arrays = [backend.put(piece, borrow=True) for piece in pieces]
        whole = backend.put(data, borrow=True)
        first = backend.add(arrays[0], arrays[-1])
        moduli = np.array(ps.primes, dtype=np.uint64)[:, None]
        expected = (pieces[0][0].astype(np.uint64) + pieces[-1][0]) % moduli
        check(np.array_equal(backend.get(first, 0, 1)[0], expected), "our addition")

        def kept(name: str) -> Callable[[], object]:
            def work() -> None:
                for k in range(len(arrays)):
                    backend.drop(getattr(backend, name)(arrays[k], arrays[-1 - k]))

            return work

        def onto(kind: str, square: bool) -> Callable[[], object]:
            def work() -> None:
                acc = backend.acc_new(kind, 2 if kind == "sum" else 3)
                half = count // 2
                if kind == "sum":
                    backend.acc_add(acc, whole, 0, 1, count)
                elif square:
                    backend.acc_mul(acc, whole, 0, whole, 0, 1, count)
                else:
                    backend.acc_mul(acc, whole, 0, whole, half, 1, half)
                backend.sync()
                backend.acc_drop(acc)

            return work

        found: dict[tuple[str, str], Timing] = {}
        for operation, name in (("add", "add"), ("product", "mul")):
            found["ntt", operation] = timed(kept(name), len(arrays) * scale.products, scale.repeats)
        found["ntt", "sum"] = timed(onto("sum", False), count, scale.repeats)
        found["ntt", "square and add"] = timed(onto("product", True), count, scale.repeats)
        found["ntt", "product and add"] = timed(onto("product", False), count // 2, scale.repeats)
        found["ntt scaled", "square and add"] = timed(onto("scaled", True), count, scale.repeats)
        return found


# --- the paper's method on a CPU


def limb(ps: ParameterSet, scale: Scale) -> dict[str, Timing]:
    """The limb kernels compiled for this CPU, as the simulator runs them on one thread: their launches alone.

    Sums over 16 ciphertexts, products of one pair: all others are scaled from these. By the clock, the fastest of
    several runs, as other jobs of the machine only add to it.
    """

    def launch(what: str, count: int) -> Timing:
        runs = [pim.run(what, "limb", ps.n, ps.primes, count).seconds for _ in range(max(2, scale.repeats))]
        return Timing(min(runs) / count, count)

    few = 16
    one = launch("tensor", 1)
    return {
        "add": launch("add", few),
        "sum": launch("sum", few),
        **dict.fromkeys(OPERATIONS[2:], one),
    }


# --- SEAL, through tenseal.sealapi


PLAIN = {1024: 12289, 2048: 65537, 4096: 1032193}
"""t at each N: a batching prime that SEAL's default moduli can multiply with (at N = 1024 sums only)."""


@dataclass(frozen=True, slots=True)
class Seal:
    """SEAL's seconds of each operation, and log2 of its data level's modulus."""

    times: dict[str, Timing]
    bits: float


def seal(n: int, scale: Scale) -> Seal | None:
    """SEAL's default moduli for N. None where TenSEAL is not installed."""
    try:
        import tenseal.sealapi as api
    except ImportError:
        return None
    parms = api.EncryptionParameters(api.SCHEME_TYPE.BFV)
    parms.set_poly_modulus_degree(n)
    moduli = api.CoeffModulus.BFVDefault(n, api.SEC_LEVEL_TYPE.TC128)
    parms.set_coeff_modulus(moduli)
    parms.set_plain_modulus(api.Modulus(PLAIN[n]))
    context = api.SEALContext(parms, True, api.SEC_LEVEL_TYPE.TC128)
    if not context.parameters_set():
        raise SystemExit(f"bench: SEAL refuses its parameters: {context.parameters_error_name()}")
    data = moduli[:-1] if len(moduli) > 1 else moduli
    generator, key = api.KeyGenerator(context), api.PublicKey()
    generator.create_public_key(key)
    encryptor, evaluator, encoder = api.Encryptor(context, key), api.Evaluator(context), api.BatchEncoder(context)
    plain = api.Plaintext()
    encoder.encode(np.random.default_rng(6).integers(0, PLAIN[n], n).tolist(), plain)
    count = max(8, scale.resident // (2 * len(data) * n * 8))
    ciphertexts = []
    for _ in range(count):
        ciphertexts.append(api.Ciphertext())
        encryptor.encrypt(plain, ciphertexts[-1])
    results = [api.Ciphertext() for _ in range(min(count, 64))]
    few = min(scale.products, count)

    def kept() -> None:
        add, last = evaluator.add, len(results)
        for k in range(count):
            add(ciphertexts[k], ciphertexts[count - 1 - k], results[k % last])

    def sums() -> None:
        total = results[0]
        evaluator.add(ciphertexts[0], ciphertexts[1], total)
        add = evaluator.add_inplace
        for k in range(2, count):
            add(total, ciphertexts[k])

    def products(square: bool, accumulate: bool) -> Callable[[], object]:
        def work() -> None:
            total, one = api.Ciphertext(), results[0]
            evaluator.square(ciphertexts[0], total)
            for k in range(few):
                if square:
                    evaluator.square(ciphertexts[k], one)
                else:
                    evaluator.multiply(ciphertexts[k], ciphertexts[count - 1 - k], one)
                if accumulate:
                    evaluator.add_inplace(total, one)

        return work

    found = {"add": timed(kept, count, scale.repeats), "sum": timed(sums, count - 1, scale.repeats)}
    for name, square, accumulate in (
        ("product", False, False), ("square and add", True, True), ("product and add", False, True),
    ):  # fmt: skip
        found[name] = timed(products(square, accumulate), few, max(1, scale.repeats // 2))
    return Seal(found, float(np.log2([float(m.value()) for m in data]).sum()))
