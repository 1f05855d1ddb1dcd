"""SEAL decrypts what the commands write: contributions and results of a study, from its files."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sealio import Judge

from pybfv import flow, native
from pybfv.io.ciphertext import ContributionReader
from pybfv.io.result import read_result
from pybfv.params import batching_primes
from pybfv.scheme.random import expand_uniform
from pybfv.study import PRODUCTS, Study

ROWS = 4096 + 700
"""Two blocks, the second one short."""


class Job:
    """A study of two columns with all its files, and what each slot of each block encrypts."""

    def __init__(
        self, folder: Path, statistics: list[str], t: int, reveal: str, mode: str = "public", product: str | None = None
    ) -> None:
        rng = random.Random(21)
        rows = [(rng.randint(-250, 250), rng.randint(0, 99)) for _ in range(ROWS)]
        data = folder / "data.csv"
        data.write_text("x,y\n" + "".join(f"{x / 10},{y}\n" for x, y in rows))
        self.study: Study = flow.plan(
            str(data), statistics, reveal=reveal, max_contributions=1, set_name="n4096_q106", plain_moduli=[t],
            product=product,
        ).study  # fmt: skip
        assert product in (None, self.study.product)
        self.secret, public = flow.keygen(self.study)
        self.contribution = str(folder / "data.bfvc")
        flow.encrypt(self.study, str(data), public if mode == "public" else self.secret, self.contribution)
        flow.compute([self.contribution], str(folder / "result.bfvr"), key=public)
        self.result = read_result(str(folder / "result.bfvr"))
        ps = self.study.ps
        self.t, self.judge = t, Judge(ps.n, ps.primes, t)
        mids = {
            "x": self.study.bounds[self.study.columns[1]].mid,
            "y": self.study.bounds[self.study.columns[2]].mid,
        }
        wire = np.zeros((3, 2 * ps.n), dtype=np.int64)
        wire[0, :ROWS] = 1
        wire[1, :ROWS] = [x - mids["x"] for x, _ in rows]
        wire[2, :ROWS] = [y - mids["y"] for _, y in rows]
        self.wire = wire.reshape(3, 2, ps.n)

    def coefficients(self, ct: np.ndarray) -> list[int]:
        return self.judge.read_plaintext(self.judge.decrypt(ct, self.secret.s))

    def slots(self, ct: np.ndarray) -> list[int]:
        return self.judge.slots(self.judge.decrypt(ct, self.secret.s))

    def expected(self, total: tuple, factor: int) -> list[int]:
        """By slot, the sum over blocks of a column or of a product of two."""
        planes = [self.wire[self.study.columns.index(c)] for c in total]
        return [factor * x % self.t for x in np.prod(planes, axis=0).sum(axis=0).tolist()]


def fresh_blocks(job: Job) -> Iterator[np.ndarray]:
    """The contribution's blocks, [per_block, 2, L, N]; part 1 of a symmetric one expanded from its seed."""
    ps, per_block = job.study.ps, job.study.per_block
    shape = (len(ps.primes), ps.n)
    with ContributionReader(job.contribution) as reader, native.Ring(ps.n, ps.primes) as ring:
        public = reader.mode == "public"
        seeds = None if public else np.empty((per_block, 32), dtype=np.uint8)
        block = np.empty(reader.block_shape, dtype=np.uint32)
        while reader.read_block(block, seeds):
            if seeds is None:
                yield block
            else:
                uniform = [expand_uniform(ring, x.tobytes(), np.empty(shape, dtype=np.uint32)) for x in seeds]
                yield np.stack([block, np.stack(uniform)], axis=1)


def carried(job: Job, total: tuple) -> int:
    """The factor of a finished total (docs/noise.md): SEAL knows of none and shows it."""
    return -job.study.ps.q if len(total) == 2 and job.study.product == "scale-free" else 1


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("mode", ["public", "symmetric"])
def test_slots_of_a_result_and_a_contribution(tmp_path: Path, mode: str, product: str) -> None:
    job = Job(tmp_path, ["variance:x", "linreg:y~x"], batching_primes(4096)[-1], "slots", mode, product)
    study = job.study
    blocks = 0
    for b, block in enumerate(fresh_blocks(job)):
        for k in range(3):
            assert job.slots(block[k]) == (job.wire[k, b] % job.t).tolist()
        blocks += 1
    assert blocks == 2
    names = study.names()
    assert {len(total) for _, total, _, _ in names} == {1, 2}
    for name, total, _, parts in names:
        assert job.result.ciphertexts[name].shape[0] == parts
        assert job.slots(job.result.ciphertexts[name]) == job.expected(total, carried(job, total))


@pytest.mark.parametrize("product", PRODUCTS)
def test_totals_are_all_that_a_blinded_result_shows(tmp_path: Path, product: str) -> None:
    """Under totals, N times coefficient 0 is the total; the slots are not the data's."""
    job = Job(tmp_path, ["variance:x,y"], batching_primes(4096)[-1], "totals", product=product)
    ps = job.study.ps
    for name, total, _, _ in job.study.names():
        expected = job.expected(total, carried(job, total))
        ct = job.result.ciphertexts[name]
        assert job.coefficients(ct)[0] * ps.n % job.t == sum(expected) % job.t
        assert sum(x == y for x, y in zip(job.slots(ct), expected, strict=True)) < 20
