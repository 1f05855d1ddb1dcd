"""The evaluator against Python integers: plaintexts mod t, and ciphertexts bit by bit."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from evaluator_tools import KINDS, Party, integers, parts_of, party, vector

from pybfv.errors import KeyRefusedError, PlanError, UsageError
from pybfv.evaluator import (
    BatchEncoder,
    Ciphertext,
    CoefficientEncoder,
    Context,
    Encryptor,
    KeyGenerator,
    NoiseError,
)
from pybfv.evaluator.arithmetic import digit_bounds
from pybfv.params import is_prime
from pybfv.ring import centred_mod, negacyclic

MODES = ("public", "symmetric")


@pytest.fixture(params=sorted(KINDS))
def p(request: pytest.FixtureRequest) -> Party:
    return party(request.param)


def test_the_kinds_are_of_both_forms() -> None:
    forms = {name: type(party(name).context.arithmetic).__name__ for name in KINDS}
    assert forms == {
        "slots_of_64": "RnsArithmetic",
        "words_of_64": "WordArithmetic",
        "coefficients_of_64": "RnsArithmetic",
        "odd_words_of_64": "WordArithmetic",
    }


@pytest.mark.parametrize("seed", range(4))
def test_linear_operations(p: Party, seed: int) -> None:
    rng = random.Random(seed)
    t, ev = p.t, p.evaluator
    a, b, c = (vector(rng, p.n, t) for _ in range(3))
    x, y, plain = p.encrypt(a), p.encrypt(b, "symmetric"), p.encoder.encode(c)
    assert p.encoder.decode(plain) == c
    assert p.decrypt(x) == a
    assert p.decrypt(y) == b
    assert p.decrypt(ev.add(x, y)) == p.decrypt(x + y) == [(u + v) % t for u, v in zip(a, b, strict=True)]
    assert p.decrypt(ev.sub(x, y)) == p.decrypt(x - y) == [(u - v) % t for u, v in zip(a, b, strict=True)]
    assert p.decrypt(ev.negate(x)) == p.decrypt(-x) == [-u % t for u in a]
    assert p.decrypt(ev.add_plain(x, plain)) == p.decrypt(x + plain) == p.decrypt(plain + x)
    assert p.decrypt(x + plain) == [(u + v) % t for u, v in zip(a, c, strict=True)]
    assert p.decrypt(ev.sub_plain(x, plain)) == p.decrypt(x - plain) == [(u - v) % t for u, v in zip(a, c, strict=True)]
    assert p.decrypt(ev.add_many([x, y, x])) == p.decrypt(sum([x, y, x])) == [
        (2 * u + v) % t for u, v in zip(a, b, strict=True)
    ]  # fmt: skip
    if any(c):
        assert p.decrypt(ev.multiply_plain(x, plain)) == p.decrypt(x * plain) == p.product(a, c)


@pytest.mark.parametrize("product", ["scaled", "scale-free"])
@pytest.mark.parametrize("seed", range(3))
def test_products(p: Party, seed: int, product: str) -> None:
    rng = random.Random(seed)
    t, q, ev = p.t, p.context.q, p.evaluator
    a, b, c = (vector(rng, p.n, t) for _ in range(3))
    x, y, z = p.encrypt(a), p.encrypt(b, "symmetric"), p.encrypt(c)
    xy = ev.multiply(x, y, product)
    assert (xy.size, xy.factor) == (3, 1 if product == "scaled" else -q % t)
    assert p.decrypt(xy) == p.product(a, b)
    assert p.decrypt(ev.square(x, product)) == p.product(a, a)
    small = ev.relinearize(xy, p.relin)
    assert (small.size, small.factor) == (2, xy.factor)
    assert p.decrypt(small) == p.product(a, b)
    assert ev.relinearize(small, p.relin) is small
    deeper = ev.multiply(small, z, product)
    assert p.decrypt(deeper) == p.product(p.product(a, b), c)
    dot = ev.dot([x, y, z], [y, z, z], product)
    expected = [sum(v) % t for v in zip(p.product(a, b), p.product(b, c), p.product(c, c), strict=True)]
    assert p.decrypt(dot) == expected
    assert p.decrypt(ev.relinearize(dot, p.relin)) == expected


def test_factors(p: Party) -> None:
    """Sums of unlike factors, plaintexts on products, products of products: right without a word."""
    rng = random.Random(5)
    t, ev = p.t, p.evaluator
    a, b, c = (vector(rng, p.n, t) for _ in range(3))
    x, y = p.encrypt(a), p.encrypt(b)
    free, scaled = ev.multiply(x, y, "scale-free"), ev.multiply(x, y)
    ab, plain = p.product(a, b), p.encoder.encode(c)
    assert free.factor != scaled.factor
    for left, right in ((free, scaled), (scaled, free)):
        assert p.decrypt(left + right) == [2 * v % t for v in ab]
        assert p.decrypt(ev.sub(left + right, left)) == ab
    assert p.decrypt(free + x) == p.decrypt(x + free) == [(u + v) % t for u, v in zip(ab, a, strict=True)]
    assert p.decrypt(x - free) == [(v - u) % t for u, v in zip(ab, a, strict=True)]
    assert p.decrypt(free + plain) == [(u + v) % t for u, v in zip(ab, c, strict=True)]
    assert p.decrypt(free - plain) == [(u - v) % t for u, v in zip(ab, c, strict=True)]
    low = ev.relinearize(free, p.relin)
    assert p.decrypt(ev.dot([x, low], [y, x])) == [(u + v) % t for u, v in zip(ab, p.product(ab, a), strict=True)]
    # the cheaper of the two ways to equal factors is taken
    assert (x + free).noise.largest == (free + x).noise.largest <= x.noise.times(t).largest + free.noise.largest


@pytest.mark.parametrize("moduli", [None, (2**61 - 1, 2**61 - 31, 1152921504606846883, 2**31 - 1)])
@pytest.mark.parametrize("t", [2**82, 3**52, 2**82 - 57])
def test_a_plaintext_modulus_beyond_words(moduli: tuple[int, ...] | None, t: int) -> None:
    name = None if moduli else "insecure_n64_q214"
    n = 64 if moduli else None
    p = Party(Context(name, n=n, moduli=moduli, t=t, batching=False, insecure=True))
    rng = random.Random(t)
    a, b = vector(rng, p.n, t), vector(rng, p.n, t)
    x, plain = p.encrypt(a), p.encoder.encode(b)
    assert p.decrypt(x + plain) == [(u + v) % t for u, v in zip(a, b, strict=True)]
    assert p.decrypt(x * plain) == p.product(a, b)
    for product in ("scaled", "scale-free"):
        xy = p.evaluator.multiply(x, p.encrypt(b, "symmetric"), product)
        assert p.decrypt(xy) == p.product(a, b)
        assert p.decrypt(p.evaluator.relinearize(xy, p.relin)) == p.product(a, b)


def test_the_largest_moduli_work() -> None:
    """16 primes of 30 bits, and 512 bits of 61-bit primes: all auxiliary primes that there may be."""
    small = list(islice((p for p in range(2**30 - 127, 2**29, -128) if is_prime(p)), 16))
    large = list(islice((p for p in range(2**61 - 1, 2**60, -2) if is_prime(p)), 8))
    for moduli in (small, large):
        p = Party(Context(n=64, moduli=moduli, t=65537, insecure=True))
        rng = random.Random(4)
        a, b = vector(rng, p.n, p.t), vector(rng, p.n, p.t)
        xy = p.evaluator.relinearize(p.evaluator.multiply(p.encrypt(a), p.encrypt(b)), p.relin)
        assert p.decrypt(p.evaluator.square(xy)) == p.product(p.product(a, b), p.product(a, b))
    with pytest.raises(PlanError, match="512 bits at most"):
        Context(n=64, moduli=[*large, 2**31 - 1], t=65537, insecure=True)


# --- ciphertexts, bit by bit


def tensor(a: Ciphertext, b: Ciphertext) -> list[list[int]]:
    (a0, a1), (b0, b1) = parts_of(a), parts_of(b)
    cross = [u + v for u, v in zip(negacyclic(a0, b1), negacyclic(a1, b0), strict=True)]
    return [negacyclic(a0, b0), cross, negacyclic(a1, b1)]


def test_products_are_the_defined_ones(p: Party) -> None:
    """round(t T / q) of the summed integer tensor, and t T mod q, coefficient by coefficient."""
    rng = random.Random(6)
    q, t = p.context.q, p.t
    x, y, z = (p.encrypt(vector(rng, p.n, t), mode) for mode in ("public", "symmetric", "public"))
    sums = [[u + v for u, v in zip(k, m, strict=True)] for k, m in zip(tensor(x, y), tensor(z, z), strict=True)]
    rounded = [[centred_mod((2 * t * v + q) // (2 * q), q) for v in part] for part in sums]
    assert parts_of(p.evaluator.dot([x, z], [y, z])) == rounded
    assert parts_of(p.evaluator.dot([x, z], [y, z], "scale-free")) == [[centred_mod(t * v, q) for v in k] for k in sums]


def test_extreme_parts_multiply_exactly(p: Party) -> None:
    """Coefficients next to +-q/2, where a lift or a rounding that is off by one would show."""
    arithmetic, q, t = p.context.arithmetic, p.context.q, p.t
    rng = random.Random(7)
    edge = [(q - 1) // 2, (q + 1) // 2, (q - 3) // 2, (q + 3) // 2, 0, 1, q - 1, q // t, q // (2 * t)]

    def stored(values: list[int]) -> np.ndarray:
        x = np.array([[v % m for v in values] for m in p.context.moduli], dtype=arithmetic.dtype)
        return arithmetic.ring.forward(x) if arithmetic.dtype is np.uint32 else x

    a, b = (np.stack([stored([rng.choice(edge) for _ in range(p.n)]) for _ in range(2)]) for _ in range(2))
    x, y = (Ciphertext.of_parts(p.context, p.keys.public_key.key_id, v) for v in (a, b))
    expected = [[centred_mod((2 * t * v + q) // (2 * q), q) for v in part] for part in tensor(x, y)]
    found = arithmetic.scaled([(x.parts, y.parts)], t)
    assert [integers(p.context, part) for part in found] == expected


@pytest.mark.parametrize("bits", [0, 4, 17, 60])
def test_digits_compose(p: Party, bits: int) -> None:
    arithmetic, q = p.context.arithmetic, p.context.q
    x = arithmetic.uniform()
    digits, gadget = arithmetic.digits(x, bits), arithmetic.gadget(bits)
    bounds = digit_bounds(p.context.moduli, bits)
    assert len(digits) == len(gadget) == len(bounds)
    for digit, bound in zip(digits, bounds, strict=True):
        assert np.abs(digit).max() <= bound
    total = [sum(int(d) * g for d, g in zip(column, gadget, strict=True)) for column in zip(*digits, strict=True)]
    assert [centred_mod(v, q) for v in total] == integers(p.context, x)


@pytest.mark.parametrize("bits", [0, 8, 30])
def test_relinearisation_keeps_the_message_for_any_digits(p: Party, bits: int) -> None:
    rng = random.Random(bits)
    a, b = vector(rng, p.n, p.t), vector(rng, p.n, p.t)
    xy = p.evaluator.multiply(p.encrypt(a), p.encrypt(b))
    assert p.decrypt(p.evaluator.relinearize(xy, p.keys.relin_keys(bits))) == p.product(a, b)


# --- encoders


def test_slots_are_those_of_the_ring() -> None:
    p = party("slots_of_64")
    rng = random.Random(8)
    a, b = vector(rng, p.n, p.t), vector(rng, p.n, p.t)
    x, y = p.encoder.encode(a), p.encoder.encode(b)
    product = [v % p.t for v in negacyclic(x.coefficients, y.coefficients)]
    made = type(x)(p.context, tuple(product))
    assert p.encoder.decode(made) == [u * v % p.t for u, v in zip(a, b, strict=True)]


def test_encoders_take_what_is_an_integer(p: Party) -> None:
    t = p.t
    shown = [*range(-2, 5), t - 1, -(t // 2)]
    for values in (shown, tuple(shown), np.array(shown), np.array(shown, dtype=object), map(int, shown)):
        plain = p.encoder.encode(values)
        assert p.encoder.decode(plain)[: len(shown)] == [v % t for v in shown]
        assert p.encoder.decode(plain)[len(shown) :] == [0] * (p.n - len(shown))
    signed = p.encoder.decode(p.encoder.encode([-1, 1, (t - 1) // 2, -(t // 2), t - 2]), signed=True)
    assert signed[:5] == [-1, 1, (t - 1) // 2, -(t // 2), -2]
    assert p.encoder.encode([]) == p.encoder.encode([0] * p.n)
    assert p.encoder.encode(np.array([True, False])) == p.encoder.encode([1])
    assert p.encoder.encode(np.array(5)) == p.encoder.encode(np.array(["5"])) == p.encoder.encode([5])


def test_encoders_take_every_type_and_layout(p: Party) -> None:
    """Case B10 in an encoder: the same plaintext, whatever the values are held in."""
    encode, numbers = p.encoder.encode, [0, 7, 100, 1, 2, 3]
    plain = encode(numbers)
    for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "<i4", ">i4", ">u8", "f2", "f4", "f8", ">f8", "O"):
        array = np.array(numbers, dtype=code)
        backwards, square = array[::-1].copy()[::-1], np.asfortranarray(np.stack([array, array]))
        frozen = array.copy()
        frozen.setflags(write=False)
        for held in (array, backwards, square[1], np.repeat(array, 3)[::3], frozen, array.tolist(), list(array)):
            assert encode(held) == plain, code
    for kind in (str, "{:.2f}".format, "{}e0".format, Decimal, Fraction, np.float32, np.longdouble, np.int8, np.array):
        assert encode([kind(x) for x in numbers]) == plain, kind
    assert encode([Decimal("7E1"), "700e-1", "+7.0e1", Fraction(140, 2), 70.0]) == encode([70] * 5)
    below = [-7, Decimal(-7), "-7", -7.0, np.int8(-7)]
    assert p.encoder.decode(encode(below), signed=True)[:5] == [-7] * 5
    if p.t > 2**53:
        assert encode([str(2**53 + 1), Decimal(2**53 + 1)]) == encode([2**53 + 1] * 2)


def test_encoders_refuse_the_rest(p: Party) -> None:
    t = p.t
    for values, words in (
        ([0, t], f"value 1 is {t}"),
        ([-(t // 2) - 1], "value 0 is"),
        ([0, 0, 1.5], "value 2 is 1.5"),
        ([0.1], "value 0 is 0.1; plaintexts take whole numbers: scale them first"),
        (["1.5"], "value 0 is '1.5'"),
        ([Decimal("0.5")], "value 0 is Decimal"),
        ([0, Fraction(1, 3)], "value 1 is Fraction"),
        ([2.0**53], r"value 0 is 9007199254740992.0: from 2\^53 on not every integer has such a float"),
        ([np.float32(2**24)], r"from 2\^24 on"),
        ([0, np.inf], "value 1 is inf"),
        (np.array([0.0, np.nan]), "value 1 is"),
        ([Decimal("NaN")], "value 0 is"),
        ([Decimal("1E+999999999")], "value 0 is"),
        *(
            ([text], "value 0 is")
            for text in ("", " 1", "1_0", "0x1", "\u0661", "1,0", "nan", "1e9999", "9" * 401, "1\0")
        ),
        ([np.timedelta64(1)], "value 0 is"),
        ([np.ma.masked], "value 0 is"),
        ([b"1"], "value 0 is"),
        ([10**5000], "value 0 is an integer of 16610 bits"),
        ([1j], "value 0 is"),
        ([None], "value 0"),
        (np.zeros((2, 2), dtype=int), "value 0"),
        (5, "sequence of integers, not int"),
        ([0] * (p.n + 1), f"{p.n + 1} values don't fit into {p.n} places"),
    ):
        with pytest.raises(UsageError, match=words):
            p.encoder.encode(values)


# --- refusals


def test_mixed_keys_and_parameters_are_named(p: Party) -> None:
    other = KeyGenerator(p.context)
    mine, theirs = p.encrypt([1]), Encryptor(other.public_key).encrypt(p.encoder.encode([1]))
    ids = (p.keys.public_key.key_id, other.public_key.key_id)
    ev, product = p.evaluator, p.evaluator.multiply(mine, mine)
    for refused in (
        lambda: mine + theirs,
        lambda: mine - theirs,
        lambda: mine * theirs,
        lambda: sum([mine, theirs]),
        lambda: ev.dot([mine, mine], [mine, theirs]),
        lambda: ev.relinearize(product, other.relin_keys()),
        lambda: p.decryptor.decrypt(theirs),
    ):
        with pytest.raises(KeyRefusedError) as refusal:
            refused()
        assert all(key in str(refusal.value) for key in ids)
    for name in set(KINDS) - {k for k in KINDS if party(k) is p}:
        far = party(name)
        foreign = far.encrypt([1])
        for refused in (lambda f=foreign: mine + f, lambda f=foreign: p.decryptor.decrypt(f),
                        lambda f=far: mine + f.encoder.encode([1]),
                        lambda f=far: p.public.encrypt(f.encoder.encode([1])),
                        lambda f=far: ev.relinearize(product, f.relin),
                        lambda f=far: p.encoder.decode(f.encoder.encode([1]))):  # fmt: skip
            with pytest.raises(UsageError, match=r"the parameters differ: (moduli|plaintext modulus t) .* and "):
                refused()


def test_what_is_no_operand_is_refused(p: Party) -> None:
    x, ev = p.encrypt([1, 2]), p.evaluator
    product = ev.multiply(x, x)
    for refused in (
        lambda: ev.multiply(product, x),
        lambda: ev.square(product),
        lambda: ev.multiply(x, x, "exact"),
        lambda: ev.dot([x], [x, x]),
        lambda: ev.dot([], []),
        lambda: ev.dot([x] * 4097, [x] * 4097),
        lambda: ev.add_many([]),
        lambda: ev.add(x, p.encoder.encode([1])),
        lambda: ev.add_plain(x, x),
        lambda: ev.multiply_plain(x, p.relin),
        lambda: ev.relinearize(product, p.keys.public_key),
        lambda: ev.add(x, 3),
        lambda: x - x,
        lambda: x * p.encoder.encode([0]),
        lambda: Encryptor(p.context),
    ):
        with pytest.raises(UsageError):
            refused()
    for wrong in (lambda: x + 3, lambda: 3 + x, lambda: x * 2, lambda: 2 * x):
        with pytest.raises(UsageError, match="a Plaintext is needed, not int"):
            wrong()
    for wrong in (lambda: np.int64(2) * x, lambda: x / x):
        with pytest.raises((TypeError, UsageError)):
            wrong()


def test_operations_change_nothing(p: Party) -> None:
    x, y = p.encrypt([1, 2]), p.encrypt([3])
    before = x.to_bytes()
    p.evaluator.relinearize(x * y + x, p.relin)
    assert x.to_bytes() == before
    for array in (x.parts, p.keys.public_key.polys, p.relin.polys, (x + y).parts, (x * y).parts):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0, 0] = 1
    for name in ("parts", "noise", "factor", "context"):
        with pytest.raises(AttributeError):
            setattr(x, name, None)
    with pytest.raises(AttributeError):
        p.context.t = 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        # case B25, the whole kind
        ({"t": 1000003}, "1000003 is prime but not = 1 mod 2N = 8192.* near it: 974849 or 1032193"),
        ({"t": 2048383}, "127"),
        ({"t": 1}, "2 or more"),
        ({"t": 0}, "2 or more"),
        ({"t": 4096}, "even"),
        ({"t": 1.5}, "integer"),
        ({"name": "n4096_q107", "t": 65537}, "unknown parameter set"),
        ({"name": None, "n": 1000, "moduli": [132120577], "t": 257}, "not a power of two"),
        ({"name": None, "n": 3, "moduli": [132120577], "t": 257}, "not a power of two"),
        ({"name": None, "n": 1024, "moduli": [12289], "t": 40961}, "not below the ciphertext modulus"),
        ({"name": None, "n": 1024, "moduli": [132120577, 134250497], "t": 12289}, "128-bit security"),
        ({"name": None, "n": 1024, "moduli": [2**61 - 1], "t": 12289}, "128-bit security.*N = 1024 carries 27 bits"),
        ({"name": None, "n": 64, "moduli": [2**31 - 1], "t": 257}, "128-bit security"),
        ({"name": None, "n": 4096, "moduli": [2**61 + 1], "t": 65537}, "odd prime below"),
        ({"name": None, "n": 4096, "moduli": [2**40], "t": 65537}, "odd prime below"),
        ({"name": None, "n": 4096, "moduli": [], "t": 65537}, "1 to 16"),
        ({"name": None, "n": 8192, "moduli": [2**31 - 1] * 2, "t": 65537}, "twice"),
        ({"name": None, "n": 4096, "moduli": "abc", "t": 65537}, "list of integers"),
        ({"name": None, "n": 4096, "t": 65537}, "name of a set, or n and moduli"),
        ({"n": 4096, "t": 65537}, "name of a set, or n and moduli"),
        ({"name": "insecure_n64_q106", "t": 257}, "insecure=True"),
        ({"t": 132120577, "batching": False}, "shares the prime"),
    ],
)
def test_parameters_are_refused_when_they_are_made(arguments: dict, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        Context(**{"name": "n4096_q106", **arguments})


def test_insecure_parameters_are_marked() -> None:
    marked = Context(n=64, moduli=[2**31 - 1], t=257, insecure=True)
    assert marked.insecure
    p = party("words_of_64")
    for thing in (marked, p.encrypt([1]), p.keys.public_key, p.keys.secret_key, p.relin, p.encoder.encode([1])):
        assert "INSECURE" in repr(thing)
    secure = Context("n4096_q106", t=65537, insecure=True)
    assert not secure.insecure
    assert secure == Context(n=4096, moduli=secure.moduli, t=65537)
    assert secure.name == Context(n=4096, moduli=secure.moduli, t=65537).name == "n4096_q106"
    assert Context("n4096_q106", t=65537) != Context("n4096_q106", t=65537, batching=False)


def test_an_encryptor_refuses_a_t_that_no_fresh_ciphertext_carries() -> None:
    context = Context("n1024_q26", t=40961)
    with pytest.raises(NoiseError, match=r"encrypt: to be decrypted for certain, the result needs .* 26\.0"):
        Encryptor(KeyGenerator(context).public_key)
    plain = CoefficientEncoder(context).encode([5, -6])
    keys = KeyGenerator(context)
    assert BatchEncoder(context).slots == 1024
    assert Encryptor(keys.secret_key).encrypt(plain).size == 2
