"""From tables, statistics and bounds to a job: what the planner is asked to carry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from pybfv.client import csvio
from pybfv.client.arrays import Arrays
from pybfv.client.csvio import CsvOptions, TableFacts, parse_number
from pybfv.client.csvsource import Source, source_name
from pybfv.client.plan import Job
from pybfv.errors import DataError, PlanError, UsageError
from pybfv.study import PRODUCTS
from pybfv.workload import ColumnBounds, decimal_text, parse_bounds, parse_specs, show_name, show_names


@dataclass(frozen=True)
class Proposal:
    """A job, and what its maker should be told: lines for stderr."""

    job: Job
    notes: list[str] = field(default_factory=list)
    publishes: str | None = None
    """What the study tells about the data, where its maker gave no bounds."""


def propose(
    sources: Sequence[Source],
    statistics: Sequence[str],
    *,
    bounds: Sequence[str] = (),
    max_rows: int | None = None,
    max_contributions: int | None = None,
    min_contributors: int = 1,
    reveal: str = "totals",
    missing: str = "error",
    product: str | None = None,
    options: CsvOptions,
) -> Proposal:
    """The job of one or more tables, which are read for bounds and rows unless those are given.

    ``bounds``: texts COL=LO:HI; the number of decimals of LO and HI is the column's scale. Tables with a
    header only serve when every column has bounds and ``max_rows`` is given. Columns are found by name.
    ``product``: the only one of PRODUCTS that the plan may take; None leaves the choice to it.
    """
    if product is not None and product not in PRODUCTS:
        raise UsageError(f"unknown product {product!r}; known are {', '.join(PRODUCTS)}")
    where = ", ".join(source_name(source) for source in sources)
    declared = _declared(bounds, options)
    names = csvio.read_header(sources[0], options)
    for name in declared:
        if name not in names:
            raise UsageError(f"--bounds {show_name(name)}: no such column; the columns are {show_names(names)}")
    notes: list[str] = []
    numeric = names
    if options.header and not isinstance(sources[0], Arrays) and all(parse_number(name, options) for name in names):
        notes.append(
            f"all column names of {source_name(sources[0])} are numbers: if its first line is data, give --no-header"
        )
    if any("*" in re.sub(r'"[^"]*"', "", text) for text in statistics):
        numeric, left_out = _numeric(sources, options, names, declared)
        notes += left_out
    workloads = parse_specs(statistics, names, numeric)
    used = sorted({c.name for w in workloads for c in w.columns()} - {""})
    facts = [csvio.scan(source, options, used, missing) for source in sources]
    rows, dropped = sum(f.rows for f in facts), sum(f.dropped for f in facts)
    lacking = [name for name in used if name not in declared]
    if rows == 0 and (lacking or max_rows is None):
        need = [f"--bounds {show_name(name)}=LO:HI" for name in lacking] + ["--max-rows N"] * (max_rows is None)
        raise DataError(f"{where} has no complete rows to plan from; give data, or {' and '.join(need)}")
    base = {name: declared[name] if name in declared else _observed(facts, name) for name in used}
    for source, found in zip(sources, facts, strict=True):
        for name in used if found.rows else ():
            _check_observed(source_name(source), found, name, base[name])
    publishes = None
    if lacking:
        shown = ", ".join(f"{show_name(name)}={_short(base[name].text)}" for name in lacking[:20])
        shown += f" and {len(lacking) - 20} more" if len(lacking) > 20 else ""
        publishes = f"the study publishes the exact range of {where}: {shown} (give --bounds to publish your own)"
    unused = [show_name(name) for name in declared if name not in used]
    if unused:
        notes.append(f"no statistic uses {', '.join(unused)}: these --bounds have no effect")
    if dropped:
        notes.append(f"{dropped} of {rows + dropped} rows have missing values and are left out")
    if max_rows is not None and max_rows < rows:
        raise PlanError(f"--max-rows is {max_rows}, but {where} has {rows} rows; give a larger one")
    most = rows if max_rows is None else max_rows
    files = most if max_contributions is None else max_contributions
    ways = (product,) if product else PRODUCTS
    job = Job(tuple(workloads), base, most, files, reveal, missing, ways, min_contributors)
    if product and not job.depth:
        notes.append("no statistic takes products: --product has no effect")
    return Proposal(job, notes, publishes)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _numeric(
    sources: Sequence[Source], options: CsvOptions, names: list[str], declared: dict[str, ColumnBounds]
) -> tuple[list[str], list[str]]:
    """The columns that * stands for, and a note on those that it leaves out."""
    tables = [csvio.scan(source, options, None, "drop") for source in sources]
    problems: dict[str, str] = {}
    for table in tables:
        for name in names:
            column = table.columns.get(name)
            if name not in declared and (column is None or not column.numeric):
                problems.setdefault(name, "missing in a file" if column is None else str(column.problem))
    if not problems:
        return names, []
    shown = [f"{show_name(name)} ({problem})" for name, problem in problems.items()]
    more = f"; and {len(shown) - 5} more" if len(shown) > 5 else ""
    note = f"* means the numeric columns and leaves out {'; '.join(shown[:5])}{more}"
    return [name for name in names if name not in problems], [note]


def _declared(texts: Sequence[str], options: CsvOptions) -> dict[str, ColumnBounds]:
    found: dict[str, ColumnBounds] = {}
    for text in texts:
        name, lo, hi = parse_bounds(text)
        if name in found:
            raise UsageError(f"--bounds {show_name(name)} is given twice; give it once")
        try:
            ends = [csvio.parse_number(end, options) for end in (lo, hi)]
        except ValueError:
            ends = []
        if len(ends) != 2 or None in ends:
            raise UsageError(f"--bounds {_short(text)!r}: LO and HI must be numbers, as in pay=0.00:250.00")
        scale = max(0, *(decimals for _, decimals in ends))
        low, high = (Fraction(m) / Fraction(10) ** d for m, d in ends)
        found[name] = ColumnBounds(low, high, scale)
    return found


def _observed(tables: Sequence[TableFacts], name: str) -> ColumnBounds:
    columns = [table.columns[name] for table in tables if table.columns[name].min is not None]
    lows, highs = [c.min for c in columns if c.min is not None], [c.max for c in columns if c.max is not None]
    return ColumnBounds(min(lows), max(highs), max(c.decimals for c in columns))


def _check_observed(where: str, facts: TableFacts, name: str, bounds: ColumnBounds) -> None:
    """Refuses a plan whose own data it would not take."""
    column = facts.columns[name]
    if column.min < bounds.lo or column.max > bounds.hi:
        have = ":".join(decimal_text(int(x * 10**column.decimals), column.decimals) for x in (column.min, column.max))
        raise DataError(
            f"{where}: column {show_name(name)} ranges over {have}, outside its --bounds {bounds.text}; widen them"
        )
    if column.decimals > bounds.scale:
        raise DataError(
            f"{where}: column {show_name(name)} has values with {column.decimals} decimals, its --bounds have "
            f"{bounds.scale}; write the bounds with {column.decimals} decimals"
        )
