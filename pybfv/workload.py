"""Statistics as one file each: the base class, its vocabulary, SPEC grammar and discovery.

A workload says which columns it reads, which sums and products the server adds up
(`server`), how large those can grow (`growth`), how the client turns the exact totals
into a result (`finish`) and, independently, what the result is by definition (`plain`).

Wire values: a column value x travels as the integer x' = x * 10^scale - mid, where `scale`
is the column's number of decimals and `mid` a public midpoint. `Totals` undoes both, so that
workloads only see exact `Fraction`s in the user's units.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

from pybfv.errors import DataError, InternalError, UsageError

WORKLOADS_PACKAGE = "pybfv_workloads"
MAX_POWER = 16
_SPECIAL = ',:~+^=*-"'


# --- columns, intervals, bounds ---------------------------------------------------------


def quote_name(name: str) -> str:
    """A column name as SPEC takes it: bare, or in double quotes with inner ones doubled."""
    if not name or name.startswith("(") or any(c in _SPECIAL or c.isspace() for c in name):
        return '"' + name.replace('"', '""') + '"'
    return name


def show_name(name: str) -> str:
    """A column name for one-line messages: quoted, unprintable characters escaped, at most 60 long."""
    text = quote_name(name) if name.isprintable() else repr(name)
    return text if len(text) <= 60 else text[:57] + "..."


def show_names(names: Sequence[str]) -> str:
    """A list of column names for one-line messages; a long list is cut and counted."""
    shown = ", ".join(show_name(name) for name in names[:20])
    return (shown or "(none)") + (f" and {len(names) - 20} more" if len(names) > 20 else "")


@dataclass(frozen=True, order=True, slots=True)
class Column:
    """A column that is encrypted: `name`, raised to `power` (1..16) by the contributor.

    str() is the SPEC form, such as X or X^2. `ONES` is the column of ones.
    """

    name: str
    power: int = 1

    def __str__(self) -> str:
        if self.power == 0:
            return "(ones)"
        return quote_name(self.name) + (f"^{self.power}" if self.power != 1 else "")


ONES = Column("", 0)
Key = tuple[Column, ...]  # of a total: (column,) for a sum, a sorted pair for a sum of products


def product_key(a: Column, b: Column) -> tuple[Column, Column]:
    """The key of the total of a * b: the pair in sorted order."""
    return (a, b) if a <= b else (b, a)


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers lo..hi, both included; every operation is exact and tight for independent operands."""

    lo: int
    hi: int

    def __post_init__(self) -> None:
        if self.lo > self.hi:
            raise InternalError(f"interval with lo = {self.lo} above hi = {self.hi}")

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.lo + other.lo, self.hi + other.hi)

    def __mul__(self, other: Interval) -> Interval:
        ends = [x * y for x in (self.lo, self.hi) for y in (other.lo, other.hi)]
        return Interval(min(ends), max(ends))

    def __contains__(self, value: int) -> bool:
        return self.lo <= value <= self.hi

    def scale(self, k: int) -> Interval:
        """Every element times k (k of either sign)."""
        return Interval(min(self.lo * k, self.hi * k), max(self.lo * k, self.hi * k))

    def hull(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        return Interval(min(self.lo, other.lo), max(self.hi, other.hi))

    def square(self) -> Interval:
        """Squares of the elements: tighter than self * self when the interval holds 0."""
        ends = (self.lo * self.lo, self.hi * self.hi)
        return Interval(0 if 0 in self else min(ends), max(ends))

    @property
    def span(self) -> int:
        """hi - lo: a modulus must exceed it to tell all elements apart."""
        return self.hi - self.lo


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """Declared range of a column in user units, and its number of decimals `scale` >= 0.

    UsageError when lo > hi, or when an end has more decimals than `scale`.
    """

    lo: Fraction
    hi: Fraction
    scale: int

    def __post_init__(self) -> None:
        if self.scale < 0:
            raise UsageError(f"a column can't have {self.scale} decimals")
        if self.lo > self.hi:
            raise UsageError(f"bounds {self.lo}:{self.hi} have their lower end above the upper: swap them")
        unit = 10**self.scale
        if unit % self.lo.denominator or unit % self.hi.denominator:
            raise UsageError(f"bounds {self.lo}:{self.hi} need more decimals than the scale {self.scale}")

    @property
    def scaled(self) -> Interval:
        """The bounds times 10^scale."""
        unit = 10**self.scale
        return Interval(int(self.lo * unit), int(self.hi * unit))

    @property
    def mid(self) -> int:
        """The public midpoint, floor((lo + hi) / 2) of `scaled`."""
        scaled = self.scaled
        return (scaled.lo + scaled.hi) // 2

    @property
    def wire(self) -> Interval:
        """The range of x' = x * 10^scale - mid."""
        scaled, mid = self.scaled, self.mid
        return Interval(scaled.lo - mid, scaled.hi - mid)

    @property
    def text(self) -> str:
        """LO:HI in decimals, as --bounds takes it (0.00:250.00)."""
        scaled = self.scaled
        return f"{decimal_text(scaled.lo, self.scale)}:{decimal_text(scaled.hi, self.scale)}"

    def power(self, k: int) -> ColumnBounds:
        """Bounds of the k-th power (k >= 1): scale * k decimals, from 0 for an even power across 0."""
        ends = (self.lo**k, self.hi**k)
        lo = Fraction(0) if k % 2 == 0 and self.lo <= 0 <= self.hi else min(ends)
        return ColumnBounds(lo, max(ends), self.scale * k)


# --- exact numbers as text and as binary64 ------------------------------------------------


def _digits(n: int) -> str:
    # Python refuses str() of integers beyond 4,300 digits, so long ones are cut in two first.
    if n.bit_length() < 10_000:
        return str(n)
    half = n.bit_length() * 3 // 20  # about half of the decimal digits
    high, low = divmod(abs(n), 10**half)
    return ("-" if n < 0 else "") + _digits(high) + _digits(low).zfill(half)


def decimal_text(mantissa: int, decimals: int) -> str:
    """mantissa * 10^-decimals (decimals >= 0) written out, with exactly that many decimals."""
    text = _digits(abs(mantissa)).zfill(decimals + 1)
    if decimals:
        text = text[:-decimals] + "." + text[-decimals:]
    return ("-" if mantissa < 0 else "") + text


def exact_text(value: Fraction) -> str:
    """A fraction as p/q, reduced, q > 0, always with /q."""
    return f"{_digits(value.numerator)}/{_digits(value.denominator)}"


def to_float(value: Fraction, what: str = "the result") -> float:
    """The binary64 number nearest to `value`, ties to even. DataError beyond +-1.797e308."""
    try:
        return value.numerator / value.denominator  # true division of ints is correctly rounded
    except OverflowError:
        raise DataError(
            f"{what} is beyond the range of binary64 (1.8e308): give the column in a larger unit, "
            "or take the exact totals through the Python API"
        ) from None


def sqrt_to_float(value: Fraction, what: str = "the result") -> float:
    """The binary64 number nearest to the square root of `value` >= 0, ties to even."""
    if value < 0:
        raise InternalError(f"square root of a negative number for {what}")
    p, q = value.numerator, value.denominator
    # r = floor(sqrt(value) * 2^k) with 64 bits or more. Below r one sticky bit tells whether
    # anything was cut, so the one rounding that follows goes the way of the true root.
    k = 65 - (p.bit_length() - q.bit_length()) // 2
    scaled_p, scaled_q = (p << 2 * k, q) if k >= 0 else (p, q << -2 * k)
    root = math.isqrt(scaled_p // scaled_q)
    sticky = 2 * root + (root * root * scaled_q != scaled_p)
    return to_float(Fraction(sticky) / Fraction(2) ** (k + 1), what)


# --- SPEC grammar -------------------------------------------------------------------------


class SpecReader:
    """A cursor over a SPEC's arguments. Blanks between the parts are skipped."""

    def __init__(self, text: str, whole: str) -> None:
        self._text, self._at, self._whole = text, 0, whole

    def fail(self, why: str) -> UsageError:
        """A UsageError that cites the whole option text."""
        return UsageError(f"{self._whole!r}: {why}")

    def _skip_blanks(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def take(self, char: str) -> bool:
        """Step over `char` if it comes next."""
        self._skip_blanks()
        found = self._text.startswith(char, self._at)
        self._at += len(char) * found
        return found

    def expect(self, char: str) -> None:
        """Step over `char`, which must come next."""
        if not self.take(char):
            raise self.fail(f"expected {char!r} {self._place()}")

    def name(self, what: str = "a column name") -> str:
        """The next name, bare or quoted; UsageError when there is none."""
        self._skip_blanks()
        if self._text.startswith('"', self._at):
            found = re.compile(r'"((?:[^"]|"")*)"').match(self._text, self._at)
            if not found:
                raise self.fail("a double quote is never closed")
            name = found.group(1).replace('""', '"')
        else:
            found = re.compile(r'[^,:~+^=*"\s-]*').match(self._text, self._at)
            name = found.group() if found else ""
        if not found or not name:
            raise self.fail(f"expected {what} {self._place()}")
        self._at = found.end()
        return name

    def power(self) -> int:
        """The power after a name: 1 without ^, else 1..16."""
        if not self.take("^"):
            return 1
        text = self.name("a whole number")
        if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= MAX_POWER:
            raise self.fail(f"a power is a whole number from 1 to {MAX_POWER}, not {text!r}")
        return int(text)

    def rest(self) -> str:
        """Everything that is left."""
        rest, self._at = self._text[self._at :], len(self._text)
        return rest

    def end(self) -> None:
        """Nothing may be left."""
        self._skip_blanks()
        if self._at < len(self._text):
            raise self.fail(f"can't be read {self._place()}")

    def _place(self) -> str:
        rest = self._text[self._at :]
        if not rest:
            return "at the end"
        return f"at {rest[:30]!r} (a name with any of {_SPECIAL} or blanks goes in double quotes)"


@dataclass(frozen=True, slots=True)
class SpecContext:
    """What a SPEC may name: the table's columns in order, and those that are numeric (for `*`)."""

    known: tuple[str, ...]
    numeric: tuple[str, ...]

    def column(self, name: str, reader: SpecReader, power: int = 1) -> Column:
        """The column of that name. UsageError when unknown, DataError when the table has two."""
        if name not in self.known:
            raise reader.fail(
                f"unknown column {show_name(name)}; the columns are {show_names(self.known)}{self._hint(name)}"
            )
        if self.known.count(name) > 1:
            raise DataError(f"column {show_name(name)} appears more than once in the header: rename one")
        return Column(name, power)

    def _hint(self, name: str) -> str:
        """What a shell or a delimiter may have done to a name."""
        if len(self.known) == 1 and any(mark in self.known[0] for mark in ";\t|"):
            return "; is that one column? see --delimiter"
        quoted = [n for n in self.known if quote_name(n) != n and n.split()[:1] == [name]]
        return f"; write it in both kinds of quotes, as in 'mean:{quote_name(quoted[0])}'" if quoted else ""

    def columns(self, reader: SpecReader) -> list[Column]:
        """COL[,COL...] up to the end; `*` stands for every numeric column."""
        columns: list[Column] = []
        while True:
            if reader.take("*"):
                if not self.numeric:
                    raise reader.fail("* means every numeric column, and there is none")
                columns += [self.column(name, reader) for name in self.numeric]
            else:
                columns.append(self.column(reader.name(), reader))
            if not reader.take(","):
                reader.end()
                return list(dict.fromkeys(columns))


def parse_specs(texts: Sequence[str], known: Sequence[str], numeric: Sequence[str]) -> list[Workload]:
    """The workloads that --stat options ask for, one per result, in order, duplicates merged.

    `known`: the table's column names; `numeric`: those that `*` stands for.
    UsageError on anything that can't be read, listing the known statistics or columns.
    """
    classes, context = discover(), SpecContext(tuple(known), tuple(numeric))
    found: dict[str, Workload] = {}
    for text in texts:
        name, colon, arguments = text.partition(":")
        if name.strip() not in classes:
            raise UsageError(f"{text!r}: unknown statistic {name.strip()!r}; known are {', '.join(classes)}")
        cls = classes[name.strip()]
        reader = SpecReader(arguments, text)
        if colon and not arguments.strip():
            raise reader.fail(f"nothing after the colon; write {cls.syntax.split()[0]}")
        for workload in cls.parse(reader, context):
            found.setdefault(workload.canonical, workload)
    if not found:
        raise UsageError(f"no statistic is asked for; known are {', '.join(classes)}")
    return list(found.values())


def parse_bounds(text: str) -> tuple[str, str, str]:
    """COL=LO:HI as (name, LO, HI); the numbers stay text. UsageError when it has another form."""
    reader = SpecReader(text, text)
    name = reader.name()
    reader.expect("=")
    lo, colon, hi = (part.strip() for part in reader.rest().partition(":"))
    if not (lo and colon and hi) or ":" in hi:
        raise reader.fail("bounds are written COL=LO:HI, such as pay=0.00:250.00")
    return name, lo, hi


# --- totals and the workload itself ---------------------------------------------------------


class Totals:
    """Exact totals in user units, from the decrypted integer totals of wire values.

    n: number of rows. sums: sum of x'_a by column. products: sum of x'_a x'_b by sorted pair;
    the sums of both columns must be there too. bounds: of each column (not of ONES).
    """

    def __init__(
        self,
        n: int,
        sums: Mapping[Column, int],
        products: Mapping[tuple[Column, Column], int],
        bounds: Mapping[Column, ColumnBounds],
    ) -> None:
        self.n, self._sums, self._products, self._bounds = n, sums, products, bounds

    def sum(self, column: Column) -> Fraction:
        """Sum of x: with x = (x' + mid) / 10^scale it is (sum x' + n mid) / 10^scale."""
        if column == ONES:
            return Fraction(self.n)
        bounds = self._of(self._bounds, column)
        return Fraction(self._of(self._sums, column) + self.n * bounds.mid, 10**bounds.scale)

    def product(self, a: Column, b: Column) -> Fraction:
        """Sum of a * b: (sum a'b' + mid_a sum b' + mid_b sum a' + n mid_a mid_b) / 10^(both scales)."""
        if ONES in (a, b):
            return self.sum(b if a == ONES else a)
        bounds_a, bounds_b = self._of(self._bounds, a), self._of(self._bounds, b)
        total = self._of(self._products, product_key(a, b)) + self.n * bounds_a.mid * bounds_b.mid
        total += bounds_a.mid * self._of(self._sums, b) + bounds_b.mid * self._of(self._sums, a)
        return Fraction(total, 10 ** (bounds_a.scale + bounds_b.scale))

    @staticmethod
    def _of(table: Mapping[Any, Any], key: Any) -> Any:
        if key not in table:
            shown = " * ".join(map(str, key)) if isinstance(key, tuple) else str(key)
            raise InternalError(f"a workload asks for the total of {shown}, which its server part lacks")
        return table[key]


class ServerOps(Protocol):
    """What `Workload.server` may call; the names are the backend's."""

    def acc_add(self, column: Column) -> None: ...

    def acc_mul(self, a: Column, b: Column) -> None: ...


class Recorder:
    """Collects what workloads ask of the server: `sums` and `products`, deduplicated and sorted.

    The sum of ONES (the count) comes first and is always there; a product brings the sums of
    both its columns, which un-centring needs. A product with ONES is a sum.
    """

    def __init__(self, workloads: Sequence[Workload] = ()) -> None:
        self._sums: set[Column] = set()
        self._products: set[tuple[Column, Column]] = set()
        for workload in workloads:
            workload.server(self)

    def acc_add(self, column: Column) -> None:
        """Ask for the sum of a column."""
        self._sums.add(column)

    def acc_mul(self, a: Column, b: Column) -> None:
        """Ask for the sum of the products of two columns."""
        self._sums.update((a, b))
        if ONES not in (a, b):
            self._products.add(product_key(a, b))

    @property
    def sums(self) -> list[Column]:
        """ONES, then the columns in sorted order."""
        return [ONES, *sorted(self._sums - {ONES})]

    @property
    def products(self) -> list[tuple[Column, Column]]:
        """Sorted pairs in sorted order."""
        return sorted(self._products)


class Workload(ABC):
    """One statistic with its arguments; one instance makes one result.

    A subclass is a frozen dataclass, alone in its file of the workloads package.
    """

    name: ClassVar[str]  # as in SPEC and in a result's "stat"
    syntax: ClassVar[str]  # one line of help
    example: ClassVar[str]  # a SPEC that could be typed

    @classmethod
    @abstractmethod
    def parse(cls, reader: SpecReader, context: SpecContext) -> Sequence[Workload]:
        """The instances that a SPEC's arguments ask for; UsageError if they can't be read."""

    @property
    @abstractmethod
    def canonical(self) -> str:
        """The SPEC of exactly this instance; parsing it gives an equal instance."""

    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns it reads, without ONES, each once."""

    @abstractmethod
    def server(self, ops: ServerOps) -> None:
        """Ask for sums (`ops.acc_add`) and sums of products (`ops.acc_mul`); nothing else."""

    @abstractmethod
    def finish(self, totals: Totals, ddof: int) -> dict[str, Any]:
        """The result, exact and JSON-ready. `ddof`: 0 or 1. DataError when it is not defined."""

    @abstractmethod
    def plain(self, rows: Sequence[Mapping[Column, Fraction]], ddof: int) -> dict[str, Any]:
        """The same result by definition, from the rows themselves; shares no arithmetic with `finish`."""

    @property
    def label(self) -> str:
        """`canonical` for one-line messages: unprintable characters in names are escaped."""
        return self.canonical if self.canonical.isprintable() else repr(self.canonical)

    @property
    def depth(self) -> int:
        """Products in a row on the server: 0 (sums only) or 1."""
        return 1 if Recorder([self]).products else 0

    def growth(self, bounds: Mapping[Column, ColumnBounds], rows: int) -> dict[Key, Interval]:
        """Exact range of each wire total over 0..rows rows. Key: (column,) or a sorted pair."""
        ops, zero = Recorder([self]), Interval(0, 0)
        one: dict[Key, Interval] = {(ONES,): Interval(1, 1)}  # the range of one row's share
        wires = {column: bounds[column].wire for column in ops.sums[1:]}
        one |= {(column,): wire for column, wire in wires.items()}
        for a, b in ops.products:
            wire_a, wire_b = wires[a], wires[b]
            one[(a, b)] = wire_a.square() if a == b else wire_a * wire_b
        return {key: share.hull(zero).scale(rows) for key, share in one.items()}


@dataclass(frozen=True)
class ColumnWorkload(Workload):
    """A statistic of one column: NAME:COL[,COL...] makes one instance for each column."""

    column: Column

    @classmethod
    def parse(cls, reader: SpecReader, context: SpecContext) -> Sequence[Workload]:
        return [cls(column) for column in context.columns(reader)]

    @property
    def canonical(self) -> str:
        return f"{self.name}:{self.column}"

    def columns(self) -> tuple[Column, ...]:
        return (self.column,)


def cell(row: Mapping[Column, Fraction], column: Column) -> Fraction:
    """A value for `plain`: the column itself if the row holds it, else the power of its base."""
    return row[column] if column in row else row[Column(column.name)] ** column.power


# --- discovery ------------------------------------------------------------------------------


def discover(package: str = WORKLOADS_PACKAGE) -> dict[str, type[Workload]]:
    """Every workload by name, found by scanning the package: one file, one class.

    InternalError naming the file when a module can't be imported or does not hold exactly one
    complete Workload, or when two have one name.
    """
    importlib.invalidate_caches()
    found: dict[str, type[Workload]] = {}
    folder = importlib.import_module(package).__path__
    for module_name in sorted(info.name for info in pkgutil.iter_modules(folder)):
        where = f"workloads/{module_name}.py"
        try:
            module = importlib.import_module(f"{package}.{module_name}")
        except MemoryError:
            raise
        except Exception as error:
            raise InternalError(
                f"{where} can't be imported: {type(error).__name__}: {error}; mend or remove it"
            ) from error
        classes = [
            cls
            for cls in vars(module).values()
            if inspect.isclass(cls) and issubclass(cls, Workload) and cls.__module__ == module.__name__
        ]
        if len(classes) != 1:
            raise InternalError(f"{where} must hold exactly one Workload class, not {len(classes)}")
        cls = classes[0]
        lacks = [*sorted(cls.__abstractmethods__)]
        lacks += [attribute for attribute in ("name", "syntax", "example") if not hasattr(cls, attribute)]
        if lacks:
            raise InternalError(f"{where}: {cls.__name__} lacks {', '.join(lacks)}")
        if cls.name in found or not re.fullmatch(r"[a-z][a-z0-9_]*", cls.name):
            raise InternalError(f"{where}: the name {cls.name!r} is taken or not a lower-case word")
        found[cls.name] = cls
    return found
