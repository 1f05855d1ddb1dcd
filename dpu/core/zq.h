/* Scalar arithmetic mod one prime p, 3 <= p < 2^30, in 32-bit words.
 *
 * A residue is a uint32_t; unless a function says otherwise it is canonical,
 * in [0, p). "_lazy" marks a result that is not fully reduced; its range is
 * stated. Everything here is free of branches on operands and uses only
 * 32 x 32 -> 64 products; the two functions that divide (zq_mod_init,
 * zq_shoup) are set-up code. In DPU programs the products are those of wide.h.
 */
#ifndef PYBFV_ZQ_H
#define PYBFV_ZQ_H

#include <stddef.h>
#include <stdint.h>

/* The ranges below, checked in debug builds only. A build may define its own. */
#ifndef ZQ_ASSERT
#ifdef PYBFV_DEBUG
#define ZQ_ASSERT(condition) ((condition) ? (void)0 : __builtin_trap())
#else
#define ZQ_ASSERT(condition) ((void)0)
#endif
#endif

#if defined(BFV_FAMILY_NTT) || defined(BFV_LIMBS)
#include "wide.h"
#define ZQ_WIDE(a, b) wide_mul(a, b)
#define ZQ_HIGH(a, b) wide_hi(a, b)
#define ZQ_LOW(a, b) wide_lo(a, b)
#else
#define ZQ_WIDE(a, b) ((uint64_t)(a) * (b))
#define ZQ_HIGH(a, b) ((uint32_t)(((uint64_t)(a) * (b)) >> 32))
#define ZQ_LOW(a, b) ((a) * (b))
#endif

/* Primes stay below this, so that 4p fits a word. */
#define ZQ_PRIME_LIMIT (UINT32_C(1) << 30)

struct zq_mod {
    uint32_t p;
    uint32_t bits;      /* 2^(bits - 1) <= p < 2^bits */
    uint32_t barrett;   /* floor(2^(2 bits) / p), below 2^(bits + 1) */
    uint32_t one_shoup; /* floor(2^32 / p): the Shoup quotient of 1 */
    uint32_t r32;       /* 2^32 mod p */
    uint32_t r32_shoup; /* its Shoup quotient */
};

/* floor(w 2^32 / p), the quotient that zq_mul_shoup needs.
 * In: w < p < 2^30. Out: any word. Divides: for tables and set-up. */
static inline uint32_t zq_shoup(uint32_t w, uint32_t p) {
    ZQ_ASSERT(w < p && p < ZQ_PRIME_LIMIT);
    return (uint32_t)(((uint64_t)w << 32) / p);
}

/* The constants of a modulus. In: 3 <= p < 2^30, odd. Divides: set-up. */
static inline struct zq_mod zq_mod_init(uint32_t p) {
    ZQ_ASSERT(p >= 3 && p < ZQ_PRIME_LIMIT && (p & 1) != 0);
    struct zq_mod mod = {.p = p, .bits = 0, .barrett = 0, .one_shoup = 0, .r32 = 0, .r32_shoup = 0};
    while ((p >> mod.bits) != 0) {
        mod.bits++;
    }
    mod.barrett = (uint32_t)((UINT64_C(1) << (2 * mod.bits)) / p);
    mod.one_shoup = zq_shoup(1, p);
    mod.r32 = (uint32_t)((UINT64_C(1) << 32) % p);
    mod.r32_shoup = zq_shoup(mod.r32, p);
    return mod;
}

/* x - c where that does not wrap, else x: the reduction by one multiple.
 * In: x < 2c, c < 2^31 (then a wrapped x - c exceeds every x < c). Out: < c. */
static inline uint32_t zq_fold(uint32_t x, uint32_t c) {
    ZQ_ASSERT(c < (UINT32_C(1) << 31) && x < 2 * c);
    const uint32_t y = x - c;
    return x < y ? x : y;
}

/* a + b mod p. In: a, b < p. Out: < p. */
static inline uint32_t zq_add(uint32_t a, uint32_t b, uint32_t p) {
    ZQ_ASSERT(a < p && b < p && p < ZQ_PRIME_LIMIT);
    return zq_fold(a + b, p);
}

/* a - b mod p. In: a, b < p. Out: < p. */
static inline uint32_t zq_sub(uint32_t a, uint32_t b, uint32_t p) {
    ZQ_ASSERT(a < p && b < p && p < ZQ_PRIME_LIMIT);
    return zq_fold(a + (p - b), p);
}

/* -a mod p. In: a < p. Out: < p. */
static inline uint32_t zq_neg(uint32_t a, uint32_t p) {
    ZQ_ASSERT(a < p && p < ZQ_PRIME_LIMIT);
    return zq_fold(p - a, p);
}

/* a w mod p, up to one p too much, for a constant w (V. Shoup; D. Harvey,
 * "Faster arithmetic for number-theoretic transforms", 2014).
 * With h = floor(a w' / 2^32), a w - h p = a (w - w' p / 2^32) + p frac < p a / 2^32 + p.
 * In: a any word, w < p, w_shoup = zq_shoup(w, p). Out: < 2p. */
static inline uint32_t zq_mul_shoup_lazy(uint32_t a, uint32_t w, uint32_t w_shoup, uint32_t p) {
    ZQ_ASSERT(w < p && p < ZQ_PRIME_LIMIT);
    const uint32_t h = ZQ_HIGH(a, w_shoup);
    const uint32_t r = ZQ_LOW(a, w) - ZQ_LOW(h, p);
    ZQ_ASSERT(r < 2 * p);
    return r;
}

/* As zq_mul_shoup_lazy. Out: < p. */
static inline uint32_t zq_mul_shoup(uint32_t a, uint32_t w, uint32_t w_shoup, uint32_t p) {
    return zq_fold(zq_mul_shoup_lazy(a, w, w_shoup, p), p);
}

/* x mod p for a product (Barrett; Handbook of Applied Cryptography, 14.42, base 2).
 * The quotient is at most 2 too small, so the remainder is below 3p < 2^32.
 * In: x < 2^(2 bits), in particular x <= (p - 1)^2. Out: < p. */
static inline uint32_t zq_reduce_product(uint64_t x, const struct zq_mod *mod) {
    ZQ_ASSERT((x >> (2 * mod->bits)) == 0);
    const uint32_t high = (uint32_t)(x >> (mod->bits - 1));
    const uint32_t h = (uint32_t)(ZQ_WIDE(high, mod->barrett) >> (mod->bits + 1));
    const uint32_t r = (uint32_t)x - ZQ_LOW(h, mod->p);
    ZQ_ASSERT(r < 3 * mod->p);
    /* Below 3p: one step by 2p (4p < 2^32), one by p. */
    return zq_fold(zq_fold(r, 2 * mod->p), mod->p);
}

/* a b mod p. In: a, b < p. Out: < p. */
static inline uint32_t zq_mul(uint32_t a, uint32_t b, const struct zq_mod *mod) {
    ZQ_ASSERT(a < mod->p && b < mod->p);
    return zq_reduce_product(ZQ_WIDE(a, b), mod);
}

/* x mod p for any word. Out: < p. */
static inline uint32_t zq_reduce32(uint32_t x, const struct zq_mod *mod) {
    return zq_mul_shoup(x, 1, mod->one_shoup, mod->p);
}

/* x mod p for any 64-bit x, such as an accumulator of products: x = high 2^32 + low,
 * both halves by Shoup, their sum below 4p. Out: < p. */
static inline uint32_t zq_reduce64(uint64_t x, const struct zq_mod *mod) {
    const uint32_t p = mod->p;
    const uint32_t high = zq_mul_shoup_lazy((uint32_t)(x >> 32), mod->r32, mod->r32_shoup, p);
    const uint32_t low = zq_mul_shoup_lazy((uint32_t)x, 1, mod->one_shoup, p);
    return zq_fold(zq_fold(high + low, 2 * p), p);
}

/* a^e mod p. In: a < p, any e (public: the time depends on it); 0^0 = 1. Out: < p. */
static inline uint32_t zq_pow(uint32_t a, uint64_t e, const struct zq_mod *mod) {
    ZQ_ASSERT(a < mod->p);
    uint32_t result = 1;
    for (; e != 0; e >>= 1) {
        if ((e & 1) != 0) {
            result = zq_mul(result, a, mod);
        }
        a = zq_mul(a, a, mod);
    }
    return result;
}

/* a^-1 mod p, by Fermat. In: 0 < a < p, p prime. Out: < p. */
static inline uint32_t zq_inv(uint32_t a, const struct zq_mod *mod) {
    ZQ_ASSERT(a != 0);
    return zq_pow(a, mod->p - 2, mod);
}

#endif
