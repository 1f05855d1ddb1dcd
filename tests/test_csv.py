"""Reading tables: numbers, dialects, compressed and damaged files, missing cells, scan and blocks."""

from __future__ import annotations

import csv
import gzip
import io
import os
import random
import threading
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pybfv.client import csvio
from pybfv.client.csvio import CsvOptions, blocks, read_header, records, scan, spool
from pybfv.client.csvnumbers import Numbers, read_numbers
from pybfv.client.csvrecords import Table
from pybfv.errors import DataError, MissingInputError, UsageError
from pybfv.workload import ONES, Column, ColumnBounds

PLAIN = CsvOptions()
EURO = CsvOptions(delimiter=";", decimal=",", thousands=".")
A, B, C = Column("a"), Column("b"), Column("c")
Write = Callable[[bytes | str], str]


@pytest.fixture
def path(tmp_path: Path) -> Write:
    """Writes a table and gives its path."""

    def make(content: bytes | str) -> str:
        file = tmp_path / "t.csv"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(file)

    return make


def bounds(lo: str, hi: str, scale: int = 0) -> ColumnBounds:
    return ColumnBounds(Fraction(lo), Fraction(hi), scale)


def rows_of(source: csvio.Source, *names: str, options: CsvOptions = PLAIN, missing: str = "error") -> list[tuple]:
    found = records(source, options, names, missing)
    return [tuple(row[Column(name)] for name in names) for row in found]


def refusal(error: type[Exception], call: Callable[[], object]) -> str:
    """The one-line message of the refusal that `call` must end in."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 600
    return message


# --- dialects (B17) -------------------------------------------------------------------------------

B17 = b"\xef\xbb\xbfage,pay\r\n30,100\r\n40,300\r\n53,2"
FORMS = {
    "bom, crlf, no final newline": B17,
    "lf": B17.replace(b"\r", b""),
    "cr": B17.replace(b"\n", b""),
    "no bom": B17[3:],
    "final newline and blank lines": b"\r\n" + B17[3:].replace(b"\r\n", b"\r\n\r\n") + b"\r\n\r\n",
    "quoted header": B17.replace(b"age", b'"age"'),
    "all quoted, blanks": b'"age", "pay"\n"30", "100"\n 40 ,300\n53,"2 "\n',
    "gzip": gzip.compress(B17, mtime=0),
    "two gzip members": gzip.compress(B17[:20], mtime=0) + gzip.compress(B17[20:], mtime=0),
    "zstd": zstandard.compress(B17),
    "two zstd frames": zstandard.compress(B17[:20]) + zstandard.compress(B17[20:]),
    "utf-16": B17[3:].decode().encode("utf-16"),
}


@pytest.mark.parametrize("form", FORMS)
def test_b17_forms(path: Write, form: str) -> None:
    options = CsvOptions(encoding="utf-16" if form == "utf-16" else "utf-8")
    source = path(FORMS[form])
    assert read_header(source, options) == ["age", "pay"]
    assert rows_of(source, "age", "pay", options=options) == [(30, 100), (40, 300), (53, 2)]
    facts = scan(source, options, ["age"])
    assert (facts.rows, facts.dropped) == (3, 0)
    assert (facts.columns["age"].min, facts.columns["age"].max) == (30, 53)


def test_no_header_delimiters_and_names(path: Write) -> None:
    bare = CsvOptions(header=False)
    source = path("1,2\n3,4\n")
    assert read_header(source, bare) == ["c1", "c2"]
    assert rows_of(source, "c2", options=bare) == [(2,), (4,)]
    assert rows_of(path("\n7\n"), "c1", options=bare) == [(7,)]
    assert rows_of(path("a;b\n1.234,5;2\n"), "a", "b", options=EURO) == [(Fraction("1234.5"), 2)]
    assert rows_of(path("a\tb\n1\t2\n"), "b", options=CsvOptions(delimiter="\\t")) == [(2,)]
    assert rows_of(path("a b\n1 2\n"), "b", options=CsvOptions(delimiter=" ")) == [(2,)]
    assert read_header(path('"x, ""y""", ,"Gr\u00f6\u00dfe"\n'), PLAIN) == [
        'x, "y"',
        "c2",
        "Gr\u00f6\u00dfe",
    ]
    assert read_header(path("Gr\u00f6\u00dfe\n".encode("latin-1")), CsvOptions(encoding="latin-1")) == [
        "Gr\u00f6\u00dfe"
    ]
    assert read_header(path("a\x0bb,c\x1cd,e\u2028f\n1,2,3\n"), PLAIN) == ["a\x0bb", "c\x1cd", "e\u2028f"]


def test_names_unknown_and_repeated(path: Write) -> None:
    source = path("a,b,a\n1,2,3\n")
    assert rows_of(source, "b") == [(2,)]
    assert "columns 1, 3" in refusal(DataError, lambda: rows_of(source, "a"))
    assert "the columns are a, b, a" in refusal(UsageError, lambda: scan(source, PLAIN, ["x"]))
    assert "--missing" in refusal(UsageError, lambda: scan(source, PLAIN, ["b"], "ignore"))


def test_quoted_newlines_keep_the_line_numbers(path: Write) -> None:
    source = path('a,b\n1,"x\ny"\n\n2,"z"\nbad,q\n')
    assert "row 3 (line 6), column a: 'bad'" in refusal(DataError, lambda: rows_of(source, "a"))


# --- broken files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "t.csv: is empty"),
        (b"\xef\xbb\xbf", "nothing but blank lines"),
        (b"\n\n\r\n", "nothing but blank lines"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"a,b\n1,2\n3\n", "line 3: 1 cells, but 2 columns"),
        (b"a,b\n1,2,3\n", "line 2: 3 cells, but 2 columns"),
        (b'a,b\n1,"2\n3,4\n', "broken CSV"),
        (b'a,b\n1,"2"x\n', "line 2: broken CSV"),
        (b"a,b\n1,2\n3,\x004\n", "line 3: a NUL"),
        (b"a,b\n1,2\r\n3,4\xff\n", "line 3: byte 12 (0xff) is not utf-8"),
        ("a,b\n1,2\n".encode("utf-16"), "line 1: byte 0 (0xff) is not utf-8"),
        ("a,b\n1,2\n".encode("utf-16-le"), "line 1: a NUL character; is it a text file? For UTF-16"),
        (b"a,b\n1," + b"9" * 200_000 + b"\n", "broken CSV (field larger"),
        (b"a" * 3_000_000, "more than 1048576 characters"),
        (b'a\n"' + b'\n","\n' * 600_000, "more than 1048576 characters"),
        (b"\x1f\x8b\x08\x00garbage", "damaged gzip"),
        (b"\x28\xb5\x2f\xfdgarbage", "damaged zstd"),
    ],
    ids=[
        "empty", "byte order mark only", "blank lines only", "gzip of nothing", "too few cells", "too many cells",
        "quote never closed", "text after a quote", "NUL", "not utf-8", "utf-16 with mark", "utf-16 without mark",
        "huge cell", "huge line", "huge record", "damaged gzip", "damaged zstd",
    ],
)  # fmt: skip
def test_broken_files_are_refused(path: Write, content: bytes, says: str) -> None:
    source = path(content)
    message = refusal(DataError, lambda: scan(source, PLAIN, None))
    assert says in message
    assert "t.csv" in message


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_compressed_files_cut_or_changed_are_refused(path: Write, compress: Callable[[bytes], bytes]) -> None:
    text = "a\n" + "".join(f"{i * i}\n" for i in range(80))
    data = zstandard.ZstdCompressor(write_checksum=True).compress(text.encode())
    data = compress(text.encode()) if compress is gzip.compress else data
    assert scan(path(data), PLAIN, ["a"]).rows == 80
    for length in range(4, len(data)):
        refusal(DataError, lambda length=length: scan(path(data[:length]), PLAIN, ["a"]))
    refusal(DataError, lambda: scan(path(data + b"junk"), PLAIN, ["a"]))
    flipped = bytearray(data)
    flipped[-6] ^= 4  # in the checksum or right before it
    refusal(DataError, lambda: scan(path(bytes(flipped)), PLAIN, ["a"]))


@pytest.mark.slow
def test_bombs_do_not_fill_the_memory(path: Write) -> None:
    # 200 MB of blanks in one line, from a few kilobytes.
    deflated = io.BytesIO()
    with gzip.GzipFile(fileobj=deflated, mode="wb", compresslevel=9) as file:
        for _ in range(200):
            file.write(b" " * (1 << 20))
    squeezed = zstandard.compress(b" " * (200 << 20), 1)
    for content in (deflated.getvalue(), squeezed):
        source = path(content)
        tracemalloc.start()
        refusal(DataError, lambda source=source: scan(source, PLAIN, None))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 64 << 20


def test_the_csv_modules_limit_is_left_alone(path: Write) -> None:
    before = csv.field_size_limit()
    refusal(DataError, lambda: scan(path(b"a\n" + b"1" * 500_000), PLAIN, None))
    assert csv.field_size_limit() == before


def test_absent_and_unreadable_inputs(tmp_path: Path) -> None:
    for name, says in [
        ("no.csv", "no such file"), (".", "is a folder"), ("no/no.csv", "no such file"),
        ("a\0b", "can't be read"), ("/dev/null", "neither a file nor a pipe"),
        ("loop", "can't be read"), ("a\nb.csv", "no such file"),
    ]:  # fmt: skip
        (tmp_path / "loop").unlink(missing_ok=True)
        (tmp_path / "loop").symlink_to("loop")
        source = name if name.startswith("/") else str(tmp_path / name)
        assert says in refusal(MissingInputError, lambda source=source: read_header(source, PLAIN))
        with pytest.raises(MissingInputError), spool(source):
            pass


# --- missing cells, hostile cells -------------------------------------------------------------------


def test_missing_cells_are_refused_or_dropped(path: Write) -> None:
    source = path("a,b,c\n1,2,\nNA,3,x\n4, ,y\n5,6, NA \n 7 ,8,z\n")
    message = refusal(DataError, lambda: scan(source, PLAIN, ["a", "b"]))
    assert "row 2 (line 3), column a: 'NA' is missing" in message
    assert "--missing drop" in message
    facts = scan(source, PLAIN, ["a", "b"], "drop")
    assert (facts.names, facts.rows, facts.dropped) == (["a", "b", "c"], 3, 2)
    assert (facts.columns["b"].min, facts.columns["b"].max) == (2, 8)
    assert rows_of(source, "a", "b", missing="drop") == [(1, 2), (5, 6), (7, 8)]
    assert rows_of(source, "a", missing="drop") == [(1,), (4,), (5,), (7,)]
    found = blocks(source, PLAIN, [ONES, A, B], {A: bounds("0", "9"), B: bounds("0", "9")}, "drop", 2)
    assert [(block.rows, [v.tolist() for v in block.values]) for block in found] == [
        (2, [[1, 1], [-3, 1], [-2, 2]]),
        (1, [[1], [3], [4]]),
    ]
    assert (found.rows, found.dropped) == (3, 2)
    # na, N/A, null, - are not missing but bad.
    for text in ["na", "N/A", "null", "-", "NaN", "#N/A"]:
        bad = path(f"a\n1\n{text}\n")
        message = refusal(DataError, lambda bad=bad: scan(bad, PLAIN, ["a"], "drop"))
        assert f"row 2 (line 3), column a: {text!r} is not a number" in message


def test_bad_cells_count_only_in_complete_rows(path: Write) -> None:
    source = path("a,b\n,bad\n1,2\n3,worse\n")
    assert "row 3 (line 4), column b: 'worse'" in refusal(DataError, lambda: scan(source, PLAIN, ["b", "a"], "drop"))


def test_the_first_bad_cell_in_reading_order_is_named(path: Write) -> None:
    source = path("a,b\n" + "1,2\n" * 5 + "1,x\ny,2\n")
    assert "row 6 (line 7), column b: 'x'" in refusal(DataError, lambda: scan(source, PLAIN, ["a", "b"]))


def test_hostile_cells_are_shown_cut_and_escaped(path: Write) -> None:
    for text, shown in [("1e999999999", "'1e999999999'"), ("x" * 1000, "'xxx"), ("\x1b[2J", r"'\x1b[2J'")]:
        message = refusal(DataError, lambda text=text: scan(path(f"a\n{text}\n"), PLAIN, ["a"]))
        assert f"row 1 (line 2), column a: {shown}" in message
        assert "x" * 45 not in message


# --- scan ---------------------------------------------------------------------------------------------


def test_scan_of_all_columns_tells_the_numeric_ones(path: Write) -> None:
    source = path("id,x,y,none,x\nu1,1.50,-3,,1\nu2,,2e1,NA,2\nu3,0.25,7,,3\n")
    facts = scan(source, PLAIN, None)
    assert facts.names == ["id", "x", "y", "none", "x"]
    assert (facts.rows, facts.dropped) == (3, 0)
    assert {name: column.numeric for name, column in facts.columns.items()} == {
        "id": False, "x": True, "y": True, "none": False,
    }  # fmt: skip
    x, y = facts.columns["x"], facts.columns["y"]
    assert (x.min, x.max, x.decimals) == (Fraction(1, 4), Fraction(3, 2), 2)
    assert (y.min, y.max, y.decimals) == (-3, 20, 0)
    assert "row 1 (line 2), column id: 'u1' is not a number" in (facts.columns["id"].problem or "")
    assert (facts.columns["none"].min, facts.columns["none"].problem) == (None, "it has no value")


def test_scan_of_a_header_only(path: Write) -> None:
    facts = scan(path("a,b\n"), PLAIN, ["a"])
    assert (facts.rows, facts.columns["a"].min, facts.columns["a"].numeric) == (0, None, False)
    assert list(blocks(path("a\n"), PLAIN, [ONES, A], {A: bounds("0", "1")}, "error", 4)) == []
    assert scan(path("a\n1\n2\n"), PLAIN, []).rows == 2


@given(st.lists(st.tuples(st.integers(-(10**20), 10**20), st.integers(0, 25), st.booleans()), min_size=1, max_size=9))
def test_scan_finds_exact_ranges_and_scales(numbers: list[tuple[int, int, bool]]) -> None:
    values = [Fraction(mantissa, 10**decimals) for mantissa, decimals, _ in numbers]
    texts = [f"{m}e-{d}" if e else f"{m}" + "0" * d + f"e-{2 * d}" for m, d, e in numbers]
    read = Numbers(np.zeros(0, np.int64), np.zeros(0, np.int64), {}, [])
    assert read.extremes() == []
    collected = csvio._Range()
    for text in texts:  # in batches of one, so that scales meet in every order
        collected.add(read_numbers([text], PLAIN))
    facts = collected.facts(None)
    assert (facts.min, facts.max) == (min(values), max(values))
    assert all((value * 10**facts.decimals).denominator == 1 for value in values)
    assert facts.decimals == 0 or any((value * 10 ** (facts.decimals - 1)).denominator > 1 for value in values)


# --- blocks -------------------------------------------------------------------------------------------


def test_b05_negative_values(path: Write) -> None:
    (block,) = blocks(path("a\n-71\n12\n"), PLAIN, [A], {A: bounds("-71", "12")}, "error", 8)
    mid = bounds("-71", "12").mid
    assert sum(block.values[0].tolist()) + 2 * mid == -59


@pytest.mark.parametrize("count", [1, 4095, 4096, 4097, 9000])
def test_b23_rows_fill_blocks_exactly(path: Write, count: int) -> None:
    source = path("a\n" + "".join(f"{i % 7}\n" for i in range(1, count + 1)))
    found = blocks(source, PLAIN, [ONES, A], {A: bounds("0", "6")}, "error", 4096)
    sizes, total = [], 0
    for block in found:
        sizes.append(block.rows)
        assert block.values[0].tolist() == [1] * block.rows
        total += int(block.values[1].sum()) + 3 * block.rows
    assert sizes == [4096] * (count // 4096) + [count % 4096] * (count % 4096 > 0)
    assert total == sum(i % 7 for i in range(1, count + 1))
    assert found.rows == count
    assert sum(block.rows for block in found) == count  # it can be read again
    assert found.rows == count


def test_powers_and_scales(path: Write) -> None:
    source = path("a,b\n-1.5,10\n2,-3\n0.1,7\n")
    squared, cubed = Column("a", 2), Column("b", 3)
    limits = {A: bounds("-1.5", "2.0", 1), B: bounds("-3", "10")}
    limits |= {squared: limits[A].power(2), cubed: limits[B].power(3)}
    (block,) = blocks(source, PLAIN, [squared, B, cubed, A], limits, "error", 8)
    wanted = [[225, 400, 1], [10, -3, 7], [1000, -27, 343], [-15, 20, 1]]
    for column, values, plain in zip([squared, B, cubed, A], block.values, wanted, strict=True):
        assert values.dtype == np.int64
        assert [value + limits[column].mid for value in values.tolist()] == plain
    only = blocks(source, PLAIN, [squared], {squared: limits[squared]}, "error", 8)
    assert [(v + limits[squared].mid).tolist() for v in next(iter(only)).values] == [[225, 400, 1]]


def test_wide_values_come_as_exact_integers(path: Write) -> None:
    high = 10**30
    source = path(f"a,b\n{high},{high + 1}\n-5,{high + 2}\n0.5,{high + 0}\n")
    limits = {A: bounds("-5", str(high), 1), B: bounds(str(high), str(high + 2))}
    (block,) = blocks(source, PLAIN, [A, B], limits, "error", 8)
    assert isinstance(block.values[0], list)
    assert [value + limits[A].mid for value in block.values[0]] == [10 * high, -50, 5]
    assert block.values[1].dtype == np.int64  # the centred range is small
    assert block.values[1].tolist() == [0, 1, -1]


@pytest.mark.parametrize(
    ("text", "column", "limits", "says"),
    [
        ("300", A, bounds("0", "250"), "'300' is outside the declared bounds 0:250"),
        ("-1", A, bounds("0", "250"), "'-1' is outside the declared bounds 0:250"),
        ("9" * 30, A, bounds("0", "250"), "'" + "9" * 30 + "' is outside the declared bounds 0:250"),
        ("1e300", A, bounds("0", "250"), "'1e300' is outside the declared bounds 0:250"),
        ("1.255", A, bounds("0", "250", 2), "'1.255' has more than 2 decimals"),
        ("1e-300", A, bounds("0", "250", 2), "'1e-300' has more than 2 decimals"),
        ("12", Column("a", 2), bounds("0", "10").power(2), "'12' has the power 2 = 144, which is outside"),
        (
            "99999999999",
            Column("a", 2),
            bounds("0", "10").power(2),
            "'99999999999' has the power 2 = 99999999998",
        ),
        ("", A, bounds("0", "1"), "'' is missing"),
        ("one", A, bounds("0", "1"), "'one' is not a number"),
    ],
)
def test_values_off_the_study_are_refused(
    path: Write, text: str, column: Column, limits: ColumnBounds, says: str
) -> None:
    source = path(f"a,b\n1,0\n\n{text},0\n")
    message = refusal(DataError, lambda: list(blocks(source, PLAIN, [column], {column: limits}, "error", 8)))
    assert f"row 2 (line 4), column a: {says}" in message


def test_trailing_zeros_are_not_decimals(path: Write) -> None:
    source = path("a\n1.50000000000000000000000\n2.5000\n1e0\n")
    (block,) = blocks(source, PLAIN, [A], {A: bounds("0", "5", 1)}, "error", 8)
    assert (block.values[0] + 25).tolist() == [15, 25, 10]
    assert scan(source, PLAIN, ["a"]).columns["a"].decimals == 1


@given(st.integers(0, 2**32))
def test_blocks_equal_exact_arithmetic(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice([10, 10**9, 10**17, 10**19, 10**40])
    scale, power = rng.choice([0, 1, 3, 18, 20]), rng.choice([1, 1, 2, 3])
    values = [Fraction(rng.randint(-size, size), 10 ** rng.randint(0, scale)) for _ in range(7)]
    column = Column("a", power)
    limits = ColumnBounds(min(values), max(values), scale).power(power)
    texts = [csvio_text(value, scale) for value in values]
    numbers = read_numbers(texts, PLAIN)
    wired, refused = csvio.Wire(column, limits).many(numbers)
    assert refused == []
    assert [int(w) for w in wired] == [int(v**power * 10**limits.scale) - limits.mid for v in values]


def csvio_text(value: Fraction, scale: int) -> str:
    scaled = abs(value) * 10**scale
    digits = str(scaled.numerator).zfill(scale + 1)
    return ("-" if value < 0 else "") + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def test_memory_is_flat(tmp_path: Path) -> None:
    def peak(rows: int) -> int:
        source = tmp_path / "long.csv"
        source.write_text("a,b,text\n" + "".join(f"{i},{i % 97}.5,{'y' * 50}\n" for i in range(rows)))
        limits = {A: bounds("0", "1000000"), B: bounds("0", "97", 1)}
        tracemalloc.start()
        found = blocks(str(source), PLAIN, [ONES, A, B], limits, "error", 1024)
        assert sum(block.rows for block in found) == rows
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    assert peak(30_000) < 1.2 * peak(10_000) < 12 << 20


# --- standard input and pipes ---------------------------------------------------------------------------


def test_standard_input_is_read_once_or_spooled(monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(data: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    feed(b"a\n1\n2\n")
    assert rows_of("-", "a") == [(1,), (2,)]
    feed(gzip.compress(b"a\n1\nx\n"))
    with spool("-") as source:
        assert read_header(source, PLAIN) == ["a"]
        message = refusal(DataError, lambda: scan(source, PLAIN, ["a"]))
        assert message.startswith("standard input row 2 (line 3), column a: 'x'")
        assert read_header(source, PLAIN) == ["a"]
        with spool(source) as again:
            assert again is source
    monkeypatch.setattr("sys.stdin", None)
    assert "standard input" in refusal(MissingInputError, lambda: read_header("-", PLAIN))


def test_a_named_pipe_can_be_spooled(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a\n" + b"5\n" * 100_000,))
    writer.start()
    with spool(str(pipe)) as source:
        writer.join()
        assert scan(source, PLAIN, ["a"]).rows == scan(source, PLAIN, None).rows == 100_000


def test_a_regular_file_is_not_copied(path: Write) -> None:
    source = path("a\n1\n")
    with spool(source) as same:
        assert same is source


@pytest.mark.parametrize("size", [900, 1000, 1023, 5000, 60_000])
def test_long_records_are_not_taken_for_an_open_quote(path: Write, size: int) -> None:
    count = 8_000_000 // size
    source = path("a,b\n" + "".join(f"{k},{'x' * size}\n" for k in range(count)))
    found = scan(source, PLAIN, ["a"])
    assert (found.rows, found.columns["a"].max) == (count, count - 1)


def test_lines_of_records_that_go_over_several() -> None:
    text = 'a,b\n1,"x\ny"\n\n"2","\r\n\r"\n3,z\nbad,w\n'
    table = Table("t", iter([text.encode()]), PLAIN)
    batch = table.read(10, [0])
    assert batch.lines == [3, 7, 8, 9]
    bare = Table("t", iter([b'"1\n",2\n3,4\n5\n']), CsvOptions(header=False))
    with pytest.raises(DataError, match="t line 4: 1 cells"):
        bare.read(10, [0])


def test_the_first_fault_is_told() -> None:
    table = Table("t", iter([b'a,b\n1,2\n3\n4,"5"6\n']), PLAIN)
    with pytest.raises(DataError, match="t line 3: 1 cells, but 2 columns"):
        table.read(10, [0])
