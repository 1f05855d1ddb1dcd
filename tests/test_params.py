"""Parameter sets, plaintext moduli, and the generated tables."""

from __future__ import annotations

import copy
import math
import pickle
import random

import pytest

from pybfv import ring
from pybfv.errors import PlanError
from pybfv.params import (
    KEY_CEILINGS,
    MAX_PRODUCTS,
    MAX_SUMS,
    SECURITY_LIMITS,
    SETS,
    ParameterSet,
    _arith,
    batching_primes,
    check_plain_modulus,
    factor_batching,
    gen,
    get_set,
)

DIMENSIONS = [2**k for k in range(3, 15)]
Q109 = (132120577, 134250497, 134348801, 268369921)


def refusal(function, *arguments, **named) -> str:
    with pytest.raises(PlanError) as caught:
        function(*arguments, **named)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_code == 78
    return message


def test_generated_files_are_current(capsys):
    assert gen.main(["--check"]) == 0, capsys.readouterr().out


def test_check_notices_a_difference(monkeypatch, capsys):
    source = gen.load()
    source["sets"]["n1024_q26"]["n"] = 2048
    monkeypatch.setattr(gen, "load", lambda: source)
    assert gen.main(["--check"]) == 1
    out = capsys.readouterr().out
    assert "+    X(n1024_q26, 2048u, 1u, 0)" in out
    assert "_table.py" in out


def test_gen_refuses_other_arguments():
    assert gen.main(["--force"]) == 2


def test_the_sets_are_the_published_ones():
    got = {name: (ps.n, len(ps.primes), round(ps.log2_q, 2), ps.basis) for name, ps in SETS.items()}
    new, old = "2024/463", "2018 standard"
    assert got == {
        "n1024_q26": (1024, 1, 26.0, new),
        "n2048_q53": (2048, 2, 53.0, new),
        "n4096_q80": (4096, 3, 79.98, new),
        "n4096_q106": (4096, 4, 105.98, new),
        "n8192_q133": (8192, 5, 132.98, new),
        "n8192_q161": (8192, 6, 160.98, new),
        "n8192_q187": (8192, 7, 186.97, new),
        "n8192_q214": (8192, 8, 214.0, new),
        "n16384_q430": (16384, 16, 430.0, new),
        "n1024_q27": (1024, 1, 26.98, old),
        "n2048_q54": (2048, 2, 53.98, old),
        "n4096_q109": (4096, 4, 108.98, old),
        "insecure_n16_q53": (16, 2, 53.0, "none"),
        "insecure_n64_q106": (64, 4, 105.98, "none"),
        "insecure_n64_q214": (64, 8, 214.0, "none"),
        "insecure_n256_q133": (256, 5, 132.98, "none"),
        "insecure_n1024_q133": (1024, 5, 132.98, "none"),
    }
    assert SETS["n4096_q109"].primes == Q109
    assert [name.startswith("insecure_") for name in SETS] == [ps.insecure for ps in SETS.values()]
    for ps in SETS.values():
        assert all(p % 2**15 == 1 for p in ps.primes), "one family serves every N"
        assert ps.q < 2 ** SECURITY_LIMITS.get(ps.n, {"2018 standard": 999})["2018 standard"] or ps.insecure


def test_accumulator_limits_are_exact():
    assert set(MAX_PRODUCTS) == set(MAX_SUMS) == {p for ps in SETS.values() for p in ps.primes}
    for p in MAX_PRODUCTS:
        top = (p - 1) ** 2
        assert MAX_PRODUCTS[p] * top < 2**64 <= (MAX_PRODUCTS[p] + 1) * top
        assert MAX_SUMS[p] * (p - 1) < 2**32 <= (MAX_SUMS[p] + 1) * (p - 1)


def test_every_dimension_has_ceilings():
    assert list(KEY_CEILINGS) == DIMENSIONS


def test_a_set_is_a_value():
    ps = SETS["n4096_q109"]
    assert ParameterSet("n4096_q109", 4096, Q109) == ps
    assert pickle.loads(pickle.dumps(ps)) == ps == copy.deepcopy(ps)
    assert ps.q == math.prod(Q109)
    with pytest.raises(AttributeError):
        ps.n = 8192


def test_unknown_set_lists_the_known_ones():
    for name in ("n4096", "", None, 3):
        message = refusal(get_set, name)
        assert all(known in message for known in SETS)
    assert get_set("n4096_q80") is SETS["n4096_q80"]


@pytest.mark.parametrize(
    ("n", "parts"),
    [
        (1000, ["N = 1000", "512 or 1024"]),
        (3, ["N = 3", "smallest is 8"]),
        (0, ["smallest is 8"]),
        (-4096, ["smallest is 8"]),
        (4, ["smallest is 8"]),
        (32768, ["largest is 16384"]),
        (2**300, ["largest is 16384"]),
        (4096.0, ["must be an integer"]),
        ("4096", ["must be an integer"]),
        (True, ["must be an integer"]),
    ],
)
def test_bad_dimensions(n, parts):
    message = refusal(ParameterSet, "mine", n, Q109)
    assert all(part in message for part in parts), message


@pytest.mark.parametrize(
    ("n", "primes", "parts"),
    [
        (4096, (), ["0 primes"]),
        (4096, None, ["list of integers"]),
        (4096, (1.5,), ["must be an integer"]),
        (4096, (134250497, 134250497), ["134250497 is given twice"]),
        (4096, (1000003,), ["not = 1 mod 2N = 8192", "974849 or 1032193"]),
        (4096, (1000001,), ["not prime", "974849 or 1032193"]),
        (4096, (2**31 - 1,), ["outside", "near it"]),
        (4096, (1,), ["outside", "40961"]),
        (4096, (2,), ["outside"]),
        (4096, (-40961,), ["outside"]),
        (16384, batching_primes(16384)[:17], ["17 primes"]),
        (1024, Q109[:2], ["54.0", "26 bits by ePrint 2024/463", "27 by the 2018 standard", "N = 4096"]),
        (2048, (*SETS["n2048_q53"].primes, 12289), ["N = 4096", "insecure"]),
        (64, Q109[:1], ["N = 64 is too small", "N = 2048"]),
        (8192, SETS["n16384_q430"].primes, ["N = 16384"]),
        (16384, batching_primes(16384)[-16:], ["no N up to 16384"]),
    ],
)
def test_bad_primes_and_insecure_moduli(n, primes, parts):
    message = refusal(ParameterSet, "mine", n, primes)
    assert all(part in message for part in parts), message


def test_insecure_sets_need_flag_and_name():
    assert "begin with insecure_" in refusal(ParameterSet, "mine", 64, Q109, True)
    assert "insecure=True" in refusal(ParameterSet, "insecure_mine", 64, Q109)
    assert "insecure=True" in refusal(ParameterSet, "insecure_mine", 4096, Q109)
    assert refusal(ParameterSet, "", 4096, Q109)
    assert ParameterSet("insecure_mine", 64, Q109, True).basis == "none"
    assert ParameterSet("insecure_mine", 4096, Q109, True).basis == "none", "the mark wins over the limit"


def test_limit_is_on_q_not_on_its_bits_rounded():
    # 2^26 is the limit for N = 1024: the largest usable prime below it passes, the smallest above does not.
    below = next(p for p in range(2**26 - 2047, 0, -2048) if ring.is_prime(p))
    above = next(p for p in range(2**26 + 1, 2**27, 2048) if ring.is_prime(p))
    assert ParameterSet("mine", 1024, (below,)).basis == "2024/463"
    assert ParameterSet("mine", 1024, (above,)).basis == "2018 standard"


@pytest.mark.parametrize("n", DIMENSIONS)
def test_batching_primes(n):
    primes = batching_primes(n)
    assert list(primes) == sorted(set(primes))
    used = {p for ps in SETS.values() for p in ps.primes} | {1073692673}
    assert not used & set(primes)
    assert all(p < 2**30 and p % (2 * n) == 1 and ring.is_prime(p) for p in primes)
    by_length = {bits: [p for p in primes if p.bit_length() == bits] for bits in range(2, 31)}
    for bits in range(2, (2 * n).bit_length() + 8):
        exist = [p for p in range(2 * n + 1, 2**bits, 2 * n) if p >= 2 ** (bits - 1) and ring.is_prime(p)]
        assert len(by_length[bits]) == min(4, len(exist))
        if exist:
            assert {exist[0], exist[-1]} <= set(by_length[bits]), "the smallest and the largest"
    assert all(len(by_length[bits]) == 4 for bits in range((2 * n).bit_length() + 8, 30))
    assert len(by_length[30]) == 10


def test_batching_primes_of_a_bad_dimension():
    assert "512 or 1024" in refusal(batching_primes, 1000)


@pytest.mark.parametrize("n", [8, 64, 1024, 4096, 16384])
def test_factor_batching_inverts_the_product(n):
    rng = random.Random(n)
    for _ in range(60):
        factors = tuple(sorted(rng.sample(batching_primes(n), rng.randint(1, 12))))
        assert factor_batching(math.prod(factors), n) == factors


def test_factor_batching_of_unlisted_primes():
    assert factor_batching(974849 * 1032193, 4096) == (974849, 1032193)
    assert 974849 not in batching_primes(4096)
    assert factor_batching(1073741441, 8) == (1073741441,)
    assert factor_batching(65537, 4096) == (65537,)


@pytest.mark.parametrize(
    ("t", "parts"),
    [
        (1000003, ["1000003 is prime but not = 1 mod 2N = 8192", "no slots", "974849 or 1032193"]),
        (127**3, ["prime factor 127", "mod 2N = 8192", "1990657 or 2056193"]),
        (1, ["2 or more", "40961"]),
        (0, ["2 or more", "40961"]),
        (-7, ["2 or more"]),
        (2, ["even"]),
        (1000000, ["even", "974849 or 1032193"]),
        (65537**2, ["divisible by 65537^2"]),
        (65537 * 1000003, ["prime factor 1000003", "8192"]),
        (3**68, ["prime factor 3"]),
        (2**61 - 1, ["is prime but not = 1 mod 2N"]),
        (2**107 - 1, ["could be found"]),
        (2**429 - 1, ["a number of 429 bits"]),
        (65537 * 274876858369, ["could be found"]),
        (6.5, ["must be an integer"]),
        (True, ["must be an integer"]),
        (None, ["must be an integer"]),
    ],
)
def test_moduli_without_slots(t, parts):
    message = refusal(factor_batching, t, 4096)
    assert all(part in message for part in parts), message


def test_a_prime_above_30_bits_is_named():
    p = next(p for p in range(2**30 + 1, 2**31, 8192) if ring.is_prime(p))
    assert "not below 2^30" in refusal(factor_batching, p, 4096)


def test_check_plain_modulus():
    ps = SETS["n4096_q109"]
    assert check_plain_modulus(ps, 65537, batched=True) == 65537
    for t in (2, 2**40, 1000003, 127**3, 2**108):
        assert check_plain_modulus(ps, t, batched=False) == t
    for t, batched, part in (
        (1000003, True, "974849 or 1032193"),
        (127**3, True, "prime factor 127"),
        (2**20, True, "even"),
        (1, True, "40961"),
        (1, False, "2 is the smallest"),
        (0, False, "2 is the smallest"),
        (-5, False, "2 is the smallest"),
        (ps.q, False, "larger set"),
        (ps.q + 2, True, "larger set"),
        (2**500, False, "larger set"),
        (134250497, True, "shares the prime 134250497"),
        (2 * 134250497, False, "coprime"),
        ("65537", False, "must be an integer"),
    ):
        assert part in refusal(check_plain_modulus, ps, t, batched=batched)
    assert "n1024_q26" in refusal(check_plain_modulus, SETS["n1024_q26"], 2**27, batched=False)


def test_both_prime_tests_agree():
    rng = random.Random(3)
    samples = [*range(-3, 2000), *(rng.randrange(2**30) for _ in range(300)), 561, 3215031751, 25326001]
    for x in samples:
        assert _arith.is_prime(x) == ring.is_prime(x), x
    assert not _arith.is_prime(3825123056546413051)
    assert _arith.is_prime(2**61 - 1)
    with pytest.raises(ValueError, match="below"):
        _arith.is_prime(_arith.PROVEN_BELOW)
