"""Forgeries of signed files with sound checksums, and the signature checked by Ed25519 in Python integers.

Everybody can recompute checksums, so only the signature stands between a forged file and its reader. The second
implementation below knows FORMAT.md and RFC 8032, and nothing of the code.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from io_tools import put_together, samples, take_apart

from pybfv.errors import DataError, KeyRefusedError
from pybfv.io import ContributionReader, ContributionWriter, read_partial, read_result, write_partial, write_result
from pybfv.io.sign import SigningKey, Trust

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
TRUST = Trust([KEY.signer])
KINDS = ("contribution", "partial", "result")

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P

Point = tuple[int, int]


def add(a: Point, b: Point) -> Point:
    """The sum of two points of -x^2 + y^2 = 1 + D x^2 y^2, affine: slow and plain."""
    cross = D * a[0] * a[1] * b[0] * b[1] % P
    x = (a[0] * b[1] + a[1] * b[0]) * pow(1 + cross, -1, P) % P
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - cross, -1, P) % P
    return x, y


def times(k: int, point: Point) -> Point:
    total = (0, 1)
    for bit in bin(k)[2:]:
        total = add(total, total)
        if bit == "1":
            total = add(total, point)
    return total


def decode(data: bytes) -> Point:
    """A point from its y in 255 bits and the parity of its x."""
    packed = int.from_bytes(data, "little")
    y, odd = packed & (1 << 255) - 1, packed >> 255
    assert y < P
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    assert x * x % P == square
    return (P - x if x % 2 != odd else x), y


BASE = decode((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def holds(public: bytes, signature: bytes, text: bytes) -> bool:
    """RFC 8032, section 5.1.7: S B = R + H(R, A, text) A."""
    s = int.from_bytes(signature[32:], "little")
    h = int.from_bytes(hashlib.sha512(signature[:32] + public + text).digest(), "little") % ORDER
    return s < ORDER and times(s, BASE) == add(decode(signature[:32]), times(h, decode(public)))


def signed(kind: str) -> bytes:
    """A signed file of the samples' contents."""
    stream = io.BytesIO()
    if kind == "contribution":
        writer = ContributionWriter(
            stream, samples.study(), "a" * 32, "b" * 32, "public", samples.N, samples.PRIMES, 1, KEY
        )
        for salt in (1, 2):
            writer.block(samples.residues(1, 2, salt=salt))
        writer.close(samples.N + 3, 1)
    elif kind == "partial":
        write_partial(stream, samples.partial(), KEY)
    else:
        write_result(stream, samples.result(), KEY)
    return stream.getvalue()


def read(kind: str, data: bytes, trust: Trust | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    if kind == "contribution":
        with ContributionReader("-", trust) as reader:
            block = np.empty((reader.per_block, 2, len(reader.primes), reader.n), np.uint32)
            while reader.read_block(block):
                pass
    else:
        {"partial": read_partial, "result": read_result}[kind]("-", trust)


def refused(kind: str, data: bytes, trust: Trust | None, monkeypatch: pytest.MonkeyPatch) -> str:
    with pytest.raises(DataError) as caught:
        read(kind, data, trust, monkeypatch)
    text = str(caught.value)
    assert text.isprintable(), text
    assert "standard input" in text, text
    return text


def counted(records: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Records whose end counts them rightly."""
    tag, end = records[-1]
    return [*records[:-1], (tag, struct.pack("<Q", len(records) - 1) + end[8:])]


def signature_at(records: list[tuple[bytes, bytes]]) -> int:
    (at,) = (i for i, (tag, _) in enumerate(records) if tag == b"SIGN")
    return at


@pytest.mark.parametrize("kind", KINDS)
def test_second_implementation_agrees(kind):
    data = signed(kind)
    _, records = take_apart(data)
    at = signature_at(records)
    assert at == len(records) - 2
    before = len(data) - sum(16 + len(payload) for _, payload in records[at:])
    text = b"pybfv signed file 1\0" + hashlib.sha256(data[:before]).digest() + records[-1][1][8:]
    public = bytes.fromhex(json.loads(records[0][1])["signer"])
    assert holds(public, records[at][1], text)
    assert not holds(public, records[at][1], text[:-1] + b"\1")
    assert not holds(public, bytes(32) + records[at][1][32:], text)


@pytest.mark.parametrize("kind", KINDS)
def test_one_bit_of_each_byte_with_sound_checksums(kind, monkeypatch):
    data = signed(kind)
    read(kind, data, TRUST, monkeypatch)
    number, records = take_apart(data)
    by_signature = 0
    for i, (tag, payload) in enumerate(records):
        for at in range(len(payload)):
            forged = bytearray(payload)
            forged[at] ^= 1 << (at + i) % 8
            text = refused(
                kind, put_together(number, [*records[:i], (tag, bytes(forged)), *records[i + 1 :]]), TRUST, monkeypatch
            )
            by_signature += "wrong signature" in text
    assert by_signature > len(records[-3][1]) // 2  # most residues stay below their prime: nothing else could tell


@pytest.mark.parametrize("kind", KINDS)
def test_signatures_elsewhere_twice_or_gone(kind, monkeypatch):
    """Refused with and without trust: a reader without trust, too, checks that a signed file is well-formed."""
    number, records = take_apart(signed(kind))
    at = signature_at(records)
    mark, rest = records[at], records[:at] + records[at + 1 :]
    forged = {
        "gone": rest,
        "twice": [*records[:at], mark, *records[at:]],
        "first": [rest[0], mark, *rest[1:]],
        "before the last content": [*rest[: at - 1], mark, *rest[at - 1 :]],
        "after the end": [*rest, mark],
        "content left out": [*records[: at - 1], *records[at:]],
        "content twice": [*records[:at], records[at - 1], *records[at:]],
        "short": [*records[:at], (b"SIGN", mark[1][:63]), records[-1]],
        "long": [*records[:at], (b"SIGN", mark[1] + b"\0"), records[-1]],
        "empty": [*records[:at], (b"SIGN", b""), records[-1]],
        "another tag": [*records[:at], (b"SIGM", mark[1]), records[-1]],
    }
    for name, changed in forged.items():
        whole = put_together(number, changed if name == "after the end" else counted(changed))
        for trust in (TRUST, None):
            assert refused(kind, whole, trust, monkeypatch), name


@pytest.mark.parametrize("kind", KINDS)
def test_taken_off_or_of_another_kind(kind, monkeypatch):
    number, records = take_apart(signed(kind))
    fields = json.loads(records[0][1])
    del fields["signer"]
    head = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    at = signature_at(records)
    bare = put_together(number, counted([(b"HEAD", head), *records[1:at], records[-1]]))
    read(kind, bare, None, monkeypatch)  # an honest unsigned file
    assert "not signed" in refused(kind, bare, TRUST, monkeypatch)
    left = put_together(number, [(b"HEAD", head), *records[1:]])
    refused(kind, left, None, monkeypatch)
    for other in set(range(1, 6)) - {number}:
        with pytest.raises((DataError, KeyRefusedError)):
            read(kind, put_together(other, records), TRUST, monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
def test_signature_of_another_file_or_signer(kind, monkeypatch):
    number, records = take_apart(signed(kind))
    at = signature_at(records)
    for other in KINDS:
        if other != kind:
            _, theirs = take_apart(signed(other))
            moved = [*records[:at], theirs[signature_at(theirs)], records[-1]]
            assert "wrong signature" in refused(kind, put_together(number, moved), TRUST, monkeypatch)
    stranger = SigningKey.generate()
    renamed = records[0][1].replace(KEY.signer.encode(), stranger.signer.encode())
    forged = put_together(number, [(b"HEAD", renamed), *records[1:]])
    assert stranger.signer in refused(kind, forged, TRUST, monkeypatch)
    assert "wrong signature" in refused(kind, forged, Trust([stranger.signer]), monkeypatch)
