"""The table of SECURITY.md: what is promised, which tests show it, and how many of them passed last.

python -m tests.security            run the quick tests and print the table (make check-security)
python -m tests.security --all      the slow ones too, minutes (make check-security SLOW=1)
python -m tests.security --write    as --all, and put the table into SECURITY.md
python -m tests.security --check    whether SECURITY.md has these rows, and every test that they name exists
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "SECURITY.md"
BEGIN, END = "<!-- table of tests: python -m tests.security --write -->\n", "<!-- end of the table -->\n"

CLAIMS: list[tuple[str, tuple[str, ...]]] = [
    (
        "damaged, truncated, forged and foreign files are refused in one line",
        ("test_hostile.py", "test_hostile_sweep.py", "test_hostile_text.py", "test_hostile_cli.py", "test_io.py"),
    ),
    (
        "an output is whole or not there, whenever a process is killed, and whatever disk, memory or pipe fails",
        ("test_io_output.py", "test_cases.py::test_b15", "test_kill.py", "test_limits.py"),
    ),
    (
        "signed files: every change is found, only trusted signers are taken, none counts twice",
        ("test_sign.py", "test_sign_forgery.py"),
    ),
    ("a run that was ended goes on to the same bytes, or what changed is refused", ("test_checkpoint.py",)),
    ("a thousand repetitions don't grow, 24 threads give the same bytes", ("test_endurance.py",)),
    ("every C call is tested with bad arguments or fuzzed", ("test_c_surface.py",)),
    (
        "no code of a server reaches a secret key, no byte that it meets holds one",
        ("test_layers.py", "test_no_key_on_server.py"),
    ),
    (
        "ciphertexts are shown, compared and added without a secret",
        ("test_cases.py::test_b13", "test_evaluator_objects.py"),
    ),
    ("key files: mode, links, kinds, passphrases", ("test_io_keys.py", "test_passphrase.py")),
    ("secrets: not in core dumps, texts, pickles; locked; randomness fails closed", ("test_secrets.py",)),
    ("totals: known attacks on rows fail, with the secret key in hand", ("test_totals.py",)),
    ("results that were tampered with do not decrypt", ("test_guards.py",)),
    ("what a DPU got wrong or did not do is found, and done again or refused", ("test_dpu_faults.py",)),
    (
        "noise is what is predicted, and never above its bound",
        ("test_noise.py", "test_noise_observed.py", "test_evaluator_noise.py"),
    ),
    ("parameter sets keep to the tables, and every file says which", ("test_security_levels.py", "test_params.py")),
]
COMMANDS = [
    ("no branch or memory index in C depends on a secret", "make check-ct"),
    ("fuzzers of parsers, the binding and the C interface find nothing", "make check-fuzz"),
    ("the C library is clean under sanitizers and valgrind", "make check-sanitize check-valgrind"),
]


class Tally:
    """Counts outcomes by claim while pytest runs."""

    def __init__(self) -> None:
        self.counts = [Counter() for _ in CLAIMS]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One report of one phase of one test; the outcome is the call's, or that of a failing phase."""
        if report.when != "call" and report.passed:
            return
        for (_, tests), count in zip(CLAIMS, self.counts, strict=True):
            count[report.outcome] += any(report.nodeid.startswith(f"tests/{test}") for test in tests)


def rows(figures: list[str]) -> list[str]:
    """The table's lines, with a figure for every claim that tests show."""
    lines = ["| promise | tests | passed |", "| --- | --- | --- |"]
    for (claim, tests), figure in zip(CLAIMS, figures, strict=True):
        named = ", ".join(f"`{test.replace('::', ' ')}`" for test in tests)
        lines.append(f"| {claim} | {named} | {figure} |")
    return lines + [f"| {claim} | `{command}` | |" for claim, command in COMMANDS]


def run(slow: bool) -> tuple[int, list[str]]:
    """(pytest's exit code, the figures)."""
    tally = Tally()
    files = sorted({f"tests/{test.split('::')[0]}" for _, tests in CLAIMS for test in tests})
    workers = ["-n", "2", "--dist", "loadfile"]
    code = pytest.main([*workers, *([] if slow else ["-m", "not slow"]), *files], plugins=[tally])
    others = ("skipped", "failed")
    return int(code), [", ".join([str(c["passed"]), *(f"{c[o]} {o}" for o in others if c[o])]) for c in tally.counts]


def check() -> list[str]:
    """What is wrong with the page and the names."""
    found = []
    for _, tests in CLAIMS:
        for test in tests:
            name, _, prefix = test.partition("::")
            path = ROOT / "tests" / name
            if not path.is_file() or not re.search(rf"^def {prefix or 'test_'}", path.read_text(), re.M):
                found.append(f"no test {test}")
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].splitlines()
    plain = [line.rsplit("|", 2)[0] for line in table]
    if plain != [line.rsplit("|", 2)[0] for line in rows([""] * len(CLAIMS))]:
        found.append("SECURITY.md has other rows; run python -m tests.security --write")
    return found


def main(arguments: list[str]) -> int:
    """The command line."""
    if arguments == ["--check"]:
        found = check()
        print("\n".join(found), end="\n" if found else "")
        return bool(found)
    if arguments not in ([], ["--all"], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    code, figures = run(slow=bool(arguments))
    lines = rows(figures)
    print("\n".join(lines))
    if arguments == ["--write"] and code == 0:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(before + BEGIN + "\n".join(lines) + "\n" + END + rest.partition(END)[2])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
