"""NIST's Statistical Reference Datasets through the command line, on the CPU and simulated DPUs: every certified digit.

The data are NIST's (Standard Reference Database 140, https://doi.org/10.18434/T43G6C) and are no part of this
project: PYBFV_NIST names the folder that holds them, one CSV file a set and certified.json. Without it those
tests are skipped, and say so. The sets that NIST constructed from formulas are made here anew, and always run.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Command

from pybfv import flow

pytestmark = pytest.mark.slow

FOLDER = Path(os.environ.get("PYBFV_NIST", ROOT.parent / "shared" / "data" / "nist"))
LIST = FOLDER / "certified.json"
CERTIFIED: dict[str, Any] = json.loads(LIST.read_text())["datasets"] if LIST.is_file() else {}
BACKENDS = {"cpu": (), "sim": ("--backend", "sim", "--kernels", "ntt", "--dpus", "8")}
present = pytest.mark.skipif(not CERTIFIED, reason=f"NIST's data are not in {FOLDER}: set PYBFV_NIST")


# --- digits -----------------------------------------------------------------------------------------


def digits_of(text: str) -> int:
    """Significant digits of a certified number."""
    return len(Decimal(text).as_tuple().digits)


def agrees(found: Decimal, certified: str) -> bool:
    """Whether a number, rounded to the digits of a certified one, is that; 0 must be 0."""
    expected = Decimal(certified)
    if expected == 0:
        return found == 0
    with localcontext(prec=digits_of(certified)):
        return +found == expected


def decimal_of(exact: str | Fraction) -> Decimal:
    value = Fraction(exact)
    with localcontext(prec=60):
        return Decimal(value.numerator) / Decimal(value.denominator)


def root_of(exact: str | Fraction) -> Decimal:
    with localcontext(prec=60):
        return decimal_of(exact).sqrt()


def test_the_comparison_can_fail() -> None:
    assert agrees(Decimal("277.3321680443162"), "277.332168044316")
    assert not agrees(Decimal("277.3321680443168"), "277.332168044316")
    assert agrees(Decimal("-0.3160818713450290E-14"), "-0.316081871345029E-14")
    assert not agrees(Decimal("1e-30"), "0.000000000000000")
    assert digits_of("0.429796848199937E-03") == 15


# --- through the command line -----------------------------------------------------------------------


def specs(terms: list[str], intercept: bool) -> list[str]:
    if not terms:
        return ["mean:y", "variance:y"]
    return [f"linreg:y~{'+'.join(terms)}{'' if intercept else '-1'}"]


def asked(pybfv: Command, table: object, stats: list[str], *options: str) -> list[dict[str, Any]]:
    stat_options = [option for stat in stats for option in ("--stat", stat)]
    document = json.loads(pybfv.ok("run", table, *stat_options, *options, "--verify", "--json"))
    assert document["verified"] is True
    return document["results"]


def terms_of(facts: dict[str, Any]) -> list[str]:
    return [term for term in facts.get("terms", {}).values() if term != "1"]


def check(facts: dict[str, Any], results: list[dict[str, Any]]) -> None:
    """Every certified digit of a set, in the exact fractions and in the floats beside them."""
    certified = facts["certified"]
    assert {result["n"] for result in results} == {facts["n"]}
    if facts["kind"] == "univariate":
        mean, variance = results
        assert agrees(decimal_of(mean["exact"]), certified["mean"])
        assert agrees(root_of(variance["exact"]), certified["sample_sd"])
        assert variance["sd"] == float(root_of(variance["exact"]))
        assert mean["value"] == float(Fraction(mean["exact"]))
        return
    (fit,) = results
    for found, exact, name in zip(fit["coefficients"], fit["exact"], facts["terms"], strict=True):
        assert agrees(decimal_of(exact), certified["coefficients"][name]["estimate"]), name
        assert found == float(Fraction(exact))
    assert agrees(Decimal(fit["r_squared"]), certified["r_squared"])
    assert agrees(Decimal(fit["residual_sd"]), certified["residual_sd"])


@present
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", sorted(CERTIFIED) or ["none"])
def test_certified_values(pybfv: Command, name: str, backend: str) -> None:
    facts = CERTIFIED[name]
    stats = specs(terms_of(facts), facts.get("intercept", True))
    check(facts, asked(pybfv, FOLDER / facts["file"], stats, *BACKENDS[backend]))


@present
@pytest.mark.parametrize("name", ["NumAcc2", "Longley", "Pontius"])
def test_certified_values_step_by_step(pybfv: Command, name: str) -> None:
    facts = CERTIFIED[name]
    table = FOLDER / facts["file"]
    stats = [option for stat in specs(terms_of(facts), True) for option in ("--stat", stat)]
    pybfv.ok("plan", table, *stats, "--max-contributions", 1, "-o", "s.json")
    pybfv.ok("keygen", "s.json", "-o", "keys")
    pybfv.ok("encrypt", "s.json", table, "--key", "keys/public.key", "-o", "a.bfvc")
    pybfv.ok("compute", "a.bfvc", "--partial", *BACKENDS["sim"], "-o", "a.bfvp")
    pybfv.ok("combine", "a.bfvp", "--key", "keys/public.key", "-o", "a.bfvr")
    check(facts, json.loads(pybfv.ok("decrypt", "a.bfvr", "--key", "keys/secret.key", "--json"))["results"])


@present
@pytest.mark.parametrize("name", ["Mavro", "Norris", "Longley"])
def test_certified_values_from_arrays(name: str) -> None:
    """The same columns as text and as Python's floats: each prints as the decimal in the file."""
    facts = CERTIFIED[name]
    with open(FOLDER / facts["file"]) as file:
        rows = list(csv.DictReader(file))
    columns = {head: [row[head] for row in rows] for head in rows[0]}
    stats = specs(terms_of(facts), True)
    results = flow.run(columns, stats)["results"]
    check(facts, results)
    floats = {head: [float(text) for text in texts] for head, texts in columns.items()}
    assert flow.run(floats, stats)["results"] == results


# --- constructed sets -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Constructed:
    """Rows from a formula and what follows: mean and variance, or coefficients and the residuals' sum of squares."""

    rows: list[tuple[Fraction, ...]]  # y, x
    terms: tuple[str, ...] = ()
    intercept: bool = True
    mean: Fraction | None = None
    variance: Fraction | None = None
    coefficients: tuple[Fraction, ...] = ()
    rss: Fraction = Fraction(0)

    @property
    def tss(self) -> Fraction:
        ys = [row[0] for row in self.rows]
        middle = sum(ys) / len(ys) if self.intercept else Fraction(0)
        return sum(((y - middle) ** 2 for y in ys), Fraction(0))


def delta() -> list[Fraction]:
    """Residuals of Wampler3: orthogonal to all polynomials of degree 5 over x = 0..20, size about 2048.

    With z = x - 10 they are even, so odd powers vanish; -2048 at odd x, 2048 where x = 2 (mod 4), and
    values a, b, c at z = +-10, +-6, +-2 that make the sums with 1, z^2 and z^4 vanish.
    """
    fixed = {z: Fraction(-2048 if z % 2 else 2048) for z in range(-10, 11) if z % 4 != 2}
    free = [10, 6, 2]
    rows = [
        [*(Fraction(2 * z**k) for z in free), -sum((d * z**k for z, d in fixed.items()), Fraction(0))]
        for k in (0, 2, 4)
    ]
    for i in range(3):
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(3):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    solved = {z: row[3] for z, row in zip(free, rows, strict=True)}
    return [fixed[z] if z in fixed else solved[abs(z)] for z in range(-10, 11)]


def polynomial(base: Fraction, noise: list[Fraction] | None = None) -> Constructed:
    noise = noise or [Fraction(0)] * 21
    rows = [(sum((base * x) ** k for k in range(6)) + noise[x], Fraction(x)) for x in range(21)]
    powers = ("x", "x^2", "x^3", "x^4", "x^5")
    rss = sum((d * d for d in noise), Fraction(0))
    return Constructed(rows, powers, coefficients=tuple(base**k for k in range(6)), rss=rss)


def through_the_origin(points: list[tuple[int, int]]) -> Constructed:
    rows = [(Fraction(y), Fraction(x)) for y, x in points]
    slope = sum(y * x for y, x in rows) / sum((x * x for _, x in rows), Fraction(0))
    rss = sum(((y - slope * x) ** 2 for y, x in rows), Fraction(0))
    return Constructed(rows, ("x",), intercept=False, coefficients=(slope,), rss=rss)


def column(values: list[Fraction], mean: str, variance: str) -> Constructed:
    return Constructed([(value,) for value in values], mean=Fraction(mean), variance=Fraction(variance))


CONSTRUCTED: dict[str, Callable[[], Constructed]] = {
    "NumAcc1": lambda: column([Fraction(10_000_000 + k) for k in (1, 3, 2)], "10000002", "1"),
    "NumAcc2": lambda: column([Fraction(t) for t in ["1.2", *["1.1", "1.3"] * 500]], "1.2", "0.01"),
    "NumAcc3": lambda: column([Fraction(t) for t in ["1000000.2", *["1000000.1", "1000000.3"] * 500]],
                              "1000000.2", "0.01"),
    "NumAcc4": lambda: column([Fraction(t) for t in ["10000000.2", *["10000000.1", "10000000.3"] * 500]],
                              "10000000.2", "0.01"),
    "NoInt1": lambda: through_the_origin([(x + 70, x) for x in range(60, 71)]),
    "NoInt2": lambda: through_the_origin([(3, 4), (4, 5), (4, 6)]),
    "Wampler1": lambda: polynomial(Fraction(1)),
    "Wampler2": lambda: polynomial(Fraction(1, 10)),
    "Wampler3": lambda: polynomial(Fraction(1), delta()),
    "Wampler4": lambda: polynomial(Fraction(1), [100 * d for d in delta()]),
    "Wampler5": lambda: polynomial(Fraction(1), [10_000 * d for d in delta()]),
}  # fmt: skip


def test_residuals_are_orthogonal_to_polynomials() -> None:
    for k in range(6):
        assert sum(d * x**k for x, d in enumerate(delta())) == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CONSTRUCTED)
def test_constructed_sets(pybfv: Command, write, name: str, backend: str) -> None:
    made = CONSTRUCTED[name]()
    lines = [",".join(f"{decimal_of(value):f}" for value in row) for row in made.rows]
    table = write("t.csv", "\n".join([",".join(["y", "x"][: len(made.rows[0])]), *lines]) + "\n")
    results = asked(pybfv, table, specs(list(made.terms), made.intercept), *BACKENDS[backend])
    if made.mean is not None:
        assert [Fraction(result["exact"]) for result in results] == [made.mean, made.variance]
        assert results[1]["sd"] == float(root_of(made.variance))
        return
    (fit,) = results
    spare = len(made.rows) - len(made.coefficients)
    assert tuple(Fraction(exact) for exact in fit["exact"]) == made.coefficients
    assert fit["r_squared"] == float(1 - made.rss / made.tss)
    assert fit["residual_sd"] == float(root_of(made.rss / spare))


@present
@pytest.mark.parametrize("name", sorted(CONSTRUCTED.keys() & CERTIFIED.keys()) or ["none"])
def test_constructed_sets_are_nists(name: str) -> None:
    made = CONSTRUCTED[name]()
    facts = CERTIFIED[name]
    with open(FOLDER / facts["file"]) as file:
        rows = [tuple(Fraction(text) for text in row) for row in list(csv.reader(file))[1:]]
    assert rows == made.rows
    certified = facts["certified"]
    if made.mean is not None:
        assert agrees(decimal_of(made.mean), certified["mean"])
        assert agrees(root_of(made.variance), certified["sample_sd"])
        return
    for value, name in zip(made.coefficients, facts["terms"], strict=True):
        assert agrees(decimal_of(value), certified["coefficients"][name]["estimate"])
    assert agrees(root_of(made.rss / facts["residual_df"]), certified["residual_sd"])
    assert agrees(decimal_of(1 - made.rss / made.tss), certified["r_squared"])
