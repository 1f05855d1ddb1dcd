"""`python -m pybfv.bench.paper paper.json`: docs/paper.md of a document of `pybfv bench paper --json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pybfv.bench.paper.report import markdown

if __name__ == "__main__":
    print(markdown(json.loads(Path(sys.argv[1]).read_text())), end="")
