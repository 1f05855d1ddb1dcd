"""What the benchmark prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.measure import Row

NOTES = (
    "us: CPU time of the one thread, medians of interleaved repetitions; rows/s, MB/s, ms: wall clock.",
    "A ratio is SEAL's time over pybfv's in this run. Read ratios: times belong to the machine named above.",
    "SEAL is that of TenSEAL's wheel, through tenseal.sealapi, without HEXL. Elsewhere, SEAL in C++",
    "with HEXL for its CPU took about 0.7 of the wheel's time for the variance and 0.25 of it for the sum.",
    "pybfv accumulates distinct ciphertexts from huge pages; SEAL's sum runs over as many distinct ones, its",
    "squares over 64 in turn, 512 or 128 of them a repetition. Neither relinearises.",
)
"""Lines under the table."""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _target(row: Row) -> str:
    if row.met is None:
        return ""
    bounds = ((">=", row.at_least), (">", row.above), ("<", row.below))
    want = next(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)
    return f"{want}  {'met' if row.met else 'MISSED'}"


def _columns(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = []
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1], strict=True)]
        shown.append("  ".join([*cells, line[-1]]).rstrip())
    return "\n".join(shown)


def table(rows: Sequence[Row], sides: Sequence[dict[str, Any]], machine: str) -> str:
    """Everything for a reader."""
    lines = [("", "unit", "pybfv", "SEAL", "ratio", "target")]
    for row in rows:
        seal = "" if row.seal is None else _number(row.seal)
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}x"
        lines.append((row.name, row.unit, _number(row.ours), seal, ratio, _target(row)))
    about = [("", "data-level bits", "t", "bytes", "product", "security")]
    for side in sides:
        numbers = f"{side['data_level_bits']:.1f}", str(side["t"]), f"{side['bytes_per_ciphertext']:,}"
        about.append((side["side"], *numbers, side["product"], side["security"]))
    parts = f"Times on: {machine}", _columns(lines), f"N = 4096:\n{_columns(about)}", "\n".join(NOTES)
    return "\n\n".join(parts)


def document(
    rows: Sequence[Row], sides: Sequence[dict[str, Any]], machine: str, versions: dict[str, str]
) -> dict[str, Any]:
    """The same as one JSON document."""
    return {
        "schema_version": 1,
        "machine": machine,
        "threads": 1,
        "versions": versions,
        "rows": [
            {
                "name": r.name, "unit": r.unit, "pybfv": r.ours, "seal": r.seal, "ratio": r.ratio,
                "at_least": r.at_least, "above": r.above, "below": r.below, "met": r.met,
            }
            for r in rows
        ],
        "sides": list(sides),
        "notes": " ".join(NOTES),
    }  # fmt: skip
