"""`python -m pybfv.bench [--json | --readme]`: `pybfv bench speed`, whole; exit code 1 when less is found than asked.

`python -m pybfv.bench timing [--seconds S]`: do calls take longer for some secrets than for others?
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from pybfv.bench import timing
from pybfv.bench.speed import report, rows, run

README = Path(__file__).parents[2] / "README.md"


def main() -> int:
    """Measures everything; some minutes."""
    parser = argparse.ArgumentParser(prog="python -m pybfv.bench", description="pybfv beside Microsoft SEAL")
    parser.add_argument("what", nargs="?", choices=["speed", "timing"], default="speed", help="timing: of secrets")
    parser.add_argument("--seconds", type=float, default=10, help="timing: of each call")
    parser.add_argument("--quick", action="store_true", help="less exact, in memory only")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    kind.add_argument("--readme", action="store_true", help="put the comparison with SEAL into README.md")
    asked = parser.parse_args()
    if asked.what == "timing":
        return timing.main(asked.seconds)
    document = run.measure(rows.QUICK if asked.quick else rows.WHOLE, lambda text: print(text, file=sys.stderr))
    if asked.readme:
        report.put(README, report.markdown(document))
    elif asked.json:
        print(json.dumps(document, indent=2))
    else:
        print(report.text(document))
    missed = run.missed(document)
    for name in missed:
        print(f"bench: less than asked: {name}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
