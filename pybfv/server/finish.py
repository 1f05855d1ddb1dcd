"""Finish: a partial becomes a result that may leave the server.

The accumulators get their factor (docs/noise.md): scale-free products t, and scaled ones, which hold an integer
tensor, t/q with one rounding. Under "totals" the
result is then re-randomised with a fresh encryption of zero in its own size and blinded so that it
decrypts to nothing but the total; both steps are needed (tests/test_totals.py mounts the attacks).
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np

from pybfv import native
from pybfv.errors import DataError, KeyRefusedError
from pybfv.io.key import PublicKey
from pybfv.io.partial import Partial
from pybfv.io.result import Result
from pybfv.scheme import public
from pybfv.server.backend import Backend
from pybfv.study import Study
from pybfv.workload import Key

COMBINED = {"name": "combined", "kernels": None, "threads": None, "dpus": None, "tasklets": None}
"""What a result of partials says of backends: partials carry none."""


def rerandomise(ring: native.Ring, pk: np.ndarray, ct: np.ndarray) -> np.ndarray:
    """ct plus a fresh encryption of zero of the same size; without it C1^2 = 4 C0 C2 would hold."""
    return ring.add(ct, public.encrypt_zero(ring, pk, len(ct)))


def blind(ring: native.Ring, study: Study, modulus: int, depth: int, ct: np.ndarray) -> np.ndarray:
    """Hides everything in part 0 but what adds up to the total, and floods the noise that is left."""
    out = ct.copy()
    if study.packing == "batched":
        # Sum over the slots = N times coefficient 0: all other coefficients go.
        out[0] = ring.add(out[0], public.uniform_but_constant(ring))
        read = 1
    else:
        t = study.moduli[modulus]
        with native.Encoder.coefficients(ring, t) as encoder:
            mask = encoder.encode(public.mask_of_sum_zero(ring.n, t))
        out[0] = ring.add(out[0], ring.forward(mask))
        read = ring.n
    bits = study.noises[modulus].flood[depth]
    if bits is not None:
        out[0] = ring.add(out[0], public.flooding(ring, bits, read))
    return out


def require_key(study: Study, key_id: str, key: PublicKey | None) -> None:
    """KeyRefusedError unless ``key`` is there when totals need it, and is the contributions' own."""
    if study.reveal != "totals":
        return
    if key is None:
        raise KeyRefusedError("totals are re-randomised with the public key: give it with --key")
    if key.key_id != key_id or key.study.hash != study.hash:
        raise KeyRefusedError(
            f"the contributions are under key {key_id}, not under the given key {key.key_id}; "
            "give the public key that they were encrypted with"
        )


def unblinded(
    state: np.ndarray, study: Study, total: Key, modulus: int, lifter: native.Lifter | None, backend: Backend
) -> np.ndarray:
    """The ciphertext [parts, L, N] of a total's accumulator; scaled products need the lifter."""
    kind, t = study.kind(total), study.moduli[modulus]
    if kind == "scaled" and lifter is not None:
        return lifter.scale_round(state, t)
    acc = backend.acc_new(kind, len(state))
    try:
        backend.acc_load(acc, state)
        array = backend.acc_finish(acc, [t % p if kind == "product" else 1 for p in study.ps.primes])
        try:
            return backend.get(array)[0]
        finally:
            backend.drop(array)
    finally:
        backend.acc_drop(acc)


def finish(partial: Partial, study: Study, key: PublicKey | None, backend: Backend, info: dict[str, Any]) -> Result:
    """The result of a partial. ``key`` is needed under totals, and must be the contributions' key.

    Raises KeyRefusedError for another key, DataError for accumulators that aren't the study's.
    """
    require_key(study, partial.key_id, key)
    names = study.names()
    shapes = {name: study.state_shape(total, parts) for name, total, _, parts in names}
    if shapes != {name: x.shape for name, x in partial.accumulators.items()}:
        raise DataError("the partial's accumulators are not those of its study; compute it anew")
    ps = study.ps
    finished: dict[str, np.ndarray] = {}
    with ExitStack() as stack:
        ring = stack.enter_context(native.Ring(ps.n, ps.primes))
        lifter = stack.enter_context(native.Lifter(ring, study.wide)) if study.wide else None
        pk = public.public_polys(ring, key.seed, key.p0) if key is not None else None
        for name, total, r, _ in names:
            ct = unblinded(partial.accumulators[name], study, total, r, lifter, backend)
            if study.reveal == "totals" and pk is not None:
                ct = blind(ring, study, r, len(total) - 1, rerandomise(ring, pk, ct))
            finished[name] = ct
    return Result(
        study=study.doc,
        key_id=partial.key_id,
        rows=partial.rows,
        dropped=partial.dropped,
        contributions=partial.contributions,
        reveal=study.reveal,
        product=study.product,
        packing=study.packing,
        flood_bits=study.flood_bits,
        backend={k: info.get(k) for k in COMBINED},
        ciphertexts=finished,
    )
