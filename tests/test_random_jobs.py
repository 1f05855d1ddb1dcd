"""A thousand random jobs from tables to results, against fractions; `make bench-large` runs 100,000.

The jobs and their oracle are in pybfv/bench; that they notice what is wrong is shown here.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from pybfv import flow
from pybfv.bench.oracle import Statistic, differences, expect, fit, nearest, nearest_root
from pybfv.bench.random_jobs import SEED, Wrong, make_job, rounds, run_jobs
from pybfv.client import decrypt
from pybfv.study import PRODUCTS, Study


def test_the_first_jobs() -> None:
    assert run_jobs(SEED, 0, 40)["exact"] >= 25


@pytest.mark.slow
def test_a_thousand_jobs_of_every_kind() -> None:
    counts = run_jobs(SEED, 40, 960)
    assert counts["exact"] >= 650
    kinds = [
        "product none", "product scale-free", "product scaled", "reveal totals", "reveal slots", "moduli 1", "moduli 2",
        "moduli 3", "ddof 0", "ddof 1", "rows dropped", "several files", "combined of partials", "symmetric",
        "own bounds", "count", "sum", "mean", "variance", "linreg",
        "refused: no answer", "refused: not enough bits",
    ]  # fmt: skip
    kinds += [f"{p} on {where}" for p in ("none", *PRODUCTS) for where in ("cpu ntt", "sim ntt", "sim limb")]
    assert [kind for kind in kinds if counts[kind] < 10] == []


def test_a_job_is_the_same_again() -> None:
    assert [make_job(3, k) for k in range(20)] == [make_job(3, k) for k in range(20)]
    assert make_job(3, 1) != make_job(3, 2) != make_job(4, 2)


# --- they notice what is wrong


def _spoiled(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the last place of one number changed."""
    found = document["results"][-1]
    if found["stat"] == "count":
        found["n"] += 1
    elif found["stat"] == "linreg":
        found["coefficients"][-1] = math.nextafter(found["coefficients"][-1], math.inf)
    else:
        found["value"] = math.nextafter(found["value"], math.inf)
    return document


def test_wrong_numbers_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = flow.decrypt
    monkeypatch.setattr(flow, "decrypt", lambda *arguments: _spoiled(honest(*arguments)))
    wrong = 0
    for index in range(12):
        try:
            counts = run_jobs(SEED, index, 1)
        except Wrong as e:
            wrong += 1
            assert f"--seed {SEED} --first {index} --count 1" in str(e)
        else:
            assert not counts["exact"]
    assert wrong >= 6


def test_wrong_arithmetic_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A factor that is forgotten, with the guards of decryption off: numbers come out, and they are wrong."""
    monkeypatch.setattr(Study, "factor", lambda self, total, modulus: 1)
    for guard, off in (("within", True), ("same_rows", True), ("reachable", True)):
        monkeypatch.setattr(decrypt, guard, lambda *arguments, off=off: off)
    products = [k for k in range(40) if "scale-free" in str(make_job(SEED, k).planning["product"])]
    noticed = 0
    for index in products:
        try:
            run_jobs(SEED, index, 1)
        except Wrong:
            noticed += 1
    assert noticed >= 2


def test_unfounded_refusals_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decrypt, "same_rows", lambda found, stated: False)
    with pytest.raises(Wrong, match="unfounded refusal"):
        run_jobs(SEED, 0, 40)


# --- the oracle by hand

ROWS = [{"x": Fraction(x), "y": Fraction(y)} for x, y in ((0, 1), (1, 3), (2, 2), (3, 6))]


def test_the_oracle_by_hand() -> None:
    assert expect(Statistic("count"), ROWS, 1) == {"stat": "count", "n": 4}
    assert expect(Statistic("sum", "y"), ROWS, 1)["exact"] == 12
    assert expect(Statistic("mean", "x"), ROWS, 1)["value"] == Fraction(3, 2)
    assert expect(Statistic("variance", "y"), ROWS, 1)["exact"] == Fraction(14, 3)
    assert expect(Statistic("variance", "y"), ROWS, 0)["root sd"] == Fraction(7, 2)
    assert expect(Statistic("variance", "y"), ROWS[:1], 1) is None
    # slope (0 + 3 + 4 + 18 - 18)/(14 - 9) = 7/5, intercept 3 - 21/10 = 9/10; residuals 1, 7, -17, 9 tenths
    line = expect(Statistic("linreg", "y", (("x", 1),)), ROWS, 1)
    assert line["exact"] == [Fraction(9, 10), Fraction(7, 5)]
    assert line["r_squared"] == 1 - Fraction(420, 100) / 14
    assert line["root residual_sd"] == Fraction(420, 200)
    through = expect(Statistic("linreg", "y", (("x", 1),), False), ROWS, 1)
    assert through["exact"] == [Fraction(25, 14)]
    assert through["r_squared"] == Fraction(25 * 25, 14 * 50)
    assert expect(Statistic("linreg", "y", (("x", 1), ("x", 2), ("x", 3))), ROWS, 1)["root residual_sd"] is None
    assert fit([[Fraction(1), Fraction(1)], [Fraction(2), Fraction(2)]], [Fraction(0), Fraction(1)]) is None
    assert Statistic("linreg", "y", (("x", 1), ("z", 2)), False).spec == "linreg:y~x+z^2-1"


def test_nearest() -> None:
    third = Fraction(1, 3)
    assert nearest(1 / 3, third)
    assert nearest_root(math.sqrt(1 / 3), third)
    assert nearest_root(0.0, Fraction(0))
    for way in (-math.inf, math.inf):
        assert not nearest(math.nextafter(1 / 3, way), third)
        assert not nearest_root(math.nextafter(math.sqrt(2), way), Fraction(2))
    assert not nearest(0, Fraction(0)), "an int is no binary64 number"
    wanted = expect(Statistic("variance", "y"), ROWS, 0)
    found = {"stat": "variance", "n": 4, "column": "y", "value": 3.5, "exact": "7/2", "sd": math.sqrt(3.5), "ddof": 0}
    assert differences(found, wanted) == []
    for field in found:
        other = {name: value for name, value in found.items() if name != field}
        assert differences(other, wanted) == [field]
        assert differences({**found, field: "7/3"}, wanted) == [field]
    assert differences({**found, "more": 1}, wanted) == ["more"]


@pytest.mark.parametrize(("first", "last", "size"), [(0, 1, 8), (0, 800, 8), (50, 2511, 8), (7, 1000, 1), (5, 5, 4)])
def test_a_run_leaves_no_job_out(first: int, last: int, size: int) -> None:
    chunks = [chunk for found in rounds(first, last, size) for chunk in found]
    assert [job for start, count in chunks for job in range(start, start + count)] == list(range(first, last))
