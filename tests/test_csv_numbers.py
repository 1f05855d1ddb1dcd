"""Numbers in cells: what is one and what is not, one by one and a column at once; the CSV options."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybfv.client.csvio import CsvOptions, parse_number
from pybfv.client.csvnumbers import read_numbers
from pybfv.errors import UsageError

PLAIN = CsvOptions()
EURO = CsvOptions(delimiter=";", decimal=",", thousands=".")


@pytest.mark.parametrize(
    ("text", "mantissa", "decimals"),
    [
        ("0", 0, 0),
        ("-0", 0, 0),
        ("+7", 7, 0),
        ("0.00", 0, 2),
        ("250.00", 25000, 2),
        ("  -1.5\t", -15, 1),
        (".5", 5, 1),
        ("5.", 5, 0),
        ("-.25", -25, 2),
        ("1e3", 1000, 0),
        ("1.5E+1", 15, 0),
        ("1.50e1", 150, 1),
        ("-12e-3", -12, 3),
        ("1e-0", 1, 0),
        ("007", 7, 0),
        ("9007199254740993", 9007199254740993, 0),
        ("12345678901234567890123.5", 123456789012345678901235, 1),
        ("1" * 400, int("1" * 400), 0),
        ("1e399", 10**399, 0),
        ("1e-399", 1, 399),
    ],
)
def test_numbers(text: str, mantissa: int, decimals: int) -> None:
    assert parse_number(text, PLAIN) == (mantissa, decimals)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", ".", "-", "+", "e5", "1e", "1e+", "--1", "+-1", "1-", "- 1", "1 2", "1..2", "1.2.3", "1_000",
        "_1", "0x10", "1f", "nan", "NaN", "inf", "-inf", "Infinity", "NA", "true", "1,5", "1'000", "١٢",
        "1٫5", "0e9999999999999", "²", "½", "１", "1e5.0", "1e٣", "−5", "1\n2", "1e999999999", "1e-999999999",
        "1e400", "1" * 401, "0." + "0" * 400, "9" * 100000, "1e" + "9" * 100000, "$5", "5%", "1/2", "1d3",
    ],
)  # fmt: skip
def test_not_numbers(text: str) -> None:
    assert parse_number(text, PLAIN) is None
    assert read_numbers(["1", text, "2"], PLAIN).bad == [1]


def test_locale_forms() -> None:
    assert parse_number("1.234,56", EURO) == (123456, 2)
    assert parse_number("-1.234.567", EURO) == (-1234567, 0)
    assert parse_number("1234,5", EURO) == (12345, 1)
    assert parse_number("999", EURO) == (999, 0)
    blank = CsvOptions(delimiter=";", thousands="\u202f")
    assert parse_number("12\u202f345.5", blank) == (123455, 1)
    for text in [
        "1.23",
        "1.2345",
        "12.34.567",
        "1234.567",
        ".123",
        "1..234",
        "1.234.",
        "1,234.567",
        "0.123",
        "1.234,5.6",
    ]:
        assert parse_number(text, EURO) is None, text
    # Without --thousands the mark is refused, not guessed.
    assert parse_number("1,234.5", CsvOptions(delimiter=";")) is None


plain_texts = st.from_regex(r"[ ]?[+-]?([0-9]{0,25})(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)


@given(plain_texts | st.text(alphabet="+-.eE_0123456789 ", max_size=12))
def test_parse_number_agrees_with_fractions(text: str) -> None:
    # Fraction reads the same language, but for _ between digits.
    try:
        expected = Fraction(text) if "_" not in text else None
    except ValueError:
        expected = None
    found = parse_number(text, PLAIN)
    assert (found and Fraction(found[0], 10 ** found[1])) == expected
    assert found is None or found[1] >= 0


cells = plain_texts | st.sampled_from(
    [
        "0",
        "-0",
        "1e3",
        "9" * 18,
        "9" * 19,
        "-" + "9" * 18,
        "." + "9" * 18,
        "0" * 19,
        "x",
        "-",
        "1.5.5",
        "é",
        "1e-30",
        "NA",
    ]
)


@given(st.lists(cells | st.integers().map(str) | st.decimals(-1000, 1000, places=3).map(str), max_size=20))
def test_reading_a_column_at_once_equals_one_by_one(texts: list[str]) -> None:
    for options in (PLAIN, CsvOptions(delimiter=";", decimal=",")):
        numbers = read_numbers(texts, options)
        single = [parse_number(text, options) for text in texts]
        assert numbers.bad == [row for row, number in enumerate(single) if number is None]
        good = [row for row, number in enumerate(single) if number is not None]
        assert [numbers.at(row) for row in good] == [single[row] for row in good]
        kept = numbers.keep(good)
        assert [kept.at(row) for row in range(len(good))] == [single[row] for row in good]
        exact = [Fraction(mantissa, 10**decimals) for mantissa, decimals in filter(None, single)]
        ends = [Fraction(mantissa, 10**decimals) for mantissa, decimals in kept.extremes()]
        assert (min(ends), max(ends)) == (min(exact), max(exact)) if exact else ends == []


def test_options_are_checked() -> None:
    assert CsvOptions(delimiter="\\t").delimiter == "\t"
    for options in [
        {"delimiter": ""}, {"delimiter": ",,"}, {"delimiter": '"'}, {"delimiter": "\n"}, {"delimiter": "a"},
        {"delimiter": "5"}, {"decimal": ","}, {"decimal": "e"}, {"decimal": "-"}, {"thousands": ","},
        {"decimal": " "}, {"decimal": "\t"}, {"thousands": "."}, {"thousands": ""},
        {"encoding": "utf-9"}, {"encoding": "rot13"},
        {"encoding": "a\0b"}, {"encoding": ""}, {"encoding": "undefined"},
    ]:  # fmt: skip
        with pytest.raises(UsageError, match=r"^--(delimiter|decimal|thousands|encoding) "):
            CsvOptions(**options)
