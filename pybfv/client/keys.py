"""Key generation: a ternary secret, and a public key whose embedding norms meet the published ceilings.

Plans are made before keys exist, so they rely on ceilings (pybfv.scheme.noise); about every second
draw exceeds one and is drawn anew, which costs the secret about one bit of entropy.
"""

from __future__ import annotations

from pybfv import native
from pybfv.io.key import PublicKey
from pybfv.io.secret_key import SecretKey
from pybfv.native.secret import Secret, wipe
from pybfv.scheme.keys import draw_secret
from pybfv.scheme.random import expand_uniform, fresh_seed
from pybfv.study import Study


def keygen(study: Study) -> tuple[SecretKey, PublicKey]:
    """A fresh key pair for a study, from the operating system's randomness."""
    ps = study.ps
    s, e = draw_secret(ps.n)
    try:
        seed = fresh_seed()
        with native.Ring(ps.n, ps.primes) as ring:
            a = expand_uniform(ring, seed, native.empty((len(ps.primes), ps.n)))
            with Secret(ring, s) as secret:
                p0 = secret.public(a, e)
        public = PublicKey(study.doc, ps.n, ps.primes, seed, p0)
        return SecretKey(study.hash, public.key_id, ps.name, ps.n, s), public
    finally:
        wipe(s)
        wipe(e)
