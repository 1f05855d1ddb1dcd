"""Decryption of a result: phases, range check, totals, count check, exact statistics.

Everything that could make a number wrong is checked before one is returned: the key and study, the
noise of every coefficient read against its static bound, the encrypted count against the header, and
every total against the interval that this many rows can reach.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from pybfv import native
from pybfv.errors import DataError, InternalError, KeyRefusedError
from pybfv.io.result import Result
from pybfv.io.secret_key import SecretKey
from pybfv.native.secret import Secret, phase_slots, round_phase, wipe
from pybfv.study import Study, growth_of
from pybfv.workload import ONES, Interval, Key, Totals

SCHEMA_VERSION = 1
REFUSAL = (
    "the result does not decrypt under this key: it is damaged, forged or was made with another key; "
    "compute it again from the contributions"
)
"""One message for every way in which decryption fails: how it failed would help an attacker."""


def _crt_units(moduli: tuple[int, ...]) -> list[int]:
    """Per modulus the number that is 1 mod it and 0 mod the others."""
    product = math.prod(moduli)
    return [product // t * pow(product // t, -1, t) for t in moduli]


def _into(interval: Interval, value: int, modulus: int) -> int:
    """The representative of value mod modulus that is nearest above interval.lo."""
    return interval.lo + (value - interval.lo) % modulus


# The guards: each small enough to be switched off alone, so that tests can show what it is for.


def noise_bound(study: Study, modulus: int, depth: int) -> int:
    """What t noise / q of a coefficient may be, in units of 2^-64; rounded up, so that it never becomes 0."""
    return min(math.ceil(study.noises[modulus].fraction(depth) * 2**64), 2**63 - 1)


def within(numbers: list[int], interval: Interval) -> bool:
    """Whether each number read can be what the study says one can be."""
    return all(x in interval for x in numbers)


def same_rows(found: int, stated: int) -> bool:
    """Whether the encrypted count is the header's."""
    return found == stated


def reachable(found: dict[Key, int], study: Study, rows: int) -> bool:
    """Whether every total lies where this many rows can bring it."""
    growth = growth_of(study.workloads, study.bounds, rows)
    return all(found[total] in interval for total, (interval, _) in growth.items())


def statistics_of(study: Study, totals: Totals, ddof: int) -> list[dict[str, Any]]:
    """Every statistic; DataError for totals that contradict each other, such as a negative variance."""
    try:
        return [w.finish(totals, ddof) for w in study.workloads]
    except InternalError:
        raise DataError(REFUSAL) from None


class _Reader:
    """Decrypts the named ciphertexts of one result to integers mod the study's moduli."""

    def __init__(self, result: Result, study: Study, ring: native.Ring, secret: Secret) -> None:
        self.result, self.study, self.ring, self.secret = result, study, ring, secret
        self.failed = False

    @cache  # noqa: B019 - as short-lived as the reader
    def encoder(self, modulus: int) -> native.Encoder:
        """Of a modulus' slots."""
        return native.Encoder.batched(self.ring, self.study.t_primes(modulus))

    def numbers(self, name: str, modulus: int, total: Key) -> list[int]:
        """The decoded numbers mod t: one total, or N slots (or coefficients) under --reveal slots."""
        study, t = self.study, self.study.moduli[modulus]
        n = study.ps.n
        phase = self.secret.phase(self.result.ciphertexts[name])  # worth as much as the key
        single = study.reveal == "totals" and study.packing == "batched"
        slots: np.ndarray | None = None
        try:
            bound = noise_bound(study, modulus, len(total) - 1)
            if study.packing == "batched" and not single:
                slots = phase_slots(self.ring, phase, self.encoder(modulus), bound)
            else:
                read = round_phase(self.ring, phase, t, 0, 1 if single else n, bound)
        except DataError:
            self.failed = True  # told once all have been read, so that time does not tell which failed
            return [0] if study.reveal == "totals" else [0] * n
        finally:
            wipe(phase)
        undo = pow(study.factor(total, modulus), -1, t)
        if single:
            return [read[0] * n * undo % t]
        if slots is not None:
            return self.encoder(modulus).joined(slots, undo)
        if study.reveal == "totals":
            return [sum(read) * undo % t]
        return [x * undo % t for x in read]


def totals_of(result: Result, study: Study, key: SecretKey) -> dict[Key, int]:
    """Every total of a result as an exact integer of wire values; refuses instead of guessing."""
    check_result(result, study, key)
    ps = study.ps
    modulus, units = math.prod(study.moduli), _crt_units(study.moduli)
    names: dict[Key, list[tuple[str, int]]] = {}
    for name, total, r, _ in study.names():
        names.setdefault(total, []).append((name, r))
    found: dict[Key, int] = {}
    with native.Ring(ps.n, ps.primes) as ring, Secret(ring, key.s) as secret:
        reader = _Reader(result, study, ring, secret)
        for total, parts in names.items():
            columns = [reader.numbers(name, r, total) for name, r in parts]
            interval, _ = study.growth[total]
            joined = (sum(u * x for u, x in zip(units, column, strict=True)) for column in zip(*columns, strict=True))
            numbers = [_into(interval, value, modulus) for value in joined]
            reader.failed |= not within(numbers, interval)
            found[total] = sum(numbers)
    if reader.failed:
        raise DataError(REFUSAL)
    rows = found[(ONES,)]
    if not same_rows(rows, result.rows) or not reachable(found, study, rows):
        raise DataError(REFUSAL)
    return found


def check_result(result: Result, study: Study, key: SecretKey) -> None:
    """Refuses a result that is not of this key and study, or not of the form that the study fixes."""
    if key.key_id != result.key_id:
        raise KeyRefusedError(
            f"the result is under key {result.key_id}, the given key is {key.key_id}; "
            "give the secret key of the study's key pair"
        )
    if key.study_hash != result.study.hash:
        raise KeyRefusedError(
            f"the result is of study {result.study.hash[:16]}, the key was made for {key.study_hash[:16]}; "
            "a key serves one study"
        )
    fixed = {
        "reveal": study.reveal,
        "product": study.product,
        "packing": study.packing,
        "flood_bits": study.flood_bits,
    }
    for field, expected in fixed.items():
        if getattr(result, field) != expected:
            raise DataError(
                f"the result says {field} {getattr(result, field)!r}, its study {expected!r}; compute it anew"
            )
    shape = (len(study.ps.primes), study.ps.n)
    expected = {name: (parts, *shape) for name, _, _, parts in study.names()}
    found = {name: ct.shape for name, ct in result.ciphertexts.items()}
    if found != expected or not result.params == key.params == study.ps:
        raise DataError("the result's ciphertexts are not those of its study; compute it anew")
    if result.rows < 1:
        raise DataError("the result is over no rows; give contributions with data")
    study.check_limits(result.rows, result.contributions, 1, "the result")


def decrypt(result: Result, key: SecretKey, ddof: int = 1) -> dict[str, Any]:
    """The result document (schema: docs/cli.md): every statistic exact, and as nearest binary64."""
    study = Study(result.study)
    found = totals_of(result, study, key)
    totals = Totals(
        found[(ONES,)],
        {k[0]: v for k, v in found.items() if len(k) == 1},
        {(k[0], k[1]): v for k, v in found.items() if len(k) == 2},
        study.bounds,
    )
    results = statistics_of(study, totals, ddof)
    return {
        "schema_version": SCHEMA_VERSION,
        "study": study.hash,
        "key": result.key_id,
        "set": study.ps.name,
        "insecure": study.ps.insecure,
        "security": study.ps.security,
        "ring_dimension": study.ps.n,
        "log2_q": study.ps.log2_q,
        "t": [str(t) for t in study.moduli],
        "reveal": study.reveal,
        "product": study.product,
        "flood_bits": result.flood_bits,
        "rows": result.rows,
        "dropped_rows": result.dropped,
        "contributions": result.contributions,
        "backend": dict(result.backend),
        "results": results,
    }
