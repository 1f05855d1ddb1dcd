/* The product of two 32-bit words, in 64 bits, and what is built from it.
 *
 * One contract, three bodies:
 *   DPU              the machine multiplies 8 x 8 bits in one instruction and nothing wider (a
 *                    64-bit product in C costs 124 instructions): inline assembly, counts below.
 *   BFV_WIDE_SPLIT   the DPU's algorithm in C: 16-bit halves, each product of halves from four
 *                    8 x 8-bit ones. Tests force it, so that the DPU's columns and carries are
 *                    proven on any host.
 *   otherwise        the processor's own product.
 *
 * Columns. With a = a3 a2 a1 a0 in bytes, the 16 byte products fall into 7 columns of weight
 * 2^(8 k). They are gathered into three words:
 *     t  columns 0, 1       < 2^26   weight 1
 *     m  columns 2, 3       < 2^27   weight 2^16
 *     h  columns 4, 5, 6    < 2^32   weight 2^32
 * a b = t + m 2^16 + h 2^32. The low word is t + (m << 16) mod 2^32; what it carries into the high
 * word is (m + (t >> 16)) >> 16 exactly, so neither a carry flag nor 64-bit arithmetic is needed.
 *
 * DPU instructions: wide_mul 34, wide_sqr 21, wide_mac 36, wide_sqr_mac 23, wide_lazy_mac 34,
 * wide_lazy_sqr 21, wide_lazy_fold 3, wide_lo 21, wide_hi 33, wide_shoup_lazy 46 or 47. `python -m
 * tests.dpu.counts` counts.
 */
#ifndef PYBFV_CORE_WIDE_H
#define PYBFV_CORE_WIDE_H

#include <stdint.h>

/* The ranges below, checked in debug builds only. A build may define its own. */
#ifndef WIDE_ASSERT
#ifdef PYBFV_DEBUG
#define WIDE_ASSERT(condition) ((condition) ? (void)0 : __builtin_trap())
#else
#define WIDE_ASSERT(condition) ((void)0)
#endif
#endif

#define WIDE_INLINE static inline __attribute__((always_inline))

/* Products that a wide_lazy holds before it must be folded, for factors below WIDE_LAZY_FACTOR or
 * squares of words below WIDE_LAZY_ROOT. */
#define WIDE_LAZY_TERMS 64u
#define WIDE_LAZY_FACTOR (UINT32_C(1) << 28)
#define WIDE_LAZY_ROOT (UINT32_C(1) << 29)

/* wide_shoup_lazy's result is below this many p. */
#define WIDE_SHOUP_MULTIPLE 5u

/* What wide_shoup_lazy needs of p: p >> 16, and the digit of 2^15 as its sign. For set-up, outside of loops.
 * In: p < 2^29, p = 1 mod 2^15. */
WIDE_INLINE uint32_t wide_proth(uint32_t p) {
    WIDE_ASSERT(p < UINT32_C(1) << 29 && (p & 0x7fff) == 1);
    return p >> 16 | (p & 0x8000) << 16;
}

#if defined(DPU) || defined(BFV_WIDE_SPLIT)

/* ---- byte products: low byte times low byte and so on; a product is below 2^16 ------------- */

#ifdef DPU
#define WIDE_BYTES(name, instruction)                                                                        \
    WIDE_INLINE uint32_t name(uint32_t a, uint32_t b) {                                                      \
        uint32_t r;                                                                                          \
        __asm__(#instruction " %0, %1, %2" : "=r"(r) : "r"(a), "r"(b));                                      \
        return r;                                                                                            \
    }
WIDE_BYTES(wide_ll, mul_ul_ul)
WIDE_BYTES(wide_lh, mul_ul_uh)
WIDE_BYTES(wide_hl, mul_uh_ul)
WIDE_BYTES(wide_hh, mul_uh_uh)
#undef WIDE_BYTES
#else
WIDE_INLINE uint32_t wide_ll(uint32_t a, uint32_t b) {
    return (a & 255) * (b & 255);
}
WIDE_INLINE uint32_t wide_lh(uint32_t a, uint32_t b) {
    return (a & 255) * (b >> 8 & 255);
}
WIDE_INLINE uint32_t wide_hl(uint32_t a, uint32_t b) {
    return (a >> 8 & 255) * (b & 255);
}
WIDE_INLINE uint32_t wide_hh(uint32_t a, uint32_t b) {
    return (a >> 8 & 255) * (b >> 8 & 255);
}
#endif

/* Sums of byte products in their three words: value = t + m 2^16 + h 2^32. */
struct wide_lazy {
    uint32_t t, m, h;
};

WIDE_INLINE struct wide_lazy wide_lazy_zero(void) {
    const struct wide_lazy zero = {0, 0, 0};
    return zero;
}

/* s += a b.
 * In: a, b < WIDE_LAZY_FACTOR, at most WIDE_LAZY_TERMS terms since zero or fold. A term adds less than
 * 2^25 to t, 2^26 - 2^24 to m (the fourth bytes are below 16) and 2^24 to h. */
WIDE_INLINE void wide_lazy_mac(struct wide_lazy *s, uint32_t a, uint32_t b) {
    WIDE_ASSERT(a < WIDE_LAZY_FACTOR && b < WIDE_LAZY_FACTOR);
    const uint32_t ah = a >> 16, bh = b >> 16;
    s->t += wide_ll(a, b);
    s->t += wide_lh(a, b) << 8;
    s->t += wide_hl(a, b) << 8;
    s->m += wide_hh(a, b);
    s->m += wide_ll(a, bh);
    s->m += wide_ll(ah, b);
    s->m += wide_lh(a, bh) << 8;
    s->m += wide_hl(a, bh) << 8;
    s->m += wide_lh(ah, b) << 8;
    s->m += wide_hl(ah, b) << 8;
    s->h += wide_ll(ah, bh);
    s->h += wide_hh(a, bh);
    s->h += wide_hh(ah, b);
    s->h += wide_lh(ah, bh) << 8;
    s->h += wide_hl(ah, bh) << 8;
    s->h += wide_hh(ah, bh) << 16;
}

/* s += a^2. In: a < WIDE_LAZY_ROOT, at most WIDE_LAZY_TERMS terms since zero or fold. */
WIDE_INLINE void wide_lazy_sqr(struct wide_lazy *s, uint32_t a) {
    WIDE_ASSERT(a < WIDE_LAZY_ROOT);
    const uint32_t ah = a >> 16;
    s->t += wide_ll(a, a);
    s->t += wide_lh(a, a) << 9;
    s->m += wide_hh(a, a);
    s->m += wide_ll(a, ah) << 1;
    s->m += wide_lh(a, ah) << 9;
    s->m += wide_hl(a, ah) << 9;
    s->h += wide_ll(ah, ah);
    s->h += wide_hh(a, ah) << 1;
    s->h += wide_lh(ah, ah) << 9;
    s->h += wide_hh(ah, ah) << 16;
}

#ifdef DPU
#include "wide_asm.h"
#else /* BFV_WIDE_SPLIT: the same columns in C */

/* The value of s. In: t, m, h of at most WIDE_LAZY_TERMS terms: then m + (t >> 16) < 2^32. */
WIDE_INLINE uint64_t wide_lazy_fold(struct wide_lazy s) {
    WIDE_ASSERT(s.m <= UINT32_MAX - (s.t >> 16));
    const uint32_t low = s.t + (s.m << 16);
    const uint32_t high = s.h + ((s.m + (s.t >> 16)) >> 16);
    return (uint64_t)high << 32 | low;
}

/* a b. In, Out: any words. */
WIDE_INLINE uint64_t wide_mul(uint32_t a, uint32_t b) {
    const uint32_t ah = a >> 16, bh = b >> 16;
    struct wide_lazy s;
    s.t = wide_ll(a, b) + (wide_lh(a, b) << 8) + (wide_hl(a, b) << 8);
    s.m = wide_lh(a, bh) + wide_hl(a, bh) + wide_lh(ah, b) + wide_hl(ah, b);
    s.m = wide_ll(a, bh) + (s.m << 8) + wide_hh(a, b) + wide_ll(ah, b);
    s.h = wide_lh(ah, bh) + (wide_hh(ah, bh) << 8) + wide_hl(ah, bh);
    s.h = wide_ll(ah, bh) + (s.h << 8) + wide_hh(a, bh) + wide_hh(ah, b);
    WIDE_ASSERT(s.t < UINT32_C(1) << 26 && s.m < UINT32_C(1) << 27);
    const uint64_t product = wide_lazy_fold(s);
    WIDE_ASSERT(product == (uint64_t)a * b);
    return product;
}

/* a^2. In, Out: any words. */
WIDE_INLINE uint64_t wide_sqr(uint32_t a) {
    const uint32_t ah = a >> 16;
    struct wide_lazy s;
    s.t = wide_ll(a, a) + (wide_lh(a, a) << 9);
    s.m = wide_hh(a, a) + ((wide_ll(a, ah) + ((wide_lh(a, ah) + wide_hl(a, ah)) << 8)) << 1);
    s.h = wide_hh(a, ah) + ((wide_lh(ah, ah) + (wide_hh(ah, ah) << 7)) << 8);
    s.h = wide_ll(ah, ah) + (s.h << 1);
    const uint64_t product = wide_lazy_fold(s);
    WIDE_ASSERT(product == (uint64_t)a * a);
    return product;
}

/* sum + a b. In: sum + a b < 2^64. */
WIDE_INLINE uint64_t wide_mac(uint64_t sum, uint32_t a, uint32_t b) {
    const uint64_t product = wide_mul(a, b);
    WIDE_ASSERT(product <= UINT64_MAX - sum);
    return sum + product;
}

/* sum + a^2. In: sum + a^2 < 2^64. */
WIDE_INLINE uint64_t wide_sqr_mac(uint64_t sum, uint32_t a) {
    const uint64_t product = wide_sqr(a);
    WIDE_ASSERT(product <= UINT64_MAX - sum);
    return sum + product;
}

#endif

/* a b mod 2^32. In, Out: any words. */
WIDE_INLINE uint32_t wide_lo(uint32_t a, uint32_t b) {
    const uint32_t ah = a >> 16, bh = b >> 16;
    uint32_t m = wide_lh(a, bh) + wide_hl(a, bh) + wide_lh(ah, b) + wide_hl(ah, b);
    m = wide_ll(a, bh) + (m << 8) + wide_hh(a, b) + wide_ll(ah, b);
    m = wide_lh(a, b) + (m << 8) + wide_hl(a, b);
    return wide_ll(a, b) + (m << 8);
}

/* floor(a b / 2^32), at most 3 too small: columns 0 to 2 are dropped, whose sum is below 2.99 2^32. */
WIDE_INLINE uint32_t wide_hi_lazy(uint32_t a, uint32_t b) {
    const uint32_t ah = a >> 16, bh = b >> 16;
    const uint32_t c = wide_lh(a, bh) + wide_hl(a, bh) + wide_lh(ah, b) + wide_hl(ah, b);
    uint32_t h = wide_lh(ah, bh) + (wide_hh(ah, bh) << 8) + wide_hl(ah, bh);
    h = wide_ll(ah, bh) + (h << 8) + wide_hh(a, bh) + wide_hh(ah, b);
    return h + (c >> 8);
}

#else /* the processor's own product */

struct wide_lazy {
    uint64_t sum;
};

WIDE_INLINE struct wide_lazy wide_lazy_zero(void) {
    const struct wide_lazy zero = {0};
    return zero;
}

/* s += a b. In: a, b < WIDE_LAZY_FACTOR, at most WIDE_LAZY_TERMS terms since zero or fold. */
WIDE_INLINE void wide_lazy_mac(struct wide_lazy *s, uint32_t a, uint32_t b) {
    WIDE_ASSERT(a < WIDE_LAZY_FACTOR && b < WIDE_LAZY_FACTOR);
    s->sum += (uint64_t)a * b;
}

/* s += a^2. In: a < WIDE_LAZY_ROOT, at most WIDE_LAZY_TERMS terms since zero or fold. */
WIDE_INLINE void wide_lazy_sqr(struct wide_lazy *s, uint32_t a) {
    WIDE_ASSERT(a < WIDE_LAZY_ROOT);
    s->sum += (uint64_t)a * a;
}

/* The value of s. */
WIDE_INLINE uint64_t wide_lazy_fold(struct wide_lazy s) {
    return s.sum;
}

/* a b. In, Out: any words. */
WIDE_INLINE uint64_t wide_mul(uint32_t a, uint32_t b) {
    return (uint64_t)a * b;
}

/* a^2. In, Out: any words. */
WIDE_INLINE uint64_t wide_sqr(uint32_t a) {
    return (uint64_t)a * a;
}

/* sum + a b. In: sum + a b < 2^64. */
WIDE_INLINE uint64_t wide_mac(uint64_t sum, uint32_t a, uint32_t b) {
    WIDE_ASSERT((uint64_t)a * b <= UINT64_MAX - sum);
    return sum + (uint64_t)a * b;
}

/* sum + a^2. In: sum + a^2 < 2^64. */
WIDE_INLINE uint64_t wide_sqr_mac(uint64_t sum, uint32_t a) {
    WIDE_ASSERT((uint64_t)a * a <= UINT64_MAX - sum);
    return sum + (uint64_t)a * a;
}

/* a b mod 2^32. In, Out: any words. */
WIDE_INLINE uint32_t wide_lo(uint32_t a, uint32_t b) {
    return a * b;
}

/* floor(a b / 2^32), at most 3 too small (in this body exact). */
WIDE_INLINE uint32_t wide_hi_lazy(uint32_t a, uint32_t b) {
    return (uint32_t)((uint64_t)a * b >> 32);
}

#endif

/* floor(a b / 2^32). In, Out: any words. */
WIDE_INLINE uint32_t wide_hi(uint32_t a, uint32_t b) {
    return (uint32_t)(wide_mul(a, b) >> 32);
}

/* y w mod p, lazily, for a constant w with w_shoup = floor(w 2^32 / p) (V. Shoup; zq_mul_shoup_lazy of
 * zq.h without its exact high word). The quotient's error is below 1 for w_shoup, 1 for the dropped
 * fraction and 3 for the dropped columns; which multiple of p is left depends on the body: the DPU's, in
 * wide_asm.h, and BFV_WIDE_SPLIT leave the same.
 * In: y any word, w < p, p < 2^29, p = 1 mod 2^15. Out: < WIDE_SHOUP_MULTIPLE p. */
#ifndef DPU
WIDE_INLINE uint32_t wide_shoup_lazy(uint32_t y, uint32_t w, uint32_t w_shoup, uint32_t p) {
    WIDE_ASSERT(w < p && p < UINT32_C(1) << 29 && (p & 0x7fff) == 1);
    const uint32_t r = wide_lo(y, w) - wide_lo(wide_hi_lazy(y, w_shoup), p);
    WIDE_ASSERT(r < WIDE_SHOUP_MULTIPLE * p);
    return r;
}
#endif

#endif
