"""`python -m pybfv.bench [--json | --readme]`: prints the table; exit code 1 when a target is missed.

`python -m pybfv.bench timing [--seconds S]`: do calls take longer for some secrets than for others?
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path

from pybfv.bench import accumulate, files, report, simulator, timing
from pybfv.bench.measure import machine

README = Path(__file__).parents[2] / "README.md"


def main() -> int:
    """Measures everything; about a minute and a half."""
    parser = argparse.ArgumentParser(prog="python -m pybfv.bench", description="pybfv beside Microsoft SEAL")
    parser.add_argument("what", nargs="?", choices=["table", "timing"], default="table", help="timing: of secrets")
    parser.add_argument("--seconds", type=float, default=10, help="timing: of each call")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    kind.add_argument("--readme", action="store_true", help="put the comparison with SEAL into README.md")
    asked = parser.parse_args()
    if asked.what == "timing":
        return timing.main(asked.seconds)
    print("bench: in memory, beside SEAL ...", file=sys.stderr)
    rows, sides = accumulate.measure()
    print("bench: from file to file ...", file=sys.stderr)
    rows += files.measure()
    print("bench: the simulator beside the cpu ...", file=sys.stderr)
    rows += simulator.measure()
    versions = {name: version(name) for name in ("pybfv", "tenseal", "numpy")}
    if asked.readme:
        report.put(README, report.markdown(rows, sides, machine(), versions))
    elif asked.json:
        print(json.dumps(report.document(rows, sides, machine(), versions), indent=2))
    else:
        print(report.table(rows, sides, machine()))
    missed = [row.name for row in rows if row.met is False]
    for name in missed:
        print(f"bench: target missed: {name}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
