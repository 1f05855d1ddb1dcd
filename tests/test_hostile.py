"""Hostile files: every bit, every length, every count, every kind of thing that is no file."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from io_tools import SAMPLES, put_together, samples, take_apart, write_contribution

from pybfv.errors import DataError, KeyRefusedError, MissingInputError, PybfvError
from pybfv.io import (
    ContributionReader,
    canonical_bytes,
    describe,
    read_partial,
    read_public,
    read_result,
    read_study,
)
from pybfv.io.secret_key import KeyPermissionWarning, read_key, read_secret

FILES = [
    "study.json",
    "public.key",
    "secret.key",
    "public.bfvc",
    "symmetric.bfvc",
    "partial.bfvp",
    "result.bfvr",
]
BINARY = FILES[1:]
QUICK = ("study.json", "secret.key", "symmetric.bfvc")
SLOWLY = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FILES]
COUNTS = [0, 1 << 31, 1 << 63, (1 << 64) - 1]


def read_contribution(path) -> int:
    with ContributionReader(path) as reader:
        out = np.empty(reader.block_shape, dtype=np.uint32)
        seeds = np.empty((reader.per_block, 32), dtype=np.uint8) if reader.mode == "symmetric" else None
        drain(reader, out, seeds)
        return reader.rows


def drain(reader: ContributionReader, *arrays) -> None:
    while reader.read_block(*arrays):
        pass


def reader_of(name: str) -> Callable:
    by_suffix = {".json": read_study, ".bfvc": read_contribution, ".bfvp": read_partial, ".bfvr": read_result}
    return {"public.key": read_public, "secret.key": read_secret}.get(name) or by_suffix[Path(name).suffix]


@pytest.fixture
def piped(monkeypatch):
    """A function that reads bytes as standard input."""

    def read(reader: Callable, data: bytes):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        return reader("-")

    return read


@pytest.fixture
def filed(tmp_path):
    """A function that reads bytes as a file."""
    path = tmp_path / "hostile"

    def read(reader: Callable, data: bytes):
        path.write_bytes(data)
        path.chmod(0o600)
        return reader(path)

    return read


def refused(read: Callable, reader: Callable, data: bytes, *errors: type[PybfvError]) -> str:
    """Asserts a refusal of one printable line that names the input; the message."""
    with pytest.raises(errors or DataError) as caught:
        read(reader, data)
    message = str(caught.value)
    assert message.isprintable(), message
    assert "hostile" in message or "standard input" in message, message
    return message


# ---- damage


@pytest.mark.parametrize("name", SLOWLY)
def test_every_bit(name, piped):
    data = bytearray((SAMPLES / name).read_bytes())
    read = reader_of(name)
    piped(read, bytes(data))
    if name == "study.json":  # a study has no checksum: what is still a study is another study
        known = read_study(SAMPLES / name).hash
    for at in range(len(data)):
        for bit in range(8):
            data[at] ^= 1 << bit
            try:
                found = piped(read, bytes(data))
            except DataError:
                pass
            else:
                assert name == "study.json", (at, bit)
                assert found.hash != known, (at, bit)
            data[at] ^= 1 << bit


@pytest.mark.parametrize("name", SLOWLY)
def test_every_truncation(name, piped, filed):
    data = (SAMPLES / name).read_bytes()
    for size in range(len(data)):
        for read in (piped, filed):
            refused(read, reader_of(name), data[:size])


@pytest.mark.parametrize("name", [n for n in BINARY if n != "secret.key"])
def test_describe_refuses_truncated_and_lengthened_files(name, piped, filed):
    data = (SAMPLES / name).read_bytes()
    for size in range(len(data)):
        refused(filed, describe, data[:size])
        if size % 7 == 0:
            refused(piped, describe, data[:size])
    for more in (b"\0", data, data[:48], data[-48:]):
        for read in (piped, filed):
            refused(read, describe, data + more)


@pytest.mark.parametrize("name", BINARY)
def test_trailing_bytes_and_concatenation(name, piped, filed):
    data = (SAMPLES / name).read_bytes()
    for more in (b"\0", b"\n", data, data[-48:]):
        for read in (piped, filed):
            assert "after its end" in refused(read, reader_of(name), data + more)


def test_records_that_were_moved(piped):
    kind, records = take_apart((SAMPLES / "public.bfvc").read_bytes())
    data = (SAMPLES / "public.bfvc").read_bytes()
    size = 16 + len(records[2][1])
    first = 16 + sum(16 + len(payload) for _, payload in records[:2])
    one, two = data[first : first + size], data[first + size : first + 2 * size]
    assert data == data[:first] + one + two + data[first + 2 * size :]
    # The pieces are sound; their places, their number or their file are not.
    for middle in (two + one, one + one, one, two, one + two + two):
        refused(piped, read_contribution, data[:first] + middle + data[first + 2 * size :])
    other = bytearray(records[0][1].replace(b"00112233", b"99112233"))
    foreign = put_together(kind, [(b"HEAD", bytes(other)), *records[1:]])
    piped(read_contribution, foreign)
    refused(piped, read_contribution, data[:first] + foreign[first : first + size] + data[first + size :])


def test_a_reader_does_not_go_on_after_damage(tmp_path):
    data = bytearray((SAMPLES / "public.bfvc").read_bytes())
    size = 16 + len(take_apart(bytes(data))[1][2][1])
    data[-48 - size - 20] ^= 1  # inside the first of two blocks
    (tmp_path / "x").write_bytes(data)
    with ContributionReader(tmp_path / "x") as reader:
        out = np.empty(reader.block_shape, dtype=np.uint32)
        for _ in range(3):
            with pytest.raises(DataError):
                reader.read_block(out)
        assert reader.rows is None


# ---- lies with sound checksums


def end(records: int, rows: int = 0, dropped: int = 0, blocks: int = 0) -> tuple[bytes, bytes]:
    return b"END ", struct.pack("<QQQQ", records, rows, dropped, blocks)


@pytest.mark.parametrize("name", BINARY)
def test_counts_at_the_end(name, piped, filed):
    kind, records = take_apart((SAMPLES / name).read_bytes())
    true = struct.unpack("<QQQQ", records[-1][1])
    for place in range(4):
        for count in COUNTS:
            counts = list(true)
            counts[place] = count
            data = put_together(kind, [*records[:-1], (b"END ", struct.pack("<QQQQ", *counts))])
            for read in (piped, filed):
                if tuple(counts) == true or (name.endswith(".bfvc") and place == 2 and count < 1 << 63):
                    read(reader_of(name), data)  # how many rows were dropped is the contributor's word
                else:
                    refused(read, reader_of(name), data)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("size", [*COUNTS, 1 << 30, 5])
def test_record_lengths(name, size, piped, filed):
    data = bytearray((SAMPLES / name).read_bytes())
    at = 16
    while at < len(data):
        true = struct.unpack_from("<Q", data, at + 4)[0]
        struct.pack_into("<Q", data, at + 4, size)
        for read in (piped, filed):
            tracemalloc.start()
            message = refused(read, reader_of(name), bytes(data))
            assert size <= 1 << 30 or f"claims {size} bytes" in message
            assert tracemalloc.get_traced_memory()[1] < 1_500_000
            tracemalloc.stop()
        struct.pack_into("<Q", data, at + 4, true)
        at += 16 + true


@pytest.mark.parametrize(("rows", "blocks"), [(100, 7), (5, 1), (0, 0), (0, 2), (20, 1), (16, 2), (33, 2)])
def test_rows_and_blocks(rows, blocks, piped, filed):
    kind, records = take_apart((SAMPLES / "public.bfvc").read_bytes())  # two blocks
    for middle in (records[:-1], records[:2]):
        data = put_together(kind, [*middle, end(len(middle), rows, 0, blocks)])
        for reader in (read_contribution, describe):
            refused(filed, reader, data)
        refused(piped, read_contribution, data)


def with_header(name: str, **changes) -> bytes:
    kind, records = take_apart((SAMPLES / name).read_bytes())
    header = json.loads(records[0][1]) | changes
    header = {key: value for key, value in header.items() if value is not ...}
    return put_together(kind, [(b"HEAD", canonical_bytes(header)), *records[1:]])


WRONG_VALUES = [
    ...,
    None,
    [],
    {},
    "",
    "x",
    True,
    -1,
    0,
    1,
    1 << 31,
    1 << 63,
    1 << 64,
    10**400,
    "0" * 32,
    "0" * 64,
]
"""For every header field; ... leaves it out."""


def plausible(name: str, field: str) -> list:
    """Those of WRONG_VALUES that a file alone can't show to be wrong."""
    words = {
        "packing": ["x", "0" * 32, "0" * 64],
        "product": ["x", "0" * 32, "0" * 64],
        "flood_bits": [-1, 0, 1],
    }
    ids = {"contribution_id": ["0" * 32], "key_id": [] if name == "public.key" else ["0" * 32]}
    by_file = {"secret.key": {"study_hash": ["0" * 64]}, "result.bfvr": {"contributions": [1]}}
    return (words | ids | by_file.get(name, {})).get(field, [])


@pytest.mark.parametrize("name", BINARY)
def test_header_fields(name, piped, filed):
    header = json.loads(take_apart((SAMPLES / name).read_bytes())[1][0][1])
    piped(reader_of(name), with_header(name))
    refused(piped, reader_of(name), with_header(name, surplus=1))
    assert "n64" in refused(piped, reader_of(name), with_header(name, set="unheard_of"))
    for field, value in header.items():
        for other in WRONG_VALUES:
            data = with_header(name, **{field: other})
            for read in (piped, filed):
                if any(type(other) is type(good) and other == good for good in (value, *plausible(name, field))):
                    read(reader_of(name), data)
                else:
                    refused(read, reader_of(name), data)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "field"), [("partial.bfvp", "accumulators"), ("result.bfvr", "ciphertexts")])
def test_lists_of_ciphertexts(name, field, piped, filed):
    for entries in (
        [["a", 2], ["a", 2]],
        [["b", 2], ["a", 2]],
        [["a", 2, 3]],
        [["a"]],
        ["a"],
        [[2, "a"]],
        [["a", 1]],
        [["a", 9]],
        [["a", True]],
        [["", 2]],
        [["a" * 1025, 2]],
        [[f"{k:08d}", 8] for k in range(30_000)],
    ):
        data = with_header(name, **{field: entries})
        for read in (piped, filed):
            tracemalloc.start()
            refused(read, reader_of(name), data)
            assert tracemalloc.get_traced_memory()[1] < 20_000_000
            tracemalloc.stop()


def test_announced_sizes_are_not_allocated(piped, filed):
    data = with_header("public.bfvc", per_block=(1 << 30) // 256)
    for read in (piped, filed):
        tracemalloc.start()
        with pytest.raises(DataError):
            read(read_contribution, data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # The largest block that the format has: numpy reserves it, and no byte of it is ever touched.
        assert peak < 1 << 20 or (read is piped and peak < (1 << 30) + (1 << 20))
    assert "more than it can hold" in refused(filed, read_contribution, data)
    data = with_header("public.bfvc", per_block=(1 << 30) // 256 + 1)
    assert "more than it can hold" in refused(piped, read_contribution, data)


def test_many_contribution_ids_are_not_allocated(piped, filed):
    many = 1 << 24
    data = with_header("partial.bfvp", contributions=many, rows=many, ciphertexts=many)
    kind, records = take_apart(data)
    for read in (piped, filed):
        tracemalloc.start()
        refused(read, read_partial, put_together(kind, records))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()


def test_a_contribution_named_twice_in_a_partial(piped):
    kind, records = take_apart((SAMPLES / "partial.bfvp").read_bytes())
    for ids in (records[2][1][:16] * 2, records[2][1][16:] + records[2][1][:16]):
        data = put_together(kind, [*records[:2], (b"CIDS", ids), *records[3:]])
        assert "sorted and distinct" in refused(piped, read_partial, data)


@pytest.mark.parametrize("name", [n for n in BINARY if n != "secret.key"])
def test_residues_and_transparency(name, piped):
    kind, records = take_apart((SAMPLES / name).read_bytes())
    at = len(records) - 2
    tag, payload = records[at]
    words = np.frombuffer(payload, dtype="<u4").copy()
    for place in (len(words) - 1, len(words) - 20, len(words) - 32):
        for value in (samples.PRIMES[1], 0xFFFFFFFF):
            bad = words.copy()
            bad[place] = value
            changed = put_together(kind, [*records[:at], (tag, bad.tobytes()), *records[at + 1 :]])
            refused(piped, reader_of(name), changed)
    if name in ("public.bfvc", "partial.bfvp", "result.bfvr"):
        ciphertexts = words.reshape(-1, 2, 2, 16).copy()
        ciphertexts[0, 1] = 0
        changed = put_together(kind, [*records[:at], (tag, ciphertexts.tobytes()), *records[at + 1 :]])
        assert "not encrypted" in refused(piped, reader_of(name), changed)


def test_a_part_may_begin_with_zero(piped):
    kind, records = take_apart((SAMPLES / "public.bfvc").read_bytes())
    words = np.frombuffer(records[2][1], dtype="<u4").reshape(2, 2, 2, 16).copy()
    words[:, 1, 0] = 0
    data = put_together(kind, [*records[:2], (b"BLCK", words.tobytes()), *records[3:]])
    assert piped(read_contribution, data) == 20


def test_a_public_key_that_was_altered(piped):
    kind, records = take_apart((SAMPLES / "public.key").read_bytes())
    for at in (0, 31, 32, 36, len(records[2][1]) - 4):
        payload = bytearray(records[2][1])
        payload[at] ^= 1
        data = put_together(kind, [*records[:2], (b"PUBK", bytes(payload)), records[3]])
        assert "does not belong" in refused(piped, read_key, data)


def test_a_secret_key_with_other_coefficients(piped):
    kind, records = take_apart((SAMPLES / "secret.key").read_bytes())
    for payload in (b"\xc0\0\0\0", b"\0\0\0\x03", b"\0\0\0", b"\0\0\0\0\0"):
        data = put_together(kind, [records[0], (b"SECR", payload), records[2]])
        refused(piped, read_secret, data)


@pytest.mark.parametrize("name", [n for n in BINARY if n != "secret.key"])
def test_embedded_studies(name, piped):
    kind, records = take_apart((SAMPLES / name).read_bytes())
    other = samples.study().raw.replace(b'"count"', b'"sum:x"')
    assert "hash" in refused(piped, reader_of(name), put_together(kind, [records[0], (b"STDY", other), *records[2:]]))
    for raw, words in (
        (samples.study().raw.replace(b"n16_q53", b"n64_q106"), "names set"),
        (samples.study().raw.replace(b'"version":1', b'"version":2'), "version 2; this pybfv reads version 1"),
        (samples.study().raw + b"\n", "canonical"),
        (b"[]\n", "not a study"),
        (b"", "is empty"),
    ):
        header = json.loads(records[0][1]) | {"study_hash": hashlib.sha256(raw).hexdigest()}
        data = put_together(kind, [(b"HEAD", canonical_bytes(header)), (b"STDY", raw), *records[2:]])
        for reader in (reader_of(name), describe):
            assert words in refused(piped, reader, data)


def test_records_of_other_names_or_numbers(piped):
    for name in BINARY:
        kind, records = take_apart((SAMPLES / name).read_bytes())
        for at in range(len(records)):
            for tag in (b"HEAD", b"STDY", b"END ", b"\0\0\0\0", b"BLCK"):
                if tag != records[at][0]:
                    changed = [*records[:at], (tag, records[at][1]), *records[at + 1 :]]
                    refused(piped, reader_of(name), put_together(kind, changed))
            without = [*records[:at], *records[at + 1 :]]
            if without:
                refused(piped, reader_of(name), put_together(kind, without))


@pytest.mark.parametrize("version", [0, 2, 65535])
def test_versions_are_named(version, piped):
    for name in BINARY:
        kind, records = take_apart((SAMPLES / name).read_bytes())
        message = refused(piped, reader_of(name), put_together(kind, records, version))
        assert f"format version {version}; this pybfv reads version 1" in message


def test_kinds_are_named(piped):
    kinds = {
        "secret.key": "a secret key",
        "public.key": "a public key",
        "public.bfvc": "a contribution",
        "partial.bfvp": "a partial",
        "result.bfvr": "a result",
    }
    for have, label in kinds.items():
        data = (SAMPLES / have).read_bytes()
        for want, need in kinds.items():
            if have != want:
                secret_or_key = have == "secret.key" or (have == "public.key" and want == "secret.key")
                error = KeyRefusedError if secret_or_key else DataError
                message = refused(piped, reader_of(want), data, error)
                assert message.startswith(f"standard input is {label}; this needs ")
                assert need in message
    data = put_together(6, take_apart((SAMPLES / "result.bfvr").read_bytes())[1])
    assert "kind 6" in refused(piped, read_result, data)


# ---- things that are no file of ours


def png() -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + bytes(200)


@pytest.mark.parametrize("name", FILES)
def test_other_files(name, piped, filed):
    for data, words in (
        (b"", "is empty"),
        (png(), ""),
        (b"a,b\n1,2\n", ""),
        (b"PK\3\4" + bytes(100), ""),
        (bytes(1000), ""),
        (b"\x89PBFV\n\x1a" + bytes(100), "" if name == "study.json" else "text mode"),
        (bytes((k * 167 + 13) % 256 for k in range(5000)), ""),
    ):
        for read in (piped, filed):
            assert words in refused(read, reader_of(name), data)
            refused(read, describe, data)
    if name != "study.json":
        assert "JSON" in refused(piped, reader_of(name), b'{"a":1}\n')


@pytest.mark.parametrize("name", FILES)
def test_things_that_are_no_file(name, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "random").symlink_to("/dev/urandom")
    cases = [
        (tmp_path / "fifo", DataError, "pipe or device"),
        ("/dev/urandom", DataError, "pipe or device"),
        ("/dev/null", DataError, "pipe or device"),
        (tmp_path / "random", DataError, "pipe or device"),
        (tmp_path / "folder", MissingInputError, "is a folder"),
        (tmp_path / "loop", MissingInputError, "can't be read"),
        (tmp_path / "dangling", MissingInputError, "No such file"),
        (tmp_path / "nowhere", MissingInputError, "No such file"),
        (tmp_path / ("x" * 300), MissingInputError, "too long"),
        ("a\0b", MissingInputError, "not a file name"),
        ("", MissingInputError, "can't be read"),
    ]
    for path, error, words in cases:
        for reader in (reader_of(name), describe):
            started = time.monotonic()
            with pytest.raises(error, match=words) as caught:
                reader(path)
            assert str(caught.value).isprintable()
            assert time.monotonic() - started < 1


def test_endless_standard_input(monkeypatch):
    for head in (b"", (SAMPLES / "public.bfvc").read_bytes()[:900], b"{", b'{"format":"'):
        for reader in (read_study, read_contribution, read_partial, read_key, describe):
            endless = SimpleNamespace(buffer=Endless(head))
            monkeypatch.setattr(sys, "stdin", endless)
            tracemalloc.start()
            with pytest.raises(DataError):
                reader("-")
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
            tracemalloc.stop()
            assert endless.buffer.given < 4 << 20


class Endless(io.RawIOBase):
    """A head, then the letter a for ever."""

    def __init__(self, head: bytes) -> None:
        self.head = head
        self.given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, view) -> int:
        data = (self.head + b"a" * len(view))[: len(view)]
        self.head = self.head[len(view) :]
        view[:] = data
        self.given += len(view)
        return len(view)


def test_files_that_change_while_they_are_read(tmp_path):
    path = tmp_path / "x.bfvc"
    stream = io.BytesIO()
    write_contribution(stream, "public", 16 * 400)
    data = stream.getvalue()
    for size, words in ((len(data) // 2, "cut short"), (len(data) + 1, "after its end")):
        path.write_bytes(data)
        with ContributionReader(path) as reader:
            out = np.empty(reader.block_shape, dtype=np.uint32)
            reader.read_block(out)
            os.truncate(path, size)
            with pytest.raises(DataError, match=words):
                drain(reader, out)


def test_sample_secret_key_warns_where_others_may_read_it(tmp_path):
    path = tmp_path / "secret.key"
    path.write_bytes((SAMPLES / "secret.key").read_bytes())
    path.chmod(0o604)
    with pytest.warns(KeyPermissionWarning):
        read_secret(path)
    path.chmod(0o600)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_secret(path)
