"""Every guard of decryption: a tampered result is refused, and is not once the guard is switched off.

Results are changed as a forger could change them, without any key: whoever has a ciphertext can add numbers and
noise to it. For each change there is the set of guards that notice it; each of them alone must.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pybfv import flow, native
from pybfv.client import decrypt
from pybfv.client.decrypt import REFUSAL
from pybfv.errors import DataError, InternalError, KeyRefusedError
from pybfv.io.result import Result, read_result
from pybfv.io.secret_key import SecretKey
from pybfv.study import Study
from pybfv.workload import ONES, Column, Key

N, ROWS, MAX_ROWS, LIMIT = 64, 150, 200, 1000
X = Column("x")
OFF = {
    "noise_bound": lambda study, modulus, depth: 2**63 - 1,
    "within": lambda numbers, interval: True,
    "same_rows": lambda found, stated: True,
    "reachable": lambda found, study, rows: True,
    "statistics_of": lambda study, totals, ddof: [w.finish(totals, ddof) for w in study.workloads],
}


@dataclass
class Setting:
    """A study, its key, an honest result over ROWS rows, and the numbers that it was made from."""

    study: Study
    secret: SecretKey
    result: Result
    values: list[int]
    honest: dict[str, Any]

    @property
    def slots_shown(self) -> bool:
        return self.study.reveal == "slots"

    def numbers(self, total: Key) -> list[int]:
        """What the N slots (or coefficients) of a total hold: sums over the blocks."""
        terms = {(ONES,): lambda x: 1, (X,): lambda x: x, (X, X): lambda x: x * x}[total]
        found = [0] * N
        for i, x in enumerate(self.values):
            found[i % N] += terms(x)
        return found

    def changed(self, polynomials: dict[str, np.ndarray]) -> Result:
        """The result with a polynomial (coefficient form) added to part 0 of some ciphertexts."""
        cts = dict(self.result.ciphertexts)
        with native.Ring(N, self.study.ps.primes) as ring:
            for name, polynomial in polynomials.items():
                cts[name] = cts[name].copy()
                cts[name][0] = ring.add(cts[name][0], ring.forward(polynomial))
        return replace(self.result, ciphertexts=cts)

    def with_numbers(self, total: Key, wanted: list[int]) -> Result:
        """The result whose total holds these N numbers (under totals: their sum)."""
        study = self.study
        added = {}
        with native.Ring(N, study.ps.primes) as ring:
            for name, key, r, _ in study.names():
                if key != total:
                    continue
                t = study.moduli[r]
                factor = -study.ps.q if len(total) == 2 and study.product == "scale-free" else 1
                change = [(b - a) * factor % t for a, b in zip(self.numbers(total), wanted, strict=True)]
                batched = study.packing == "batched"
                with (
                    native.Encoder.batched(ring, study.t_primes(r)) if batched else native.Encoder.coefficients(ring, t)
                ) as encoder:
                    added[name] = encoder.encode(change)
        return self.changed(added)

    def with_noise(self, total: Key, at: int) -> Result:
        """The result with as much noise on one coefficient as takes it beyond the bound, not beyond decryption."""
        study = self.study
        added = {}
        for name, key, r, _ in study.names():
            if key == total:
                scaled = decrypt.noise_bound(study, r, len(total) - 1)
                noise = 2 * (scaled * study.ps.q // (study.moduli[r] << 64)) + 2
                added[name] = np.zeros((len(study.ps.primes), N), dtype=np.uint32)
                added[name][:, at] = [noise % p for p in study.ps.primes]
        return self.changed(added)


SETTINGS = [
    "coefficients totals none", "coefficients slots none",
    "batched totals scale-free", "batched slots scale-free", "batched totals scaled", "batched slots scaled",
]  # fmt: skip


@pytest.fixture(scope="module", params=SETTINGS)
def setting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Setting:
    packing, reveal, product = request.param.split()
    folder: Path = tmp_path_factory.mktemp("guards")
    rng = random.Random(request.param)
    values = [rng.randint(-LIMIT, LIMIT) for _ in range(ROWS - 2)] + [-LIMIT, LIMIT]
    csv = folder / "x.csv"
    csv.write_text("x\n" + "".join(f"{v}\n" for v in values))
    study = flow.plan(
        str(csv),
        ["mean:x", "sum:x"] if packing == "coefficients" else ["mean:x", "variance:x"],
        bounds=[f"x={-LIMIT}:{LIMIT}"],
        max_rows=MAX_ROWS,
        max_contributions=1,
        reveal=reveal,
        product=None if product == "none" else product,
        set_name="insecure_n64_q106",
        insecure=True,
    ).study
    assert (study.packing, study.reveal, study.product, study.bounds[X].mid) == (packing, reveal, product, 0)
    secret, public = flow.keygen(study)
    flow.encrypt(study, str(csv), public, str(folder / "x.bfvc"))
    flow.compute([str(folder / "x.bfvc")], str(folder / "r.bfvr"), key=public)
    result = read_result(str(folder / "r.bfvr"))
    return Setting(study, secret, result, values, flow.decrypt(result, secret))


def spread(total: int, count: int = N) -> list[int]:
    """``count`` numbers, as equal as can be, that add up to total."""
    return [total // count + (i < total % count) for i in range(count)]


def tampered(s: Setting) -> Iterator[tuple[str, Result, set[str]]]:
    """(what was done, the result, the guards that each notice it)."""
    for by in (-1, 1):
        yield f"rows in the header {by:+}", replace(s.result, rows=ROWS + by), {"same_rows"}
        ones = s.numbers((ONES,))
        ones[3] += by
        yield f"encrypted rows {by:+}", s.with_numbers((ONES,), ones), {"same_rows"}
    last = 0 if s.study.packing == "batched" and not s.slots_shown else N - 1
    for total in {key for _, key, _, _ in s.study.names()}:
        for at in {0, last}:
            yield f"noise on coefficient {at} of {total}", s.with_noise(total, at), {"noise_bound"}
    # of the squares where there are any: larger ones contradict nothing else
    total, each = ((X, X), LIMIT**2) if s.study.products else ((X,), LIMIT)
    yield "a total that needs more rows", s.with_numbers(total, spread(ROWS * each + 1)), {"reachable"}
    if not s.study.products:
        yield "a total far below", s.with_numbers(total, spread(-ROWS * each - 1)), {"reachable"}
    if s.slots_shown:
        most = s.study.shape.ciphertexts * LIMIT
        rest = spread(sum(s.numbers((X,))) - most - 1, N - 1)
        yield "one slot beyond all blocks", s.with_numbers((X,), [most + 1, *rest]), {"within"}
    else:
        yield "a total beyond the study's", s.with_numbers(total, spread(MAX_ROWS * each + 1)), {"within", "reachable"}
    if s.study.products:
        yield "squares that add up to less than they can", s.with_numbers((X, X), [0] * N), {"statistics_of"}


def test_every_guard_is_needed(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[str] = set()
    for what, result, guards in tampered(setting):
        with pytest.raises(DataError) as refused:
            flow.decrypt(result, setting.secret)
        assert str(refused.value) == REFUSAL, what
        with monkeypatch.context() as patch:
            for guard in guards:
                patch.setattr(decrypt, guard, OFF[guard])
            if guards == {"statistics_of"}:  # the workload itself knows that its totals are impossible
                with pytest.raises(InternalError, match="contradict"):
                    flow.decrypt(result, setting.secret)
            else:
                document = flow.decrypt(result, setting.secret)
                same = document["results"] == setting.honest["results"]
                assert same == any(word in what for word in ("noise", "header", "slot")), what
        for alone in guards:
            with monkeypatch.context() as patch:
                for guard in set(OFF) - {alone}:
                    patch.setattr(decrypt, guard, OFF[guard])
                with pytest.raises(DataError) as refused:
                    flow.decrypt(result, setting.secret)
                assert str(refused.value) == REFUSAL, (what, alone)
        used |= guards
    assert used == set(OFF) - (set() if setting.study.products else {"statistics_of"})


def test_the_honest_result_passes_every_guard(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    assert setting.honest["results"][0]["n"] == ROWS
    for total in {key for _, key, _, _ in setting.study.names()}:  # tampering with nothing changes nothing
        again = setting.with_numbers(total, setting.numbers(total))
        assert flow.decrypt(again, setting.secret) == setting.honest
    for guard, off in OFF.items():
        monkeypatch.setattr(decrypt, guard, off)
    assert flow.decrypt(setting.result, setting.secret) == setting.honest


def test_the_form_is_the_studys(setting: Setting) -> None:
    study, result = setting.study, setting.result
    other_reveal = "totals" if setting.slots_shown else "slots"
    other_packing = "coefficients" if study.packing == "batched" else "batched"
    cts = result.ciphertexts
    name = next(iter(cts))
    wider = np.concatenate([cts[name], cts[name][1:2]])
    narrower = {n: ct[:2] for n, ct in cts.items() if len(ct) == 3}
    wrong = {
        "reveal": replace(result, reveal=other_reveal),
        "packing": replace(result, packing=other_packing),
        "product": replace(result, product="scale-free" if study.product == "scaled" else "scaled"),
        "flood_bits": replace(result, flood_bits=study.flood_bits + 1),
        "ciphertexts": replace(result, ciphertexts={n: ct for n, ct in cts.items() if n != name}),
        "ciphertexts ": replace(result, ciphertexts=cts | {"sum.9.0": cts[name]}),
        "ciphertexts  ": replace(result, ciphertexts=cts | {name: wider}),
    }
    if narrower:
        wrong["ciphertexts   "] = replace(result, ciphertexts=cts | narrower)
    for what, forged in wrong.items():
        with pytest.raises(DataError, match=f"{what.strip()}.*compute it anew"):
            flow.decrypt(forged, setting.secret)
    with pytest.raises(DataError, match=r"201 rows, .*planned for 200"):
        flow.decrypt(replace(result, rows=MAX_ROWS + 1), setting.secret)
    with pytest.raises(DataError, match=r"2 contributions, .*planned for 1"):
        flow.decrypt(replace(result, contributions=2), setting.secret)


def test_the_key_is_the_studys(setting: Setting) -> None:
    study, result, key = setting.study, setting.result, setting.secret
    other, _ = flow.keygen(study)
    with pytest.raises(KeyRefusedError, match=f"{result.key_id}.*{other.key_id}"):
        flow.decrypt(result, other)
    with pytest.raises(KeyRefusedError, match="a key serves one study"):
        flow.decrypt(result, SecretKey("0" * 64, key.key_id, key.set_name, key.n, key.s))
    # a result whose header names our key, but was made with another
    with pytest.raises(DataError) as refused:
        flow.decrypt(result, SecretKey(key.study_hash, key.key_id, key.set_name, key.n, other.s))
    assert str(refused.value) == REFUSAL
