"""In memory, accumulate only: sum and variance of 2,560 contributions, and one encryption and decryption."""

from __future__ import annotations

from typing import Any

import numpy as np

from pybfv.bench.measure import Row, check, interleaved
from pybfv.bench.our_side import OurSide
from pybfv.bench.seal_side import DEFAULT, LIKE, N, SealSide

SET = "n4096_q109"
T = 1032193
COUNT = 2560
MESSAGES = 64
"""Distinct messages, and distinct ciphertexts in SEAL's squares: its time does not depend on values."""

SQUARES = {DEFAULT: 512, LIKE: 128}
"""Squares of SEAL's that are timed in one repetition; the loop's time is proportional to them."""


def measure() -> tuple[list[Row], list[dict[str, Any]]]:
    """Rows, and what the two sides are: one dictionary each."""
    messages = np.random.default_rng(1).integers(0, T, (MESSAGES, N), dtype=np.int64)
    ours = OurSide(SET, T, messages, COUNT)
    sums = (messages.sum(axis=0) * (COUNT // MESSAGES) % T).tolist()
    squares = [x * (COUNT // MESSAGES) % T for x in (messages**2 % T).sum(axis=0).tolist()]
    check(ours.slots(total := ours.sum()) == sums, "our sum")
    check(ours.slots(free := ours.squares()) == squares, "our sum of squares")
    check(ours.slots(scaled := ours.scaled_squares()) == squares, "our scaled sum of squares")
    rows: list[Row] = []
    left, free_left, scaled_left = (int(ours.budget(ours.finish(acc))) for acc in (total, free, scaled))
    sides = [
        _side(f"pybfv {SET}, scale-free", ours, "128 bits, 2018 standard", "scale-free", left, free_left),
        _side(f"pybfv {SET}, scaled", ours, "128 bits, 2018 standard", "scaled", left, scaled_left),
    ]
    for kind in (DEFAULT, LIKE):
        seal = SealSide(kind, T, messages, COUNT)
        total = seal.sum()
        check(seal.decrypt(total) == sums, "SEAL's sum")
        squared = seal.squares(COUNT, MESSAGES)
        check(seal.decrypt(squared) == squares, "SEAL's squares")
        rows += _rows(ours, seal)
        secure = "128 bits, 2018 standard" if kind == DEFAULT else "none (its check is off)"
        sides.append(_side(f"SEAL {kind}", seal, secure, "scaled", seal.budget(total), seal.budget(squared)))
        del seal, total, squared
    return rows, sides


def _rows(ours: OurSide, seal: SealSide) -> list[Row]:
    default = seal.kind == DEFAULT
    against = "SEAL default" if default else "SEAL 109-bit"
    some = SQUARES[seal.kind]
    mine_ct, their_ct = ours.encrypt(), seal.encrypt()
    check(ours.decrypt(mine_ct) == seal.decrypt(their_ct) == seal.lists[0], "a decryption")
    squares = interleaved(5, ours.squares, lambda: seal.squares(some, MESSAGES))
    scaled = interleaved(5, ours.scaled_squares, lambda: seal.squares(some, MESSAGES))
    total = interleaved(9, ours.sum, seal.sum)
    encrypt = interleaved(40, ours.encrypt, seal.encrypt)
    decrypt = interleaved(40, lambda: ours.decrypt(mine_ct), lambda: seal.decrypt(their_ct))
    one = interleaved(40, lambda: ours.decrypt_one(mine_ct), lambda: seal.decrypt_only(their_ct))

    def row(name: str, times: list[float], counts: tuple[int, int] = (1, 1), **target: float) -> Row:
        mine, theirs = (seconds / count * 1e6 for seconds, count in zip(times, counts, strict=True))
        return Row(f"{name}; {against}", "us", mine, theirs, **(target if default else {}))

    return [
        row(f"variance of {COUNT}, per ciphertext", squares, (COUNT, some), at_least=20),
        row(f"variance of {COUNT}, scaled, per ciphertext", scaled, (COUNT, some), at_least=15),
        row(f"sum of {COUNT} distinct ones, per ciphertext", total, (COUNT, COUNT), above=1),
        row("encode and encrypt, public key", encrypt),
        row("decrypt what a total needs", one),
        row("decrypt and decode all slots", decrypt),
    ]


def _side(
    name: str, side: OurSide | SealSide, security: str, product: str, after_sum: int, after_squares: int
) -> dict[str, Any]:
    return {
        "side": name,
        "n": N,
        "data_level_bits": round(side.bits, 1),
        "t": T,
        "bytes_per_ciphertext": side.bytes,
        "security": security,
        "product": product,
        "relinearised": False,
        "noise_budget_after_sum": after_sum,
        "noise_budget_after_squares": after_squares,
    }
