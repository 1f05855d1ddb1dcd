"""Files: round trips, the format document, golden files, outputs, permissions."""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import os
import pickle
import re
import stat
import struct
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from pybfv import native
from pybfv.errors import DataError, KeyRefusedError, MissingInputError, OutputError, PybfvError
from pybfv.io import (
    ContributionReader,
    ContributionWriter,
    KeyPermissionWarning,
    Partial,
    PublicKey,
    Result,
    SecretKey,
    StudyDoc,
    atomic_output,
    canonical_bytes,
    describe,
    parse_canonical,
    parse_study,
    read_key,
    read_partial,
    read_public,
    read_result,
    read_secret,
    read_study,
    write_partial,
    write_public,
    write_result,
    write_secret,
    write_study,
)

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "vectors" / "golden"


def _load_maker():
    spec = importlib.util.spec_from_file_location("make_golden", GOLDEN / "make_golden.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


golden = _load_maker()


# ---- a second reader, written from FORMAT.md alone --------------------------------------------


def slow_crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def take_apart(data: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
    """(kind, [(tag, payload)]) of a file, all checksums recomputed bit by bit."""
    assert data[:8] == bytes.fromhex("89504246560d0a1a")
    version, kind, bound = struct.unpack("<HHI", data[8:16])
    assert version == 1 and bound == slow_crc32c(data[:12])
    records, at = [], 16
    while True:
        size = struct.unpack("<Q", data[at + 4 : at + 12])[0]
        body = data[at : at + 12 + size]
        (crc,) = struct.unpack("<I", data[at + 12 + size : at + 16 + size])
        assert crc == slow_crc32c(struct.pack("<IQ", bound, len(records)) + body)
        if not records:
            bound = crc
        records.append((body[:4], body[12:]))
        at += 16 + size
        if body[:4] == b"END ":
            assert at == len(data)
            assert struct.unpack("<Q", body[12:20])[0] == len(records) - 1
            return kind, records


def put_together(kind: int, records: list[tuple[bytes, bytes]], version: int = 1) -> bytes:
    """The inverse of take_apart: a file whose checksums are right, whatever it says."""
    data = b"\x89PBFV\r\n\x1a" + struct.pack("<HH", version, kind)
    bound = native.crc32c(data)
    data += struct.pack("<I", bound)
    for number, (tag, payload) in enumerate(records):
        body = tag + struct.pack("<Q", len(payload)) + payload
        crc = native.crc32c(struct.pack("<IQ", bound, number) + body)
        if number == 0:
            bound = crc
        data += body + struct.pack("<I", crc)
    return data


# ---- checksums, canonical JSON -----------------------------------------------------------------


def test_crc_is_castagnoli_and_continues():
    assert native.crc32c(b"123456789") == slow_crc32c(b"123456789") == 0xE3069283
    assert native.crc32c(b"6789", native.crc32c(b"12345")) == 0xE3069283
    words = np.arange(100, dtype=np.uint32)
    assert native.crc32c(memoryview(words).cast("B")) == slow_crc32c(words.tobytes())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": [1, -2, 0], "a": {}}, b'{"a":{},"b":[1,-2,0]}\n'),
        ({"é": "ß\x7f\x00\n\"\\/"}, b'{"\\u00e9":"\\u00df\\u007f\\u0000\\n\\"\\\\/"}\n'),
        ({"\U0001f600": 1, "\uffff": 2}, b'{"\\uffff":2,"\\ud83d\\ude00":1}\n'),
        ([True, False, None, "", 10**300], b'[true,false,null,"",1' + b"0" * 300 + b"]\n"),
    ],
)
def test_canonical_text(value, text):
    assert canonical_bytes(value) == text
    assert parse_canonical(text, "x") == value


@pytest.mark.parametrize(
    "value", [1.0, float("nan"), {"a": 0.5}, {1: 2}, np.int64(3), "\ud800", b"x", {"a": {1}}, 10**1000]
)
def test_values_without_canonical_form(value):
    with pytest.raises(DataError):
        canonical_bytes(value)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "not JSON"),
        (b"{}", "canonical form"),
        (b"{}\n\n", "canonical form"),
        (b" {}\n", "canonical form"),
        (b"{}\r\n", "canonical form"),
        (b'{"b":1,"a":2}\n', "canonical form"),
        (b'{"a": 1}\n', "canonical form"),
        (b'{"a":1,"a":1}\n', "twice"),
        (b'{"a":1.0}\n', "not an integer"),
        (b'{"a":1e3}\n', "not an integer"),
        (b'{"a":NaN}\n', "not an integer"),
        (b'{"a":-Infinity}\n', "not an integer"),
        (b'{"a":-0}\n', "canonical form"),
        (b'{"a":01}\n', "not JSON"),
        (b'{"a":"\\u0041"}\n', "canonical form"),
        (b'{"a":"\\u00E9"}\n', "canonical form"),
        (b'{"a":"\xc3\xa9"}\n', "not ASCII"),
        (b"\xef\xbb\xbf{}\n", "not ASCII"),
        (b'{"a":"\\ud800"}\n', "surrogate"),
        (b"[" * 33 + b"]" * 33 + b"\n", "deeper"),
        (b"[" * 500_000 + b"]" * 500_000 + b"\n", "deeper"),
        (b'{"a":' * 200_000, "deeper"),
        (b"[" + b"9" * 1001 + b"]\n", "digits"),
        (b"[" + b"9" * 1_000_000 + b"]\n", "digits"),
        (b'"' + b"x" * (1 << 20) + b'"\n', "at most"),
    ],
)
def test_texts_that_are_not_canonical(raw, words):
    with pytest.raises(DataError, match=words) as caught:
        parse_canonical(raw, "study.json")
    assert str(caught.value).startswith("study.json") and "\n" not in str(caught.value)


def test_nesting_up_to_the_limit():
    value: object = 0
    for _ in range(32):
        value = [value]
    assert parse_canonical(canonical_bytes(value), "x") == value


# ---- studies -----------------------------------------------------------------------------------


def test_study_round_trip(tmp_path):
    doc = golden.study()
    with atomic_output(tmp_path / "study.json") as stream:
        write_study(stream, doc)
    again = read_study(tmp_path / "study.json")
    assert again == doc and again.data == golden.STUDY and again.raw == doc.raw
    assert len(doc.hash) == 64 and hash(again) == hash(doc)
    assert StudyDoc.from_data(golden.STUDY | {"statistics": []}) != doc


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "is empty; this needs a study"),
        (b"[]\n", "not a study"),
        (b'{"format":"other","version":1}\n', "not a study"),
        (b'{"format":"pybfv-study"}\n', "version None; this pybfv reads version 1"),
        (b'{"format":"pybfv-study","version":2}\n', "version 2; this pybfv reads version 1"),
        (b'{"format":"pybfv-study","version":true}\n', "version True; this pybfv reads version 1"),
    ],
)
def test_documents_that_are_no_study(raw, words):
    with pytest.raises(DataError, match=words):
        parse_study(raw, "s.json")


def test_a_binary_file_is_no_study():
    with pytest.raises(DataError, match=r"partial.bfvp is a partial; this needs a study"):
        read_study(GOLDEN / "partial.bfvp")


def test_files_need_a_study_with_a_known_set():
    for data in ({"set": "n3_q5"}, {"set": 5}, {}):
        doc = StudyDoc.from_data({"format": "pybfv-study", "version": 1} | data)
        with pytest.raises(DataError, match="set"):
            PublicKey(doc, golden.N, golden.PRIMES, golden.SEED, golden.residues(salt=7))


# ---- keys --------------------------------------------------------------------------------------


def test_public_key_round_trip(tmp_path):
    key = golden.public_key()
    with atomic_output(tmp_path / "public.key") as stream:
        write_public(stream, key)
    for read in (read_public, read_key):
        again = read(tmp_path / "public.key")
        assert (again.key_id, again.study, again.seed) == (key.key_id, key.study, key.seed)
        assert (again.n, again.primes) == (golden.N, golden.PRIMES)
        assert np.array_equal(again.p0, key.p0)
    (tmp_path / "link.key").symlink_to(tmp_path / "public.key")
    assert read_public(tmp_path / "link.key").key_id == key.key_id
    assert "p0" not in repr(key) and key.key_id in repr(key)


def test_key_id_depends_on_all_of_the_key():
    doc, p0 = golden.study(), golden.residues(salt=7)
    other_study = StudyDoc.from_data(golden.STUDY | {"statistics": []})
    ids = {
        PublicKey(study, golden.N, golden.PRIMES, seed, x).key_id
        for study in (doc, other_study)
        for seed in (bytes(32), golden.SEED)
        for x in (p0, p0[:, ::-1])
    }
    assert len(ids) == 8


def test_public_key_that_does_not_fit():
    doc, p0 = golden.study(), golden.residues(salt=7)
    too_big = p0.copy()
    too_big[0, 3] = golden.PRIMES[0]
    for arguments in (
        (golden.N, golden.PRIMES, bytes(31), p0),
        (golden.N, golden.PRIMES, golden.SEED, p0.astype(np.uint64)),
        (golden.N, golden.PRIMES, golden.SEED, p0[:, :8]),
        (golden.N, golden.PRIMES[::-1], golden.SEED, p0),
        (32, golden.PRIMES, golden.SEED, p0),
        (golden.N, golden.PRIMES, golden.SEED, too_big),
    ):
        with pytest.raises(DataError):
            PublicKey(doc, *arguments)


def test_secret_key_round_trip(tmp_path):
    key = golden.secret_key()
    path = tmp_path / "secret.key"
    write_secret(path, key)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for read in (read_secret, read_key):
            again = read(path)
            assert np.array_equal(again.s, key.s) and again.s.dtype == np.int8
            assert (again.key_id, again.study_hash, again.set_name, again.n) == (
                key.key_id,
                key.study_hash,
                key.set_name,
                key.n,
            )


def test_secret_key_shows_and_gives_nothing():
    key = golden.secret_key()
    for text in (repr(key), str(key), f"{[key]}"):
        assert "array" not in text and "-1" not in text and key.key_id in text
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(KeyRefusedError):
            attempt(key)


def test_secret_key_that_does_not_fit():
    good = golden.secret_key()
    for s in (good.s * 2, good.s[:8], good.s.astype(np.int64)):
        with pytest.raises(DataError):
            SecretKey(good.study_hash, good.key_id, good.set_name, good.n, s)
    with pytest.raises(DataError):
        SecretKey(good.study_hash, good.key_id, good.set_name, 32, good.s)
    with pytest.raises(DataError):
        SecretKey("x", good.key_id, good.set_name, good.n, good.s)


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_secret_key_is_private_from_creation(tmp_path, umask, monkeypatch):
    made = []
    real_open = os.open

    def watching(path, flags, mode=0o777, **kwargs):
        fd = real_open(path, flags, mode, **kwargs)
        if flags & os.O_CREAT:
            made.append((stat.S_IMODE(os.fstat(fd).st_mode), bool(flags & os.O_EXCL and flags & os.O_NOFOLLOW)))
        return fd

    monkeypatch.setattr(os, "open", watching)
    before = os.umask(umask)
    try:
        write_secret(tmp_path / "secret.key", golden.secret_key())
    finally:
        os.umask(before)
    assert made == [(0o600, True)]
    assert stat.S_IMODE((tmp_path / "secret.key").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["secret.key"]


def test_secret_key_is_never_overwritten(tmp_path):
    path = tmp_path / "secret.key"
    path.write_bytes(b"precious")
    with pytest.raises(OutputError, match="never overwritten"):
        write_secret(path, golden.secret_key())
    assert path.read_bytes() == b"precious" and len(os.listdir(tmp_path)) == 1
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError):
        write_secret(tmp_path / "dangling", golden.secret_key())
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(OutputError):
        write_secret("-", golden.secret_key())


def test_secret_key_through_a_link_or_open_to_others(tmp_path):
    path = tmp_path / "secret.key"
    write_secret(path, golden.secret_key())
    (tmp_path / "link.key").symlink_to(path)
    for read in (read_key, read_secret):
        with pytest.raises(KeyRefusedError, match="symbolic link"):
            read(tmp_path / "link.key")
    path.chmod(0o640)
    with pytest.warns(KeyPermissionWarning, match="chmod 600"):
        read_secret(path)


def test_wrong_kind_of_key(tmp_path):
    write_secret(tmp_path / "secret.key", golden.secret_key())
    with pytest.raises(KeyRefusedError, match="is a secret key; this needs a public key"):
        read_public(tmp_path / "secret.key")
    with pytest.raises(KeyRefusedError, match="is a public key; this needs a secret key"):
        read_secret(GOLDEN / "public.key")
    with pytest.raises(DataError, match=r"result.bfvr is a result; this needs a public key"):
        read_key(GOLDEN / "result.bfvr")


# ---- contributions -----------------------------------------------------------------------------


def write_contribution(stream, mode: str, rows: int, per_block: int = 3) -> list[tuple[np.ndarray, ...]]:
    writer = ContributionWriter(
        stream, golden.study(), "a" * 32, "b" * 32, mode, golden.N, golden.PRIMES, per_block
    )
    blocks = []
    for k in range(-(-rows // golden.N)):
        if mode == "public":
            blocks.append((golden.residues(per_block, 2, salt=100 + k),))
            writer.block(*blocks[-1])
        else:
            seeds = np.arange(32 * per_block, dtype=np.uint8).reshape(per_block, 32) + np.uint8(k)
            blocks.append((seeds, golden.residues(per_block, salt=200 + k)))
            writer.symmetric_block(*blocks[-1])
    writer.close(rows, 5)
    return blocks


@pytest.mark.parametrize("mode", ["public", "symmetric"])
@pytest.mark.parametrize("rows", [1, 15, 16, 17, 100])
@pytest.mark.parametrize("piped", [False, True])
def test_contribution_round_trip(tmp_path, monkeypatch, mode, rows, piped):
    path = tmp_path / "x.bfvc"
    with atomic_output(path) as stream:
        blocks = write_contribution(stream, mode, rows)
    if piped:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(path.read_bytes())))
    with ContributionReader("-" if piped else path) as reader:
        assert (reader.study, reader.key_id, reader.contribution_id) == (golden.study(), "a" * 32, "b" * 32)
        assert (reader.mode, reader.per_block, reader.n, reader.primes) == (mode, 3, golden.N, golden.PRIMES)
        assert reader.origin == ("standard input" if piped else str(path))
        assert reader.rows is None
        out = np.empty(reader.block_shape, dtype=np.uint32)
        seeds = np.empty((3, 32), dtype=np.uint8)
        for block in blocks:
            if mode == "public":
                assert reader.read_block(out)
            else:
                assert reader.read_block(out, seeds)
                assert np.array_equal(seeds, block[0])
            assert np.array_equal(out, block[-1])
        for _ in range(2):
            assert not reader.read_block(out, *([] if mode == "public" else [seeds]))
        assert (reader.rows, reader.dropped, reader.blocks) == (rows, 5, len(blocks))


def test_contribution_through_a_real_pipe(tmp_path):
    script = (
        "import sys, numpy as np\n"
        "from pybfv.io import ContributionReader\n"
        "with ContributionReader('-') as r:\n"
        "    out = np.empty(r.block_shape, dtype=np.uint32)\n"
        "    while r.read_block(out): pass\n"
        "    print(r.rows, r.dropped, r.blocks)\n"
    )
    stream = io.BytesIO()
    write_contribution(stream, "public", 4000)
    done = subprocess.run(
        [sys.executable, "-c", script], input=stream.getvalue(), capture_output=True, cwd=ROOT, check=True
    )
    assert done.stdout.split() == [b"4000", b"5", b"250"]


def test_contribution_writer_refuses_what_does_not_fit():
    def writer(mode="public", n=golden.N, primes=golden.PRIMES, per_block=1, key_id="a" * 32):
        return ContributionWriter(io.BytesIO(), golden.study(), key_id, "b" * 32, mode, n, primes, per_block)

    block = golden.residues(1, 2, salt=1)
    for wrong in ({"mode": "none"}, {"n": 32}, {"primes": (97,)}, {"per_block": 0}, {"key_id": "A" * 32}):
        with pytest.raises(DataError):
            writer(**wrong)
    with pytest.raises(DataError, match="beyond the format's limit"):
        writer(per_block=1 << 24)
    for wrong in (block.astype(np.int64), block[0], golden.residues(2, 2, salt=1)):
        with pytest.raises(DataError):
            writer().block(wrong)
    with pytest.raises(DataError):
        writer(mode="symmetric").block(block)
    with pytest.raises(DataError):
        writer().symmetric_block(np.zeros((1, 32), dtype=np.uint8), block[:, 0])
    for rows in (0, 17, -1, 1.5, True):
        made = writer()
        made.block(block)
        with pytest.raises(DataError):
            made.close(rows)
    with pytest.raises(DataError):
        writer().close(1)


def test_contribution_reader_refuses_other_buffers(tmp_path):
    with ContributionReader(GOLDEN / "public.bfvc") as reader:
        shape = reader.block_shape
        for out in (
            np.empty(shape, dtype=np.int32),
            np.empty(shape[1:], dtype=np.uint32),
            np.empty(shape[::-1], dtype=np.uint32).T,
        ):
            with pytest.raises(DataError):
                reader.read_block(out)
        with pytest.raises(DataError):
            reader.read_block(np.empty(shape, dtype=np.uint32), np.empty((2, 32), dtype=np.uint8))
        assert reader.read_block(np.empty(shape, dtype=np.uint32))


def test_reading_takes_no_memory_for_blocks(tmp_path):
    path = tmp_path / "x.bfvc"
    with atomic_output(path) as stream:
        write_contribution(stream, "public", 16 * 300, per_block=8)
    with ContributionReader(path) as reader:
        out = np.empty(reader.block_shape, dtype=np.uint32)
        reader.read_block(out)
        tracemalloc.start()
        while reader.read_block(out):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 20_000 < path.stat().st_size


# ---- partials and results ----------------------------------------------------------------------


def test_partial_round_trip(tmp_path):
    made = golden.partial()
    with atomic_output(tmp_path / "x.bfvp") as stream:
        write_partial(stream, made)
    again = read_partial(tmp_path / "x.bfvp")
    for name in ("study", "key_id", "contribution_ids", "rows", "dropped", "ciphertexts", "contributions"):
        assert getattr(again, name) == getattr(made, name)
    assert again.accumulators.keys() == made.accumulators.keys()
    for name, array in made.accumulators.items():
        assert np.array_equal(again.accumulators[name], array)


def test_equal_partials_are_equal_bytes():
    made = golden.partial()
    turned = Partial(
        made.study, made.key_id, made.contribution_ids, np.int64(made.rows), made.dropped, made.ciphertexts,
        {name: np.asfortranarray(x) for name, x in reversed(made.accumulators.items())},
    )  # fmt: skip
    streams = io.BytesIO(), io.BytesIO()
    for stream, one in zip(streams, (made, turned), strict=True):
        write_partial(stream, one)
    assert streams[0].getvalue() == streams[1].getvalue()


def changed(made, **changes):
    names = [name for name in made.__dataclass_fields__ if name != "params"]
    return type(made)(**({name: getattr(made, name) for name in names} | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"contribution_ids": ("f" * 32, "0" * 32)},
        {"contribution_ids": ("f" * 32, "f" * 32)},
        {"contribution_ids": ()},
        {"contribution_ids": ("x" * 32,)},
        {"rows": 1},
        {"rows": 0},
        {"ciphertexts": 1},
        {"ciphertexts": 4},
        {"dropped": -1},
        {"key_id": "0"},
        {"accumulators": {}},
        {"accumulators": {"": golden.residues(2, salt=1)}},
        {"accumulators": {"a": golden.residues(1, salt=1)}},
        {"accumulators": {"a": golden.residues(9, salt=1)}},
        {"accumulators": {"a": golden.residues(2, salt=1).astype(np.int64)}},
        {"accumulators": {"a": golden.residues(2, salt=1)[:, :1]}},
        {"accumulators": {"a": golden.residues(2, salt=1) + np.uint32(2**27)}},
        {"accumulators": {"a": golden.residues(2, salt=1) * np.uint32([1, 0])[:, None, None]}},
    ],
)
def test_partials_that_do_not_fit(changes):
    changed(golden.partial())
    with pytest.raises(DataError):
        changed(golden.partial(), **changes)


@pytest.mark.parametrize(("rows", "contributions"), [(23, 2), (1, 1), (64, 3), (5, 5), (100, 7)])
def test_ciphertext_counts_that_contributions_can_have(rows, contributions):
    def splits(left: int, parts: int):
        if parts == 1:
            yield [left]
            return
        for first in range(1, left - parts + 2):
            for rest in splits(left - first, parts - 1):
                yield [first, *rest]

    n = golden.N
    if contributions <= 3 or rows == contributions:
        possible = {sum(-(-r // n) for r in split) for split in splits(rows, contributions)}
    else:
        possible = {max(contributions, -(-rows // n)), contributions + (rows - contributions) // n}
    ids = tuple(f"{k:032x}" for k in range(contributions))
    for u in range(1, rows + 3):
        if u in possible or min(possible) < u < max(possible):
            assert changed(golden.partial(), rows=rows, contribution_ids=ids, ciphertexts=u).ciphertexts == u
        else:
            with pytest.raises(DataError):
                changed(golden.partial(), rows=rows, contribution_ids=ids, ciphertexts=u)


def test_result_round_trip(tmp_path):
    made = golden.result()
    with atomic_output(tmp_path / "x.bfvr") as stream:
        write_result(stream, made)
    again = read_result(tmp_path / "x.bfvr")
    for name in Result.__dataclass_fields__:
        if name != "ciphertexts":
            assert getattr(again, name) == getattr(made, name)
    assert np.array_equal(again.ciphertexts["sum.0.0"], made.ciphertexts["sum.0.0"])


@pytest.mark.parametrize(
    "changes",
    [
        {"reveal": "all"},
        {"product": ""},
        {"packing": None},
        {"flood_bits": 1.5},
        {"flood_bits": 1 << 20},
        {"rows": 0},
        {"contributions": 24},
        {"backend": {"name": "cpu"}},
        {"backend": golden.result().backend | {"name": None}},
        {"backend": golden.result().backend | {"threads": "2"}},
        {"backend": golden.result().backend | {"threads": -1}},
        {"backend": golden.result().backend | {"extra": 1}},
        {"backend": None},
        {"ciphertexts": {}},
    ],
)
def test_results_that_do_not_fit(changes):
    changed(golden.result())
    with pytest.raises(DataError):
        changed(golden.result(), **changes)


# ---- golden files and the format document ------------------------------------------------------


def test_the_code_still_writes_the_golden_files():
    now = golden.contents()
    assert set(now) == {path.name for path in GOLDEN.iterdir() if path.is_file() and path.suffix != ".py"}
    for name, data in now.items():
        assert (GOLDEN / name).read_bytes() == data, f"{name}: a format change needs a new version"


def test_golden_files_are_read():
    assert read_study(GOLDEN / "study.json").data == golden.STUDY
    assert np.array_equal(read_public(GOLDEN / "public.key").p0, golden.residues(salt=7))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KeyPermissionWarning)
        assert np.array_equal(read_secret(GOLDEN / "secret.key").s, golden.secret_key().s)
    with ContributionReader(GOLDEN / "public.bfvc") as reader:
        out = np.empty(reader.block_shape, dtype=np.uint32)
        for salt in (1, 2):
            assert reader.read_block(out) and np.array_equal(out, golden.residues(2, 2, salt=salt))
        assert not reader.read_block(out) and (reader.rows, reader.dropped) == (20, 1)
    with ContributionReader(GOLDEN / "symmetric.bfvc") as reader:
        out, seeds = np.empty(reader.block_shape, dtype=np.uint32), np.empty((1, 32), dtype=np.uint8)
        assert reader.read_block(out, seeds) and np.array_equal(out, golden.residues(1, salt=3))
        assert seeds.tobytes() == golden.SEED and not reader.read_block(out, seeds)
    assert np.array_equal(
        read_partial(GOLDEN / "partial.bfvp").accumulators["sum.0.0"], golden.residues(2, salt=11)
    )
    assert read_result(GOLDEN / "result.bfvr").flood_bits == 9


def test_golden_files_by_the_document_alone():
    kinds = {"secret.key": 1, "public.key": 2, "public.bfvc": 3, "partial.bfvp": 4, "result.bfvr": 5}
    tags = {
        1: [b"HEAD", b"SECR"],
        2: [b"HEAD", b"STDY", b"PUBK"],
        3: [b"HEAD", b"STDY", b"BLCK", b"BLCK"],
        4: [b"HEAD", b"STDY", b"CIDS", b"ACCU", b"ACCU"],
        5: [b"HEAD", b"STDY", b"CTXT"],
    }
    for name, expected in kinds.items():
        kind, records = take_apart((GOLDEN / name).read_bytes())
        assert kind == expected and [tag for tag, _ in records] == [*tags[kind], b"END "]
        header = json.loads(records[0][1])
        assert (header["n"], header["primes"], header["insecure"]) == (16, list(golden.PRIMES), True)
    block = take_apart((GOLDEN / "public.bfvc").read_bytes())[1][3][1]
    assert np.array_equal(np.frombuffer(block, "<u4"), golden.residues(2, 2, salt=2).reshape(-1))
    packed = take_apart((GOLDEN / "secret.key").read_bytes())[1][1][1]
    codes = [(packed[j // 4] >> (2 * (j % 4))) & 3 for j in range(16)]
    assert [{0: 0, 1: 1, 2: -1}[c] for c in codes] == golden.secret_key().s.tolist()


def section(number: int) -> str:
    text = (ROOT / "pybfv" / "io" / "FORMAT.md").read_text(encoding="utf-8")
    return text.split(f"\n## {number}. ")[1].split("\n## ")[0].split("```")[1].strip("\n")


def test_the_documents_example_is_what_the_code_writes():
    listing = section(10)
    data = bytearray()
    for line in listing.splitlines():
        offset, hexadecimal = re.match(r"([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)  ", line + "  ").groups()
        assert int(offset, 16) == len(data)
        data += bytes.fromhex(hexadecimal)
    assert bytes(data) == (GOLDEN / "symmetric.bfvc").read_bytes()
    assert listing == golden.document_example()


def test_the_documents_expansion():
    facts = json.loads((GOLDEN / "expansion.json").read_text())
    listed = [int(word) for word in re.sub(r"mod \d+:", "", section(9)).split()]
    assert listed == [v for values in facts["residues"] for v in values]
    # Counter mode by hand: one encrypted counter block after the other.
    cipher = Cipher(algorithms.AES(bytes.fromhex(facts["seed"])), modes.ECB()).encryptor()  # noqa: S305
    for i, p in enumerate(facts["primes"]):
        start = int.from_bytes(i.to_bytes(4, "little") + bytes(12), "big")
        stream = b"".join(cipher.update((start + k).to_bytes(16, "big")) for k in range(40))
        words = [int.from_bytes(stream[k : k + 4], "little") for k in range(0, len(stream), 4)]
        values = [w % 2 ** len(f"{p:b}") for w in words]
        assert [v for v in values if v < p][: facts["n"]] == facts["residues"][i]


# ---- inspect -----------------------------------------------------------------------------------


def test_describe_every_kind(monkeypatch):
    common = {
        "version": 1,
        "study": golden.study().hash,
        "statistics": ["count"],
        "set": "insecure_n16_q53",
        "insecure": True,
        "ring_dimension": 16,
    }
    key = golden.public_key().key_id
    expected = {
        "study.json": {"kind": "study"},
        "public.key": {"kind": "public key", "key": key},
        "public.bfvc": {"kind": "contribution", "key": key, "rows": 20, "dropped_rows": 1, "contributions": 1,
                        "blocks": 2, "mode": "public", "ciphertexts_per_block": 2},
        "symmetric.bfvc": {"kind": "contribution", "rows": 3, "mode": "symmetric"},
        "partial.bfvp": {"kind": "partial", "key": key, "rows": 23, "contributions": 2, "ciphertexts": 3,
                         "contents": ["product.0.1.0", "sum.0.0"]},
        "result.bfvr": {"kind": "result", "key": key, "rows": 23, "dropped_rows": 2, "contributions": 2,
                        "reveal": "totals", "backend": golden.result().backend},
    }  # fmt: skip
    for name, facts in expected.items():
        found = describe(GOLDEN / name)
        assert found | common | facts == found
        json.dumps(found, allow_nan=False)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO((GOLDEN / name).read_bytes())))
        assert describe("-") == found | {"file": "standard input"}
    with pytest.raises(KeyRefusedError, match=r"secret.key is a secret key"):
        describe(GOLDEN / "secret.key")


def test_describe_does_not_read_the_contents(tmp_path):
    path = tmp_path / "x.bfvc"
    with atomic_output(path) as stream:
        write_contribution(stream, "public", 16 * 500, per_block=8)
    tracemalloc.start()
    assert describe(path)["rows"] == 8000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000 < path.stat().st_size


# ---- outputs -----------------------------------------------------------------------------------


def test_output_appears_whole(tmp_path):
    path = tmp_path / "out"
    with atomic_output(path) as stream:
        stream.write(b"abc")
        stream.write(memoryview(b"def"))
        assert not path.exists()
    assert path.read_bytes() == b"abcdef" and os.listdir(tmp_path) == ["out"]
    before = os.umask(0o022)
    with atomic_output(tmp_path / "two"):
        pass
    os.umask(before)
    assert stat.S_IMODE((tmp_path / "two").stat().st_mode) == 0o644


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, DataError])
@pytest.mark.parametrize("force", [False, True])
def test_a_failed_output_leaves_nothing(tmp_path, error, force):
    path = tmp_path / "out"
    if force:
        path.write_bytes(b"old")
    with pytest.raises(error), atomic_output(path, force=force) as stream:
        stream.write(b"new")
        raise error
    assert os.listdir(tmp_path) == (["out"] if force else [])
    assert not force or path.read_bytes() == b"old"


def test_output_that_exists(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(OutputError, match="exists: give --force or another name"), atomic_output(path):
        pytest.fail("entered")
    assert path.read_bytes() == b"old"
    with atomic_output(path, force=True) as stream:
        stream.write(b"new")
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("links", [True, False])
def test_output_that_appears_meanwhile(tmp_path, monkeypatch, links):
    def no_links(*_args, **_kwargs):
        raise PermissionError(1, "no links here")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
        with atomic_output(tmp_path / "first") as stream:
            stream.write(b"x")
        assert (tmp_path / "first").read_bytes() == b"x"
        (tmp_path / "first").unlink()
    path = tmp_path / "out"
    with pytest.raises(OutputError, match="exists"), atomic_output(path) as stream:
        stream.write(b"ours")
        path.write_bytes(b"theirs")
    assert path.read_bytes() == b"theirs" and os.listdir(tmp_path) == ["out"]


def test_outputs_that_cannot_be(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("folder", "folder/", "new/", "missing/out", "file/out", "fifo", "loop/out", "x" * 300, "null"):
        with pytest.raises(OutputError) as caught, atomic_output(f"{tmp_path}/{name}"):
            pytest.fail(f"entered for {name}")
        assert "\n" not in str(caught.value)
    for name in ("folder", "fifo", "null"):
        with pytest.raises(OutputError), atomic_output(tmp_path / name, force=True):
            pytest.fail(f"entered for {name}")
    for name in ("", "a\0b"):
        with pytest.raises(OutputError), atomic_output(name):
            pytest.fail("entered")
    assert sorted(os.listdir(tmp_path)) == ["fifo", "file", "folder", "loop", "null"]


def test_a_full_disk_is_an_output_error(tmp_path, monkeypatch):
    def full(_fd):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match="No space left"), atomic_output(tmp_path / "out") as stream:
            stream.write(b"x")
    with open("/dev/full", "wb", buffering=0) as raw:
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=raw))
        with pytest.raises(OutputError, match="standard output.*No space left"), atomic_output("-") as stream:
            stream.write(b"x")
    assert os.listdir(tmp_path) == []


def test_standard_output(monkeypatch):
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=buffer))
    with atomic_output("-") as stream:
        write_partial(stream, golden.partial())
    assert buffer.getvalue() == (GOLDEN / "partial.bfvp").read_bytes() and not buffer.closed


UNPRIVILEGED = """
import os, sys
from pybfv.errors import MissingInputError, OutputError
from pybfv.io import atomic_output, read_partial, read_study
folder = sys.argv[1]
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    with atomic_output(folder + "/closed/out"): print("wrote")
except OutputError as exc:
    print(exc)
for read in (read_partial, read_study):
    try:
        read(folder + "/unreadable"); print("read")
    except MissingInputError as exc:
        print(exc)
"""


def test_permissions_are_respected(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    (tmp_path / "unreadable").write_bytes(b"{}\n")
    (tmp_path / "unreadable").chmod(0)
    folder = tmp_path
    while os.getuid() == 0 and folder != folder.parent and str(folder) != "/tmp":  # noqa: S108
        if folder.stat().st_uid == 0 and stat.S_IMODE(folder.stat().st_mode) & 0o005 != 0o005:
            folder.chmod(0o755)
        folder = folder.parent
    done = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, str(tmp_path)], capture_output=True, text=True, cwd=ROOT, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and all(line.startswith(str(tmp_path)) for line in lines)
    assert "can't be written: Permission denied" in lines[0]
    assert "can't be read: Permission denied" in lines[1] and "can't be read" in lines[2]


def test_refusals_are_one_line(tmp_path):
    odd = tmp_path / "a\nb\x1b[31m\udcff"
    with pytest.raises(MissingInputError) as caught:
        read_partial(odd)
    assert str(caught.value).isprintable() and isinstance(caught.value, PybfvError)
