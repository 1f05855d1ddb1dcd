"""Files: canonical JSON, round trips of every kind, and what writers refuse."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from io_tools import ROOT, SAMPLES, put_together, samples, slow_crc32c, take_apart, write_contribution

from pybfv import native
from pybfv.errors import DataError
from pybfv.io import (
    ContributionReader,
    ContributionWriter,
    Partial,
    PublicKey,
    Result,
    StudyDoc,
    atomic_output,
    canonical_bytes,
    describe,
    parse_canonical,
    parse_study,
    read_partial,
    read_result,
    read_study,
    write_partial,
    write_result,
    write_study,
)

# ---- checksums, canonical JSON --------------------


def test_crc_is_castagnoli_and_continues():
    assert native.crc32c(b"123456789") == slow_crc32c(b"123456789") == 0xE3069283
    assert native.crc32c(b"6789", native.crc32c(b"12345")) == 0xE3069283
    words = np.arange(100, dtype=np.uint32)
    assert native.crc32c(memoryview(words).cast("B")) == slow_crc32c(words.tobytes())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": [1, -2, 0], "a": {}}, b'{"a":{},"b":[1,-2,0]}\n'),
        ({"é": 'ß\x7f\x00\n"\\/'}, b'{"\\u00e9":"\\u00df\\u007f\\u0000\\n\\"\\\\/"}\n'),
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
    assert str(caught.value).startswith("study.json")
    assert "\n" not in str(caught.value)


def test_nesting_up_to_the_limit():
    value: object = 0
    for _ in range(32):
        value = [value]
    assert parse_canonical(canonical_bytes(value), "x") == value


# ---- studies


def test_study_round_trip(tmp_path):
    doc = samples.study()
    with atomic_output(tmp_path / "study.json") as stream:
        write_study(stream, doc)
    again = read_study(tmp_path / "study.json")
    assert again == doc
    assert again.data == samples.STUDY
    assert again.raw == doc.raw
    assert len(doc.hash) == 64
    assert hash(again) == hash(doc)
    assert StudyDoc.from_data(samples.STUDY | {"statistics": []}) != doc


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
        read_study(SAMPLES / "partial.bfvp")


def test_files_need_a_study_with_a_known_set():
    for data in ({"set": "n3_q5"}, {"set": 5}, {}):
        doc = StudyDoc.from_data({"format": "pybfv-study", "version": 1} | data)
        with pytest.raises(DataError, match="set"):
            PublicKey(doc, samples.N, samples.PRIMES, samples.SEED, samples.residues(salt=7))


# ---- contributions


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
        assert (reader.study, reader.key_id, reader.contribution_id) == (samples.study(), "a" * 32, "b" * 32)
        assert (reader.mode, reader.per_block, reader.n, reader.primes) == (mode, 3, samples.N, samples.PRIMES)
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
    def writer(mode="public", n=samples.N, primes=samples.PRIMES, per_block=1, key_id="a" * 32):
        return ContributionWriter(io.BytesIO(), samples.study(), key_id, "b" * 32, mode, n, primes, per_block)

    block = samples.residues(1, 2, salt=1)
    for wrong in ({"mode": "none"}, {"n": 32}, {"primes": (97,)}, {"per_block": 0}, {"key_id": "A" * 32}):
        with pytest.raises(DataError):
            writer(**wrong)
    with pytest.raises(DataError, match="beyond the format's limit"):
        writer(per_block=1 << 24)
    for wrong in (block.astype(np.int64), block[0], samples.residues(2, 2, salt=1)):
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


def test_contribution_reader_refuses_other_buffers():
    with ContributionReader(SAMPLES / "public.bfvc") as reader:
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


# ---- partials and results


def test_partial_round_trip(tmp_path):
    made = samples.partial()
    with atomic_output(tmp_path / "x.bfvp") as stream:
        write_partial(stream, made)
    again = read_partial(tmp_path / "x.bfvp")
    for name in ("study", "key_id", "contribution_ids", "rows", "dropped", "ciphertexts", "contributions"):
        assert getattr(again, name) == getattr(made, name)
    assert again.accumulators.keys() == made.accumulators.keys()
    for name, array in made.accumulators.items():
        assert np.array_equal(again.accumulators[name], array)


def test_equal_partials_are_equal_bytes():
    made = samples.partial()
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
        {"accumulators": {"": samples.residues(2, salt=1)}},
        {"accumulators": {"a": samples.residues(1, salt=1)}},
        {"accumulators": {"a": samples.residues(9, salt=1)}},
        {"accumulators": {"a": samples.residues(2, salt=1).astype(np.int64)}},
        {"accumulators": {"a": samples.residues(2, salt=1)[:, :1]}},
        {"accumulators": {"a": samples.residues(2, salt=1) + np.uint32(2**27)}},
        {"accumulators": {"a": samples.residues(2, salt=1) * np.uint32([1, 0])[:, None, None]}},
    ],
)
def test_partials_that_do_not_fit(changes):
    changed(samples.partial())
    with pytest.raises(DataError):
        changed(samples.partial(), **changes)


def scaled_partial(wide: object = (268369921, 268271617, 268238849), **data) -> Partial:
    """A partial of a study with scaled products: accumulators of products have wide primes after the set's."""
    study = StudyDoc.from_data(samples.STUDY | {"product": "scaled"} | ({} if wide is None else {"wide": wide}) | data)
    primes = np.array([*samples.PRIMES, 268369921, 268271617, 268238849], dtype=np.uint64)[:, None]
    words = np.arange(3 * 5 * 16, dtype=np.uint64).reshape(3, 5, 16) * np.uint64(1000003) + np.uint64(5)
    arrays = {"sum.0.0": samples.residues(2, salt=11), "product.0.1.0": (words % primes).astype(np.uint32)}
    return changed(samples.partial(), study=study, accumulators=arrays)


def test_scaled_partials(tmp_path):
    made = scaled_partial([268369921, 268271617, 268238849])
    with atomic_output(tmp_path / "x.bfvp") as stream:
        write_partial(stream, made)
    again = read_partial(tmp_path / "x.bfvp")
    for name, array in made.accumulators.items():
        assert np.array_equal(again.accumulators[name], array)
    facts = describe(tmp_path / "x.bfvp")
    assert (facts["product"], facts["contents"]) == ("scaled", ["product.0.1.0", "sum.0.0"])
    # the residues of the wide planes are checked against their own primes
    for plane, prime in enumerate((*samples.PRIMES, 268369921, 268271617, 268238849)):
        array = made.accumulators["product.0.1.0"].copy()
        array[2, plane, 15] = prime - 1
        changed(made, accumulators=made.accumulators | {"product.0.1.0": array})
        array[2, plane, 15] = prime
        with pytest.raises(DataError, match=r"product\.0\.1\.0"):
            changed(made, accumulators=made.accumulators | {"product.0.1.0": array})
        data = bytearray((tmp_path / "x.bfvp").read_bytes())
        kind, records = take_apart(bytes(data))
        payload = bytearray(records[3][1])
        at = 4 * ((2 * 5 + plane) * 16 + 15)
        payload[at : at + 4] = prime.to_bytes(4, "little")
        (tmp_path / "bad.bfvp").write_bytes(put_together(kind, [*records[:3], (b"ACCU", bytes(payload)), *records[4:]]))
        with pytest.raises(DataError, match=r"bad\.bfvp.*product\.0\.1\.0"):
            read_partial(tmp_path / "bad.bfvp")
    for name, cut in (("product.0.1.0", 2), ("product.0.1.0", 4), ("sum.0.0", 1)):
        arrays = made.accumulators | {name: np.ascontiguousarray(made.accumulators[name][:, :cut])}
        with pytest.raises(DataError, match="must be an array"):
            changed(made, accumulators=arrays)


def test_a_partial_without_its_wide_primes_names_the_file(tmp_path):
    stream = io.BytesIO()
    write_partial(stream, scaled_partial([268369921, 268271617, 268238849]))
    kind, records = take_apart(stream.getvalue())
    study = StudyDoc.from_data(samples.STUDY | {"product": "scaled"})
    header = canonical_bytes(json.loads(records[0][1]) | {"study_hash": study.hash})
    (tmp_path / "bad.bfvp").write_bytes(put_together(kind, [(b"HEAD", header), (b"STDY", study.raw), *records[2:]]))
    for read in (read_partial, describe):
        with pytest.raises(DataError, match=r"bad\.bfvp: study .* no list of wide primes"):
            read(tmp_path / "bad.bfvp")


@pytest.mark.parametrize(
    "wide",
    [
        None, [], "x", 7, {}, [None], [True], ["268369921"], [0], [-1], [1], [10**300], [1 << 32], [[268369921]],
        [268369921] * 3, [67043329, 268369921, 268271617], [268369921, 268271617, 268238849 + 2],
        [268369921, 268271617, 97], list(range(100_000)),
    ],
)  # fmt: skip
def test_wide_primes_that_are_none(wide):
    scaled_partial([268369921, 268271617, 268238849])
    with pytest.raises(DataError) as refused:
        scaled_partial(wide)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("rows", "contributions"), [(23, 2), (1, 1), (64, 3), (5, 5), (100, 7)])
def test_ciphertext_counts_that_contributions_can_have(rows, contributions):
    def splits(left: int, parts: int):
        if parts == 1:
            yield [left]
            return
        for first in range(1, left - parts + 2):
            for rest in splits(left - first, parts - 1):
                yield [first, *rest]

    n = samples.N
    if contributions <= 3 or rows == contributions:
        possible = {sum(-(-r // n) for r in split) for split in splits(rows, contributions)}
    else:
        possible = {max(contributions, -(-rows // n)), contributions + (rows - contributions) // n}
    ids = tuple(f"{k:032x}" for k in range(contributions))
    for u in range(1, rows + 3):
        if u in possible or min(possible) < u < max(possible):
            assert changed(samples.partial(), rows=rows, contribution_ids=ids, ciphertexts=u).ciphertexts == u
        else:
            with pytest.raises(DataError):
                changed(samples.partial(), rows=rows, contribution_ids=ids, ciphertexts=u)


def test_result_round_trip(tmp_path):
    made = samples.result()
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
        {"backend": samples.result().backend | {"name": None}},
        {"backend": samples.result().backend | {"threads": "2"}},
        {"backend": samples.result().backend | {"threads": -1}},
        {"backend": samples.result().backend | {"extra": 1}},
        {"backend": None},
        {"ciphertexts": {}},
    ],
)
def test_results_that_do_not_fit(changes):
    changed(samples.result())
    with pytest.raises(DataError):
        changed(samples.result(), **changes)
