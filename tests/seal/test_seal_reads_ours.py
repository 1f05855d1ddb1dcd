"""SEAL decrypts what we encrypt, sum and multiply, value by value."""

from __future__ import annotations

import pytest
from ours import Job, messages, negacyclic, products, slotwise, total

from pybfv.params import batching_primes

MODES = ("public", "symmetric")


def largest(n: int, count: int = 1) -> tuple[int, ...]:
    """The largest batching primes of 30 bits."""
    return batching_primes(n)[-count:]


SUMS = [
    ("n1024_q26", (12289,), 2),
    ("n1024_q26", 256, 48),
    ("n1024_q27", 1000, 24),
    ("n2048_q53", (12289,), 24),
    ("n2048_q53", largest(2048), 24),
    ("n2048_q53", 2**35, 24),
    ("n2048_q54", 3**20, 24),
    ("n4096_q106", (1032193,), 16),
    ("n4096_q106", largest(4096, 2), 16),
    ("n4096_q106", 2**60 - 1, 16),
    ("n4096_q109", 2**59, 16),
    ("n8192_q133", largest(8192), 12),
    ("n8192_q133", (65537, 786433, 1032193), 12),
    ("n8192_q214", largest(8192, 2), 12),
    ("n8192_q214", 2**60 - 2, 12),
]


def name_of(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("set_name", "t", "count"), SUMS, ids=name_of)
def test_fresh_and_summed(set_name: str, t: int | tuple[int, ...], count: int, mode: str) -> None:
    job = Job(set_name, t)
    sent = messages(count, job.n, job.t, seed=count)
    cts = job.encrypt(mode, sent)
    assert job.seal_reads(cts[0]) == sent[0]
    assert job.seal_reads(total(job.keys.ring, cts)) == [sum(x) % job.t for x in zip(*sent, strict=True)]


# Accumulated scale-free products: t is what the set carries for so many public-key ciphertexts.
PRODUCTS = [
    ("n2048_q53", 2**10, 6),
    ("n2048_q53", 1155, 6),
    ("n4096_q106", (1032193,), 5),
    ("n4096_q106", (65537, 114689), 5),
    ("n4096_q106", 2**36, 3),
    ("n4096_q109", (786433, 65537), 4),
    ("n8192_q133", largest(8192), 3),
    ("n8192_q133", 2**48 + 6, 3),
    ("n8192_q214", largest(8192, 2), 3),
    ("n8192_q214", 2**60 - 2, 3),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("set_name", "t", "count"), PRODUCTS, ids=name_of)
def test_scale_free_products(set_name: str, t: int | tuple[int, ...], count: int, mode: str) -> None:
    """SEAL finds -q sum m m' in a finished product, and in the squares of a variance."""
    job = Job(set_name, t)
    sent = messages(2 * count, job.n, job.t, seed=count)
    a, b = sent[:count], sent[count:]
    left, right = job.encrypt(mode, a), job.encrypt(mode, b)
    multiply = slotwise if job.t_primes else negacyclic
    for second, values in ((right, b), (left, a)):
        found = products(job.keys.ring, left, second, job.t)
        assert len(found) == 3
        assert job.seal_reads(found) == [-job.q * x % job.t for x in multiply(a, values)]


def test_the_judge_sees_one_changed_message() -> None:
    """Without this, a comparison that can't fail would pass everything above."""
    job = Job("n4096_q106", (1032193,))
    sent = messages(3, job.n, job.t, seed=7)
    expected = [sum(x) % job.t for x in zip(*sent, strict=True)]
    sent[1][4000] ^= 1
    found = job.seal_reads(total(job.keys.ring, job.encrypt("public", sent)))
    assert [i for i, (x, y) in enumerate(zip(found, expected, strict=True)) if x != y] == [4000]


def test_the_judge_sees_one_changed_residue() -> None:
    job = Job("n2048_q53", 2**35)
    (sent,) = messages(1, job.n, job.t, seed=8)
    (ct,) = job.encrypt("public", [sent])
    ct[0, 1, 77] ^= 1
    assert sum(x != y for x, y in zip(job.seal_reads(ct), sent, strict=True)) > job.n // 2


def test_a_lost_factor_is_seen() -> None:
    """The product without t, or read without -q, is not what SEAL finds."""
    job = Job("n4096_q106", (1032193,))
    a = messages(1, job.n, job.t, seed=9)
    ct = job.encrypt("public", a)
    plain = [x % job.t for x in slotwise(a, a)]
    expected = [-job.q * x % job.t for x in plain]
    assert job.seal_reads(products(job.keys.ring, ct, ct, job.t)) == expected != plain
    assert job.seal_reads(products(job.keys.ring, ct, ct, 1)) != expected
