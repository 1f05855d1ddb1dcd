"""For the tests of files: the sample files' contents, and a second reader and writer of the container."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

import numpy as np

from pybfv import native
from pybfv.io import ContributionWriter

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "tests" / "vectors" / "samples"


def _load_maker():
    spec = importlib.util.spec_from_file_location("make_samples", SAMPLES / "make_samples.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


samples = _load_maker()


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
    assert version == 1
    assert bound == slow_crc32c(data[:12])
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


def write_contribution(stream, mode: str, rows: int, per_block: int = 3) -> list[tuple[np.ndarray, ...]]:
    writer = ContributionWriter(stream, samples.study(), "a" * 32, "b" * 32, mode, samples.N, samples.PRIMES, per_block)
    blocks = []
    for k in range(-(-rows // samples.N)):
        if mode == "public":
            blocks.append((samples.residues(per_block, 2, salt=100 + k),))
            writer.block(*blocks[-1])
        else:
            seeds = np.arange(32 * per_block, dtype=np.uint8).reshape(per_block, 32) + np.uint8(k)
            blocks.append((seeds, samples.residues(per_block, salt=200 + k)))
            writer.symmetric_block(*blocks[-1])
    writer.close(rows, 5)
    return blocks
