"""The planner: from columns, bounds and statistics to a study that provably carries them, or a refusal.

It minimises the bytes that all contributions take (Candidate.rank) over (parameter set, plaintext moduli), under the
noise and growth bounds of pybfv.study; docs/noise.md derives them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from pybfv.errors import PlanError
from pybfv.io.study import StudyDoc
from pybfv.params import SETS, ParameterSet, batching_primes, check_plain_modulus, factor_batching, get_set
from pybfv.study import (
    CHECK_BITS,
    MAX_CIPHERTEXTS,
    MAX_MODULI,
    MAX_ROWS,
    PRODUCTS,
    Noise,
    Shape,
    Study,
    document,
    growth_of,
    noise_of,
    reads_of,
    wide_of,
)
from pybfv.workload import Column, ColumnBounds, Interval, Recorder, Workload, show_name


@dataclass(frozen=True)
class Job:
    """What is to be carried: statistics, bounds of every encrypted column, limits, who may see what.

    ``allowed``: the products that a plan may take, of PRODUCTS, in the order of preference.
    """

    workloads: tuple[Workload, ...]
    base: dict[str, ColumnBounds]
    max_rows: int
    max_contributions: int
    reveal: str
    missing: str
    allowed: tuple[str, ...] = PRODUCTS
    min_contributors: int = 1

    @cached_property
    def bounds(self) -> dict[Column, ColumnBounds]:
        """Bounds of every encrypted column, powers included."""
        columns = {c for w in self.workloads for c in w.columns() if c.power}
        return {c: self.base[c.name] if c.power == 1 else self.base[c.name].power(c.power) for c in columns}

    @cached_property
    def depth(self) -> int:
        """1 when a statistic needs products, else 0."""
        return 1 if self.recorder.products else 0

    @cached_property
    def recorder(self) -> Recorder:
        """What the server is asked for."""
        return Recorder(self.workloads)

    @cached_property
    def results(self) -> int:
        """Sums and products that are finished and decrypted."""
        return len(self.recorder.sums) + len(self.recorder.products)

    @property
    def ways(self) -> tuple[str, ...]:
        """How the study's products may be taken: "none" for a job of sums."""
        return self.allowed if self.depth else ("none",)

    @property
    def packing(self) -> str:
        """Coefficients for sums only, which then need no slots; batched slots else."""
        return "batched" if self.depth else "coefficients"

    @cached_property
    def widest(self) -> tuple[Interval, str, str]:
        """The total whose range grows most with each row: its range for one row, statistic, columns."""
        growth = growth_of(list(self.workloads), self.bounds, 1)
        key, (interval, statistic) = max(growth.items(), key=lambda kv: kv[1][0].span)
        return interval, statistic, " * ".join(show_name(str(c)) if c.power else "(ones)" for c in key)

    def shape(self, n: int) -> Shape:
        """How many rows and ciphertexts meet at ring dimension n."""
        return Shape(self.max_rows, self.max_contributions, n)


@dataclass(frozen=True)
class Need:
    """How many values the largest total of a job takes, and which statistic and column need it."""

    values: int
    statistic: str
    column: str

    @property
    def bits(self) -> float:
        """log2 of the number of values."""
        return math.log2(self.values)


@dataclass(frozen=True)
class Candidate:
    """A parameter set with a product and plaintext moduli that carry the job."""

    ps: ParameterSet
    product: str
    moduli: tuple[int, ...]
    noises: tuple[Noise, ...]
    cost: int

    @property
    def rank(self) -> int:
        """What the planner minimises: bytes, four times over where the range check says little.

        A set whose free bits make the check (and the flooding) worth something may cost up to four times
        the bytes of one that just decrypts: the step from N to 2N and a longer q.
        """
        return self.cost * (1 if self.checked else 4)

    @property
    def checked(self) -> bool:
        """Whether the range check leaves a random phase at most 2^-CHECK_BITS a try."""
        return all(x.fraction(d) * 2**CHECK_BITS <= Fraction(1, 2) for x in self.noises for d in x.bounds)


def need_of(job: Job, ps: ParameterSet) -> Need:
    """The largest range that one decoded number of the job can take at a set."""
    rows = job.max_rows if job.reveal == "totals" else job.shape(ps.n).ciphertexts
    # growth is proportional to the rows, so one row tells which total grows most
    interval, statistic, column = job.widest
    scaled = interval.scale(rows)
    return Need(scaled.hi - scaled.lo + 1, statistic, column)


def _noise(job: Job, ps: ParameterSet, product: str, t: int, moduli: int) -> Noise | None:
    reads = reads_of(ps.n, job.results, moduli, job.packing, job.reveal)
    return noise_of(ps, job.shape(ps.n), t, product, reads=reads, packing=job.packing, reveal=job.reveal)


def capacity(job: Job, ps: ParameterSet, product: str, moduli: int = 1) -> int:
    """The largest t whose noise bounds the set meets for the job with that product; 0 when none does."""
    low, high = 1, ps.q
    if _noise(job, ps, product, 2, moduli) is None:
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        if _noise(job, ps, product, middle, moduli) is None:
            high = middle
        else:
            low = middle
    return low


def _root(x: int, k: int) -> int:
    """ceil(x^(1/k)), exact."""
    low, high = 0, 1 << (x.bit_length() // k + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if middle**k < x:
            low = middle
        else:
            high = middle
    return high


def _product_of_primes(primes: Sequence[int], low: int, high: int) -> tuple[int, ...] | None:
    """Distinct primes whose product is in [low, high], with few factors and close to low; or None.

    ``primes`` ascending. Tries, for each number of factors, runs of neighbours around low^(1/k) and
    the smallest last factor that reaches low.
    """
    best: tuple[int, tuple[int, ...]] | None = None
    fewest = max(1, math.ceil(math.log(low) / math.log(primes[-1]))) if primes and low > 1 else 1
    for k in range(fewest, min(len(primes), fewest + 3) + 1):
        centre = bisect_left(primes, _root(low, k))
        for start in range(max(0, centre - 8 * k), min(len(primes) - k + 1, centre + 4) + 1):
            chosen = list(primes[start : start + k - 1])
            if len(chosen) < k - 1:
                continue
            part = math.prod(chosen)
            last = next((p for p in primes[bisect_left(primes, -(-low // part)) :] if p not in chosen), None)
            if last is None or part * last > high:
                continue
            if best is None or part * last < best[0]:
                best = (part * last, tuple(sorted([*chosen, last])))
        if best:
            return best[1]
    return None


def choose_moduli(ps: ParameterSet, packing: str, values: int, count: int, cap: int) -> tuple[int, ...] | None:
    """``count`` pairwise coprime plaintext moduli, each <= cap, whose product is >= values; or None."""
    found: list[int] = []
    primes = list(batching_primes(ps.n))
    for left in range(count, 0, -1):
        low = max(2, _root(max(2, -(-values // math.prod(found))), left))
        if packing == "batched":
            chosen = _product_of_primes(primes, low, cap)
            if chosen is None:
                return None
            primes = [p for p in primes if p not in chosen]
            found.append(math.prod(chosen))
            continue
        # A power of two where one fits (the cheapest to divide by), else the next coprime number.
        t = 1 << (low - 1).bit_length()
        if t > cap or any(math.gcd(t, x) != 1 for x in found):
            t = low
            while any(math.gcd(t, x) != 1 for x in (ps.q, *found)):
                t += 1
        if t > cap:
            return None
        found.append(t)
    return tuple(found)


def _candidate(job: Job, ps: ParameterSet, product: str, moduli: tuple[int, ...]) -> Candidate | None:
    noises = [_noise(job, ps, product, t, len(moduli)) for t in moduli]
    if any(x is None for x in noises):
        return None
    shape = job.shape(ps.n)
    try:
        wide_of(ps, shape, product)
    except PlanError:  # more ciphertexts than there are wide primes for
        return None
    cost = shape.ciphertexts * ps.n * 8 * len(ps.primes) * len(moduli)
    return Candidate(ps, product, moduli, tuple(x for x in noises if x is not None), cost)


def candidates(job: Job, sets: Sequence[ParameterSet]) -> list[Candidate]:
    """Every set and product that carry the job, each with as few moduli as it can, best first."""
    found = []
    for ps in sets:
        values = need_of(job, ps).values
        for product in job.ways:
            for count in range(1, MAX_MODULI + 1):
                cap = capacity(job, ps, product, count)
                if cap < 2:
                    break
                if count * cap.bit_length() < values.bit_length():
                    continue
                moduli = choose_moduli(ps, job.packing, values, count, cap)
                candidate = _candidate(job, ps, product, moduli) if moduli else None
                if candidate:
                    found.append(candidate)
                    break
    return _best_first(found)


def _best_first(found: list[Candidate]) -> list[Candidate]:
    """By rank; of equal rank the product that is preferred, as it comes first and sorting keeps the order."""
    return sorted(found, key=lambda c: (c.rank, not c.checked))


def _default_sets() -> list[ParameterSet]:
    """Sets that the planner takes on its own: secure by the 2024 limits."""
    return [ps for ps in SETS.values() if ps.basis == "2024/463"]


def _refusal(job: Job, sets: Sequence[ParameterSet], moduli: Sequence[int]) -> PlanError:
    """Names the statistic, the column, the bits missing, and what would carry the job."""
    ps = sets[-1]
    need = need_of(job, ps)
    cap = max(capacity(job, ps, product) for product in job.ways)
    u = job.shape(ps.n).ciphertexts
    what = f"{need.statistic}, column {need.column}: totals need {need.bits:.1f} bits of t"
    restricted = job.depth == 1 and set(job.allowed) != set(PRODUCTS)
    over = (f"{job.allowed[0]} products" if restricted else "products") if job.depth else "sums"
    have = math.log2(cap) if cap > 1 else 0.0
    if moduli:
        given = math.log2(math.prod(moduli))
        if given < need.bits:
            lack = f"--plain-modulus gives {given:.1f}: {need.bits - given:.1f} bits missing"
        else:
            lack = (
                f"{ps.name} carries {have:.1f} bits in {over} of {u} ciphertexts: "
                f"{max(math.log2(t) for t in moduli) - have:.1f} bits missing for the given --plain-modulus"
            )
    elif job.packing == "batched" and cap < (smallest := batching_primes(ps.n)[0]):
        lack = (
            f"{ps.name} carries {have:.1f} bits in {over} of {u} ciphertexts and the smallest t with slots is "
            f"{smallest}: {max(need.bits, math.log2(smallest)) - have:.1f} bits missing"
        )
    else:
        lack = f"{ps.name} carries {have:.1f} bits a ciphertext: {need.bits - have:.1f} bits missing"
    freed = replace(job, allowed=PRODUCTS) if restricted else job
    carriers = [c.ps.name for c in candidates(job, _default_sets())]
    if restricted and _carried(freed, ps, moduli):
        other = next(p for p in PRODUCTS if p not in job.allowed)
        way_out = f"{ps.name} carries it with --product {other}; or leave --product out"
    elif carriers and moduli:
        way_out = f"leave --plain-modulus{' and --set' if ps.name not in carriers else ''} to the planner"
        way_out += f" ({carriers[0]} carries it)"
    elif carriers:
        way_out = f"{carriers[0]} carries it: take --set {carriers[0]} or leave --set out"
    else:
        way_out = "no set carries it: narrow --bounds, or plan for fewer rows or --max-contributions"
    return PlanError(f"{what}; {lack}; {way_out}")


def _carried(job: Job, ps: ParameterSet, moduli: Sequence[int]) -> bool:
    """Whether a set carries the job, with the moduli given if there are any."""
    if not moduli:
        return bool(candidates(job, [ps]))
    held = math.prod(moduli) >= need_of(job, ps).values
    return held and any(_candidate(job, ps, product, tuple(moduli)) for product in job.ways)


def choose(job: Job, set_name: str | None = None, moduli: Sequence[int] = (), *, insecure: bool = False) -> Candidate:
    """The cheapest set and moduli that carry the job; ``set_name`` and ``moduli`` restrict the choice.

    Raises PlanError naming statistic, column, bits missing and what would carry the job.
    """
    if not 1 <= job.max_rows <= MAX_ROWS:
        raise PlanError(f"--max-rows is {job.max_rows}; it can be 1 to {MAX_ROWS}")
    if not 1 <= job.max_contributions <= job.max_rows:
        raise PlanError(
            f"--max-contributions is {job.max_contributions}; it can be 1 to the study's {job.max_rows} rows"
        )
    if not 1 <= job.min_contributors <= job.max_contributions:
        raise PlanError(
            f"--min-contributors is {job.min_contributors}; it can be 1 to the {job.max_contributions} of"
            " --max-contributions"
        )
    if set_name is None:
        sets = _default_sets()
    else:
        sets = [get_set(set_name)]
        if sets[0].insecure and not insecure:
            raise PlanError(f"{set_name} is insecure and for tests only; to use it all the same, say --insecure")
    planned = [ps for ps in sets if job.shape(ps.n).ciphertexts <= MAX_CIPHERTEXTS]
    if not planned:
        raise PlanError(
            f"more than {MAX_CIPHERTEXTS} ciphertexts would meet in a sum; give --max-contributions (files, not rows)"
        )
    if not moduli:
        found = candidates(job, planned)
    else:
        found = []
        usable, refused = [], None
        for ps in planned:
            try:
                for t in moduli:
                    check_plain_modulus(ps, t, batched=job.packing == "batched")
            except PlanError as e:
                refused = refused or e
            else:
                usable.append(ps)
        if refused is not None and not usable:
            raise PlanError(f"{planned[0].name}: {refused}") from None
        if len(moduli) > MAX_MODULI or any(math.gcd(a, b) != 1 for i, a in enumerate(moduli) for b in moduli[:i]):
            raise PlanError(f"give 1 to {MAX_MODULI} pairwise coprime plaintext moduli")
        planned = usable
        for ps in planned:
            if math.prod(moduli) >= need_of(job, ps).values:
                tried = [_candidate(job, ps, product, tuple(moduli)) for product in job.ways]
                found += [c for c in tried if c is not None]
        found = _best_first(found)
    if not found:
        raise _refusal(job, planned, moduli)
    return found[0]


def make_study(job: Job, set_name: str | None = None, moduli: Sequence[int] = (), *, insecure: bool = False) -> Study:
    """Plans the job and returns its study, which checks itself anew."""
    best = choose(job, set_name, moduli, insecure=insecure)
    data = document(
        best.ps,
        statistics=[w.canonical for w in job.workloads],
        base={name: job.base[name] for name in sorted({c.name for c in job.bounds})},
        missing=job.missing,
        max_rows=job.max_rows,
        max_contributions=job.max_contributions,
        min_contributors=job.min_contributors,
        reveal=job.reveal,
        packing=job.packing,
        product=best.product,
        moduli=best.moduli,
    )
    return Study(StudyDoc.from_data(data))


def _job_of(study: Study, allowed: tuple[str, ...]) -> Job:
    shape = study.shape
    return Job(
        tuple(study.workloads),
        study.base,
        shape.max_rows,
        shape.max_contributions,
        study.reveal,
        study.missing,
        allowed,
        study.min_contributors,
    )


FLOODING_ASKED = 40
"""By how many bits flooding should hide noise, as cryptographers ask for it (SECURITY.md)."""


def floods_enough(study: Study) -> tuple[str, int] | None:
    """The set that takes the fewest bytes among those with FLOODING_ASKED bits of flooding, and its bits; or None."""
    job, found = _job_of(study, PRODUCTS), []
    for ps in _default_sets():
        try:
            best = choose(job, ps.name)
        except PlanError:
            continue
        bits = min(x.hidden_bits(d) for x in best.noises for d in x.bounds)
        if bits >= FLOODING_ASKED:
            found.append((best.cost, ps.name, bits))
    return min(found)[1:] if found else None


def rows_carried(study: Study) -> int:
    """How many rows the study's set and moduli could carry at its rate of rows per contribution."""
    job = _job_of(study, (study.product,))
    held = math.prod(study.moduli)

    def fits(rows: int) -> bool:
        contributions = max(1, study.shape.max_contributions * rows // study.shape.max_rows)
        tried = replace(job, max_rows=rows, max_contributions=contributions)
        tried.__dict__.update({name: getattr(job, name) for name in ("bounds", "recorder", "widest")})
        return (
            tried.shape(study.ps.n).ciphertexts <= MAX_CIPHERTEXTS
            and held >= need_of(tried, study.ps).values
            and _candidate(tried, study.ps, study.product, study.moduli) is not None
        )

    low, high = study.shape.max_rows, MAX_ROWS + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _planned_for(study: Study) -> str:
    text = f"{study.shape.max_rows} rows in {study.shape.max_contributions} contribution(s)"
    if study.shape.max_contributions == study.shape.max_rows > 1:
        text += ": one row a file; if files hold more, say --max-contributions"
    return text


def _flooding(study: Study) -> str:
    if study.reveal == "slots":
        return "none: every slot is revealed"
    bits = study.flood_bits
    text = f"hides the noise beside a total by {bits} bits"
    if bits <= 0:
        text = f"{bits} bits: the noise beside a total shows (SECURITY.md)"
    if bits >= FLOODING_ASKED:
        return text
    enough = floods_enough(study)
    return f"{text}; " + (f"--set {enough[0]} by {enough[1]} bits" if enough else f"no set by {FLOODING_ASKED} bits")


def _modulus_text(study: Study, t: int) -> str:
    primes = factor_batching(t, study.ps.n) if study.packing == "batched" else ()
    factors = f" = {' * '.join(map(str, primes))}" if len(primes) > 1 else ""
    return f"{t}{factors} ({math.log2(t):.1f} bits)"


_PRODUCT_TEXT = {
    "scale-free": "scale-free, mod q throughout",
    "scaled": "scaled: summed over the integers, rounded once; carries more and takes longer",
}

_ASSUMED = {"scaled": ", if ciphertexts look uniform to their noise (docs/noise.md)"}


def describe(study: Study) -> list[tuple[str, str]]:
    """The plan in words, as (label, text) lines."""
    ps = study.ps
    worst = max(x.fraction(d) for x in study.noises for d in x.bounds)
    per_value = 8 * len(ps.primes) * len(study.moduli)
    block = per_value * ps.n * len(study.columns)
    more = [f"and {len(study.workloads) - 20} more"] if len(study.workloads) > 20 else []
    t_text = ", ".join(_modulus_text(study, t) for t in study.moduli)
    per_row = block // ps.n if study.shape.max_rows >= ps.n else -(-block // study.shape.max_rows)
    return [
        ("statistics", ", ".join([w.label for w in study.workloads[:20]] + more)),
        ("set", f"{ps.name} (N = {ps.n}, log2 q = {ps.log2_q:.1f})"),
        ("security", ps.security),
        ("t", t_text),
        ("packing", f"{study.packing}, {len(study.moduli)} ciphertext(s) a value"),
        *([("product", _PRODUCT_TEXT[study.product])] if study.depth else []),
        (
            "reveals",
            "totals only" if study.reveal == "totals" else "every slot, to a key holder who owns the data",
        ),
        ("bytes", f"{per_value} a value, {per_row} a row, {block} a file of up to {ps.n} rows"),
        ("planned for", _planned_for(study)),
        *([("results", f"over {study.min_contributors} contributions at least")] if study.min_contributors > 1 else []),
        ("could carry", f"{rows_carried(study)} rows"),
        ("decryption", "fails with probability below 2^-128 a job" + _ASSUMED.get(study.product, "")),
        ("flooding", _flooding(study)),
        ("range check", f"a forged number passes with probability 2^-{-math.log2(2 * worst):.1f}"),
    ]


def summary(study: Study) -> str:
    """The plan in one line."""
    revealed = (
        f"totals only, {study.flood_bits} bits of flooding" if study.reveal == "totals" else "every slot revealed"
    )
    shape = study.shape
    return f"{study.ps.name}, up to {shape.max_rows} rows in {shape.max_contributions} contribution(s), {revealed}"
