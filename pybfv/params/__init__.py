"""Parameter sets and plaintext moduli, with every rule that they must meet.

A parameter set is a ring dimension N (a power of two, 8 to 16384) and a list of distinct primes
p_i = 1 mod 2N below 2^30 whose product is the ciphertext modulus q. For a ternary secret, log2 q
must not exceed the limit for 128 bits of security at N: ePrint 2024/463, or the older 2018
standard. Sets that exceed both are for tests, need ``insecure=True`` and a name that begins with
``insecure_``.
The tables come from sets.toml, through ``python -m pybfv.params.gen``.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from functools import cached_property

from pybfv.errors import PlanError, in_a_line
from pybfv.params import _table
from pybfv.params._arith import PROVEN_BELOW, is_prime

__all__ = [
    "KEY_CEILINGS",
    "MAX_N",
    "MAX_PRIMES",
    "MAX_PRODUCTS",
    "MAX_SUMS",
    "MIN_N",
    "SECURITY_LIMITS",
    "SECURITY_WORDS",
    "SETS",
    "ParameterSet",
    "batching_primes",
    "check_plain_modulus",
    "factor_batching",
    "get_set",
    "wide_base",
    "wide_primes",
]

MIN_N, MAX_N, MAX_PRIMES = _table.MIN_N, _table.MAX_N, _table.MAX_PRIMES
PRIME_BITS = 30
"""Ciphertext and batching primes are below 2^PRIME_BITS."""

SECURITY_LIMITS: dict[int, dict[str, int]] = _table.SECURITY
"""Largest log2 q at 128 bits for a ternary secret: {N: {basis: bits}}."""

KEY_CEILINGS: dict[int, dict[str, float]] = _table.CEILINGS
"""Published ceilings on a key's functionals by N; pybfv.scheme.noise says what they mean."""

MAX_PRODUCTS: dict[int, int] = {p: row[0] for p, row in _table.LIMITS.items()}
"""Per ciphertext prime p, how many products of two residues a 64-bit accumulator holds."""

MAX_SUMS: dict[int, int] = {p: row[1] for p, row in _table.LIMITS.items()}
"""Per ciphertext prime p, how many residues a 32-bit accumulator holds."""

SECURITY_WORDS = {
    "2024/463": "128 bits (ePrint 2024/463)",
    "2018 standard": "128 bits by the 2018 standard, above the 2024 guidelines (ePrint 2024/463)",
    "none": "INSECURE, for tests only",
}
"""What plans, files and results say of a basis."""

INSECURE_PREFIX = "insecure_"
_MAX_TRIALS = 2**17


def _integer(value: object, what: str) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise PlanError(f"{what} must be an integer, not {in_a_line(value)}") from None


def _short(value: int) -> str:
    """The number in decimal, or its size when it is long."""
    if value.bit_length() <= 128:
        return str(value)
    return f"a number of {value.bit_length()} bits"


def check_dimension(n: int) -> int:
    """n as an int when it is a power of two in 8..16384; PlanError naming the nearest ones otherwise."""
    n = _integer(n, "the ring dimension N")
    if MIN_N <= n <= MAX_N and n & (n - 1) == 0:
        return n
    if n < MIN_N:
        near = f"the smallest is {MIN_N}"
    elif n > MAX_N:
        near = f"the largest is {MAX_N}"
    else:
        low = 1 << (n.bit_length() - 1)
        near = f"near it: {low} or {2 * low}"
    raise PlanError(f"ring dimension N = {_short(n)} is not a power of two from {MIN_N} to {MAX_N}; {near}")


def security_basis(n: int, q: int) -> str:
    """The first limit of SECURITY_LIMITS that q keeps to at dimension n: its name, or "none"."""
    for basis, bits in SECURITY_LIMITS.get(n, {}).items():
        if q.bit_length() <= bits:
            return basis
    return "none"


@dataclass(frozen=True)
class ParameterSet:
    """A ring dimension and the primes of q; the constructor makes all checks.

    ``n``: power of two, 8..16384. ``primes``: 1 to 16 distinct primes, each = 1 mod 2n and below
    2^30, in the order of the residue polynomials. ``insecure``: lifts the security limit, for
    tests; the name must then begin with ``insecure_``, and must not otherwise.
    Raises PlanError with the rule that is broken and a way out.
    """

    name: str
    n: int
    primes: tuple[int, ...]
    insecure: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise PlanError(f"a parameter set needs a name, a non-empty string, not {self.name!r}")
        object.__setattr__(self, "n", check_dimension(self.n))
        try:
            primes = tuple(self.primes)
        except TypeError:
            raise PlanError(f"set {self.name}: primes must be a list of integers") from None
        primes = tuple(_integer(p, f"set {self.name}: a prime") for p in primes)
        object.__setattr__(self, "primes", primes)
        self._check_primes()
        self._check_security()

    def _check_primes(self) -> None:
        where = f"set {self.name}"
        if not 1 <= len(self.primes) <= MAX_PRIMES:
            raise PlanError(f"{where}: {len(self.primes)} primes given; give 1 to {MAX_PRIMES}")
        for p in self.primes:
            if not 2 < p < 2**PRIME_BITS:
                raise PlanError(f"{where}: {_short(p)} is outside 3..2^{PRIME_BITS} - 1; {self._near(p)}")
            if not is_prime(p):
                raise PlanError(f"{where}: {p} is not prime; {self._near(p)}")
            if p % (2 * self.n) != 1:
                raise PlanError(f"{where}: prime {p} is not = 1 mod 2N = {2 * self.n}; {self._near(p)}")
        if len(set(self.primes)) != len(self.primes):
            twice = next(p for p in self.primes if self.primes.count(p) > 1)
            raise PlanError(f"{where}: prime {twice} is given twice; the primes of q must be distinct")

    def _near(self, p: int) -> str:
        return f"near it: {_or(_nearest_batching(p, self.n))}"

    def _check_security(self) -> None:
        marked = self.name.startswith(INSECURE_PREFIX)
        if self.insecure and not marked:
            raise PlanError(
                f"set {self.name}: an insecure set's name must begin with {INSECURE_PREFIX}; "
                f"call it {INSECURE_PREFIX}{self.name}"
            )
        if marked and not self.insecure:
            raise PlanError(f"set {self.name}: this name needs insecure=True; choose another for a secure set")
        if self.insecure or self.basis != "none":
            return
        bits = self.q.bit_length()
        carriers = [n for n, limits in SECURITY_LIMITS.items() if bits <= limits["2024/463"]]
        way_out = f"take N = {min(carriers)} or more" if carriers else "no N up to 16384 carries it"
        if self.n in SECURITY_LIMITS:
            new, old = (SECURITY_LIMITS[self.n][basis] for basis in ("2024/463", "2018 standard"))
            rule = (
                f"log2 q = {self.log2_q:.1f} is more than N = {self.n} carries at 128-bit security "
                f"({new} bits by ePrint 2024/463, {old} by the 2018 standard)"
            )
        else:
            rule = f"N = {self.n} is too small for 128-bit security (the smallest is {min(SECURITY_LIMITS)})"
        raise PlanError(
            f"set {self.name}: {rule}; {way_out}, or for tests mark it insecure "
            f"(insecure=True and a name that begins with {INSECURE_PREFIX})"
        )

    @cached_property
    def q(self) -> int:
        """The ciphertext modulus, the product of the primes."""
        return math.prod(self.primes)

    @property
    def log2_q(self) -> float:
        """log2 of q."""
        return math.log2(self.q)

    @property
    def basis(self) -> str:
        """What the security rests on: "2024/463", "2018 standard", or "none" (insecure)."""
        return "none" if self.insecure else security_basis(self.n, self.q)

    @property
    def security(self) -> str:
        """The basis in words, as every plan, file and result tells it."""
        return SECURITY_WORDS[self.basis]


SETS: dict[str, ParameterSet] = {row[0]: ParameterSet(*row) for row in _table.SETS}
"""The named sets, in the order in which a planner prefers them; the insecure ones come last."""


def _known_sets() -> str:
    """The names by what they are for."""
    kinds = {"2024/463": "", "2018 standard": "by the 2018 standard only ", "none": "for tests "}
    groups = {kind: [ps.name for ps in SETS.values() if ps.basis == kind] for kind in kinds}
    return "; ".join(f"{kinds[kind]}{', '.join(names)}" for kind, names in groups.items())


def get_set(name: str) -> ParameterSet:
    """The named set; PlanError listing the known names when there is none."""
    try:
        return SETS[name]
    except (KeyError, TypeError):
        raise PlanError(f"unknown parameter set {in_a_line(name)}; known sets: {_known_sets()}") from None


def _widen(base: int, need: int, avoid: int, what: str) -> tuple[int, ...]:
    """The first wide primes, none of them a factor of ``avoid``, that take ``base`` above ``need``."""
    chosen = []
    for p in _table.WIDE:
        if base > need:
            break
        if avoid % p:
            base *= p
            chosen.append(p)
    if base <= need:
        raise PlanError(f"{what} needs more wide primes than there are ({len(_table.WIDE)}); take a smaller set")
    return tuple(chosen)


def wide_primes(ps: ParameterSet, count: int) -> tuple[int, ...]:
    """The primes that a scaled product keeps its integers modulo, beside those of q.

    ``count``: the most products that meet in one sum. Centred factors give a tensor of
    |T| <= 2 N (q/2)^2 count < base/2 with base = q times these primes: the first of the pool, without the
    set's own, with base > N q^2 count. PlanError when the pool does not suffice.
    """
    count = _integer(count, "the number of products")
    if count < 1:
        raise PlanError(f"a sum has 1 or more products, not {count}")
    what = f"set {ps.name}: a scaled product of {_short(count)} ciphertexts"
    return _widen(ps.q, ps.n * ps.q**2 * count, ps.q, what)


def wide_base(n: int, q: int, count: int) -> tuple[int, ...]:
    """As wide_primes for any odd q, such as SEAL's, whose primes are not part of the base.

    Their product exceeds N q^2 count and they are coprime to q.
    """
    n, q, count = check_dimension(n), _integer(q, "q"), _integer(count, "the number of products")
    if q < 3 or q % 2 == 0 or count < 1:
        raise PlanError(f"q must be odd, 3 or more, and products 1 or more, not q = {_short(q)}, {_short(count)}")
    return _widen(
        1, n * q**2 * count, q, f"q of {q.bit_length()} bits: a scaled product of {_short(count)} ciphertexts"
    )


def batching_primes(n: int) -> tuple[int, ...]:
    """Primes = 1 mod 2n below 2^30 that divide no set's q, ascending; factors for composite t.

    Up to four of every bit length, from the smallest that exists, and the ten largest of 30 bits.
    """
    return _table.BATCHING[check_dimension(n)]


def _is_batching(p: int, n: int) -> bool:
    return 2 < p < 2**PRIME_BITS and p % (2 * n) == 1 and is_prime(p)


def _nearest_batching(t: int, n: int) -> list[int]:
    """The nearest primes = 1 mod 2n below 2^30: the one below t, the one above, as far as they exist."""
    step = 2 * n
    at = max(1, min(t, 2**PRIME_BITS))
    base = at - (at - 1) % step
    below = range(base if base < t else base - step, 1, -step)
    above = range(base + step, 2**PRIME_BITS, step)
    found = (next((p for p in side if _is_batching(p, n)), None) for side in (below, above))
    return [p for p in found if p is not None]


def _or(values: list[int]) -> str:
    return " or ".join(str(v) for v in values)


def _suggest(t: int, n: int) -> str:
    """A batching modulus near t, for a refusal."""
    if t < 2**PRIME_BITS:
        return f"near it: {_or(_nearest_batching(t, n))}"
    largest = batching_primes(n)[-1]
    return f"use a product of distinct primes = 1 mod {2 * n} below 2^30, such as {largest}"


def _proven_prime(x: int) -> bool:
    return x < PROVEN_BELOW and is_prime(x)


def _small_factor(x: int) -> int | None:
    """The smallest odd prime factor of the odd x below 2^16, if there is one."""
    return next((p for p in range(3, 2**16, 2) if x % p == 0), None)


def factor_batching(t: int, n: int) -> tuple[int, ...]:
    """The distinct primes = 1 mod 2n, each below 2^30, whose product is t, ascending.

    Such a t has N slots (by CRT over its factors). The work is bounded: trial division by
    batching_primes(n), then by the first 2^17 numbers k 2n + 1; for n < 4096 a t with two or more
    unlisted factors beyond those is refused although it might be usable.
    Raises PlanError with the rule and the nearest primes that meet it.
    """
    n = check_dimension(n)
    t = _integer(t, "the plaintext modulus t")
    step = 2 * n
    rule = f"slots need distinct primes, each = 1 mod 2N = {step} and below 2^30"
    if t < 2:
        raise PlanError(f"t = {_short(t)} is not a plaintext modulus (2 or more); {_suggest(t, n)}")
    if t % 2 == 0:
        raise PlanError(f"t = {_short(t)} is even and has no slots: {rule}; {_suggest(t, n)}")
    rest, factors = t, []

    def divide(p: int) -> None:
        nonlocal rest
        if rest % p == 0:
            rest //= p
            if rest % p == 0:
                raise PlanError(f"t = {_short(t)} is divisible by {p}^2: {rule}; {_suggest(t, n)}")
            factors.append(p)

    for p in batching_primes(n):
        divide(p)
    prime = rest > 1 and _proven_prime(rest)
    for p in range(step + 1, min(2**PRIME_BITS, _MAX_TRIALS * step + 2), step):
        if prime or p * p > rest:
            break
        if rest % p == 0 and is_prime(p):
            divide(p)
            prime = rest > 1 and _proven_prime(rest)
    if rest == 1:
        return tuple(sorted(factors))
    if prime and _is_batching(rest, n):
        return tuple(sorted([*factors, rest]))
    bad = rest if prime else _small_factor(rest)
    if bad is None or (bad % step == 1 and bad < 2**PRIME_BITS):
        subject = f"t = {_short(t)} is not a product of distinct such primes that could be found"
        raise PlanError(f"{subject}: {rule}; {_suggest(t, n)}")
    subject = f"t = {_short(t)} is prime but" if bad == t else f"t = {_short(t)} has the prime factor {bad}, which is"
    broken = f"not = 1 mod 2N = {step}, so it has no slots" if bad % step != 1 else f"not below 2^30: {rule}"
    raise PlanError(f"{subject} {broken}; {_suggest(t, n)}")


def check_plain_modulus(ps: ParameterSet, t: int, *, batched: bool) -> int:
    """t as an int when it may be the plaintext modulus of ps; PlanError with the rule otherwise.

    Always 2 <= t < q and gcd(t, q) = 1; when ``batched`` also a product of distinct primes
    = 1 mod 2N below 2^30 (factor_batching). Coefficient packing takes any other t, even ones too.
    """
    t = _integer(t, "the plaintext modulus t")
    if t < 2:
        way_out = _suggest(t, ps.n) if batched else "2 is the smallest"
        raise PlanError(f"t = {_short(t)} is not a plaintext modulus, which is 2 or more; {way_out}")
    if t >= ps.q:
        raise PlanError(
            f"t = {_short(t)} is not below the ciphertext modulus q of {ps.name} (log2 q = {ps.log2_q:.1f}); "
            "take a smaller t or a larger set"
        )
    if math.gcd(t, ps.q) != 1:
        shared = _or([p for p in ps.primes if t % p == 0])
        raise PlanError(
            f"t = {_short(t)} shares the prime {shared} with the ciphertext modulus of {ps.name}; "
            "t and q must be coprime: take another t"
        )
    if batched:
        factor_batching(t, ps.n)
    return t
