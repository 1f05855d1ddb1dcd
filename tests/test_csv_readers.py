"""pyarrow beside the standard csv module: the same numbers, or the same refusal, always."""

from __future__ import annotations

import gzip
import io
import os
import random
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pybfv.cli.tools import progress_bar
from pybfv.client import csvarrow, csvio, csvsource
from pybfv.client.arrays import Arrays
from pybfv.client.csvarrow import ArrowTable, open_table
from pybfv.client.csvio import CsvOptions, blocks, read_header, records, scan
from pybfv.client.csvrecords import Table
from pybfv.errors import PybfvError
from pybfv.workload import Column, ColumnBounds
from tests import test_csv, test_csv_kinds

A, X, Y = Column("a"), Column("x"), Column("y")
WIDE = ColumnBounds(Fraction(-(10**9)), Fraction(10**9), 3)


def outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except PybfvError as refusal:
        return type(refusal).__name__, str(refusal)


def everything(path: str, options: CsvOptions, size: int) -> list[Any]:
    """What the readers of csvio make of a file, refusals included."""
    found: list[Any] = [outcome(lambda: read_header(path, options))]
    names = found[0] if isinstance(found[0], list) else ["x"]
    for columns in (None, names[:1], names[-1:] + names[:-1]):
        for missing in ("error", "drop"):
            found.append(outcome(lambda c=columns, m=missing: scan(path, options, c, m)))
    some = [Column(name) for name in dict.fromkeys(names[:3])]
    for missing in ("error", "drop"):
        found.append(outcome(lambda m=missing: list(records(path, options, [c.name for c in some], m))))

        def wire(m: str = missing) -> Any:
            data = blocks(path, options, some, dict.fromkeys(some, WIDE), m, size)
            return [[np.asarray(v).tolist() for v in block.values] for block in data], data.rows, data.dropped

        found.append(outcome(wire))
    return found


def both(monkeypatch: pytest.MonkeyPatch, path: Path, options: CsvOptions, size: int = 7) -> list[Any]:
    """The outcomes, which must not depend on the reader."""
    monkeypatch.setattr(csvarrow, "_LEAST", 1)
    fast = everything(str(path), options, size)
    with monkeypatch.context() as patch:
        patch.setattr(csvio, "open_table", Table)
        slow = everything(str(path), options, size)
    assert fast == slow
    return fast


KINDS = {
    **{f"form {name}": (content, {}) for name, content in test_csv.FORMS.items()},
    **{f"exact {name}": kind[:2] for name, kind in test_csv_kinds.EXACT.items()},
    **{f"refused {name}": kind[:2] for name, kind in test_csv_kinds.REFUSED.items()},
    **{f"cell {name}": (f"y,x\n1,1\n1,{cell}\n2,2\n", {}) for name, cell in test_csv_kinds.NOT_A_NUMBER.items()},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_kinds_of_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    content, options = KINDS[kind]
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    both(monkeypatch, path, CsvOptions(**options))


BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("start", [b"x,y\n" + BOM, BOM + BOM, b"x,y\n11,22\n" + BOM])
def test_a_byte_order_mark_inside_is_part_of_a_cell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: bytes, encoding: str
) -> None:
    """pyarrow alone would drop one where a block of text begins, and take what follows for a number."""
    path = tmp_path / "t.csv"
    path.write_bytes(start + b"1,2\n" + b"3,4\n" * 9)
    monkeypatch.setattr(csvsource, "CHUNK", start.rfind(BOM) or 1 << 18)
    found = both(monkeypatch, path, CsvOptions(encoding=encoding, header=b"x" in start))
    assert found[3][0] == "DataError"
    assert "is not a number" in found[3][1]


CELLS = [
    "",
    "NA",
    " 5",
    "1e3",
    "+4",
    '"12"',
    '" 7"',
    '"a,b"',
    '"say ""no"""',
    "9" * 19,
    "1.2345",
    "x",
    "größer",
    "-.5",
    "3.",
]
BREAKS = ["\n", "\r\n", "\r", "\n\n", ",1\n", '"open\n', "\0", "\xff", '"two\nlines"', '"1"2', "1" * 2001, "x" * 70000]


def random_table(rng: random.Random) -> bytes:
    """Mostly plain rows; sometimes odd cells, and at most two places that are not plain."""
    columns, rows = rng.randint(1, 4), rng.choice([0, 1, 2, 40, 400])
    odd, end = rng.choice([0, 0, 0.02, 0.3]), rng.choice(["\n", "\n", "\r\n"])
    cells = [["x", "y", "a", "b"][:columns]]
    for _ in range(rows):
        plain = [f"{rng.randint(-999, 999)}{rng.choice(['', '', '.5', '.25'])}" for _ in range(columns)]
        cells.append([rng.choice(CELLS) if rng.random() < odd else text for text in plain])
    if rng.random() < 0.5:
        for _ in range(rng.randint(1, 2)):
            row = rng.choice(cells)
            row[rng.randrange(columns)] += rng.choice(BREAKS)
    text = end.join(",".join(row) for row in cells) + rng.choice(["", end, end, end + end])
    encoding = rng.choice(["utf-8", "utf-8", "latin-1"])
    data = rng.choice([b"", b"", b"\xef\xbb\xbf"]) + text.encode(encoding)
    return gzip.compress(data, mtime=0) if rng.random() < 0.1 else data


@pytest.mark.parametrize("seed", range(60))
def test_random_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "t.csv"
    path.write_bytes(random_table(rng))
    monkeypatch.setattr(csvsource, "CHUNK", rng.choice([11, 64, 1000, 1 << 18]))
    options = {"encoding": rng.choice(["utf-8", "utf-8", "latin-1"]), "header": rng.random() < 0.8}
    both(monkeypatch, path, CsvOptions(**options), rng.choice([1, 5, 64, 8192]))


@pytest.mark.parametrize(
    ("content", "options", "kind"),
    [
        (b"x,y\n1,2\n", {}, ArrowTable),
        (b"x;y\r\n1;2\n", {"delimiter": ";", "decimal": ",", "thousands": "."}, ArrowTable),
        ("x,größe\n1,2\n".encode("cp1252"), {"encoding": "cp1252"}, ArrowTable),
        ("x,y\n1,2\n".encode("utf-16"), {"encoding": "utf-16"}, Table),
        (b"x,y\n1,2\n", {"decimal": "\u066b"}, Table),
        (b'"x",y\n1,2\n', {}, Table),
        (b"\nx,y\n1,2\n", {}, Table),
        (b"x,y", {}, Table),
    ],
)
def test_which_reader_is_taken(
    monkeypatch: pytest.MonkeyPatch, content: bytes, options: dict[str, Any], kind: type
) -> None:
    monkeypatch.setattr(csvarrow, "_LEAST", 1)
    assert type(open_table("t", iter([content]), CsvOptions(**options))) is kind


def test_small_files_and_pythons_without_pyarrow_take_the_standard_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"x,y\n1,2\n"
    assert type(open_table("t", iter([content]), CsvOptions())) is Table
    monkeypatch.setattr(csvarrow, "_LEAST", 1)
    assert type(open_table("t", iter([content]), CsvOptions())) is ArrowTable
    csvarrow._arrow.cache_clear()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert type(open_table("t", iter([content]), CsvOptions())) is Table
    csvarrow._arrow.cache_clear()


def test_one_odd_place_does_not_slow_the_rows_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csvarrow, "_LEAST", 1)
    rows = b"".join(b"%d,%d\n" % (k, -k) for k in range(1000))
    table = open_table("t", iter([b"x,y\n" + rows, b'"1\n2",3\n' + rows]), CsvOptions())
    assert isinstance(table, ArrowTable)
    found = []
    while (batch := table.read(300, [0, 1])).rows:
        found.append((type(batch).__name__, batch.rows, batch.place(batch.rows - 1, "x")))
    assert [(kind, count) for kind, count, _ in found] == [
        ("ArrowBatch", 300), ("ArrowBatch", 300), ("ArrowBatch", 300), *[("Batch", 300)] * 3, ("Batch", 201)
    ]  # fmt: skip
    assert found[-1][2] == "t row 2001 (line 2003), column x"


def test_likely_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "12,34\n" * 100_000)
    assert 99_900 < (csvsource.likely_rows(path) or 0) < 100_100
    path.write_bytes(gzip.compress(b"x\n1\n"))
    assert csvsource.likely_rows(path) is None
    path.write_text("no line end")
    assert csvsource.likely_rows(path) is None
    os.mkfifo(tmp_path / "pipe")
    for nothing in (tmp_path / "pipe", tmp_path, tmp_path / "none", "a\0b", Arrays({"x": [1]})):
        assert csvsource.likely_rows(nothing) is None


def test_progress_shows_rate_and_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with progress_bar(" rows", 1000) as progress:
        progress(250)
        progress(500)
        progress(1200)  # an estimate may be too low
    assert "rows/s" in shown.getvalue()
    assert "1000" in shown.getvalue()
    monkeypatch.setattr(sys, "stderr", quiet := io.StringIO())
    with progress_bar(" rows", 1000) as progress:
        progress(500)
    assert quiet.getvalue() == ""
