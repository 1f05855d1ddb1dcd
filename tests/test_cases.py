"""Failures that users of similar tools reported, as cases: the exact answer, or a refusal that helps."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from pybfv import evaluator, flow
from pybfv.errors import DataError, KeyRefusedError, PlanError, PybfvError
from pybfv.io.key import write_public
from pybfv.params import ParameterSet, get_set

pytestmark = pytest.mark.slow


def results(text: str) -> list[dict]:
    return json.loads(text)["results"]


def run(pybfv, name: str, *stats: str, extra: tuple[str, ...] = ()) -> list[dict]:
    args = [a for s in stats for a in ("--stat", s)]
    return results(pybfv.ok("run", name, *args, "--verify", "--json", *extra))


WAGE = "wage\n" + "60000\n" * 9 + "61000\n"


def test_b01_large_sums_are_right(pybfv, write) -> None:
    name = write("wage.csv", WAGE)
    mean, total, sample = run(pybfv, name, "mean:wage", "sum:wage", "variance:wage")
    assert (mean["exact"], total["exact"], sample["exact"]) == ("60100/1", "601000/1", "100000/1")
    (population,) = run(pybfv, name, "variance:wage", extra=("--ddof", "0"))
    assert population["exact"] == "90000/1"


@pytest.mark.parametrize(
    "forced",
    [
        ("--plain-modulus", "65537"),
        ("--set", "n2048_q53"),
        ("--set", "n1024_q27"),
        ("--set", "n4096_q106", "--plain-modulus", "65537"),
    ],
)
def test_b01_forced_small_parameters_refuse(pybfv, write, forced) -> None:
    name = write("wage.csv", WAGE)
    line = pybfv.refused(78, "run", name, "--bounds", "wage=0:100000", "--stat", "variance:wage", *forced)
    assert "wage" in line
    assert "variance" in line
    assert "bits missing" in line


@pytest.mark.parametrize("stat", ["sum:wage", "mean:wage"])
def test_b01_forced_modulus_refuses_sums_too(pybfv, write, stat) -> None:
    name = write("wage.csv", WAGE)
    line = pybfv.refused(78, "run", name, "--bounds", "wage=0:100000", "--stat", stat, "--plain-modulus", "65537")
    assert "bits missing" in line


@pytest.mark.parametrize("set_name", ["n1024_q26", "n1024_q27"])
def test_b03_variance_at_27_bits_refuses(pybfv, write, set_name) -> None:
    name = write("v.csv", "v\n" + "".join(f"{i % 10}\n" for i in range(100)))
    line = pybfv.refused(78, "run", name, "--stat", "variance:v", "--set", set_name)
    assert "variance" in line
    (result,) = run(pybfv, name, "variance:v", extra=("--ddof", "0"))
    assert result["exact"] == "33/4"


@pytest.mark.parametrize(("rows", "total"), [(["-71", "12"], -59), (["-1"], -1), (["0", "-0"], 0), (["-5", "5"], 0)])
def test_b05_negative_sums(pybfv, write, rows, total) -> None:
    name = write("d.csv", "delta\n" + "\n".join(rows) + "\n")
    found = run(pybfv, name, "sum:delta", "mean:delta")
    assert found[0]["value"] == total
    assert found[1]["value"] == total / len(rows)


def prepare(pybfv, write, key: str, study: str = "study.json") -> str:
    """A key folder and a contribution of 1, 2, 3 under it."""
    name = write(f"{key}.csv", "x\n1\n2\n3\n")
    if not (pybfv.folder / study).exists():
        pybfv.ok("plan", name, "--stat", "mean:x", "--max-rows", 6, "-o", study)
    pybfv.ok("keygen", study, "-o", key)
    pybfv.ok("encrypt", study, name, "--key", f"{key}/public.key", "-o", f"{key}.bfvc")
    return f"{key}.bfvc"


def key_id(pybfv, name: str) -> str:
    return json.loads(pybfv.ok("inspect", name, "--json"))["key"]


def test_b07_two_keys(pybfv, write) -> None:
    a, b = prepare(pybfv, write, "a"), prepare(pybfv, write, "b")
    line = pybfv.refused(77, "compute", a, b, "--key", "a/public.key", "-o", "r.bfvr")
    assert key_id(pybfv, a) in line
    assert key_id(pybfv, b) in line


def test_b07_two_parameter_sets(pybfv, write) -> None:
    a = prepare(pybfv, write, "a")
    write("x.csv", "x\n1\n2\n3\n")
    pybfv.ok("plan", "x.csv", "--stat", "mean:x", "--max-rows", 6, "--set", "n8192_q133", "-o", "other.json")
    b = prepare(pybfv, write, "b", "other.json")
    line = pybfv.refused(65, "compute", a, b, "--key", "a/public.key", "-o", "r.bfvr")
    assert "n8192_q133" in line


def test_b12_nothing_to_compute(pybfv, write) -> None:
    header, empty, one = write("h.csv", "x,y\n"), write("e.csv", ""), write("o.csv", "x,y\n7,1\n")
    for stat in ("mean:x", "variance:x", "count", "sum:x"):
        pybfv.refused(65, "run", header, "--stat", stat)
        pybfv.refused(65, "run", empty, "--stat", stat)
    assert "ddof" in pybfv.refused(65, "run", one, "--stat", "variance:x")
    assert run(pybfv, one, "mean:x")[0]["exact"] == "7/1"
    assert run(pybfv, one, "variance:x", extra=("--ddof", "0"))[0]["exact"] == "0/1"
    assert "coefficients" in pybfv.refused(65, "run", one, "--stat", "linreg:y~x")
    pybfv.ok("plan", one, "--stat", "mean:x", "--bounds", "x=0:9", "-o", "s.json")
    pybfv.ok("keygen", "s.json", "-o", "k")
    pybfv.refused(65, "encrypt", "s.json", header, "--key", "k/public.key", "-o", "h.bfvc")


BOM = b"\xef\xbb\xbfage,pay\r\n30,100\r\n40,300\r\n53,2"


@pytest.mark.parametrize(
    "content",
    [
        BOM,
        BOM.replace(b"\r\n", b"\n"),
        BOM + b"\r\n\r\n",
        BOM.replace(b"age", b'"age"'),
        gzip.compress(BOM, mtime=0),
    ],
    ids=["crlf", "lf", "blank lines", "quoted header", "gzip"],
)
def test_b17_byte_order_mark(pybfv, write, content) -> None:
    name = write("b.csv", content)
    mean, sample = run(pybfv, name, "mean:age", "variance:age")
    assert (mean["exact"], sample["exact"]) == ("41/1", "133/1")
    assert run(pybfv, name, "variance:age", extra=("--ddof", "0"))[0]["exact"] == "266/3"


def test_b19_ddof(pybfv, write) -> None:
    name = write("v.csv", "v\n2\n4\n9\n")
    (default,) = run(pybfv, name, "variance:v")
    assert (default["ddof"], default["exact"], default["value"]) == (1, "13/1", 13.0)
    (population,) = run(pybfv, name, "variance:v", extra=("--ddof", "0"))
    assert (population["ddof"], population["exact"], population["value"]) == (0, "26/3", 26 / 3)
    assert "ddof = 1 (sample" in pybfv.ok("run", name, "--stat", "variance:v")
    assert flow.run(str(pybfv.folder / name), ["variance:v"])["results"] == [default]


def test_b21_dependent_columns(pybfv, write) -> None:
    name = write("r.csv", "x1,x2,c,y\n1,3,5,2\n2,5,5,4\n3,7,5,5\n4,9,5,4\n5,11,5,5\n")
    for terms, dependent, leave_out in (
        ("x1+x2", "(intercept), x1, x2", "x2"),  # x2 = 2 x1 + 1
        ("x1+c", "(intercept), c", "c"),  # c = 5
    ):
        line = pybfv.refused(65, "run", name, "--stat", f"linreg:y~{terms}")
        assert line.endswith(f"are linearly dependent: {dependent}; leave out {leave_out}")
    assert run(pybfv, name, "variance:c")[0]["exact"] == "0/1"


def test_b21_good_case(pybfv, write) -> None:
    rows = [(1, 2, 0, 5), (2, 1, 1, 6), (3, 4, 2, 12), (4, 3, 5, 19), (5, 6, 1, 14), (6, 5, 4, 21)]
    name = write("g.csv", "a,b,c,y\n" + "".join(",".join(map(str, r)) + "\n" for r in rows))
    (found,) = run(pybfv, name, "linreg:y~a+b+c")
    assert found["terms"] == ["(intercept)", "a", "b", "c"]
    assert found["exact"] == ["17/12", "53/60", "61/60", "11/5"]


@pytest.mark.parametrize("rows", [1, 4095, 4096, 4097, 9000])
def test_b23_any_number_of_rows(pybfv, write, rows) -> None:
    name = write("n.csv", "i\n" + "".join(f"{i % 7}\n" for i in range(1, rows + 1)))
    expected = sum(i % 7 for i in range(1, rows + 1))
    count, total, mean = run(pybfv, name, "count", "sum:i", "mean:i", extra=("--set", "n4096_q106"))
    assert (count["n"], total["value"], mean["n"]) == (rows, expected, rows)
    if rows == 9000:
        assert (total["exact"], mean["exact"]) == ("27000/1", "3/1")
    if rows > 1:
        (square,) = run(pybfv, name, "variance:i", extra=("--set", "n8192_q133"))
        squares = sum((i % 7) ** 2 for i in range(1, rows + 1))
        variance = (squares - Fraction(expected**2, rows)) / (rows - 1)
        assert square["n"] == rows
        assert square["exact"] == f"{variance.numerator}/{variance.denominator}"


@pytest.mark.parametrize("t", ["1000003", "2048383", "1", "0", "-5", "4096", "2047"])
def test_b25_bad_plain_moduli(pybfv, write, t) -> None:
    name = write("v.csv", "v\n1\n2\n3\n")
    line = pybfv.refused(78, "plan", name, "--stat", "variance:v", "--set", "n4096_q106", f"--plain-modulus={t}")
    assert "t = " in line or "modulus" in line
    if t == "1000003":
        assert "974849" in line or "1032193" in line


def test_b25_even_t_is_fine_for_sums(pybfv, write) -> None:
    name = write("v.csv", "v\n1\n2\n3\n")
    assert run(pybfv, name, "sum:v", extra=("--plain-modulus", "4096"))[0]["exact"] == "6/1"


def test_b25_t_beyond_q(pybfv, write) -> None:
    name = write("v.csv", "v\n1\n2\n3\n")
    t = str(get_set("n1024_q26").q + 2)
    pybfv.refused(78, "plan", name, "--stat", "sum:v", "--set", "n1024_q26", "--plain-modulus", t)


@pytest.mark.parametrize("n", [1000, 3, 0, -8, 32768])
def test_b25_bad_dimensions(n) -> None:
    with pytest.raises(PlanError, match="N = "):
        ParameterSet("mine", n, (134250497,))


def test_b25_below_128_bits_needs_a_flag_and_is_marked(pybfv, write) -> None:
    with pytest.raises(PlanError, match="128-bit"):
        ParameterSet("mine", 1024, (132120577, 134250497))
    name = write("v.csv", "v\n1\n2\n3\n")
    base = ("--stat", "variance:v", "--set", "insecure_n64_q106")
    assert "--insecure" in pybfv.refused(78, "plan", name, *base)
    document = json.loads(pybfv.ok("run", name, *base, "--insecure", "--json"))
    assert document["insecure"] is True
    assert "INSECURE" in pybfv.ok("run", name, *base, "--insecure")
    pybfv.ok("plan", name, *base, "--insecure", "-o", "s.json")
    pybfv.ok("keygen", "s.json", "-o", "k")
    pybfv.ok("encrypt", "s.json", name, "--key", "k/public.key", "-o", "v.bfvc")
    pybfv.ok("compute", "v.bfvc", "--partial", "-o", "v.bfvp")
    pybfv.ok("combine", "v.bfvp", "--key", "k/public.key", "-o", "v.bfvr")
    for file in ("s.json", "k/public.key", "v.bfvc", "v.bfvp", "v.bfvr"):
        assert json.loads(pybfv.ok("inspect", file, "--json"))["insecure"] is True


# --- the same cases through Python, on columns in memory


def computed(data, *stats: str, **options) -> list[dict]:
    return flow.run(data, list(stats), verify=True, **options)["results"]


def test_b01_in_python() -> None:
    wage = {"wage": [60000] * 9 + [61000]}
    found = computed(wage, "mean:wage", "sum:wage", "variance:wage")
    assert [result["exact"] for result in found] == ["60100/1", "601000/1", "100000/1"]
    for forced in ({"plain_moduli": [65537]}, {"set_name": "n1024_q27"}):
        with pytest.raises(PlanError, match=r"variance:wage.* bits missing"):
            computed(wage, "variance:wage", bounds="wage=0:100000", **forced)


def test_b05_and_b19_in_python() -> None:
    for values, total in (([-71, 12], -59), ([-1], -1), ([0, -0], 0), ([-5, 5], 0)):
        found = computed({"delta": np.array(values)}, "sum:delta", "mean:delta")
        assert (found[0]["value"], found[1]["value"]) == (total, total / len(values))
    v = {"v": (2, 4, 9)}
    assert [(r["ddof"], r["exact"]) for r in computed(v, "variance:v")] == [(1, "13/1")]
    assert [(r["ddof"], r["exact"]) for r in computed(v, "variance:v", ddof=0)] == [(0, "26/3")]
    for ddof in (2, -1):
        with pytest.raises(PybfvError, match="ddof"):
            computed(v, "variance:v", ddof=ddof)


def test_b12_in_python() -> None:
    for nothing in ([], {}, {"x": []}, np.array([]), {"x": np.empty(0, np.int8)}):
        with pytest.raises(PybfvError):
            computed(nothing, "count")
    with pytest.raises(DataError, match="ddof"):
        computed({"x": [7]}, "variance:x")
    assert computed({"x": [7]}, "mean:x")[0]["exact"] == "7/1"
    with pytest.raises(DataError, match="2 rows can't determine 3 coefficients"):
        computed({"y": [1, 2], "a": [1, 3], "b": [2, 7]}, "linreg:y~a+b")


def test_b21_in_python() -> None:
    x = np.arange(1, 6)
    with pytest.raises(DataError, match=r"dependent: \(intercept\), x1, x2; leave out x2"):
        computed({"x1": x, "x2": 2 * x + 1, "y": [2, 4, 5, 4, 5]}, "linreg:y~x1+x2")
    with pytest.raises(DataError, match=r"dependent: \(intercept\), x1; leave out x1"):
        computed({"x1": np.full(5, 3), "y": x}, "linreg:y~x1")


def test_b23_in_python() -> None:
    found = computed({"i": np.arange(1, 9001) % 7}, "count", "sum:i", "mean:i", set_name="n4096_q106")
    assert [found[0]["n"], *(result["exact"] for result in found[1:])] == [9000, "27000/1", "3/1"]


def test_b27_public_objects_can_be_pickled(tmp_path) -> None:
    study = flow.plan({"x": [1, 2, 3]}, "variance:x", set_name="insecure_n64_q214", insecure=True).study
    secret, public = flow.keygen(study)
    for copied in (pickle.loads(pickle.dumps((study, public))), copy.deepcopy((study, public))):
        assert copied[0].hash == study.hash
        flow.encrypt(copied[0], {"x": [1, 3, 3]}, copied[1], str(tmp_path / "a"), force=True)
        result = flow.compute([str(tmp_path / "a")], str(tmp_path / "r"), key=copied[1], force=True)
        assert flow.decrypt(pickle.loads(pickle.dumps(result)), secret)["results"][0]["exact"] == "4/3"
    assert secret.s.tobytes() not in pickle.dumps((study, public, result))
    for attempt in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(KeyRefusedError, match="never pickled"):
            attempt(secret)


def test_python_api_refuses_nothing_too(tmp_path) -> None:
    csv = tmp_path / "e.csv"
    csv.write_text("x\n")
    with pytest.raises(PybfvError):
        flow.run(str(csv), ["mean:x"])


# --- B13: everything public is shown and added without a secret


SHOWN = """
import sys
from pybfv import evaluator, io
from pybfv.study import Study
from pybfv.evaluator import Ciphertext, PublicKey, RelinKeys
files = ["study.json", "public.key", "c.bfvc", "p.bfvp", "r.bfvr"]
shown = [str(io.describe(name)) for name in files]
study = Study(io.read_study("study.json"))
for thing in (io.read_public("public.key"), io.read_partial("p.bfvp"), io.read_result("r.bfvr"), study, study.doc):
    shown += [repr(thing), str(thing), f"{thing}", repr([thing])]
    assert thing == thing
    try:
        sum([thing, thing])
    except TypeError:
        pass
    else:
        raise AssertionError("added")
x = Ciphertext.from_bytes(open("x", "rb").read())
y = Ciphertext.from_bytes(open("y", "rb").read())
total = sum([x, y])
assert total == x + y and x == x and x != y and x != None and not (x == "x")
for thing in (x, total, PublicKey.from_bytes(open("pk", "rb").read()), RelinKeys.from_bytes(open("relin", "rb").read())):
    shown += [repr(thing), str(thing), f"{thing}", repr([thing])]
open("sum", "wb").write(total.to_bytes())
print("\\n".join(shown))
assert not [name for name in sys.modules if "secret" in name and name.startswith("pybfv")]
"""  # noqa: E501


def test_b13_a_folder_with_public_material_only(pybfv, tmp_path) -> None:
    """A process that never loads the code of secret keys shows, compares and adds; what it made decrypts."""
    toy = {"set_name": "insecure_n64_q214", "insecure": True}
    study = flow.plan({"x": [31415, 27182]}, "variance:x", bounds="x=0:99999", **toy).study
    secret, public = flow.keygen(study)
    folder = str(tmp_path)
    flow.write_study(study, f"{folder}/study.json")
    with open(f"{folder}/public.key", "wb") as stream:
        write_public(stream, public)
    flow.encrypt(study, {"x": [31415, 27182]}, public, f"{folder}/c.bfvc")
    flow.compute_to_partial([f"{folder}/c.bfvc"], f"{folder}/p.bfvp")
    result = flow.compute([f"{folder}/c.bfvc"], f"{folder}/r.bfvr", key=public)
    context = evaluator.Context("insecure_n64_q214", t=12289, insecure=True)
    keys, encoder = evaluator.KeyGenerator(context), evaluator.BatchEncoder(context)
    encryptor = evaluator.Encryptor(keys.public_key)
    things = {"x": encryptor.encrypt(encoder.encode([3141])), "y": encryptor.encrypt(encoder.encode([2718]))}
    for name, thing in (things | {"pk": keys.public_key, "relin": keys.relin_keys()}).items():
        (tmp_path / name).write_bytes(thing.to_bytes())
    done = subprocess.run([sys.executable, "-c", SHOWN], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for fact in (public.key_id, keys.public_key.key_id, "insecure_n64_q214", "INSECURE", "size=2", "variance:x"):
        assert fact in done.stdout
    without_ids = re.sub("[0-9a-f]{32,}", "", done.stdout)
    for hidden in ("noise", "budget", "31415", "27182", "3141", "2718", "array"):
        assert hidden not in without_ids
    for name in ("study.json", "public.key", "c.bfvc", "p.bfvp", "r.bfvr"):
        assert study.hash in pybfv.ok("inspect", name)
    total = evaluator.Ciphertext.from_bytes((tmp_path / "sum").read_bytes())
    assert encoder.decode(evaluator.Decryptor(keys.secret_key).decrypt(total))[0] == 3141 + 2718
    assert flow.decrypt(result, secret)["rows"] == 2


# --- B15: a command that fails leaves nothing behind, and its second try succeeds


@pytest.fixture
def job(pybfv, write):
    """Files of two studies: k/ and other/ are key folders, x.bfvc a contribution, x.bfvr its result."""
    write("x.csv", "x\n1\n2\n6\n")
    write("bad.csv", "x\n1\n7\n")
    for study, keys in (("s.json", "k"), ("o.json", "other")):
        bounds = "x=0:6" if study == "s.json" else "x=0:9"
        pybfv.ok("plan", "x.csv", "--stat", "mean:x", "--bounds", bounds, "--max-contributions", 2, "-o", study)
        pybfv.ok("keygen", study, "-o", keys)
    pybfv.ok("encrypt", "s.json", "x.csv", "--key", "k/public.key", "-o", "x.bfvc")
    pybfv.ok("encrypt", "o.json", "x.csv", "--key", "other/public.key", "-o", "o.bfvc")
    pybfv.ok("compute", "x.bfvc", "--partial", "-o", "x.bfvp")
    pybfv.ok("compute", "x.bfvc", "--key", "k/public.key", "-o", "x.bfvr")
    whole = (pybfv.folder / "x.bfvr").read_bytes()
    write("cut.bfvr", whole[:-7])
    write("flipped.bfvr", whole[:-300] + bytes([whole[-300] ^ 4]) + whole[-299:])
    (pybfv.folder / "link.key").symlink_to(pybfv.folder / "k" / "secret.key")
    return pybfv


FAILURES = {
    "decrypt": [
        (2, "decrypt", "x.bfvr", "-o", "out"),
        (66, "decrypt", "x.bfvr", "--key", "no.key", "-o", "out"),
        (77, "decrypt", "x.bfvr", "--key", "other/secret.key", "-o", "out"),
        (77, "decrypt", "x.bfvr", "--key", "k/public.key", "-o", "out"),
        (77, "decrypt", "x.bfvr", "--key", "link.key", "-o", "out"),
        (65, "decrypt", "cut.bfvr", "--key", "k/secret.key", "-o", "out"),
        (65, "decrypt", "flipped.bfvr", "--key", "k/secret.key", "-o", "out"),
        (65, "decrypt", "x.bfvc", "--key", "k/secret.key", "-o", "out"),
        (66, "decrypt", "no.bfvr", "--key", "k/secret.key", "-o", "out"),
        (0, "decrypt", "x.bfvr", "--key", "k/secret.key", "-o", "out"),
    ],
    "encrypt": [
        (65, "encrypt", "s.json", "bad.csv", "--key", "k/public.key", "-o", "out"),
        (77, "encrypt", "s.json", "x.csv", "--key", "other/public.key", "-o", "out"),
        (77, "encrypt", "s.json", "x.csv", "--key", "k/secret.key", "-o", "out"),
        (66, "encrypt", "s.json", "no.csv", "--key", "k/public.key", "-o", "out"),
        (0, "encrypt", "s.json", "x.csv", "--key", "k/public.key", "-o", "out"),
    ],
    "compute": [
        (77, "compute", "x.bfvc", "-o", "out"),
        (65, "compute", "x.bfvc", "x.bfvc", "--key", "k/public.key", "-o", "out"),
        (65, "compute", "x.bfvc", "o.bfvc", "--key", "k/public.key", "-o", "out"),
        (77, "compute", "x.bfvc", "--key", "other/public.key", "-o", "out"),
        (65, "compute", "x.bfvc", "cut.bfvr", "--key", "k/public.key", "-o", "out"),
        (0, "compute", "x.bfvc", "--key", "k/public.key", "-o", "out"),
    ],
    "combine": [
        (65, "combine", "x.bfvp", "x.bfvc", "--key", "k/public.key", "-o", "out"),
        (77, "combine", "x.bfvp", "-o", "out"),
        (0, "combine", "x.bfvp", "--key", "k/public.key", "-o", "out"),
    ],
    "plan": [
        (2, "plan", "x.csv", "--stat", "mean:y", "-o", "out"),
        (78, "plan", "x.csv", "--stat", "variance:x", "--set", "n1024_q26", "-o", "out"),
        (0, "plan", "x.csv", "--stat", "mean:x", "-o", "out"),
    ],
    "run": [
        (65, "run", "x.csv", "--stat", "mean:x", "--bounds", "x=0:5", "-o", "out"),
        (0, "run", "x.csv", "--stat", "mean:x", "-o", "out"),
    ],
    "keygen": [
        (65, "keygen", "x.csv", "-o", "out"),
        (73, "keygen", "s.json", "-o", "x.csv"),
        (0, "keygen", "s.json", "-o", "out"),
    ],
}


@pytest.mark.parametrize("command", FAILURES)
def test_b15_a_failure_leaves_nothing_and_the_second_run_succeeds(command, job) -> None:
    """`refused` sees every file: none new, gone or changed."""
    *failing, (_, *working) = FAILURES[command]
    for code, *arguments in failing:
        job.refused(code, *arguments)
    job.ok(*working)
    made = job.folder / "out"
    assert made.exists()
    if command in ("plan", "keygen"):
        return
    before = made.read_bytes()
    for code, *arguments in failing:  # and an output that is there already stays as it is, --force or not
        job.refused(code, *arguments, "--force")
    assert made.read_bytes() == before
    job.ok(*working, "--force")
