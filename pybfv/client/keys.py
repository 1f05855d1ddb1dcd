"""Key generation: a ternary secret, and a public key whose embedding norms meet the published ceilings.

Plans are made before keys exist, so they rely on ceilings (pybfv.scheme.noise); about every second
draw exceeds one and is drawn anew, which costs the secret about one bit of entropy.
"""

from __future__ import annotations

import numpy as np

from pybfv import native
from pybfv.errors import InternalError
from pybfv.io.key import PublicKey
from pybfv.io.secret_key import SecretKey
from pybfv.native.secret import Secret, wipe
from pybfv.scheme.noise import key_ok
from pybfv.scheme.random import expand_uniform, fresh_seed, private_bytes
from pybfv.study import Study

MAX_DRAWS = 400
"""About half of all draws pass: so many failures mean that something else is wrong."""


def draw_secret(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A secret and the error of its public key that together meet the ceilings: int8 [N] each, the caller's to wipe."""
    for _ in range(MAX_DRAWS):
        s = _draw(native.sample_ternary, n, native.ternary_bytes(n))
        e = _draw(native.sample_error, n, native.error_bytes(n))
        if key_ok(s, e):
            return s, e
        wipe(s)
        wipe(e)
    raise InternalError("no key within the published ceilings was drawn; report this as a defect")


def keygen(study: Study) -> tuple[SecretKey, PublicKey]:
    """A fresh key pair for a study, from the operating system's randomness."""
    ps = study.ps
    with native.Ring(ps.n, ps.primes) as ring:
        s, e = draw_secret(ps.n)
        seed = fresh_seed()
        a = expand_uniform(ring, seed, native.empty((len(ps.primes), ps.n)))
        with Secret(ring, s) as secret:
            p0 = secret.public(a, e)
        wipe(e)
        public = PublicKey(study.doc, ps.n, ps.primes, seed, p0)
        return SecretKey(study.hash, public.key_id, ps.name, ps.n, s), public


def _draw(sampler, n: int, size: int) -> np.ndarray:
    raw = private_bytes(size)
    try:
        return sampler(n, raw)
    finally:
        wipe(raw)
