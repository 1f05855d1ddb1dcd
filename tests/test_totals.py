"""Totals only: the key holder attacks our result files with the secret key, and learns no row.

Three attacks: plain decryption; C0 = C1^2 / (4 C2), which a scale-free square of one ciphertext satisfies
at every NTT point, so that a mask on part 0 alone is worthless; and c0 = C1 / (2 t c1), from the mean and
the variance of one column. Each is shown to work when the step that defeats it is switched off.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from pybfv import flow, native
from pybfv.io.key import SecretKey
from pybfv.io.result import Result, read_result
from pybfv.native.secret import Secret, round_phase
from pybfv.server import finish
from pybfv.study import Study
from pybfv.workload import Column

ANYTHING = 2**63 - 1
X = Column("x")


class Attacker:
    """Holds the secret key and a result file."""

    def __init__(self, result: Result, study: Study, key: SecretKey) -> None:
        self.result, self.study, self.key = result, study, key
        self.ring = native.Ring(study.ps.n, study.ps.primes)
        self.t = study.moduli[0]
        k = study.columns.index(X)
        self.sum = result.ciphertexts[f"sum.{k}.0"]
        self.square = result.ciphertexts.get(f"product.{k}.{k}.0")

    def slots(self, ct: np.ndarray, depth: int) -> list[int]:
        """Whatever the N slots (or coefficients) of a ciphertext decrypt to, undoing its factor."""
        with Secret(self.ring, self.key.s) as secret:
            phase = secret.phase(ct)
        read = round_phase(self.ring, phase, self.t, 0, self.ring.n, ANYTHING)
        if self.study.packing == "batched":
            with native.Encoder.batched(self.ring, self.study.t_primes(0)) as encoder:
                read = encoder.decode_slots(read)
        undo = pow(-self.study.ps.q, -1, self.t) if depth else 1
        return [x * undo % self.t for x in read]

    def inverse(self, x: np.ndarray) -> np.ndarray:
        """Point by point, 0 where there is none."""
        rows = [[pow(int(v), -1, p) if v else 0 for v in row] for row, p in zip(x, self.ring.primes, strict=True)]
        return np.array(rows, dtype=np.uint32)

    def plain(self) -> list[int]:
        return self.slots(self.sum, 0)

    def relation(self) -> list[int]:
        """C0 from C1^2 / (4 C2)."""
        _, c1, c2 = self.square
        four = self.ring.mul_scalar(c2, [4] * len(self.ring.primes))
        c0 = self.ring.mul(self.ring.mul(c1, c1), self.inverse(four))
        return self.slots(np.stack([c0, c1, c2]), 1)

    def mean_and_variance(self) -> list[int]:
        """c0 of the column itself from C1 / (2 t c1)."""
        c1 = self.sum[1]
        twice = self.ring.mul_scalar(c1, [2 * self.t % p for p in self.ring.primes])
        c0 = self.ring.mul(self.square[1], self.inverse(twice))
        return self.slots(np.stack([c0, c1]), 0)


@pytest.fixture(params=["insecure_n256_q133", "n4096_q106"])
def setting(request: pytest.FixtureRequest, tmp_path: Path):
    """A study of mean and variance of x, one contribution of one block: rows = slots."""
    name = request.param
    rng = random.Random(name)
    n = 256 if "256" in name else 4096
    rows = [rng.randint(-1000, 1000) for _ in range(n - 5)]
    csv = tmp_path / "x.csv"
    csv.write_text("x\n" + "\n".join(map(str, rows)) + "\n")
    study = flow.plan(
        str(csv),
        ["mean:x", "variance:x"],
        bounds=["x=-1000:1000"],
        max_contributions=1,
        set_name=name,
        insecure=True,
    ).study
    secret, public = flow.keygen(study)
    contribution = tmp_path / "x.bfvc"
    flow.encrypt(study, str(csv), public, str(contribution))

    def attack() -> tuple[Attacker, list[int]]:
        out = tmp_path / "r.bfvr"
        flow.compute([str(contribution)], str(out), key=public, force=True)
        result = read_result(str(out))
        document = flow.decrypt(result, secret)
        assert document["results"][0]["exact"] == _exact(sum(rows), len(rows))  # the total itself stays right
        attacker = Attacker(result, study, secret)
        t = attacker.t
        wire = [(x - study.bounds[X].mid) % t for x in rows] + [0] * 5
        return attacker, wire

    return attack


def _exact(p: int, q: int) -> str:
    from fractions import Fraction

    f = Fraction(p, q)
    return f"{f.numerator}/{f.denominator}"


def matches(found: list[int], expected: list[int]) -> float:
    """Which share of the rows was read."""
    return sum(a == b for a, b in zip(found, expected, strict=True)) / len(expected)


def squares(wire: list[int], t: int) -> list[int]:
    return [x * x % t for x in wire]


def test_no_attack_reads_a_row(setting) -> None:
    attacker, wire = setting()
    for found, expected in (
        (attacker.plain(), wire),
        (attacker.slots(attacker.square, 1), squares(wire, attacker.t)),
        (attacker.relation(), squares(wire, attacker.t)),
        (attacker.mean_and_variance(), wire),
    ):
        # a uniform guess is right with probability 1/t, t of 30 bits and more
        assert matches(found, expected) == 0


def test_without_blinding_plain_decryption_reads_all(setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "blind", lambda ring, study, modulus, depth, ct: ct)
    attacker, wire = setting()
    assert matches(attacker.plain(), wire) == 1
    assert matches(attacker.slots(attacker.square, 1), squares(wire, attacker.t)) == 1


def test_without_rerandomising_the_relations_read_all(setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "rerandomise", lambda ring, pk, ct: ct)
    attacker, wire = setting()
    assert matches(attacker.plain(), wire) == 0, "the mask does hide the slots from plain decryption"
    assert matches(attacker.relation(), squares(wire, attacker.t)) == 1
    assert matches(attacker.mean_and_variance(), wire) == 1


@pytest.mark.parametrize("switched_off", [False, True])
def test_coefficient_packing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switched_off: bool) -> None:
    """Sums only: the coefficients are masked mod t with a mask that adds up to 0."""
    if switched_off:
        monkeypatch.setattr(finish, "blind", lambda ring, study, modulus, depth, ct: ct)
    rows = [random.Random(5).randint(0, 10**6) for _ in range(200)]
    csv = tmp_path / "x.csv"
    csv.write_text("x\n" + "\n".join(map(str, rows)) + "\n")
    study = flow.plan(str(csv), ["sum:x"], max_contributions=1, set_name="insecure_n256_q133", insecure=True).study
    assert study.packing == "coefficients"
    secret, public = flow.keygen(study)
    flow.encrypt(study, str(csv), public, str(tmp_path / "x.bfvc"))
    result = flow.compute([str(tmp_path / "x.bfvc")], str(tmp_path / "r.bfvr"), key=public)
    assert flow.decrypt(result, secret)["results"][0]["exact"] == f"{sum(rows)}/1"
    attacker = Attacker(result, study, secret)
    wire = [(x - study.bounds[X].mid) % attacker.t for x in rows] + [0] * 56
    share = matches(attacker.slots(attacker.sum, 0), wire)
    assert share == 1 if switched_off else share < 0.05


def test_results_differ_between_runs(setting) -> None:
    """Finishing is randomised: two results of one partial share no polynomial."""
    first, _ = setting()
    second, _ = setting()
    for a, b in zip(first.sum, second.sum, strict=True):
        assert not np.array_equal(a, b)
