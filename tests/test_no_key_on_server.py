"""The secret key is in no byte that a server reads, writes or holds in memory, in none of the encodings it ever has.

And transparent ciphertexts, which hide nothing, are refused where a command reads them.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from io_tools import SAMPLES, put_together, take_apart

from pybfv import flow, native
from pybfv.client.csvio import CsvOptions
from pybfv.io.study import write_study

GOLDEN = SAMPLES.parent / "golden"
RUN = 32
"""Coefficients in a row that are looked for: 50 bits, so that none is found by chance."""

SERVER = """
import json, os, sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
from pybfv import flow
from pybfv.io import describe
from pybfv.io.key import read_public
key = read_public("public.key")
flow.compute_to_partial(["0.bfvc"], "a.bfvp")
flow.compute_to_partial(["1.bfvc"], "b.bfvp")
result = flow.combine(["a.bfvp", "b.bfvp"], "combined.bfvr", key=key)
flow.compute(["0.bfvc", "1.bfvc"], "result.bfvr", key=key)
facts = [describe(name) for name in ("study.json", "public.key", "0.bfvc", "a.bfvp", "result.bfvr")]
print(json.dumps([opened, facts, repr(result), repr(key)]), flush=True)
sys.stdin.read()
"""
HOLDER = """
import sys
from pybfv import native
from pybfv.io.secret_key import read_secret
from pybfv.native.secret import Secret
key = read_secret(sys.argv[1])
with native.Ring(key.n, key.primes) as ring, Secret(ring, key.s) as secret:
    print("[]", flush=True)
    sys.stdin.read()
"""


def needles(s: np.ndarray, primes: tuple[int, ...]) -> dict[str, bytes]:
    """Pieces of the key in each encoding: enough of it to be no accident."""
    ring = native.Ring(len(s), primes)
    residues = ring.from_int64(s.astype(np.int64))
    transformed = ring.forward(residues.copy())
    plain = {
        "int8": s.astype(np.int8)[:RUN].tobytes(),
        "codes": (s % 3).astype(np.uint8)[:RUN].tobytes(),
        "offset": (s + 1).astype(np.uint8)[:RUN].tobytes(),
        "packed": np.packbits(
            np.unpackbits((s % 3).astype(np.uint8)[:, None], axis=1, bitorder="little")[:, :2].reshape(-1),
            bitorder="little",
        )[: RUN // 4].tobytes(),
        "int16": s.astype("<i2")[:RUN].tobytes(),
        "int32": s.astype("<i4")[:RUN].tobytes(),
        "int64": s.astype("<i8")[:RUN].tobytes(),
        "float": s.astype("<f8")[:RUN].tobytes(),
        "negated": (-s).astype(np.int8)[:RUN].tobytes(),
        "list": ", ".join(map(str, s[:RUN].tolist())).encode(),
        "digits": " ".join(map(str, s[:RUN].tolist())).encode(),
    }
    for i in range(len(primes)):
        lifted = ring.mul_scalar(transformed, [2**32 % p for p in primes])  # as the library keeps it
        for name, array in (("residues", residues), ("ntt", transformed), ("negated ntt", ring.neg(transformed)),
                            ("lifted ntt", lifted)):  # fmt: skip
            plain[f"{name} {i}"] = array[i][: RUN // 4].tobytes()
    found = dict(plain)
    for name in ("int8", "codes", "packed", "int64", "residues 0", "ntt 0"):
        raw = plain[name]
        found[f"{name} hex"] = raw.hex().encode()
        found[f"{name} HEX"] = raw.hex().upper().encode()
        for shift in range(3):  # the three ways in which base64 may cut it
            coded = base64.b64encode(bytes(shift) + raw)
            found[f"{name} base64 {shift}"] = coded[4 : len(coded) - 4]
    return found


def hits(data: bytes, wanted: dict[str, bytes]) -> set[str]:
    return {name for name, piece in wanted.items() if piece in data}


def memory(pid: int) -> bytes:
    """All private memory that a process may write."""
    pieces = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        for line in maps:
            low, high, rights = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups()
            if rights.startswith("rw") and "[v" not in line:
                mem.seek(int(low, 16))
                pieces.append(mem.read(int(high, 16) - int(low, 16)) or b"")
    return b"".join(pieces)


def held(script: str, folder: Path, *arguments: str) -> tuple[str, bytes, bytes]:
    """(its line, its stderr, its memory then) of a process that says one line and waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    line = process.stdout.readline().decode()
    dump = memory(process.pid) if line else b""
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    return line, errors, dump


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(the holder's folder with the keys, the server's with what is sent to it)."""
    holder, server = tmp_path_factory.mktemp("holder"), tmp_path_factory.mktemp("server")
    (holder / "data.csv").write_text("x,y\n1,2\n3,4\n5,9\n")
    data = str(holder / "data.csv")
    study = flow.plan(
        data, ["mean:x", "linreg:y~x"], bounds=["x=-9:9", "y=-9:9"], max_rows=20, max_contributions=4,
        set_name="insecure_n256_q133", insecure=True, options=CsvOptions(),
    ).study  # fmt: skip
    with open(server / "study.json", "wb") as stream:
        write_study(stream, study.doc)
    secret, public = flow.keygen(study)
    np.save(holder / "s.npy", secret.s)
    flow.write_keys(secret, public, str(holder))
    (server / "public.key").write_bytes((holder / "public.key").read_bytes())
    for k in range(2):
        flow.encrypt(study, data, public, str(server / f"{k}.bfvc"))
    return holder, server


@pytest.mark.slow
def test_no_byte_of_the_key_on_the_server(parties):
    holder, server = parties
    wanted = needles(np.load(holder / "s.npy"), flow.load_study(str(server / "study.json")).ps.primes)
    line, errors, dump = held(SERVER, server)
    opened, facts, *shown = json.loads(line)
    assert not [name for name in opened if "secret.key" in name]
    assert not [name for name in opened if str(holder) in name]
    assert {"public.key", "0.bfvc", "1.bfvc", "a.bfvp", "b.bfvp"} <= {Path(name).name for name in opened}
    for path in server.iterdir():  # all that it read and wrote
        assert hits(path.read_bytes(), wanted) == set(), path.name
    assert hits(line.encode() + errors, wanted) == set()
    assert len(facts) == 5
    assert not [text for text in map(str, [*facts, *shown]) if "noise" in text or "budget" in text]
    assert len(dump) > 1 << 20
    assert hits(dump, wanted) == set()


@pytest.mark.slow
def test_the_search_finds_a_key(parties):
    """In its file, and in a process that has it: else the test above would prove nothing."""
    holder, server = parties
    wanted = needles(np.load(holder / "s.npy"), flow.load_study(str(server / "study.json")).ps.primes)
    raw = (holder / "secret.key").read_bytes()
    assert hits(raw, wanted) == {"packed"}
    for shift in range(3):
        assert any("base64" in name for name in hits(base64.b64encode(bytes(shift) + raw), wanted))
    assert "packed hex" in hits(raw.hex().encode(), wanted)
    _, _, dump = held(HOLDER, holder, str(holder / "secret.key"))
    assert {"int8", "lifted ntt 0", "lifted ntt 4"} <= hits(dump, wanted)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("0.bfvc", ["compute", "bad", "--partial", "-o", "made"]),
        ("partial.bfvp", ["combine", "bad", "-o", "made"]),
        ("result.bfvr", ["decrypt", "bad", "--key", "secret.key"]),
    ],
)
def test_transparent_ciphertexts_are_refused(name, command, pybfv, write):
    kind, records = take_apart((GOLDEN / "slots" / name).read_bytes())
    tag, payload = records[-2]
    words = np.frombuffer(payload, "<u4").reshape(-1, 2, 2, 16).copy()
    write("secret.key", (GOLDEN / "slots" / "secret.key").read_bytes())
    (pybfv.folder / "secret.key").chmod(0o600)
    write("bad", put_together(kind, [*records[:-2], (tag, words.tobytes()), records[-1]]))
    sound = pybfv(*command)
    assert sound.returncode == 0, sound.stderr
    (pybfv.folder / "made").unlink(missing_ok=True)
    words[-1, 1] = 0
    write("bad", put_together(kind, [*records[:-2], (tag, words.tobytes()), records[-1]]))
    assert "not encrypted" in pybfv.refused(65, *command)


def test_data_that_are_all_zero(pybfv, write):
    """They encrypt like others, to ciphertexts that are not zero, and compute to zero."""
    data = write("zero.csv", "x,y\n" + "0,0\n" * 5)
    stats = ["--stat", "sum:x", "--stat", "mean:y", "--stat", "variance:x"]
    sizes = ["--bounds", "x=0:0", "--bounds", "y=-1:1", "--max-rows", "9", "--max-contributions", "2"]
    pybfv.ok("plan", data, *stats, *sizes, "--insecure", "--set", "insecure_n256_q133", "-o", "study.json")
    pybfv.ok("keygen", "study.json", "-o", "keys")
    pybfv.ok("encrypt", "study.json", data, "--key", "keys/public.key", "-o", "zero.bfvc")
    _, records = take_apart((pybfv.folder / "zero.bfvc").read_bytes())
    words = np.frombuffer(records[2][1], "<u4")
    assert np.count_nonzero(words) > 0.99 * len(words)
    pybfv.ok("compute", "zero.bfvc", "--key", "keys/public.key", "-o", "zero.bfvr")
    results = json.loads(pybfv.ok("decrypt", "zero.bfvr", "--key", "keys/secret.key", "--json"))["results"]
    assert [result["exact"] for result in results] == ["0/1", "0/1", "0/1"]
