"""What the benchmark prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pybfv.bench.measure import Row

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


def _numbers(side: dict[str, Any]) -> tuple[str, ...]:
    left = str(side["noise_budget_after_sum"]), str(side["noise_budget_after_squares"])
    return f"{side['data_level_bits']:.1f}", str(side["t"]), f"{side['bytes_per_ciphertext']:,}", *left


def markdown(rows: Sequence[Row], sides: Sequence[dict[str, Any]], machine: str, versions: dict[str, str]) -> str:
    """The comparison with SEAL as one Markdown table: what is compared, then SEAL's time over pybfv's."""
    mine, free, theirs = sides[0], *sides[2:]
    names = (mine["side"].split(",")[0], free["side"], theirs["side"])
    lines = [f"| | {' | '.join(names)} |", "| --- " * 4 + "|"]
    facts = ("bits of the data level", "t", "bytes of a ciphertext", "noise budget left after the sum, bits")
    both = list(zip(*(_numbers(side) for side in sides), strict=True))
    for what, cells in zip(facts, both, strict=False):
        lines.append(f"| {what} | {cells[0]} | {cells[2]} | {cells[3]} |")
    squares = both[-1]
    free_left = f"{squares[0]} (scale-free), {squares[1]} (scaled)"
    lines.append(f"| the same after the squares | {free_left} | {squares[2]} | {squares[3]} |")
    lines.append(f"| security | {' | '.join(side['security'] for side in (sides[0], *sides[2:]))} |")
    pairs: dict[str, list[Row]] = {}
    for row in rows:
        if row.seal is not None and "; SEAL" in row.name:
            pairs.setdefault(row.name.split(";")[0], []).append(row)
    for what, found in pairs.items():
        cells = [f"{_number(row.seal or 0)} ({row.ratio:.3g}x)" for row in found]
        lines.append(f"| {what}, us | {_number(found[0].ours)} | {' | '.join(cells)} |")
    about = f"N = 4096, one thread, {machine}; " + ", ".join(f"{k} {v}" for k, v in versions.items())
    return "\n".join([*lines, "", f"{about}. In brackets: SEAL's time over pybfv's.", " ".join(NOTES[2:]), ""])


def table(rows: Sequence[Row], sides: Sequence[dict[str, Any]], machine: str) -> str:
    """Everything for a reader."""
    lines = [("", "unit", "pybfv", "SEAL", "ratio", "target")]
    for row in rows:
        seal = "" if row.seal is None else _number(row.seal)
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}x"
        lines.append((row.name, row.unit, _number(row.ours), seal, ratio, _target(row)))
    about = [("", "data-level bits", "t", "bytes", "budget left: sum", "squares", "product", "security")]
    for side in sides:
        about.append((side["side"], *_numbers(side), side["product"], side["security"]))
    parts = f"Times on: {machine}", _columns(lines), f"N = 4096:\n{_columns(about)}", "\n".join(NOTES)
    return "\n\n".join(parts)


BEGIN, END = "<!-- begin: python -m pybfv.bench --readme -->\n", "<!-- end -->\n"


def put(path: Path, text: str) -> None:
    """Replaces what stands between the two marks in a file."""
    before, _, rest = path.read_text().partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"bench: {path.name} lacks the marks {BEGIN.strip()} and {END.strip()}")
    path.write_text(f"{before}{BEGIN}{text}{END}{after}")


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
