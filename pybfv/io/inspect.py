"""What a file says about itself, without any key."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pybfv.errors import PlanError
from pybfv.io import ciphertext, partial, result
from pybfv.io.canonical import MAX_BYTES
from pybfv.io.container import MAGIC, PROLOGUE_SIZE, VERSION, Kind, RecordReader, sniff
from pybfv.io.header import Layout, read_study_of
from pybfv.io.key import read_public_records
from pybfv.io.source import PathLike, Source, open_source
from pybfv.io.study import STUDY_VERSION, StudyDoc, parse_study
from pybfv.params import ParameterSet, get_set

NEED = "a study, public key, contribution, partial or result"
_OPEN_KINDS = tuple(kind for kind in Kind if kind is not Kind.SECRET_KEY)


Facts = tuple[dict[str, Any], StudyDoc]


def describe(path: PathLike) -> dict[str, Any]:
    """The facts of any of our files but a secret key (KeyRefusedError), ready for JSON.

    ``path``: a file, or ``-``. Always: file, kind, version, study (hash), statistics (the study's), set,
    insecure, security, ring_dimension, log2_q (these five null where a study names no known set), reveal, product
    (both as the study says). By kind: key, rows, dropped_rows, contributions, contribution, mode, blocks,
    ciphertexts_per_block, ciphertexts, packing, flood_bits, backend, contents. Of a regular file the
    header, study and end are checked, the polynomials are not: they are checked where they are used.
    Whether the study carries what it claims is not known here: see `facts_and_study`.
    """
    return facts_and_study(path)[0]


def facts_and_study(path: PathLike) -> Facts:
    """The facts of `describe` and the study in the file, for whoever knows how to judge it (pybfv.study)."""
    with open_source(path) as source:
        start = source.read_up_to(PROLOGUE_SIZE)
        if start.startswith(b"{"):
            return _study_file(start, source)
        if not start.startswith(MAGIC[:5]):
            sniff(start, source.origin, NEED)
        reader = RecordReader(source, *_OPEN_KINDS, start=start, need=NEED)
        facts, study = _BY_KIND[reader.kind](reader)
        if reader.signer:
            facts |= {"signer": reader.signer}
        kind = reader.kind.name.lower().replace("_", " ")
        return {"file": source.origin, "kind": kind, "version": VERSION} | facts, study


def _study_file(start: bytes, source: Source) -> Facts:
    study = parse_study(start + source.read_up_to(MAX_BYTES + 1 - len(start)), source.origin)
    params = None
    with suppress(PlanError, TypeError):
        params = get_set(study.data.get("set"))
    facts = {"file": source.origin, "kind": "study", "version": STUDY_VERSION} | _common(study, params)
    planned = {name: study.data.get(name) for name in ("max_rows", "max_contributions", "missing")}
    planned["min_contributors"] = study.data.get("min_contributors", 1)
    return facts | {"bounds": _bounds(study.data.get("columns"))} | planned, study


def _bounds(columns: Any) -> dict[str, str]:
    """The bounds of each column in its own units, as --bounds takes them; what is malformed is left out."""
    found = {}
    for column in columns if isinstance(columns, list) else []:
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            scale = column["scale"]
            if 0 <= scale <= 1000:
                found[column["name"]] = ":".join(_decimal(int(column[end]), scale) for end in ("lo", "hi"))
    return found


def _decimal(mantissa: int, decimals: int) -> str:
    text = str(abs(mantissa)).zfill(decimals + 1)
    head, tail = text[: len(text) - decimals], text[len(text) - decimals :]
    return ("-" if mantissa < 0 else "") + head + (f".{tail}" if tail else "")


def _common(study: StudyDoc, params: ParameterSet | None) -> dict[str, Any]:
    statistics = study.data.get("statistics")
    return {
        "study": study.hash,
        "statistics": statistics if isinstance(statistics, list) else [],
        "reveal": study.data.get("reveal"),
        "product": study.data.get("product"),
        "set": params.name if params else None,
        "insecure": params.insecure if params else None,
        "security": params.security if params else None,
        "ring_dimension": params.n if params else None,
        "log2_q": round(params.log2_q, 3) if params else None,
    }


def _public_key(reader: RecordReader) -> Facts:
    key = read_public_records(reader)
    return _common(key.study, key.params) | {"key": key.key_id}, key.study


def _contribution(reader: RecordReader) -> Facts:
    fields = ciphertext.take_fields(reader)
    params: ParameterSet = fields["params"]
    study = read_study_of(reader, fields["study_hash"], params)
    totals, skipped = reader.skip_to_end()
    ciphertext.check_totals(reader, totals, params.n)
    ciphertext.check_skipped(
        reader, skipped, totals.blocks * ciphertext.block_bytes(params, fields["mode"], fields["per_block"])
    )
    facts = {
        "key": fields["key_id"],
        "contribution": fields["contribution_id"],
        "contributions": 1,
        "rows": totals.rows,
        "dropped_rows": totals.dropped,
        "mode": fields["mode"],
        "blocks": totals.blocks,
        "ciphertexts_per_block": fields["per_block"],
    }
    return _common(study, params) | facts, study


def _partial(reader: RecordReader) -> Facts:
    header = partial.take_header(reader)
    study = read_study_of(reader, header.study_hash, header.params)
    totals, skipped = reader.skip_to_end()
    partial.check_totals(reader, totals, header)
    ciphertext.check_skipped(
        reader,
        skipped,
        (16 + (32 if header.signed else 0)) * header.contributions
        + header.layout(study, reader.origin).bytes(header.entries),
    )
    facts = {
        "key": header.key_id,
        "contributions": header.contributions,
        "rows": header.rows,
        "dropped_rows": header.dropped,
        "ciphertexts": header.ciphertexts,
        "contents": [name for name, _ in header.entries],
    }
    return _common(study, header.params) | facts, study


def _result(reader: RecordReader) -> Facts:
    found = result.take_header(reader)
    params: ParameterSet = found["params"]
    study = read_study_of(reader, found["study_hash"], params)
    totals, skipped = reader.skip_to_end()
    result.check_totals(reader, totals, found)
    ciphertext.check_skipped(reader, skipped, Layout(params).bytes(found["entries"]))
    shared = ("contributions", "rows", "reveal", "product", "packing", "flood_bits", "backend")
    facts = (
        _common(study, params)
        | {"key": found["key_id"], "dropped_rows": found["dropped"]}
        | {name: found[name] for name in shared}
        | {"backend": {"name": found["backend"]["name"], **found["backend"]}}
        | {"contents": [name for name, _ in found["entries"]]}
    )
    return facts, study


_BY_KIND: dict[Kind, Callable[[RecordReader], Facts]] = {
    Kind.PUBLIC_KEY: _public_key,
    Kind.CONTRIBUTION: _contribution,
    Kind.PARTIAL: _partial,
    Kind.RESULT: _result,
}
