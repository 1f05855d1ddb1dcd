"""Runs the fuzzers from their corpus: ``python tests/fuzz/run.py [--seconds S] [--keep] [--pack] [NAME...]``.

Prints executions, coverage and inputs found of each; leaves with 1 when one of them finds a fault, whose input then
lies in the build folder. The corpus of a fuzzer is one text file, corpus/NAME.txt, one input a line in base64.
``--keep`` also goes on from inputs of earlier runs; ``--pack`` then writes a small corpus of equal coverage.
"""

from __future__ import annotations

import argparse
import base64
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha1
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build" / "fuzz"
C_TARGETS = ("fuzz_backend", "fuzz_ring")
PYTHON_TARGETS = ("fuzz_files", "fuzz_text", "fuzz_binding")
LENGTH = {"fuzz_backend": 1024, "fuzz_ring": 1024, "fuzz_files": 512, "fuzz_text": 512, "fuzz_binding": 512}
STRETCH = 600
"""Seconds of one process: a longer run is cut, as atheris loses memory where comparisons of arrays are traced."""
MAX_INPUTS = 400
"""Inputs of a packed corpus."""


def command(name: str, *arguments: object) -> list[str]:
    """A fuzzer's command line; Python's fuzzers have libFuzzer's options too."""
    start = [str(BUILD / name)] if name in C_TARGETS else [sys.executable, str(HERE / f"{name}.py")]
    limits = [f"-max_len={LENGTH[name]}", "-len_control=0", "-timeout=20", "-rss_limit_mb=2048"]
    return [*start, *limits, *map(str, arguments)]


def unpack(name: str, folder: Path) -> None:
    """The inputs of corpus/NAME.txt as files, named as libFuzzer names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for line in (HERE / "corpus" / f"{name}.txt").read_text(encoding="ascii").split():
        data = base64.b64decode(line)
        (folder / sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)


def pack(name: str, folder: Path) -> None:
    """Writes corpus/NAME.txt: inputs, small ones first, that reach all that those in the folder reach."""
    small = BUILD / "small" / name
    shutil.rmtree(small, ignore_errors=True)
    small.mkdir(parents=True)
    subprocess.run(command(name, "-merge=1", "-use_counters=0", small, folder), check=True, capture_output=True)
    inputs = sorted((path.read_bytes() for path in small.iterdir()), key=lambda data: (len(data), data))[:MAX_INPUTS]
    lines = [base64.b64encode(data).decode() for data in inputs if data]
    (HERE / "corpus" / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="ascii")


def fuzz(name: str, seconds: int, keep: bool) -> tuple[bool, str]:
    """(whether nothing was found, one line of figures, or what was found)."""
    folder = BUILD / "corpus" / name
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    unpack(name, folder)
    before = len(list(folder.iterdir()))
    runs, spent = 0, 0
    while spent < seconds:
        done = subprocess.run(
            command(
                name, f"-max_total_time={min(STRETCH, seconds - spent)}", f"-artifact_prefix={BUILD}/{name}-", folder
            ),
            capture_output=True,
            cwd=BUILD,
        )
        output = (done.stderr + done.stdout).decode(errors="replace")
        ran = re.search(r"Done (\d+) runs in (\d+) second", output)
        reached = re.findall(r"cov: (\d+) ft: (\d+)", output)
        if done.returncode or ran is None or not reached:
            return False, f"{name}: a fault (exit {done.returncode})\n" + "\n".join(output.splitlines()[-40:])
        runs, spent = runs + int(ran[1]), spent + max(1, int(ran[2]))
        edges, features = reached[-1]
    new = len(list(folder.iterdir())) - before
    figures = f"{name:13} {runs:10} runs {runs // spent:6}/s {edges:>6} edges {features:>6} features {new:5} new inputs"
    return True, figures


def main() -> int:
    asked = argparse.ArgumentParser(prog="python tests/fuzz/run.py", description="runs the fuzzers")
    asked.add_argument("names", nargs="*", default=[*C_TARGETS, *PYTHON_TARGETS], metavar="NAME")
    asked.add_argument("--seconds", type=int, default=20, help="for each fuzzer")
    asked.add_argument("--jobs", type=int, default=2, help="fuzzers at a time")
    asked.add_argument("--keep", action="store_true", help="go on from inputs of earlier runs")
    asked.add_argument("--pack", action="store_true", help="write the corpus from the inputs found")
    options = asked.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    good = True
    with ThreadPoolExecutor(options.jobs) as pool:
        for fine, line in pool.map(lambda name: fuzz(name, options.seconds, options.keep), options.names):
            print(line, flush=True)
            good = good and fine
    if options.pack and good:
        for name in options.names:
            pack(name, BUILD / "corpus" / name)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
