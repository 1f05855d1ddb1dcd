"""Noise: no measured one beyond its bound, nothing computed that can't be decrypted, chains as deep as sets carry."""

from __future__ import annotations

import math
import random
import re
from dataclasses import astuple, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from evaluator_tools import KINDS, Party, noise_of, norms_of, party, vector

from pybfv.errors import DataError, KeyRefusedError, UsageError
from pybfv.evaluator import Ciphertext, Context, Decryptor, KeyGenerator, NoiseError, Plaintext
from pybfv.evaluator.crypto import REFUSAL
from pybfv.evaluator.depth import depth, table
from pybfv.evaluator.noise import FRESH_BITS, Model, Norms, _tail, measure_plain
from pybfv.params import SETS, get_set
from pybfv.scheme.noise import embeddings, euclidean_bound

ROOT = Path(__file__).resolve().parent.parent


def assert_bounded(p: Party, ct: Ciphertext, plain: Plaintext) -> list[float]:
    """Bits between each measured norm and its bound, none negative."""
    found = norms_of(p, noise_of(p, ct, plain.coefficients))
    slack = [math.log2(bound / norm) for norm, bound in zip(found, astuple(ct.noise), strict=True)]
    assert min(slack) >= 0, (found, ct.noise)
    return slack


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("seed", range(6))
def test_no_noise_is_beyond_its_bound(kind: str, seed: int) -> None:
    """Random circuits of every operation; after each, the exact noise in all four norms."""
    p, rng = party(kind), random.Random(seed)
    ev, t = p.evaluator, p.t
    pool: list[tuple[Ciphertext, list[int]]] = []
    for mode in ("public", "symmetric", "public"):
        values = vector(rng, p.n, t)
        pool.append((p.encrypt(values, mode), values))
    slack = []
    for _ in range(8):
        (x, a), (y, b) = rng.choice(pool), rng.choice(pool)
        c = vector(rng, p.n, t)
        plain = p.encoder.encode(c)
        operation = rng.randrange(8)
        try:
            if operation == 0:
                made, values = x + y, [u + v for u, v in zip(a, b, strict=True)]
            elif operation == 1:
                made, values = x + plain, [u + v for u, v in zip(a, c, strict=True)]
            elif operation == 2:
                made, values = x * plain, p.product(a, c)
            elif operation == 3:
                made, values = -x - plain, [-u - v for u, v in zip(a, c, strict=True)]
            else:
                x, y = ev.relinearize(x, p.relin), ev.relinearize(y, p.relin)
                made = ev.dot([x, y], [y, y], ("scaled", "scale-free")[operation % 2])
                values = [u + v for u, v in zip(p.product(a, b), p.product(b, b), strict=True)]
                if operation >= 6:
                    made = ev.relinearize(made, p.relin)
        except NoiseError:
            continue
        except UsageError as refusal:
            assert "hide nothing" in str(refusal)
            continue
        values = [v % t for v in values]
        pool.append((made, values))
        assert p.decrypt(made) == values
        slack.append(assert_bounded(p, made, p.encoder.encode(values)))
    assert slack
    assert min(x[0] for x in slack) < 30, "a bound that loose says nothing"


@pytest.mark.parametrize("mode", ["public", "symmetric"])
def test_fresh_bounds_are_near_what_happens(mode: str) -> None:
    """The largest coefficient and embedding come within 4 bits of their 2^-148 bounds, the lengths within 2."""
    p = Party(Context("insecure_n1024_q133", t=12289, insecure=True))
    values = vector(random.Random(1), p.n, p.t)
    largest, length, keyed, far = assert_bounded(p, p.encrypt(values, mode), p.encoder.encode(values))
    assert max(largest, far) < 4
    assert max(length, keyed) < 2


# --- the formulas


@pytest.mark.parametrize("n", [8, 64, 1024, 16384])
def test_the_tail_of_an_embedding(n: int) -> None:
    tau = _tail(n, FRESH_BITS)
    log2_probability = math.log2(n / 2) + math.log2(tau) + (1 - tau) / math.log(2)
    assert -FRESH_BITS - 1 < log2_probability <= -FRESH_BITS


@pytest.mark.parametrize("n", [64, 1024, 16384])
def test_the_tail_of_a_length(n: int) -> None:
    """With equal variances the length is a chi-square's, P(X > n x) <= (x exp(1 - x))^(n/2): hardly less is needed."""
    x = euclidean_bound(n, 10.5, 10.5, 10.5, 148) ** 2 / (10.5 * n)
    log2_probability = n / 2 * (math.log2(x) + (1 - x) / math.log(2))
    assert -240 < log2_probability <= -148
    # unequal variances: above the sum of means, and above what the largest alone takes
    assert euclidean_bound(n, 1.0, 2.0, 9.0, 148) > euclidean_bound(n, 1.0, 1.0, 1.0, 148)


@pytest.mark.parametrize("n", [64, 1024, 8192])
def test_uniform_parts_meet_their_ceilings_with_room(n: int) -> None:
    model, rng = Model(n, 2**200 + 1, 65537), np.random.default_rng(n)
    x = rng.uniform(-0.5, 0.5, (200, n))
    far = max(math.sqrt(float(embeddings(row).max())) for row in x)
    length = math.sqrt(float((x * x).sum(axis=1).max()))
    assert far < model.part_embedding < 5.5 * far
    assert length < model.part_length < 1.8 * length
    need = FRESH_BITS * math.log(2)
    delta = (model.part_length**2 / n) - 1 / 12
    bernstein = n * delta**2 / (2 * (1 / 180 + delta / 18))
    assert bernstein >= need * (1 - 1e-9) or model.part_length >= math.sqrt(n) / 2


def test_norms_of_plaintexts() -> None:
    rng = random.Random(2)
    for bits in (1, 17, 61, 300, 511):
        c = [rng.choice((-1, 1)) * rng.randrange(1 << bits) for _ in range(64)]
        c[0] = (1 << bits) - 1
        found = measure_plain(c)
        exact = sum(map(abs, c))
        assert exact <= found.total <= exact * 1.001
        squares = sum(v * v for v in c)
        assert squares <= Fraction(found.length) ** 2 <= squares * Fraction(1001, 1000)
        scaled = np.array([v / 2**bits for v in c])
        assert math.sqrt(float(embeddings(scaled).max())) <= found.embedding / 2.0**bits * (1 + 1e-12)
    constant = measure_plain([3] + [0] * 63)
    assert all(3 <= x < 3.0001 for x in astuple(constant))


# --- refusals


def test_an_operation_beyond_the_noise_never_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    p = Party(Context("n2048_q53", t=12289))
    ev, x = p.evaluator, p.encrypt([2])
    product, other = ev.multiply(x, x), p.keys.relin_keys(14)
    low = ev.relinearize(product, other)
    dense = p.encoder.encode([random.Random(3).randrange(p.t) for _ in range(p.n)])

    def never(*arguments: object) -> None:
        raise AssertionError("it ran")

    for name in ("add", "sub", "scaled", "scale_free", "times", "combine", "digits", "scale", "fractions"):
        monkeypatch.setattr(p.context.arithmetic, name, never)
    for name, refused in {
        "multiply": lambda: ev.multiply(low, x),
        "square": lambda: low.context and ev.square(low),
        "dot": lambda: ev.dot([x] * 100, [x] * 100),
        "relinearize": lambda: ev.relinearize(product, p.relin),
        "multiply_plain": lambda: ev.multiply_plain(low, dense),
        "add_many": lambda: ev.add_many([product, product]),
        "add": lambda: product + product,
        "sub": lambda: product - low,
    }.items():
        with pytest.raises(NoiseError) as refusal:
            refused()
        assert re.match(
            rf"{name}: to be decrypted for certain, the result needs a modulus q of \d+\.\d bits, there are 53\.0 ",
            str(refusal.value),
        ), refusal.value
        assert refusal.value.exit_code == 78


def test_sums_stop_at_the_limit() -> None:
    """The last sum that is allowed decrypts; the next addition is refused."""
    p = Party(Context("n1024_q27", t=12289))
    x, count = p.encrypt([1, p.t - 1]), 1
    total = x
    with pytest.raises(NoiseError, match="add: "):  # noqa: PT012
        while count < 100:
            total, count = total + x, count + 1
    assert count == math.floor(p.context.q / (2 * p.t) / x.noise.largest)
    assert p.decrypt(total)[:3] == [count, p.t - count, 0]


UNSPREAD = "not spread like an encryption's"


@pytest.mark.parametrize("moduli", [[132120577, 134250497], [2**61 - 1]])
def test_parts_unlike_an_encryptions_have_no_product(moduli: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A scaled product's bound needs spread parts; what is built to break it is refused."""
    p = Party(Context(n=1024, moduli=moduli, t=2, batching=False, insecure=True))
    ev, n, q, arithmetic = p.evaluator, p.n, p.context.q, p.context.arithmetic
    good = p.encrypt([1])
    assert p.decrypt(ev.square(good))[0] == 1

    def with_parts(coefficients: list[int]) -> Ciphertext:
        part = np.array([[x % m for x in coefficients] for m in moduli], dtype=arithmetic.dtype)
        part = arithmetic.ring.forward(part) if arithmetic.dtype is np.uint32 else part
        return Ciphertext.of_parts(p.context, p.keys.public_key.key_id, np.stack([good.parts[0], part]))

    rng = random.Random(6)
    long = with_parts([rng.choice((-1, 1)) * (49 * q // 100) for _ in range(n)])  # no large embedding
    wave = with_parts([int(0.35 * q * math.cos(math.pi * k / n)) for k in range(n)])  # short, but one large embedding
    for odd in (long, wave):
        for refused in (
            lambda x=odd: x * good,
            lambda x=odd: good * x,
            lambda x=odd: ev.square(x),
            lambda x=odd: ev.dot([good] * 2, [good, x]),
        ):
            with pytest.raises(NoiseError, match=UNSPREAD):
                refused()
        assert ev.multiply(odd, good, "scale-free").size == 3
    # coefficients next to +-q/2, whose sign a double can't tell, count with either
    unsure = arithmetic.fractions(good.parts) * 0.1
    monkeypatch.setattr(arithmetic, "fractions", lambda x: unsure)
    ev.square(good)
    unsure[1, ::5] = [rng.choice((-1, 1)) * (0.5 - 2.0**-50) for _ in range(0, n, 5)]
    with pytest.raises(NoiseError, match=UNSPREAD):
        ev.square(good)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_does_not_decrypt_is_one_refusal(kind: str) -> None:
    p = party(kind)
    x = p.encrypt([1, 2, 3])
    fresh, key_id = x.noise, p.keys.public_key.key_id
    flipped = x.parts.copy()
    flipped[0, 0, 5] ^= 1
    other = Party(p.context)
    forged = replace(other.encrypt([1]), key_id=key_id)
    random_parts = np.stack([p.context.arithmetic.uniform() for _ in range(2)])
    bad_ones = [replace(x, parts=flipped), forged, replace(x, parts=random_parts)]
    if p.context.arithmetic.dtype is np.uint64:  # 30-bit primes are compared in units of 2^-64 of q/t: too coarse here
        bad_ones.append(replace(x * x, noise=fresh))  # claims less noise than it has
    for bad in bad_ones:
        with pytest.raises(DataError) as refusal:
            p.decryptor.decrypt(bad)
        assert str(refusal.value) == REFUSAL
    assert p.decrypt(replace(x, noise=x.noise.times(2)))[:3] == [1, 2, 3]


# --- chains


def chain(p: Party, product: str = "scaled") -> int:
    """Multiplies by a fresh ciphertext until refused; every product compared. The products that were carried."""
    rng, ev, count = random.Random(9), p.evaluator, 0
    a, b = vector(rng, p.n, p.t), vector(rng, p.n, p.t)
    x, y, exact = p.encrypt(a), p.encrypt(b), a
    while True:
        try:
            made = ev.multiply(x, y, product)
        except NoiseError:
            return count
        exact = p.product(exact, b)
        assert p.decrypt(made) == exact
        count += 1
        try:
            x = ev.relinearize(made, p.relin)
        except NoiseError:
            return count
        assert p.decrypt(x) == exact


CHAINS = [("n4096_q106", 65537, 2), ("n4096_q106", 1032193, 2), ("n8192_q214", 65537, 5), ("n8192_q214", 1032193, 5)]


@pytest.mark.parametrize(("name", "t", "carried"), CHAINS)
def test_chains_to_the_depth_a_set_carries(name: str, t: int, carried: int) -> None:
    assert chain(Party(Context(name, t=t))) == carried == depth(get_set(name).n, get_set(name).primes, t)


@pytest.mark.slow
def test_the_longest_chain() -> None:
    ps = get_set("n16384_q430")
    assert chain(Party(Context("n16384_q430", t=65537))) == depth(ps.n, ps.primes, 65537) == 12


@pytest.mark.parametrize(
    ("n", "moduli", "t", "carried"),
    [
        (2048, [18014398492704769], 12289, 1),
        (4096, [68719403009, 68719230977], 65537, 1),
        (8192, [8796092858369, 8796092792833, 17592186028033, 17592185438209], 65537, 4),
    ],
)
def test_chains_over_seals_moduli(n: int, moduli: list[int], t: int, carried: int) -> None:
    assert chain(Party(Context(n=n, moduli=moduli, t=t))) == carried


def test_scale_free_chains() -> None:
    assert chain(Party(Context("n8192_q214", t=65537)), "scale-free") >= 3


# case B03: 2 by itself, again and again
B03 = [("n1024_q27", 12289, 0), ("n2048_q53", 12289, 1), ("n2048_q54", 12289, 1), ("n4096_q109", 65537, 2)]


@pytest.mark.parametrize("name", ["scaled", "scale-free"])
@pytest.mark.parametrize(("set_name", "t", "carried"), B03)
def test_powers_of_two_are_right_or_refused(set_name: str, t: int, carried: int, name: str) -> None:
    p = Party(Context(set_name, t=t))
    two, right = p.encrypt([2]), []
    x = two
    for k in range(1, 5):
        try:
            made = p.evaluator.multiply(x, two, name)
            assert p.decrypt(made)[0] == 2 ** (k + 1)
            right.append(2 ** (k + 1))
            x = p.evaluator.relinearize(made, p.relin)
        except NoiseError as refusal:
            assert "to be decrypted for certain" in str(refusal)
            break
    assert right == [4, 8, 16, 32][:carried] or (name == "scale-free" and len(right) >= carried - 1)


def test_the_documents_table_is_what_the_code_prints() -> None:
    assert table() in (ROOT / "docs" / "evaluator.md").read_text()
    assert set(re.findall(r"^\| (n\w+)", table(), re.M)) == {ps.name for ps in SETS.values() if not ps.insecure}


def test_the_documents_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "evaluator.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    exec(compile(example, "evaluator.md", "exec"), {})
    numbers, refusal = capsys.readouterr().out.splitlines()
    shown = re.findall(r"^# (.*)$", example, re.M)
    assert numbers == shown[0]
    assert re.match(re.escape(shown[1]).replace(r"\.\.\.", ".*"), refusal)


def test_norms_add_and_multiply_upwards() -> None:
    a, b = Norms(1.0, 2.0, 3.0, 4.0), Norms(10.0, 20.0, 30.0, 40.0)
    assert all(x >= y for x, y in zip(astuple(a + b), (11, 22, 33, 44), strict=True))
    assert all(x >= 5 * y for x, y in zip(astuple(a.times(5)), astuple(a), strict=True))


def test_a_decryptor_needs_its_own_key() -> None:
    p = party("slots_of_64")
    with pytest.raises(KeyRefusedError, match="differ"):
        Decryptor(KeyGenerator(p.context).secret_key).decrypt(p.encrypt([1]))
