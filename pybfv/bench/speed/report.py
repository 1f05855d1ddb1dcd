"""What the speed benchmark prints: a table for readers, and the comparison with SEAL in README.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

NOTES = (
    "us: CPU time of the whole process, medians of repetitions in turn with the other side's; two threads: wall clock.",
    "A ratio is the other's time over pybfv's, the median over repetitions; spread: its quartiles' distance over it.",
    "Read ratios: times belong to the machine named above.",
    "SEAL is that of TenSEAL's wheel, through tenseal.sealapi, without HEXL; the row with HEXL is quoted from another",
    "machine and scaled by how long SEAL's own square takes here.",
    "pybfv accumulates distinct ciphertexts from huge pages; SEAL's sum runs over as many distinct ones, its squares",
    "and products over few in turn. Neither relinearises, but where a job says so.",
)
"""Lines under the table."""


def number(value: float) -> str:
    """For people."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Cells under each other: the first left, others right, the last as it is."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = []
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1], strict=True)]
        shown.append("  ".join([*cells, line[-1]]).rstrip())
    return "\n".join(shown)


def _target(row: dict[str, Any]) -> str:
    if row["met"] is None:
        return ""
    bound = f"< {row['below']:g}" if row.get("below") is not None else f">= {row['at_least']:g}"
    return f"{bound}  {'met' if row['met'] else 'MISSED'}"


def _left(side: dict[str, Any]) -> str:
    left = side["noise_budget_after_squares"]
    if isinstance(left, dict):
        return ", ".join(f"{bits} ({kind})" for kind, bits in left.items())
    return "none" if left is None else str(left)


def text(document: dict[str, Any]) -> str:
    """Everything for a reader."""
    lines = [("job", "set", "threads", "us", "other, us", "ratio", "spread", "against", "asked")]
    for row in document["rows"]:
        other = row["seal_us"] if row["seal_us"] is not None else row["other_us"]
        ratio, spread = f"{row['ratio']:.3g}x", f"{100 * row['spread']:.0f}%"
        lines.append(
            (row["job"], row["set"], str(row["threads"]), number(row["ours_us"]), number(other), ratio, spread,
             row["against"], _target(row))
        )  # fmt: skip
    about = [("", "N", "data-level bits", "t", "bytes", "budget left: sum", "squares", "security")]
    for side in document["sides"]:
        about.append(
            (side["side"], str(side["n"]), str(side["data_level_bits"]), str(side["t"]),
             f"{side['bytes_per_ciphertext']:,}", str(side["noise_budget_after_sum"]), _left(side), side["security"])
        )  # fmt: skip
    parts = [f"Times on: {document['machine']['cpu']}", columns(lines)]
    if document["others"]:
        others = [("", "", "unit", "asked")]
        others += [(row["name"], number(row["ours"]), row["unit"], _target(row)) for row in document["others"]]
        parts.append(columns(others))
    return "\n\n".join([*parts, columns(about), "\n".join(NOTES)])


def markdown(document: dict[str, Any]) -> str:
    """The comparison with SEAL at N = 4096 as one Markdown table: what is compared, then times and ratios."""
    sides = {side["side"]: side for side in document["sides"] if side["n"] == 4096}
    mine = next(side for name, side in sides.items() if name.startswith("pybfv"))
    shown = [mine, sides["SEAL default"], sides["SEAL 109-bit"]]
    lines = [f"| | {' | '.join(side['side'] for side in shown)} |", "| --- " * 4 + "|"]
    for what, field in (("bits of the data level", "data_level_bits"), ("t", "t")):
        lines.append(f"| {what} | {' | '.join(str(side[field]) for side in shown)} |")
    lines.append(f"| bytes of a ciphertext | {' | '.join(format(s['bytes_per_ciphertext'], ',') for s in shown)} |")
    sums = (str(side["noise_budget_after_sum"]) for side in shown)
    lines.append(f"| noise budget left after the sum, bits | {' | '.join(sums)} |")
    lines.append(f"| the same after the squares | {' | '.join(_left(side) for side in shown)} |")
    lines.append(f"| security | {' | '.join(side['security'] for side in shown)} |")
    pairs: dict[str, dict[str, dict[str, Any]]] = {}
    for row in document["rows"]:
        if row["set"] == mine["side"].removeprefix("pybfv ") and row["against"] in sides:
            pairs.setdefault(row["job"], {})[row["against"]] = row
    for job, found in pairs.items():
        if len(found) == 2:
            cells = [f"{number(row['seal_us'])} ({row['ratio']:.3g}x)" for row in found.values()]
            lines.append(f"| {job}, us | {number(next(iter(found.values()))['ours_us'])} | {' | '.join(cells)} |")
    versions = ", ".join(f"{name} {found}" for name, found in document["versions"].items() if found)
    about = f"N = 4096, one thread, {document['machine']['cpu']}; {versions}"
    return "\n".join([*lines, "", f"{about}. In brackets: SEAL's time over pybfv's.", " ".join(NOTES[3:]), ""])


BEGIN, END = "<!-- begin: python -m pybfv.bench --readme -->\n", "<!-- end -->\n"


def put(path: Path, found: str) -> None:
    """Replaces what stands between the two marks in a file."""
    before, _, rest = path.read_text().partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"bench: {path.name} lacks the marks {BEGIN.strip()} and {END.strip()}")
    path.write_text(f"{before}{BEGIN}{found}{END}{after}")
