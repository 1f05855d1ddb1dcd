"""FORMAT.md and the golden files against the code, and what inspect says of them."""

from __future__ import annotations

import io
import json
import re
import sys
import tracemalloc
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from io_tools import GOLDEN, ROOT, golden, take_apart, write_contribution

from pybfv.errors import KeyRefusedError
from pybfv.io import (
    ContributionReader,
    KeyPermissionWarning,
    atomic_output,
    describe,
    read_partial,
    read_public,
    read_result,
    read_secret,
    read_study,
)

# ---- golden files and the format document


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
            assert reader.read_block(out)
            assert np.array_equal(out, golden.residues(2, 2, salt=salt))
        assert not reader.read_block(out)
        assert (reader.rows, reader.dropped) == (20, 1)
    with ContributionReader(GOLDEN / "symmetric.bfvc") as reader:
        out, seeds = np.empty(reader.block_shape, dtype=np.uint32), np.empty((1, 32), dtype=np.uint8)
        assert reader.read_block(out, seeds)
        assert np.array_equal(out, golden.residues(1, salt=3))
        assert seeds.tobytes() == golden.SEED
        assert not reader.read_block(out, seeds)
    assert np.array_equal(read_partial(GOLDEN / "partial.bfvp").accumulators["sum.0.0"], golden.residues(2, salt=11))
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
        assert kind == expected
        assert [tag for tag, _ in records] == [*tags[kind], b"END "]
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
    cipher = Cipher(algorithms.AES(bytes.fromhex(facts["seed"])), modes.ECB()).encryptor()
    for i, p in enumerate(facts["primes"]):
        start = int.from_bytes(i.to_bytes(4, "little") + bytes(12), "big")
        stream = b"".join(cipher.update((start + k).to_bytes(16, "big")) for k in range(40))
        words = [int.from_bytes(stream[k : k + 4], "little") for k in range(0, len(stream), 4)]
        values = [w % 2 ** len(f"{p:b}") for w in words]
        assert [v for v in values if v < p][: facts["n"]] == facts["residues"][i]


# ---- inspect


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
