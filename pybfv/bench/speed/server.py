"""Rows of the server: sums, sums of products, regressions; beside SEAL, a plain read, one thread, the portable body."""

from __future__ import annotations

import time

import numpy as np

from pybfv import native
from pybfv.bench.measure import check
from pybfv.bench.our_side import OurSide
from pybfv.bench.seal_side import SealSide
from pybfv.bench.speed.rows import GROUPS, SQUARES, Pair, Scale, SpeedRow, Work, alternate, fits_products
from pybfv.params import get_set, wide_primes

COLUMNS = 4
PAIRS = [(a, b) for a in range(3) for b in range(a, COLUMNS)]
"""Products of a regression on three features: the upper triangle of X'X, and X'y, of the columns x1, x2, x3, y."""

CONTRIBUTORS = 640
HEXL_VARIANCE_US, WHEEL_SQUARE_US = 3.33e6 / 2560, 1760.0
"""Quoted, of another machine: SEAL 4.4 in C++ with HEXL, variance of 2,560, a ciphertext; the wheel's square there."""


class Sums:
    """Accumulates what a side has in memory, on a backend of its own."""

    def __init__(self, ours: OurSide, threads: int = 1, body: str | None = None) -> None:
        ps = get_set(ours.name)
        self.ours, self.count = ours, ours.count
        wide = wide_primes(ps, ours.count)
        self.backend = native.Backend("cpu", ps.n, ps.primes, threads=threads, body=body, wide=wide)
        self.array = self.backend.put(ours.ciphertexts, borrow=True)

    def accumulate(self, kind: str, pairs: list[tuple[int, int]], stride: int = 1, passes: int = 1) -> list[native.Acc]:
        """An accumulator for each pair (a, b): the sum of ciphertext k + a times k + b, k = 0, stride, ..."""
        accs = [self.backend.acc_new(kind, 2 if kind == "sum" else 3) for _ in pairs]
        for _ in range(passes):
            for acc, (a, b) in zip(accs, pairs, strict=True):
                if kind == "sum":
                    self.backend.acc_add(acc, self.array, a, stride, self.count // stride)
                else:
                    self.backend.acc_mul(acc, self.array, a, self.array, b, stride, self.count // stride)
        self.backend.sync()
        return accs

    def work(self, kind: str) -> Work:
        """The sum, or the sum of squares, of all."""
        return Work(lambda: self.accumulate(kind, [(0, 0)]), self.count)

    def regression(self) -> Work:
        """All products of a regression, a group of four ciphertexts a unit."""
        return Work(lambda: self.accumulate("product", PAIRS, COLUMNS), self.count // COLUMNS)

    def checked(self, kind: str, expected: list[int]) -> None:
        """SystemExit unless the accumulator holds, slot by slot, what it must."""
        acc = self.accumulate(kind, [(0, 0)])[0]
        check(self._slots(acc) == expected, f"our {kind} of {self.count}")

    def finish(self, acc: native.Acc) -> np.ndarray:
        """The ciphertext of an accumulator, [parts, L, N]."""
        if acc.kind == "scaled":
            lifter = native.Lifter(self.ours.ring, self.backend.wide)
            return lifter.scale_round(self.backend.acc_save(acc), self.ours.t)
        factor = self.ours.t if acc.kind == "product" else 1
        array = self.backend.acc_finish(acc, [factor % p for p in self.ours.ring.primes])
        return self.backend.get(array)[0]

    def _slots(self, acc: native.Acc) -> list[int]:
        ours = self.ours
        undo = pow(-ours.q, -1, ours.t) if acc.kind == "product" else 1  # scale-free, -q stands before the products
        return [x * undo % ours.t for x in ours.decrypt(self.finish(acc))]

    def checked_regression(self) -> None:
        """SystemExit unless every product's sum is right."""
        messages, t = self.ours.messages.astype(object), self.ours.t
        for acc, (a, b) in zip(self.accumulate("product", PAIRS, COLUMNS), PAIRS, strict=True):
            rows = range(0, self.count, COLUMNS)
            expected = sum(messages[(k + a) % len(messages)] * messages[(k + b) % len(messages)] for k in rows) % t
            check(self._slots(acc) == expected.tolist(), "our regression")

    def checked_mod_q(self) -> None:
        """SystemExit unless sum and sum of squares are right residue by residue: where no noise budget is left."""
        x = self.ours.ciphertexts.astype(np.uint64)
        primes = np.array(self.ours.ring.primes, np.uint64)[:, None]
        total = self.backend.acc_save(self.accumulate("sum", [(0, 0)])[0])
        check(np.array_equal(total, x.sum(axis=0) % primes), "our sum, mod q")
        expected = np.zeros((3, *x.shape[2:]), np.uint64)
        for c0, c1 in x:  # products stay below 2^60
            expected += np.stack([c0 * c0 % primes, 2 * (c0 * c1 % primes), c1 * c1 % primes])
        square = self.backend.acc_save(self.accumulate("product", [(0, 0)])[0])
        check(np.array_equal(square, expected % primes), "our sum of squares, mod q")


def expected_sums(ours: OurSide) -> tuple[list[int], list[int]]:
    """Slot by slot mod t, by definition: the sum and the sum of squares of all messages in memory."""
    messages = ours.messages.astype(object)
    times = [len(range(k, ours.count, len(messages))) for k in range(len(messages))]
    total = sum(m * k for m, k in zip(messages, times, strict=True)) % ours.t
    squares = sum(m * m * k for m, k in zip(messages, times, strict=True)) % ours.t
    return total.tolist(), squares.tolist()


def rows(ours: OurSide, sums: Sums, seal: SealSide, scale: Scale, share: float | None) -> list[SpeedRow]:
    """Beside one SEAL. ``share``: of the targets that is asked here; None where SEAL's row is only for comparison."""
    name, against = ours.name, f"SEAL {seal.kind}"
    bare = not fits_products(ours.n)

    def asked(target: float) -> float | None:
        return None if share is None else round(target * share, 1)

    def beside(ours_: Work, theirs: Work) -> Pair:
        return alternate(scale.repeats, ours_, theirs)

    some = min(SQUARES, seal.count)
    seal_squares = Work(lambda: seal.squares(some, some), some)
    made = [
        beside(sums.work("sum"), Work(seal.sum, seal.count)).row(f"sum of {ours.count}", name, against, asked(4)),
        beside(sums.work("product"), seal_squares).row(
            f"variance of {ours.count}, scale-free{' (bare product)' if bare else ''}", name, against, asked(100)
        ),
    ]
    if bare:
        return made
    made.append(
        beside(sums.work("scaled"), seal_squares).row(f"variance of {ours.count}, scaled", name, against, asked(15))
    )
    groups = min(GROUPS, seal.count // COLUMNS)
    pair = beside(sums.regression(), Work(lambda: seal.products(PAIRS, COLUMNS, groups), groups))
    for ciphertexts in (32, 64):
        each = ciphertexts // COLUMNS  # groups of a contributor
        scaled = Pair([x * each for x in pair.ours], [x * each for x in pair.others])
        job = f"regression on 3 features, {CONTRIBUTORS} contributors x {ciphertexts} ciphertexts, a contributor"
        made.append(scaled.row(job, name, against, asked(80)))
    return made


def quoted(variance: SpeedRow, square_us: float) -> SpeedRow:
    """The variance beside SEAL in C++ with HEXL: quoted, scaled by how fast SEAL's own square is here."""
    theirs = HEXL_VARIANCE_US * square_us / WHEEL_SQUARE_US
    return SpeedRow(
        variance.job, variance.set, 1, "SEAL 4.4 C++ with HEXL (quoted, scaled by SEAL's square here)",
        variance.ours_us, theirs, theirs / variance.ours_us, 60.0, variance.spread,
    )  # fmt: skip


def alone(ours: OurSide, sums: Sums, scale: Scale) -> list[SpeedRow]:
    """Beside a plain read of the same bytes, and one thread beside two."""
    whole = ours.ciphertexts.reshape(-1).view(np.uint64)
    read = Work(lambda: int(whole.max()), ours.count)
    made = []
    for kind, job in (("sum", f"sum of {ours.count}"), ("product", f"variance of {ours.count}, scale-free")):
        pair = alternate(scale.repeats, sums.work(kind), read)
        made.append(pair.row(job, ours.name, "a plain read of the same bytes", seal=False))
    two = Sums(ours, 2)
    for kind, job in (("product", "scale-free"), ("scaled", "scaled")):
        pair = alternate(scale.repeats, two.work(kind), sums.work(kind), time.perf_counter)
        asked = 1.8 if kind == "scaled" else None  # the other is bound by memory
        made.append(pair.row(f"variance of {ours.count}, {job}", ours.name, "one thread", asked, 2, seal=False))
    return made


def portable(ours: OurSide, seal: SealSide, scale: Scale) -> list[SpeedRow]:
    """The portable body beside SEAL: half of what is asked of the best one."""
    sums = Sums(ours, body="portable")
    some = min(SQUARES, seal.count)
    made = []
    for kind, job, theirs, asked in (
        ("sum", f"sum of {ours.count}", Work(seal.sum, seal.count), 2.0),
        ("product", f"variance of {ours.count}, scale-free", Work(lambda: seal.squares(some, some), some), 50.0),
    ):
        pair = alternate(scale.repeats, sums.work(kind), theirs)
        made.append(pair.row(f"{job}, portable body", ours.name, f"SEAL {seal.kind}", asked))
    return made
