"""Results: finished ciphertexts for the key holder (FORMAT.md, section 8).

A result tells how many contributions it holds, not which.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, BinaryIO

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
    write_named,
)
from pybfv.io.sign import SigningKey, Trust
from pybfv.io.source import PathLike
from pybfv.io.study import StudyDoc, write_study_record
from pybfv.params import ParameterSet

CIPHERTEXT = b"CTXT"
REVEALS = ("totals", "slots")
BACKEND_KEYS = ("name", "kernels", "threads", "dpus", "tasklets")
MAX_FLOOD = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """A finished computation.

    ``reveal``: "totals" or "slots". ``product``, ``packing``: the study's words. ``flood_bits``:
    -65536..65536. ``backend``: exactly the keys name (text), kernels (text), threads, dpus, tasklets
    (integers), all but name may be None. ``ciphertexts``: by name, uint32 [parts, L, N], NTT form.
    DataError when something doesn't fit.
    """

    study: StudyDoc
    key_id: str
    rows: int
    dropped: int
    contributions: int
    reveal: str
    product: str
    packing: str
    flood_bits: int
    backend: dict[str, Any]
    ciphertexts: dict[str, np.ndarray]

    params: ParameterSet = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", study_params(self.study))
        require_hex(self.key_id, 32, "a key id")
        require_count(self.rows, "rows", 1)
        require_count(self.dropped, "dropped rows")
        require_count(self.contributions, "contributions", 1)
        # The header's own checks serve for the rest: a result that can't be read is never written.
        _described(Fields(_description(self), "this result"))
        check_named(Layout(self.params), self.ciphertexts)

    def __repr__(self) -> str:
        return f"Result(contributions={self.contributions}, rows={self.rows}, key_id={self.key_id})"


def _description(result: Result) -> dict[str, Any]:
    return {
        "backend": result.backend,
        "contributions": int(result.contributions),
        "dropped": int(result.dropped),
        "flood_bits": result.flood_bits,
        "packing": result.packing,
        "product": result.product,
        "reveal": result.reveal,
        "rows": int(result.rows),
    }


def _described(fields: Fields) -> dict[str, Any]:
    found: dict[str, Any] = {
        "contributions": fields.integer("contributions", 1),
        "dropped": fields.integer("dropped"),
        "flood_bits": fields.integer("flood_bits", -MAX_FLOOD, MAX_FLOOD),
        "packing": fields.text("packing"),
        "product": fields.text("product"),
        "reveal": fields.choice("reveal", REVEALS),
        "rows": fields.integer("rows", 1),
        "backend": fields.any("backend"),
    }
    if found["rows"] < found["contributions"]:
        raise fields.bad(f"{found['contributions']} contributions with {found['rows']} rows")
    _check_backend(found["backend"], fields)
    return found


def _check_backend(backend: Any, fields: Fields) -> None:
    if type(backend) is not dict or set(backend) != set(BACKEND_KEYS):
        raise fields.bad(f"backend has not exactly the keys {', '.join(BACKEND_KEYS)}")
    for key in BACKEND_KEYS:
        value = backend[key]
        if value is None and key != "name":
            continue
        if key in ("name", "kernels"):  # shown to the key holder: words of a lower-case alphabet only
            good = type(value) is str and re.fullmatch("[a-z][a-z0-9_]{0,31}", value) is not None
        else:
            good = type(value) is int and 0 <= value < 1 << 32
        if not good:
            raise fields.bad(f"backend.{key} is {ascii(value)[:40]}")


def write_result(stream: BinaryIO, result: Result, signer: SigningKey | None = None) -> None:
    """Writes a result to a binary stream. ``signer``: signs the file."""
    writer = RecordWriter(stream, Kind.RESULT, signer)
    fields = {
        "ciphertexts": named_field(result.ciphertexts),
        "key_id": result.key_id,
        "study_hash": result.study.hash,
    }
    writer.header(fields | _description(result) | params_fields(result.params))
    write_study_record(writer, result.study)
    write_named(writer, CIPHERTEXT, result.ciphertexts)
    writer.end(result.rows, result.dropped)


def take_header(reader: RecordReader) -> dict[str, Any]:
    """The checked header fields; ``params``, ``entries``, ``key_id``, ``study_hash`` and the description."""
    fields = Fields(reader.header(), reader.origin)
    found = {
        "key_id": fields.hexadecimal("key_id", 32),
        "study_hash": fields.hexadecimal("study_hash", 64),
        "entries": take_named(fields, "ciphertexts"),
        "params": fields.params(),
        **_described(fields),
    }
    fields.done()
    return found


def check_totals(reader: RecordReader, totals: EndTotals, found: dict[str, Any]) -> None:
    """Refuses an end whose counts are not the header's."""
    if totals != (found["rows"], found["dropped"], 0):
        raise reader.damaged("the counts at its end differ from its header's")


def read_result(path: PathLike, trust: Trust | None = None) -> Result:
    """The result in a file (``-``: standard input), checked. DataError naming the file otherwise.

    ``trust``: it must be signed by one of these signers.
    """
    with open_records(path, Kind.RESULT, trust=trust) as reader:
        found = take_header(reader)
        study = read_study_of(reader, found.pop("study_hash"), found["params"])
        arrays = read_named(reader, CIPHERTEXT, Layout(found.pop("params")), found.pop("entries"))
        check_totals(reader, reader.end(), found)
    try:
        return Result(study=study, ciphertexts=arrays, **found)
    except DataError as exc:
        raise DataError(f"{reader.origin}: {exc}") from None
