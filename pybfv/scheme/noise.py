"""Static worst-case bounds on the noise of a ciphertext, made before any key or data exists.

The derivation of every formula is in docs/noise.md. In short: s and u are uniform ternary, key and
encryption errors are centred binomial with 21 + 21 bits (variance 10.5). Conditional on the key
(s, e), a fresh noise is a linear form in independent variables, each strictly sub-Gaussian, so
sums have Gaussian tails and products have the tails of the Gaussian quadratic form. Both depend on
the key only through a few functionals of its embeddings; key generation redraws keys whose
functionals exceed published ceilings (`key_ok`), and the bounds are evaluated at the ceilings.

A plaintext modulus t decrypts rightly when |noise| < q/(2t). Relative to q m / t the noise of
- a sum is at most sum_bound;
- a scale-free sum of products is at most t * product_bound (|sum w w'| < q/2 is the same condition);
- a scaled sum of products, rounded once, is at most scaled_bound;
- an added encryption of zero is at most zero_bound more.
``python -m pybfv.scheme.noise`` prints the largest log2 t by set, encryption and number of ciphertexts.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from pybfv.errors import PlanError
from pybfv.params import KEY_CEILINGS, SETS, ParameterSet

ERROR_VARIANCE = 10.5
"""Variance of a centred binomial error with 21 + 21 bits."""
TERNARY_VARIANCE = 2 / 3
"""Variance of a uniform ternary coefficient."""
ROUNDING = 0.5 + 2.0**-28
"""Largest |round(q m/t) - q m/t|."""
SQUARE_EXCESS = 2.0
"""K of the comparison lemma (docs/noise.md): what the diagonal of a square costs beyond a Gaussian's."""
SAFETY = 1e-6
"""Relative margin for the rounding of the double-precision embeddings."""
MODES = ("public", "symmetric")
KINDS = ("sum", "scaled", "scale_free")
_MAX_COUNT = 2**40


@dataclass(frozen=True, slots=True)
class KeyFunctionals:
    """What the bounds need to know of a key (s, e) of dimension n, or ceilings on it.

    Over the n/2 conjugate pairs of embeddings, with r_j = 1 + |s(zeta_j)|^2 and
    w_j = 2/3 |e(zeta_j)|^2 + 10.5 r_j (1/n of the variance of a fresh public-key noise at zeta_j):
    means, root mean squares, the fourth-power mean and maxima of w, r and r w.
    w_mean is also the variance of one coefficient of a fresh public-key noise.
    """

    n: int
    w_mean: float
    w_rms: float
    w_mean4: float
    w_max: float
    r_mean: float
    r_rms: float
    r_max: float
    rw_mean: float
    rw_rms: float
    rw_max: float

    def within(self, ceilings: KeyFunctionals) -> bool:
        """Whether every functional, with the safety margin, is at most its ceiling."""
        return self.n == ceilings.n and all(
            getattr(self, name) * (1 + SAFETY) <= getattr(ceilings, name) for name in _FUNCTIONALS
        )


_FUNCTIONALS = tuple(f.name for f in fields(KeyFunctionals) if f.name != "n")


def embeddings(x: np.ndarray) -> np.ndarray:
    """|x(zeta)|^2 for the n/2 pairs of conjugate roots zeta of X^n + 1; x: [..., n] real. Out: float64 [..., n/2].

    Their order is one for all x of a length: zeta = exp(i pi (4m + 1)/n), m < n/2. There zeta^(n/2) = i, so that x
    takes the values of the n/2 complex numbers x_k + i x_(k + n/2): a twisted FFT of half the length, in double
    precision, relative error below 1e-12 of the largest value for n <= 16384.
    """
    n = x.shape[-1]
    half = np.empty((*x.shape[:-1], n // 2), dtype=np.complex128)
    half.real = x[..., : n // 2]
    np.negative(x[..., n // 2 :], out=half.imag, dtype=np.float64)  # conjugates: numpy's FFT has the other sign
    half *= _twist(n)
    values = np.fft.fft(half)
    return values.real**2 + values.imag**2


@lru_cache(maxsize=8)
def _twist(n: int) -> np.ndarray:
    """exp(-i pi k/n) for k < n/2."""
    return np.exp(-1j * np.pi / n * np.arange(n // 2))


def measure(s: np.ndarray, e: np.ndarray) -> KeyFunctionals:
    """The functionals of a key: s ternary and e the error, n coefficients each."""
    if s.ndim != 1 or s.shape != e.shape:
        raise PlanError(f"a key's s and e must be vectors of one length, not {s.shape} and {e.shape}")
    of_s, of_e = embeddings(np.stack([s, e]))
    r = 1 + of_s
    w = TERNARY_VARIANCE * of_e + ERROR_VARIANCE * r
    rw, w2, count = r * w, w * w, len(w)

    def rms(x: np.ndarray) -> float:
        return math.sqrt(float(x @ x) / count)

    return KeyFunctionals(
        n=len(s),
        w_mean=float(w.sum()) / count,
        w_rms=rms(w),
        w_mean4=math.sqrt(rms(w2)),
        w_max=float(w.max()),
        r_mean=float(r.sum()) / count,
        r_rms=rms(r),
        r_max=float(r.max()),
        rw_mean=float(rw.sum()) / count,
        rw_rms=rms(rw),
        rw_max=float(rw.max()),
    )


@lru_cache
def key_ceilings(n: int) -> KeyFunctionals:
    """The published ceilings for dimension n, which key generation enforces; PlanError if there are none."""
    if n not in KEY_CEILINGS:
        known = ", ".join(str(k) for k in KEY_CEILINGS)
        raise PlanError(f"no key ceilings for ring dimension {n!r}; there are for N = {known}")
    return KeyFunctionals(n=n, **KEY_CEILINGS[n])


def key_ok(s: np.ndarray, e: np.ndarray) -> bool:
    """Whether the key with secret s and error e (integers, n coefficients each) is within the ceilings.

    About every second honestly drawn key is; the others must be redrawn, s and e together.
    Not constant time: the decision is about a key that is thrown away, or a fact that is public.
    """
    return measure(s, e).within(key_ceilings(len(s)))


def _check(mode: str, u: int, fail_bits: float) -> int:
    if mode not in MODES:
        raise PlanError(f"unknown encryption mode {mode!r}; known: {', '.join(MODES)}")
    try:
        u = operator.index(u)
    except TypeError:
        raise PlanError(f"the number of ciphertexts must be an integer, not {u!r}") from None
    if not 1 <= u <= _MAX_COUNT:
        raise PlanError(f"the number of ciphertexts is {u}; it must be 1 to 2^40")
    if not 1 <= fail_bits <= 4096:
        raise PlanError(f"the failure bound 2^-{fail_bits} is outside 2^-4096..2^-1")
    return u


def _ceil(bound: float) -> int:
    """An integer at or above a bound computed in double precision."""
    return math.ceil(bound * (1 + 1e-9))


def _gaussian_tail(variance: float, fail_bits: float) -> float:
    """b with 2 exp(-b^2 / (2 variance)) = 2^-fail_bits."""
    return math.sqrt(2 * variance * (fail_bits + 1) * math.log(2))


def _sum(key: KeyFunctionals, mode: str, u: int, fail_bits: float) -> float:
    variance = key.w_mean if mode == "public" else ERROR_VARIANCE
    return _gaussian_tail(u * variance, fail_bits) + u * ROUNDING


def _log_excess(y_max: float) -> float:
    """(-log(1 - y) - y) / y^2 at y_max; increasing in y, so an upper bound for all y in [0, y_max]."""
    if y_max < 1e-3:
        return 0.5 + y_max / 3 / (1 - y_max)
    return (-math.log1p(-y_max) - y_max) / y_max**2


def _chernoff(log_mgf: Callable[[float], float], limit: float, fail_bits: float) -> float:
    """The smallest b found with 2 exp(log_mgf(l) - l b) <= 2^-fail_bits for some 0 < l < limit.

    Every l gives a valid bound, so the search (a golden section in log(l / (limit - l)), where the
    bound has one minimum) can only cost tightness.
    """
    target = (fail_bits + 1) * math.log(2)

    def bound(x: float) -> float:
        l = limit / (1 + math.exp(-x))  # noqa: E741
        return (log_mgf(l) + target) / l

    low, high, ratio = -30.0, 12.0, (math.sqrt(5) - 1) / 2
    for _ in range(60):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        if bound(a) <= bound(b):
            high = b
        else:
            low = a
    return bound((low + high) / 2)


def _scale_free(key: KeyFunctionals, mode: str, u: int, fail_bits: float) -> float:
    n = key.n
    if mode == "public":
        w_rms, w_mean4, w_max = key.w_rms, key.w_mean4, key.w_max
    else:
        w_rms = w_mean4 = w_max = ERROR_VARIANCE

    def log_mgf(l: float) -> float:  # noqa: E741
        y_max = (2 * l * w_max) ** 2
        y_mean, y2_mean = (2 * l * w_rms) ** 2, (2 * l * w_mean4) ** 4
        centred = n / 4 * (y_mean * (1 + SQUARE_EXCESS / n) + y2_mean * _log_excess(y_max))
        return u * (centred + l * n * ROUNDING**2 / (1 - 2 * l * w_max))

    return _chernoff(log_mgf, 1 / (2 * w_max), fail_bits)


def _scaled(key: KeyFunctionals, mode: str, u: int, fail_bits: float) -> float:
    """Bounds sum k v' + k' v, k = c(s)/q: the noise of a scaled sum of products over t, up to small terms."""
    n = key.n
    if mode == "public":
        rw, w = (key.rw_mean, key.rw_rms, key.rw_max), (key.w_mean, key.w_rms, key.w_max)
    else:
        rw, w = ([ERROR_VARIANCE * x for x in (key.r_mean, key.r_rms, key.r_max)], [ERROR_VARIANCE] * 3)
    # The two parts of a ciphertext are taken together by Hoelder's inequality, not as independent.
    g = math.sqrt(2 * n / 3)
    mean, rms, largest = ((1 + 1 / g) * (x + (g - 1) * y) for x, y in zip(rw, w, strict=True))
    r_max = (1 + 1 / g) * (key.r_max + g - 1)

    def log_mgf(l: float) -> float:  # noqa: E741
        y = l * l / 3
        centred = n / 2 * (y * mean + (y * rms) ** 2 * _log_excess(y * largest))
        return u * (centred + n / 2 * y * r_max * ROUNDING**2 / (1 - y * largest))

    return _chernoff(log_mgf, math.sqrt(3 / largest), fail_bits)


def _finishing(key: KeyFunctionals) -> float:
    """Bounds r0 + r1 s + r2 s^2 for any r of coefficients up to 1/2: |s|_1 = |s|_2^2, |s^2|_1 <= sqrt(n) |s^2|_2."""
    return (key.r_mean + math.sqrt(key.n) * key.r_rms) / 2


def euclidean_bound(n: int, mean: float, rms: float, largest: float, fail_bits: float) -> float:
    """B with P(||v|| > B) <= 2^-fail_bits for the length of v in n coefficients, linear in sub-Gaussian variables.

    mean, rms, largest: of the variances E|v(zeta_j)|^2 / n over the n/2 pairs of embeddings (docs/evaluator.md).
    """

    def log_mgf(l: float) -> float:  # noqa: E741
        return n / 2 * (2 * l * mean + (2 * l * rms) ** 2 * _log_excess(2 * l * largest))

    return math.sqrt(_chernoff(log_mgf, 1 / (2 * largest), fail_bits)) * (1 + SAFETY)


@lru_cache(maxsize=4096)
def sum_bound(n: int, mode: str, u: int, fail_bits: float) -> int:
    """B with P(|sum of u fresh noises| > B) <= 2^-fail_bits for one coefficient, encoding rounding included.

    mode: "public" or "symmetric" encryption; u: 1 to 2^40. For any messages that do not depend on
    the encryption randomness, and any key within the ceilings. PlanError for other arguments.
    """
    u = _check(mode, u, fail_bits)
    return _ceil(_sum(key_ceilings(n), mode, u, fail_bits))


@lru_cache(maxsize=4096)
def product_bound(n: int, mode: str, u: int, fail_bits: float) -> int:
    """B with P(|sum of u products (v - rho)(v' - rho')| > B) <= 2^-fail_bits for one coefficient.

    v, v' are fresh noises, of one ciphertext (a square) or of two; rho, rho' their encodings'
    roundings, |rho| <= 1/2, worst case. The noise of the scale-free sum of products is t B.
    """
    u = _check(mode, u, fail_bits)
    return _ceil(_scale_free(key_ceilings(n), mode, u, fail_bits))


@lru_cache(maxsize=4096)
def _scaled_parts(n: int, mode: str, u: int, fail_bits: float) -> tuple[int, int, int]:
    """What scaled_bound adds up: bounds that fail with 2^-fail_bits together."""
    u = _check(mode, u, fail_bits)
    key = key_ceilings(n)
    half = fail_bits + 1
    return _ceil(_scaled(key, mode, u, half)), _ceil(_scale_free(key, mode, u, half)), _ceil(_finishing(key))


def scaled_bound(n: int, mode: str, u: int, fail_bits: float, t: int, q: int) -> int:
    """B with P(|noise of a scaled sum of u products| > B) <= 2^-fail_bits for one coefficient, rounding included.

    The integer tensors of u pairs of ciphertexts mod q, coefficients centred, are summed up and round(t T/q) is
    taken once. The noise is t sum (k v' + k' v) - (t/q) sum v v' + r0 + r1 s + r2 s^2 with k = c(s)/q and |r_i| <= 1/2.
    The first term's bound models each part of a ciphertext as uniform mod q and independent of the noises
    (docs/noise.md, section 6); the others are worst cases or proven.
    """
    first, second, rounding = _scaled_parts(n, mode, u, fail_bits)
    return t * first + t * second // q + 1 + rounding


@lru_cache(maxsize=4096)
def zero_bound(n: int, parts: int, fail_bits: float) -> int:
    """B with P(|noise of a public-key encryption of zero of this size| > B) <= 2^-fail_bits, one coefficient.

    parts = 2: -e u + e0 + e1 s. parts = 3: -e u1 - e s u2 + e0 + e1 s + e2 s^2.
    """
    _check("public", 1, fail_bits)
    key = key_ceilings(n)
    if parts not in (2, 3):
        raise PlanError(f"an encryption of zero has 2 or 3 parts, not {parts!r}")
    # The size-3 variance is the mean of r w less 10.5 times the mean of |s(zeta)|^2, about 1/(2n) of it.
    return _ceil(_gaussian_tail(key.w_mean if parts == 2 else key.rw_mean, fail_bits))


def capacity(ps: ParameterSet, mode: str, kind: str, u: int, fail_bits: float = 128) -> float:
    """Largest log2 t such that decrypting a result of u ciphertexts fails with P <= 2^-fail_bits.

    kind: "sum", or one product summed over u, "scale_free" or "scaled". The failure bound is for all
    N coefficients together. Without the encryption of zero that totals add. Negative when nothing fits.
    """
    u = _check(mode, u, fail_bits)
    key, bits = key_ceilings(ps.n), fail_bits + math.log2(ps.n)
    half = math.log2(ps.q) - 1
    if kind == "sum":
        return half - math.log2(_sum(key, mode, u, bits))
    if kind == "scale_free":
        return (half - math.log2(_scale_free(key, mode, u, bits))) / 2
    if kind != "scaled":
        raise PlanError(f"unknown kind {kind!r}; known: {', '.join(KINDS)}")
    # t (t a + c) < q/2
    first, second, c = _scaled_parts(ps.n, mode, u, bits)
    a = first + second / ps.q
    return math.log2(math.sqrt(c * c + 2 * a * ps.q) - c) - math.log2(2 * a)


TABLE_COUNTS = (1, 640, 2560)


def table() -> str:
    """The largest log2 t by set, encryption and kind for 1 / 640 / 2560 ciphertexts, as Markdown."""
    lines = [
        "| set | encryption | sums only | one product, scaled | one product, scale-free |",
        "| --- | --- | --- | --- | --- |",
    ]
    for ps in SETS.values():
        if ps.insecure:
            continue
        for mode in MODES:
            cells = []
            for kind in KINDS:
                bits = [capacity(ps, mode, kind, u) for u in TABLE_COUNTS]
                cells.append(" / ".join(f"{b:.1f}" if b >= 1 else "-" for b in bits))
            lines.append(f"| {ps.name} | {mode} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
