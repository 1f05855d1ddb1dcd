"""Every parser of a text: canonical JSON, SPECs, bounds, numbers, tables. What is read reads back the same."""

from __future__ import annotations

import atheris
from common import Input, refusal_or, run  # first: it says what is instrumented

with atheris.instrument_imports(include=["pybfv", "pybfv_workloads"]):
    import os
    import re
    import tempfile
    from decimal import Decimal
    from fractions import Fraction

    from pybfv.client.csvio import CsvOptions, blocks, parse_number, read_header, records, scan
    from pybfv.client.propose import propose
    from pybfv.io import canonical_bytes, parse_canonical
    from pybfv.workload import ONES, Column, ColumnBounds, parse_bounds, parse_specs, quote_name

NAMES = ["age", "pay", "x", "y", "a b", 'q"t', "u:v", "1", "é", "x^2"]
CODECS = ["utf-8", "latin-1", "utf-16", "cp1252", "utf-7", "utf-32", "ascii", "punycode", "hex", "idna", "no such"]
WORK = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
PATH = os.path.join(WORK.name, "table")
PLAIN = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", re.ASCII)


def canonical(source: Input) -> None:
    raw = source.rest()
    value = refusal_or(parse_canonical, raw, "input")
    if value is not None:
        assert canonical_bytes(value) == raw


def spec(source: Input) -> None:
    texts = source.rest().decode("utf-8", "replace").split("\n")[:4]
    found = refusal_or(parse_specs, texts, NAMES, NAMES[:4])
    for workload in found or []:
        (again,) = parse_specs([workload.canonical], NAMES, NAMES[:4])
        assert again.canonical == workload.canonical
        assert again.columns() == workload.columns()


def bounds(source: Input) -> None:
    text = source.rest().decode("utf-8", "replace")
    found = refusal_or(parse_bounds, text)
    if found is not None:
        name, low, high = found
        assert parse_bounds(f"{quote_name(name)}={low}:{high}") == found


def number(source: Input) -> None:
    options = source.pick([CsvOptions(), CsvOptions(decimal=",", delimiter=";"), CsvOptions(thousands=" ")])
    text = source.rest().decode("utf-8", "replace")
    found = parse_number(text, options)
    plain = text.strip().replace(options.decimal, ".")
    if found is not None:
        mantissa, decimals = found
        assert decimals >= 0
        if options.thousands is None:
            assert Fraction(mantissa, 10**decimals) == Fraction(Decimal(plain)), text
    elif options == CsvOptions() and len(text) < 90:
        assert PLAIN.fullmatch(text) is None or abs(Decimal(text).as_tuple().exponent) > 200, text


def options_of(source: Input) -> CsvOptions | None:
    marks = [source.pick([",", ";", "\\t", "|", " ", "é", ".", '"', "ab", "x"]) for _ in range(2)]
    return refusal_or(
        lambda: CsvOptions(
            source.byte() % 4 != 0,
            marks[0] if source.byte() % 2 else ",",
            "." if source.byte() % 4 else marks[1],
            source.pick([None, None, None, " ", "'", ","]),
            source.pick(CODECS) if source.byte() % 4 == 0 else "utf-8",
        )
    )


def filed(raw: bytes) -> str:
    with open(PATH, "wb") as stream:
        stream.write(raw)
    return PATH


def table(source: Input) -> None:
    options = options_of(source)
    if options is None:
        return
    missing = source.pick(["error", "drop"])
    path = filed(source.rest())
    names = refusal_or(read_header, path, options)
    facts = refusal_or(scan, path, options)
    if names is None or facts is None:
        return
    assert facts.names == names
    numeric = [name for name, column in facts.columns.items() if column.numeric and names.count(name) == 1][:3]
    chosen = {Column(name): fitting(facts.columns[name]) for name in numeric}
    if not numeric or None in chosen.values():
        return
    columns = [ONES, *chosen]
    exact = refusal_or(lambda: list(records(path, options, numeric, missing)))
    made = refusal_or(lambda: list(blocks(path, options, columns, chosen, missing, 4)))
    assert (made is None) == (exact is None), "the two readers of a table disagree on what they refuse"
    if made is None:
        return
    found = [dict(zip(columns, row, strict=True)) for block in made for row in zip(*block.values, strict=True)]
    assert len(found) == len(exact)
    for row, right in zip(found, exact, strict=True):
        for column, limits in chosen.items():
            assert Fraction(int(row[column]) + limits.mid, 10**limits.scale) == right[column]


def fitting(facts) -> ColumnBounds | None:
    scale = facts.decimals
    if scale > 100:
        return None
    return ColumnBounds(facts.min, facts.max, scale)


def proposal(source: Input) -> None:
    """Statistics and bounds for a table: the first thing that happens to anyone's file."""
    count = source.byte() % 64
    stat, limits = source.take(count).decode("utf-8", "replace"), []
    if source.byte() % 2:
        limits = [source.take(source.byte() % 32).decode("utf-8", "replace")]
    path = filed(source.rest())
    options = CsvOptions()
    proposed = refusal_or(lambda: propose([path], [stat], bounds=limits, options=options, missing="drop"))
    if proposed is not None:
        for line in (*proposed.notes, proposed.publishes or "x"):
            assert line.isprintable()


TARGETS = [canonical, spec, bounds, number, table, table, proposal]


def test(data: bytes) -> None:
    source = Input(data)
    source.pick(TARGETS)(source)


if __name__ == "__main__":
    run(test)
