"""Contributions: one encrypted table, streamed block by block (FORMAT.md, section 6).

A block holds N rows: one ciphertext for each column, and for each plaintext modulus where the study
has several. Public mode stores both parts; symmetric mode stores the 32-byte seed that the second
part is expanded from (section 9; expansion is the caller's) and the first part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO, Self

import numpy as np

from pybfv.errors import DataError
from pybfv.io.container import END, MAX_RECORD, EndTotals, Kind, RecordReader, RecordWriter, wire
from pybfv.io.header import (
    Fields,
    check_not_transparent,
    check_residues,
    params_fields,
    read_study_of,
    require_array,
    require_count,
    require_hex,
    study_params,
)
from pybfv.io.key import SEED_BYTES
from pybfv.io.source import PathLike, open_source
from pybfv.io.study import StudyDoc, write_study_record
from pybfv.params import ParameterSet

BLOCK = b"BLCK"
MODES = ("public", "symmetric")


def block_bytes(params: ParameterSet, mode: str, per_block: int) -> int:
    """Payload bytes of one block record."""
    poly = 4 * len(params.primes) * params.n
    return per_block * (2 * poly if mode == "public" else poly + SEED_BYTES)


class ContributionWriter:
    """Writes a contribution to a binary stream, which may be a pipe.

    ``key_id``, ``contribution_id``: 32 hexadecimal digits. ``mode``: "public" or "symmetric".
    ``n``, ``primes``: those of the study's set. ``per_block``: ciphertexts in a block, at least 1.
    Call block (public) or symmetric_block for every block, then close.
    """

    def __init__(
        self,
        stream: BinaryIO,
        study: StudyDoc,
        key_id: str,
        contribution_id: str,
        mode: str,
        n: int,
        primes: Sequence[int],
        per_block: int,
    ) -> None:
        params = study_params(study)
        if (n, tuple(primes)) != (params.n, params.primes):
            raise DataError(f"a contribution's n and primes must be those of its study's set {params.name}")
        if mode not in MODES:
            raise DataError(f"a contribution's mode must be one of {', '.join(MODES)}, not {ascii(mode)[:40]}")
        require_hex(key_id, 32, "a key id")
        require_hex(contribution_id, 32, "a contribution id")
        require_count(per_block, "ciphertexts in a block", 1)
        if block_bytes(params, mode, per_block) > MAX_RECORD:
            raise DataError(
                f"a block of {per_block} ciphertexts is beyond the format's limit of {MAX_RECORD} bytes:"
                " use fewer columns"
            )
        self._params = params
        self._mode = mode
        self._per_block = int(per_block)
        self.blocks = 0
        self._writer = RecordWriter(stream, Kind.CONTRIBUTION)
        fields = {
            "contribution_id": contribution_id,
            "key_id": key_id,
            "mode": mode,
            "per_block": self._per_block,
            "study_hash": study.hash,
        }
        self._writer.header(fields | params_fields(params))
        write_study_record(self._writer, study)

    def block(self, ciphertexts: np.ndarray) -> None:
        """Appends a public block: uint32 [per_block, 2, L, N], NTT form.

        Residues are in [0, p); that is checked when the file is read.
        """
        self._append("public", ciphertexts, None)

    def symmetric_block(self, seeds: np.ndarray, c0: np.ndarray) -> None:
        """Appends a symmetric block: ``seeds`` uint8 [per_block, 32], ``c0`` uint32 [per_block, L, N].

        Residues are in [0, p); that is checked when the file is read.
        """
        self._append("symmetric", c0, seeds)

    def _append(self, mode: str, ciphertexts: np.ndarray, seeds: np.ndarray | None) -> None:
        if mode != self._mode:
            raise DataError(f"a {mode} block does not belong in a {self._mode} contribution")
        _check_block(self._params, mode, self._per_block, ciphertexts, seeds)
        parts = [wire(ciphertexts)] if seeds is None else [wire(seeds), wire(ciphertexts)]
        self._writer.record(BLOCK, *parts)
        self.blocks += 1

    def close(self, rows: int, dropped: int = 0) -> None:
        """Completes the file. ``rows``: encrypted rows, at least 1; ``dropped``: rows left out.

        DataError unless the blocks are exactly those that the rows fill. The stream stays open.
        """
        rows = require_count(rows, "rows", 1)
        dropped = require_count(dropped, "dropped rows")
        if self.blocks != -(-rows // self._params.n):
            raise DataError(
                f"{rows} rows fill {-(-rows // self._params.n)} blocks of {self._params.n}, not {self.blocks}"
            )
        self._writer.end(rows, dropped, self.blocks)


class ContributionReader:
    """Reads a contribution block by block into the caller's arrays; memory doesn't grow with rows.

    ``path``: a file, or ``-`` for standard input. Known at once: ``study``, ``params`` (``n``,
    ``primes``), ``key_id``, ``contribution_id``, ``mode``, ``per_block``, ``origin`` (the file's name
    for messages). Known after the last block: ``rows``, ``dropped``, ``blocks`` (before: None,
    None, and blocks read so far). A context manager.
    """

    def __init__(self, path: PathLike) -> None:
        self._source = open_source(path)
        try:
            self._reader = RecordReader(self._source, Kind.CONTRIBUTION)
            self.origin = self._reader.origin
            self._read_head()
        except BaseException:
            self._source.close()
            raise
        self.blocks = 0
        self.rows: int | None = None
        self.dropped: int | None = None

    def _read_head(self) -> None:
        fields = take_fields(self._reader)
        self.params: ParameterSet = fields["params"]
        self.n, self.primes = self.params.n, self.params.primes
        self.key_id: str = fields["key_id"]
        self.contribution_id: str = fields["contribution_id"]
        self.mode: str = fields["mode"]
        self.per_block: int = fields["per_block"]
        self.study = read_study_of(self._reader, fields["study_hash"], self.params)
        self._block_bytes = block_bytes(self.params, self.mode, self.per_block)

    @property
    def block_shape(self) -> tuple[int, ...]:
        """The shape of the ciphertext array that read_block fills."""
        ring = (len(self.primes), self.n)
        return (self.per_block, 2, *ring) if self.mode == "public" else (self.per_block, *ring)

    def read_block(self, out: np.ndarray, seeds: np.ndarray | None = None) -> bool:
        """Fills ``out`` (and, in symmetric mode, ``seeds``) with the next block; False at the end.

        ``out``: uint32 of block_shape, C-contiguous, NTT form, residues below their primes (checked);
        ``seeds``: uint8 [per_block, 32]. Raises DataError for anything damaged; the arrays' contents
        are then undefined, and so they are after False.
        """
        if self.rows is not None:
            return False
        _check_block(self.params, self.mode, self.per_block, out, seeds)
        if not out.flags.c_contiguous or (seeds is not None and not seeds.flags.c_contiguous):
            raise DataError("a block is read into C-contiguous arrays")
        tag, size = self._reader.head()
        if tag == END:
            self._finish(size)
            return False
        if tag != BLOCK or size != self._block_bytes:
            raise self._reader.damaged(
                f"a record {tag.decode('latin-1')!a} of {size} bytes stands where block {self.blocks} of"
                f" {self._block_bytes} bytes should"
            )
        where = f"{self.origin}: block {self.blocks}"
        self._reader.payload_into(
            *((out,) if seeds is None else (seeds, out)), check=lambda part: check_residues(self.params, part, where)
        )
        if self.mode == "public":
            for k in np.flatnonzero(out[:, 1, 0, 0] == 0):
                check_not_transparent(out[k], f"{self.origin}: block {self.blocks}, ciphertext {k}")
        self.blocks += 1
        return True

    def _finish(self, size: int) -> None:
        totals = self._reader.end_payload(size)
        check_totals(self._reader, totals, self.n)
        if totals.blocks != self.blocks:
            raise self._reader.damaged(f"it has {self.blocks} blocks, and its end counts {totals.blocks}")
        self.rows, self.dropped = totals.rows, totals.dropped

    def close(self) -> None:
        """Closes the file."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ContributionReader({self.origin}, id={self.contribution_id}, key_id={self.key_id})"


def take_fields(reader: RecordReader) -> dict[str, Any]:
    """The checked header fields of a contribution, ``params`` among them."""
    fields = Fields(reader.header(), reader.origin)
    found: dict[str, Any] = {
        "contribution_id": fields.hexadecimal("contribution_id", 32),
        "key_id": fields.hexadecimal("key_id", 32),
        "mode": fields.choice("mode", MODES),
        "per_block": fields.integer("per_block", 1, MAX_RECORD),
        "study_hash": fields.hexadecimal("study_hash", 64),
        "params": fields.params(),
    }
    fields.done()
    size = block_bytes(found["params"], found["mode"], found["per_block"])
    left = reader.source.left
    if size > (MAX_RECORD if left is None else min(left, MAX_RECORD)):
        raise reader.damaged(f"its header announces blocks of {size} bytes, more than it can hold")
    return found


def check_totals(reader: RecordReader, totals: EndTotals, n: int) -> None:
    """Refuses rows that don't fill the counted blocks of n rows."""
    if totals.rows < 1 or totals.blocks != -(-totals.rows // n):
        raise reader.damaged(f"its end counts {totals.rows} rows in {totals.blocks} blocks of {n}")


def _check_block(
    params: ParameterSet, mode: str, per_block: int, ciphertexts: np.ndarray, seeds: np.ndarray | None
) -> None:
    ring = (len(params.primes), params.n)
    if mode == "public":
        if seeds is not None:
            raise DataError("a public-key contribution has no seeds")
        require_array(ciphertexts, (per_block, 2, *ring), np.uint32, "a block")
    else:
        require_array(ciphertexts, (per_block, *ring), np.uint32, "a block's first parts")
        require_array(seeds, (per_block, SEED_BYTES), np.uint8, "a block's seeds")
