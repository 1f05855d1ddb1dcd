"""Random jobs, all steps from tables to results, against exact rationals: `python -m pybfv.bench.random_jobs`.

Job k of a seed is always the same table, study and engine (keys and randomness are new in every run), so a run can be
resumed with --first, and a job that failed repeated alone. A job ends exactly, or in a refusal that is
checked: a plan may lack bits, and decrypt must refuse where, and only where, a statistic has no answer.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from pybfv import flow
from pybfv.bench.oracle import Row, Statistic, differences, expect
from pybfv.client.plan import choose_moduli
from pybfv.errors import DataError, PlanError, PybfvError
from pybfv.io.secret_key import SecretKey
from pybfv.study import Study

SEED = 20261130
COUNT = 100_000
CHUNK = 100
SETS = {  # set: bits of a value, with which most jobs can be planned
    "insecure_n16_q53": 9,
    "insecure_n64_q106": 20,
    "insecure_n64_q214": 45,
}


@dataclass(frozen=True)
class Table:
    """One contribution: cells by column, None where one is missing."""

    rows: tuple[dict[str, Fraction | None], ...]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class RandomJob:
    """Everything that a job is made of but keys and encryption randomness."""

    tables: tuple[Table, ...]
    statistics: tuple[Statistic, ...]
    planning: dict[str, Any] = field(repr=False)
    ddof: int
    engines: tuple[flow.Engine, ...]
    moduli: int
    symmetric: bool

    @property
    def rows(self) -> list[Row]:
        """The complete rows: those without a missing cell in a column that a statistic uses."""
        used = set().union(*(s.columns for s in self.statistics))
        found = []
        for table in self.tables:
            for row in table.rows:
                cells = {name: value for name, value in row.items() if name in used and value is not None}
                if len(cells) == len(used):
                    found.append(cells)
        return found


class Wrong(AssertionError):
    """A wrong number, or a refusal without a reason."""


def _number(rng: random.Random, bits: int) -> int:
    """An integer of up to so many bits, in runs of equal bits, with either sign."""
    top = rng.randint(0, bits)
    value = rng.choice([0, 1, 1 << top, (1 << top) - 1, rng.getrandbits(top or 1), (1 << bits) - (1 << top)])
    return rng.choice([1, 1, -1]) * value


def _text(rng: random.Random, value: Fraction | None, decimals: int) -> str:
    """A cell: the same number in one of the ways that a table may have it."""
    if value is None:
        return rng.choice(["", "NA"])
    whole = abs(value.numerator) * 10**decimals // value.denominator
    digits = str(whole).zfill(decimals + 1)
    text = f"{digits[: len(digits) - decimals]}.{digits[len(digits) - decimals :]}" if decimals else digits
    if rng.random() < 0.1:
        text = f"{whole}e-{decimals}"
    return ("-" if value < 0 else rng.choice(["", "", "", "+"])) + text


def _columns(rng: random.Random, bits: int) -> dict[str, tuple[int, list[int]]]:
    """By name the decimals of a column and a pool of values that it takes, as integers."""
    found = {}
    for name in "abcd"[: rng.randint(1, 4)]:
        size = rng.choice([1, 3, bits // 2, bits, bits, bits, bits, bits, 12 * bits])
        pool = rng.choice([1, 2, 40, 40, 40])
        found[name] = rng.choice([0, 0, 1, 2, 4]), [_number(rng, size) for _ in range(pool)]
    return found


def _statistics(rng: random.Random, columns: list[str], bits: int) -> list[Statistic]:
    found: list[Statistic] = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(["count", "sum", "mean", "variance", "variance", "linreg", "linreg"])
        if kind == "count":
            found.append(Statistic(kind))
        elif kind != "linreg":
            found += [Statistic(kind, name) for name in rng.sample(columns, rng.randint(1, len(columns)))]
        elif len(columns) > 1:
            target, *others = rng.sample(columns, len(columns))
            terms = [(name, 1) for name in others[: rng.randint(1, 3)]]
            if bits > 15 and rng.random() < 0.3:
                terms.append((terms[0][0], 2))
            found.append(Statistic("linreg", target, tuple(terms), rng.random() < 0.75))
    return list(dict.fromkeys(found)) or [Statistic("count")]


def _engine(rng: random.Random) -> flow.Engine:
    where = rng.random()
    if where < 0.8:
        return flow.Engine(threads=rng.randint(1, 3))
    kernels = "ntt" if where < 0.92 else "limb"
    return flow.Engine("sim", kernels, dpus=rng.randint(1, 5), tasklets=rng.randint(1, 24))


def _sizes(rng: random.Random, n: int) -> list[int]:
    """Rows of each file: around the ends of blocks, few, or any."""
    around = [1, 1, 2, 3, n - 1, n, n + 1, rng.randint(1, 3 * n)]
    return [rng.choice(around) for _ in range(rng.choice([1, 1, 2, 2, 3, 4]))]


def make_job(seed: int, index: int) -> RandomJob:
    """Job ``index`` of a seed."""
    rng = random.Random(f"{seed}:{index}")
    name = rng.choice([*SETS])
    bits, n = SETS[name], 16 if "n16" in name else 64
    columns = _columns(rng, bits)
    statistics = _statistics(rng, [*columns], bits)
    drop = rng.random() < 0.3
    tables = []
    for size in _sizes(rng, n):
        rows: list[dict[str, Fraction | None]] = []
        texts = [",".join(columns)]
        for k in range(size):
            row: dict[str, Fraction | None] = {
                c: None if drop and k and rng.random() < 0.1 else Fraction(rng.choice(pool), 10**decimals)
                for c, (decimals, pool) in columns.items()
            }
            rows.append(row)
            texts.append(",".join(_text(rng, row[c], decimals) for c, (decimals, _) in columns.items()))
            if texts[-1] == "":  # a blank line is no row
                texts[-1] = "NA"
        tables.append(Table(tuple(rows), tuple(texts)))
    reveal = rng.choice(["totals", "totals", "slots"])
    planning: dict[str, Any] = {
        "set_name": name,
        "insecure": True,
        "reveal": reveal,
        "missing": "drop" if drop else "error",
        "product": rng.choice([None, "scale-free", "scaled", "scaled"]),
        "max_contributions": len(tables) + rng.choice([0, 0, 3]),
    }
    if rng.random() < 0.5:
        planning["bounds"] = [
            f"{c}={_ends(min(pool) - rng.randint(0, 9), decimals)}:{_ends(max(pool) + rng.randint(0, 9), decimals)}"
            for c, (decimals, pool) in columns.items()
        ]
    if rng.random() < 0.3 or planning["max_contributions"] > len(tables):
        planning["max_rows"] = sum(len(t.rows) for t in tables) + rng.choice([3, 100])
    return RandomJob(
        tuple(tables), tuple(statistics), planning, rng.choice([0, 1]),
        (_engine(rng), _engine(rng))[: rng.choice([1, 1, 2]) if len(tables) > 1 else 1],
        rng.choice([1, 1, 1, 2, 3]), reveal == "slots" and rng.random() < 0.5,
    )  # fmt: skip


def _ends(value: int, decimals: int) -> str:
    digits = str(abs(value)).zfill(decimals + 1)
    text = f"{digits[: len(digits) - decimals]}.{digits[len(digits) - decimals :]}" if decimals else digits
    return ("-" if value < 0 else "") + text


def _plan(job: RandomJob, files: list[str]) -> Study:
    """The job's study, with its range spread over several moduli where the job says so and a plan allows it."""
    specs = [s.spec for s in job.statistics]
    study = flow.plan(files, specs, **job.planning).study
    if job.moduli > len(study.moduli):
        needed = max(interval.span + 1 for interval, _ in study.growth.values())
        moduli = choose_moduli(study.ps, study.packing, needed, job.moduli, max(study.moduli))
        if moduli:
            return flow.plan(files, specs, plain_moduli=moduli, **job.planning).study
    return study


def _compute(job: RandomJob, study: Study, files: list[str], folder: Path) -> tuple[str, SecretKey]:
    """Contributions to a result file: in one go, or one half on each of two engines, then combined."""
    secret, public = flow.keygen(study)
    contributions = []
    for k, table in enumerate(files):
        key = secret if job.symmetric and k % 2 == 0 else public
        contributions.append(str(folder / f"{k}.bfvc"))
        flow.encrypt(study, table, key, contributions[-1], force=True)
    result = str(folder / "r.bfvr")
    if len(job.engines) == 1:
        flow.compute(contributions, result, key=public, engine=job.engines[0], force=True)
    else:
        parts = [str(folder / "0.bfvp"), str(folder / "1.bfvp")]
        halves = contributions[::2], contributions[1::2]
        for engine, half, part in zip(job.engines, halves, parts, strict=True):
            flow.compute_to_partial(half, part, engine=engine, force=True)
        flow.combine(parts, result, key=public, force=True)
    return result, secret


def run_job(job: RandomJob, folder: Path) -> list[str]:
    """Runs a job; what it was, as words to count. Raises Wrong for a wrong number or an unfounded refusal."""
    files = []
    for k, table in enumerate(job.tables):
        files.append(str(folder / f"{k}.csv"))
        Path(files[-1]).write_text("\n".join(table.texts) + "\n")
    try:
        study = _plan(job, files)
    except PlanError as e:
        if "bits missing" not in str(e):
            raise Wrong(f"an unfounded refusal: {e}") from e
        return ["refused: not enough bits"]
    rows = job.rows
    wanted = [expect(s, rows, job.ddof) for s in job.statistics]
    try:
        result, secret = _compute(job, study, files, folder)
        document = flow.decrypt(result, secret, job.ddof)
    except DataError as e:
        if None in wanted and ("dependent" in str(e) or "rows can't" in str(e) or "ddof" in str(e)):
            return ["refused: no answer"]
        raise Wrong(f"an unfounded refusal: {e}") from e
    except PybfvError as e:
        raise Wrong(f"an unfounded refusal, {type(e).__name__}: {e}") from e
    if None in wanted:
        raise Wrong(f"a statistic without an answer has one: {document['results']}")
    if (document["rows"], document["contributions"]) != (len(rows), len(job.tables)):
        raise Wrong(f"rows or contributions: {document['rows']}, {document['contributions']}")
    for s, found, exact in zip(job.statistics, document["results"], wanted, strict=True):
        if exact is not None and (wrong := differences(found, exact)):
            raise Wrong(f"{s.spec}: {', '.join(wrong)}: found {found}, exactly {exact}")
    dropped = sum(len(table.rows) for table in job.tables) - len(rows)
    if document["dropped_rows"] != dropped:
        raise Wrong(f"{document['dropped_rows']} rows were dropped, not {dropped}")
    facts = {
        "exact": True,
        f"product {study.product}": True,
        **{f"{study.product} on {e.backend} {e.kernels}": True for e in job.engines},
        f"reveal {study.reveal}": True,
        f"moduli {len(study.moduli)}": True,
        f"ddof {job.ddof}": True,
        "rows dropped": dropped > 0,
        "several files": len(job.tables) > 1,
        "combined of partials": len(job.engines) > 1,
        "symmetric": job.symmetric,
        "own bounds": "bounds" in job.planning,
    }
    return [
        *(what for what, is_so in facts.items() if is_so),
        *sorted({s.kind for s in job.statistics}),
    ]


def run_jobs(seed: int, first: int, count: int) -> Counter[str]:
    """Runs jobs one after the other. Wrong names the job that failed."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for index in range(first, first + count):
            job = make_job(seed, index)
            try:
                counts.update(run_job(job, Path(folder)))
            except Exception as e:
                again = f"python -m pybfv.bench.random_jobs --seed {seed} --first {index} --count 1"
                raise Wrong(f"{again}: {type(e).__name__}: {e}") from e
    return counts


def rounds(first: int, last: int, size: int) -> Iterator[list[tuple[int, int]]]:
    """Jobs first..last - 1 as (first, count) of chunks, ``size`` chunks to a round; each job is in one."""
    chunks = [(start, min(CHUNK, last - start)) for start in range(first, last, CHUNK)]
    for start in range(0, len(chunks), size):
        yield chunks[start : start + size]


def main() -> int:
    """Runs the jobs that the options say; exit code 1 at the first that is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m pybfv.bench.random_jobs", description="random jobs against fractions"
    )
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--first", type=int, default=0, help="the first job: where a run is resumed")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--minutes", type=float, default=None, help="stop after so long, and say where")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    last = asked.first + asked.count
    print(f"random jobs: seed {asked.seed}, jobs {asked.first} to {last - 1}", file=sys.stderr)
    start, counts, done = time.monotonic(), Counter[str](), asked.first
    with ProcessPoolExecutor(asked.workers) as pool:
        # in rounds, so that all jobs before ``done`` are done
        for chunks in rounds(asked.first, last, 4 * asked.workers):
            if asked.minutes is not None and time.monotonic() - start >= 60 * asked.minutes:
                break
            round_ = [pool.submit(run_jobs, asked.seed, *chunk) for chunk in chunks]
            try:
                for future in as_completed(round_):
                    counts += future.result()
            except Wrong as e:
                print(f"random jobs: WRONG: {e}", file=sys.stderr)
                return 1
            done += sum(count for _, count in chunks)
            print(
                f"random jobs: {done - asked.first} done, {counts['exact']} exact; next --first {done}", file=sys.stderr
            )
    print(f"{done - asked.first} jobs of seed {asked.seed} in {time.monotonic() - start:.0f} s: none wrong")
    for what, number in sorted(counts.items()):
        print(f"  {what:<28}{number}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
