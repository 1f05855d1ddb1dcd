"""The little number theory that parameter checks need; pybfv.ring holds the arithmetic of the scheme."""

from __future__ import annotations

# Miller-Rabin with the first 13 primes as bases is a proof below this bound (Sorenson and Webster, 2015).
PROVEN_BELOW = 3317044064679887385961981
_BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)


def is_prime(x: int) -> bool:
    """Whether x is prime; exact for every x below PROVEN_BELOW (about 2^81), larger x are refused."""
    if x >= PROVEN_BELOW:
        raise ValueError(f"is_prime decides numbers below {PROVEN_BELOW} only")
    if x < 2:
        return False
    for b in _BASES:
        if x % b == 0:
            return x == b
    odd, twos = x - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for b in _BASES:
        y = pow(b, odd, x)
        if y in (1, x - 1):
            continue
        for _ in range(twos - 1):
            y = y * y % x
            if y == x - 1:
                break
        else:
            return False
    return True
