"""Observed noise against predicted noise, over a million coefficients of real ciphertexts at every set.

Ciphertexts of zero under a drawn key; the secret key in hand, the phase is the noise itself. Three predictions:

* the standard deviation for this key, by the formulas of docs/noise.md: within a tenth of a bit;
* the bound that one coefficient exceeds with probability 2^-32, so none of a million does: never exceeded;
* the same formula at 2^-20, where about one does: at most 3 bits above the largest that was observed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from pybfv import native
from pybfv.evaluator import Ciphertext, CoefficientEncoder, Context, Encryptor, Evaluator, KeyGenerator, NoiseError
from pybfv.evaluator.arithmetic import RnsArithmetic
from pybfv.evaluator.objects import frozen
from pybfv.params import SETS
from pybfv.scheme import noise, public
from pybfv.scheme.random import private_bytes

COEFFICIENTS = 10**6
SUMMED = 4
"""Ciphertexts in a sum, and products."""
SECURE = [ps.name for ps in SETS.values() if not ps.insecure]
WIDE = {
    "seal 4096": (4096, (68719403009, 68719230977)),
}
"""SEAL's default moduli without the last: its arithmetic is another."""


def centred(residues: np.ndarray, primes: tuple[int, ...]) -> np.ndarray:
    """The integers of smallest size with these residues mod one or two primes: int64 [n]."""
    first = residues[0].astype(np.int64)
    p = primes[0]
    if len(primes) == 1:
        return np.where(first > p // 2, first - p, first)
    second = residues[1].astype(object if max(primes) >= 1 << 31 else np.int64)
    r = primes[1]
    k = ((second - first) % r * pow(p, -1, r)) % r  # x = first + p k
    k = np.where(k > r // 2, k - r, k)
    return (first + p * k).astype(np.int64)


T = {1024: 3, 2048: 257}
"""Plaintext moduli, small where only small ones carry products; elsewhere 65537."""


def fresh(keys: KeyGenerator, mode: str, count: int) -> list[Ciphertext]:
    """Ciphertexts of zero: where the arithmetic is the scheme's own, without the evaluator's plaintexts, for time."""
    context = keys.public_key.context
    encryptor = Encryptor(keys.public_key if mode == "public" else keys.secret_key)
    if not isinstance(context.arithmetic, RnsArithmetic):
        plain = CoefficientEncoder(context).encode([0])
        return [encryptor.encrypt(plain) for _ in range(count)]
    ring, pk, secret = context.arithmetic.ring, keys.public_key.polys, keys.secret_key.secret
    found = []
    for _ in range(count):
        if mode == "public":
            parts = public.encrypt(ring, pk, None)
        else:
            a = context.arithmetic.uniform()
            parts = np.stack([secret.encrypt(a, None, private_bytes(native.error_bytes(context.n))), a])
        found.append(Ciphertext(context, keys.public_key.key_id, frozen(parts), 1, encryptor.noise))
    return found


def phase(keys: KeyGenerator, polys: np.ndarray, moduli: int = 2) -> np.ndarray:
    """The centred phase of parts [k, L, n] mod q, or mod the product of its first moduli: int64 [n]."""
    context = keys.public_key.context
    arithmetic = context.arithmetic
    found = keys.secret_key.secret.phase(np.ascontiguousarray(arithmetic.widen(polys)))
    if not isinstance(arithmetic, RnsArithmetic):
        found = arithmetic.narrow(arithmetic.ring.forward(found))
    return centred(found[:moduli], context.moduli[:moduli])


def check(found: np.ndarray, sigma: float, bound: Callable[[float], float]) -> None:
    assert len(found) >= COEFFICIENTS
    assert abs(math.log2(found.std() / sigma)) < 0.1, (found.std(), sigma)
    largest = abs(found).max()
    assert largest <= bound(32) <= bound(128)
    assert bound(20) <= 8 * largest
    assert 13 <= bound(128) / found.std() <= 26, "section 4: 14 to 22 standard deviations, for keys at the ceilings"


def measure(keys: KeyGenerator, key: noise.KeyFunctionals, mode: str) -> set[str]:
    """Fresh ciphertexts, sums, and squares both ways (of all products those with the most noise); what is refused."""
    context, evaluator = keys.public_key.context, Evaluator(keys.public_key.context)
    n, t, q = context.n, context.t, context.q
    count = -(-COEFFICIENTS // n)
    pool = fresh(keys, mode, count)
    w_mean, w_rms, rw_mean = key.w_mean, key.w_rms, key.rw_mean
    if mode == "symmetric":
        w_mean, w_rms, rw_mean = 10.5, 10.5, 10.5 * key.r_mean

    def observed(make: Callable[[int], Ciphertext]) -> np.ndarray:
        return np.concatenate([phase(keys, make(i).parts) for i in range(count)]).astype(np.float64)

    one = observed(lambda i: pool[i])
    check(one, math.sqrt(w_mean), lambda f: noise.sum_bound(n, mode, 1, f))
    assert abs(one.mean()) < 6 * one.std() / math.sqrt(len(one) / n), "no drift"
    # neighbours share summands: fewer independent sums, and each of them as any other
    sums = observed(lambda i: sum(pool[(i + k) % count] for k in range(SUMMED)))
    check(sums, math.sqrt(SUMMED * w_mean), lambda f: noise.sum_bound(n, mode, SUMMED, f))
    refused = set()
    for kind, sigma, bound in (
        ("scale-free", t * math.sqrt(2 * n) * w_rms, lambda f: t * noise.product_bound(n, mode, 1, f)),
        ("scaled", t * math.sqrt(n * rw_mean / 3), lambda f: noise.scaled_bound(n, mode, 1, f, t, q)),
    ):
        try:
            squares = observed(lambda i, kind=kind: evaluator.dot([pool[i]], [pool[i]], kind))
        except NoiseError:
            refused.add(kind)
        else:
            check(squares, sigma, bound)
    return refused


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SECURE, *WIDE])
def test_a_million_coefficients(name: str) -> None:
    if name in WIDE:
        n, moduli = WIDE[name]
        context = Context(n=n, moduli=moduli, t=65537, batching=False)
    else:
        context = Context(name, t=T.get(SETS[name].n, 65537), batching=False)
    keys = KeyGenerator(context)
    error = phase(keys, keys.public_key.polys, 1)  # minus the key's
    assert abs(error).max() <= 21
    key = noise.measure(keys.secret_key.coefficients(), error.astype(np.int8))
    refused = {mode: measure(keys, key, mode) for mode in noise.MODES}
    small = {"scale-free", "scaled"} if context.n == 1024 else set()
    assert refused == {"public": small, "symmetric": set()}, "what is measured is all that a set carries"


def test_the_check_can_fail() -> None:
    found = np.random.default_rng(1).normal(0, 100, COEFFICIENTS)

    def gaussian(sigma: float) -> Callable[[float], float]:
        return lambda f: sigma * math.sqrt(2 * (f + 1) * math.log(2))

    check(found, 100, gaussian(100))
    for sigma, bound in ((108, 100), (92, 100), (100, 80), (100, 1000)):
        with pytest.raises(AssertionError):
            check(found, sigma, gaussian(bound))
