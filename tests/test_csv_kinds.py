"""CSV files as people have them, case by case: the exact numbers, or a refusal that names the place.

Siblings of the reported failures in test_cases.py: marks, signs, quotes, headers, line ends, encodings, archives.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pybfv import flow
from pybfv.client.csvio import CsvOptions
from pybfv.errors import PybfvError, UsageError

TOY: dict[str, Any] = {"set_name": "insecure_n64_q214", "insecure": True}
EURO: dict[str, Any] = {"delimiter": ";", "decimal": ",", "thousands": "."}


def archive(content: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("t.csv", content)
    return made.getvalue()


EXACT: dict[str, tuple[bytes | str, dict[str, Any], list[str]]] = {
    "decimal comma": ("x;y\n1,5;2\n-2,25;3\n", {"delimiter": ";", "decimal": ","}, ["1.5", "-2.25"]),
    "thousands": ('x\n"1,234"\n5\n', {"thousands": ",", "delimiter": ";"}, ["1234", "5"]),
    "thousands of Europe": ("x;y\n1.234.567,8;0\n12,50;0\n", EURO, ["1234567.8", "12.5"]),
    "thousands of Switzerland": ("x\n1'234.5\n1'000'000\n", {"thousands": "'"}, ["1234.5", "1000000"]),
    "exponents": ("x\n1e3\n-2.5E-2\n+1.0e+0\n1E+03\n", {}, ["1000", "-0.025", "1", "1000"]),
    "plus signs": ("x\n+5\n+0\n", {}, ["5", "0"]),
    "minus zero": ("x\n-0\n-0.00\n0\n", {}, ["0", "0", "0"]),
    "zeros in front": ("x\n007\n010\n-0012.50\n", {}, ["7", "10", "-12.5"]),
    "quoted numbers": ('x\n"12"\n"-3.5"\n', {}, ["12", "-3.5"]),
    "blanks around": ("x \n1 \n 2\t\n", {}, ["1", "2"]),
    "protected blanks around": ("x\n1\u00a0\n\u20092\n", {}, ["1", "2"]),
    "a comma at every end": ("x,\n1,\n2,\n", {}, ["1", "2"]),
    "line ends of all kinds": (b"x\n1\r\n2\r3\n", {}, ["1", "2", "3"]),
    "line ends doubled": (b"x\r\r\n1\r\r\n2\r\r\n", {}, ["1", "2"]),
    "line ends in cells": ('t,x\n"a\nb",1\nc,"2"\n', {}, ["1", "2"]),
    "blank lines": ("\n\nx,y\n\n1,0\n\n2,0\n\n", {}, ["1", "2"]),
    "no last line end": ("x\n1\n2", {}, ["1", "2"]),
    "very long": ("x\n" + "9" * 30 + "\n-1\n", {}, ["9" * 30, "-1"]),
    "constant": ("x\n7\n7\n7\n", {}, ["7", "7", "7"]),
    "one row": ("x\n-7.5\n", {}, ["-7.5"]),
    "gzip": (gzip.compress(b"x\n1\n2\n", mtime=0), {}, ["1", "2"]),
    "zstd": (zstandard.compress(b"x\n1\n2\n"), {}, ["1", "2"]),
    "utf-16": ("x\n1\n2\n".encode("utf-16"), {"encoding": "utf-16"}, ["1", "2"]),
    "utf-16 with its byte order": ("\ufeffx\n1\n2\n".encode("utf-16-le"), {"encoding": "utf-16-le"}, ["1", "2"]),
    "utf-32": ("x\n1\n2\n".encode("utf-32"), {"encoding": "utf-32"}, ["1", "2"]),
    "latin-1": ("x,Größe\n1,2\n".encode("latin-1"), {"encoding": "latin-1"}, ["1"]),
    "tabs": ("y\tx\n0\t1\n", {"delimiter": "\\t"}, ["1"]),
    "another column twice": ("y,x,y\n1,2,3\n", {}, ["2"]),
    "a comma in a name": ('"a,b",x\n1,2\n', {}, ["2"]),
}


@pytest.mark.parametrize("kind", EXACT)
def test_exact(tmp_path: Path, kind: str) -> None:
    content, options, texts = EXACT[kind]
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    found = flow.run(str(path), ["count", "sum:x", "variance:x"], ddof=0, verify=True, options=CsvOptions(**options),
                     **TOY)["results"]  # fmt: skip
    values = [Fraction(text) for text in texts]
    mean = sum(values) / len(values)
    assert found[0]["n"] == len(values)
    assert Fraction(found[1]["exact"]) == sum(values)
    assert Fraction(found[2]["exact"]) == sum((v - mean) ** 2 for v in values) / len(values)


NOT_A_NUMBER = {
    "thousands without the option": '"1,234"', "decimal comma without the option": '"1,5"', "percent": "5%",
    "unicode minus": "\u22125", "currency": "€5", "minus behind": "5-", "in brackets": "(5)", "hexadecimal": "0x10",
    "underscore": "1_000", "fraction": "1/2", "date": "2020-01-01", "time": "12:30", "formula": "=1+2", "true": "true",
    "single quotes": "'5'", "not a number": "NaN", "infinite": "-inf", "dashes": "--", "total": "Total", "dot": ".",
    "sign": "-", "blank inside": "1 2", "protected blank inside": "1\u00a0234", "no width": "1\u200b",
    "other digits": "\u0661\u0662", "wide digits": "\uff15", "superscript": "5²", "end of file mark": "\x1a",
    "too long": "9" * 401, "huge exponent": "1e99999", "null": "null", "N/A": "N/A", "unit": "5kg",
    "two points": "1.2.3",
}  # fmt: skip


@pytest.mark.parametrize("kind", NOT_A_NUMBER)
def test_what_is_no_number(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"y,x\n1,1\n\n1,{NOT_A_NUMBER[kind]}\n", encoding="utf-8")
    for missing in ("error", "drop"):
        with pytest.raises(PybfvError, match=r"t\.csv row 2 \(line 4\), column x: .* is not a number"):
            flow.run(str(path), "sum:x", missing=missing, **TOY)


UTF_32 = codecs.BOM_UTF32_LE + "x\n1\n".encode("utf-32-le")
REFUSED: dict[str, tuple[bytes | str, dict[str, Any], str]] = {
    "column twice": ("x,x\n1,2\n", {}, "column x appears more than once"),
    "column twice, with a blank": ("x, x\n1,2\n", {}, "column x appears more than once"),
    "row too long": ("x\n1,2\n", {}, "line 2: 2 cells, but 1 columns"),
    "row too short": ("x,y\n1\n", {}, "line 2: 1 cells, but 2 columns"),
    "decimal comma in a comma file": ("x,y\n1,5,2\n", {}, "line 2: 3 cells"),
    "groups of two": ("x\n12,34,567\n", {"thousands": ",", "delimiter": ";"}, "'12,34,567' is not a number"),
    "groups behind the mark": ("x\n1.234.5,678.9\n", EURO, "is not a number"),
    "English in a European file": ("x\n1,234.50\n", EURO, "'1,234.50' is not a number"),
    "NUL": ("x\n1\0\n", {}, "line 2: a NUL character"),
    "quote left open": ('x\n"1\n2\n', {}, "line 3: broken CSV"),
    "text behind a quote": ('x\n"1"2\n', {}, "line 2: broken CSV"),
    "another delimiter": ("x;y\n1;2\n", {}, "is that one column? see --delimiter"),
    "other case": ("X\n1\n", {}, "unknown column x; the columns are X"),
    "a comment first": ("# made today\nx\n1\n", {}, "unknown column x"),
    "no header": ("1\n2\n", {}, "unknown column x; the columns are 1"),
    "line for spreadsheets": ("sep=;\nx;y\n1;2\n", {"delimiter": ";"}, "line 1: 'sep=' is a line for spreadsheets"),
    "line for spreadsheets, one column": ("sep=;\nx\n1\n", {}, "line 1: 'sep=;' is a line for spreadsheets"),
    "header only": ("x\n", {}, "has no complete rows"),
    "empty": ("", {}, "is empty"),
    "missing": ("y,x\n1,\n", {}, "row 1 (line 2), column x: '' is missing"),
    "utf-16": ("x\n1\n".encode("utf-16"), {}, "give --encoding utf-16"),
    "utf-16 without a mark": ("x\n1\n".encode("utf-16-le"), {}, "For UTF-16 give --encoding utf-16-le"),
    "utf-16 without a mark, big": ("x\n1\n".encode("utf-16-be"), {}, "For UTF-16 give --encoding utf-16-be"),
    "utf-32": (UTF_32, {}, "line 1: byte 0 (0xff) is not utf-8: give --encoding utf-32"),
    "utf-32, big": (codecs.BOM_UTF32_BE + "x\n1\n".encode("utf-32-be"), {}, "is not utf-8: give --encoding utf-32"),
    "utf-32 without a mark, big": ("x\n1\n".encode("utf-32-be"), {}, "For UTF-32 give --encoding utf-32-be"),
    "utf-32 as latin-1": (UTF_32, {"encoding": "latin-1"}, "For UTF-32 give --encoding utf-32"),
    "utf-32 as utf-16": (UTF_32, {"encoding": "utf-16"}, "For UTF-32 give --encoding utf-32"),
    "utf-32 without a mark": ("x\n1\n".encode("utf-32-le"), {}, "For UTF-32 give --encoding utf-32-le"),
    "utf-16 as utf-32": ("x\n1\n".encode("utf-16"), {"encoding": "utf-32"}, "not utf-32: give --encoding utf-16"),
    "latin-1": ("x,Größe\n1,2\n".encode("latin-1"), {}, "line 1: byte 4 (0xf6) is not utf-8"),
    "zip": (archive(b"x\n1\n"), {}, "is a zip archive or a spreadsheet"),
    "old spreadsheet": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), {}, "is a spreadsheet"),
    "xz": (lzma.compress(b"x\n1\n"), {}, "is compressed with xz"),
    "bzip2": (bz2.compress(b"x\n1\n"), {}, "is compressed with bzip2"),
    "gzip twice": (gzip.compress(gzip.compress(b"x\n1\n", mtime=0), mtime=0), {}, "is not utf-8"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(tmp_path: Path, kind: str) -> None:
    content, options, says = REFUSED[kind]
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(PybfvError) as caught:
        flow.run(str(path), "sum:x", options=CsvOptions(**options), **TOY)
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_file_given_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x\n1\n2\n")
    (tmp_path / "link.csv").symlink_to(path)
    (tmp_path / "copy.csv").write_text("x\n1\n2\n")
    for other in (path, tmp_path / "." / "t.csv", tmp_path / "link.csv"):
        with pytest.raises(UsageError, match="is given twice"):
            flow.run([str(path), other], "count", **TOY)
    assert flow.run([path, tmp_path / "copy.csv"], "count", **TOY)["rows"] == 4


def test_a_header_of_numbers_is_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for content, said in (("5\n6\n", True), ("2019, 2020\n1,2\n", True), ("x,2020\n1,2\n", False)):
        path.write_text(content)
        notes = flow.plan(str(path), "count", **TOY).notes
        assert any("--no-header" in note for note in notes) == said
    path.write_text("5\n6\n")
    assert flow.plan(str(path), "count", options=CsvOptions(header=False), **TOY).notes == []
