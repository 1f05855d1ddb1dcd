"""FORMAT.md and the sample files against the code, and what inspect says of them."""

from __future__ import annotations

import io
import json
import re
import sys
import tracemalloc
import warnings
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from io_tools import ROOT, SAMPLES, samples, take_apart, write_contribution

from pybfv.errors import KeyRefusedError
from pybfv.io import (
    ContributionReader,
    StudyDoc,
    atomic_output,
    describe,
    read_partial,
    read_public,
    read_result,
    read_study,
)
from pybfv.io.secret_key import KeyPermissionWarning, read_secret
from pybfv.params import get_set
from pybfv.study import Study, document
from pybfv.workload import ColumnBounds

# ---- sample files and the format document


def test_the_code_still_writes_the_samples():
    now = samples.contents()
    assert set(now) == {path.name for path in SAMPLES.iterdir() if path.is_file() and path.suffix != ".py"}
    for name, data in now.items():
        assert (SAMPLES / name).read_bytes() == data, f"{name}: a format change needs a new version"


def test_samples_are_read():
    assert read_study(SAMPLES / "study.json").data == samples.STUDY
    assert np.array_equal(read_public(SAMPLES / "public.key").p0, samples.residues(salt=7))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KeyPermissionWarning)
        assert np.array_equal(read_secret(SAMPLES / "secret.key").s, samples.secret_key().s)
    with ContributionReader(SAMPLES / "public.bfvc") as reader:
        out = np.empty(reader.block_shape, dtype=np.uint32)
        for salt in (1, 2):
            assert reader.read_block(out)
            assert np.array_equal(out, samples.residues(2, 2, salt=salt))
        assert not reader.read_block(out)
        assert (reader.rows, reader.dropped) == (20, 1)
    with ContributionReader(SAMPLES / "symmetric.bfvc") as reader:
        out, seeds = np.empty(reader.block_shape, dtype=np.uint32), np.empty((1, 32), dtype=np.uint8)
        assert reader.read_block(out, seeds)
        assert np.array_equal(out, samples.residues(1, salt=3))
        assert seeds.tobytes() == samples.SEED
        assert not reader.read_block(out, seeds)
    assert np.array_equal(read_partial(SAMPLES / "partial.bfvp").accumulators["sum.0.0"], samples.residues(2, salt=11))
    assert read_result(SAMPLES / "result.bfvr").flood_bits == 9


def test_samples_by_the_document_alone():
    kinds = {"secret.key": 1, "public.key": 2, "public.bfvc": 3, "partial.bfvp": 4, "result.bfvr": 5}
    tags = {
        1: [b"HEAD", b"SECR"],
        2: [b"HEAD", b"STDY", b"PUBK"],
        3: [b"HEAD", b"STDY", b"BLCK", b"BLCK"],
        4: [b"HEAD", b"STDY", b"CIDS", b"ACCU", b"ACCU"],
        5: [b"HEAD", b"STDY", b"CTXT"],
    }
    for name, expected in kinds.items():
        kind, records = take_apart((SAMPLES / name).read_bytes())
        assert kind == expected
        assert [tag for tag, _ in records] == [*tags[kind], b"END "]
        header = json.loads(records[0][1])
        assert (header["n"], header["primes"], header["insecure"]) == (16, list(samples.PRIMES), True)
    block = take_apart((SAMPLES / "public.bfvc").read_bytes())[1][3][1]
    assert np.array_equal(np.frombuffer(block, "<u4"), samples.residues(2, 2, salt=2).reshape(-1))
    packed = take_apart((SAMPLES / "secret.key").read_bytes())[1][1][1]
    codes = [(packed[j // 4] >> (2 * (j % 4))) & 3 for j in range(16)]
    assert [{0: 0, 1: 1, 2: -1}[c] for c in codes] == samples.secret_key().s.tolist()


def section(number: int) -> str:
    text = (ROOT / "pybfv" / "io" / "FORMAT.md").read_text(encoding="utf-8")
    return text.split(f"\n## {number}. ")[1].split("\n## ")[0].split("```")[1].strip("\n")


def test_the_documents_study_fields():
    whole = (ROOT / "pybfv" / "io" / "FORMAT.md").read_text(encoding="utf-8")
    text = whole.split("\n## 1. ")[1].split("\n## ")[0]
    study_rows, column_rows = (
        re.findall(r"^\| `(\w+)` \| ([a-z ]+) \|", part, re.M) for part in text.split("A column:")
    )
    bounds = {name: ColumnBounds(Fraction(-3), Fraction(4), 1) for name in ("b", "a", "B")}
    made = document(
        get_set("insecure_n64_q106"),
        statistics=["sum:B", "linreg:a~b^2"],
        base=bounds,
        missing="error",
        max_rows=5,
        max_contributions=2,
        min_contributors=2,
        reveal="slots",
        packing="batched",
        product="scaled",
        moduli=(213057281,),
    )
    kinds = {str: "string", int: "integer", bool: "boolean"}

    def kind(value) -> str:
        if isinstance(value, list):
            return "list of objects" if isinstance(value[0], dict) else f"list of {kinds[type(value[0])]}s"
        return kinds[type(value)]

    assert dict(study_rows) == {field: kind(value) for field, value in made.items()}
    assert dict(column_rows) == {field: kind(value) for field, value in made["columns"][0].items()}
    # of products
    scale_free = {**made, "product": "scale-free"}
    del scale_free["wide"]
    assert Study(StudyDoc.from_data(scale_free)).wide == ()
    need, base = 64 * get_set("insecure_n64_q106").q ** 2 * 2, get_set("insecure_n64_q106").q
    listed = re.search(r"\*Wide primes\.\*.*?:((?: [0-9]+,?)+)", whole.replace("\n", " "))[1].replace(",", " ").split()
    expected = []
    for p in map(int, listed):
        if base <= need:
            expected.append(p)
            base *= p
    assert made["wide"] == expected
    assert len(listed) == len(set(listed)) == 48
    # what the text says of columns and values
    study = Study(StudyDoc.from_data(made))
    assert [c["name"] for c in made["columns"]] == ["B", "a", "b"]
    assert [(c.name, c.power) for c in study.columns] == [("", 0), ("B", 1), ("a", 1), ("b", 2)]
    assert [(b.scaled.lo, b.scaled.hi, b.scale, b.mid) for b in study.bounds.values()] == [
        (-30, 40, 1, 5),
        (-30, 40, 1, 5),
        (0, 1600, 2, 800),
    ]
    expected = {"sum.0.0": ("", ""), "sum.1.0": ("B", ""), "product.2.3.0": ("a", "b")}
    found = {name: (key[0].name, key[1].name if len(key) == 2 else "") for name, key, *_ in study.names()}
    assert found | expected == found


def test_the_documents_example_is_what_the_code_writes():
    listing = section(10)
    data = bytearray()
    for line in listing.splitlines():
        offset, hexadecimal = re.match(r"([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)  ", line + "  ").groups()
        assert int(offset, 16) == len(data)
        data += bytes.fromhex(hexadecimal)
    assert bytes(data) == (SAMPLES / "symmetric.bfvc").read_bytes()
    assert listing == samples.document_example()


def test_the_documents_expansion():
    facts = json.loads((SAMPLES / "expansion.json").read_text())
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
        "study": samples.study().hash,
        "statistics": ["count"],
        "set": "insecure_n16_q53",
        "insecure": True,
        "security": "INSECURE, for tests only",
        "ring_dimension": 16,
    }
    key = samples.public_key().key_id
    expected = {
        "study.json": {"kind": "study"},
        "public.key": {"kind": "public key", "key": key},
        "public.bfvc": {"kind": "contribution", "key": key, "rows": 20, "dropped_rows": 1, "contributions": 1,
                        "blocks": 2, "mode": "public", "ciphertexts_per_block": 2},
        "symmetric.bfvc": {"kind": "contribution", "rows": 3, "mode": "symmetric"},
        "partial.bfvp": {"kind": "partial", "key": key, "rows": 23, "contributions": 2, "ciphertexts": 3,
                         "contents": ["product.0.1.0", "sum.0.0"]},
        "result.bfvr": {"kind": "result", "key": key, "rows": 23, "dropped_rows": 2, "contributions": 2,
                        "reveal": "totals", "backend": samples.result().backend},
    }  # fmt: skip
    for name, facts in expected.items():
        found = describe(SAMPLES / name)
        assert found | common | facts == found
        json.dumps(found, allow_nan=False)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO((SAMPLES / name).read_bytes())))
        assert describe("-") == found | {"file": "standard input"}
    with pytest.raises(KeyRefusedError, match=r"secret.key is a secret key"):
        describe(SAMPLES / "secret.key")


def test_describe_does_not_read_the_contents(tmp_path):
    path = tmp_path / "x.bfvc"
    with atomic_output(path) as stream:
        write_contribution(stream, "public", 16 * 500, per_block=8)
    tracemalloc.start()
    assert describe(path)["rows"] == 8000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000 < path.stat().st_size
