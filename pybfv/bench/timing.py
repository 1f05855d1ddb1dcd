"""`python -m pybfv.bench timing`: do calls that meet a secret take longer for some secrets than for others?

As dudect does it (Reparaz, Balasch, Verbauwhede, "dude, is my code constant time?", 2017): two classes of input, one
fixed and one random, measured in random order, the slowest tenth of all left out, and Welch's t-test on the
difference of the means. |t| above 4.5 is taken for a difference. This is no proof: it sees this machine, these
inputs and differences of some nanoseconds in the mean, through Python's own noise; and on a busy machine it may be
wrong either way. tests/ct looks at every branch and index instead.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import sqrt
from statistics import fmean, variance

import numpy as np

from pybfv.native import Encoder, Ring, error_bytes, sample_error, sample_ternary, ternary_bytes
from pybfv.native.secret import Secret, round_phase
from pybfv.params import get_set

SET = "insecure_n1024_q133"
T = 65537
LIMIT = 4.5
LEAST_NS = 200_000
"""A measurement repeats a short call until it takes about this long: Python's own bias, below a nanosecond, would
otherwise be a difference."""
KEPT = 0.9
"""Share of the measurements that counts: what is slower was interrupted."""
POOL = 64
"""Inputs of each class."""

Case = tuple[str, Callable[[object], object], object, list[object]]
"""A name, a call, the fixed input (of keys: as many equal ones), random inputs."""


def welch(a: list[int], b: list[int]) -> float:
    """Welch's t of two samples; 0 where neither varies."""
    spread = variance(a) / len(a) + variance(b) / len(b)
    return (fmean(a) - fmean(b)) / sqrt(spread) if spread else 0.0


def cases() -> Iterator[Case]:
    """Every call of C that meets a secret, with fixed and with random secrets."""
    ps = get_set(SET)
    ring, chance = Ring(ps.n, ps.primes), np.random.default_rng()
    uniform = chance.integers(0, 1 << 30, (2, len(ps.primes), ps.n), np.uint32)
    uniform %= np.array(ps.primes, np.uint32)[:, None]
    errors, ternary = error_bytes(ps.n), ternary_bytes(ps.n)

    def octets(size: int, high: int = 256) -> tuple[object, list[object]]:
        # the fixed input is one draw: zeros would do, but processors have short ways for storing zeros
        one, *others = (chance.integers(0, high, size, np.uint8) for _ in range(POOL + 1))
        return one, others

    def keys(low: int, high: int) -> Secret:
        return Secret(ring, chance.integers(low, high, ps.n).astype(np.int8))

    yield "sample_error", lambda rnd: sample_error(ps.n, rnd), *octets(errors)
    # how many bytes are rejected is public: here none is
    yield "sample_ternary", lambda rnd: sample_ternary(ps.n, rnd), *octets(ternary, 255)
    size = ring.encrypt_bytes(2)
    yield "encrypt_public", lambda rnd: ring.encrypt_public(uniform, None, rnd), *octets(size, 255)
    fixed, drawn = ([keys(*ends) for _ in range(POOL)] for ends in ((0, 1), (-1, 2)))
    yield "secret phase", lambda key: key.phase(uniform), fixed, drawn
    rnd = chance.integers(0, 256, errors, np.uint8)
    yield "secret encrypt", lambda key: key.encrypt(uniform[0], None, rnd), fixed, drawn
    encoder = Encoder.coefficients(ring, T)
    one, *messages = (chance.integers(-(1 << 62), 1 << 62, ps.n) for _ in range(POOL + 1))
    yield "encode", encoder.encode, one, messages
    bound = Fraction(1, 4)
    phases = [encoder.encode(message) for message in messages]
    yield "round", lambda phase: round_phase(ring, phase, T, 0, ps.n, bound), encoder.encode(one), phases


def measure(case: Case, seconds: float) -> tuple[float, int]:
    """(t, measurements) of one case."""
    _, call, fixed, drawn = case
    keys = isinstance(fixed, list)
    # An array is made in one place, by the same steps from the same memory for both classes: whatever else differed,
    # an address or what a cache holds, would tell them apart.
    place = np.empty_like(drawn[0])
    base = (fixed, np.zeros_like(drawn[0]))
    times: tuple[list[int], list[int]] = [], []
    call(given := fixed[0] if keys else fixed)
    start = time.perf_counter_ns()
    call(given)
    rounds = 1 + LEAST_NS // (time.perf_counter_ns() - start)
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times[0]) < 100:
        for _ in range(50):
            kind, at = random.getrandbits(1), random.randrange(POOL)
            if keys:
                given = (fixed, drawn)[kind][at]
            else:
                np.multiply(drawn[at], kind, out=place, casting="unsafe")
                np.add(place, base[kind], out=place)
                given = place
            start = time.perf_counter_ns()
            for _ in range(rounds):
                call(given)
            times[kind].append(time.perf_counter_ns() - start)
    every = sorted(times[0] + times[1])
    longest = every[int(KEPT * (len(every) - 1))]
    kept = [[spent for spent in sample if spent <= longest] for sample in times]
    return welch(*kept), len(every)


def main(seconds: float) -> int:
    """Prints t of each call; 0 in any case, as no number here is conclusive."""
    print(f"{'call':16} {'measurements':>12} {'t':>8}   |t| <= {LIMIT}: no difference seen (not a proof)")
    for case in cases():
        t, count = measure(case, seconds)
        print(f"{case[0]:16} {count:12} {t:8.2f}   {'' if abs(t) <= LIMIT else 'a difference'}", flush=True)
    return 0
