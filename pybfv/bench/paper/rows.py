"""Rows of a panel: what was measured, what is modelled, what the paper says; and what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pybfv.bench.model import CLOCKS
from pybfv.bench.paper import pim
from pybfv.bench.paper.facts import DPUS, READINGS, SETS, Panel, Ratio, job_of
from pybfv.bench.paper.measured import Seal, Timing
from pybfv.params import get_set

SLOW, FAST = CLOCKS

COLUMNS = (
    "panel", "bits", "set", "size", "reading", "kernels", "operations",
    "measured_cpu_s", "measured_cpu_timed", "measured_seal_s", "measured_seal_timed", "seal_data_level_bits",
    f"modelled_pim_kernel_s_{SLOW:.0f}mhz", f"modelled_pim_kernel_s_{FAST:.0f}mhz",
    f"modelled_pim_kernel_with_conflicts_s_{FAST:.0f}mhz", f"modelled_pim_kernel_shared_evenly_s_{SLOW:.0f}mhz",
    f"modelled_pim_end_to_end_s_{SLOW:.0f}mhz", f"modelled_pim_end_to_end_s_{FAST:.0f}mhz", "modelled_pim_dpus_at_work",
    "cpu_over_modelled_pim_kernel", "seal_over_modelled_pim_kernel", "seal_over_modelled_pim_end_to_end",
    "seal_over_measured_cpu", "paper_pim_against_cpu", "paper_pim_against_seal",
)  # fmt: skip
"""Of a row. Seconds; ratios at 425 MHz, above 1 where the second one is faster; None where there is nothing."""

AIMS = {
    ("mean", "limb"): 0.25e-3,
    ("mean", "ntt"): 0.25e-3,
    ("variance", "ntt"): 4.5e-3,
    ("variance", "ntt scaled"): 0.11,
}
"""Seconds of kernel time that this project aims at, 2,560 users at 350 MHz."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Times:
    """Measured, by bits: our cpu backend's (kernels, operation), the limb kernels' and SEAL's operation."""

    ours: Callable[[int], Mapping[tuple[str, str], Timing]]
    limb: Callable[[int], Mapping[str, Timing]]
    seal: Callable[[int], Seal | None]


def kernels_of(panel: Panel, chosen: Sequence[str]) -> list[str]:
    """The kernels that a panel has rows of, of "limb" and "ntt"; the scaled ones in the variance."""
    found = [k for k in ("limb", "ntt") if k in chosen]
    return [*found, "ntt scaled"] if panel.name == "variance" and "ntt" in found else found


def rows_of(panel: Panel, chosen: Sequence[str], times: Times, dpus: int = DPUS) -> Iterator[Row]:
    """Every row of a panel."""
    for bits in panel.bits:
        for size in panel.sizes:
            for reading in READINGS if panel.per_user > 1 else ("",):
                for kernels in kernels_of(panel, chosen):
                    yield _row(panel, bits, size, reading, kernels, times, dpus)


def _row(panel: Panel, bits: int, size: int, reading: str, kernels: str, times: Times, dpus: int) -> Row:
    ps = get_set(SETS[bits])
    job = job_of(panel, size, reading)
    parts = _operations(panel, size, reading)
    measured = (
        times.limb(bits) if kernels == "limb" else {o: t for (k, o), t in times.ours(bits).items() if k == kernels}
    )
    cpu, cpu_timed = _total(parts, measured)
    theirs = times.seal(bits)
    seal, seal_timed = (None, None) if theirs is None else _total(parts, theirs.times)
    share = pim.share_of(panel, size, ps, kernels, reading, dpus)
    slow, fast = (pim.estimate(share, dpus, clock) for clock in CLOCKS)
    ratios = panel.cpu.get(bits), panel.seal.get(bits)
    values = (
        panel.name, bits, ps.name, size, reading or None, kernels, job.additions + job.squares + job.products,
        cpu, cpu_timed, seal, seal_timed, theirs and round(theirs.bits, 1),
        slow.kernel, fast.kernel, fast.conflicts, slow.even, slow.end_to_end, fast.end_to_end, share.at_work,
        cpu / fast.kernel, seal and seal / fast.kernel, seal and seal / fast.end_to_end, seal and seal / cpu,
        *(str(ratio) if ratio else None for ratio in ratios),
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def _operations(panel: Panel, size: int, reading: str) -> dict[str, int]:
    job = job_of(panel, size, reading)
    if panel.name in ("addition", "product"):
        return {"add" if panel.name == "addition" else "product": size}
    named = {"sum": job.additions, "square and add": job.squares, "product and add": job.products}
    return {name: count for name, count in named.items() if count}


def _total(parts: Mapping[str, int], times: Mapping[str, Timing]) -> tuple[float, int]:
    """Seconds of all operations, and how many of them were timed."""
    return sum(times[name].seconds * count for name, count in parts.items()), sum(times[name].of for name in parts)


# --- what follows


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    if high < 1:
        return f"{_range(1 / high, 1 / low)}x slower"
    if low >= 1:
        return f"{_range(low, high)}x faster"
    return f"{1 / low:.2g}x slower to {high:.2g}x faster"


def _range(low: float, high: float) -> str:
    first, last = f"{_round(low):,}", f"{_round(high):,}"
    return first if first == last else f"{first}-{last}"


def _round(value: float) -> float | int:
    return round(value) if value >= 9.95 else float(f"{value:.2g}")


def holds(ratio: Ratio, found: Sequence[float]) -> str:
    """Whether modelled ratios agree with what the paper says: the same side of 1, and a common range."""
    side = all((value > 1) == (ratio.low > 1) for value in found)
    size = min(found) <= ratio.high and max(found) >= ratio.low
    if side:
        return "holds" if size else "holds in direction, not in size"
    return "holds for some of them" if any((value > 1) == (ratio.low > 1) for value in found) else "does not hold"


def _groups(ratios: Mapping[int, Ratio]) -> dict[Ratio, list[int]]:
    found: dict[Ratio, list[int]] = {}
    for bits, ratio in ratios.items():
        found.setdefault(ratio, []).append(bits)
    return found


def text_of(panel: Panel, rows: Sequence[Row]) -> list[str]:
    """Sentences below a panel: whether the paper's statements hold in the model, and where ours overturns them."""
    lines = []
    for rival, ratios, name in (("CPU", panel.cpu, "cpu_over_modelled_pim_kernel"),
                                ("SEAL", panel.seal, "seal_over_modelled_pim_kernel")):  # fmt: skip
        for ratio, bits in _groups(ratios).items():
            at = f" at {', '.join(map(str, bits))} bits" if len(panel.bits) > 1 else ""
            said = f"The paper: PIM {ratio} than {'its ' if rival == 'CPU' else ''}{rival}{at}."
            limb = _ratios(rows, bits, ("limb",), name)
            ntt = _ratios(rows, bits, ("ntt", "ntt scaled"), name)
            if limb:
                said += f" Modelled, limb kernels alone at {FAST:.0f} MHz: {_span(limb)}; it {holds(ratio, limb)}."
            if ntt and rival == "SEAL":
                moved = _ratios(rows, bits, ("ntt", "ntt scaled"), "seal_over_modelled_pim_end_to_end")
                word = ""
                if ratio.high < 1:
                    word = (
                        ": overturned"
                        if min(ntt) > 1
                        else ": not overturned"
                        if max(ntt) <= 1
                        else ": overturned in part"
                    )
                said += f" NTT kernels alone: {_span(ntt)} than SEAL{word}; with transfers {_span(moved)}."
            lines.append(said)
    lines += _beside_seal(rows)
    lines += _aims(panel, rows)
    return lines


def _ratios(rows: Sequence[Row], bits: Sequence[int], kernels: Sequence[str], name: str) -> list[float]:
    return [r[name] for r in rows if r["bits"] in bits and r["kernels"] in kernels and r[name] is not None]


def _beside_seal(rows: Sequence[Row]) -> list[str]:
    found = [r["seal_over_measured_cpu"] for r in rows if r["kernels"] == "ntt" and r["seal_over_measured_cpu"]]
    return (
        [f"Measured, without any PIM: pybfv's cpu backend is {_span(found)} than SEAL, one thread each."]
        if found
        else []
    )


def _aims(panel: Panel, rows: Sequence[Row]) -> list[str]:
    lines = []
    for row in rows:
        aim = AIMS.get((panel.name, row["kernels"]))
        if aim is None or row["size"] != panel.sizes[-1]:
            continue
        kernel, even = (row[f"modelled_pim_kernel_{which}s_{SLOW:.0f}mhz"] for which in ("", "shared_evenly_"))
        lines.append(
            f"Aim for {row['size']:,} users, {row['kernels']} kernels alone at {SLOW:.0f} MHz: under {seconds(aim)}. "
            f"Modelled: {seconds(kernel)}, {'met' if kernel < aim else 'missed'}; "
            f"{row['modelled_pim_dpus_at_work']:,} DPUs have work, shared evenly by all it would be {seconds(even)}."
        )
    return lines


def seconds(value: float | None) -> str:
    """A time for a reader."""
    if value is None:
        return "-"
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if value * factor < 999.5:
            return f"{value * factor:.3g} {unit}"
    return f"{value:,.0f} s" if value >= 100 else f"{value:.3g} s"
