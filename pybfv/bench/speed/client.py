"""Rows of the client and of the evaluator: keys, encryption, decryption, relinearisation, general products."""

from __future__ import annotations

import time

import numpy as np

from pybfv.bench.measure import check
from pybfv.bench.our_side import OurSide
from pybfv.bench.seal_side import SealSide
from pybfv.bench.speed.rows import Scale, SpeedRow, Work, alternate, fits_products
from pybfv.native import empty
from pybfv.scheme import public


def _check(ours: OurSide, seal: SealSide, batch: int) -> None:
    """SystemExit unless both sides decrypt what both made."""
    first, t = [int(x) for x in ours.messages[0]], ours.t
    check(ours.decrypt(ours.encrypt_pk(batch)[0]) == first, "our encryption under the public key")
    seeds, halves = ours.encrypt_sym(batch)
    check(ours.decrypt(ours.opened(seeds[0], halves[0])) == first, "our encryption under the secret key")
    check(ours.decrypt_one(ours.encrypt_pk()[0]) < t, "our decryption of a total")
    check(seal.decrypt(seal.encrypt()) == seal.decrypt(seal.encrypt_symmetric()) == first, "SEAL's encryption")


def rows(ours: OurSide, seal: SealSide, scale: Scale, share: float | None) -> list[SpeedRow]:
    """Beside one SEAL; ``share`` as in pybfv.bench.speed.server.rows."""
    batch = scale.batch
    _check(ours, seal, batch)
    mine, theirs = ours.encrypt_pk()[0].copy(), seal.encrypt()
    jobs = [
        ("encode and encrypt, public key", Work(lambda: ours.encrypt_pk(batch), batch), Work(seal.encrypt), 8),
        ("encode and encrypt, secret key", Work(lambda: ours.encrypt_sym(batch), batch),
         Work(seal.encrypt_symmetric), 12),
        ("decrypt what a total needs", Work(lambda: ours.decrypt_one(mine)),
         Work(lambda: seal.decrypt_only(theirs)), 4),
        ("decrypt and decode all slots", Work(lambda: ours.decrypt(mine)), Work(lambda: seal.decrypt(theirs)), 4),
        ("key generation", Work(ours.keygen), Work(seal.keygen), 3),
    ]  # fmt: skip
    if fits_products(ours.n) and seal.relinearises:
        product = [x * y % ours.t for x, y in zip(*(m.tolist() for m in ours.messages[:2]), strict=True)]
        check(ours.product_slots(ours.multiply_relinearise()) == product, "our relinearised product")
        check(ours.product_slots(ours.relinearise()) == product, "our relinearisation")
        check(seal.decrypt(seal.multiply_relinearise()) == product, "SEAL's relinearised product")
        check(seal.decrypt(seal.relinearise()) == product, "SEAL's relinearisation")
        jobs += [
            ("relinearise", Work(ours.relinearise), Work(seal.relinearise), 3),
            ("multiply and relinearise", Work(ours.multiply_relinearise), Work(seal.multiply_relinearise), 3),
        ]
    made = []
    for job, mine_, theirs_, asked in jobs:
        target = None if share is None else round(asked * share, 1)
        made.append(alternate(scale.repeats, mine_, theirs_).row(job, ours.name, f"SEAL {seal.kind}", target))
    return made


def two_threads(ours: OurSide, scale: Scale) -> list[SpeedRow]:
    """Encryption of many under the public key on two threads, beside one."""
    batch = max(2, scale.batch)
    messages = [ours.messages[k % len(ours.messages)] for k in range(batch)]
    out = empty((batch, *ours.ciphertexts.shape[1:]))
    works = []
    for threads in (2, 1):
        encryptor = public.BatchEncryptor(ours.ring, ours.pk, threads)
        works.append(Work(lambda e=encryptor: e.encrypt(ours.encoder, messages, out), batch))
    check(np.array_equal(ours.decrypt_slots(works[0].call()[0]), ours.messages[0]), "our encryption on two threads")
    pair = alternate(scale.repeats, *works, time.perf_counter)
    return [pair.row("encode and encrypt, public key", ours.name, "one thread", 1.8, 2, seal=False)]
