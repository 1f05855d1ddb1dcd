"""Whole files of a real job (a tiny, insecure set) swept: every length, every bit near the start, many beyond.

Each damaged file must be refused in one line that names it. test_hostile.py does it for smaller files, and lies with
sound checksums; tests/fuzz looks for what nobody thought of.
"""

from __future__ import annotations

import io
import random
import sys
import tracemalloc
from types import SimpleNamespace

import pytest
from io_tools import SAMPLES
from test_hostile import reader_of

from pybfv.errors import DataError, KeyRefusedError
from pybfv.io import describe

GOLDEN = SAMPLES.parent / "golden" / "regression"
FILES = ["public.key", "secret.key", "0.bfvc", "partial.bfvp", "result.bfvr"]
SIGNED = ["signed.bfvc", "signed.bfvp", "signed.bfvr"]
ALL = FILES + SIGNED
EVERY_BIT = 4096
"""Bytes from the start in which every bit is flipped."""
BEYOND = 10_000
"""Bits flipped after them, at random."""


def attempt(reader, data: bytes, monkeypatch: pytest.MonkeyPatch) -> str:
    """Reads bytes as standard input; the refusal's message, or an assertion."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    try:
        reader("-")
    except DataError as refusal:
        return str(refusal)
    raise AssertionError("a damaged file was read")


def data_of(name: str) -> bytes:
    """A job's file, or a signed sample."""
    return ((SAMPLES if name in SIGNED else GOLDEN) / name).read_bytes()


def check(message: str) -> None:
    assert message.isprintable(), message
    assert "standard input" in message, message


def damaged(data: bytes, seed: str, share: int):
    """Every share-th of the damaged files: cut at every length, then with one bit flipped."""
    yield from (data[:size] for size in range(0, len(data), share))
    bits = [8 * at + bit for at in range(min(EVERY_BIT, len(data))) for bit in range(8)]
    rest = range(8 * EVERY_BIT, 8 * len(data))
    bits += random.Random(seed).sample(rest, min(BEYOND, len(rest)))
    changed = bytearray(data)
    for bit in bits[::share]:
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)
        changed[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize(
    ("name", "share"),
    [(name, 61) for name in ALL] + [pytest.param(name, 1, marks=pytest.mark.slow) for name in ALL],
)
def test_every_length_and_bit(name, share, monkeypatch):
    data = data_of(name)
    reader = reader_of(name)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    reader("-")
    count = 0
    for bad in damaged(data, name, share):
        check(attempt(reader, bad, monkeypatch))
        count += 1
    assert count >= min(len(data) + 8 * EVERY_BIT, 9 * len(data)) // share


def test_damage_takes_no_memory(monkeypatch):
    """Under 64 MB beside the file itself; what it announces is not believed."""
    for name in ALL:
        data = data_of(name)
        tracemalloc.start()
        for bad in damaged(data, name, 511):
            attempt(reader_of(name), bad, monkeypatch)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
        tracemalloc.stop()


@pytest.mark.parametrize("name", FILES)
def test_files_of_every_other_kind(name, monkeypatch):
    for other in FILES:
        if other != name:
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO((GOLDEN / other).read_bytes())))
            with pytest.raises((DataError, KeyRefusedError), match=r"standard input is a .*; this needs a "):
                reader_of(name)("-")


def test_describe_refuses_a_damaged_header(monkeypatch):
    """describe checks the header, the study and the end, and through a pipe everything."""
    for name in ALL:
        if name != "secret.key":
            for bad in damaged(data_of(name), name, 239):
                check(attempt(describe, bad, monkeypatch))
