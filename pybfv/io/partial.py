"""Partials: unscaled accumulators of some contributions, which merge by addition (FORMAT.md, section 7).

Equal contents give equal bytes: nothing in the file tells when, where or in which order it was made.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np

from pybfv.errors import DataError
from pybfv.io.container import EndTotals, Kind, RecordReader, RecordWriter, open_records
from pybfv.io.header import (
    Fields,
    Layout,
    check_named,
    named_field,
    params_fields,
    read_named,
    read_study_of,
    require_count,
    require_hex,
    study_params,
    take_named,
    wide_primes_of,
    write_named,
)
from pybfv.io.sign import SIGNER_DIGITS, SigningKey, Trust
from pybfv.io.source import PathLike
from pybfv.io.study import StudyDoc, write_study_record
from pybfv.params import ParameterSet

IDS = b"CIDS"
SIGNERS = b"SGNR"
ACCUMULATOR = b"ACCU"
MAX_IDS = 1 << 24
"""A partial names at most this many contributions."""


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """Accumulated contributions.

    ``contribution_ids``: sorted, distinct, 32 hexadecimal digits each. ``rows``, ``dropped``: over all
    of them. ``ciphertexts``: summed ciphertexts per column. ``accumulators``: by name, uint32
    [parts, L, N], those of scaled products [3, L + K, N] with K wide primes, NTT form, reduced.
    ``signers``: () when no contribution is signed, else whom each names as its signer, in the order of the ids, "" for
    nobody. ``verified``: each is signed, and all signatures were checked when they were counted.
    DataError when these don't fit each other.
    """

    study: StudyDoc
    key_id: str
    contribution_ids: tuple[str, ...]
    rows: int
    dropped: int
    ciphertexts: int
    accumulators: dict[str, np.ndarray]
    signers: tuple[str, ...] = ()
    verified: bool = False

    params: ParameterSet = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", study_params(self.study))
        require_hex(self.key_id, 32, "a key id")
        for one in self.contribution_ids:
            require_hex(one, 32, "a contribution id")
        if any(a >= b for a, b in zip(self.contribution_ids, self.contribution_ids[1:], strict=False)):
            raise DataError("the contribution ids of a partial must be sorted and distinct")
        if len(self.contribution_ids) > MAX_IDS:
            raise DataError(f"a partial names at most {MAX_IDS} contributions; combine fewer into one")
        _check_signers(self.signers, len(self.contribution_ids))
        if self.verified and ("" in self.signers or not self.signers):
            raise DataError("a partial whose signatures were checked must name the signer of each contribution")
        require_count(self.rows, "rows", 1)
        require_count(self.dropped, "dropped rows")
        require_count(self.ciphertexts, "ciphertexts", 1)
        why = misfit(self.params.n, len(self.contribution_ids), self.rows, self.ciphertexts)
        if why:
            raise DataError(f"this partial can't be: {why}")
        check_named(Layout(self.params, wide_primes_of(self.study)), self.accumulators)

    @property
    def contributions(self) -> int:
        """The number of contributions."""
        return len(self.contribution_ids)

    def __repr__(self) -> str:
        return f"Partial(contributions={self.contributions}, rows={self.rows}, key_id={self.key_id})"


def misfit(n: int, contributions: int, rows: int, ciphertexts: int) -> str:
    """Why no such contributions exist ("" when they may): each has 1 row or more, n to a block.

    Contributions of r_i >= 1 rows have sum ceil(r_i/n) blocks, which is at least ceil(rows/n) and
    contributions, and at most contributions + floor((rows - contributions)/n).
    """
    if contributions < 1 or rows < contributions:
        return f"{contributions} contributions with {rows} rows"
    low = max(contributions, -(-rows // n))
    high = contributions + (rows - contributions) // n
    if not low <= ciphertexts <= high:
        return f"{contributions} contributions of {rows} rows fill {low} to {high} blocks, not {ciphertexts}"
    return ""


def _check_signers(signers: tuple[str, ...], contributions: int) -> None:
    if not signers:
        return
    known = [one for one in signers if one]
    if len(signers) != contributions or not known:
        raise DataError("the signers of a partial must be one for each contribution, and somebody")
    for one in known:
        require_hex(one, SIGNER_DIGITS, "a signer")
    if len(set(known)) != len(known):
        raise DataError("a partial must hold one contribution of a signer at most")


def write_partial(stream: BinaryIO, partial: Partial, signer: SigningKey | None = None) -> None:
    """Writes a partial to a binary stream. ``signer``: signs the file."""
    writer = RecordWriter(stream, Kind.PARTIAL, signer)
    fields = {
        "accumulators": named_field(partial.accumulators),
        "ciphertexts": int(partial.ciphertexts),
        "contributions": partial.contributions,
        "dropped": int(partial.dropped),
        "key_id": partial.key_id,
        "rows": int(partial.rows),
        "study_hash": partial.study.hash,
    }
    if partial.signers:
        fields["signed"] = len(partial.signers) - partial.signers.count("")
    if partial.verified:
        fields["verified"] = True
    writer.header(fields | params_fields(partial.params))
    write_study_record(writer, partial.study)
    writer.record(IDS, bytes.fromhex("".join(partial.contribution_ids)))
    if partial.signers:
        writer.record(SIGNERS, bytes.fromhex("".join(one or "0" * SIGNER_DIGITS for one in partial.signers)))
    write_named(writer, ACCUMULATOR, partial.accumulators)
    writer.end(partial.rows, partial.dropped, partial.ciphertexts)


@dataclass(frozen=True, slots=True)
class PartialHeader:
    """The checked header of a partial."""

    params: ParameterSet
    key_id: str
    study_hash: str
    contributions: int
    rows: int
    dropped: int
    ciphertexts: int
    entries: list[tuple[str, int]]
    signed: int
    verified: bool

    def layout(self, study: StudyDoc, origin: str) -> Layout:
        """How large the accumulators of that study are; ``origin`` names the file in messages."""
        return Layout(self.params, wide_primes_of(study, f"{origin}: "))


def take_header(reader: RecordReader) -> PartialHeader:
    """Reads and checks the header."""
    fields = Fields(reader.header(), reader.origin)
    contributions = fields.integer("contributions", 1, MAX_IDS)
    header = PartialHeader(
        key_id=fields.hexadecimal("key_id", 32),
        study_hash=fields.hexadecimal("study_hash", 64),
        contributions=contributions,
        signed=fields.integer("signed", 1, contributions) if fields.has("signed") else 0,
        verified=fields.has("verified"),
        rows=fields.integer("rows", 1),
        dropped=fields.integer("dropped"),
        ciphertexts=fields.integer("ciphertexts", 1),
        entries=take_named(fields, "accumulators"),
        params=fields.params(),
    )
    if header.verified and (fields.any("verified") is not True or header.signed != contributions):
        raise fields.bad("its field 'verified' is not true, or not all of its contributions are signed")
    fields.done()
    why = misfit(header.params.n, header.contributions, header.rows, header.ciphertexts)
    if why:
        raise fields.bad(why)
    return header


def check_totals(reader: RecordReader, totals: EndTotals, header: PartialHeader) -> None:
    """Refuses an end whose counts are not the header's."""
    if totals != (header.rows, header.dropped, header.ciphertexts):
        raise reader.damaged("the counts at its end differ from its header's")


def read_partial(path: PathLike, trust: Trust | None = None) -> Partial:
    """The partial in a file (``-``: standard input), checked. DataError naming the file otherwise.

    ``trust``: it must be signed by one of these signers.
    """
    with open_records(path, Kind.PARTIAL, trust=trust) as reader:
        header = take_header(reader)
        study = read_study_of(reader, header.study_hash, header.params)
        reader.expect(IDS, 16 * header.contributions)
        text = reader.payload(16 * header.contributions).hex()
        ids = tuple(text[i : i + 32] for i in range(0, len(text), 32))
        if any(a >= b for a, b in itertools.pairwise(ids)):
            raise reader.damaged("its contribution ids are not sorted and distinct")
        signers = _read_signers(reader, header)
        arrays = read_named(reader, ACCUMULATOR, header.layout(study, reader.origin), header.entries)
        check_totals(reader, reader.end(), header)
    return Partial(
        study, header.key_id, ids, header.rows, header.dropped, header.ciphertexts, arrays, signers, header.verified
    )


def _read_signers(reader: RecordReader, header: PartialHeader) -> tuple[str, ...]:
    if not header.signed:
        return ()
    size = SIGNER_DIGITS // 2 * header.contributions
    reader.expect(SIGNERS, size)
    text = reader.payload(size).hex()
    nobody = "0" * SIGNER_DIGITS
    found = [text[i : i + SIGNER_DIGITS] for i in range(0, len(text), SIGNER_DIGITS)]
    signers = tuple("" if one == nobody else one for one in found)
    known = set(signers) - {""}
    if not len(known) == len(signers) - signers.count("") == header.signed:
        raise reader.damaged(f"it names {len(known)} signers where its header says {header.signed}")
    return signers
