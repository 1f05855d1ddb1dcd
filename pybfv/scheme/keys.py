"""Drawing secrets. Nothing under pybfv/server may import this.

Noise bounds are published before keys exist, so they rely on ceilings (pybfv.scheme.noise); about every
second draw exceeds one and is drawn anew, which costs the secret about one bit of entropy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pybfv import native
from pybfv.errors import InternalError
from pybfv.native.secret import wipe
from pybfv.scheme.noise import key_ok
from pybfv.scheme.random import private_bytes

MAX_DRAWS = 400
"""About half of all draws pass: so many failures mean that something else is wrong."""


def draw_secret(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A secret and the error of its public key that together meet the ceilings: int8 [N] each, the caller's to wipe."""
    for _ in range(MAX_DRAWS):
        s = _draw(native.sample_ternary, n, native.ternary_bytes(n))
        e = draw_error(n)
        if key_ok(s, e):
            return s, e
        wipe(s)
        wipe(e)
    raise InternalError("no key within the published ceilings was drawn; report this as a defect")


def draw_error(n: int) -> np.ndarray:
    """A centred binomial error, int8 [N], the caller's to wipe."""
    return _draw(native.sample_error, n, native.error_bytes(n))


def _draw(sampler: Callable[[int, Any], np.ndarray], n: int, size: int) -> np.ndarray:
    raw = private_bytes(size)
    try:
        return sampler(n, raw)
    finally:
        wipe(raw)
