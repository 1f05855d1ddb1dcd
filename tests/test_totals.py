"""Totals only: the key holder attacks our result files with the secret key, and learns no row.

Three attacks: plain decryption; C0 = C1^2 / (4 C2), which a scale-free square of one ciphertext satisfies
at every NTT point, so that a mask on part 0 alone is worthless; and c0 = C1 / (2 t c1), from the mean and
the variance of one column. Each is shown to work when the step that defeats it is switched off. Scaled products
are put to the same attacks.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pybfv import flow, native
from pybfv.errors import KeyRefusedError
from pybfv.io.ciphertext import ContributionWriter
from pybfv.io.key import PublicKey
from pybfv.io.partial import Partial
from pybfv.io.result import Result, read_result
from pybfv.io.secret_key import SecretKey
from pybfv.native.secret import Secret, round_phase
from pybfv.scheme import public
from pybfv.server import finish
from pybfv.server.finish import COMBINED
from pybfv.study import PRODUCTS, Study
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
        undo = pow(-self.study.ps.q, -1, self.t) if depth and self.study.product == "scale-free" else 1
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


@pytest.fixture(params=[(name, product) for name in ("insecure_n256_q133", "n4096_q106") for product in PRODUCTS])
def setting(request: pytest.FixtureRequest, tmp_path: Path):
    """A study of mean and variance of x, one contribution of one block: rows = slots."""
    name, product = request.param
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
        product=product,
        insecure=True,
    ).study
    assert study.product == product
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
    # The relations hold mod q. A scaled square is rounded and taken mod q from integers as large as q^2, where they
    # hold no more; what it lacks without re-randomising is shown below, by the parts that repeat.
    read = 1 if attacker.study.product == "scale-free" else 0
    assert matches(attacker.relation(), squares(wire, attacker.t)) == read
    assert matches(attacker.mean_and_variance(), wire) == read


@dataclass
class Small:
    """A small study under totals, with one contribution and the partial of it."""

    study: Study
    secret: SecretKey
    public: PublicKey
    partial: Partial
    rows: list[int]
    contribution: Path

    def finish(self) -> Result:
        """A new result of the partial."""
        return flow.finish_partial(self.partial, self.public, COMBINED)

    def unfinished(self, name: str) -> np.ndarray:
        """The accumulator times its factor, or scaled: what finishing starts from."""
        t = self.study.moduli[0]
        acc = self.partial.accumulators[name]
        with native.Ring(self.study.ps.n, self.study.ps.primes) as ring:
            if not name.startswith("product"):
                return acc
            if self.study.product == "scaled":
                with native.Lifter(ring, self.study.wide) as lifter:
                    return lifter.scale_round(acc, t)
            return ring.mul_scalar(acc, [t % p for p in ring.primes])

    def noises(self, result: Result) -> dict[str, int]:
        """By ciphertext the noise of coefficient 0: what is left of its phase beside a multiple of q/t."""
        q, t, primes = self.study.ps.q, self.study.moduli[0], self.study.ps.primes
        found = {}
        with native.Ring(self.study.ps.n, primes) as ring, Secret(ring, self.secret.s) as secret:
            for name, ct in result.ciphertexts.items():
                residues = secret.phase(ct)[:, 0]
                x = sum(int(r) * (q // p) * pow(q // p, -1, p) for r, p in zip(residues, primes, strict=True)) % q
                m = (2 * t * x + q) // (2 * q)
                found[name] = x - (q * m + t // 2) // t
        return found


@pytest.fixture(params=["coefficients", "batched", "batched scaled"])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Small:
    rows = [random.Random(5).randint(0, 10**6) for _ in range(200)]
    csv = tmp_path / "x.csv"
    csv.write_text("x\n" + "\n".join(map(str, rows)) + "\n")
    stats = ["sum:x"] if request.param == "coefficients" else ["sum:x", "variance:x"]
    packing, _, product = request.param.partition(" ")
    study = flow.plan(
        str(csv), stats, max_contributions=1, set_name="insecure_n256_q133", insecure=True, product=product or None
    ).study
    assert (study.packing, len(study.moduli)) == (packing, 1)
    assert study.product == (product or {"coefficients": "none", "batched": "scale-free"}[packing])
    secret, public = flow.keygen(study)
    contribution = tmp_path / "x.bfvc"
    flow.encrypt(study, str(csv), public, str(contribution))
    partial = flow.compute_to_partial([str(contribution)], str(tmp_path / "x.bfvp"))
    return Small(study, secret, public, partial, rows, contribution)


@pytest.mark.parametrize("switched_off", [False, True])
@pytest.mark.parametrize("small", ["coefficients"], indirect=True)
def test_coefficient_packing(small: Small, monkeypatch: pytest.MonkeyPatch, switched_off: bool) -> None:
    """Sums only: the coefficients are masked mod t with a mask that adds up to 0."""
    if switched_off:
        monkeypatch.setattr(finish, "blind", lambda ring, study, modulus, depth, ct: ct)
    result = small.finish()
    assert flow.decrypt(result, small.secret)["results"][0]["exact"] == f"{sum(small.rows)}/1"
    attacker = Attacker(result, small.study, small.secret)
    wire = [(x - small.study.bounds[X].mid) % attacker.t for x in small.rows] + [0] * 56
    share = matches(attacker.slots(attacker.sum, 0), wire)
    assert share == 1 if switched_off else share < 0.05


def repeated_parts(small: Small) -> set[str]:
    """Parts of finished ciphertexts that equal the accumulator's, or those of another run."""
    first, second = small.finish(), small.finish()
    return {
        f"{name} part {part} as {what}"
        for name, ct in first.ciphertexts.items()
        for what, other in (("before", small.unfinished(name)), ("in another run", second.ciphertexts[name]))
        for part in range(len(ct))
        if np.array_equal(ct[part], other[part])
    }


def test_every_part_is_new_in_every_result(small: Small) -> None:
    assert repeated_parts(small) == set()


def test_without_rerandomising_parts_repeat(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "rerandomise", lambda ring, pk, ct: ct)
    names = {name: len(ct) for name, ct in small.partial.accumulators.items()}
    after_the_first = {f"{name} part {part}" for name, parts in names.items() for part in range(1, parts)}
    assert repeated_parts(small) == {f"{x} as {y}" for x in after_the_first for y in ("before", "in another run")}


def flooded(small: Small, runs: int) -> bool:
    """Whether the noise of coefficient 0 is as large, run by run, as flood_bits says that flooding makes it."""
    study = small.study
    assert study.flood_bits >= 10, "flooding that can be told from noise"
    runs_of = [small.noises(small.finish()) for _ in range(runs)]
    good = True
    for name, key, r, _ in study.names():
        noise = study.noises[r]
        depth = len(key) - 1
        bits = noise.flood[depth]
        assert bits is not None
        assert study.flood_bits <= bits - noise.bounds[depth].bit_length()
        sizes = sorted(abs(found[name]) for found in runs_of)
        assert sizes[-1] <= noise.total(depth)
        # uniform in [-2^F, 2^F): the median of |x| is 2^(F - 1), the largest of 30 about 2^F
        good &= 2.0 ** (bits - 3) < sizes[runs // 2] < 2.0**bits < 2 * sizes[-1]
    return good


def test_flooding_is_as_large_as_stated(small: Small) -> None:
    assert flooded(small, 30)


def test_flooding_switched_off_or_weakened_shows(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = public.flooding
    monkeypatch.setattr(public, "flooding", lambda ring, bits, count: whole(ring, bits - 4, count))
    assert not flooded(small, 30)
    monkeypatch.setattr(
        public, "flooding", lambda ring, bits, count: np.zeros((len(ring.primes), ring.n), dtype=np.uint32)
    )
    assert not flooded(small, 30)
    # the noise that is left without it is what flood_bits compares with
    for name, key, r, _ in small.study.names():
        assert abs(small.noises(small.finish())[name]) <= small.study.noises[r].bounds[len(key) - 1]


def test_symmetric_contributions_are_refused_under_totals(small: Small) -> None:
    """The secret key's holder, who can make them, knows their randomness; encrypt makes none, a forger may."""
    study = small.study
    path = small.contribution.with_name("symmetric.bfvc")
    with path.open("wb") as stream:
        writer = ContributionWriter(
            stream, study.doc, small.public.key_id, "1" * 32, "symmetric", study.ps.n, study.ps.primes, study.per_block
        )
        seeds = np.arange(32 * study.per_block, dtype=np.uint8).reshape(study.per_block, 32)
        writer.symmetric_block(seeds, np.ones((study.per_block, len(study.ps.primes), study.ps.n), dtype=np.uint32))
        writer.close(3, 0)
    for files in ([path], [small.contribution, path], [path, small.contribution]):
        out = path.with_name("r.bfvr")
        with pytest.raises(KeyRefusedError, match=r"symmetric\.bfvc was encrypted with a secret key") as refused:
            flow.compute([str(f) for f in files], str(out), key=small.public)
        assert refused.value.exit_code == 77
        with pytest.raises(KeyRefusedError, match="which totals do not allow"):
            flow.compute_to_partial([str(f) for f in files], str(out))
        assert not out.exists()


def test_results_differ_between_runs(setting) -> None:
    """Finishing is randomised: two results of one partial share no polynomial."""
    first, _ = setting()
    second, _ = setting()
    for a, b in zip(first.sum, second.sum, strict=True):
        assert not np.array_equal(a, b)
