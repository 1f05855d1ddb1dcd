"""Encryption of a CSV file: rows to blocks of N, each column of a block to a ciphertext.

Streams: one block is encrypted, on all cores, while the next is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import BinaryIO, TypeVar

import numpy as np

from pybfv import native
from pybfv.client.csvio import CsvOptions, blocks
from pybfv.client.csvsource import Source, source_name
from pybfv.entropy import fresh_bytes
from pybfv.errors import DataError, KeyRefusedError
from pybfv.io.ciphertext import ContributionWriter
from pybfv.io.key import PublicKey
from pybfv.io.secret_key import SecretKey
from pybfv.native.secret import Secret
from pybfv.scheme import public
from pybfv.scheme.symmetric import SymmetricBatch
from pybfv.study import Study

Item = TypeVar("Item")


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The items, each made in another thread while the caller works on the one before; errors come in their place."""
    source = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="pybfv-read") as worker:
        ticket = worker.submit(next, source, None)
        while (item := ticket.result()) is not None:
            ticket = worker.submit(next, source, None)
            yield item


def check_key(study: Study, key: PublicKey | SecretKey) -> None:
    """KeyRefusedError when the key is not this study's or not for this way of revealing."""
    theirs = key.study.hash if isinstance(key, PublicKey) else key.study_hash
    if theirs != study.hash:
        raise KeyRefusedError(
            f"key {key.key_id} belongs to study {theirs[:16]}, not to study {study.hash[:16]}; "
            "take the key that was made with pybfv keygen from this study"
        )
    if isinstance(key, SecretKey) and study.reveal == "totals":
        raise KeyRefusedError(
            "a secret key encrypts only under --reveal slots; under totals take the public key (public.key)"
        )


def encrypt(
    study: Study,
    source: Source,
    options: CsvOptions,
    key: PublicKey | SecretKey,
    stream: BinaryIO,
    progress: Callable[[int], None] = lambda rows: None,
) -> tuple[int, int]:
    """Encrypts a CSV into ``stream`` as a contribution; returns (rows, dropped rows).

    A public key needs 2 parts a ciphertext; a secret key sends part 1 as a seed. Raises DataError for
    data that the study does not allow, naming row, column and text, and KeyRefusedError for the key.
    """
    check_key(study, key)
    ps = study.ps
    data = blocks(source, options, study.columns[1:], study.bounds, study.missing, ps.n)
    ones = np.ones(ps.n, dtype=np.int64)
    shape = (len(ps.primes), ps.n)
    with ExitStack() as stack:
        ring = stack.enter_context(native.Ring(ps.n, ps.primes))
        encoders = [
            stack.enter_context(
                native.Encoder.batched(ring, study.t_primes(r))
                if study.packing == "batched"
                else native.Encoder.coefficients(ring, t)
            )
            for r, t in enumerate(study.moduli)
        ]
        writer = ContributionWriter(
            stream, study.doc, key.key_id, fresh_bytes(16).hex(),
            "public" if isinstance(key, PublicKey) else "symmetric", ps.n, ps.primes, study.per_block,
        )  # fmt: skip
        out = native.empty((study.per_block, *((2,) if isinstance(key, PublicKey) else ()), *shape))
        seeds = np.empty((study.per_block, 32), dtype=np.uint8)
        if isinstance(key, PublicKey):
            batch = public.BatchEncryptor(ring, public.public_polys(ring, key.seed, key.p0), threads=0)
        else:
            symmetric = SymmetricBatch(ring, stack.enter_context(Secret(ring, key.s)), threads=0)
        rows = 0
        for block in ahead(data):
            rows += block.rows
            # before the work: a study refuses what its noise and growth bounds were not made for
            study.check_limits(rows, 1, 1 + (rows - 1) // ps.n, source_name(source))
            columns = (ones[: block.rows], *block.values)
            for r, encoder in enumerate(encoders):  # ciphertexts of a column lie together, one for each modulus
                if isinstance(key, PublicKey):
                    batch.encrypt(encoder, columns, out[r:], len(encoders))
                else:
                    symmetric.encrypt(encoder, columns, seeds[r:], out[r:], len(encoders))
            if isinstance(key, PublicKey):
                writer.block(out)
            else:
                writer.symmetric_block(seeds, out)
            progress(rows)
        if rows == 0:
            raise DataError(f"{source_name(source)}: no complete rows to encrypt; give a file with data")
        writer.close(rows, data.dropped)
    return rows, data.dropped
