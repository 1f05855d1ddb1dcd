"""Every set against both security tables, written down here once more; and every file and result says what it found."""

from __future__ import annotations

import json
import math

import pytest
from conftest import Command

from pybfv.evaluator import Context, KeyGenerator
from pybfv.params import SECURITY_LIMITS, SECURITY_WORDS, SETS, ParameterSet

STANDARD_2018 = {1024: 27, 2048: 54, 4096: 109, 8192: 218, 16384: 438, 32768: 881}
"""Homomorphic Encryption Standard (2018), ternary secrets, 128 bits, classical attacks."""
GUIDELINES_2024 = {1024: 26, 2048: 53, 4096: 106, 8192: 214, 16384: 430}
"""ePrint 2024/463, ternary secrets, 128 bits."""
PAPER = ["n1024_q27", "n2048_q54", "n4096_q109"]
ABOVE = "above the 2024 guidelines"


def basis_of(ps: ParameterSet) -> str:
    bits = math.prod(ps.primes).bit_length()
    if bits <= GUIDELINES_2024.get(ps.n, 0):
        return "2024/463"
    return "2018 standard" if bits <= STANDARD_2018.get(ps.n, 0) else "none"


def test_the_tables() -> None:
    assert {n: row["2024/463"] for n, row in SECURITY_LIMITS.items()} == GUIDELINES_2024
    assert {n: row["2018 standard"] for n, row in SECURITY_LIMITS.items()} == {
        n: bits for n, bits in STANDARD_2018.items() if n <= 16384
    }
    assert all(GUIDELINES_2024[n] < STANDARD_2018[n] for n in GUIDELINES_2024)


@pytest.mark.parametrize("name", SETS)
def test_every_label_is_what_the_tables_give(name: str) -> None:
    ps = SETS[name]
    assert ps.basis == basis_of(ps)
    assert ps.insecure == (ps.basis == "none") == name.startswith("insecure_")
    assert (ps.basis == "2018 standard") == (name in PAPER)
    assert ps.security == SECURITY_WORDS[ps.basis]
    assert ("INSECURE" in ps.security, ABOVE in ps.security) == (ps.insecure, name in PAPER)
    context = Context(name, t=3, batching=False, insecure=ps.insecure)
    for shown in (repr(context), repr(Context(n=ps.n, moduli=ps.primes, t=3, batching=False, insecure=ps.insecure))):
        assert ("INSECURE" in shown, ABOVE in shown) == (ps.insecure, name in PAPER)


def test_the_evaluators_keys_say_so() -> None:
    for name, mark in (("n1024_q27", ABOVE), ("insecure_n64_q106", "INSECURE")):
        keys = KeyGenerator(Context(name, t=3, batching=False, insecure=True))
        assert mark in repr(keys.public_key)
        assert mark in repr(keys.secret_key)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PAPER, "insecure_n64_q106", "n2048_q53"])
def test_every_file_and_result_says_so(name: str, pybfv: Command, write) -> None:
    ps = SETS[name]
    data = write("d.csv", "x\n1\n2\n3\n")
    base = ("--stat", "sum:x", "--set", name, *(["--insecure"] if ps.insecure else []))
    marks = {"n2048_q53": None, "insecure_n64_q106": "INSECURE"}
    mark = marks.get(name, ABOVE)

    def said(text: str) -> bool:
        assert ("INSECURE" in text, ABOVE in text) == (mark == "INSECURE", mark == ABOVE), text
        return True

    for args in (("plan", data, *base), ("plan", data, *base, "-o", "s.json"), ("plan", data, *base, "--json")):
        done = pybfv(*args)
        assert done.returncode == 0
        said(done.stderr.decode())  # the study itself has the set's name and mark, and no words
        assert "--json" in args or "-o" in args or said(done.stdout.decode())
    assert json.loads(done.stdout)["insecure"] is ps.insecure
    pybfv.ok("keygen", "s.json", "-o", "k")
    said(pybfv("encrypt", "s.json", data, "--key", "k/public.key", "-o", "d.bfvc").stderr.decode())
    pybfv.ok("compute", "d.bfvc", "--partial", "-o", "d.bfvp")
    pybfv.ok("combine", "d.bfvp", "--key", "k/public.key", "-o", "d.bfvr")
    for file in ("s.json", "k/public.key", "d.bfvc", "d.bfvp", "d.bfvr"):
        said(pybfv.ok("inspect", file))
        facts = json.loads(pybfv.ok("inspect", file, "--json"))
        assert (facts["insecure"], facts["security"]) == (ps.insecure, SECURITY_WORDS[basis_of(ps)])
    said(pybfv.ok("decrypt", "d.bfvr", "--key", "k/secret.key"))
    for result in (("decrypt", "d.bfvr", "--key", "k/secret.key"), ("run", data, *base)):
        document = json.loads(pybfv.ok(*result, "--json"))
        assert (document["insecure"], document["security"]) == (ps.insecure, SECURITY_WORDS[basis_of(ps)])
    said(pybfv.ok("run", data, *base))
