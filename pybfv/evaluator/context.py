"""The parameters of an evaluator: ring dimension, ciphertext modulus, plaintext modulus; all checks are here."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from pybfv.errors import PlanError, UsageError, in_a_line
from pybfv.evaluator.arithmetic import Arithmetic, RnsArithmetic, WordArithmetic
from pybfv.evaluator.noise import Model
from pybfv.params import PRIME_BITS as RNS_BITS
from pybfv.params import (
    SECURITY_LIMITS,
    SETS,
    ParameterSet,
    check_dimension,
    check_plain_modulus,
    factor_batching,
    get_set,
    is_prime,
    security_basis,
)

WORD_BITS = 61
"""Primes of q are below 2^WORD_BITS, SEAL's limit."""
MAX_MODULI = 16
"""Primes of q at most."""
MAX_Q_BITS = 512
"""Bits of such a q: tensors have to fit into 40 auxiliary primes."""


@dataclass(frozen=True)
class WordSet:
    """A ring dimension n and any 1 to 16 distinct odd primes below 2^61 whose product is q, such as SEAL's.

    The same rules and the same fields as a ParameterSet's, whose primes are = 1 mod 2n and below 2^30.
    """

    name: str
    n: int
    primes: tuple[int, ...]
    insecure: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_dimension(self.n))
        if not 1 <= len(self.primes) <= MAX_MODULI:
            raise PlanError(f"{len(self.primes)} primes of q given; give 1 to {MAX_MODULI}")
        for p in self.primes:
            if not 2 < p < 2**WORD_BITS or not is_prime(p):
                raise PlanError(
                    f"{in_a_line(p)} is not an odd prime below 2^{WORD_BITS}; give the primes of q one by one"
                )
        if len(set(self.primes)) != len(self.primes):
            raise PlanError("a prime of q is given twice; they must be distinct")
        if self.q.bit_length() > MAX_Q_BITS:
            raise PlanError(f"log2 q = {self.log2_q:.1f} is too large: products are made for {MAX_Q_BITS} bits at most")
        if not self.insecure and self.basis == "none":
            limits = SECURITY_LIMITS.get(self.n)
            carried = (
                f"N = {self.n} carries {max(limits.values())} bits at most"
                if limits
                else f"N = {self.n} carries none (the smallest is {min(SECURITY_LIMITS)})"
            )
            raise PlanError(
                f"log2 q = {self.log2_q:.1f} is below 128-bit security: {carried}; take a larger N or a smaller q, "
                "or for tests insecure=True"
            )

    @cached_property
    def q(self) -> int:
        """The product of the primes."""
        return math.prod(self.primes)

    @property
    def log2_q(self) -> float:
        """log2 of q."""
        return math.log2(self.q)

    @property
    def basis(self) -> str:
        """What the security rests on: "2024/463", "2018 standard", or "none"."""
        return security_basis(self.n, self.q)


def flag(value: object, name: str) -> bool:
    """True or False; UsageError for anything else: what counts as true in Python may not be meant so."""
    if type(value).__name__ not in ("bool", "bool_"):  # Python's or NumPy's
        raise UsageError(f"{name} must be True or False, not {type(value).__name__}")
    return bool(value)


def _integers(values: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(operator.index(v) for v in values)
    except TypeError:
        raise PlanError("moduli must be a list of integers, the primes of q") from None


def _custom(n: int, moduli: Sequence[int], insecure: bool) -> ParameterSet | WordSet:
    """The set with these primes: ours in form where they all fit it, else one of 64-bit words."""
    n, primes = check_dimension(n), _integers(moduli)
    for ps in SETS.values():
        if (ps.n, ps.primes) == (n, primes) and insecure >= ps.insecure:
            return ps
    fits = primes and all(2 < p < 2**RNS_BITS and p % (2 * n) == 1 for p in primes)
    carried = max(SECURITY_LIMITS.get(n, {"": 0}).values())
    insecure = insecure and math.prod(primes).bit_length() > carried  # a secure set is not marked
    name = f"{'insecure_' if insecure else ''}custom_n{n}_q{math.prod(primes).bit_length()}"
    return ParameterSet(name, n, primes, insecure) if fits else WordSet(name, n, primes, insecure)


@dataclass(frozen=True, init=False)
class Context:
    """What everything else of an evaluator is made for.

    ``Context("n4096_q106", t=1032193)`` takes a named set, ``Context(n=4096, moduli=[...], t=...)`` any
    distinct odd primes below 2^61 as q, such as SEAL's without the last, "special" one.
    t: the plaintext modulus, 2 <= t < q and coprime to q. batching=True (the default) also needs slots: a product
    of distinct primes = 1 mod 2n below 2^30; with batching=False any t serves, for a CoefficientEncoder.
    insecure=True allows moduli beyond 128-bit security, for tests; `insecure` then marks everything made with it.

    Immutable; contexts with equal parameters are equal. PlanError with the rule that is broken and a way out.
    """

    n: int
    moduli: tuple[int, ...]
    t: int
    batching: bool
    insecure: bool
    name: str = field(compare=False)

    def __init__(
        self,
        name: str | None = None,
        *,
        t: int,
        n: int | None = None,
        moduli: Sequence[int] | None = None,
        batching: bool = True,
        insecure: bool = False,
    ) -> None:
        batching, insecure = flag(batching, "batching"), flag(insecure, "insecure")
        if (name is None) == (n is None or moduli is None) or (name is not None and (n, moduli) != (None, None)):
            raise PlanError("a context takes the name of a set, or n and moduli: Context(n=4096, moduli=[...], t=...)")
        if name is not None:
            ps: ParameterSet | WordSet = get_set(name)
            if ps.insecure and not insecure:
                raise PlanError(f"set {name} is insecure: for tests give insecure=True")
        else:
            ps = _custom(n, moduli, insecure)
        t = check_plain_modulus(ps, t, batched=batching)
        if t >= 2**512:
            raise PlanError(f"t of {t.bit_length()} bits is too large: plaintext moduli are below 2^512")
        values = (ps.n, ps.primes, t, batching, ps.insecure, ps.name)
        for key, value in zip(("n", "moduli", "t", "batching", "insecure", "name"), values, strict=True):
            object.__setattr__(self, key, value)

    @cached_property
    def q(self) -> int:
        """The ciphertext modulus, the product of the moduli."""
        return math.prod(self.moduli)

    @property
    def log2_q(self) -> float:
        """log2 of q."""
        return math.log2(self.q)

    @cached_property
    def t_primes(self) -> tuple[int, ...]:
        """The primes of a batching t; PlanError when t has no slots."""
        return factor_batching(self.t, self.n)

    @property
    def model(self) -> Model:
        """The noise bounds for these parameters."""
        return _model(self.n, self.q, self.t)

    @property
    def arithmetic(self) -> Arithmetic:
        """The ring's arithmetic, one per set of parameters and process."""
        return _arithmetic(self.n, self.moduli, self.t)

    def difference(self, other: Context) -> str:
        """The first parameter in which two contexts differ, in words; "" for equal ones."""
        for key, what in (("n", "ring dimension"), ("moduli", "moduli"), ("t", "plaintext modulus t"),
                          ("batching", "batching"), ("insecure", "insecure mark")):  # fmt: skip
            mine, theirs = getattr(self, key), getattr(other, key)
            if mine != theirs:
                return f"{what} {_short(mine)} and {_short(theirs)}"
        return ""

    def parameters(self) -> str:
        """The parameters in a few words."""
        mark = ", INSECURE" if self.insecure else ""
        if not mark and security_basis(self.n, self.q) == "2018 standard":
            mark = ", above the 2024 guidelines"
        return f"{self.name}, N={self.n}, log2 q={self.log2_q:.1f}, t={_short(self.t)}{mark}"

    def __repr__(self) -> str:
        return f"Context({self.parameters()})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.n, self.moduli, self.t, self.batching, self.insecure)


def _rebuild(n: int, moduli: tuple[int, ...], t: int, batching: bool, insecure: bool) -> Context:
    return Context(n=n, moduli=moduli, t=t, batching=batching, insecure=insecure)


def _short(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    return "*".join(map(str, value)) if isinstance(value, tuple) else str(value)


@lru_cache(maxsize=64)
def _model(n: int, q: int, t: int) -> Model:
    return Model(n, q, t)


@lru_cache(maxsize=16)
def _arithmetic(n: int, moduli: tuple[int, ...], t: int) -> Arithmetic:
    fits = all(p < 2**RNS_BITS and p % (2 * n) == 1 for p in moduli)
    return (RnsArithmetic if fits else WordArithmetic)(n, moduli, t)
