"""The limb family against Python integers: its primitives, and its commands on one simulated DPU."""

from __future__ import annotations

import ctypes
import math
import random
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybfv import native
from pybfv.params import SETS
from pybfv.ring import negacyclic

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = Path(native.__file__).parent / "dpu"
CHAIN = SETS["n8192_q214"].primes
LIMBS = (1, 2, 4, 8)
PAPER = {1: "n1024_q27", 2: "n2048_q54", 4: "n4096_q109", 8: "n8192_q214"}
ADD, SUB, SUM, SUM_LAZY, PRODUCT, TENSOR = 0x201, 0x202, 0x203, 0x204, 0x211, 0x212
FRESH, INTEGER = 1, 2


def compile_shared(folder: Path, name: str, sources: list[str | Path], *flags: str) -> ctypes.CDLL:
    out = folder / f"{name}.so"
    common = ["cc", "-std=c11", "-O1", "-shared", "-fPIC", "-pthread", f"-I{ROOT}/dpu/core"]
    subprocess.run([*common, *flags, "-o", out, *sources, "-ldl"], check=True)
    return ctypes.CDLL(str(out))


def runs(rng: random.Random, bits: int) -> int:
    """A number of at most ``bits`` bits that come in runs."""
    x, filled = 0, 0
    while filled < bits:
        length = rng.choice((1, 3, 8, 16, 31, 32, 40))
        x |= rng.getrandbits(1) * ((1 << length) - 1) << filled
        filled += length
    return x & ((1 << bits) - 1)


def words(x: int, count: int) -> bytes:
    return (x % (1 << 32 * count)).to_bytes(4 * count, "little")


# ---- primitives ----------------------------------------------------------------------------------

SOURCE = """
#include "limb.h"
#define EACH(call) switch (limbs) { case 1: call(1); break; case 2: call(2); break; case 4: call(4); break; \\
    default: call(8); break; }
uint64_t mul(uint32_t a, uint32_t b) { return wide_mul(a, b); }
uint64_t sqr(uint32_t a) { return wide_sqr(a); }
uint64_t mac(uint64_t s, uint32_t a, uint32_t b) { return wide_mac(s, a, b); }
uint32_t lo(uint32_t a, uint32_t b) { return wide_lo(a, b); }
uint32_t hi(uint32_t a, uint32_t b) { return wide_hi(a, b); }
uint32_t shoup(uint32_t y, uint32_t w, uint32_t s, uint32_t p) { return wide_shoup_lazy(y, w, s, p); }
uint32_t carry;
#define F(name, ...) void name(__VA_ARGS__)
F(add, uint32_t *r, const uint32_t *a, const uint32_t *b, uint32_t limbs)
#define C(n) carry = limb_add(r, a, b, n)
{ EACH(C) }
#undef C
F(sub, uint32_t *r, const uint32_t *a, const uint32_t *b, uint32_t limbs)
#define C(n) carry = limb_sub(r, a, b, n)
{ EACH(C) }
#undef C
F(product, uint32_t *r, const uint32_t *a, const uint32_t *b, uint32_t limbs)
#define C(n) limb_mul(r, a, b, n)
{ EACH(C) }
#undef C
F(limb_mac_acc, uint32_t *r, const uint32_t *a, const uint32_t *b, uint32_t limbs)
#define C(n) limb_mac(r, a, b, n)
{ EACH(C) }
#undef C
F(add_mod, uint32_t *r, const uint32_t *a, const uint32_t *b, const struct limb_modulus *m, uint32_t limbs)
#define C(n) limb_add_mod(r, a, b, m->q, n)
{ EACH(C) }
#undef C
F(sub_mod, uint32_t *r, const uint32_t *a, const uint32_t *b, const struct limb_modulus *m, uint32_t limbs)
#define C(n) limb_sub_mod(r, a, b, m->q, n)
{ EACH(C) }
#undef C
F(mul_mod, uint32_t *r, const uint32_t *a, const uint32_t *b, const struct limb_modulus *m, uint32_t limbs)
#define C(n) limb_mul_mod(r, a, b, m, n)
{ EACH(C) }
#undef C
F(reduce, uint32_t *r, const uint32_t *x, const struct limb_modulus *m, uint32_t limbs)
#define C(n) limb_reduce_signed(r, x, m, n)
{ EACH(C) }
#undef C
F(modulus, struct limb_modulus *m, const uint32_t *q, uint32_t limbs) { limb_modulus_init(m, q, limbs); }
"""


@pytest.fixture(scope="module", params=["processor", "split"])
def primitives(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The primitives, asserting their ranges, over each body of the wide product."""
    folder = tmp_path_factory.mktemp("limb")
    (folder / "limb.c").write_text(SOURCE)
    flags = ["-DPYBFV_DEBUG", *(["-DBFV_WIDE_SPLIT"] if request.param == "split" else [])]
    library = compile_shared(folder, f"limb_{request.param}", [folder / "limb.c"], *flags)
    for name in ("mul", "sqr", "mac"):
        getattr(library, name).restype = ctypes.c_uint64
    for name in ("lo", "hi", "shoup"):
        getattr(library, name).restype = ctypes.c_uint32
    return library


class Cells:
    """Aligned words that a C function reads and writes, as integers."""

    def __init__(self, count: int, value: int = 0) -> None:
        self.array = (ctypes.c_uint64 * ((count + 1) // 2))()
        self.count = count
        ctypes.memmove(self.array, words(value, count), 4 * count)

    @property
    def value(self) -> int:
        return int.from_bytes(ctypes.string_at(self.array, 4 * self.count), "little")


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> (bits - 1) else x


def test_wide_products(primitives: ctypes.CDLL) -> None:
    rng = random.Random(1)
    for _ in range(2000):
        a, b = runs(rng, 32), runs(rng, 32)
        s = rng.randrange(2**64 - a * b)
        u = ctypes.c_uint32
        assert primitives.mul(u(a), u(b)) == a * b
        assert primitives.sqr(u(a)) == a * a
        assert primitives.mac(ctypes.c_uint64(s), u(a), u(b)) == s + a * b
        assert primitives.lo(u(a), u(b)) == a * b % 2**32
        assert primitives.hi(u(a), u(b)) == a * b >> 32
        p = rng.choice(CHAIN)
        w = b % p
        r = primitives.shoup(u(a), u(w), u((w << 32) // p), u(p))
        assert r < 5 * p
        assert (r - a * w) % p == 0


def constants(library: ctypes.CDLL, q: int, n: int) -> Cells:
    out, source = Cells(18), Cells(8, q)
    library.modulus(out.array, source.array, n)
    values = struct.unpack("<18I", words(out.value, 18))
    assert int.from_bytes(struct.pack("<8I", *values[:8]), "little") == q
    assert int.from_bytes(struct.pack("<8I", *values[8:16]), "little") == pow(2, 64 * (n + 1), q)
    assert (values[16] * q + 1) % 2**32 == 0
    return out


@pytest.mark.parametrize("n", LIMBS)
def test_limb_primitives(primitives: ctypes.CDLL, n: int) -> None:
    rng = random.Random(n)
    bits = 32 * n
    for q in (3, math.prod(CHAIN[:n]), math.prod(SETS[PAPER[n]].primes), 2 ** (bits - 1) - 1):
        m = constants(primitives, q, n)
        for _ in range(60):
            x, y = runs(rng, bits), runs(rng, bits)
            a, b, r, wide = Cells(n, x), Cells(n, y), Cells(n), Cells(2 * n)
            primitives.add(r.array, a.array, b.array, n)
            carry = ctypes.c_uint32.in_dll(primitives, "carry")
            assert (r.value, carry.value) == ((x + y) % 2**bits, x + y >> bits)
            primitives.sub(r.array, a.array, b.array, n)
            assert (r.value, carry.value) == ((x - y) % 2**bits, 2**32 - 1 if x < y else 0)
            primitives.product(wide.array, a.array, b.array, n)
            assert wide.value == x * y
            start = signed(runs(rng, 2 * bits + 32), 2 * bits + 32) // 4
            acc = Cells(2 * n + 1, start)
            primitives.limb_mac_acc(acc.array, a.array, b.array, n)
            assert signed(acc.value, 2 * bits + 32) == start + x * y
            primitives.reduce(r.array, acc.array, m.array, n)
            assert r.value == (start + x * y) % q

            x, y = rng.choice((0, 1 % q, q - 1, x % q)), rng.choice((0, q - 1, y % q))
            a, b = Cells(n, x), Cells(n, y)
            for name, expected in (("add_mod", x + y), ("sub_mod", x - y), ("mul_mod", x * y)):
                getattr(primitives, name)(r.array, a.array, b.array, m.array, n)
                assert r.value == expected % q, name
                same = Cells(n, x)
                getattr(primitives, name)(same.array, same.array, b.array, m.array, n)
                assert same.value == expected % q, name


# ---- commands on one DPU ----------------------------------------------------------------------------


class Set(ctypes.Structure):
    """struct dpu_set_t."""

    _fields_ = [(name, ctypes.c_uint32) for name in ["kind", "pad", "ranks", "pad2"]] + [("list", ctypes.c_void_p)]


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    sources = sorted((ROOT / "host_c" / "sim").glob("*.c"))
    return compile_shared(tmp_path_factory.mktemp("sim"), "sim", list(sources), f"-I{ROOT}/host_c/sim/include")


class Dpu:
    """One simulated DPU with the program for n limbs; MRAM is written and read as lists of integers."""

    def __init__(self, library: ctypes.CDLL, n: int, q: int, strict: bool = False) -> None:
        self.library, self.n, self.q, self.set = library, n, q, Set()
        kind = "strict" if strict else "sim"
        profile = f"backend=simulator,strict={int(strict)},seed=7".encode()
        self.check(library.dpu_alloc(1, profile, ctypes.byref(self.set)))
        self.check(library.dpu_load(self.set, str(PROGRAMS / f"bfv_limb{n}.{kind}.so").encode(), None))
        table = [*struct.unpack("<8I", words(q, 8)), *struct.unpack("<8I", words(pow(2, 64 * (n + 1), q), 8))]
        self.write(0, struct.pack("<18I", *table, -pow(q, -1, 2**32) % 2**32, 0))
        self.serial = 0

    def close(self) -> None:
        self.check(self.library.dpu_free(self.set))

    @staticmethod
    def check(error: int) -> None:
        assert error == 0, error

    def write(self, offset: int, data: bytes) -> None:
        self.check(self.library.dpu_copy_to(self.set, b"__sys_used_mram_end", offset, data, ctypes.c_size_t(len(data))))

    def put(self, offset: int, values: list[int]) -> None:
        self.write(offset, b"".join(words(x, self.n) for x in values))

    def get(self, offset: int, count: int, length: int = 0) -> list[int]:
        length = length or self.n
        buffer = ctypes.create_string_buffer(4 * length * count)
        size = ctypes.c_size_t(len(buffer))
        self.check(self.library.dpu_copy_from(self.set, b"__sys_used_mram_end", offset, buffer, size))
        step = 4 * length
        return [int.from_bytes(buffer.raw[i : i + step], "little") for i in range(0, step * count, step)]

    def run(self, command: int, *, tasklets: int = 11, log_n: int = 3, **fields: int) -> int:
        """Launches; the report's status."""
        self.serial += 1
        names = ["count", "first", "positions", "a", "b", "out", "stride_a", "stride_b", "stride_part", "tables"]
        assert set(fields) <= {*names, "flags", "primes"}
        head = [self.serial, command, tasklets, 0, fields.get("flags", 0), log_n, fields.get("primes", self.n), 0]
        args = struct.pack("<IH6B11I", *head, *(fields.get(name, 0) for name in names), 0)
        self.check(self.library.dpu_copy_to(self.set, b"bfv_args", 0, args, ctypes.c_size_t(56)))
        self.check(self.library.dpu_launch(self.set, 1))
        report = ctypes.create_string_buffer(16)
        self.check(self.library.dpu_copy_from(self.set, b"bfv_report", 0, report, ctypes.c_size_t(16)))
        serial, status, _ = struct.unpack("<IIQ", report.raw)
        assert serial == self.serial
        return status


@pytest.fixture
def dpu(simulator: ctypes.CDLL) -> Iterator:
    made: list[Dpu] = []

    def open_dpu(n: int, q: int, strict: bool = False) -> Dpu:
        made.append(Dpu(simulator, n, q, strict))
        return made[-1]

    yield open_dpu
    for one in made:
        one.close()


def residues(rng: random.Random, q: int, count: int) -> list[int]:
    return [rng.choice((0, q - 1, runs(rng, q.bit_length()) % q, rng.randrange(q))) for _ in range(count)]


A, B, OUT = 1 << 20, 2 << 20, 3 << 20


@pytest.mark.parametrize("strict", [False, True], ids=["faithful", "strict"])
@pytest.mark.parametrize("n", LIMBS)
def test_slices(dpu, n: int, strict: bool) -> None:
    rng = random.Random(10 * n + strict)
    level, widest = math.prod(SETS[PAPER[n]].primes), 2 ** (32 * n - 1) - 1
    for q, tasklets, positions, count in ((level, 1, 16, 3), (level, 11, 208, 2), (widest, 24, 640, 5)):
        one = dpu(n, q, strict)
        step = positions * 4 * n
        a, b = residues(rng, q, positions * count), residues(rng, q, positions * count)
        start = residues(rng, q, positions)
        one.put(A, a)
        one.put(B, b)
        shape = {"tasklets": tasklets, "count": count, "positions": positions, "a": A, "b": B, "out": OUT}
        for command, sign in ((ADD, 1), (SUB, -1)):
            assert one.run(command, **shape, stride_a=step, stride_b=step, stride_part=step) == 0
            expected = [(x + sign * y) % q for x, y in zip(a, b, strict=True)]
            assert one.get(OUT, positions * count) == expected
            # one operand for all terms, the result in the other's place
            one.put(B, b)
            assert one.run(command, **(shape | {"out": B}), stride_b=step, stride_part=step) == 0
            expected = [(a[i % positions] + sign * y) % q for i, y in enumerate(b)]
            assert one.get(B, positions * count) == expected
            one.put(B, b)
        total = [sum(a[i::positions]) for i in range(positions)]
        for command in (SUM, SUM_LAZY):
            one.put(OUT, start)
            assert one.run(command, **shape, stride_a=step) == 0
            assert one.get(OUT, positions) == [(s + t) % q for s, t in zip(start, total, strict=True)]
            assert one.run(command, **shape, stride_a=step, flags=FRESH) == 0
            assert one.get(OUT, positions) == [t % q for t in total]


def tensor(a: list[list[int]], b: list[list[int]]) -> list[list[int]]:
    cross = [x + y for x, y in zip(negacyclic(a[0], b[1]), negacyclic(a[1], b[0]), strict=True)]
    return [negacyclic(a[0], b[0]), cross, negacyclic(a[1], b[1])]


def plus(x: list[int], y: list[int]) -> list[int]:
    return [u + v for u, v in zip(x, y, strict=True)]


@pytest.mark.parametrize("log_n", [1, 4, 6, 8])
@pytest.mark.parametrize("n", LIMBS)
def test_products(dpu, n: int, log_n: int) -> None:
    """PRODUCT and TENSOR, reduced and as integers, whole and in ranges, from 0 and onto what is there."""
    rng = random.Random(100 * n + log_n)
    size, pairs = 1 << log_n, 1 if log_n == 8 else 3
    q = math.prod(CHAIN[:n]) if log_n % 4 == 0 else 2 ** (32 * n - 1) - 1  # the widest modulus there is
    one = dpu(n, q, strict=log_n == 4)
    a = [[residues(rng, q, size) for _ in range(2)] for _ in range(pairs)]
    b = [[residues(rng, q, size) for _ in range(2)] for _ in range(pairs)]
    if log_n == 6:
        a[0] = b[0] = [[q - 1] * size, [q - 1] * size]
    one.put(A, [x for pair in a for poly in pair for x in poly])
    one.put(B, [x for pair in b for poly in pair for x in poly])
    poly = size * 4 * n
    whole = [[0] * size] * 3
    for x, y in zip(a, b, strict=True):
        whole = [plus(s, t) for s, t in zip(whole, tensor(x, y), strict=True)]
    common = {"log_n": log_n, "a": A, "b": B, "out": OUT, "count": pairs, "stride_a": 2 * poly, "stride_b": 2 * poly}

    # the polynomial product takes the first halves: part 0 of the tensor
    assert one.run(PRODUCT, **common, tasklets=24, positions=size, flags=FRESH) == 0
    assert one.get(OUT, size) == [x % q for x in whole[0]]
    assert one.run(TENSOR, **common, tasklets=5, positions=size, stride_part=poly, flags=FRESH) == 0
    assert one.get(OUT, 3 * size) == [x % q for part in whole for x in part]

    # a range, onto residues
    count = min(16, size)
    first = size - count
    start = [residues(rng, q, count) for _ in range(3)]
    one.put(OUT, [x for part in start for x in part])
    place = {"first": first, "positions": count}
    assert one.run(TENSOR, **common, **place, tasklets=3, stride_part=count * 4 * n) == 0
    expected = [
        (s + x) % q for part, old in zip(whole, start, strict=True) for s, x in zip(old, part[first:], strict=True)
    ]
    assert one.get(OUT, 3 * count) == expected

    # over the integers, twice into one accumulator
    length = 2 * n + 2
    for turn in (1, 2):
        flags = INTEGER | (FRESH if turn == 1 else 0)
        assert one.run(TENSOR, **common, **place, stride_part=count * 4 * length, flags=flags) == 0
        found = [signed(x, 32 * length) for x in one.get(OUT, 3 * count, length)]
        assert found == [turn * x for part in whole for x in part[first:]]


SCALED = {
    "n4096_q109": (4, math.prod(SETS["n4096_q109"].primes)),
    "seal_72": (4, 68719403009 * 68719230977),
    "seal_174": (8, 8796092858369 * 8796092792833 * 17592186028033 * 17592185438209),
}


@pytest.mark.parametrize("level", SCALED)
def test_integer_tensor_of_centred_operands(dpu, level: str) -> None:
    """The scaled product's tensor: residues shifted by h = (q - 1)/2 are never negative; the shift comes out
    by sums of coefficients with the signs of X^N = -1. Any odd q will do, SEAL's among them."""
    rng = random.Random(3)
    n, q = SCALED[level]
    log_n = 5
    size = 1 << log_n
    h = (q - 1) // 2
    centred = [[rng.choice((-h, h, 0, -1, rng.randint(-h, h))) for _ in range(size)] for _ in range(3)]
    centred.append([-h] * size)
    one = dpu(n, q)
    one.put(A, [x + h for poly in centred[:2] for x in poly])
    one.put(B, [x + h for poly in centred[2:] for x in poly])
    length = 2 * n + 2
    fields = {"log_n": log_n, "a": A, "b": B, "out": OUT, "count": 1, "positions": size}
    assert one.run(TENSOR, **fields, stride_part=size * 4 * length, flags=INTEGER | FRESH) == 0
    found = [signed(x, 32 * length) for x in one.get(OUT, 3 * size, length)]

    def shift(*operands: list[int]) -> list[int]:
        ones = [h] * size
        out = [0] * size
        for x in operands:
            out = plus(out, negacyclic(x, ones))
        return plus(out, [len(operands) // 2 * y for y in negacyclic(ones, ones)])

    a0, a1, b0, b1 = centred
    shifts = shift(a0, b0), shift(a0, b1, a1, b0), shift(a1, b1)
    expected = [plus(t, u) for t, u in zip(tensor([a0, a1], [b0, b1]), shifts, strict=True)]
    assert found == [x for part in expected for x in part]


def test_bad_arguments_are_refused(dpu) -> None:
    one = dpu(2, math.prod(CHAIN[:2]))
    good = {"log_n": 6, "a": A, "b": B, "out": OUT, "count": 1, "positions": 16, "flags": FRESH}
    assert one.run(PRODUCT, **good) == 0
    ok, command, argument = 0, 1, 2
    assert one.run(PRODUCT, **(good | {"primes": 4})) == argument
    assert one.run(PRODUCT, **(good | {"first": 3})) == argument
    assert one.run(PRODUCT, **(good | {"first": 64})) == argument
    assert one.run(PRODUCT, **(good | {"positions": 65})) == argument
    assert one.run(PRODUCT, **(good | {"log_n": 15})) == argument
    assert one.run(PRODUCT, **(good | {"count": (1 << 16) + 1})) == argument
    assert one.run(PRODUCT, **good, tasklets=25) == argument
    assert one.run(0x101, **good) == command
    assert one.run(0, **good) == ok
    assert dpu(1, 97).run(ADD, count=1, positions=3, a=A, b=B, out=OUT) == argument


@pytest.mark.parametrize("n", LIMBS)
def test_paper_levels_in_ranges(dpu, n: int) -> None:
    """64 output coefficients of one product at each of the paper's sizes, and at N = 8192 with eight limbs."""
    rng = random.Random(n)
    level = SETS[PAPER[n]]
    q, size = math.prod(level.primes), level.n
    a, b = ([rng.randrange(q) for _ in range(size)] for _ in range(2))
    one = dpu(n, q)
    one.put(A, a)
    one.put(B, b)
    log_n = size.bit_length() - 1
    first = size // 2 - 32
    fields = {"log_n": log_n, "a": A, "b": B, "out": OUT, "count": 1, "first": first, "positions": 64}
    assert one.run(PRODUCT, **fields, flags=FRESH, tasklets=16) == 0
    expected = []
    for c in range(first, first + 64):
        low = sum(x * y for x, y in zip(a[: c + 1], b[c::-1], strict=True))
        high = sum(x * y for x, y in zip(a[c + 1 :], b[:c:-1], strict=True))
        expected.append((low - high) % q)
    assert one.get(OUT, 64) == expected
