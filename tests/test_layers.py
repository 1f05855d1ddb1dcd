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
    "pybfv.engine": {"native", "errors"},
    # The operating system's randomness, for every room that draws any.
    "pybfv.entropy": {"errors"},
    "pybfv.io": {"params", "native", "entropy", "errors"},
    "pybfv.scheme": {"params", "ring", "native", "entropy", "errors"},
    # General ciphertext arithmetic for programs; the statistics know nothing of it.
    "pybfv.evaluator": {"engine", "scheme", "ring", "io", "native", "params", "errors"},
    # The study is what client and server agree on, so it stands below both.
    "pybfv.study": {"workload", "scheme", "params", "io", "errors"},
    "pybfv.client": {"study", "workload", "scheme", "ring", "io", "native", "params", "entropy", "errors"},
    "pybfv.server": {"engine", "study", "workload", "scheme", "ring", "io", "native", "params", "errors"},
    "pybfv.arguments": {"workload", "errors"},
    "pybfv.flow": {"arguments", "engine", "client", "server", "study", "io", "workload", "errors"},
    "pybfv.words": {"errors"},
    "pybfv.doctor": {"native", "errors"},
    "pybfv.cli": {"bench", "words", "doctor", "flow", "client", "server", "study", "io", "workload", "errors"},
    "pybfv.__main__": {"cli"},
    # Measures everything, beside SEAL; no other room knows it but the command line.
    "pybfv.bench": {
        "flow",
        "client",
        "server",
        "study",
        "scheme",
        "evaluator",
        "ring",
        "io",
        "native",
        "params",
        "workload",
        "errors",
    },
    "pybfv.__init__": set(),
    "workloads": {"workload"},
}
SECRETS = (
    "pybfv.io.secret_key", "pybfv.io.protect", "pybfv.native.secret", "pybfv.native._cdef_secret", "pybfv.scheme.keys",
    "pybfv.scheme.symmetric",
)  # fmt: skip
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


# --- no server code reaches a secret key


def reaches_secrets(source: str) -> list[str]:
    """Imports of secret-key code, anywhere in a source, lazy ones and those by a name in a string included."""
    strings = {n.value for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return sorted(
        name
        for name in imports_of(source) | strings
        for secret in SECRETS
        if name == secret or name.startswith(f"{secret}.")
    )


@pytest.mark.parametrize("path", sorted((ROOT / "pybfv" / "server").glob("*.py")), ids=lambda p: p.name)
def test_server_does_not_import_secret_key_code(path: Path) -> None:
    assert reaches_secrets(path.read_text()) == []


@pytest.mark.parametrize(
    "line",
    [
        "import pybfv.native.secret",
        "import pybfv.io.secret_key as key",
        "from pybfv.native import secret",
        "from pybfv.io import secret_key as key",
        "from pybfv.io.secret_key import read_secret",
        "from pybfv.native.secret import Secret",
        "from pybfv.native._cdef_secret import CDEF",
        "from pybfv.native import _cdef_secret",
        "importlib.import_module('pybfv.native.secret')",
    ],
)
def test_the_rule_for_servers_can_fail(line: str) -> None:
    for source in (line, f"def late():\n    if True:\n        {line}\n", f"try:\n    {line}\nexcept E:\n    pass\n"):
        assert reaches_secrets(source) != []
    assert reaches_secrets("from pybfv.io.key import PublicKey\nfrom pybfv import native\n") == []


def loaded_secrets(code: str) -> str:
    shown = f"import sys; {code}; print(sorted(set(sys.modules) & {set(SECRETS)}))"
    return subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True).stdout.strip()


def test_servers_and_inspect_load_no_secret_key_code() -> None:
    """Not even indirectly, once everything of pybfv.server and pybfv.io but the key's own module is imported."""
    servers = [f"pybfv.server.{p.stem}" for p in (ROOT / "pybfv" / "server").glob("*.py") if p.stem != "__init__"]
    assert len(servers) >= 4
    public = [f"pybfv.io.{p.stem}" for p in (ROOT / "pybfv" / "io").glob("*.py")]
    for name in SECRETS[:2]:
        public.remove(name)
    modules = [*servers, *(name.removesuffix(".__init__") for name in public)]
    assert loaded_secrets(f"import {', '.join(modules)}") == "[]"


def test_an_evaluator_without_keys_loads_no_secret_key_code() -> None:
    names = "Evaluator, Context, Ciphertext, PublicKey, RelinKeys, BatchEncoder, NoiseError"
    assert loaded_secrets(f"from pybfv.evaluator import {names}") == "[]"
    assert loaded_secrets("from pybfv.evaluator import Encryptor") != "[]"


@pytest.mark.parametrize("module", ["pybfv.flow", *SECRETS])
def test_what_loads_secret_key_code_is_seen(module: str) -> None:
    assert loaded_secrets(f"import {module}") != "[]"


def test_inspect_refuses_a_secret_key_without_the_code_that_reads_it() -> None:
    code = (
        "from pybfv import errors, io\n"
        "try:\n    io.describe('tests/vectors/samples/secret.key')\n"
        "except errors.KeyRefusedError:\n    print('refused')\n"
        f"import sys; print(sorted(set(sys.modules) & {set(SECRETS)}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["refused", "[]"]


def test_cffi_lives_in_native_only() -> None:
    users = {room_of(p) for p in FILES if re.search(r"^\s*(import|from) cffi", p.read_text(), re.M)}
    assert users == {"pybfv.native"}


# --- C


def code_of(source: str) -> str:
    """C without comments and without what is in quotes; includes keep their names."""
    token = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
    lines = token.sub(lambda m: m[0] if m[0][0] == '"' else " ", source)
    return "\n".join(
        line if re.match(r"\s*#\s*include", line) else re.sub(r'"(?:\\.|[^"\\])*"', '""', line)
        for line in lines.splitlines()
    )


def sources(*folders: str) -> list[Path]:
    return sorted(p for folder in folders for p in (ROOT / folder).rglob("*") if p.suffix in (".c", ".h"))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


SDK_LIKE = {"host_c/sim/device/assert.h", "host_c/sim/device/stdio.h", "host_c/sim/include/dpu.h"}
"""Stand-ins for headers of UPMEM's SDK: they define its assert, printf and DPU_ASSERT, and call none."""
FOR_PEOPLE = {"host_c/sim/link/libdpu.c", "host_c/sim/link/size.c"}
"""Around the simulator, for other people's host programs, which expect to read what went wrong."""
ENDS_OR_PRINTS = re.compile(
    r"\b(?:v?printf|puts|putchar|perror|_?exit|_Exit|quick_exit|abort|assert)\s*\(|\bv?f(?:printf|puts|putc)\s*\([^;]*\bstd(?:out|err)\b"
)


def ends_or_prints(source: str) -> list[str]:
    return ENDS_OR_PRINTS.findall(code_of(source))


@pytest.mark.parametrize(
    "path", [p for p in sources("host_c", "dpu/core") if named(p) not in SDK_LIKE | FOR_PEOPLE], ids=named
)
def test_libraries_neither_print_nor_exit(path: Path) -> None:
    # fprintf to a stream that the caller gave is an interface, not a print
    assert ends_or_prints(path.read_text()) == []


def test_the_rule_for_printing_can_fail() -> None:
    calls = ['printf("x")', 'puts ("x")', "exit(1)", "abort()", "fprintf(stderr, x)", "fputs(x, stdout)", "_exit(1)"]
    for call in (*calls, "assert(x)"):
        assert ends_or_prints(f"static void f(void) {{\n  {call};\n}}\n"), call
        assert ends_or_prints(f"#define FAIL() {call}\n"), call
        assert not ends_or_prints(f"/* {call} */ // {call}\n"), call
    assert not ends_or_prints('snprintf(text, size, "exit(1)"); fprintf(stream, "abort()"); thread_exit(1);')


def variables(source: str) -> list[str]:
    """Static objects that can change, and objects of file scope; functions and constants are none."""
    code = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", code_of(source), flags=re.M)
    code = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", code)
    declared = re.findall(r"\bstatic\b[^;{=]*", code) + re.findall(r"\b(?:_Thread_local|extern)\b[^;{=]*", code)
    while (flat := re.sub(r"\{[^{}]*\}", " @ ", code)) != code:  # bodies away, innermost first
        code = flat
    # what is left is file scope: a function ends in its body or has parentheses, a type begins with its word
    for statement in re.split(r";|\)\s*@", code):
        text = statement.replace("@", " ").strip()
        if text and "(" not in text and not re.match(r"(static|struct|union|enum|typedef|_Static_assert)\b", text):
            declared.append(text)
    return [d.strip() for d in declared if "(" not in d and not re.search(r"\bconst\b[^*]*$", d)]


@pytest.mark.parametrize("path", sources("dpu/core"), ids=named)
def test_dpu_core_has_no_state(path: Path) -> None:
    assert variables(path.read_text()) == []


def test_the_rule_for_state_can_fail() -> None:
    for bad in (
        "static int x;",
        "static uint32_t table[4] = {1, 2, 3, 4};",
        "static const uint32_t *moving = 0;",
        "int f(void) {\n  if (1) {\n    static int calls;\n    calls++;\n  }\n  return 0;\n}",
        "uint32_t counter;",
        "int shared = 3;",
        "extern int shared;",
    ):
        assert variables(f"#include <stdint.h>\ntypedef struct {{ int a; }} pair;\n{bad}\n"), bad
    for good in (
        "static const uint32_t table[2] = {1, 2};",
        "static inline int f(int x) { int y = x; return y; }",
        "static __attribute__((noinline, unused)) void g(int *r) { *r = 1; }",
        "enum { SIZE = 3 };",
        "// static int x;",
    ):
        assert not variables(good), good


def includes_of(source: str) -> list[str]:
    """What a source includes, with its quotes or angle brackets."""
    return re.findall(r"^\s*#\s*include\s+([<\"][^>\"]+[>\"])", code_of(source), re.M)


SDK = {"<dpu.h>", "<dpusim.h>"}
"""UPMEM's host API, of the SDK or of the simulator: for the backend that drives DPUs, alone."""
ROOMS = {"host_c/src": ("host_c/src", "host_c/include", "dpu/core"), "host_c/include": ("host_c/include",),
         "host_c/sim": ("host_c/sim",), "dpu/core": ("dpu/core",)}  # fmt: skip
FREESTANDING = {"<stdint.h>", "<stddef.h>"}


def misplaced(path: Path, source: str) -> list[str]:
    """Includes of a source at ``path`` that its room may not have."""
    room = next(r for r in ROOMS if named(path).startswith(f"{r}/"))
    headers = {p.name for p in sources("host_c", "dpu")}
    bad = []
    for include in includes_of(source):
        name = include[1:-1]
        if include[0] == '"':
            target = (path.parent / name).resolve()
            good = target.exists() and any(target.is_relative_to(ROOT / r) for r in ROOMS[room])
        elif room == "dpu/core":
            good = include in FREESTANDING
        elif include in SDK:
            good = named(path).startswith("host_c/src/upmem/")
        else:  # the system's; our stand-ins for the SDK's device headers share some of their names
            good = name not in headers or (ROOT / "host_c" / "sim" / "device" / name).exists()
        if not good:
            bad.append(include)
    return bad


@pytest.mark.parametrize("path", sources(*ROOMS), ids=named)
def test_includes_point_downwards(path: Path) -> None:
    assert misplaced(path, path.read_text()) == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("host_c/src/ring.c", '#include "../sim/sim.h"'),
        ("host_c/src/ring.c", '#include "../../dpu/kernels/kernels.h"'),
        ("host_c/src/ring.c", "#include <dpu.h>"),
        ("host_c/src/ring.c", "#include <bfv.h>"),
        ("host_c/src/ring.c", '#include "no_such_header.h"'),
        ("host_c/include/bfv.h", '#include "../src/ring.h"'),
        ("host_c/sim/pool.c", '  #  include "../src/ring.h"'),
        ("dpu/core/zq.h", "#include <string.h>"),
        ("dpu/core/zq.h", '#include "../../host_c/src/ring.h"'),
        ("dpu/core/zq.h", '#include "../kernels/kernels.h"'),
    ],
)
def test_the_rule_for_includes_can_fail(path: str, line: str) -> None:
    assert misplaced(ROOT / path, f"#include <stdint.h>\n{line}\n") != []


def secret_users(files: dict[str, str]) -> set[str]:
    return {name for name, source in files.items() if any("bfv_secret.h" in i for i in includes_of(source))}


def test_secret_code_is_one_translation_unit() -> None:
    files = {p.name: p.read_text() for p in sources("host_c", "dpu")}
    assert secret_users(files) == {"secret.c"}
    assert secret_users(files | {"ring.h": '#include "../include/bfv_secret.h"'}) == {"secret.c", "ring.h"}
