"""For each asm statement of dpu/core: inputs, what must come out by Python's integers and by the twin in C, and the
instructions that it may take."""

from __future__ import annotations

import ctypes
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pybfv.params import SETS

from .blocks import ROOT, Run, blocks
from .interp import MASK, WRAM

CHAIN = SETS["n16384_q430"].primes
LOW_DIGIT = tuple(p for p in CHAIN if p & 0x8000)
"""The primes with a digit at 2^15, for which a product takes one instruction more."""
EDGES = (0, 1, 2, 0xFF, 0x100, 0xFF00FF, 0xFF00FF00, 0xFFFF, 0x10000, 0x1000000, 0x7FFFFFFF, 1 << 31, MASK - 1, MASK)

SOURCE = """
#include "limb.h"
#include "ntt_fast.h"
#include "terms.h"
#define EACH(call) switch (limbs) { case 1: call(1); break; case 2: call(2); break; case 4: call(4); break; \\
    case 8: call(8); break; default: call(16); break; }
typedef uint32_t *out;
typedef const uint32_t *in;
uint64_t twin_mul(uint32_t a, uint32_t b) { return wide_mul(a, b); }
uint64_t twin_sqr(uint32_t a) { return wide_sqr(a); }
uint64_t twin_mac(uint64_t s, uint32_t a, uint32_t b) { return wide_mac(s, a, b); }
uint64_t twin_sqr_mac(uint64_t s, uint32_t a) { return wide_sqr_mac(s, a); }
uint64_t twin_fold(uint32_t t, uint32_t m, uint32_t h) {
    const struct wide_lazy s = {t, m, h};
    return wide_lazy_fold(s);
}
uint32_t twin_bytes(uint32_t which, uint32_t a, uint32_t b) {
    return which == 0 ? wide_ll(a, b) : which == 1 ? wide_lh(a, b) : which == 2 ? wide_hl(a, b) : wide_hh(a, b);
}
uint32_t twin_shoup(uint32_t y, uint32_t w, uint32_t quotient, uint32_t p) {
    return wide_shoup_lazy(y, w, quotient, p);
}
uint32_t twin_add(out r, in a, in b, uint32_t limbs) {
    uint32_t c;
#define C(n) c = limb_add(r, a, b, n)
    EACH(C)
#undef C
    return c;
}
uint32_t twin_sub(out r, in a, in b, uint32_t limbs) {
    uint32_t c;
#define C(n) c = limb_sub(r, a, b, n)
    EACH(C)
#undef C
    return c;
}
void twin_sum_lazy(out sum, in a, uint32_t next, uint32_t terms, uint32_t limbs) {
#define C(n) limb_sum_lazy(sum, a, next, terms, n)
    EACH(C)
#undef C
}
void twin_add_mod(out r, in a, in b, in q) { limb_add_mod(r, a, b, q, 4); }
void twin_product(out r, in a, in b, uint32_t limbs) {
    if (limbs == 2) { limb_mul(r, a, b, 2); } else { limb_mul(r, a, b, 4); }
}
void twin_product_mac(out acc, in a, in b, uint32_t limbs) {
    if (limbs == 2) { limb_mac(acc, a, b, 2); } else { limb_mac(acc, a, b, 4); }
}
void twin_forward(out x, out y, uint32_t run, uint32_t w, uint32_t quotient, uint32_t p) {
    const struct ntt_fast t = ntt_fast_twiddle(w, quotient, p);
    ntt_fast_forward(x, y, run, &t);
}
void twin_inverse(out x, out y, uint32_t run, uint32_t w, uint32_t quotient, uint32_t p) {
    const struct ntt_fast t = ntt_fast_twiddle(w, quotient, p);
    ntt_fast_inverse(x, y, run, &t);
}
uint32_t twin_product_mod(uint32_t a, uint32_t b, uint32_t p) {
    const struct zq_mod mod = zq_mod_init(p);
    const struct ntt_fast_prime prime = ntt_fast_product(&mod);
    return ntt_fast_mul(a, b, &prime);
}
void twin_square_terms(uint64_t *s, in x, in y, uint32_t next, uint32_t terms) {
    (void)y;
    terms_square(s, x, next, terms);
}
void twin_product_terms(uint64_t *s, in x, in y, uint32_t next, uint32_t terms) {
    terms_product(s, x, y, next, terms);
}
void twin_sum_terms(uint64_t *s, in x, uint32_t next, uint32_t terms) { terms_sum(s, x, next, terms); }
"""


def twins(folder: Path) -> ctypes.CDLL:
    """The portable bodies, ranges asserted, over the DPU's product in C."""
    (folder / "twins.c").write_text(SOURCE)
    flags = ["-std=c11", "-O1", "-shared", "-fPIC", "-DPYBFV_DEBUG", "-DBFV_WIDE_SPLIT", f"-I{ROOT}/dpu/core"]
    subprocess.run(["cc", *flags, "-o", folder / "twins.so", folder / "twins.c"], check=True)
    library = ctypes.CDLL(str(folder / "twins.so"))
    for name in ("mul", "sqr", "mac", "sqr_mac", "fold"):
        getattr(library, f"twin_{name}").restype = ctypes.c_uint64
    for name in ("bytes", "shoup", "product_mod", "add", "sub"):
        getattr(library, f"twin_{name}").restype = ctypes.c_uint32
    return library


class Draw(random.Random):
    """Words that come in runs of equal bits, or from the edges."""

    def bits(self, count: int) -> int:
        x, filled = 0, 0
        while filled < count:
            length = self.choice((1, 3, 8, 16, 31, 32, 40))
            x |= self.getrandbits(1) * ((1 << length) - 1) << filled
            filled += length
        return x & ((1 << count) - 1)

    def word(self) -> int:
        return self.choice((self.choice(EDGES), self.bits(32), self.getrandbits(32)))

    def below(self, bound: int) -> int:
        drawn = (0, 1, bound - 1, bound // 2, self.randrange(bound), self.bits(bound.bit_length()))
        return self.choice(drawn) % bound

    def long(self, limbs: int) -> int:
        """A number of so many words; halves and differences that are zero or equal come often."""
        if self.random() < 0.3:
            part = self.bits(32 * max(limbs // 2, 1))
            return sum(part << 32 * i for i in range(0, limbs, max(limbs // 2, 1))) & ((1 << 32 * limbs) - 1)
        return sum(self.word() << 32 * i for i in range(limbs))


@dataclass(frozen=True)
class Case:
    block: str
    what: str
    at_most: int
    """Instructions that a run may take."""
    check: Callable[[Case, ctypes.CDLL, Draw], Run]
    """One run on drawn inputs, compared; AssertionError where something differs."""
    argument: int = 0
    steps: int = 1
    """What a run repeats: terms, of which ``at_most`` counts all."""

    def run(self, draw: Draw, memory: bytearray | None = None, **values: int) -> Run:
        return blocks()[self.block].run(draw, memory, **values)


def agree(*values: int) -> None:
    assert len(set(values)) == 1, [hex(v) for v in values]


# ---- products ------------------------------------------------------------------------------------


def _two(draw: Draw) -> tuple[int, int]:
    return draw.word(), draw.word()


def bytes_of(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    a, b = _two(draw)
    run = case.run(draw, **{"%1": a, "%2": b})
    x, y = (a >> 8 if case.argument & 2 else a) & 255, (b >> 8 if case.argument & 1 else b) & 255
    agree(run.values["%0"], x * y, library.twin_bytes(case.argument, a, b))
    return run


def mul(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    a, b = _two(draw)
    run = case.run(draw, a=a, b=b)
    agree(run.values["%0"], a * b, library.twin_mul(a, b))
    return run


def sqr(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    a = draw.word()
    run = case.run(draw, a=a)
    agree(run.values["%0"], a * a, library.twin_sqr(a))
    return run


def mac(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    a, b = _two(draw)
    total = draw.below((1 << 64) - a * b)
    run = case.run(draw, a=a, b=b, **{"%0": total})
    agree(run.values["%0"], total + a * b, library.twin_mac(ctypes.c_uint64(total), a, b))
    return run


def sqr_mac(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    a = draw.word()
    total = draw.below((1 << 64) - a * a)
    run = case.run(draw, a=a, **{"%0": total})
    agree(run.values["%0"], total + a * a, library.twin_sqr_mac(ctypes.c_uint64(total), a))
    return run


def fold(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    t, h = draw.word(), draw.word()
    m = draw.below((1 << 32) - (t >> 16))
    run = case.run(draw, t=t, m=m, h=h)
    agree(run.values["%0"], (t + (m << 16) + (h << 32)) % (1 << 64), library.twin_fold(t, m, h))
    return run


def _twiddle(case: Case, draw: Draw) -> tuple[int, int, int, dict[str, int]]:
    """A prime, a twiddle, its quotient, and the operands that hold them."""
    p = draw.choice(LOW_DIGIT if case.argument else [p for p in CHAIN if p not in LOW_DIGIT])
    w = draw.below(p)
    quotient = (w << 32) // p
    proth = p >> 16 | (p & 0x8000) << 16
    return p, w, quotient, {"w": w, "wh": w >> 16, "v": quotient, "vh": quotient >> 16, "c": proth}


def shoup(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    y = draw.word()
    p, w, quotient, operands = _twiddle(case, draw)
    run = case.run(draw, y=y, **operands)
    agree(run.values["r"], library.twin_shoup(y, w, quotient, p))
    assert run.values["r"] < 5 * p
    agree(run.values["r"] % p, y * w % p)
    return run


def product_mod(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    p = draw.choice(LOW_DIGIT if case.argument else [p for p in CHAIN if p not in LOW_DIGIT])
    bits, a, b = p.bit_length(), draw.below(p), draw.below(p)
    quotient = ((1 << 2 * bits) // p) << (31 - bits)
    constants = {"v": quotient, "vh": quotient >> 16, "c": p >> 16 | (p & 0x8000) << 16}
    multiples = {"p": p, "p2": 2 * p, "p4": 4 * p}
    run = case.run(draw, a=a, b=b, up=33 - bits, down=bits - 1, **constants, **multiples)
    agree(run.values["x"] & MASK, a * b % p, library.twin_product_mod(a, b, p))
    return run


# ---- memory --------------------------------------------------------------------------------------

PLACES = (0x100, 0x200, 0x300, 0x400)


def _memory(*contents: tuple[int, int]) -> bytearray:
    """WRAM with (value, words) at PLACES."""
    memory = bytearray(WRAM)
    for place, (value, words) in zip(PLACES, contents, strict=False):
        memory[place : place + 4 * words] = value.to_bytes(4 * words, "little")
    return memory


def _at(memory: bytearray, which: int, words: int) -> int:
    return int.from_bytes(memory[PLACES[which] : PLACES[which] + 4 * words], "little")


class Words:
    """An array of words for C, aligned to 8, with a guard behind it."""

    def __init__(self, value: int, count: int) -> None:
        self.count = count
        self.array = (ctypes.c_uint64 * (count // 2 + 2))()
        ctypes.memmove(self.array, value.to_bytes(4 * count, "little"), 4 * count)

    @property
    def value(self) -> int:
        return int.from_bytes(ctypes.string_at(self.array, 4 * self.count), "little")


def chain(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    n = case.argument
    a, b = draw.long(n), draw.long(n)
    minus = case.block.startswith("limb_sub")
    memory = _memory((0, n), (a, n), (b, n))
    result = draw.randrange(3)  # its own place, or in place of an operand
    run = case.run(draw, memory, r=PLACES[result], a=PLACES[1], b=PLACES[2])
    total = a - b if minus else a + b
    twin = Words(0, n)
    carry = (library.twin_sub if minus else library.twin_add)(twin.array, Words(a, n).array, Words(b, n).array, n)
    agree(_at(memory, result, n), total % (1 << 32 * n), twin.value)
    agree(run.values["c"], (total >> 32 * n) & MASK, carry)
    return run


def add_mod(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    q = draw.below(1 << 127) | 1
    a = draw.below(q)
    b = draw.choice((draw.below(q), (q - a) % q, (q - a - 1) % q, (q - a + 1) % q))
    memory, result = _memory((0, 4), (a, 4), (b, 4)), draw.randrange(3)
    limbs = {f"q{i}": q >> 32 * i & MASK for i in range(4)}
    run = case.run(draw, memory, r=PLACES[result], a=PLACES[1], b=PLACES[2], **limbs)
    twin = Words(0, 4)
    library.twin_add_mod(twin.array, Words(a, 4).array, Words(b, 4).array, Words(q, 4).array)
    agree(_at(memory, result, 4), (a + b) % q, twin.value)
    return run


def sum_lazy(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    n, terms = case.argument, case.steps
    values = [draw.long(n) & ((1 << 32 * n - 1) - 1) for _ in range(terms)]
    total = draw.below((1 << 32 * n + 31) - sum(values))
    following = n + draw.choice((0, 2, 8)) + n % 2  # words from one to the next, even
    packed = sum(value << 32 * following * k for k, value in enumerate(values))
    memory = _memory((total, n + 1), (packed, following * terms))
    end = PLACES[1] + 4 * following * terms
    run = case.run(draw, memory, s=PLACES[0], a=PLACES[1], next=4 * following, end=end)
    twin = Words(total, n + 1)
    library.twin_sum_lazy(twin.array, Words(packed, following * terms).array, following, terms, n)
    agree(_at(memory, 0, n + 1), total + sum(values), twin.value)
    return run


def product_of(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    n = case.argument
    a, b = draw.long(n), draw.long(n)
    memory = _memory((draw.long(2 * n), 2 * n), (a, n), (b, n))
    if n == 2:
        words = {"a1": a >> 32, "a0": a & MASK, "b1": b >> 32, "b0": b & MASK}
        run = case.run(draw, memory, r=PLACES[0], **words)
    else:
        run = case.run(draw, memory, to=PLACES[0], x=PLACES[1], y=PLACES[2])
    twin = Words(0, 2 * n)
    library.twin_product(twin.array, Words(a, n).array, Words(b, n).array, n)
    agree(_at(memory, 0, 2 * n), a * b, twin.value)
    return run


def product_mac(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    n = case.argument
    a, b = draw.long(n), draw.long(n)
    bits = 64 * n + 32
    acc = (draw.below((1 << bits - 1) - a * b) - draw.choice((0, 1 << bits - 1))) % (1 << bits)  # either sign
    memory = _memory((acc, 2 * n + 1), (a, n), (b, n))
    if n == 2:
        run = case.run(draw, memory, at=PLACES[0], a=PLACES[1], b=PLACES[2])
    else:
        run = case.run(draw, memory, at=PLACES[0], x=PLACES[1], y=PLACES[2], own=PLACES[3])
    twin = Words(acc, 2 * n + 1)
    library.twin_product_mac(twin.array, Words(a, n).array, Words(b, n).array, n)
    agree(_at(memory, 0, 2 * n + 1), (acc + a * b) % (1 << bits), twin.value)
    return run


def butterfly(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    p, w, quotient, operands = _twiddle(case, draw)
    forward, n = case.block == "ntt_fast_forward", case.steps
    bound = (10 if forward else 5) * p
    x, y = ([draw.below(bound) for _ in range(n)] for _ in range(2))
    packed = [sum(word << 32 * j for j, word in enumerate(words)) for words in (x, y)]
    memory = _memory((packed[0], n), (packed[1], n))
    places = {"px": PLACES[0], "py": PLACES[1], "end": PLACES[0] + 4 * n}
    run = case.run(draw, memory, **places, p5=5 * p, **operands)
    twin_x, twin_y = Words(packed[0], n), Words(packed[1], n)
    (library.twin_forward if forward else library.twin_inverse)(twin_x.array, twin_y.array, n, w, quotient, p)
    for found, twin in ((_at(memory, 0, n), twin_x), (_at(memory, 1, n), twin_y)):
        agree(found, twin.value)
    for j in range(n):
        left, right = twin_x.value >> 32 * j & MASK, twin_y.value >> 32 * j & MASK
        assert max(left, right) < bound
        first, second = (x[j] + w * y[j], x[j] - w * y[j]) if forward else (x[j] + y[j], (x[j] - y[j]) * w)
        agree(left % p, first % p)
        agree(right % p, second % p)
    return run


# ---- sums over terms -----------------------------------------------------------------------------

UNIT = 8
"""Words of a unit (BFV_UNIT)."""


def _fitting(draw: Draw, products: int) -> int:
    """A sum beside which 64 bits hold ``products``."""
    return draw.choice((0, (1 << 64) - 1 - products, draw.below((1 << 64) - products)))


def _residues(draw: Draw, count: int, p: int) -> list[int]:
    """All the same now and then: the largest of all, for one."""
    same = draw.below(p)
    return [same] * count if draw.random() < 0.3 else [draw.below(p) for _ in range(count)]


def products_of_terms(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    """Terms of two words (squares) or four, from any prime below 2^30 for which 64 bits hold so many."""
    terms, square = case.steps, case.block == "terms_square"
    operand = 2 if square else 4
    p = min(draw.choice((*CHAIN, (1 << 30) - 35)), 1 << 30 if terms < 4 else max(CHAIN))
    words = [_residues(draw, terms, p) for _ in range(operand)]
    first, second = (words, words) if square else (words[:2], words[2:])
    a = [*first, [x + y for x, y in zip(*first, strict=True)]]
    b = [*second, [x + y for x, y in zip(*second, strict=True)]]
    added = [sum(x * y for x, y in zip(a[i], b[i], strict=True)) for i in (0, 2, 1)]
    sums = [_fitting(draw, value) for value in added]
    lane, following = draw.randrange(UNIT), 2 * UNIT * draw.choice((1, 2, 5))
    to, places, unit = 0x100, (0x1000, 0x8000), 4 * UNIT
    memory, twin_s = bytearray(WRAM), (ctypes.c_uint64 * (3 * UNIT))()
    operands = [(ctypes.c_uint32 * (following * terms))() for _ in range(2)]
    for part, column in enumerate(words):
        for k, value in enumerate(column):
            at = places[part // 2] + part % 2 * unit + 4 * following * k
            memory[at : at + 4] = value.to_bytes(4, "little")
            operands[part // 2][following * k + part % 2 * UNIT + lane] = value
    for i, value in enumerate(sums):
        memory[to + 2 * unit * i : to + 2 * unit * i + 8] = value.to_bytes(8, "little")
        twin_s[i * UNIT + lane] = value
    given = {"x": places[0], "s": to, "next": 4 * following, "end": places[0] + 4 * following * terms}
    run = case.run(draw, memory, **given, **({} if square else {"y": places[1]}))
    (library.twin_square_terms if square else library.twin_product_terms)(twin_s, *operands, following, terms)
    for i, value in enumerate(sums):
        found = int.from_bytes(memory[to + 2 * unit * i : to + 2 * unit * i + 8], "little")
        agree(found, value + added[i], twin_s[i * UNIT + lane])
    return run


def sum_of_terms(case: Case, library: ctypes.CDLL, draw: Draw) -> Run:
    terms, count, next_words = case.steps, 8, draw.choice((8, 16, 32, 96))
    p = draw.choice((*CHAIN, 3))
    words = [_residues(draw, count, p) for _ in range(terms)]
    added = [sum(term[j] for term in words) for j in range(count)]
    sums = [draw.below(1 << 63) for _ in range(count)]
    memory, at, to = bytearray(WRAM), 0x1000, 0x100
    twin_x = (ctypes.c_uint32 * (next_words * terms))()
    for k, term in enumerate(words):
        for j, value in enumerate(term):
            place = at + 4 * (k * next_words + j)
            memory[place : place + 4] = value.to_bytes(4, "little")
            twin_x[k * next_words + j] = value
    for j, value in enumerate(sums):
        memory[to + 8 * j : to + 8 * j + 8] = value.to_bytes(8, "little")
    twin_s = (ctypes.c_uint64 * count)(*sums)
    run = case.run(draw, memory, x=at, s=to, next=4 * next_words, end=at + 4 * next_words * terms)
    library.twin_sum_terms(twin_s, twin_x, next_words, terms)
    for j in range(count):
        place = to + 8 * j
        agree(int.from_bytes(memory[place : place + 8], "little"), sums[j] + added[j], twin_s[j])
    return run


# ---- all of them ---------------------------------------------------------------------------------

CASES = (
    *(
        Case(f"wide_{name}", "8 x 8 bits", 1, bytes_of, argument=which)
        for which, name in enumerate(("ll", "lh", "hl", "hh"))
    ),
    Case("wide_mul", "32 x 32 -> 64 bits", 34, mul),
    Case("wide_sqr", "square of 32 bits", 21, sqr),
    Case("wide_mac", "product onto 64 bits", 36, mac),
    Case("wide_sqr_mac", "square onto 64 bits", 23, sqr_mac),
    Case("wide_lazy_fold", "three lazy words to 64 bits", 3, fold),
    Case("wide_shoup_lazy", "twiddle product mod p", 46, shoup),
    Case("wide_shoup_lazy", "twiddle product mod p, p with 2^15", 47, shoup, argument=1),
    Case("ntt_fast_mul", "product mod p", 70, product_mod),
    Case("ntt_fast_mul", "product mod p, p with 2^15", 71, product_mod, argument=1),
    *(
        Case(f"ntt_fast_{way}", f"butterfly, {way}{', p with 2^15' if low else ''}", 59 + low, butterfly, low)
        for way in ("forward", "inverse")
        for low in (0, 1)
    ),
    *(
        Case(f"ntt_fast_{way}", f"butterfly, {way}: a run of 4", 4 * 59, butterfly, steps=4)
        for way in ("forward", "inverse")
    ),
    *(
        Case("terms_square", f"variance step: a coefficient of {n} terms", 30 + 68 * n, products_of_terms, n, n)
        for n in (1, 3, 15)
    ),
    *(
        Case("terms_product", f"cross step: a coefficient of {n} terms", 30 + 111 * n, products_of_terms, n, n)
        for n in (1, 3, 7)
    ),
    *(Case("terms_sum", f"lazy sum: eight words of {n} terms", 40 + 14 * n, sum_of_terms, n, n) for n in (1, 2, 16)),
    *(
        Case(f"limb_{op}/{name}", f"chain of {n} words with its carry", count, chain, argument=n)
        for op in ("add", "sub")
        for n, name, count in ((1, "1", 6), (2, "2", 7), (4, "4", 12), (8, "8", 22), (16, "default", 42))
    ),
    Case("limb_add_mod", "128-bit sum mod q", 15, add_mod),
    *(
        Case(f"limb_sum_lazy/{name}", f"{32 * n}-bit lazy sum of {k} terms", each * k + once, sum_lazy, n, k)
        for n, name, each, once in ((1, "1", 5, 4), (2, "2", 6, 4), (4, "4", 9, 6), (8, "default", 15, 10))
        for k in (1, 3)
    ),
    Case("limb_mul_2", "Karatsuba 64 x 64 bits", 120, product_of, argument=2),
    Case("limb_mac_2", "Karatsuba 64 x 64 bits onto 160", 132, product_mac, argument=2),
    Case("limb_mul_4", "Karatsuba 128 x 128 bits", 402, product_of, argument=4),
    Case("limb_mac_4", "Karatsuba 128 x 128 bits onto 288", 422, product_mac, argument=4),
)
