"""Golden files: whole jobs of format version 1, committed once, from which this code must compute the same.

Reading alone would not do: a transform, an encoding or a factor that changed would leave files readable and
results wrong.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from io_tools import ROOT, take_apart

from pybfv import flow
from pybfv.io.key import read_public
from pybfv.io.partial import read_partial
from pybfv.io.result import read_result
from pybfv.io.secret_key import SecretKey, read_secret
from pybfv.server.accumulate import accumulate
from pybfv.server.reference import ReferenceBackend

GOLDEN = ROOT / "tests" / "vectors" / "golden"
FILES = ["study.json", "secret.key", "public.key", "0.csv", "1.csv", "0.bfvc", "1.bfvc", "partial.bfvp", "result.bfvr"]


def _jobs() -> dict:
    spec = importlib.util.spec_from_file_location("make_golden", GOLDEN / "make_golden.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.JOBS


JOBS = _jobs()
# By hand from the tables. x: 1.5 -2 3.5 0 -4.5, y: 2 7 -1 4 9; sums -1.5 and 21, squares 38.75 and 151, products -55;
# slope (5 * -55 + 1.5 * 21) / (5 * 38.75 - 2.25) = -487/383, intercept (21 + 1.5 * slope) / 5 = 2925/766.
REGRESSION = [("n", 5), ("exact", "-3/10"), ("exact", "157/10"), ("exact", ["2925/766", "-487/383"])]
EXPECTED = {
    "regression": REGRESSION,
    "scaled": REGRESSION,
    "slots": [("exact", "6598/25"), ("exact", "3299/250")],
}


@pytest.fixture(params=sorted(EXPECTED))
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a job's files, with a key that only its owner reads."""
    assert sorted(p.name for p in (GOLDEN / request.param).iterdir()) == sorted(FILES)
    folder = tmp_path / request.param
    shutil.copytree(GOLDEN / request.param, folder)
    (folder / "secret.key").chmod(0o600)
    return folder


def key_of(job: Path) -> SecretKey:
    return read_secret(job / "secret.key")


def check(job: Path, document: dict) -> None:
    found = [r[field] for r, (field, _) in zip(document["results"], EXPECTED[job.name], strict=True)]
    assert found == [value for _, value in EXPECTED[job.name]]
    assert (document["rows"], document["contributions"]) == ({"regression": 5, "scaled": 5, "slots": 20}[job.name], 2)


def test_the_folders_are_the_jobs() -> None:
    assert {p.name for p in GOLDEN.iterdir() if p.is_dir() and p.name != "__pycache__"} == set(EXPECTED) == set(JOBS)
    for name, made in JOBS.items():
        assert tuple((GOLDEN / name / f"{k}.csv").read_text() for k in range(2)) == made["tables"]


def test_the_result_decrypts(job: Path) -> None:
    check(job, flow.decrypt(str(job / "result.bfvr"), key_of(job)))


def test_contributions_make_the_same_partial(job: Path) -> None:
    for order in (["0.bfvc", "1.bfvc"], ["1.bfvc", "0.bfvc"]):
        flow.compute_to_partial([str(job / n) for n in order], str(job / "again.bfvp"), force=True)
        assert (job / "again.bfvp").read_bytes() == (job / "partial.bfvp").read_bytes()


def test_contributions_and_partials_compute(job: Path) -> None:
    public, secret = read_public(job / "public.key"), key_of(job)
    computed = flow.compute([str(job / "0.bfvc"), str(job / "1.bfvc")], str(job / "r.bfvr"), key=public)
    combined = flow.combine([str(job / "partial.bfvp")], str(job / "c.bfvr"), key=public)
    committed = read_result(job / "result.bfvr")
    for result in (computed, combined):
        check(job, flow.decrypt(result, secret))
        for name, ct in committed.ciphertexts.items():
            # nothing random comes in between where slots are shown
            assert np.array_equal(result.ciphertexts[name], ct) == (job.name == "slots")


def test_the_accumulators_are_the_tensors_of_the_ciphertexts(job: Path) -> None:
    """The partial from the contributions by FORMAT.md, section 7, in Python integers."""
    study = flow.load_study(str(job / "study.json"))
    partial = read_partial(job / "partial.bfvp")
    assert study.product == {"regression": "scale-free", "scaled": "scaled", "slots": "none"}[job.name]
    reference = ReferenceBackend(study.ps.n, study.ps.primes, study.wide)
    expected, _ = accumulate([str(job / "1.bfvc"), str(job / "0.bfvc")], lambda _: reference)
    for name, total, _, parts in study.names():
        assert partial.accumulators[name].shape == study.state_shape(total, parts)
        assert np.array_equal(partial.accumulators[name], expected.accumulators[name])


def test_new_contributions_go_with_old_ones(job: Path) -> None:
    study, public = flow.load_study(str(job / "study.json")), read_public(job / "public.key")
    flow.encrypt(study, str(job / "0.csv"), public, str(job / "new.bfvc"))
    result = flow.compute([str(job / "new.bfvc"), str(job / "1.bfvc")], str(job / "r.bfvr"), key=public)
    check(job, flow.decrypt(result, key_of(job)))


def test_the_plan_is_still_read_as_it_was_written(job: Path) -> None:
    study = flow.load_study(str(job / "study.json"))
    assert study.doc.raw == (job / "study.json").read_bytes()
    for name in FILES:
        if name.endswith((".key", ".bfvc", ".bfvp", ".bfvr")):
            header = json.loads(take_apart((job / name).read_bytes())[1][0][1])
            assert header["study_hash"] == study.hash, name
    modes = ["public", "symmetric" if job.name == "slots" else "public"]
    heads = [take_apart((job / f"{k}.bfvc").read_bytes())[1][0][1] for k in range(2)]
    assert [json.loads(h)["mode"] for h in heads] == modes
