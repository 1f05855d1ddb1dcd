"""What `pybfv bench paper` prints and writes."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from pybfv.bench.paper.facts import DPUS
from pybfv.bench.paper.rows import COLUMNS, FAST, SLOW, seconds

Panel = dict[str, Any]
"""A panel of the document: name, title, counts, rows, text."""

NOTES = (
    f"Modelled: {DPUS:,} DPUs with 16 tasklets at {SLOW:.0f} or {FAST:.0f} MHz, by docs/time-model.md; nothing ran on "
    "such hardware. End to end: one push of all operands, kernels, one pull of the results; without the host's work. "
    "Conflicts of registers of equal parity are left out of all but one column of the CSV and JSON; with them kernels "
    "take up to 1.8 times as long.",
    "Measured: this machine, one thread; the time of one operation, over a resident set of operands larger than the "
    "caches, times their number. CPU, limb: the paper's kernels compiled for it, one product or 16 sums timed, and "
    "scaled. CPU, ntt: pybfv's cpu backend. SEAL: its default moduli through tenseal.sealapi, data levels of 27, 54 "
    "and 72 bits.",
    "Products, limb: mod q, schoolbook over coefficients with Karatsuba inside them. ntt: mod q, scale-free, operands "
    "in NTT form. ntt scaled: over the integers, as SEAL's; the host lifts the operands, which is in the measured "
    "CPU's time and not in the modelled kernel's.",
    "A statement holds where the modelled ratios lie on its side of 1, and their range and the paper's meet; in "
    "direction, where only the first is so.",
    "Regression: the paper does not say what a ciphertext holds; two readings. Its GPU columns are not reproduced.",
)


SHOWN = (
    "measured_cpu_s", "measured_seal_s",
    f"modelled_pim_kernel_s_{SLOW:.0f}mhz", f"modelled_pim_kernel_s_{FAST:.0f}mhz",
    f"modelled_pim_end_to_end_s_{FAST:.0f}mhz",
)  # fmt: skip
"""Columns of times in the tables."""


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}x" if value >= 20 else f"{value:.2g}x"


def _lines(panel: Panel) -> list[tuple[str, ...]]:
    head = (
        "bits", panel["counts"], "kernels", "CPU, measured", "SEAL, measured", f"modelled PIM kernel, {SLOW:.0f} MHz",
        f"modelled, {FAST:.0f} MHz", f"modelled PIM end to end, {FAST:.0f} MHz", "SEAL / modelled PIM kernel",
        "paper: PIM to CPU", "paper: PIM to SEAL",
    )  # fmt: skip
    lines = [head]
    for row in panel["rows"]:
        kernels = f"{row['kernels']}, {row['reading']}" if row["reading"] else row["kernels"]
        lines.append((
            str(row["bits"]), f"{row['size']:,}", kernels, *(seconds(row[name]) for name in SHOWN),
            _cell(row["seal_over_modelled_pim_kernel"]),
            row["paper_pim_against_cpu"] or "-", row["paper_pim_against_seal"] or "-",
        ))  # fmt: skip
    return lines


def text(document: dict[str, Any]) -> str:
    """Everything for a reader: a table for each panel, what follows below it."""
    parts = [f"pybfv {document['version']}, {document['machine']}, {document['scale']} run"]
    for panel in document["panels"]:
        lines = _lines(panel)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        parts.append("\n".join([panel["title"], *table, *panel["text"]]))
    return "\n\n".join([*parts, "\n".join(document["notes"])])


PAGE = """# The paper's figures

Gupta et al., "Evaluating Homomorphic Operations on a Real-World Processing-In-Memory System" (IISWC 2023,
[arXiv 2309.06545](https://arxiv.org/abs/2309.06545)), is what the limb kernels follow. Beside each other here: this
machine's CPU and SEAL, *measured*; UPMEM hardware as in the paper, *modelled* by [the time model](time-model.md), as no
such hardware has been at hand; what the paper says of its own. `pybfv bench paper` makes it anew, and
`python -m pybfv.bench.paper paper.json` this page of its document.
"""


def markdown(document: dict[str, Any]) -> str:
    """The same as a page of Markdown, docs/paper.md."""
    parts = [PAGE + f"\nOne run: pybfv {document['version']}, {document['machine']}, {document['scale']}."]
    for panel in document["panels"]:
        head, *rest = _lines(panel)
        table = ["| " + " | ".join(line) + " |" for line in (head, ("---",) * len(head), *rest)]
        parts.append("\n".join([f"## {panel['title']}", "", *table, "", *(f"* {line}" for line in panel["text"])]))
    notes = "\n".join(f"* {note}" for note in document["notes"])
    return "\n\n".join([*parts, "## What the columns are", notes]) + "\n"


def table(panels: Sequence[Panel]) -> bytes:
    """All rows as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for panel in panels:
        writer.writerows(panel["rows"])
    return out.getvalue().encode()


SERIES = (
    ("CPU, the paper's kernels, measured", "limb", "measured_cpu_s", "#7f7f7f"),
    ("CPU, pybfv, measured", "ntt", "measured_cpu_s", "#1f77b4"),
    ("SEAL, measured", None, "measured_seal_s", "#ff7f0e"),
    (f"PIM kernel, the paper's, modelled, {FAST:.0f} MHz", "limb", f"modelled_pim_kernel_s_{FAST:.0f}mhz", "#9467bd"),
    (f"PIM kernel, NTT, modelled, {FAST:.0f} MHz", "ntt", f"modelled_pim_kernel_s_{FAST:.0f}mhz", "#2ca02c"),
    (f"PIM end to end, NTT, modelled, {FAST:.0f} MHz", "ntt", f"modelled_pim_end_to_end_s_{FAST:.0f}mhz", "#98df8a"),
)
"""Bars of a plot: label, kernels (None: the first that there are), column, colour."""


def plots(panels: Sequence[Panel]) -> dict[str, bytes] | None:
    """File name to SVG or PNG; None where matplotlib is not installed."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib.figure import Figure
    except ImportError:
        return None
    files = {}
    with matplotlib.rc_context({"svg.hashsalt": "pybfv"}):
        for panel in panels:
            groups: dict[str, dict[str, Any]] = {}
            for row in panel["rows"]:
                label = f"{row['bits']} bit\n{row['size']:,}" + (f"\n{row['reading']}" if row["reading"] else "")
                groups.setdefault(label, {})[row["kernels"]] = row
            figure = Figure(figsize=(max(6.0, 0.8 * len(groups) + 2), 4.5), layout="constrained")
            axes = figure.subplots()
            width = 0.8 / len(SERIES)
            for at, (name, kernels, column, colour) in enumerate(SERIES):
                found = []
                for x, group in enumerate(groups.values()):
                    row = group.get(kernels) if kernels else next(iter(group.values()))
                    if row is not None and row[column] is not None:
                        found.append((x + (at - (len(SERIES) - 1) / 2) * width, row[column]))
                if found:
                    axes.bar(*zip(*found, strict=True), width, label=name, color=colour)
            axes.set_yscale("log")
            axes.set_ylabel("seconds")
            axes.set_xticks(range(len(groups)), list(groups), fontsize=7)
            axes.set_title(panel["title"])
            axes.legend(fontsize=6)
            for kind, metadata in (("svg", {"Date": None}), ("png", {})):
                out = io.BytesIO()
                figure.savefig(out, format=kind, dpi=120, metadata=metadata)
                files[f"{panel['name']}.{kind}"] = out.getvalue()
    return files
