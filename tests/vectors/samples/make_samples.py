"""Writes the samples of format version 1, and the example and expansion of FORMAT.md.

    python tests/vectors/samples/make_samples.py             compare the files with what the code writes
    python tests/vectors/samples/make_samples.py --write     write them (never over those of a released version)
    python tests/vectors/samples/make_samples.py --document  print the listings of FORMAT.md, sections 9 and 10

The contents are made-up residues, not encryptions. tests/test_io.py reads the files back with the code
and takes them apart with a second reader of its own.
"""

from __future__ import annotations

import io
import json
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from pybfv.io import (
    ContributionWriter,
    Partial,
    PublicKey,
    Result,
    StudyDoc,
    protect,
    write_partial,
    write_public,
    write_result,
)
from pybfv.io.secret_key import SecretKey, write_secret
from pybfv.io.sign import SigningKey

HERE = Path(__file__).parent
N, PRIMES = 16, (67043329, 134348801)
L = len(PRIMES)
SEED = bytes(range(32))
PASSPHRASE = "correct horse, Pferd für Pferd"
STUDY = {"format": "pybfv-study", "set": "insecure_n16_q53", "statistics": ["count"], "version": 1}


def residues(*shape: int, salt: int) -> np.ndarray:
    """Made-up residues [*shape, L, N]: 1000003 (k + salt) mod p for the k-th word."""
    count = int(np.prod(shape)) * L * N
    words = (np.arange(count, dtype=np.uint64) + np.uint64(salt)) * np.uint64(1000003)
    array = words.reshape(*shape, L, N) % np.array(PRIMES, dtype=np.uint64)[:, None]
    return array.astype(np.uint32)


def study() -> StudyDoc:
    """The study of all samples."""
    return StudyDoc.from_data(STUDY)


def public_key() -> PublicKey:
    """The public key of all samples."""
    return PublicKey(study(), N, PRIMES, SEED, residues(salt=7))


def secret_key() -> SecretKey:
    """A secret key (of a set without security, and unrelated to the public key)."""
    s = np.array([0, 1, -1, 1, 0, 0, -1, -1, 1, 1, 0, -1, 1, 0, -1, 0], dtype=np.int8)
    return SecretKey(study().hash, public_key().key_id, "insecure_n16_q53", N, s)


def signing_key() -> SigningKey:
    """The signer of all signed samples."""
    return SigningKey(Ed25519PrivateKey.from_private_bytes(SEED))


def partial(signers: tuple[str, ...] = (), verified: bool = False) -> Partial:
    """A partial of two contributions."""
    return Partial(
        signers=signers,
        verified=verified,
        study=study(),
        key_id=public_key().key_id,
        contribution_ids=("0" * 31 + "1", "f" * 32),
        rows=23,
        dropped=2,
        ciphertexts=3,
        accumulators={"sum.0.0": residues(2, salt=11), "product.0.1.0": residues(3, salt=12)},
    )


def result() -> Result:
    """A result of two contributions."""
    return Result(
        study=study(),
        key_id=public_key().key_id,
        rows=23,
        dropped=2,
        contributions=2,
        reveal="totals",
        product="scale-free",
        packing="batched",
        flood_bits=9,
        backend={"name": "cpu", "kernels": "ntt", "threads": 2, "dpus": None, "tasklets": None},
        ciphertexts={"sum.0.0": residues(2, salt=13)},
    )


@contextmanager
def fixed_protection() -> Iterator[None]:
    """Meanwhile protected keys have a known salt and nonce, and cost little."""
    before, costs = protect.fresh_bytes, protect.LOG2_N
    protect.fresh_bytes, protect.LOG2_N = (lambda size: bytes(range(100, 100 + size))), 4
    try:
        yield
    finally:
        protect.fresh_bytes, protect.LOG2_N = before, costs


def contents() -> dict[str, bytes]:
    """The samples by name, as the code writes them now."""
    doc, key = study(), public_key()
    files = {"study.json": doc.raw}

    stream = io.BytesIO()
    write_public(stream, key)
    files["public.key"] = stream.getvalue()

    with tempfile.TemporaryDirectory() as folder:
        write_secret(Path(folder) / "secret.key", secret_key())
        files["secret.key"] = (Path(folder) / "secret.key").read_bytes()
        with fixed_protection():
            write_secret(Path(folder) / "protected.key", secret_key(), PASSPHRASE)
        files["protected.key"] = (Path(folder) / "protected.key").read_bytes()

    stream = io.BytesIO()
    writer = ContributionWriter(stream, doc, key.key_id, "00112233445566778899aabbccddeeff", "public", N, PRIMES, 2)
    writer.block(residues(2, 2, salt=1))
    writer.block(residues(2, 2, salt=2))
    writer.close(rows=20, dropped=1)
    files["public.bfvc"] = stream.getvalue()

    stream = io.BytesIO()
    writer = ContributionWriter(stream, doc, key.key_id, "ffeeddccbbaa99887766554433221100", "symmetric", N, PRIMES, 1)
    writer.symmetric_block(np.frombuffer(SEED, dtype=np.uint8)[None], residues(1, salt=3))
    writer.close(rows=3, dropped=1)
    files["symmetric.bfvc"] = stream.getvalue()

    stream = io.BytesIO()
    write_partial(stream, partial())
    files["partial.bfvp"] = stream.getvalue()

    stream = io.BytesIO()
    write_result(stream, result())
    files["result.bfvr"] = stream.getvalue()

    files |= signed_contents()
    facts = {"seed": SEED.hex(), "n": N, "primes": PRIMES, "residues": [expand(SEED, i) for i in range(L)]}
    files["expansion.json"] = json.dumps(facts).encode() + b"\n"
    return files


def signed_contents() -> dict[str, bytes]:
    """The signed samples and the verifying key."""
    doc, key, signer = study(), public_key(), signing_key()
    streams = {name: io.BytesIO() for name in ("signed.bfvc", "signed.bfvp", "signed.bfvr")}
    identity = "0123456789abcdeffedcba9876543210"
    writer = ContributionWriter(streams["signed.bfvc"], doc, key.key_id, identity, "public", N, PRIMES, 1, signer)
    writer.block(residues(1, 2, salt=4))
    writer.close(rows=5, dropped=1)
    other = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))).signer
    write_partial(streams["signed.bfvp"], partial((other, signer.signer), verified=True), signer)
    write_result(streams["signed.bfvr"], result(), signer)
    return {name: stream.getvalue() for name, stream in streams.items()} | {"verify.key": signer.public_pem()}


def expand(seed: bytes, index: int) -> list[int]:
    """FORMAT.md, section 9."""
    p = PRIMES[index]
    counter = struct.pack("<I", index) + bytes(12)
    stream = Cipher(algorithms.AES(seed), modes.CTR(counter)).encryptor()
    taken: list[int] = []
    while len(taken) < N:
        (word,) = struct.unpack("<I", stream.update(bytes(4)))
        value = word & ((1 << p.bit_length()) - 1)
        if value < p:
            taken.append(value)
    return taken


def document_expansion() -> str:
    """The listing in FORMAT.md, section 9."""
    lines = []
    for i, p in enumerate(PRIMES):
        values = [str(v) for v in expand(SEED, i)]
        lines += [f"mod {p}: " + " ".join(values[:8]), " " * len(f"mod {p}: ") + " ".join(values[8:])]
    return "\n".join(lines)


def document_example() -> str:
    """The listing in FORMAT.md, section 10."""
    data = contents()["symmetric.bfvc"]
    lines: list[str] = []
    at = 0

    def line(size: int, meaning: str) -> bytes:
        nonlocal at
        part = data[at : at + size]
        lines.append(f"{at:04x}  {' '.join(f'{b:02x}' for b in part):<47}  {meaning}".rstrip())
        at += size
        return part

    def text(size: int) -> None:
        while size:
            step = min(16, size)
            shown = "".join(chr(b) if 32 <= b < 127 else "." for b in data[at : at + step])
            line(step, f"|{shown}")
            size -= step

    line(8, "magic")
    line(2, "format version 1")
    line(2, "kind 3, a contribution")
    line(4, "CRC-32C of bytes 0000 to 000b")
    number = 0
    tag = b""
    while tag != b"END ":
        tag = line(4, f"record {number}: tag {tag_text(data[at : at + 4])}")
        size = struct.unpack("<Q", line(8, f"payload bytes: {struct.unpack_from('<Q', data, at)[0]}"))[0]
        if tag == b"BLCK":
            for k in range(0, 32, 16):
                line(16, f"seed of ciphertext 0, bytes {k} to {k + 15}")
            for p in PRIMES:
                for j in range(0, N, 4):
                    line(16, f"first part mod {p}: residues {j} to {j + 3}")
        elif tag == b"END ":
            for meaning in ("records before this one", "rows", "dropped rows", "blocks"):
                line(8, f"{meaning}: {struct.unpack_from('<Q', data, at)[0]}")
        else:
            text(size)
        line(4, f"CRC-32C of record {number} with its binding and number")
        number += 1
    assert at == len(data)
    return "\n".join(lines)


def tag_text(tag: bytes) -> str:
    """A tag in quotes."""
    return '"' + tag.decode("ascii") + '"'


def main(arguments: list[str]) -> int:
    """The command line."""
    if arguments == ["--document"]:
        print(document_expansion(), document_example(), sep="\n\n")
        return 0
    wrong = 0
    for name, data in contents().items():
        path = HERE / name
        if arguments == ["--write"]:
            path.write_bytes(data)
        elif not path.is_file() or path.read_bytes() != data:
            print(f"{path} differs from what the code writes")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
