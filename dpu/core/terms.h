/* Sums over terms for one unit of a slice (abi.h): what the NTT family's reductions spend their time with.
 *
 * An accumulator is BFV_UNIT words of 64 bits; three of them lie one after the other. The DPU's bodies, in
 * terms_asm.h, hold what they add up in registers over all terms: products in the three words of wide.h
 * (struct wide_lazy), put together once. The bodies here do the same one term after the other.
 *
 * Products. Three are cheaper than four, and three squares than two and a product:
 *     s0 += a0 b0,  s2 += a1 b1,  s1 += (a0 + a1)(b0 + b1)   so that   a0 b1 + a1 b0 = s1 - s0 - s2 at the
 * end.
 *
 * Ranges of the DPU's words. For any 32-bit factors a product adds to t at most 255^2 (1 + 2 2^8) < 2^25 and
 * to m at most 255^2 (3 + 4 2^8) < 2^26 - 2^18: after 64 of them m + (t >> 16) < 2^32. h 2^32 is part of the
 * sum, so h < 2^32 where the sum is below 2^64.
 *
 * DPU instructions for each term: terms_square 68 a coefficient, terms_product 110 a coefficient, terms_sum
 * 14 for eight words; and 30, 30 and 40 once.
 */
#ifndef PYBFV_TERMS_H
#define PYBFV_TERMS_H

#include "abi.h"
#include "wide.h"

#ifdef DPU
#include "terms_asm.h"
#else

/* Whether s + a b stays below 2^64; for assertions. */
WIDE_INLINE __attribute__((unused)) uint32_t terms_fit(uint64_t s, uint32_t a, uint32_t b) {
    return s <= UINT64_MAX - (uint64_t)a * b;
}

/* s0 += c0^2, s1 += (c0 + c1)^2, s2 += c1^2, s0 to s2 at s, c0 and c1 at x; `next` words from one term to the
 * next. In: 1 to 64 terms of residues; sums that still fit 64 bits. Alias: none. */
WIDE_INLINE void terms_square(uint64_t *restrict s, const uint32_t *restrict x, uint32_t next,
                              uint32_t terms) {
    WIDE_ASSERT(terms >= 1 && terms <= WIDE_LAZY_TERMS);
    for (uint32_t k = 0; k < terms; k++, x += next) {
        for (uint32_t j = 0; j < BFV_UNIT; j++) {
            const uint32_t c0 = x[j], c1 = x[BFV_UNIT + j], both = c0 + c1;
            WIDE_ASSERT(c0 < ZQ_PRIME_LIMIT && c1 < ZQ_PRIME_LIMIT && terms_fit(s[j], c0, c0));
            WIDE_ASSERT(terms_fit(s[BFV_UNIT + j], both, both) && terms_fit(s[2 * BFV_UNIT + j], c1, c1));
            s[j] = wide_sqr_mac(s[j], c0);
            s[BFV_UNIT + j] = wide_sqr_mac(s[BFV_UNIT + j], both);
            s[2 * BFV_UNIT + j] = wide_sqr_mac(s[2 * BFV_UNIT + j], c1);
        }
    }
}

/* s0 += a0 b0, s1 += (a0 + a1)(b0 + b1), s2 += a1 b1, a0 and a1 at x, b0 and b1 at y. In, Alias: as
 * terms_square. */
WIDE_INLINE void terms_product(uint64_t *restrict s, const uint32_t *restrict x, const uint32_t *restrict y,
                               uint32_t next, uint32_t terms) {
    WIDE_ASSERT(terms >= 1 && terms <= WIDE_LAZY_TERMS);
    for (uint32_t k = 0; k < terms; k++, x += next, y += next) {
        for (uint32_t j = 0; j < BFV_UNIT; j++) {
            const uint32_t a0 = x[j], a1 = x[BFV_UNIT + j], b0 = y[j], b1 = y[BFV_UNIT + j];
            WIDE_ASSERT(a0 < ZQ_PRIME_LIMIT && a1 < ZQ_PRIME_LIMIT && b0 < ZQ_PRIME_LIMIT &&
                        b1 < ZQ_PRIME_LIMIT);
            WIDE_ASSERT(terms_fit(s[j], a0, b0) && terms_fit(s[BFV_UNIT + j], a0 + a1, b0 + b1));
            WIDE_ASSERT(terms_fit(s[2 * BFV_UNIT + j], a1, b1));
            s[j] = wide_mac(s[j], a0, b0);
            s[BFV_UNIT + j] = wide_mac(s[BFV_UNIT + j], a0 + a1, b0 + b1);
            s[2 * BFV_UNIT + j] = wide_mac(s[2 * BFV_UNIT + j], a1, b1);
        }
    }
}

/* s[j] += the sum of x[j], BFV_UNIT words; next even.
 * In: 1 term or more of residues whose sum fits 32 bits; s < 2^63. Alias: none. */
WIDE_INLINE void terms_sum(uint64_t *restrict s, const uint32_t *restrict x, uint32_t next, uint32_t terms) {
    WIDE_ASSERT(terms >= 1 && next % 2 == 0);
    uint32_t sum[BFV_UNIT] = {0};
    for (uint32_t k = 0; k < terms; k++, x += next) {
        for (uint32_t j = 0; j < BFV_UNIT; j++) {
            WIDE_ASSERT(x[j] < ZQ_PRIME_LIMIT && sum[j] <= UINT32_MAX - x[j]);
            sum[j] += x[j];
        }
    }
    for (uint32_t j = 0; j < BFV_UNIT; j++) {
        WIDE_ASSERT(s[j] >> 63 == 0);
        s[j] += sum[j];
    }
}

#endif

#endif
