"""What this machine has and can do: `pybfv doctor`. It changes nothing and always answers."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from pybfv import __version__, native
from pybfv.errors import PybfvError

SCHEMA_VERSION = 1
PACKAGES = ("numpy", "cffi", "click", "cryptography", "zstandard", "tqdm", "tenseal")
SDK_FILES = ("bin/dpu-upmem-dpurte-clang", "include/dpu/dpu.h", "lib/libdpu.so")
"""What `make host` needs of the folder that UPMEM_HOME names."""
TRIAL_RING = (64, (67043329,))
"""A small ring that every backend must be able to open."""


def _first_line(*command: str) -> str | None:
    """The first line that a command prints, or None when it can't be run."""
    path = shutil.which(command[0])
    if path is None:
        return None
    try:
        done = subprocess.run([path, *command[1:]], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0].strip() if lines else None


def _cpu_model() -> str | None:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return None
    found = re.search(r"^(?:model name|Model|CPU part)\s*:\s*(.+)$", text, re.M)
    return found.group(1) if found else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _backend(name: str) -> dict[str, Any]:
    """Whether a backend opens here, and if not why."""
    try:
        with native.Backend(name, *TRIAL_RING) as backend:
            info = backend.info()
    except PybfvError as e:
        return {"available": False, "why": str(e).removesuffix("; check with: pybfv doctor")}  # this is it
    return {"available": True, "why": None, "dpus": info["dpus"], "tasklets": info["tasklets"]}


def _sdk() -> dict[str, Any]:
    home = os.environ.get("UPMEM_HOME") or None
    compiler = "dpu-upmem-dpurte-clang"
    return {
        "UPMEM_HOME": home,
        "files": None if home is None else {name: (Path(home) / name).exists() for name in SDK_FILES},
        "compiler": _first_line(compiler, "--version"),
        "pkg_config": _first_line("dpu-pkg-config", "--modversion", "dpu"),
        "diag": shutil.which("dpu-diag") is not None,
        "how_to_check": "source upmem_env.sh of the SDK, then run dpu-diag: it lists the ranks it finds",
    }


def examine() -> dict[str, Any]:
    """Everything, ready for JSON: versions, compilers, CPU bodies, SDK, backends."""
    try:
        bodies = native.bodies()
        library = None
    except PybfvError as e:
        bodies, library = [], str(e)
    return {
        "schema_version": SCHEMA_VERSION,
        "pybfv": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "library_problem": library,
        "cpu": {
            "model": _cpu_model(),
            "cores": len(os.sched_getaffinity(0)),
            "bodies": bodies,
            "forced": os.environ.get("PYBFV_CPU") or None,
        },
        "compilers": {name: _first_line(name, "--version") for name in ("gcc", "clang")},
        "sdk": _sdk(),
        "backends": {name: _backend(name) for name in ("cpu", "sim", "upmem")} if not library else {},
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _sdk_words(sdk: dict[str, Any]) -> str:
    """What the folder that UPMEM_HOME names holds of an SDK."""
    home, files = sdk["UPMEM_HOME"], sdk["files"]
    if home is None:
        return "not found: UPMEM_HOME is not set"
    lacking = [name for name, there in files.items() if not there]
    if len(lacking) == len(files):
        return f"not found: UPMEM_HOME={home} holds no SDK: no {', no '.join(lacking)}"
    if lacking:
        return f"incomplete: UPMEM_HOME={home} has no {', no '.join(lacking)}"
    return f"{home}: {', '.join(files)}"


def _backend_words(name: str, state: dict[str, Any]) -> str:
    if not state["available"]:
        return f"not available: {state['why']}"
    return f"available, {state['dpus']} DPUs" if name == "upmem" else "available"  # sim makes as many as asked for


def words(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The same as (label, text) lines."""

    def show(value: Any) -> str:
        return "not found" if value is None else str(value)

    cpu, sdk = found["cpu"], found["sdk"]
    lines = [
        ("pybfv", f"{found['pybfv']}, Python {found['python']}, {found['system']}"),
        ("cpu", f"{show(cpu['model'])}, {cpu['cores']} cores, kernel bodies {', '.join(cpu['bodies']) or 'none'}"),
        *((name, show(text)) for name, text in found["compilers"].items()),
        ("UPMEM SDK", _sdk_words(sdk)),
        ("DPU compiler", show(sdk["compiler"])),
        ("to check", sdk["how_to_check"]),
    ]
    if found["library_problem"]:
        lines.append(("library", found["library_problem"]))
    for name, state in found["backends"].items():
        lines.append((f"backend {name}", _backend_words(name, state)))
    lines.append(
        ("packages", ", ".join(f"{name} {version or 'not installed'}" for name, version in found["packages"].items()))
    )
    return lines
