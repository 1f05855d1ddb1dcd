"""Where secrets come from, and where they never are: core dumps, texts of errors, pickles, logs.

What a core dump would hold is read out of a living process: every mapping that /proc/PID/smaps does not mark "dd".
"""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, Command
from io_tools import SAMPLES, samples
from test_no_key_on_server import hits, needles

from pybfv import entropy, flow
from pybfv.errors import InternalError, PybfvError
from pybfv.evaluator import Context, KeyGenerator
from pybfv.evaluator.keys import SecretKey as EvaluatorKey
from pybfv.io.secret_key import SecretKey, read_secret, write_secret
from pybfv.native.secret import private
from pybfv.params import get_set

SET = "insecure_n256_q133"
PASSPHRASE = b"a passphrase that is long enough to be looked for"


# ---- memory


def regions(pid: int) -> list[tuple[int, int, set[str]]]:
    """(start, end, VmFlags) of every mapping that may be written."""
    found, span = [], None
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line)
        if head:
            span = (int(head[1], 16), int(head[2], 16)) if head[3].startswith("rw") and "[v" not in line else None
        elif line.startswith("VmFlags:") and span:
            found.append((*span, set(line.split()[1:])))
    return found


def dumped(pid: int) -> tuple[bytes, bytes, set[str]]:
    """(what a core dump would hold, what it would leave out, the flags that all of the latter have)."""
    inside, outside, flags = [], [], []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        for low, high, marks in regions(pid):
            mem.seek(low)
            data = mem.read(high - low) or b""
            (outside if "dd" in marks else inside).append(data)
            if "dd" in marks and any(data):
                flags.append(marks)
    return b"".join(inside), b"".join(outside), set.intersection(*flags) if flags else set()


def held(script: str, folder: Path, *arguments: str, **pipe: object) -> tuple[bytes, bytes, set[str]]:
    """As dumped, of a process that says one line and waits."""
    command = [sys.executable, "-c", script, *arguments]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=folder, **streams, **pipe)
    line = process.stdout.readline()
    found = dumped(process.pid) if line else (b"", b"", set())
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    return found


@pytest.fixture(scope="module")
def holder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A folder with a key, plain and protected, and a result; and the key in every encoding."""
    folder = tmp_path_factory.mktemp("holder")
    study = flow.plan({"x": [1, 2, 5]}, ["variance:x"], max_contributions=1, set_name=SET, insecure=True).study
    secret, public = flow.keygen(study)
    flow.write_keys(secret, public, str(folder))
    write_secret(folder / "protected.key", secret, PASSPHRASE)
    flow.encrypt(study, {"x": [1, 2, 5]}, public, str(folder / "c"))
    flow.compute([str(folder / "c")], str(folder / "result"), key=public)
    flow.write_study(study, str(folder / "study.json"))
    return folder, needles(secret.s, study.ps.primes)


USE = """
import os, sys
from pybfv import flow, native
from pybfv.cli.passphrase import asked
from pybfv.io.secret_key import read_secret, write_secret
from pybfv.native.secret import Secret
key = read_secret(sys.argv[1], asked(int(sys.argv[2])))
assert flow.decrypt("result", key)["rows"] == 3
write_secret(sys.argv[3], key)
ring = native.Ring(key.n, key.primes)
secret = Secret(ring, key.s)
"""
WAIT = "print(1, flush=True)\nsys.stdin.read()\n"
DONE = "secret.close()\nkey.wipe()\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["secret.key", "protected.key"])
def test_no_core_dump_would_hold_a_key_in_use(name, holder, tmp_path):
    """Of a program that imports pybfv, too, whose limit on core dumps is its own affair."""
    folder, wanted = holder
    read, write = os.pipe()
    os.write(write, PASSPHRASE + b"\n")
    core, private_pages, flags = held(USE + WAIT, folder, name, str(read), str(tmp_path / "k"), pass_fds=[read])
    os.close(read)
    os.close(write)
    assert len(core) > 1 << 20
    assert hits(core, wanted) == set()
    assert PASSPHRASE not in core + private_pages
    assert {"int8", "lifted ntt 0", "lifted ntt 4"} <= hits(private_pages, wanted), (
        "else the search would prove nothing"
    )
    assert "dd" in flags


@pytest.mark.slow
def test_a_key_is_gone_from_memory_once_it_is_closed(holder, tmp_path):
    folder, wanted = holder
    core, private_pages, _ = held(USE + DONE + WAIT, folder, "secret.key", "0", str(tmp_path / "k"))
    assert hits(core + private_pages, wanted) == set()


@pytest.mark.slow
def test_the_library_locks_its_pages(holder, tmp_path):
    """VmFlags "lo" of the pages that hold the transformed key, where the limit on locked memory allows."""
    folder, wanted = holder
    script = USE + "del key\nimport gc\ngc.collect()\n" + WAIT
    _, private_pages, flags = held(script, folder, "secret.key", "0", str(tmp_path / "k"))
    assert {"lifted ntt 0"} <= hits(private_pages, wanted)
    assert "int8" not in hits(private_pages, wanted)
    assert {"lo", "dd"} <= flags


MAKE = """
import sys
import numpy as np
from pybfv import flow
from pybfv.io.secret_key import write_secret
from pybfv.native.secret import wipe
if sys.argv[1] == "flow":
    key, public = flow.keygen(flow.load_study("study.json"))
    s = key.s
else:
    from pybfv.evaluator import Context, KeyGenerator, Encryptor, Decryptor, BatchEncoder
    context = Context("insecure_n256_q133", t=7681, insecure=True)
    keys = KeyGenerator(context)
    relin = keys.relin_keys()
    encoder = BatchEncoder(context)
    ct = Encryptor(keys.secret_key).encrypt(encoder.encode([1, 2, 3]))
    assert list(encoder.decode(Decryptor(keys.secret_key).decrypt(ct)))[:3] == [1, 2, 3]
    s = keys.secret_key.coefficients()
out = np.memmap(sys.argv[2], dtype=np.int8, mode="w+", shape=s.shape)
out[:] = s
out.flush()
del out
if sys.argv[1] != "flow":
    wipe(s)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flow", "evaluator"])
def test_no_core_dump_would_hold_a_key_that_was_drawn(kind, holder, tmp_path):
    folder, _ = holder
    core, private_pages, _ = held(MAKE + WAIT, folder, kind, str(tmp_path / "s"))
    wanted = needles(np.fromfile(tmp_path / "s", dtype=np.int8), get_set(SET).primes)
    assert hits(core, wanted) == set()
    assert hits(private_pages, wanted) == ({"int8"} if kind == "flow" else set(wanted) & hits(private_pages, wanted))
    assert hits(private_pages, wanted) != set()


def test_private_memory():
    x = private(100)
    assert (x.dtype, x.shape, x.any()) == (np.dtype(np.uint8), (100,), False)
    x[:] = 7
    place = x.ctypes.data
    (marks,) = [marks for low, high, marks in regions(os.getpid()) if low <= place < high]
    assert "dd" in marks
    assert private(0).size == 0


def test_a_key_keeps_a_copy_of_its_own():
    given = samples.secret_key().s.copy()
    key = SecretKey("0" * 64, "1" * 32, "insecure_n16_q53", 16, given)
    given[:] = 0
    assert key.s.tolist() == samples.secret_key().s.tolist()
    key.wipe()
    assert not key.s.any()


def test_the_command_line_switches_core_dumps_off():
    code = "import resource, pybfv.cli; pybfv.cli.main(['--version']); print(resource.getrlimit(resource.RLIMIT_CORE))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "(0, 0)"


# ---- texts


def test_no_text_or_pickle_holds_a_key(holder, tmp_path):
    folder, wanted = holder
    path = tmp_path / "secret.key"
    shutil.copy(folder / "secret.key", path)
    path.chmod(0o600)
    key = read_secret(path)
    evaluator_key = KeyGenerator(Context(SET, t=7681, insecure=True)).secret_key
    s = evaluator_key.coefficients()
    wanted = {**wanted, **{f"evaluator {name}": piece for name, piece in needles(s, get_set(SET).primes).items()}}
    texts = [f"{one!r} {one} {[one]} {one:}" for one in (key, evaluator_key)]
    attempts = [
        lambda: pickle.dumps(key),
        lambda: pickle.dumps(evaluator_key),
        lambda: json.dumps(key),
        lambda: SecretKey(key.study_hash, key.key_id, key.set_name, 64, key.s),
        lambda: SecretKey(key.study_hash, key.key_id, key.set_name, key.n, key.s * 2),
        lambda: SecretKey(key.study_hash, key.key_id, key.set_name, key.n, key.s.astype(np.int64)),
        lambda: write_secret(path, key),
        lambda: write_secret("-", key),
        lambda: flow.decrypt(key, key),
        lambda: flow.encrypt(flow.load_study(str(folder / "study.json")), {"x": [1]}, key, str(tmp_path / "x")),
        lambda: flow.decrypt(str(SAMPLES / "result.bfvr"), key),
        lambda: EvaluatorKey(Context(SET, t=7681, insecure=True), "0" * 32, s * np.int8(2)),
        lambda: EvaluatorKey.restore(evaluator_key.export()[:-1]),
        lambda: EvaluatorKey.restore(evaluator_key.export() + b"x"),
    ]
    for attempt in attempts:
        with pytest.raises((PybfvError, TypeError)) as caught:
            attempt()
        texts += [str(caught.value), repr(caught.value.args), "".join(traceback.format_exception(caught.value))]
    assert hits("\n".join(texts).encode(), wanted) == set()
    data = bytearray(path.read_bytes())
    for at in range(0, len(data), 3):
        data[at] ^= 0x55
        path.write_bytes(data)
        with pytest.raises(PybfvError) as caught:
            read_secret(path)
        assert hits("".join(traceback.format_exception(caught.value)).encode(), wanted) == set()
        data[at] ^= 0x55


# ---- randomness


FILES = sorted((ROOT / "pybfv").rglob("*.py"))


GENERATORS = {"random", "secrets", "uuid", "numpy.random", "urandom", "getrandom", "os.urandom", "logging"}


def generators(source: str) -> set[str]:
    """Names of randomness (and of logging) that a source uses."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        for name in names:
            found |= {name} & {
                "random",
                "secrets",
                "uuid",
                "numpy.random",
                "urandom",
                "getrandom",
                "os.urandom",
                "logging",
            }
    return found


def test_one_place_alone_asks_for_randomness():
    allowed = {"pybfv/entropy.py": {"urandom"}, "pybfv/scheme/ceilings.py": {"random"}}  # the latter: a public seed
    for path in FILES:
        name = str(path.relative_to(ROOT))
        if "bench" not in path.parts:
            assert generators(path.read_text()) <= allowed.get(name, set()), name
    for bad in (
        "import random",
        "from os import urandom",
        "np.random.default_rng(1)",
        "import secrets",
        "os.getrandom(3)",
    ):
        assert generators(bad), bad
    for path in [*(ROOT / "host_c" / "src").glob("*.[ch]"), *(ROOT / "dpu").rglob("*.[ch]")]:
        assert not re.search(
            r"\b(s?random|s?rand|getrandom|getentropy|arc4random)\s*\(|/dev/u?random", path.read_text()
        )


def counted(monkeypatch: pytest.MonkeyPatch, start: int) -> list[int]:
    """Meanwhile os.urandom is a stream that depends on ``start`` alone; the sizes that were asked for."""
    sizes: list[int] = []

    def fake(size: int) -> bytes:
        rng = np.random.default_rng([start, len(sizes)])
        sizes.append(size)
        return rng.bytes(size)

    monkeypatch.setattr(os, "urandom", fake)
    return sizes


def test_every_key_and_ciphertext_comes_from_it(tmp_path, monkeypatch):
    """With a system generator that repeats, all files repeat: nothing else is random in them."""
    study = flow.plan({"x": [1, 2, 5]}, ["variance:x"], max_contributions=1, set_name=SET, insecure=True).study

    def job(start: int) -> list[bytes]:
        sizes = counted(monkeypatch, start)
        folder = tmp_path / f"{start} {len(list(tmp_path.iterdir()))}"
        secret, public = flow.keygen(study)
        assert sizes.count(32) >= 3, "a seed each for the secret, its error and the public half"
        flow.write_keys(secret, public, str(folder), "passphrase")
        flow.encrypt(study, {"x": [1, 2, 5]}, public, str(folder / "c"))
        flow.compute([str(folder / "c")], str(folder / "r"), key=public)
        monkeypatch.undo()
        return [(folder / name).read_bytes() for name in ("secret.key", "public.key", "c", "r")]

    first, again, other = job(1), job(1), job(2)
    assert first == again
    assert all(a != b for a, b in zip(first, other, strict=True))


def fails(error: Exception):
    def generator(size: int) -> bytes:
        raise error

    return generator


_urandom = os.urandom
BAD_GENERATORS = {
    "zeros": (bytes, "repeats itself"),
    "ones": (lambda size: b"\xff" * size, "repeats itself"),
    "always the same": (lambda size: bytes(range(size)), "repeats itself"),
    "nothing": (lambda size: b"", "too few"),
    "one byte less": (lambda size: _urandom(size)[1:], "too few"),
    "fails": (fails(OSError(5, "Input/output error")), "Input/output error"),
    "is not there": (fails(NotImplementedError("/dev/urandom (or equivalent) not found")), "is missing"),
}


@pytest.mark.parametrize("bad", BAD_GENERATORS)
def test_a_bad_generator_gives_no_key(bad, tmp_path, monkeypatch):
    generator, words = BAD_GENERATORS[bad]
    study = flow.plan({"x": [1, 2, 5]}, ["variance:x"], max_contributions=1, set_name=SET, insecure=True).study
    _, public = flow.keygen(study)
    monkeypatch.setattr(os, "urandom", generator)
    for attempt in (
        lambda: flow.keygen(study),
        lambda: KeyGenerator(Context(SET, t=7681, insecure=True)),
        lambda: flow.encrypt(study, {"x": [1, 2, 5]}, public, str(tmp_path / "c")),
    ):
        with pytest.raises(InternalError, match=words):
            attempt()
    assert list(tmp_path.iterdir()) == []


def test_good_generators_are_not_refused():
    assert len({entropy.fresh_bytes(16) for _ in range(2000)}) == 2000
    assert {len(entropy.fresh_bytes(size)) for size in (0, 1, 8, 15)} == {0, 1, 8, 15}


SHIM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
ssize_t getrandom(void *data, size_t size, unsigned flags) {
    const char *bad = flags == 0 ? getenv("BAD_RANDOM") : NULL; /* other flags: Python's hashes, at its start */
    if (bad != NULL && strcmp(bad, "fails") == 0) { errno = EIO; return -1; }
    if (bad != NULL && strcmp(bad, "zeros") == 0) { memset(data, 0, size); return (ssize_t)size; }
    if (bad != NULL && strcmp(bad, "repeats") == 0) { for (size_t i = 0; i < size; i++) ((char *)data)[i] = (char)(i * 37); return (ssize_t)size; }
    if (bad != NULL && strcmp(bad, "short") == 0 && size > 3) size = 3;
    return syscall(SYS_getrandom, data, size, flags);
}
"""  # noqa: E501


@pytest.mark.slow
def test_keygen_over_a_bad_system_call(pybfv: Command, write) -> None:
    """The same below Python: a getrandom that fails, or gives no random bytes; one that gives few at a time is fine."""
    write("shim.c", SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "shim.so", "shim.c"], cwd=pybfv.folder, check=True)
    write("d.csv", "x\n1\n2\n")
    pybfv.ok("plan", "d.csv", "--stat", "sum:x", "--set", SET, "--insecure", "-o", "s.json")
    pybfv.ok("keygen", "s.json", "-o", "good")
    preload = {"LD_PRELOAD": str(pybfv.folder / "shim.so"), "PYTHONDONTWRITEBYTECODE": "1"}
    for bad, words in (
        ("fails", "failed (Input/output error)"),
        ("zeros", "repeats itself"),
        ("repeats", "repeats itself"),
    ):
        env = {**preload, "BAD_RANDOM": bad}
        assert words in pybfv.refused(70, "keygen", "s.json", "-o", "keys", env=env)
        encrypt = ("encrypt", "s.json", "d.csv", "--key", "good/public.key", "-o", "c.bfvc")
        assert words in pybfv.refused(70, *encrypt, env=env)
    pybfv.ok("keygen", "s.json", "-o", "keys", env={**preload, "BAD_RANDOM": "short"})
    assert sorted(p.name for p in (pybfv.folder / "keys").iterdir()) == ["public.key", "secret.key"]
