"""Writes golden files of format version 1: three whole jobs, from the table to the result.

    python tests/vectors/golden/make_golden.py    write the jobs that are not there yet

Encryption is random, so that no run writes the same files again; what is committed stays, as the record of what
version 1 computes with. A folder that exists is never written to. tests/test_golden.py computes with the files.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pybfv import flow
from pybfv.io.study import write_study

HERE = Path(__file__).parent
JOBS = {
    # products: batched slots, re-randomised and blinded
    "regression": {
        "tables": ("x,y\n1.5,2\n-2.0,7\n3.5,-1\n", "y,x\n4,0.0\n9,-4.5\n"),
        "statistics": ["count", "mean:x", "variance:y", "linreg:y~x"],
        "bounds": ["x=-5.0:5.0", "y=-10:20"],
        "reveal": "totals",
        "product": "scale-free",
        "set_name": "insecure_n64_q106",
    },
    # sums: coefficients; the second contribution is symmetric
    "slots": {
        "tables": ("pay\n10.25\n250.00\n" + "0.01\n" * 17, "pay\n3.50\n"),
        "statistics": ["sum:pay", "mean:pay"],
        "bounds": ["pay=0.00:250.00"],
        "reveal": "slots",
        "product": None,
        "set_name": "insecure_n16_q53",
    },
    # the same as the first with scaled products: accumulators over the integers, rounded once
    "scaled": {
        "tables": ("x,y\n1.5,2\n-2.0,7\n3.5,-1\n", "y,x\n4,0.0\n9,-4.5\n"),
        "statistics": ["count", "mean:x", "variance:y", "linreg:y~x"],
        "bounds": ["x=-5.0:5.0", "y=-10:20"],
        "reveal": "totals",
        "product": "scaled",
        "set_name": "insecure_n64_q106",
    },
}


def write(folder: Path, job: dict) -> None:
    """The files of one job: tables, study, keys, contributions, partial, result."""
    folder.mkdir()
    study = flow.plan(
        _table(folder, 0, job),
        job["statistics"],
        bounds=job["bounds"],
        max_rows=40,
        max_contributions=2,
        reveal=job["reveal"],
        product=job["product"],
        set_name=job["set_name"],
        insecure=True,
    ).study
    with open(folder / "study.json", "wb") as stream:
        write_study(stream, study.doc)
    secret, public = flow.keygen(study)
    flow.write_keys(secret, public, str(folder))
    names = []
    for k in range(2):
        key = secret if k and job["reveal"] == "slots" else public
        names.append(str(folder / f"{k}.bfvc"))
        flow.encrypt(study, _table(folder, k, job), key, names[-1])
    flow.compute_to_partial(names, str(folder / "partial.bfvp"))
    flow.compute(names, str(folder / "result.bfvr"), key=public)


def _table(folder: Path, k: int, job: dict) -> str:
    path = folder / f"{k}.csv"
    path.write_text(job["tables"][k])
    return str(path)


if __name__ == "__main__":
    for name, job in JOBS.items():
        if not (HERE / name).exists():
            write(HERE / name, job)
            print(f"{HERE / name} written", file=sys.stderr)
