/* Integers in limbs: `limbs` little-endian 32-bit words, value = sum x[i] 2^(32 i).
 *
 * `limbs` is 1, 2, 4 or 8 and a compile-time constant wherever a function is called; everything
 * inlines to straight code for that count. q is an odd modulus below 2^(32 limbs - 1), so that the
 * sum of two residues still fits.
 *
 * Lengths, here n for limbs:
 *     residue      n      in [0, q)
 *     product      2n     of two words of n limbs
 *     accumulator  2n+1   a signed sum of products, two's complement; LIMB_ACC(n) words with padding
 *     lazy sum     n+1    of up to 2^32 - 1 residues; LIMB_LAZY(n) words with padding
 *
 * Every array of two words or more is aligned to 8 bytes: the DPU loads and stores pairs.
 *
 * Carries. On the DPU the flag is visible to nobody but add/addc and sub/subc, and the compiler may
 * put an addition of its own between two statements: a chain is one asm statement, beside which
 * stands a twin in C that does the same.
 */
#ifndef PYBFV_LIMB_H
#define PYBFV_LIMB_H

#include <stddef.h>
#include <stdint.h>

#include "wide.h"

#define LIMB_MAX 8u
#define LIMB_ACC(limbs) (2u * (limbs) + 2u)
#define LIMB_LAZY(limbs) (((limbs) + 2u) & ~1u)

/* A local array of words, aligned for the DPU. */
#define LIMB_LOCAL(name, words) uint32_t name[words] __attribute__((aligned(8)))

/* Loops whose count is `limbs` are unrolled. */
#ifdef __clang__
#define LIMB_UNROLL _Pragma("unroll")
#else
#define LIMB_UNROLL _Pragma("GCC unroll 16")
#endif

/* Two limbs as one word of a 64-bit type: the same bytes on the little-endian machines that this is for. */
typedef uint64_t __attribute__((may_alias)) limb_pair;
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "pairs of limbs are little-endian");

/* q with what its reduction needs; in MRAM and WRAM the same. */
struct limb_modulus {
    uint32_t q[LIMB_MAX];  /* n limbs, the rest 0 */
    uint32_t r2[LIMB_MAX]; /* R^2 mod q for R = 2^(32 (n + 1)) */
    uint32_t neg_inv;      /* -1/q mod 2^32 */
    uint32_t reserved;     /* 0 */
};

_Static_assert(sizeof(struct limb_modulus) == 72, "limb_modulus is nine words of MRAM");

/* ---- chains --------------------------------------------------------------------------------- */

#ifdef DPU
#include "limb_asm.h"
#else

/* r = a + b; returns the carry, 0 or 1.
 * In: any words; limbs 1 or even, up to 16. Alias: r may be a or b. */
WIDE_INLINE uint32_t limb_add(uint32_t *r, const uint32_t *a, const uint32_t *b, uint32_t limbs) {
    if (limbs == 1) {
        const uint64_t sum = (uint64_t)a[0] + b[0];
        r[0] = (uint32_t)sum;
        return (uint32_t)(sum >> 32);
    }
    limb_pair *const rp = (limb_pair *)r;
    const limb_pair *const ap = (const limb_pair *)a, *const bp = (const limb_pair *)b;
    uint64_t carry = 0;
    LIMB_UNROLL for (uint32_t i = 0; i < limbs / 2; i++) {
        /* one of the two at most: where x + y wraps it is at most 2^64 - 2 */
        const uint64_t x = ap[i], sum = x + bp[i], all = sum + carry;
        carry = (uint64_t)(sum < x) | (uint64_t)(all < sum);
        rp[i] = all;
    }
    return (uint32_t)carry;
}

/* r = a - b; returns the borrow as a mask, 0 or all ones. In, Alias: as limb_add. */
WIDE_INLINE uint32_t limb_sub(uint32_t *r, const uint32_t *a, const uint32_t *b, uint32_t limbs) {
    if (limbs == 1) {
        const uint32_t mask = UINT32_C(0) - (uint32_t)(a[0] < b[0]);
        r[0] = a[0] - b[0];
        return mask;
    }
    limb_pair *const rp = (limb_pair *)r;
    const limb_pair *const ap = (const limb_pair *)a, *const bp = (const limb_pair *)b;
    uint64_t borrow = 0;
    LIMB_UNROLL for (uint32_t i = 0; i < limbs / 2; i++) {
        const uint64_t x = ap[i], y = bp[i], difference = x - y, all = difference - borrow;
        borrow = (uint64_t)(x < y) | (uint64_t)(difference < borrow);
        rp[i] = all;
    }
    return UINT32_C(0) - (uint32_t)borrow;
}

#endif

/* r = minus ? a - b : a + b; returns the carry, or -1 for a borrow, in two's complement.
 * In: minus 0 or all ones; limbs even. Alias: r may be a. */
WIDE_INLINE uint64_t limb_add_signed(uint32_t *r, const uint32_t *a, const uint32_t *b, uint32_t minus,
                                     uint32_t limbs) {
    WIDE_ASSERT((minus == 0 || minus == UINT32_MAX) && limbs % 2 == 0);
#ifdef DPU
    return minus != 0 ? (uint64_t)0 - (limb_sub(r, a, b, limbs) & 1) : limb_add(r, a, b, limbs);
#else
    /* a + ~b + 1 carries 1 where a - b borrows nothing; no branch, as the sign is a coin toss */
    const uint64_t mask = (uint64_t)minus << 32 | minus;
    uint64_t carry = minus & 1;
    LIMB_UNROLL for (uint32_t i = 0; i < limbs / 2; i++) {
        const uint64_t x = ((const limb_pair *)a)[i], sum = x + (((const limb_pair *)b)[i] ^ mask);
        const uint64_t all = sum + carry;
        carry = (uint64_t)(sum < x) | (uint64_t)(all < sum);
        ((limb_pair *)r)[i] = all;
    }
    return carry + mask;
#endif
}

/* x = mask ? -x : x (two's complement), any number of words. In: mask 0 or all ones. */
WIDE_INLINE void limb_negate_if(uint32_t *x, uint32_t mask, uint32_t words) {
    WIDE_ASSERT(mask == 0 || mask == UINT32_MAX);
    limb_pair *const pairs = (limb_pair *)x;
    const uint64_t wide_mask = (uint64_t)mask << 32 | mask;
    uint64_t carry = mask & 1;
    LIMB_UNROLL for (uint32_t i = 0; i < words / 2; i++) {
        const uint64_t y = (pairs[i] ^ wide_mask) + carry;
        carry &= (uint64_t)(y == 0);
        pairs[i] = y;
    }
    if (words % 2 != 0) {
        x[words - 1] = (x[words - 1] ^ mask) + (uint32_t)carry;
    }
}

/* r = |a - b|; returns all ones when a < b, else 0. In: any words. Alias: none. */
WIDE_INLINE uint32_t limb_distance(uint32_t *r, const uint32_t *a, const uint32_t *b, uint32_t limbs) {
    const uint32_t mask = limb_sub(r, a, b, limbs);
    limb_negate_if(r, mask, limbs);
    return mask;
}

/* 1 when a < b, else 0. */
WIDE_INLINE uint32_t limb_less(const uint32_t *a, const uint32_t *b, uint32_t limbs) {
    LIMB_LOCAL(difference, 16);
    return limb_sub(difference, a, b, limbs) & 1;
}

/* ---- residues ------------------------------------------------------------------------------- */

/* x mod q by one conditional subtraction. In: x < 2q. Out: < q. */
WIDE_INLINE void limb_fold(uint32_t *x, const uint32_t *q, uint32_t limbs) {
    LIMB_LOCAL(less, LIMB_MAX);
    const uint32_t keep = limb_sub(less, x, q, limbs);
    LIMB_UNROLL for (uint32_t i = 0; i < limbs; i++) {
        x[i] ^= (x[i] ^ less[i]) & ~keep;
    }
    WIDE_ASSERT(limb_less(x, q, limbs));
}

/* r = a + b mod q. In: a, b < q < 2^(32 limbs - 1). Out: < q. Alias: r may be a or b.
 * On the DPU 15 instructions for four limbs: both chains and the choice in one statement. */
WIDE_INLINE void limb_add_mod(uint32_t *r, const uint32_t *a, const uint32_t *b, const uint32_t *q,
                              uint32_t limbs) {
    WIDE_ASSERT(q[limbs - 1] >> 31 == 0 && limb_less(a, q, limbs) && limb_less(b, q, limbs));
#ifdef DPU
    if (limbs == 4) {
        /* d4, d6 = a + b, d8, d10 = a + b - q; geu after subc: the whole chain borrowed nothing */
        __asm__ volatile("ld d4, %[a], 0\n\tld d6, %[a], 8\n\tld d8, %[b], 0\n\tld d10, %[b], 8\n\t"
                         "add r5, r5, r9\n\taddc r4, r4, r8\n\taddc r7, r7, r11\n\taddc r6, r6, r10\n\t"
                         "sub r9, r5, %[q0]\n\tsubc r8, r4, %[q1]\n\tsubc r11, r7, %[q2]\n\t"
                         "subc r10, r6, %[q3], geu, 1f\n\t"
                         "sd %[r], 0, d4\n\tsd %[r], 8, d6\n\tjump 2f\n"
                         "1:\n\tsd %[r], 0, d8\n\tsd %[r], 8, d10\n2:"
                         :
                         : [r] "r"(r), [a] "r"(a), [b] "r"(b), [q0] "r"(q[0]), [q1] "r"(q[1]), [q2] "r"(q[2]),
                           [q3] "r"(q[3])
                         : "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "memory");
        return;
    }
#endif
    (void)limb_add(r, a, b, limbs); /* < 2q < 2^(32 limbs): no carry */
    limb_fold(r, q, limbs);
}

/* r = a - b mod q. In: a, b < q. Out: < q. Alias: r may be a or b. */
WIDE_INLINE void limb_sub_mod(uint32_t *r, const uint32_t *a, const uint32_t *b, const uint32_t *q,
                              uint32_t limbs) {
    WIDE_ASSERT(limb_less(a, q, limbs) && limb_less(b, q, limbs));
    LIMB_LOCAL(back, LIMB_MAX);
    const uint32_t borrow = limb_sub(r, a, b, limbs);
    LIMB_UNROLL for (uint32_t i = 0; i < limbs; i++) {
        back[i] = q[i] & borrow;
    }
    (void)limb_add(r, r, back, limbs); /* its carry undoes the borrow */
}

#ifndef DPU
/* sum += a. In: sum of limbs + 1 words holding at most 2^32 - 2 residues, a < q < 2^(32 limbs - 1).
 * Out: below 2^(32 limbs + 31), so the top word's sign bit stays clear. */
WIDE_INLINE void limb_add_lazy(uint32_t *sum, const uint32_t *a, uint32_t limbs) {
    WIDE_ASSERT(a[limbs - 1] >> 31 == 0);
    sum[limbs] += limb_add(sum, sum, a, limbs);
    WIDE_ASSERT(sum[limbs] >> 31 == 0);
}

/* The same for `terms` values, 1 or more, that lie `next` words apart. */
WIDE_INLINE void limb_sum_lazy(uint32_t *sum, const uint32_t *a, uint32_t next, uint32_t terms,
                               uint32_t limbs) {
    WIDE_ASSERT(terms >= 1);
    for (uint32_t k = 0; k < terms; k++, a += next) {
        limb_add_lazy(sum, a, limbs);
    }
}
#endif

/* ---- products ------------------------------------------------------------------------------- */

/* r = a b for two limbs, three chunk products (Karatsuba and Ofman 1962, in the subtractive form, whose
 * factors stay within a chunk):
 *     a b = z0 + 2^32 (z0 + z2 - (a0 - a1)(b0 - b1)) + 2^64 z2,   z0 = a0 b0, z2 = a1 b1.
 * Widths: z0, z2 64 bits; the distances 32, their product 64; the middle is a0 b1 + a1 b0 < 2^65,
 * kept as 64 bits and a top that counts 2^64; the rest are sums of the exact product's words.
 * In: any words. Out: two pairs. Alias: none. On the DPU 118 to 120 instructions. */
#ifndef DPU
WIDE_INLINE void limb_mul_2(limb_pair *r, uint64_t a, uint64_t b) {
    const uint32_t a0 = (uint32_t)a, a1 = (uint32_t)(a >> 32), b0 = (uint32_t)b, b1 = (uint32_t)(b >> 32);
    const uint64_t z0 = wide_mul(a0, b0), z2 = wide_mul(a1, b1);
    const uint32_t below_a = UINT32_C(0) - (uint32_t)(a0 < a1);
    const uint32_t below_b = UINT32_C(0) - (uint32_t)(b0 < b1);
    const uint64_t cross = wide_mul(((a0 - a1) ^ below_a) - below_a, ((b0 - b1) ^ below_b) - below_b);
    /* both differences of one sign: subtract, that is, add the complement and 1 */
    const uint64_t minus = (uint64_t)0 - (uint64_t)(below_a == below_b);
    const uint64_t sum = z0 + z2, part = sum + (cross ^ minus), middle = part + (minus & 1);
    const uint64_t top =
        (uint64_t)(sum < z0) + (uint64_t)(part < sum) + (uint64_t)(middle < part) + minus; /* minus = -1 */
    WIDE_ASSERT(top <= 1);
    const uint64_t low = z0 + (middle << 32);
    r[0] = low;
    r[1] = z2 + (middle >> 32) + (top << 32) + (uint64_t)(low < z0);
}
#endif

/* The same step on halves of `half` limbs, once the three products are there.
 * In: r = z0 + z2 2^(64 half), in place; cross = |a0 - a1| |b0 - b1|; minus: all ones when both
 * differences have the same sign, else 0. Out: r the product, 4 half words.
 * Widths: the middle is below 2^(64 half + 1), 2 half words and a top; it is added half limbs up, where
 * the exact product leaves room for its carry. */
WIDE_INLINE void limb_join(limb_pair *r, const limb_pair *cross, uint32_t minus, uint32_t half) {
    limb_pair middle[LIMB_MAX / 2];
    uint32_t *const m = (uint32_t *)middle, *const low = (uint32_t *)r;
    uint64_t top = limb_add(m, low, low + 2 * half, 2 * half);
    top += limb_add_signed(m, m, (const uint32_t *)cross, minus, 2 * half);
    WIDE_ASSERT(top <= 1);
    top += limb_add(low + half, low + half, m, 2 * half);
    LIMB_UNROLL for (uint32_t i = 3 * half / 2; i < 2 * half; i++) {
        r[i] += top;
        top = (uint64_t)(r[i] < top);
    }
    WIDE_ASSERT(top == 0);
}

/* r = a b for four limbs: nine chunk products. In: any words. Out: four pairs. Alias: none.
 * On the DPU 392 to 402 instructions, what is below limb_join included. */
#ifndef DPU
WIDE_INLINE void limb_mul_4(limb_pair *r, const limb_pair *a, const limb_pair *b) {
    limb_pair cross[2];
    const uint64_t below_a = (uint64_t)0 - (uint64_t)(a[0] < a[1]);
    const uint64_t below_b = (uint64_t)0 - (uint64_t)(b[0] < b[1]);
    limb_mul_2(r, a[0], b[0]);
    limb_mul_2(r + 2, a[1], b[1]);
    limb_mul_2(cross, ((a[0] - a[1]) ^ below_a) - below_a, ((b[0] - b[1]) ^ below_b) - below_b);
    limb_join(r, cross, ~(uint32_t)(below_a ^ below_b), 2);
}
#endif

/* limb_mul_4 as a function: on the DPU three copies would fill a fifth of the instruction memory. */
static __attribute__((noinline, unused)) void limb_mul_4_call(limb_pair *r, const limb_pair *a,
                                                              const limb_pair *b) {
    limb_mul_4(r, a, b);
}

/* r = a b for eight limbs: 27 chunk products. In: any words. Out: eight pairs. Alias: none. */
WIDE_INLINE void limb_mul_8(limb_pair *r, const limb_pair *a, const limb_pair *b) {
    limb_pair x[2], y[2], cross[4];
    const uint32_t below_a = limb_distance((uint32_t *)x, (const uint32_t *)a, (const uint32_t *)(a + 2), 4);
    const uint32_t below_b = limb_distance((uint32_t *)y, (const uint32_t *)b, (const uint32_t *)(b + 2), 4);
    limb_mul_4_call(r, a, b);
    limb_mul_4_call(r + 4, a + 2, b + 2);
    limb_mul_4_call(cross, x, y);
    limb_join(r, cross, ~(below_a ^ below_b), 4);
}

/* Whether a product of 2 limbs words at r shares no word with its factor at a; for assertions. */
WIDE_INLINE uint32_t limb_apart(const uint32_t *r, const uint32_t *a, uint32_t limbs) {
    return (uintptr_t)(a + limbs) <= (uintptr_t)r || (uintptr_t)(r + (size_t)2 * limbs) <= (uintptr_t)a;
}

/* r = a b by Karatsuba over 32-bit chunks, plain for one limb: 1, 3, 9 or 27 chunk products.
 * In: any words of `limbs` limbs. Out: 2 limbs words. Alias: none. */
WIDE_INLINE void limb_mul(uint32_t *r, const uint32_t *a, const uint32_t *b, uint32_t limbs) {
    WIDE_ASSERT(limb_apart(r, a, limbs) && limb_apart(r, b, limbs));
    switch (limbs) {
    case 1: {
        const uint64_t product = wide_mul(a[0], b[0]);
        r[0] = (uint32_t)product;
        r[1] = (uint32_t)(product >> 32);
        break;
    }
    case 2:
        limb_mul_2((limb_pair *)r, *(const limb_pair *)a, *(const limb_pair *)b);
        break;
    case 4:
        limb_mul_4((limb_pair *)r, (const limb_pair *)a, (const limb_pair *)b);
        break;
    default:
        limb_mul_8((limb_pair *)r, (const limb_pair *)a, (const limb_pair *)b);
        break;
    }
}

/* acc += a b. In: acc an accumulator of 2 limbs + 1 words; a, b below 2^(32 limbs); with them
 * |acc + a b| < 2^(64 limbs + 31), which the caller's number of terms guarantees: terms (2q)^2 stays
 * below it for up to 2^31 terms. Alias: none. */
WIDE_INLINE void limb_mac(uint32_t *acc, const uint32_t *a, const uint32_t *b, uint32_t limbs) {
#ifdef DPU
    if (limbs == 2) {
        limb_mac_2(acc, a, b);
        return;
    }
    if (limbs == 4) {
        limb_mac_4(acc, a, b);
        return;
    }
#endif
    LIMB_LOCAL(product, 2 * LIMB_MAX);
    limb_mul(product, a, b, limbs);
    const uint32_t top = acc[2 * limbs] + limb_add(acc, acc, product, 2 * limbs);
    WIDE_ASSERT((top & ~acc[2 * limbs]) >> 31 == 0); /* a product is not negative: no sign may appear */
    acc[2 * limbs] = top;
}

/* acc -= other, accumulators of 2 limbs + 1 words. In: the difference is one too. */
WIDE_INLINE void limb_acc_sub(uint32_t *acc, const uint32_t *other, uint32_t limbs) {
    const uint32_t x = acc[2 * limbs], y = other[2 * limbs];
    acc[2 * limbs] = x + limb_sub(acc, acc, other, 2 * limbs) - y;
    WIDE_ASSERT(((x ^ y) & (x ^ acc[2 * limbs])) >> 31 == 0);
}

/* acc += other, accumulators of 2 limbs + 1 words. In: the sum is one too. */
WIDE_INLINE void limb_acc_add(uint32_t *acc, const uint32_t *other, uint32_t limbs) {
    const uint32_t x = acc[2 * limbs], y = other[2 * limbs];
    acc[2 * limbs] = x + limb_add(acc, acc, other, 2 * limbs) + y;
    WIDE_ASSERT((~(x ^ y) & (x ^ acc[2 * limbs])) >> 31 == 0);
}

/* ---- reduction ------------------------------------------------------------------------------ */

/* Adds the multiple of q that makes the low `limbs` + 1 words 0 (P. Montgomery 1985), word by word, and
 * leaves the quotient by R = 2^(32 (limbs + 1)) in the upper words.
 * In: x of 2 limbs + 1 words, x[2 limbs + 1] = 0. Out: x[limbs + 1 .. 2 limbs + 2) = (x + m q) / R
 * < x / R + q, limbs + 1 words; equal to x / R mod q. */
static inline void limb_montgomery(uint32_t *x, const struct limb_modulus *modulus, uint32_t limbs) {
    for (uint32_t i = 0; i <= limbs; i++) {
        const uint32_t m = wide_lo(x[i], modulus->neg_inv);
        uint32_t carry = 0;
        for (uint32_t j = 0; j < limbs; j++) {
            /* (2^32 - 1)^2 + 2 (2^32 - 1) = 2^64 - 1 */
            const uint64_t sum = wide_mac((uint64_t)x[i + j] + carry, m, modulus->q[j]);
            x[i + j] = (uint32_t)sum;
            carry = (uint32_t)(sum >> 32);
        }
        for (uint32_t j = i + limbs; j < 2 * limbs + 2; j++) {
            x[j] += carry;
            carry = (uint32_t)(x[j] < carry);
        }
    }
}

/* r = x mod q for any unsigned x of 2 limbs + 1 words (an accumulator that is not negative, or a lazy
 * sum with zeros above). Two Montgomery steps, the second after a product by R^2 mod q:
 *     y = x / R     < 2^(32 limbs) + q,          limbs + 1 words
 *     z = y r2      < (2^(32 limbs) + q) q,      2 limbs + 1 words
 *     z / R         < q + q 2^-31 < 2q,          one conditional subtraction.
 * In: q odd, q < 2^(32 limbs - 1). Out: < q. Alias: r may be x. 3 limbs (limbs + 1) products. */
static inline void limb_reduce(uint32_t *r, const uint32_t *x, const struct limb_modulus *modulus,
                               uint32_t limbs) {
    WIDE_ASSERT((modulus->q[0] & 1) != 0 && modulus->q[limbs - 1] >> 31 == 0);
    LIMB_LOCAL(y, LIMB_ACC(LIMB_MAX));
    LIMB_LOCAL(z, LIMB_ACC(LIMB_MAX));
    for (uint32_t i = 0; i <= 2 * limbs; i++) {
        y[i] = x[i];
        z[i] = 0;
    }
    y[2 * limbs + 1] = 0;
    z[2 * limbs + 1] = 0;
    limb_montgomery(y, modulus, limbs);
    const uint32_t *const high = y + limbs + 1;
    WIDE_ASSERT(high[limbs] <= 1);
    for (uint32_t i = 0; i < limbs; i++) {
        uint32_t carry = 0;
        for (uint32_t j = 0; j <= limbs; j++) {
            const uint64_t sum = wide_mac((uint64_t)z[i + j] + carry, modulus->r2[i], high[j]);
            z[i + j] = (uint32_t)sum;
            carry = (uint32_t)(sum >> 32);
        }
        z[i + limbs + 1] = carry;
    }
    limb_montgomery(z, modulus, limbs);
    LIMB_LOCAL(residue, LIMB_MAX);
    WIDE_ASSERT(z[2 * limbs + 1] == 0);
    for (uint32_t i = 0; i < limbs; i++) {
        residue[i] = z[limbs + 1 + i];
    }
    limb_fold(residue, modulus->q, limbs);
    for (uint32_t i = 0; i < limbs; i++) {
        r[i] = residue[i];
    }
}

/* r = acc mod q, acc signed. In: an accumulator, |acc| < 2^(64 limbs + 31). Out: < q. Alias: none. */
static inline void limb_reduce_signed(uint32_t *r, const uint32_t *acc, const struct limb_modulus *modulus,
                                      uint32_t limbs) {
    LIMB_LOCAL(size, LIMB_ACC(LIMB_MAX));
    const uint32_t negative = UINT32_C(0) - (acc[2 * limbs] >> 31);
    for (uint32_t i = 0; i <= 2 * limbs; i++) {
        size[i] = acc[i];
    }
    limb_negate_if(size, negative, 2 * limbs + 1);
    limb_reduce(r, size, modulus, limbs);
    if (negative != 0) {
        LIMB_LOCAL(zero, LIMB_MAX);
        for (uint32_t i = 0; i < limbs; i++) {
            zero[i] = 0;
        }
        limb_sub_mod(r, zero, r, modulus->q, limbs);
    }
}

/* r = a b mod q. In: a, b < 2^(32 limbs). Out: < q. Alias: r may be a or b. */
WIDE_INLINE void limb_mul_mod(uint32_t *r, const uint32_t *a, const uint32_t *b,
                              const struct limb_modulus *modulus, uint32_t limbs) {
    LIMB_LOCAL(product, LIMB_ACC(LIMB_MAX));
    limb_mul(product, a, b, limbs);
    product[2 * limbs] = 0;
    limb_reduce(r, product, modulus, limbs);
}

/* The constants of q. In: q odd, 1 < q < 2^(32 limbs - 1). Set-up code. */
static inline void limb_modulus_init(struct limb_modulus *modulus, const uint32_t *q, uint32_t limbs) {
    WIDE_ASSERT((q[0] & 1) != 0 && q[limbs - 1] >> 31 == 0);
    for (uint32_t i = 0; i < LIMB_MAX; i++) {
        modulus->q[i] = i < limbs ? q[i] : 0;
        modulus->r2[i] = 0;
    }
    /* Newton: an inverse mod 2^k is one mod 2^2k after x (2 - q x); q itself is one mod 8 */
    uint32_t inverse = q[0];
    for (uint32_t bits = 3; bits < 32; bits *= 2) {
        inverse *= 2 - q[0] * inverse;
    }
    modulus->neg_inv = UINT32_C(0) - inverse;
    modulus->reserved = 0;
    /* R^2 mod q by doubling 1 (q > 1) */
    LIMB_LOCAL(power, LIMB_MAX) = {1};
    for (uint32_t k = 0; k < 64 * (limbs + 1); k++) {
        limb_add_mod(power, power, power, modulus->q, limbs);
    }
    for (uint32_t i = 0; i < limbs; i++) {
        modulus->r2[i] = power[i];
    }
}

#endif
