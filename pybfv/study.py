"""The study: what contributors, server and key holder agree on before any number is encrypted.

A study is made by ``pybfv plan`` and embedded in every file. Its document holds decisions (columns,
bounds, statistics, parameter set, plaintext moduli, limits); everything else here (what is
accumulated, how many ciphertexts meet in a sum, how large totals and noise can get) is derived from
them, by client and server alike, so that a changed document can't claim more than it carries.
docs/noise.md has the derivation of the bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from pybfv.errors import DataError, PlanError, PybfvError, UsageError
from pybfv.io.canonical import canonical_bytes
from pybfv.io.study import StudyDoc
from pybfv.params import ParameterSet, check_plain_modulus, factor_batching, get_set, wide_primes
from pybfv.scheme import noise
from pybfv.workload import ONES, Column, ColumnBounds, Interval, Key, Recorder, Workload, parse_specs

FORMAT = "pybfv-study"
VERSION = 1
FAIL_BITS = 128
"""A job's decryption fails with probability at most 2^-FAIL_BITS."""
CHECK_BITS = 20
"""Where bits are free, the static noise bound stays below 2^-CHECK_BITS q/(2t)."""
FLOOD_BITS_MAX = 64
"""More flooding than this many bits above the noise hides nothing more."""
FLOOD_BITS_MIN = -6
"""Under totals there is always a flooding of 2^FLOOD_BITS_MIN of the noise bound, which costs 1/64 of it:
without any, the noise mod t of a product of sparse message polynomials tells them apart (docs/noise.md)."""
MAX_ROWS = 10**12
MAX_CIPHERTEXTS = 10**7
"""Limits of the planner's arithmetic: rows of a study, ciphertexts per column in one sum."""
MAX_RESULTS = 20_000
"""Sums and products of a study."""
MAX_DIGITS = 500
"""Digits and decimals of a bound: more than any parameter set could hold."""
PRODUCTS = ("scale-free", "scaled")
"""How products can be taken; of equal rank the planner prefers the first, which is the faster one."""
MAX_MODULI = 8
"""Plaintext moduli (ciphertexts per value) of a study."""


@dataclass(frozen=True)
class Noise:
    """Static noise bounds of the finished results for one plaintext modulus t.

    ``bounds[depth]`` bounds |phase - q m / t| of a result of that depth without flooding;
    ``flood[depth]`` is F: under totals finish adds a uniform integer in [-2^F, 2^F) (None: slots).
    """

    q: int
    t: int
    bounds: dict[int, int]
    flood: dict[int, int | None]

    def total(self, depth: int) -> int:
        """The bound that decryption checks."""
        extra = self.flood[depth]
        return self.bounds[depth] + (0 if extra is None else 1 << extra)

    def fraction(self, depth: int) -> Fraction:
        """The bound as a fraction of the distance between plaintexts, t B / q; below 1/2."""
        return Fraction(self.t * self.total(depth), self.q)

    def hidden_bits(self, depth: int) -> int:
        """By how many bits the flooding exceeds the bound of the noise that it hides (at least -6)."""
        extra = self.flood[depth]
        return 0 if extra is None else extra - self.bounds[depth].bit_length()


@dataclass(frozen=True)
class Shape:
    """How large a study may become; the planner tries shapes before a study exists."""

    max_rows: int
    max_contributions: int
    n: int

    @property
    def ciphertexts(self) -> int:
        """U: the most ciphertexts of one column that meet in a sum, min(R, C + floor(R/N))."""
        return min(self.max_rows, self.max_contributions + self.max_rows // self.n)


def growth_of(
    workloads: list[Workload], bounds: dict[Column, ColumnBounds], rows: int
) -> dict[Key, tuple[Interval, str]]:
    """Per total the exact interval it stays in for up to ``rows`` rows, and a statistic that needs it."""
    found: dict[Key, tuple[Interval, str]] = {(ONES,): (Interval(0, rows), "count")}
    for w in workloads:
        label = w.label
        for key, interval in w.growth(bounds, rows).items():
            found.setdefault(key, (interval, label))
    return found


def noise_of(
    ps: ParameterSet, shape: Shape, t: int, product: str, *, reads: int, packing: str, reveal: str
) -> Noise | None:
    """The static bounds for one plaintext modulus, or None when decryption could fail.

    ``product``: one of PRODUCTS, or "none" for sums alone.
    ``reads``: coefficients that decryption reads in the whole job; each may fail with probability
    2^-FAIL_BITS / reads, split evenly between the sum and the re-randomising zero.
    Public-key noise is assumed throughout: it exceeds symmetric noise.
    """
    u = shape.ciphertexts
    fail_bits = FAIL_BITS + 1 + (reads - 1).bit_length()
    bounds: dict[int, int] = {}
    flood: dict[int, int | None] = {}
    for d in (0,) if product == "none" else (0, 1):
        if d == 0:
            b = noise.sum_bound(ps.n, "public", u, fail_bits)
        elif product == "scaled":
            b = noise.scaled_bound(ps.n, "public", u, fail_bits, t, ps.q)
        else:
            b = t * noise.product_bound(ps.n, "public", u, fail_bits)
        if reveal == "totals":
            b += noise.zero_bound(ps.n, 2 + d, fail_bits)
            if packing == "coefficients":
                b += 1  # the mask's own encoding rounds once
        bounds[d] = b
        flood[d] = None
        if reveal == "totals":
            room = ps.q // (2 * t << CHECK_BITS) - b
            least, most = b.bit_length() + FLOOD_BITS_MIN, b.bit_length() + FLOOD_BITS_MAX
            flood[d] = max(0, least, min(room.bit_length() - 1, most) if room > 0 else 0)
    found = Noise(ps.q, t, bounds, flood)
    return found if all(2 * t * found.total(d) < ps.q for d in bounds) else None


def reads_of(n: int, results: int, moduli: int, packing: str, reveal: str) -> int:
    """How many coefficients the job's decryption reads."""
    each = 1 if reveal == "totals" and packing == "batched" else n
    return max(1, results * moduli * each)


class Study:
    """A study document, checked: construction refuses whatever does not carry what it claims.

    Attributes: ``doc`` (the document and its hash), ``ps`` (parameter set), ``moduli`` (plaintext
    moduli, one ciphertext of a value for each), ``workloads``, ``bounds`` (of every encrypted column
    but the ones), ``columns`` (encrypted columns in file order, the ones first), ``sums`` and
    ``products`` (what the server accumulates), ``product`` (how: one of PRODUCTS, or "none" in a study of
    sums), ``min_contributors`` (no result is over fewer contributions), ``wide`` (the primes that a scaled
    accumulator has beyond the set's; else none), ``shape``, ``noises`` (one for each modulus).
    Raises DataError for a document that is malformed, PlanError for one that can't be carried.
    """

    def __init__(self, doc: StudyDoc) -> None:
        self.doc = doc
        data = doc.data
        where = f"study {doc.hash[:16]}"
        try:
            self._read(data)
        except UsageError as e:
            raise DataError(f"{where}: {e}") from None
        except PybfvError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as e:
            raise DataError(f"{where}: not a valid study document ({type(e).__name__}: {e}); plan it anew") from e
        expected = self.document()
        # as text: to Python 1 and True are equal, and so are null and a field that isn't there
        known, found = ({k: canonical_bytes(v) for k, v in fields.items()} for fields in (expected, data))
        for key in sorted({*known, *found}):
            if known.get(key) != found.get(key):
                raise DataError(f"{where}: field {ascii(key)[:60]} does not follow from the rest; plan it anew")

    def _read(self, data: dict[str, Any]) -> None:
        if data["format"] != FORMAT or data["version"] != VERSION:
            raise DataError(
                f"study format {data['format']!r} version {data['version']!r}; "
                f"this pybfv reads {FORMAT} version {VERSION}"
            )
        self.ps = get_set(data["set"])  # document() repeats its n, primes and mark: they must agree
        self.missing: str = _choice(data, "missing", "error", "drop")
        self.reveal: str = _choice(data, "reveal", "totals", "slots")
        self.packing: str = _choice(data, "packing", "coefficients", "batched")
        self.shape = Shape(_count(data, "max_rows", MAX_ROWS), _count(data, "max_contributions", MAX_ROWS), self.ps.n)
        if self.shape.max_contributions > self.shape.max_rows:
            raise DataError("max_contributions exceeds max_rows: every contribution has a row at least")
        self.min_contributors: int = 1
        if "min_contributors" in data:
            self.min_contributors = _count(data, "min_contributors", self.shape.max_contributions)
        if self.shape.ciphertexts > MAX_CIPHERTEXTS:
            raise PlanError(f"more than {MAX_CIPHERTEXTS} ciphertexts a column; state --max-contributions")
        base = {c["name"]: _column_bounds(c) for c in data["columns"]}
        names = list(base)
        self.workloads: list[Workload] = parse_specs(list(data["statistics"]), names, names)
        self.recorder = Recorder(self.workloads)
        columns = sorted(
            {ONES, *self.recorder.sums, *(c for pair in self.recorder.products for c in pair)},
            key=lambda c: (c != ONES, c),
        )
        self.columns: tuple[Column, ...] = tuple(columns)
        self._place = {c: i for i, c in enumerate(columns)}
        if len(self.recorder.sums) + len(self.recorder.products) > MAX_RESULTS:
            raise PlanError(f"a study has at most {MAX_RESULTS} sums and products; ask for fewer statistics")
        self.bounds: dict[Column, ColumnBounds] = {
            c: base[c.name] if c.power == 1 else base[c.name].power(c.power) for c in columns if c != ONES
        }
        self.base = {name: base[name] for name in sorted({c.name for c in self.bounds})}
        self.depth = 1 if self.recorder.products else 0
        self.sums: tuple[Column, ...] = tuple(self.recorder.sums)
        self.products: tuple[tuple[Column, Column], ...] = tuple(self.recorder.products)
        self.product: str = _choice(data, "product", *(PRODUCTS if self.depth else ("none",)))
        self.wide: tuple[int, ...] = wide_of(self.ps, self.shape, self.product)
        if self.packing == "coefficients" and self.depth:
            raise DataError("coefficient packing carries sums only")
        self.moduli = tuple(check_plain_modulus(self.ps, int(t), batched=self.packing == "batched") for t in data["t"])
        if not 1 <= len(self.moduli) <= MAX_MODULI or any(
            math.gcd(a, b) != 1 for i, a in enumerate(self.moduli) for b in self.moduli[:i]
        ):
            raise PlanError(f"a study has 1 to {MAX_MODULI} pairwise coprime plaintext moduli")
        self.results = len(self.sums) + len(self.products)
        reads = reads_of(self.ps.n, self.results, len(self.moduli), self.packing, self.reveal)
        noises = [
            noise_of(self.ps, self.shape, t, self.product, reads=reads, packing=self.packing, reveal=self.reveal)
            for t in self.moduli
        ]
        if any(x is None for x in noises):
            raise PlanError(f"{self.ps.name} can't carry t of {max(self.moduli).bit_length()} bits for this study")
        self.noises: tuple[Noise, ...] = tuple(x for x in noises if x is not None)
        for key, (interval, stat) in self.growth.items():
            if math.prod(self.moduli) < interval.hi - interval.lo + 1:
                raise PlanError(f"the plaintext moduli don't hold the totals of {stat} (column {key[0]})")

    @cached_property
    def growth(self) -> dict[Key, tuple[Interval, str]]:
        """Intervals of what one decoded number can be: totals, or single slots under --reveal slots."""
        rows = self.shape.max_rows if self.reveal == "totals" else self.shape.ciphertexts
        return growth_of(self.workloads, self.bounds, rows)

    def document(self) -> dict[str, Any]:
        """The study as its canonical document."""
        return document(
            self.ps,
            statistics=[w.canonical for w in self.workloads],
            base=self.base,
            missing=self.missing,
            max_rows=self.shape.max_rows,
            max_contributions=self.shape.max_contributions,
            min_contributors=self.min_contributors,
            reveal=self.reveal,
            packing=self.packing,
            product=self.product,
            moduli=self.moduli,
        )

    @property
    def hash(self) -> str:
        """SHA-256 of the document, in hex."""
        return self.doc.hash

    @property
    def per_block(self) -> int:
        """Ciphertexts of one block of N rows: columns times plaintext moduli."""
        return len(self.columns) * len(self.moduli)

    @property
    def flood_bits(self) -> int:
        """By how many bits flooding exceeds the noise, in the result where it does least."""
        return min(x.hidden_bits(d) for x in self.noises for d in x.bounds)

    def t_primes(self, index: int) -> tuple[int, ...]:
        """The batching primes of plaintext modulus ``index``."""
        return factor_batching(self.moduli[index], self.ps.n)

    def index(self, column: Column, modulus: int) -> int:
        """Place of a column's ciphertext for a modulus inside a block."""
        return self._place[column] * len(self.moduli) + modulus

    def names(self) -> list[tuple[str, Key, int, int]]:
        """Accumulators in file order: (name, total, modulus index, parts)."""
        found: list[tuple[str, Key, int, int]] = []
        for r in range(len(self.moduli)):
            found += [(f"sum.{self._place[c]}.{r}", (c,), r, 2) for c in self.sums]
            found += [(f"product.{self._place[a]}.{self._place[b]}.{r}", (a, b), r, 3) for a, b in self.products]
        return found

    def kind(self, total: Key) -> str:
        """The kind of accumulator that a total takes: "sum", "product" (mod q) or "scaled"."""
        return "sum" if len(total) == 1 else "scaled" if self.product == "scaled" else "product"

    def state_shape(self, total: Key, parts: int) -> tuple[int, int, int]:
        """The canonical state of a total's accumulator, [parts, L, N], or [parts, L + K, N] for a scaled product."""
        wide = len(self.wide) if self.kind(total) == "scaled" else 0
        return parts, len(self.ps.primes) + wide, self.ps.n

    def factor(self, total: Key, modulus: int) -> int:
        """The factor mod t that a finished total carries: -q for a scale-free product, else 1 (docs/noise.md)."""
        return -self.ps.q % self.moduli[modulus] if self.kind(total) == "product" else 1

    def check_enough(self, contributions: int, origin: str, least: int = 1) -> None:
        """DataError for a result over fewer contributions than the study allows, or than ``least``."""
        least = max(least, self.min_contributors)
        if contributions < least:
            why = "--min-contributors" if least > self.min_contributors else "the study"
            raise DataError(
                f"{origin} is over {contributions} contribution(s), and {why} asks for {least} at least: get more"
            )

    def check_limits(self, rows: int, contributions: int, ciphertexts: int, origin: str) -> None:
        """DataError when an amount of data exceeds what the study planned for."""
        for what, have, most, option in (
            ("rows", rows, self.shape.max_rows, "--max-rows"),
            ("contributions", contributions, self.shape.max_contributions, "--max-contributions"),
            ("ciphertexts a column", ciphertexts, self.shape.ciphertexts, "--max-contributions"),
        ):
            if have > most:
                raise DataError(
                    f"{origin}: that makes {have} {what}, but the study is planned for {most}; give fewer, or plan a "
                    f"new study (with new keys and contributions) with a larger {option}"
                )


def wide_of(ps: ParameterSet, shape: Shape, product: str) -> tuple[int, ...]:
    """The wide primes of a product's accumulators: none but for scaled ones. PlanError where they don't suffice."""
    return wide_primes(ps, shape.ciphertexts) if product == "scaled" else ()


def document(
    ps: ParameterSet,
    *,
    statistics: list[str],
    base: dict[str, ColumnBounds],
    missing: str,
    max_rows: int,
    max_contributions: int,
    min_contributors: int = 1,
    reveal: str,
    packing: str,
    product: str,
    moduli: tuple[int, ...],
) -> dict[str, Any]:
    """The canonical study document: what FORMAT.md calls the study."""
    found: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "statistics": statistics,
        "columns": [
            {"name": name, "scale": b.scale, "lo": str(b.scaled.lo), "hi": str(b.scaled.hi)}
            for name, b in sorted(base.items())
        ],
        "missing": missing,
        "max_rows": max_rows,
        "max_contributions": max_contributions,
        "reveal": reveal,
        "packing": packing,
        "product": product,
        "set": ps.name,
        "insecure": ps.insecure,
        "n": ps.n,
        "primes": list(ps.primes),
        "t": [str(t) for t in moduli],
    }
    wide = wide_of(ps, Shape(max_rows, max_contributions, ps.n), product)
    least = {"min_contributors": min_contributors} if min_contributors > 1 else {}
    return found | least | ({"wide": list(wide)} if wide else {})


def _choice(data: dict[str, Any], field: str, *allowed: str) -> str:
    value = data[field]
    if value not in allowed:
        raise DataError(f"study field {field!r} is {value!r}; it can be {' or '.join(allowed)}")
    return value


def _column_bounds(column: dict[str, Any]) -> ColumnBounds:
    scale = column["scale"]
    if type(scale) is not int or not 0 <= scale <= MAX_DIGITS or len(column["lo"] + column["hi"]) > 2 * MAX_DIGITS:
        raise DataError(f"a study's bounds have at most {MAX_DIGITS} digits and decimals")
    return ColumnBounds(Fraction(int(column["lo"]), 10**scale), Fraction(int(column["hi"]), 10**scale), scale)


def _count(data: dict[str, Any], field: str, most: int) -> int:
    value = data[field]
    if type(value) is not int or not 1 <= value <= most:
        raise DataError(f"study field {field!r} is {value!r}; it can be 1 to {most}")
    return value
