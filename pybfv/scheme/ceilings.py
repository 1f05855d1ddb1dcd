"""Choose the ceilings on a key's functionals by simulation.

``python -m pybfv.scheme.ceilings`` draws keys from a fixed, public seed and prints the
``[ceilings]`` tables of pybfv/params/sets.toml: for each N the functionals' values at one common
quantile, chosen such that the wanted share of keys is within all of them at once.
The seed makes the command repeatable; no key in use is ever drawn here.
"""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np

from pybfv.params import MAX_N, MIN_N
from pybfv.scheme.noise import SAFETY, KeyFunctionals, measure

SEED = 20240463
SHARE = 0.52
"""Wanted share of keys within all ceilings."""
NAMES = tuple(f.name for f in fields(KeyFunctionals) if f.name != "n")


def simulated_key(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """s uniform ternary and e centred binomial (21 + 21 bits), int8 [n]."""
    return rng.integers(-1, 2, n, dtype=np.int8), (rng.binomial(42, 0.5, n) - 21).astype(np.int8)


def simulate(n: int, count: int) -> np.ndarray:
    """The functionals of ``count`` keys, float64 [count, len(NAMES)]."""
    rng = np.random.default_rng([SEED, n])
    keys = (measure(*simulated_key(rng, n)) for _ in range(count))
    return np.array([[getattr(key, name) for name in NAMES] for key in keys])


def _round_up(x: float) -> float:
    """x rounded up to six significant digits."""
    unit = 10.0 ** (math.floor(math.log10(x)) - 5)
    return float(f"{math.ceil(x / unit) * unit:.6g}")


def choose(values: np.ndarray) -> list[float]:
    """One ceiling per functional such that about SHARE of the simulated keys are within all."""
    low, high = 0.0, 1.0
    for _ in range(30):
        level = (low + high) / 2
        share = (values <= np.quantile(values, level, axis=0)).all(axis=1).mean()
        low, high = (level, high) if share < SHARE else (low, level)
    return [_round_up(x * (1 + 2 * SAFETY)) for x in np.quantile(values, high, axis=0)]


def main() -> None:
    """Print the tables."""
    n = MIN_N
    while n <= MAX_N:
        ceilings = choose(simulate(n, 20000 if n <= 1024 else 8000))
        print(f"[ceilings.{n}]")
        for name, value in zip(NAMES, ceilings, strict=True):
            print(f"{name} = {value!r}")
        print()
        n *= 2


if __name__ == "__main__":
    main()
