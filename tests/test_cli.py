"""The command line is a contract: names, files, JSON, exit codes, what goes where. Quick ones: test_smoke.py."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Command, without_privileges

from pybfv.io.key import PublicKey, read_public, write_public
from pybfv.io.study import StudyDoc

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
TABLE = "x,y,name\n" + "".join(f"{i},{i * i % 17}.{i % 10},n{i}\n" for i in range(1, 41))
STATS = ("--stat", "mean:x", "--stat", "variance:x", "--stat", "linreg:y~x", "--stat", "count")
DOCUMENT = [
    "schema_version", "study", "key", "set", "insecure", "security", "ring_dimension", "log2_q", "t", "reveal",
    "product", "flood_bits", "rows", "dropped_rows", "contributions", "backend", "results",
]  # fmt: skip


@pytest.fixture
def study(pybfv: Command, write) -> Command:
    """A folder with data.csv, study.json (up to 80 rows, 4 files), keys and data.bfvc."""
    write("data.csv", TABLE)
    pybfv.ok("plan", "data.csv", *STATS, "--max-rows", 80, "--max-contributions", 4, "-o", "study.json")
    pybfv.ok("keygen", "study.json", "-o", "keys")
    pybfv.ok("encrypt", "study.json", "data.csv", "--key", "keys/public.key", "-o", "data.bfvc")
    return pybfv


def decrypted(pybfv: Command, name: str = "r.bfvr", *extra: str) -> dict:
    return json.loads(pybfv.ok("decrypt", name, "--key", "keys/secret.key", "--json", *extra))


def test_the_whole_way(study: Command) -> None:
    study.ok("compute", "data.bfvc", "--key", "keys/public.key", "-o", "r.bfvr", "--threads", 2)
    found = decrypted(study)
    assert list(found) == DOCUMENT
    assert found["schema_version"] == 1
    assert found["backend"] == {"name": "cpu", "kernels": "ntt", "threads": 2, "dpus": None, "tasklets": None}
    assert (found["rows"], found["dropped_rows"], found["contributions"]) == (40, 0, 1)
    mean, variance, regression, count = found["results"]
    assert mean == {"stat": "mean", "column": "x", "n": 40, "value": 20.5, "exact": "41/2"}
    assert list(variance) == ["stat", "column", "n", "ddof", "value", "exact", "sd"]
    assert list(regression) == [
        "stat", "target", "terms", "coefficients", "exact", "n", "r_squared", "residual_sd",
    ]  # fmt: skip
    assert count == {"stat": "count", "n": 40}
    run = json.loads(study.ok("run", "data.csv", *STATS, "--json"))
    assert list(run) == DOCUMENT
    assert run["results"] == found["results"]
    # text goes to a file as well, and JSON too
    study.ok("decrypt", "r.bfvr", "--key", "keys/secret.key", "-o", "out.txt")
    assert "41/2" in (study.folder / "out.txt").read_text()
    study.ok("decrypt", "r.bfvr", "--key", "keys/secret.key", "-o", "out.json", "--json")
    assert json.loads((study.folder / "out.json").read_text()) == found


def test_partials_in_any_split_give_the_same(study: Command, write) -> None:
    lines = TABLE.splitlines(keepends=True)
    (study.folder / "in").mkdir()
    for k, part in enumerate((lines[1:12], lines[12:13], lines[13:])):
        write(f"p{k}.csv", lines[0] + "".join(part))
        study.ok("encrypt", "study.json", f"p{k}.csv", "--key", "keys/public.key", "-o", f"in/p{k}.bfvc")
    study.ok("compute", "in", "--partial", "-o", "all.bfvp", "--threads", 2)
    study.ok("compute", "in/p2.bfvc", "in/p1.bfvc", "in/p0.bfvc", "--partial", "-o", "turned.bfvp", "--threads", 1)
    assert (study.folder / "all.bfvp").read_bytes() == (study.folder / "turned.bfvp").read_bytes()
    (study.folder / "parts").mkdir()
    study.ok("compute", "in/p2.bfvc", "in/p0.bfvc", "--partial", "-o", "parts/a.bfvp")
    study.ok("compute", "in/p1.bfvc", "--partial", "-o", "parts/b.bfvp")
    study.ok("combine", "parts", "--key", "keys/public.key", "-o", "c.bfvr")
    study.ok("compute", "in", "--key", "keys/public.key", "-o", "r.bfvr")
    study.ok("compute", "data.bfvc", "--key", "keys/public.key", "-o", "one.bfvr")
    combined, whole, one = (decrypted(study, n) for n in ("c.bfvr", "r.bfvr", "one.bfvr"))
    assert combined["results"] == whole["results"] == one["results"]
    assert combined["backend"]["name"] == "combined"
    assert combined["contributions"] == 3
    # what overlaps is refused, naming both
    line = study.refused(65, "combine", "parts/a.bfvp", "all.bfvp", "--key", "keys/public.key", "-o", "x.bfvr")
    assert "a.bfvp" in line
    assert "all.bfvp" in line
    assert "p0" in study.refused(65, "compute", "in/p0.bfvc", "in", "--key", "keys/public.key", "-o", "x.bfvr")


def test_more_than_planned_is_refused(study: Command, write) -> None:
    for k in range(4):
        study.ok("encrypt", "study.json", "data.csv", "--key", "keys/public.key", "-o", f"d{k}.bfvc")
    files = [f"d{k}.bfvc" for k in range(4)]
    line = study.refused(65, "compute", *files, "--key", "keys/public.key", "-o", "x.bfvr")
    assert "--max-rows" in line
    write("small.csv", "x,y\n1,1.0\n")
    for k in range(5):
        study.ok("encrypt", "study.json", "small.csv", "--key", "keys/public.key", "-o", f"s{k}.bfvc")
    small = [f"s{k}.bfvc" for k in range(5)]
    line = study.refused(65, "compute", *small, "--key", "keys/public.key", "-o", "x.bfvr")
    assert "--max-contributions" in line
    # combining can't get round it
    study.ok("compute", *small[:3], "--partial", "-o", "a.bfvp")
    study.ok("compute", *small[3:], "--partial", "-o", "b.bfvp")
    study.refused(65, "combine", "a.bfvp", "b.bfvp", "--key", "keys/public.key", "-o", "x.bfvr")
    write("long.csv", "x,y\n" + "1,1.0\n" * 81)
    assert "--max-rows" in study.refused(
        65, "encrypt", "study.json", "long.csv", "--key", "keys/public.key", "-o", "x.bfvc"
    )


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("41,3.0", ("x", "41", "1:40")),
        ("3,3.05", ("y", "3.05", "decimals")),
        ("3,nan", ("y", "nan")),
        ("3,", ("y",)),
        ("0x3,1", ("x", "0x3")),
        ("3,1,4,5", ("line 3", "cells")),
    ],
)
def test_bad_rows_are_named(study: Command, write, row: str, words: tuple[str, ...]) -> None:
    write("bad.csv", f"x,y,name\n1,1.0,a\n{row}{',b' if row.count(',') == 1 else ''}\n")
    line = study.refused(65, "encrypt", "study.json", "bad.csv", "--key", "keys/public.key", "-o", "bad.bfvc")
    assert "bad.csv" in line
    assert all(word in line for word in words)


def test_missing_drop_is_fixed_in_the_study(pybfv: Command, write) -> None:
    write("m.csv", "x,y\n1,2\n,3\n4,NA\n5,6\n")
    pybfv.refused(65, "plan", "m.csv", "--stat", "mean:x")
    document = json.loads(pybfv.ok("run", "m.csv", "--stat", "mean:x,y", "--missing", "drop", "--json", "--verify"))
    assert (document["rows"], document["dropped_rows"]) == (2, 2)
    assert [r["exact"] for r in document["results"]] == ["3/1", "4/1"]
    pybfv.ok("plan", "m.csv", "--stat", "mean:x", "--missing", "drop", "-o", "s.json")
    pybfv.ok("keygen", "s.json", "-o", "k")
    told = pybfv("encrypt", "s.json", "m.csv", "--key", "k/public.key", "-o", "m.bfvc").stderr.decode()
    assert "1 of 4 rows" in told


def test_slots_take_the_secret_key_at_half_the_size(study: Command) -> None:
    study.ok(
        "plan",
        "data.csv",
        *STATS,
        "--reveal",
        "slots",
        "--max-contributions",
        2,
        "--max-rows",
        80,
        "-o",
        "s.json",
    )
    study.ok("keygen", "s.json", "-o", "k")
    study.ok("encrypt", "s.json", "data.csv", "--key", "k/secret.key", "-o", "sym.bfvc")
    study.ok("encrypt", "s.json", "data.csv", "--key", "k/public.key", "-o", "pub.bfvc")
    sizes = [(study.folder / n).stat().st_size for n in ("sym.bfvc", "pub.bfvc")]
    assert 0.49 < sizes[0] / sizes[1] < 0.52
    study.ok("compute", "sym.bfvc", "pub.bfvc", "-o", "r.bfvr")  # no key is needed where nothing is blinded
    found = json.loads(study.ok("decrypt", "r.bfvr", "--key", "k/secret.key", "--json"))
    assert found["results"][0]["exact"] == "41/2"
    assert found["rows"] == 80
    assert found["reveal"] == "slots"
    line = study.refused(77, "encrypt", "study.json", "data.csv", "--key", "keys/secret.key", "-o", "x.bfvc")
    assert "slots" in line


def test_roles(study: Command) -> None:
    study.ok("compute", "data.bfvc", "--partial", "-o", "p.bfvp")
    study.ok("compute", "data.bfvc", "--key", "keys/public.key", "-o", "r.bfvr")
    study.refused(77, "compute", "data.bfvc", "--key", "keys/secret.key", "-o", "x.bfvr")
    study.refused(77, "combine", "p.bfvp", "--key", "keys/secret.key", "-o", "x.bfvr")
    study.refused(77, "compute", "data.bfvc", "-o", "x.bfvr")
    study.refused(77, "combine", "p.bfvp", "-o", "x.bfvr")
    assert "a study, public key" in study.refused(77, "inspect", "keys/secret.key")
    for mistaken in ("p.bfvp", "data.bfvc"):
        line = study.refused(65, "decrypt", mistaken, "--key", "keys/secret.key")
        assert "must never reach the key holder" in line
    shown = study.ok("inspect", "r.bfvr").splitlines()
    assert [row.split()[:3] for row in shown if row.startswith("backend")] == [["backend", "name", "cpu,"]]
    study.refused(77, "compute", "keys/secret.key", "--key", "keys/public.key", "-o", "x.bfvr")
    study.refused(77, "decrypt", "r.bfvr", "--key", "keys/public.key")
    study.ok("keygen", "study.json", "-o", "other")
    line = study.refused(77, "compute", "data.bfvc", "--key", "other/public.key", "-o", "x.bfvr")
    assert "other" in line or "key" in line
    study.refused(77, "decrypt", "r.bfvr", "--key", "other/secret.key")
    study.ok("plan", "data.csv", "--stat", "sum:x", "-o", "s2.json")
    study.ok("keygen", "s2.json", "-o", "k2")
    study.refused(77, "encrypt", "s2.json", "data.csv", "--key", "keys/public.key", "-o", "x.bfvc")
    study.refused(77, "decrypt", "r.bfvr", "--key", "k2/secret.key")
    # contributions and partials are no results
    study.refused(65, "decrypt", "data.bfvc", "--key", "keys/secret.key")
    study.refused(65, "decrypt", "p.bfvp", "--key", "keys/secret.key")
    study.refused(65, "compute", "p.bfvp", "--key", "keys/public.key", "-o", "x.bfvr")
    study.refused(65, "combine", "data.bfvc", "--key", "keys/public.key", "-o", "x.bfvr")
    study.refused(65, "keygen", "data.bfvc", "-o", "k3")


def test_keys_are_private_from_creation_and_never_overwritten(study: Command) -> None:
    secret = study.folder / "keys" / "secret.key"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    before = secret.read_bytes()
    study.refused(73, "keygen", "study.json", "-o", "keys")
    assert secret.read_bytes() == before
    secret.chmod(0o644)
    study.ok("compute", "data.bfvc", "--key", "keys/public.key", "-o", "r.bfvr")
    done = study("decrypt", "r.bfvr", "--key", "keys/secret.key")
    assert done.returncode == 0
    assert b"warning" in done.stderr


def test_outputs_are_not_overwritten_without_force(study: Command) -> None:
    study.ok("compute", "data.bfvc", "--key", "keys/public.key", "-o", "r.bfvr")
    study.ok("decrypt", "r.bfvr", "--key", "keys/secret.key", "-o", "out.txt")
    commands = [
        ("plan", "data.csv", *STATS, "-o", "study.json"),
        ("encrypt", "study.json", "data.csv", "--key", "keys/public.key", "-o", "data.bfvc"),
        ("compute", "data.bfvc", "--key", "keys/public.key", "-o", "r.bfvr"),
        ("decrypt", "r.bfvr", "--key", "keys/secret.key", "-o", "out.txt"),
        ("run", "data.csv", *STATS, "-o", "out.txt"),
    ]
    for command in commands:
        assert "--force" in study.refused(73, *command)
    for command in reversed(commands):
        study.ok(*command, "--force")


def test_inputs_that_are_missing(study: Command) -> None:
    study.refused(66, "plan", "no.csv", "--stat", "count")
    study.refused(66, "keygen", "no.json", "-o", "k")
    study.refused(66, "encrypt", "study.json", "no.csv", "--key", "keys/public.key", "-o", "x.bfvc")
    study.refused(66, "encrypt", "study.json", "data.csv", "--key", "no.key", "-o", "x.bfvc")
    study.refused(66, "compute", "no.bfvc", "--key", "keys/public.key", "-o", "x.bfvr")
    study.refused(66, "decrypt", "no.bfvr", "--key", "keys/secret.key")
    study.refused(66, "inspect", "no")
    (study.folder / "void").mkdir()
    study.refused(66, "compute", "void", "--key", "keys/public.key", "-o", "x.bfvr")


def test_usage_errors_list_what_is_known(pybfv: Command, write) -> None:
    write("d.csv", TABLE)
    assert "variance" in pybfv.refused(2, "run", "d.csv", "--stat", "median:x")
    assert "name" in pybfv.refused(2, "run", "d.csv", "--stat", "mean:nope")
    assert "n4096_q106" in pybfv.refused(78, "run", "d.csv", "--stat", "mean:x", "--set", "nope")
    assert "cpu" in pybfv.refused(2, "run", "d.csv", "--stat", "mean:x", "--backend", "gpu")
    assert "keygen" in pybfv("--help").stdout.decode()
    for args in (["nope"], ["plan"], ["plan", "d.csv"], ["run", "d.csv", "--stat", "mean:x", "--nope"],
                 ["run", "d.csv", "--stat", "mean:x", "--ddof", "2"], ["plan", "d.csv", "--stat", "mean:x,"],
                 ["run", "d.csv", "--stat", "mean:x", "--bounds", "x=3"],
                 ["run", "d.csv", "--stat", "mean:x", "--bounds", "z=3:4"],
                 ["run", "d.csv", "--stat", "mean:x", "--delimiter", "::"]):  # fmt: skip
        pybfv.refused(2, *args)


def test_text_columns_are_refused_and_skipped_by_star(pybfv: Command, write) -> None:
    write("d.csv", TABLE)
    assert "n1" in pybfv.refused(65, "run", "d.csv", "--stat", "mean:name")
    found = json.loads(pybfv.ok("run", "d.csv", "--stat", "mean:*", "--json"))
    assert [r["column"] for r in found["results"]] == ["x", "y"]


def test_bounds_and_header_only_studies(pybfv: Command, write) -> None:
    write("h.csv", "pay,age\n")
    pybfv.refused(65, "plan", "h.csv", "--stat", "mean:pay", "--bounds", "pay=0.00:250.00")
    pybfv.refused(65, "plan", "h.csv", "--stat", "mean:pay", "--max-rows", 5)
    pybfv.ok(
        "plan",
        "h.csv",
        "--stat",
        "mean:pay",
        "--bounds",
        "pay=0.00:250.00",
        "--max-rows",
        1000,
        "-o",
        "s.json",
    )
    pybfv.ok("keygen", "s.json", "-o", "keys")
    for k, pay in enumerate(("10.25", "250.00", "0.01")):
        write(f"{k}.csv", f"pay\n{pay}\n")
        pybfv.ok("encrypt", "s.json", f"{k}.csv", "--key", "keys/public.key", "-o", f"{k}.bfvc")
    pybfv.ok("compute", "0.bfvc", "1.bfvc", "2.bfvc", "--key", "keys/public.key", "-o", "r.bfvr")
    (mean,) = decrypted(pybfv)["results"]
    assert mean["exact"] == "13013/150"
    done = pybfv("plan", "0.csv", "--stat", "mean:pay")
    assert b"publishes" in done.stderr
    done = pybfv("plan", "0.csv", "--stat", "mean:pay", "--bounds", "pay=0.00:250.00")
    assert b"publishes" not in done.stderr
    assert "ranges over" in pybfv.refused(65, "plan", "1.csv", "--stat", "mean:pay", "--bounds", "pay=0:100")
    assert "decimals" in pybfv.refused(65, "plan", "0.csv", "--stat", "mean:pay", "--bounds", "pay=0:100")


def test_plan_only_shows_unless_told_to_write(pybfv: Command, write) -> None:
    write("d.csv", TABLE)
    text = pybfv.ok("plan", "d.csv", *STATS)
    for word in ("set", "128 bits", "bytes", "rows", "2^-128"):
        assert word in text
    assert sorted(p.name for p in pybfv.folder.iterdir()) == ["d.csv"]
    document = pybfv.ok("plan", "d.csv", *STATS, "--json")
    pybfv.ok("plan", "d.csv", *STATS, "-o", "s.json")
    assert (pybfv.folder / "s.json").read_text() == document
    assert json.loads(document)["format"] == "pybfv-study"


def test_csv_dialects(pybfv: Command, write) -> None:
    write("d.csv", "a;b\n1.234,5;2\n1.000,25;4\n".encode("latin-1"))
    extra = (
        "--delimiter",
        ";",
        "--decimal",
        ",",
        "--thousands",
        ".",
        "--encoding",
        "latin-1",
        "--verify",
        "--json",
    )
    found = json.loads(pybfv.ok("run", "d.csv", "--stat", "sum:a,b", *extra))
    assert [r["exact"] for r in found["results"]] == ["8939/4", "6/1"]
    write("t.tsv", "1\t2\n3\t4\n")
    found = json.loads(pybfv.ok("run", "t.tsv", "--stat", "sum:c2", "--no-header", "--delimiter", "\\t", "--json"))
    assert found["results"][0]["exact"] == "6/1"


def test_pipes(study: Command) -> None:
    data = (study.folder / "data.csv").read_bytes()
    found = json.loads(study.ok("run", "-", *STATS, "--json", "--verify", stdin=data))
    assert found["rows"] == 40
    study.ok("plan", "-", *STATS, "-o", "piped.json", stdin=data)
    done = study("encrypt", "study.json", "-", "--key", "keys/public.key", "-o", "-", stdin=data)
    assert done.returncode == 0
    result = study("compute", "-", "--key", "keys/public.key", "-o", "-", stdin=done.stdout)
    assert result.returncode == 0
    done = study("decrypt", "-", "--key", "keys/secret.key", "--json", stdin=result.stdout)
    assert json.loads(done.stdout)["rows"] == 40
    # a bad row in a pipe leaves nothing on stdout either
    bad = data + b"99,1.0,z\n"
    study.refused(65, "encrypt", "study.json", "-", "--key", "keys/public.key", "-o", "-", stdin=bad)


def test_quiet_on_a_broken_pipe(pybfv: Command, write) -> None:
    write("d.csv", TABLE)
    process = subprocess.Popen(
        [sys.executable, "-m", "pybfv", "plan", "d.csv", *STATS], cwd=pybfv.folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdout.close()
    error = process.stderr.read().decode()
    process.stderr.close()
    process.wait()
    assert "Traceback" not in error
    assert "Broken" not in error


def test_verification_failure_prints_nothing(pybfv: Command, write) -> None:
    """With an oracle that disagrees, run --verify leaves with 70 and an empty stdout."""
    write("d.csv", TABLE)
    code = (
        "import sys\nfrom pybfv import flow, cli\n"
        "flow.oracle = lambda *a: [{'stat': 'mean', 'exact': '1/3'}]\n"
        "sys.exit(cli.main(['run', 'd.csv', '--stat', 'mean:x', '--verify', '-o', 'out.txt']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=pybfv.folder, capture_output=True)
    assert done.returncode == 70
    assert done.stdout == b""
    assert b"verification failed" in done.stderr
    assert not (pybfv.folder / "out.txt").exists()


def test_inspect_names_what_a_file_is(study: Command) -> None:
    study.ok("compute", "data.bfvc", "--partial", "-o", "p.bfvp")
    study.ok("compute", "data.bfvc", "--key", "keys/public.key", "-o", "r.bfvr")
    kinds = {}
    for name in ("study.json", "keys/public.key", "data.bfvc", "p.bfvp", "r.bfvr"):
        facts = json.loads(study.ok("inspect", name, "--json"))
        kinds[name] = facts["kind"]
        assert facts["insecure"] is False
        assert facts["statistics"] == ["mean:x", "variance:x", "linreg:y~x", "count"]
        assert "kind" in study.ok("inspect", name)
    assert list(kinds.values()) == ["study", "public key", "contribution", "partial", "result"]


def test_inspect_refuses_a_study_that_keygen_refuses(study: Command, write) -> None:
    """Alone and in a file whose hashes all fit: what claims more than it carries, or does not follow from the rest."""
    honest = json.loads((study.folder / "study.json").read_bytes())
    public = read_public(study.folder / "keys" / "public.key")
    lies: dict[str, Any] = {
        "max_rows": 10**9, "max_contributions": 81, "t": ["257"], "insecure": True, "reveal": "some", "missing": None,
        "statistics": ["mean:z"], "columns": [], "n": 64, "set": "n9_q9", "product": "none", "extra": 1,
    }  # fmt: skip
    for field, value in lies.items():
        doc = StudyDoc.from_data({**honest, field: value})
        write("lie.json", doc.raw)
        said = study.refused(65, "inspect", "lie.json", "--json")
        assert said.startswith("pybfv: lie.json holds no valid study: "), said
        refusal = study("keygen", "lie.json", "-o", "k")  # in the same words
        assert refusal.returncode in (65, 78)
        assert refusal.stderr.decode().removeprefix("pybfv: ") == said.split("valid study: ", 1)[1] + "\n"
        if field not in ("n", "set"):  # there the key itself is refused
            with (study.folder / "lie.key").open("wb") as stream:
                write_public(stream, PublicKey(doc, public.n, public.primes, public.seed, public.p0))
            assert "lie.key holds no valid study: " in study.refused(65, "inspect", "lie.key")
    assert "study" in study.ok("inspect", "study.json")


def test_without_privileges(study: Command) -> None:
    """A read-only folder and an unreadable key, as a user without root's rights meets them."""
    with without_privileges():
        pass  # skipped where that is not possible
    readonly = study.folder / "readonly"
    readonly.mkdir(mode=0o555)
    # as root: run once, so that modules that only root may read here are loaded, and become nobody
    drop = (
        "import difflib\nassert pybfv.cli.main([*sys.argv[1:-1], 'warm.bfvc', '--force']) in (0, 77)\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    )
    code = (
        "import os, sys, pybfv.flow, pybfv.cli\n"
        f"{drop if os.geteuid() == 0 else ''}sys.exit(pybfv.cli.main(sys.argv[1:]))"
    )
    for folder in [study.folder, *study.folder.parents]:
        if folder.stat().st_uid == 0 and len(folder.parts) > 2:
            folder.chmod(folder.stat().st_mode | 0o055)

    def as_nobody(*args: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, "-c", code, *args], cwd=study.folder, capture_output=True)

    done = as_nobody("encrypt", "study.json", "data.csv", "--key", "keys/public.key", "-o", "readonly/x.bfvc")
    assert done.returncode == 73, done.stderr
    done = as_nobody("encrypt", "study.json", "data.csv", "--key", "keys/secret.key", "-o", "readonly/x.bfvc")
    assert done.returncode in (66, 77), done.stderr
    assert b"Traceback" not in done.stderr
    assert list(readonly.iterdir()) == []
