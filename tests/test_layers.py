"""The layer rules of the architecture: every import and include points where it may."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# room -> rooms that it may import from; a room may import itself.
MAY_IMPORT = {
    "pybfv.errors": set(),
    "pybfv.params": {"errors"},
    "pybfv.ring": {"errors"},
    "pybfv.workload": {"errors"},
    "pybfv.native": {"errors"},
    "pybfv.io": {"params", "native", "errors"},
    "pybfv.scheme": {"params", "ring", "native", "errors"},
    # The study is what client and server agree on, so it stands below both.
    "pybfv.study": {"workload", "scheme", "params", "io", "errors"},
    "pybfv.client": {"study", "workload", "scheme", "ring", "io", "native", "params", "errors"},
    "pybfv.server": {"study", "workload", "scheme", "ring", "io", "native", "params", "errors"},
    "pybfv.flow": {"client", "server", "study", "io", "native", "workload", "errors"},
    "pybfv.cli": {"flow", "client", "server", "study", "io", "workload", "errors"},
    "pybfv.__main__": {"cli"},
    "pybfv.__init__": set(),
    "workloads": {"workload"},
}
SECRET = "pybfv.native.secret"
FILES = sorted([*(ROOT / "pybfv").rglob("*.py"), *(ROOT / "workloads").glob("*.py")])


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "workloads" if parts[0] == "workloads" else ".".join(parts[:2])


def imports_of(source: str) -> set[str]:
    """Absolute names of all pybfv modules that a source imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.add(node.module or "")
            found |= {f"{node.module}.{a.name}" for a in node.names}
    return {name for name in found if name.split(".")[0] in ("pybfv", "pybfv_workloads")}


def breaches(room: str, source: str) -> list[str]:
    bad = []
    for name in imports_of(source):
        parts = name.split(".")
        if parts[0] == "pybfv_workloads":
            bad.append(name)
        elif len(parts) == 1 or (len(parts) == 2 and not (ROOT / "pybfv" / parts[1]).exists()
                                 and not (ROOT / "pybfv" / f"{parts[1]}.py").exists()):  # fmt: skip
            continue  # pybfv itself (its version), or "from pybfv import x" seen as a name
        elif f"pybfv.{parts[1]}" != room and parts[1] not in MAY_IMPORT[room]:
            bad.append(name)
    return bad


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_downwards(path: Path) -> None:
    assert breaches(room_of(path), path.read_text()) == []


def test_the_rule_can_fail() -> None:
    assert breaches("pybfv.server", "from pybfv.client import keys") != []
    assert breaches("workloads", "from pybfv.errors import DataError") != []
    assert breaches("pybfv.io", "import pybfv.scheme.noise") != []


@pytest.mark.parametrize("module", ["pybfv.server.accumulate", "pybfv.server.finish", "pybfv.server.reference"])
def test_server_cannot_reach_secret_key_code(module: str) -> None:
    """Not even indirectly: the binding of bfv_secret.h stays unloaded."""
    code = f"import sys, {module}; print([m for m in sys.modules if 'secret' in m and m.startswith('pybfv')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert SECRET not in "".join(p.read_text() for p in (ROOT / "pybfv" / "server").glob("*.py"))


def test_cffi_lives_in_native_only() -> None:
    users = {room_of(p) for p in FILES if re.search(r"^\s*(import|from) cffi", p.read_text(), re.M)}
    assert users == {"pybfv.native"}


def includes_of(path: Path) -> set[str]:
    return set(re.findall(r"^\s*#\s*include\s+([<\"][^>\"]+[>\"])", path.read_text(), re.M))


@pytest.mark.parametrize("path", sorted((ROOT / "dpu" / "core").glob("*.h")), ids=lambda p: p.name)
def test_dpu_core_needs_no_libc(path: Path) -> None:
    allowed = {"<stdint.h>", "<stddef.h>"} | {f'"{p.name}"' for p in (ROOT / "dpu" / "core").glob("*.h")}
    assert includes_of(path) <= allowed


def test_secret_code_is_one_translation_unit() -> None:
    users = {p.name for p in (ROOT / "host_c").rglob("*.c") if any("bfv_secret.h" in i for i in includes_of(p))}
    assert users == {"secret.c"}


@pytest.mark.parametrize("path", sorted((ROOT / "host_c").rglob("*.c")), ids=lambda p: p.name)
def test_libraries_neither_print_nor_exit(path: Path) -> None:
    assert not re.search(r"\b(printf|fprintf|puts|exit|abort)\s*\(", path.read_text())
