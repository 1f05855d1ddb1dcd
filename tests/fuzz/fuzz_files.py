"""Every parser of a file: raw bytes, and files whose checksums are right whatever was done to them.

A file is refused in one line, or it is read, and then writing what was read gives the same bytes. ``describe`` is
held to its refusals only: it does not read everything.
"""

from __future__ import annotations

import atheris
from common import EDGES, Input, refusal_or, run  # first: it says what is instrumented

with atheris.instrument_imports(include=["pybfv", "pybfv_workloads"]):
    import hashlib
    import io
    import json
    import os
    import struct
    import sys
    import tempfile
    from types import SimpleNamespace

    import numpy as np
    from io_tools import SAMPLES, put_together, samples, take_apart

    from pybfv.errors import DataError
    from pybfv.io import (
        ContributionReader,
        ContributionWriter,
        canonical_bytes,
        describe,
        protect,
        read_partial,
        read_public,
        read_result,
        read_study,
        write_partial,
        write_public,
        write_result,
        write_study,
    )
    from pybfv.io.secret_key import read_secret, write_secret
    from pybfv.study import Study

protect.MAX_MEMORY, protect.MAX_WORK = 1 << 20, 1 << 10  # so that no input takes long

FOLDERS = (SAMPLES, SAMPLES.parent / "golden" / "slots", SAMPLES.parent / "golden" / "regression")
SEEDS = [
    path.read_bytes()
    for folder in FOLDERS
    for path in sorted(folder.iterdir())
    if path.suffix in (".key", ".bfvc", ".bfvp", ".bfvr")
    and path.name != "verify.key"  # which is PEM
    and b'"signer":' not in path.read_bytes()  # who writes it again would have to sign
]
STUDIES = [(folder / "study.json").read_bytes() for folder in FOLDERS]
PARTS = [take_apart(data) for data in SEEDS]
VALUES = [None, True, [], {}, "", "x", -1, 10**30, "0" * 32, "0" * 64, *EDGES]
WORK = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
PATH = os.path.join(WORK.name, "input")


def written(write, value) -> bytes:
    stream = io.BytesIO()
    write(stream, value)
    return stream.getvalue()


def contribution(path) -> bytes:
    stream = io.BytesIO()
    with ContributionReader(path) as reader:
        if reader.blocks or np.prod(reader.block_shape) > 1 << 22:
            raise DataError("the fuzzer has not that much memory")
        writer = ContributionWriter(
            stream,
            reader.study,
            reader.key_id,
            reader.contribution_id,
            reader.mode,
            reader.n,
            reader.primes,
            reader.per_block,
        )
        out = np.empty(reader.block_shape, dtype=np.uint32)
        if reader.mode == "public":
            while reader.read_block(out):
                writer.block(out)
        else:
            seeds = np.empty((reader.per_block, 32), dtype=np.uint8)
            while reader.read_block(out, seeds):
                writer.symmetric_block(seeds, out)
        writer.close(reader.rows, reader.dropped)
    return stream.getvalue()


def secret(path) -> bytes:
    """A protected key that opens must be the sample: written again with its salt and nonce it is the same bytes."""
    copy = os.path.join(WORK.name, "copy")
    asked: list[str] = []

    def passphrase(origin: str) -> bytearray:
        asked.append(origin)
        return bytearray(samples.PASSPHRASE.encode())

    key = read_secret(path, passphrase)
    try:
        with samples.fixed_protection():
            write_secret(copy, key, samples.PASSPHRASE if asked else None)
        with open(copy, "rb") as stream:
            return stream.read()
    finally:
        key.wipe()
        if os.path.exists(copy):
            os.unlink(copy)


READERS = {
    1: secret,
    2: lambda path: written(write_public, read_public(path)),
    3: contribution,
    4: lambda path: written(write_partial, read_partial(path)),
    5: lambda path: written(write_result, read_result(path)),
}


def edited_header(raw: bytes, source: Input) -> bytes:
    """The header with one field changed, left out or added, in canonical form."""
    try:
        fields = json.loads(raw)
    except ValueError:
        return raw
    if type(fields) is not dict or not fields:
        return raw
    name = source.pick(sorted(fields))
    action = source.byte() % 4
    if action == 0:
        del fields[name]
    elif action == 1:
        fields[source.take(3).hex()] = 0
    elif action == 2 and type(fields[name]) is list:
        fields[name] = [*fields[name], *fields[name][:1]][source.byte() % 2 :]
    else:
        fields[name] = source.pick(VALUES)
    return canonical_bytes(fields)


def with_study(records: list[tuple[bytes, bytes]], raw: bytes) -> list[tuple[bytes, bytes]]:
    """The records with another study, whose hash the header states."""
    try:
        fields = json.loads(records[0][1])
        fields["study_hash"] = hashlib.sha256(raw).hexdigest()
        return [(records[0][0], canonical_bytes(fields)), (records[1][0], raw), *records[2:]]
    except (ValueError, TypeError, IndexError):
        return records


def sealed(source: Input) -> bytes:
    """A sample file after some edits, its checksums made right again."""
    kind, records = source.pick(PARTS)
    records = list(records)
    version = 1
    for _ in range(source.byte() % 6):
        if not records:
            break
        at = source.byte() % len(records)
        tag, payload = records[at]
        action = source.byte() % 12
        if action == 0 and payload:
            changed = bytearray(payload)
            changed[source.number() % len(changed)] ^= 1 << source.byte() % 8
            records[at] = (tag, bytes(changed))
        elif action == 1 and len(payload) >= 8:
            changed = bytearray(payload)
            struct.pack_into("<Q", changed, source.number() % (len(payload) // 8) * 8, source.pick(EDGES))
            records[at] = (tag, bytes(changed))
        elif action == 2:
            del records[at]
        elif action == 3:
            records.insert(source.byte() % (len(records) + 1), records[at])
        elif action == 4:
            records[at] = (tag, source.take(source.byte()))
        elif action in (5, 6):
            records[at] = (tag, edited_header(payload, source))
        elif action == 7:
            records[at] = (tag, payload[: source.number()])
        elif action == 8:
            kind = source.byte() % 8
        elif action == 9:
            records[at] = (source.take(4).ljust(4), payload)
        elif action == 10 and len(records) > 1:
            records = with_study(records, edited_header(records[1][1], source))
        elif action == 11:
            size = source.byte()
            place = source.number() % (len(payload) + 1)
            records[at] = (tag, payload[:place] + source.take(size) + payload[place:])
    if source.byte() == 255:
        version = source.number()
    data = put_together(kind, records, version)
    return data + source.take(source.byte() % 3)


def read_as(data: bytes, kind: int, piped: bool) -> None:
    if piped:
        path = "-"
    else:
        path = PATH
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(data)

    def attempt(reader):
        sys.stdin = SimpleNamespace(buffer=io.BytesIO(data))
        return refusal_or(reader, path)

    again = attempt(READERS[kind])
    assert again is None or again == data, "a file was read that is not what the writer writes"
    facts = attempt(describe)
    if facts is not None:
        json.dumps(facts)


def test(data: bytes) -> None:
    source = Input(data)
    mode = source.byte()
    if mode < 32:  # as it is
        raw = source.rest()
        kind = 1 + mode % 5
        read_as(raw, kind, mode >= 16)
    elif mode < 64:  # a study, edited
        raw = source.pick(STUDIES)
        for _ in range(source.byte() % 4):
            raw = edited_header(raw, source)
        if source.byte() % 4 == 0:
            place = source.number() % len(raw)
            raw = raw[:place] + source.rest() + raw[place + source.byte() % 8 :]
        sys.stdin = SimpleNamespace(buffer=io.BytesIO(raw))
        study = refusal_or(read_study, "-")
        if study is not None:
            assert written(write_study, study) == raw
            refusal_or(Study, study)
        sys.stdin = SimpleNamespace(buffer=io.BytesIO(raw))
        refusal_or(describe, "-")
    else:
        made = sealed(source)
        kind = made[10] if len(made) > 10 and made[10] in READERS else 3
        read_as(made, kind, mode % 2 == 0)


if __name__ == "__main__":
    run(test)
