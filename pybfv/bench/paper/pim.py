"""What the jobs of the paper would take on its machine, modelled.

A job is launches of our DPU programs. One DPU's share of each launch runs on the simulator, for its DMA transfers; its
instructions come from the table of counts. How work lies on the DPUs:

* addition, products, predictions: whole ciphertexts, as many on each DPU as on any other, as in the paper;
* mean, variance, normal equations: as the host of `pybfv compute` gives them out. NTT kernels, and sums of limb
  kernels: a run of units of 16 coefficients of every ciphertext, so nothing crosses DPUs. Limb products: pairs, or
  where there are fewer pairs than DPUs a range of their output coefficients.

Transfers: all operands in one push, the results in one pull, arguments and report of each launch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from pybfv import native
from pybfv.bench import model
from pybfv.bench.dpu_counts import RUN, UNIT
from pybfv.bench.paper.facts import FEATURES, Job, Panel, job_of
from pybfv.params import SETS, ParameterSet, wide_primes

TASKLETS = 16
KERNELS = ("limb", "ntt", "ntt scaled")
"""The paper's method; ours, scale-free; ours over the integers as SEAL has it (variance only)."""

Event = dict[str, Any]
_ARGUMENTS, _REPORT = 56, 16  # bytes: dpu/core/abi.h
_CHAIN = SETS["n16384_q430"].primes  # primes for every N


def _uniform(count: int, n: int, primes: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(count)
    out = native.empty((count, 2, len(primes), n))
    for i, p in enumerate(primes):
        out[:, :, i] = rng.integers(0, p, (count, 2, n), dtype=np.uint32)
    return out


Work = Callable[[native.Backend, np.ndarray], object]


def _pointwise(name: str) -> Work:
    def work(backend: native.Backend, data: np.ndarray) -> None:
        array = backend.put(data, borrow=True)
        getattr(backend, name)(array, array)

    return work


def _accumulate(kind: str) -> Work:
    def work(backend: native.Backend, data: np.ndarray) -> None:
        array = backend.put(data, borrow=True)
        acc = backend.acc_new("sum" if kind == "sum" else "product", 2 if kind == "sum" else 3)
        if kind == "sum":
            backend.acc_add(acc, array, 0, 1, len(data))
        else:
            other = array if kind == "square" else backend.put(data, borrow=True)
            backend.acc_mul(acc, array, 0, other, 0, 1, len(data))
        backend.acc_save(acc)

    return work


_WORKS: dict[str, Work] = {
    "add": _pointwise("add"),
    "tensor": _pointwise("mul"),
    **{kind: _accumulate(kind) for kind in ("sum", "square", "product")},
}


@dataclass(frozen=True, slots=True)
class Run:
    """A launch on the simulator: its event, and the seconds that it took natively on one thread."""

    event: Event
    seconds: float


def run(what: str, kernels: str, n: int, primes: tuple[int, ...], count: int, dpus: int = 1) -> Run:
    """``count`` ciphertexts of a ring on simulated DPUs: "add", "tensor", "sum", "square" or "product"."""
    data = _uniform(count, n, primes)
    options: dict[str, Any] = {"kernels": kernels, "dpus": dpus, "tasklets": TASKLETS, "strict": False}
    with native.Backend("sim", n, primes, profile="workers=1", **options) as backend:
        _WORKS[what](backend, data)
        launches = [e for e in backend.events() if e["kind"] == "launch"]
        if len(launches) != 1 or launches[0]["times"] != 1:
            raise SystemExit(f"bench: {what} of {count} ciphertexts is not one launch; no figure is printed")
        return Run(launches[0], backend.stats()["kernel"] / 1e9)


simulate = cache(run)
"""The same, once: transfers are the same in every run."""


def stretched(event: Event, count: int, positions: int) -> Event:
    """The event with other terms and positions; its transfers grow with the product of both."""
    factor = count * positions / (event["count"] * event["positions"])
    names = ("reads", "read_bytes", "writes", "write_bytes", "busiest_reads", "busiest_writes", "busiest_bytes")
    return event | {name: event[name] * factor for name in names} | {"count": count, "positions": positions}


def _units_ring(units: int) -> tuple[int, tuple[int, ...]]:
    """A ring whose residue polynomials are so many units: on one DPU what a slice of a larger ring is on many."""
    odd = units
    while odd % 2 == 0 and UNIT * units // odd < max(1 << 14, UNIT):
        odd //= 2
    return UNIT * (units // odd), _CHAIN[:odd]


@dataclass(frozen=True, slots=True)
class Share:
    """A job on the DPUs: launches and how often, the DPUs at work, bytes of each DPU to and from it."""

    launches: tuple[tuple[Event, int], ...]
    at_work: int
    to_dpus: int
    from_dpus: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """Modelled seconds: kernels alone, with conflicts of registers, or if all DPUs and tasklets shared them evenly; and
    with transfers, without conflicts."""

    kernel: float
    conflicts: float
    even: float
    end_to_end: float
    at_work: int


def estimate(share: Share, dpus: int, clock: float) -> Estimate:
    """The model's times for a job on ``dpus`` DPUs at ``clock`` MHz."""
    kernel = conflicts = even = 0.0
    launches = 0
    for event, times in share.launches:
        kernel += times * model.launch_seconds(event, clock)
        conflicts += times * model.launch_seconds(event, clock, True)
        dma = model.Dma(event["reads"], event["writes"], event["read_bytes"] + event["write_bytes"])
        most = max(model.instructions(event), dma.cycles)
        even += times * most * share.at_work / dpus / (clock * 1e6)
        launches += times
    moved = (
        model.transfer_seconds(share.to_dpus, dpus, to_dpus=True)
        + model.transfer_seconds(share.from_dpus, dpus, to_dpus=False)
        + launches * model.transfer_seconds(_ARGUMENTS, dpus, to_dpus=True, wram=True)
        + launches * model.transfer_seconds(_REPORT, dpus, to_dpus=False, wram=True)
    )
    return Estimate(kernel, conflicts, even, kernel + moved, share.at_work)


def share_of(panel: Panel, size: int, ps: ParameterSet, kernels: str, reading: str, dpus: int) -> Share:
    """How a row of a panel lies on the DPUs. ``kernels``: one of KERNELS."""
    job = job_of(panel, size, reading)
    if panel.name in ("addition", "product"):
        return _whole(panel.name, size, ps, kernels, dpus)
    if reading == "predictions":
        return _predictions(job, ps, kernels, dpus)
    return _limb(job, ps, dpus) if kernels == "limb" else _slices(job, ps, kernels, dpus)


def _whole(name: str, size: int, ps: ParameterSet, kernels: str, dpus: int) -> Share:
    each = -(-size // dpus)
    what, parts_out = ("add", 2) if name == "addition" else ("tensor", 3)
    polynomial = _bytes(ps, kernels)
    return Share(
        ((_whole_event(what, ps, kernels, each), 1),),
        min(size, dpus),
        4 * each * polynomial,
        parts_out * each * polynomial,
    )


def _bytes(ps: ParameterSet, kernels: str) -> int:
    """Of a polynomial on a DPU."""
    return ps.n * 4 * (_limbs(ps) if kernels == "limb" else len(ps.primes))


def _limbs(ps: ParameterSet) -> int:
    words = -(-ps.q.bit_length() // 32)
    return 1 << (words - 1).bit_length()


def limb_tensor(ps: ParameterSet) -> Run:
    """One product of ciphertexts by the paper's method."""
    return simulate("tensor", "limb", ps.n, ps.primes, 1)


def _whole_event(what: str, ps: ParameterSet, kernels: str, count: int) -> Event:
    """A launch over ``count`` whole ciphertexts."""
    if kernels == "limb":
        if what in ("tensor", "product"):
            return stretched(limb_tensor(ps).event, count, ps.n)
        few = min(count, 16)
        run = simulate(what, "limb", ps.n, ps.primes, few)
        return stretched(run.event, count, run.event["positions"])
    n, primes = _units_ring(ps.n * len(ps.primes) // UNIT)
    few = min(count, 4)
    run = simulate(what, "ntt", n, primes, few)
    return stretched(run.event, count, run.event["positions"])


def _predictions(job: Job, ps: ParameterSet, kernels: str, dpus: int) -> Share:
    samples = job.products // FEATURES
    each = -(-samples // dpus)
    polynomial = _bytes(ps, kernels)
    event = _whole_event("product", ps, kernels, FEATURES)
    return Share(((event, each),), min(samples, dpus), (each + 1) * 2 * FEATURES * polynomial, each * 3 * polynomial)


def _slices(job: Job, ps: ParameterSet, kernels: str, dpus: int) -> Share:
    """NTT kernels: a run of units of every ciphertext (host_c/src/upmem/layout.c)."""
    planes = len(ps.primes)
    if kernels == "ntt scaled":
        planes += len(wide_primes(ps, max(job.squares, job.products, 1)))
    total = planes * ps.n // UNIT
    units = -(-total // dpus)
    n, primes = _units_ring(units)
    slice_bytes = units * UNIT * 4
    terms, launches, out = _terms(job)
    events = tuple((simulate(what, "ntt", n, primes, count).event, times) for what, count, times in launches)
    return Share(events, min(total, dpus), terms * 2 * slice_bytes, out * slice_bytes)


def _terms(job: Job) -> tuple[int, tuple[tuple[str, int, int], ...], int]:
    """Ciphertexts that a job reads; its launches (command, terms, times); parts of its results."""
    if job.additions:
        return job.additions, (("sum", job.additions, 1),), 2
    if not job.products:
        return job.squares, (("square", job.squares, 1),), 3
    groups = job.squares // FEATURES
    crossed = job.products // groups
    return (
        (FEATURES + 1) * groups,
        (("square", groups, FEATURES), ("product", groups, crossed)),
        3 * (FEATURES + crossed),
    )


def _limb(job: Job, ps: ParameterSet, dpus: int) -> Share:
    """Limb kernels: sums in runs of coefficients (limb_slices.c), products in groups of DPUs (limb_products.c)."""
    limbs = _limbs(ps)
    if job.additions:
        units = 2 * ps.n // RUN
        each = -(-units // dpus)
        run_bytes = each * RUN * limbs * 4
        event = _limb_sum(each, ps.primes, job.additions)
        return Share(((event, 1),), -(-units // each), job.additions * run_bytes, run_bytes)
    _, launches, _ = _terms(job)
    polynomial = _bytes(ps, "limb")
    one = limb_tensor(ps).event
    found, at_work, sent, back = [], 0, 0, 0
    for what, pairs, times in launches:
        grid = Grid.of(pairs, ps.n, dpus)
        found.append((stretched(one, grid.each, grid.range), times))
        at_work = max(at_work, min(dpus, grid.slices * -(-pairs // grid.each)))
        sent += times * grid.each * (2 if what == "square" else 4) * polynomial
        back += times * 3 * grid.range * limbs * 4
    return Share(tuple(found), at_work, sent, back)


def _limb_sum(units: int, primes: tuple[int, ...], count: int) -> Event:
    """A sum where a DPU's run is so many units: of a small ring on as few DPUs as give such runs."""
    total = 1
    while -(-total // (dpus := -(-total // units))) != units:
        total *= 2
    return simulate("sum", "limb", total * RUN // 2, primes, count, dpus).event


@dataclass(frozen=True, slots=True)
class Grid:
    """grid_of in limb_products.c: ``slices`` DPUs in a group, ``range`` output coefficients a DPU, ``each`` pairs."""

    slices: int
    range: int
    each: int

    @classmethod
    def of(cls, pairs: int, n: int, dpus: int) -> Grid:
        unit = min(n, RUN)
        units = n // unit
        slices = min(dpus // pairs, units) if pairs < dpus else 1
        per = -(-units // slices)
        grid = cls(-(-units // per), per * unit, 1)
        groups = min(pairs, dpus // grid.slices)
        return replace(grid, each=-(-pairs // groups))
