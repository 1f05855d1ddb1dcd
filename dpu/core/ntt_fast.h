/* The butterflies of ntt.h for the primes of the parameter sets, p < 2^28 and p = 1 mod 2^15: the same
 * residues, words in wider ranges, so that one lazy product and one conditional subtraction are enough.
 *
 *                 words       (x, y) ->
 *     forward     < 10 p      x below 5p by one subtraction; w y < 5p; x + w y, x - w y + 5p < 10p
 *     inverse     < 5 p       x + y < 10p, then below 5p; (x - y + 5p) v < 5p
 *     last        < 5 p       both by a lazy product, settled: < p
 *
 * 10p < 2^32. On a DPU a run of butterflies is one asm statement with its loads and stores, beside which
 * stands its twin in C; over BFV_WIDE_SPLIT the twin gives the same words, otherwise the same residues.
 */
#ifndef PYBFV_NTT_FAST_H
#define PYBFV_NTT_FAST_H

#include "ntt.h"
#include "wide.h"

#define NTT_FAST_LIMIT (UINT32_C(1) << 28)

/* A twiddle and its prime, as a loop over butterflies holds them in registers. */
struct ntt_fast {
    uint32_t w, w_shoup;
    uint32_t w_high, w_shoup_high; /* their upper halves */
    uint32_t p, proth;             /* wide_proth */
    uint32_t five;                 /* 5p */
};

/* Whether p is one of those primes. */
static inline uint32_t ntt_fast_prime(uint32_t p) {
    return p < NTT_FAST_LIMIT && (p & 0x7fff) == 1;
}

/* In: ntt_fast_prime(p), w < p with its quotient. */
static inline struct ntt_fast ntt_fast_twiddle(uint32_t w, uint32_t w_shoup, uint32_t p) {
    ZQ_ASSERT(ntt_fast_prime(p) && w < p);
    const struct ntt_fast twiddle = {w, w_shoup, w >> 16, w_shoup >> 16, p, wide_proth(p), 5 * p};
    return twiddle;
}

/* x < 5p to x < p. */
static inline uint32_t ntt_fast_settle(uint32_t x, uint32_t p) {
    return zq_fold(zq_fold(zq_fold(x, 3 * p), 2 * p), p);
}

/* A word of the forward transform, in full. In: x < 10p. Out: < p. */
static inline uint32_t ntt_fast_reduce_word(uint32_t x, uint32_t p) {
    return ntt_fast_settle(zq_fold(x, 5 * p), p);
}

/* What a product of two residues needs of its prime. */
struct ntt_fast_prime {
    uint32_t p, twice, fourfold;
    uint32_t proth;
    uint32_t quotient,
        quotient_high; /* floor(2^(31 + bits) / p), up to 2^(31 - bits) too small; its upper half */
    uint32_t up, down; /* 33 - bits, bits - 1 */
};

/* In: ntt_fast_prime(mod->p). */
static inline struct ntt_fast_prime ntt_fast_product(const struct zq_mod *mod) {
    ZQ_ASSERT(ntt_fast_prime(mod->p));
    const uint32_t p = mod->p, quotient = mod->barrett << (31 - mod->bits);
    const struct ntt_fast_prime prime = {p,        2 * p,          4 * p,          wide_proth(p),
                                         quotient, quotient >> 16, 33 - mod->bits, mod->bits - 1};
    return prime;
}

/* a b mod p, by Barrett's quotient. With x = a b and h = floor(x / 2^(bits - 1)) < 2^(bits + 1), h quotient /
 * 2^32 is at most x / p and more than x / p - 2; of its integer part the lazy product loses up to 3 more: x -
 * q p < 6p. In: a, b < p. Out: < p. On a DPU 69 to 71 instructions. */
#ifdef DPU
WIDE_INLINE uint32_t ntt_fast_mul(uint32_t a_, uint32_t b_, const struct ntt_fast_prime *prime) {
    register uint64_t x __asm__("d2");
    register uint32_t a __asm__("r4") = a_, ah __asm__("r6"), even __asm__("r8"), m __asm__("r10");
    register uint32_t b __asm__("r5") = b_, bh __asm__("r7"), odd __asm__("r9");
    __asm__(W_HALF("%[ah]", "%[a]") W_HALF("%[bh]", "%[b]") W_T("r3", "%[e]", "%[a]", "%[b]")
                W_M("%[m]", "%[o]", "%[a]", "%[ah]", "%[b]", "%[bh]") W_H("r2", "%[o]", "%[a]", "%[ah]",
                                                                          "%[b]", "%[bh]")
                    W_JOIN("r2", "r3", "%[m]", "%[o]") W3(lsl, "r2", "r2", "%[up]")
                        W3(lsr, "%[o]", "r3", "%[down]") W3(or, "r2", "r2", "%[o]") W_HALF("%[ah]", "r2")
                            W_HIGH("%[m]", "%[bh]", "%[e]", "%[o]", "r2", "%[ah]", "%[v]", "%[vh]")
                                W_MINUS("r3", "%[e]", "%[o]", "%[m]",
                                        "%[c]") "sub r3, r3, %[p4], geu, 2f\n\tadd r3, r3, %[p4]\n\t2:\n\t"
                                                "sub r3, r3, %[p2], geu, 3f\n\tadd r3, r3, %[p2]\n\t3:\n\t"
                                                "sub r3, r3, %[p], geu, 4f\n\tadd r3, r3, %[p]\n\t4:"
            : [x] "=&r"(x), [ah] "=&r"(ah), [bh] "=&r"(bh), [m] "=&r"(m), [e] "=&r"(even), [o] "=&r"(odd)
            : [a] "r"(a), [b] "r"(b), [v] "r"(prime->quotient), [vh] "r"(prime->quotient_high),
              [c] "r"(prime->proth), [up] "r"(prime->up), [down] "r"(prime->down), [p] "r"(prime->p),
              [p2] "r"(prime->twice), [p4] "r"(prime->fourfold));
    return (uint32_t)x;
}
#else
WIDE_INLINE uint32_t ntt_fast_mul(uint32_t a, uint32_t b, const struct ntt_fast_prime *prime) {
    const uint64_t x = wide_mul(a, b);
    const uint32_t high = (uint32_t)(x >> 32) << prime->up | (uint32_t)x >> prime->down;
    const uint32_t r = (uint32_t)x - wide_lo(wide_hi_lazy(high, prime->quotient), prime->p);
    ZQ_ASSERT(a < prime->p && b < prime->p && r < 6 * prime->p);
    return zq_fold(zq_fold(zq_fold(r, prime->fourfold), prime->twice), prime->p);
}
#endif

#ifdef DPU

/* y, the factor, and the temporaries; w and its quotient in odd registers, y in even ones (wide_asm.h). */
#define NTT_FAST_REGISTERS                                                                                   \
    register uint32_t word __asm__("r4"), yh __asm__("r6"), q __asm__("r8"), even __asm__("r10");            \
    register uint32_t r __asm__("r9"), odd __asm__("r11");                                                   \
    register uint32_t v __asm__("r1") = t->w_shoup, vh __asm__("r3") = t->w_shoup_high;                      \
    register uint32_t w __asm__("r5") = t->w, wh __asm__("r7") = t->w_high;
#define NTT_FAST_SHOUP                                                                                       \
    W_SHOUP("%[r]", "%[q]", "%[y]", "%[yh]", "%[w]", "%[wh]", "%[v]", "%[vh]", "%[c]", "%[e]", "%[o]")
#define NTT_FAST_OPERANDS                                                                                    \
    : [px] "+&r"(x), [py] "+&r"(y), [y] "=&r"(word), [yh] "=&r"(yh), [q] "=&r"(q), [e] "=&r"(even),          \
      [r] "=&r"(r), [o] "=&r"(odd)                                                                           \
    : [end] "r"(x + run), [w] "r"(w), [wh] "r"(wh), [v] "r"(v), [vh] "r"(vh), [c] "r"(t->proth),             \
      [p5] "r"(t->five)                                                                                      \
    : "memory"
/* Onto the next butterfly, or out of the loop at "3:". 3 instructions. */
#define NTT_FAST_NEXT                                                                                        \
    "add %[px], %[px], 4\n\t"                                                                                \
    "add %[py], %[py], 4\n\t"                                                                                \
    "sub %[y], %[px], %[end], nz, 3b\n\t"

/* (x[j], y[j]) -> (x + w y, x - w y) mod p for j < run. In, Out: words < 10p; run >= 1. Alias: none.
 * 57 to 59 instructions each. */
WIDE_INLINE void ntt_fast_forward(uint32_t *x, uint32_t *y, uint32_t run, const struct ntt_fast *t) {
    NTT_FAST_REGISTERS
    __asm__ volatile("3:\n\t"
                     "lw %[y], %[py], 0\n\t" NTT_FAST_SHOUP "lw %[y], %[px], 0\n\t"
                     "sub %[y], %[y], %[p5], geu, 2f\n\t"
                     "add %[y], %[y], %[p5]\n\t"
                     "2:\n\t"
                     "add %[q], %[y], %[r]\n\t"
                     "add %[y], %[y], %[p5]\n\t"
                     "sub %[y], %[y], %[r]\n\t"
                     "sw %[px], 0, %[q]\n\t"
                     "sw %[py], 0, %[y]\n\t" NTT_FAST_NEXT NTT_FAST_OPERANDS);
}

/* (x[j], y[j]) -> (x + y, (x - y) w) mod p for j < run. In, Out: words < 5p; run >= 1. Alias: none.
 * 57 to 59 instructions each. */
WIDE_INLINE void ntt_fast_inverse(uint32_t *x, uint32_t *y, uint32_t run, const struct ntt_fast *t) {
    NTT_FAST_REGISTERS
    __asm__ volatile("3:\n\t"
                     "lw %[y], %[px], 0\n\t"
                     "lw %[r], %[py], 0\n\t"
                     "add %[q], %[y], %[r]\n\t"
                     "sub %[q], %[q], %[p5], geu, 2f\n\t"
                     "add %[q], %[q], %[p5]\n\t"
                     "2:\n\t"
                     "sw %[px], 0, %[q]\n\t"
                     "add %[y], %[y], %[p5]\n\t"
                     "sub %[y], %[y], %[r]\n\t" NTT_FAST_SHOUP
                     "sw %[py], 0, %[r]\n\t" NTT_FAST_NEXT NTT_FAST_OPERANDS);
}

#undef NTT_FAST_REGISTERS
#undef NTT_FAST_SHOUP
#undef NTT_FAST_OPERANDS
#undef NTT_FAST_NEXT

#else

/* (x[j], y[j]) -> (x + w y, x - w y) mod p for j < run. In, Out: words < 10p; run >= 1. Alias: none. */
WIDE_INLINE void ntt_fast_forward(uint32_t *x, uint32_t *y, uint32_t run, const struct ntt_fast *t) {
    for (uint32_t j = 0; j < run; j++) {
        ZQ_ASSERT(x[j] < 2 * t->five && y[j] < 2 * t->five);
        const uint32_t a = zq_fold(x[j], t->five), b = wide_shoup_lazy(y[j], t->w, t->w_shoup, t->p);
        x[j] = a + b;
        y[j] = a + t->five - b;
        ZQ_ASSERT(x[j] < 2 * t->five && y[j] < 2 * t->five);
    }
}

/* (x[j], y[j]) -> (x + y, (x - y) w) mod p for j < run. In, Out: words < 5p; run >= 1. Alias: none. */
WIDE_INLINE void ntt_fast_inverse(uint32_t *x, uint32_t *y, uint32_t run, const struct ntt_fast *t) {
    for (uint32_t j = 0; j < run; j++) {
        ZQ_ASSERT(x[j] < t->five && y[j] < t->five);
        const uint32_t a = x[j], b = y[j];
        x[j] = zq_fold(a + b, t->five);
        y[j] = wide_shoup_lazy(a + t->five - b, t->w, t->w_shoup, t->p);
    }
}

#endif

/* (x, y) -> ((x + y) v0, (x - y) v1) mod p, the factor 1/N in both twiddles. In: < 5p. Out: < p. */
static inline void ntt_fast_last(uint32_t *x, uint32_t *y, uint32_t v0, uint32_t v0_shoup, uint32_t v1,
                                 uint32_t v1_shoup, uint32_t p) {
    ZQ_ASSERT(ntt_fast_prime(p) && *x < 5 * p && *y < 5 * p);
    const uint32_t a = *x, b = *y;
    *x = ntt_fast_settle(wide_shoup_lazy(a + b, v0, v0_shoup, p), p);
    *y = ntt_fast_settle(wide_shoup_lazy(a + 5 * p - b, v1, v1_shoup, p), p);
}

#endif
