"""Commands load what they need and nothing more: by modules, as times would depend on the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SLOW = {"numpy", "cffi", "cryptography", "zstandard", "tqdm", "pyarrow", "tenseal", "matplotlib"}
ROOMS = (
    "bench",
    "client",
    "doctor",
    "evaluator",
    "flow",
    "io",
    "native",
    "params",
    "scheme",
    "server",
    "study",
    "workload",
)
OURS = {f"pybfv.{room}" for room in ROOMS}
RESULT = str(ROOT / "tests" / "vectors" / "samples" / "result.bfvr")


def loaded(*arguments: str) -> set[str]:
    """The modules in a fresh process after a command."""
    code = (
        "import sys\nfrom pybfv.cli import main\n"
        f"main({list(arguments)!r})\nprint('\\n' + ' '.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stderr.splitlines()[-1].split())


def idle() -> set[str]:
    """What is there before anything is imported: an editable installation brings modules of its own."""
    shown = "import sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


NAMES = ("keygen", "encrypt", "compute", "decrypt", "inspect", "bench", "bench speed", "bench growth", "bench paper")


@pytest.mark.parametrize("command", ["--help", "--version", "no-such-command", *(f"{name} --help" for name in NAMES)])
def test_help_loads_no_work(command: str) -> None:
    assert loaded(*command.split()) & (SLOW | OURS) - idle() == set()


def test_inspect_loads_no_work() -> None:
    found = loaded("inspect", RESULT, "--json")
    assert {"numpy", "pybfv.io.inspect"} <= found
    rooms = {f"pybfv.{room}" for room in ("bench", "client", "evaluator", "flow", "server", "doctor")}
    assert found & ({"cryptography", "zstandard", "tqdm", "pyarrow", "tenseal", "matplotlib"} | rooms) - idle() == set()


def test_checksums_do_not_wait_for_all_declarations() -> None:
    code = (
        "from pybfv.native import _lib\nassert _lib.crc32c(b'123456789') == 0xE3069283\n"
        "assert 'ffi' not in vars(_lib.BFV)\nassert 'ffi' in vars(_lib._CRC)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_small_tables_do_not_load_pyarrow(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x\n1\n2\n")
    assert "pyarrow" not in loaded("plan", str(tmp_path / "t.csv"), "--stat", "sum:x")
