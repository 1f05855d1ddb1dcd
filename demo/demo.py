"""The main job on real data, command by command; ends with encrypted beside plaintext results.

Run it with `make demo`. The plaintext column is computed here, from the CSV file, by definition and
in exact fractions; "exact" means that both fractions are equal, not that they look alike.
"""

from __future__ import annotations

import csv
import json
import shlex
import shutil
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = "demo_out"
DATA = "demo/diabetes.csv"
BOUNDS = "--bounds bmi=10.0:60.0 --bounds bp=40.00:200.00 --bounds s5=0.0000:10.0000 --bounds progression=0:500"
TARGET, FEATURES = "progression", ("bmi", "bp", "s5")

STEPS = [
    (
        "the study, from a header and public bounds: nobody's data is needed to plan it",
        f"pybfv plan {OUT}/header.csv --stat mean:bmi --stat variance:bmi "
        f"--stat 'linreg:{TARGET}~{'+'.join(FEATURES)}' {BOUNDS} "
        f"--max-rows 500 --max-contributions 2 -o {OUT}/study.json",
    ),
    ("its keys; secret.key stays with the key holder", f"pybfv keygen {OUT}/study.json -o {OUT}/keys"),
    (
        "a first hospital encrypts its half of the rows",
        f"pybfv encrypt {OUT}/study.json {OUT}/east.csv --key {OUT}/keys/public.key -o {OUT}/in/east.bfvc",
    ),
    (
        "a second one encrypts the other half",
        f"pybfv encrypt {OUT}/study.json {OUT}/west.csv --key {OUT}/keys/public.key -o {OUT}/in/west.bfvc",
    ),
    ("what the server sees of a contribution", f"pybfv inspect {OUT}/in/east.bfvc"),
    (
        "the server computes on ciphertexts, without a secret key",
        f"pybfv compute {OUT}/in --key {OUT}/keys/public.key -o {OUT}/result.bfvr",
    ),
    (
        "the same inside simulated UPMEM DIMMs: its partial is the cpu's, byte for byte",
        f"pybfv compute {OUT}/in --partial -o {OUT}/cpu.bfvp",
    ),
    ("", f"pybfv compute {OUT}/in --partial --backend sim --timings -o {OUT}/sim.bfvp"),
    ("", f"cmp {OUT}/cpu.bfvp {OUT}/sim.bfvp"),
    (
        "the paper's kernels, without transforms, on one column of the first half",
        f"pybfv run {OUT}/east.csv --stat variance:bmi --backend sim --kernels limb --timings --verify",
    ),
    (
        "a result from the simulator",
        f"pybfv compute {OUT}/in --key {OUT}/keys/public.key --backend sim -o {OUT}/sim.bfvr",
    ),
    ("", f"pybfv decrypt {OUT}/sim.bfvr --key {OUT}/keys/secret.key --json -o {OUT}/sim.json"),
    (
        "the key holder decrypts totals and divides, exactly",
        f"pybfv decrypt {OUT}/result.bfvr --key {OUT}/keys/secret.key --json -o {OUT}/result.json",
    ),
]


def short(command: str) -> str:
    """A command's name in the list of times."""
    words = command.split()
    return words[1] + "".join(f" {word}" for word in ("sim", "limb") if word in words)


def plaintext() -> dict[str, Fraction]:
    """Mean, sample variance and least squares by definition, in fractions."""
    with open(ROOT / DATA, newline="") as f:
        rows = [{k: Fraction(v) for k, v in row.items()} for row in csv.DictReader(f)]
    n = len(rows)
    mean = sum(r["bmi"] for r in rows) / n
    found = {"mean bmi": mean, "variance bmi": sum((r["bmi"] - mean) ** 2 for r in rows) / (n - 1)}
    z = [[Fraction(1), *(r[x] for x in FEATURES)] for r in rows]
    k = len(z[0])
    table = [
        [sum(a[i] * a[j] for a in z) for j in range(k)] + [sum(a[i] * r[TARGET] for a, r in zip(z, rows, strict=True))]
        for i in range(k)
    ]
    for i in range(k):  # Gauss-Jordan; the moments of real data have no zero pivot
        table[i] = [x / table[i][i] for x in table[i]]
        for j in range(k):
            if j != i:
                factor = table[j][i]
                table[j] = [x - factor * y for x, y in zip(table[j], table[i], strict=True)]
    for term, row in zip(("(intercept)", *FEATURES), table, strict=True):
        found[f"{TARGET} ~ {term}"] = row[k]
    return found


def encrypted(document: dict) -> dict[str, tuple[Fraction, float]]:
    """Label to (exact, printed) of a decrypted document."""
    found = {}
    for result in document["results"]:
        if result["stat"] == "linreg":
            for term, exact, value in zip(result["terms"], result["exact"], result["coefficients"], strict=True):
                found[f"{result['target']} ~ {term}"] = (Fraction(exact), value)
        else:
            found[f"{result['stat']} {result['column']}"] = (Fraction(result["exact"]), result["value"])
    return found


def main() -> int:
    out = ROOT / OUT
    shutil.rmtree(out, ignore_errors=True)
    (out / "in").mkdir(parents=True)
    header, *rows = (ROOT / DATA).read_text().splitlines()
    (out / "header.csv").write_text(header + "\n")
    (out / "east.csv").write_text("\n".join([header, *rows[::2]]) + "\n")
    (out / "west.csv").write_text("\n".join([header, *rows[1::2]]) + "\n")
    print(f"{len(rows)} patients, split over two files in {OUT}/; see demo/SOURCE.md\n")
    times = []
    for what, command in STEPS:
        print((f"# {what}\n" if what else "") + f"$ {command}", flush=True)
        start = time.perf_counter()
        subprocess.run(shlex.split(command), cwd=ROOT, check=True)
        if command.startswith("pybfv"):
            times.append((short(command), time.perf_counter() - start))
        print(flush=True)
    document = json.loads((out / "result.json").read_text())
    simulated = json.loads((out / "sim.json").read_text())["results"] == document["results"]
    plain, found = plaintext(), encrypted(document)
    print(f"{'statistic':<28}{'decrypted':>22}{'plaintext':>22}  n = {document['rows']}")
    same = plain.keys() == found.keys() and simulated
    for label, value in plain.items():
        exact, shown = found.get(label, (None, float("nan")))
        same &= exact == value
        print(f"{label:<28}{shown:>22.15g}{float(value):>22.15g}  {'exact' if exact == value else 'DIFFERS'}")
    print(f"backends cpu and sim: {'the same results' if simulated else 'DIFFERENT RESULTS'}")
    print("\n" + "   ".join(f"{step} {seconds:.2f} s" for step, seconds in times))
    print(f"set {document['set']}; wall time of whole commands, start-up included; sim's is no hardware's time")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
