"""What scripts give wrongly: refused with an exception of pybfv.errors in one line, never a bare one of Python's."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pybfv import flow
from pybfv.errors import BackendUnavailableError, DataError, OutputError, PlanError, PybfvError, UsageError
from pybfv.evaluator import BatchEncoder, Context, Decryptor, Encryptor, Evaluator, KeyGenerator
from pybfv.words import words
from pybfv.workload import show_name

DATA = {"x": [1, 2, 3]}


def refusal(call: Callable[[], Any], *parts: str, kind: type[PybfvError] = UsageError) -> None:
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    for part in parts:
        assert part in text, text


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"backend": "sim"}, ("engine=flow.Engine(backend='sim')",)),
        ({"engine": "sim"}, ("engine=flow.Engine(backend='sim')",)),
        ({"engine": None}, ("an Engine",)),
        ({"wrong": 1}, ("unknown argument 'wrong'", "max_rows")),
        ({"max_rows": "10"}, ("max_rows must be an integer, not str",)),
        ({"max_contributions": 1.5}, ("max_contributions must be an integer",)),
        ({"plain_moduli": ["7"]}, ("plain_moduli must be an integer",)),
        ({"plain_moduli": None}, ("plain_moduli must be an integer",)),
        ({"statistics": None}, ('"mean:age"',)),
        ({"statistics": [1]}, ('"mean:age"',)),
        ({"bounds": {"x": 5}}, ("COLUMN=LO:HI",)),
        ({"bounds": {"x": (0.5, 1)}}, ("COLUMN=LO:HI",)),
        ({"bounds": {1: "0:1"}}, ("COLUMN=LO:HI",)),
        ({"bounds": 7}, ("COLUMN=LO:HI",)),
        ({"bounds": [("x", 0, 1)]}, ("COLUMN=LO:HI",)),
        ({"options": {"header": False}}, ("CsvOptions",)),
        ({"ddof": 2}, ("ddof must be",)),
        ({"ddof": "1"}, ("ddof must be",)),
        ({"ddof": True}, ("ddof must be",)),
        ({"missing": None}, ("missing",)),
        ({"reveal": 3}, ("reveal",)),
    ],
)  # fmt: skip
def test_run_refuses(given: dict[str, Any], parts: tuple[str, ...]) -> None:
    statistics = given.pop("statistics", ["mean:x"])
    refusal(lambda: flow.run(DATA, statistics, **given), *parts, kind=PybfvError)


def test_bounds_as_a_mapping() -> None:
    forms: list[Any] = ["x=0:10", ["x=0:10"], {"x": "0:10"}, {"x": (0, 10)}, {"x": [np.int8(0), Decimal(10)]}]
    assert len({flow.plan(DATA, "mean:x", bounds=form).study.hash for form in forms}) == 1
    scaled = flow.plan(DATA, "mean:x", bounds={"x": (0, Decimal("10.00"))}).study
    assert scaled.hash == flow.plan(DATA, "mean:x", bounds="x=0.00:10.00").study.hash
    blank = {'net "pay"': [1]}
    assert flow.plan(blank, "mean:*", bounds={'net "pay"': (0, 10)}).study.base['net "pay"'].hi == 10
    points = flow.CsvOptions(delimiter=";", decimal=",", thousands=".")
    assert flow.plan(DATA, "mean:x", bounds={"x": (0, Decimal("10.000"))}, options=points).study.base["x"].hi == 10


def test_keys_and_studies_are_not_paths(tmp_path: Path) -> None:
    planned = flow.plan(DATA, ["mean:x"])
    study = planned.study
    secret, public = flow.keygen(study)
    out = str(tmp_path / "a.bfvc")
    refusal(lambda: flow.keygen("study.json"), "flow.load_study")  # type: ignore[arg-type]
    refusal(lambda: flow.keygen(planned), "flow.plan(...).study")  # type: ignore[arg-type]
    refusal(lambda: flow.encrypt("study.json", DATA, public, out), "not a path", "flow.load_study")  # type: ignore
    read = "a PublicKey is needed, not a path; read it with pybfv.io.key.read_public(path)"
    refusal(lambda: flow.encrypt(study, DATA, "keys/public.key", out), read)  # type: ignore[arg-type]
    flow.encrypt(study, DATA, public, out)
    result = str(tmp_path / "r.bfvr")
    refusal(lambda: flow.compute([out], result, key="keys/public.key"), read)  # type: ignore[arg-type]
    refusal(lambda: flow.compute([out], result, key=public, engine="sim"), "flow.Engine")  # type: ignore[arg-type]
    refusal(lambda: flow.compute([5], result, key=public), "not int")  # type: ignore[list-item]
    refusal(lambda: flow.compute(None, result, key=public), "not NoneType")  # type: ignore[arg-type]
    assert not (tmp_path / "r.bfvr").exists()
    flow.compute(out, result, key=public)  # one path stands for a list
    flow.compute(Path(out), result, key=public, force=True)
    read = "a SecretKey is needed, not a path; read it with pybfv.io.secret_key.read_secret(path)"
    refusal(lambda: flow.decrypt(result, "keys/secret.key"), read)  # type: ignore[arg-type]
    refusal(lambda: flow.decrypt(result, public), "a SecretKey is needed, not PublicKey")  # type: ignore[arg-type]
    refusal(lambda: flow.decrypt(5, secret), "not int")  # type: ignore[arg-type]
    for ddof in (2, -1, 0.5, None, "1"):
        refusal(lambda ddof=ddof: flow.decrypt(result, secret, ddof), "ddof must be")  # type: ignore[misc]
    assert flow.decrypt(result, secret, np.int64(0))["results"][0]["exact"] == "2/1"  # type: ignore[arg-type]


def test_write_study(tmp_path: Path) -> None:
    study, path = flow.plan(DATA, ["mean:x"]).study, str(tmp_path / "study.json")
    flow.write_study(study, path)
    assert flow.load_study(path).hash == study.hash
    refusal(lambda: flow.write_study(study, path), kind=OutputError)
    flow.write_study(study, path, force=True)
    refusal(lambda: flow.write_study("study.json", path), "a Study")  # type: ignore[arg-type]


def test_engines_take_whole_numbers() -> None:
    for name in ("threads", "dpus", "tasklets"):
        refusal(lambda name=name: flow.Engine(**{name: "2"}), name)  # type: ignore[misc]
        refusal(lambda name=name: flow.Engine(**{name: -1}), name)  # type: ignore[misc]
    refusal(lambda: flow.Engine(kernels="limb"), kind=BackendUnavailableError)


def test_evaluator_refuses_the_wrong_kind() -> None:
    context = Context("n1024_q26", t=12289)
    keys = KeyGenerator(context)
    encoder, evaluator, encryptor = BatchEncoder(context), Evaluator(context), Encryptor(keys.public_key)
    decryptor = Decryptor(keys.secret_key)
    plain = encoder.encode([5, 7])
    ct = encryptor.encrypt(plain)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: encoder.decode(ct), "decrypt it first"),  # type: ignore[arg-type]
        (lambda: decryptor.decrypt(plain), "encrypt it first"),  # type: ignore[arg-type]
        (lambda: encryptor.encrypt([1, 2]), "encode"),  # type: ignore[arg-type]
        (lambda: encryptor.encrypt(5), "encode"),  # type: ignore[arg-type]
        (lambda: Decryptor(keys.public_key), "a public key only encrypts"),  # type: ignore[arg-type]
        (lambda: evaluator.dot(ct, ct), "dot: a sequence"),  # type: ignore[arg-type]
        (lambda: evaluator.add_many(ct), "add_many: a sequence"),  # type: ignore[arg-type]
        (lambda: ct * 2, "encode"),
        (lambda: 2 * ct, "encode"),
        (lambda: ct + 1, "encode"),
        (lambda: 1 + ct, "encode"),
        (lambda: ct - 1, "encode"),
        (lambda: 1 - ct, "encode"),
        (lambda: ct + np.arange(3), "encode"),
        (lambda: np.int64(3) - ct, "encode"),
    ]
    for call, part in calls:
        refusal(call, part)
    context = Context("n2048_q53", t=12289)
    keys = KeyGenerator(context)
    encoder, decryptor = BatchEncoder(context), Decryptor(keys.secret_key)
    ct = Encryptor(keys.public_key).encrypt(encoder.encode([5, 7]))
    assert encoder.decode(decryptor.decrypt(encoder.encode([1, 2]) - ct), signed=True)[:3] == [-4, -5, 0]


def test_a_regression_through_as_many_points_has_no_residual_sd() -> None:
    document = flow.run({"x": [1, 2], "y": [3, 5]}, "linreg:y~x")
    assert document["results"][0]["residual_sd"] is None
    assert "residual_sd = undefined (n = k)" in words(document)


def test_bits_left() -> None:
    context = Context("n2048_q53", t=12289)
    ct = Encryptor(KeyGenerator(context).public_key).encrypt(BatchEncoder(context).encode([1]))
    left = math.log2(context.q / (2 * context.t * ct.noise.largest))  # as docs/evaluator.md has it
    assert abs(left - (context.log2_q - context.model.bits_needed(ct.noise))) < 1e-6


MEMORY: list[tuple[Any, dict[str, Any], str]] = [
    (DATA, {"bounds": {"z": (1, 2)}}, "bounds z: no such column"),
    (DATA, {"bounds": {"x": (2, 2)}}, "outside its bounds 2:2"),
    ({"x": ["1.5"]}, {"bounds": {"x": (0, 2)}}, "its bounds have 0; write the bounds with 1 decimals"),
    (DATA, {"bounds": ["x=0:5", "x=0:6"]}, "bounds x is given twice"),
    ({"x": []}, {}, "give data, or bounds x=LO:HI and max_rows=N"),
    ({"x": [1, None]}, {}, 'plan with missing="drop"'),
    ({"x": ["1,5"]}, {}, "see CsvOptions.decimal, CsvOptions.thousands, missing"),
    (DATA, {"missing": "some"}, "missing 'some'"),
    (DATA, {"max_rows": 1}, "max_rows is 1"),
    (DATA, {"max_contributions": 4}, "max_contributions is 4"),
    (DATA, {"max_rows": 10**9, "max_contributions": 10**9}, "give max_contributions"),
    (DATA, {"set_name": "insecure_n64_q214"}, "say insecure=True"),
    (DATA, {"set_name": "n1024_q26"}, 'take set_name="n4096_q80" or leave set_name out'),
    (DATA, {"plain_moduli": 12289, "bounds": {"x": (0, 10**6)}}, "plain_moduli gives 13.6"),
    (DATA, {"bounds": {"x": (0, 10**200)}}, "narrow bounds, or plan for fewer rows or max_contributions"),
]


@pytest.mark.parametrize(("data", "given", "says"), MEMORY, ids=[says for *_, says in MEMORY])
def test_refusals_of_columns_in_memory_name_arguments(data: Any, given: dict[str, Any], says: str) -> None:
    for step in (flow.plan, flow.run):
        with pytest.raises(PybfvError) as caught:
            step(data, "variance:x", **given)
        assert says in str(caught.value)
        assert "--" not in str(caught.value)


def test_notes_on_columns_in_memory_name_arguments(tmp_path: Path) -> None:
    both = {"x": [1, 2], "y": [3, 4]}
    planned = flow.plan(both, "mean:x", product="scaled")
    assert planned.notes == ["no statistic takes products: product has no effect"]
    assert str(planned.publishes).endswith("arrays: x=1:2 (give bounds to publish your own)")
    assert flow.plan(both, "mean:x", bounds={"x": (1, 2), "y": (3, 4)}).notes == [
        "no statistic uses y: these bounds have no effect"
    ]
    told: list[str] = []
    flow.run(both, "mean:x", product="scaled", told=told.append)
    assert told == planned.notes
    # a file is the command line's
    (tmp_path / "d.csv").write_text("x\n1\n")
    assert "--bounds" in str(flow.plan(str(tmp_path / "d.csv"), "mean:x").publishes)
    refusal(
        lambda: flow.plan(str(tmp_path / "d.csv"), "mean:x", max_contributions=2),
        "--max-contributions is 2",
        kind=PlanError,
    )
    # encrypt, whose study another has planned
    study = flow.plan(DATA, "mean:x").study
    _, public = flow.keygen(study)
    out = str(tmp_path / "d.bfvc")
    refusal(lambda: flow.encrypt(study, {"x": [None]}, public, out), 'plan with missing="drop"', kind=DataError)


@pytest.mark.parametrize("name", ["--set", "a --bounds b", "--max-rows 5", 'a "--missing drop"', "--product scaled"])
def test_names_of_columns_are_theirs(name: str) -> None:
    refusal(lambda: flow.plan({name: [5]}, "mean:*", bounds={name: (6, 7)}), show_name(name), kind=DataError)
