"""One suite for every workload: reference, every CPU body, simulated DPUs, noop and plaintext agree.

Partials are compared byte for byte between backends, threads, batches and orders.
"""

from __future__ import annotations

import random
import re
from fractions import Fraction

import numpy as np
import pytest

from pybfv import native
from pybfv.client.decrypt import totals_of
from pybfv.client.keys import keygen
from pybfv.client.plan import Job, make_study
from pybfv.io.partial import Partial
from pybfv.scheme import public
from pybfv.server.accumulate import Accumulation
from pybfv.server.finish import COMBINED, finish
from pybfv.server.noop import NoopBackend
from pybfv.server.reference import ReferenceBackend
from pybfv.study import PRODUCTS, Study
from pybfv.workload import Column, ColumnBounds, Totals, discover, parse_specs

SET = "insecure_n64_q214"
NAMES = ("x", "y", "z")
# Beyond these, a workload is tried with its own example, so that a new file needs no edit here.
SPECS = {
    "count": ["count"],
    "sum": ["sum:x,y"],
    "mean": ["mean:*"],
    "variance": ["variance:x,y"],
    "linreg": ["linreg:y~x+z", "linreg:y~x+x^2-1"],
}


def names_in(specs: list[str]) -> tuple[str, ...]:
    """The columns that specs may speak of: the table's, and those of an example."""
    found = re.findall(r"[A-Za-z_]\w*", " ".join(spec.partition(":")[2] for spec in specs))
    return tuple(dict.fromkeys([*NAMES, *found]))


def make_rows(count: int, seed: int, names: tuple[str, ...] = NAMES) -> list[dict[Column, Fraction]]:
    rng = random.Random(seed)
    values = {
        "x": lambda: Fraction(rng.randint(-500, 2500), 10),
        "y": lambda: Fraction(rng.randint(0, 99)),
        "z": lambda: Fraction(rng.choice([-1, 1]) * rng.randint(0, 10**6), 1000),
    }
    return [{Column(n): values.get(n, values["y"])() for n in names} for _ in range(count)]


BASE = {
    "x": ColumnBounds(Fraction(-50), Fraction(250), 1),
    "y": ColumnBounds(Fraction(0), Fraction(99), 0),
    "z": ColumnBounds(Fraction(-1000), Fraction(1000), 3),
}


def make(
    specs: list[str], rows: int, reveal: str, moduli: tuple[int, ...] = (), allowed: tuple[str, ...] = ("scale-free",)
) -> Study:
    workloads = parse_specs(specs, names_in(specs), NAMES)
    used = {c.name for w in workloads for c in w.columns()}
    base = {n: BASE.get(n, BASE["y"]) for n in used}
    job = Job(tuple(workloads), base, rows, 4, reveal, "error", allowed)
    return make_study(job, SET, moduli, insecure=True)


def wire(study: Study, rows: list[dict[Column, Fraction]]) -> list[list[list[int]]]:
    """[blocks][columns][N]: what a contribution encrypts."""
    n = study.ps.n
    blocks = []
    for start in range(0, len(rows), n):
        part = rows[start : start + n]
        block = [[1] * len(part)]
        for c in study.columns[1:]:
            b = study.bounds[c]
            block.append([int(r[Column(c.name)] ** c.power * 10**b.scale) - b.mid for r in part])
        blocks.append([v + [0] * (n - len(v)) for v in block])
    return blocks


def encrypt_blocks(study: Study, key, blocks: list[list[list[int]]]) -> np.ndarray:
    ps = study.ps
    with native.Ring(ps.n, ps.primes) as ring:
        pk = public.public_polys(ring, key.seed, key.p0)
        encoders = [
            native.Encoder.batched(ring, study.t_primes(r))
            if study.packing == "batched"
            else native.Encoder.coefficients(ring, t)
            for r, t in enumerate(study.moduli)
        ]
        found = [public.encrypt(ring, pk, e.encode(values)) for block in blocks for values in block for e in encoders]
        for e in encoders:
            e.close()
    return np.stack(found)


def accumulate(study: Study, backend, ciphertexts, batches: list[int]) -> dict[str, np.ndarray]:
    sums = Accumulation(study, backend)
    at = 0
    for blocks in batches:
        sums.feed(ciphertexts[at : at + blocks * study.per_block], blocks)
        at += blocks * study.per_block
    assert at == len(ciphertexts)
    return sums.save()


def specs_of(name: str) -> list[str]:
    return SPECS.get(name, [discover()[name].example])


WORKLOADS = [
    (name, product)
    for name in sorted(discover())
    for product in (PRODUCTS if make(specs_of(name), 100, "totals").depth else ["none"])
]


@pytest.mark.parametrize("reveal", ["totals", "slots"])
@pytest.mark.parametrize(("name", "product"), WORKLOADS)
def test_all_backends_agree(name: str, product: str, reveal: str) -> None:
    specs = specs_of(name)
    rows = make_rows(64 * 3 + 17, seed=sum(map(ord, name)), names=names_in(specs))
    study = make(specs, len(rows), reveal, allowed=(product,))
    assert study.product == product
    secret, key = keygen(study)
    blocks = wire(study, rows)
    cts = encrypt_blocks(study, key, blocks)
    ps = study.ps

    reference = accumulate(study, ReferenceBackend(ps.n, ps.primes, study.wide), cts, [4])
    for body in native.bodies():
        for threads, batches in ((1, [4]), (2, [1, 3]), (3, [2, 1, 1])):
            with native.Backend("cpu", ps.n, ps.primes, threads=threads, body=body, wide=study.wide) as backend:
                found = accumulate(study, backend, cts, batches)
            assert found.keys() == reference.keys()
            for key_, state in reference.items():
                assert np.array_equal(found[key_], state), (body, threads, key_)

    for kernels, dpus, tasklets in (("ntt", 5, 7), ("limb", 3, 4)):
        with native.Backend(
            "sim", ps.n, ps.primes, kernels=kernels, dpus=dpus, tasklets=tasklets, strict=False, wide=study.wide
        ) as backend:
            found = accumulate(study, backend, cts, [1, 3])
        for key_, state in reference.items():
            assert np.array_equal(found[key_], state), (kernels, key_)

    for name_, total, _, parts in study.names():
        assert reference[name_].shape == study.state_shape(total, parts)
    with native.Backend("cpu", ps.n, ps.primes) as backend:
        partial = Partial(study.doc, key.key_id, ("00" * 16,), len(rows), 0, 4, reference)
        result = finish(partial, study, key, backend, COMBINED)
    decrypted = totals_of(result, study, secret)

    # noop runs the same server calls on plaintexts; it has one accumulator for each modulus.
    noop = NoopBackend(ps.n)
    plain_cts = [values for block in blocks for values in block for _ in study.moduli]
    slots = accumulate(study, noop, plain_cts, [4])
    for name_, total, _, _ in study.names():
        assert sum(slots[name_]) == decrypted[total], name_

    totals = Totals(
        len(rows),
        {k[0]: v for k, v in decrypted.items() if len(k) == 1},
        {(k[0], k[1]): v for k, v in decrypted.items() if len(k) == 2},
        study.bounds,
    )
    for ddof in (0, 1):
        for w in study.workloads:
            assert w.finish(totals, ddof) == w.plain(rows, ddof)


def test_scaled_partials_begin_with_the_scale_free_ones() -> None:
    """The first L planes of a scaled accumulator are the scale-free accumulator of the same ciphertexts."""
    rows = make_rows(100, seed=8)
    studies = [make(["variance:x", "linreg:y~x+z"], len(rows), "totals", allowed=(p,)) for p in PRODUCTS]
    _, key = keygen(studies[0])
    cts = encrypt_blocks(studies[0], key, wire(studies[0], rows))
    ps, count = studies[0].ps, len(studies[0].ps.primes)
    assert {s.product for s in studies} == set(PRODUCTS)
    states = []
    for study in studies:
        with native.Backend("cpu", ps.n, ps.primes, wide=study.wide) as backend:
            states.append(accumulate(study, backend, cts, [2]))
    for name, state in states[0].items():
        assert np.array_equal(states[1][name][:, :count], state)
        assert states[1][name].shape[1] == count + (len(studies[1].wide) if name.startswith("product") else 0)


@pytest.mark.parametrize("product", PRODUCTS)
def test_partials_do_not_depend_on_order_or_split(product: str) -> None:
    rows = make_rows(64 * 4, seed=5)
    study = make(["variance:x", "linreg:y~x+z"], len(rows), "totals", allowed=(product,))
    _, key = keygen(study)
    cts = encrypt_blocks(study, key, wire(study, rows))
    ps, per = study.ps, study.per_block
    with native.Backend("cpu", ps.n, ps.primes, wide=study.wide) as backend:
        whole = accumulate(study, backend, cts, [4])
        order = np.concatenate([cts[k * per : (k + 1) * per] for k in (2, 0, 3, 1)])
        shuffled = accumulate(study, backend, order, [1, 1, 2])
        halves = [
            accumulate(study, backend, cts[: 2 * per], [2]),
            accumulate(study, backend, cts[2 * per :], [2]),
        ]
        merged = Accumulation(study, backend)
        for half in reversed(halves):
            merged.load(half)
        for name, state in merged.save().items():
            assert np.array_equal(state, whole[name])
            assert np.array_equal(shuffled[name], whole[name])


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("count", [2, 3])
def test_several_moduli(count: int, product: str) -> None:
    """A range that one t can't hold is spread over coprime moduli, batched and in coefficients."""
    for specs in (["variance:z"], ["sum:z"]):
        rows = make_rows(100, seed=count)
        single = make(specs, len(rows), "totals", allowed=(product,))
        need = max(interval.span + 1 for interval, _ in single.growth.values())
        from pybfv.client.plan import choose_moduli

        moduli = choose_moduli(single.ps, single.packing, need, count, 1 << 60)
        assert moduli is not None
        study = make(specs, len(rows), "totals", moduli, (product,))
        secret, key = keygen(study)
        cts = encrypt_blocks(study, key, wire(study, rows))
        ps = study.ps
        with native.Backend("cpu", ps.n, ps.primes, wide=study.wide) as backend:
            state = accumulate(study, backend, cts, [2])
            partial = Partial(study.doc, key.key_id, ("00" * 16,), len(rows), 0, 2, state)
            result = finish(partial, study, key, backend, COMBINED)
        found = totals_of(result, study, secret)
        z = [int(r[Column("z")] * 1000) - study.bounds[Column("z")].mid for r in rows]
        assert found[(Column("z"),)] == sum(z)
        if study.depth:
            assert found[(Column("z"), Column("z"))] == sum(v * v for v in z)
