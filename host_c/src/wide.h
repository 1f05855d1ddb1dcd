/* Multi-word unsigned integers: little-endian 64-bit words, lengths known to
 * all. Everything is free of branches and indices that depend on the words,
 * but for the functions named wide_public_*, which are set-up code.
 * Alias: outputs may not overlap inputs unless a function says so.
 */
#ifndef PYBFV_WIDE_H
#define PYBFV_WIDE_H

#include <stdint.h>
#include <string.h>

#include "ring.h"

__extension__ typedef unsigned __int128 wide_pair;

enum {
    WIDE_Q_WORDS = (BFV_MAX_Q_PRIMES * 30 + 63) / 64, /* words that hold any q */
    WIDE_T_WORDS = BFV_MAX_T_WORDS,
    WIDE_MAX_WORDS = 32 /* the longest intermediate: 2^P q in encoder.c, 29 words */
};

/* All ones when bit = 1, zero when bit = 0. */
static inline uint64_t wide_mask(uint64_t bit) {
    return UINT64_C(0) - bit;
}

/* out = a b. Out: na + nb words. */
static inline void wide_mul(const uint64_t *a, uint32_t na, const uint64_t *b, uint32_t nb, uint64_t *out) {
    memset(out, 0, (size_t)nb * sizeof *out);
    for (uint32_t i = 0; i < na; i++) {
        uint64_t carry = 0;
        for (uint32_t j = 0; j < nb; j++) {
            /* (2^64 - 1)^2 + 2 (2^64 - 1) = 2^128 - 1 */
            const wide_pair s = (wide_pair)a[i] * b[j] + out[i + j] + carry;
            out[i + j] = (uint64_t)s;
            carry = (uint64_t)(s >> 64);
        }
        out[i + nb] = carry;
    }
}

/* x += y a mod 2^(64 n), for one word y. */
static inline void wide_mul_add_word(uint64_t *x, const uint64_t *a, uint64_t y, uint32_t n) {
    uint64_t carry = 0;
    for (uint32_t i = 0; i < n; i++) {
        const wide_pair s = (wide_pair)a[i] * y + x[i] + carry;
        x[i] = (uint64_t)s;
        carry = (uint64_t)(s >> 64);
    }
}

/* x += a over n words; returns the carry. */
static inline uint64_t wide_add(uint64_t *x, const uint64_t *a, uint32_t n) {
    uint64_t carry = 0;
    for (uint32_t i = 0; i < n; i++) {
        const wide_pair s = (wide_pair)x[i] + a[i] + carry;
        x[i] = (uint64_t)s;
        carry = (uint64_t)(s >> 64);
    }
    return carry;
}

/* x += word over n words; returns the carry. */
static inline uint64_t wide_add_word(uint64_t *x, uint64_t word, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const wide_pair s = (wide_pair)x[i] + word;
        x[i] = (uint64_t)s;
        word = (uint64_t)(s >> 64);
    }
    return word;
}

/* out = a - b over n words; returns the borrow. Alias: out may be a or b. */
static inline uint64_t wide_sub(const uint64_t *a, const uint64_t *b, uint32_t n, uint64_t *out) {
    uint64_t borrow = 0;
    for (uint32_t i = 0; i < n; i++) {
        const wide_pair s = (wide_pair)a[i] - b[i] - borrow;
        out[i] = (uint64_t)s;
        borrow = (uint64_t)(s >> 64) & 1;
    }
    return borrow;
}

/* 1 when a < b over n words, else 0. */
static inline uint64_t wide_less(const uint64_t *a, const uint64_t *b, uint32_t n) {
    uint64_t borrow = 0;
    for (uint32_t i = 0; i < n; i++) {
        const wide_pair s = (wide_pair)a[i] - b[i] - borrow;
        borrow = (uint64_t)(s >> 64) & 1;
    }
    return borrow;
}

/* x = mask ? a : x; mask is all ones or zero. */
static inline void wide_select(uint64_t *x, const uint64_t *a, uint64_t mask, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        x[i] ^= (x[i] ^ a[i]) & mask;
    }
}

/* x mod m by one conditional subtraction. In: x < 2m. Out: < m. */
static inline void wide_fold(uint64_t *x, const uint64_t *m, uint32_t n) {
    uint64_t borrow = 0;
    const uint64_t keep = wide_mask(wide_less(x, m, n));
    for (uint32_t i = 0; i < n; i++) {
        const wide_pair s = (wide_pair)x[i] - (m[i] & ~keep) - borrow;
        x[i] = (uint64_t)s;
        borrow = (uint64_t)(s >> 64) & 1;
    }
}

/* x mod p, Horner's rule on 32-bit halves: r 2^32 + half < 2^62. In: n >= 1. Out: < p. */
static inline uint32_t wide_mod(const uint64_t *x, uint32_t n, const struct zq_mod *mod) {
    uint32_t r = zq_reduce64(x[n - 1], mod);
    for (uint32_t i = n - 1; i-- > 0;) {
        r = zq_reduce64(((uint64_t)r << 32) | (x[i] >> 32), mod);
        r = zq_reduce64(((uint64_t)r << 32) | (uint32_t)x[i], mod);
    }
    return r;
}

/* Bits of x: 2^(bits - 1) <= x < 2^bits, 0 for x = 0. */
static inline uint32_t wide_public_bits(const uint64_t *x, uint32_t n) {
    while (n > 0 && x[n - 1] == 0) {
        n--;
    }
    return n == 0 ? 0 : 64 * n - (uint32_t)__builtin_clzll(x[n - 1]);
}

/* The product of `count` words below 2^32, over n words; false when it needs more. */
static inline bool wide_public_product(const uint32_t *factors, uint32_t count, uint64_t *out, uint32_t n) {
    memset(out, 0, (size_t)n * sizeof *out);
    out[0] = 1;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t carry = 0;
        for (uint32_t k = 0; k < n; k++) {
            const wide_pair s = (wide_pair)out[k] * factors[i] + carry;
            out[k] = (uint64_t)s;
            carry = (uint64_t)(s >> 64);
        }
        if (carry != 0) {
            return false;
        }
    }
    return true;
}

/* floor(a / b), bit by bit. In: na < WIDE_MAX_WORDS, nb < WIDE_MAX_WORDS, b > 0. Out: na words. */
static inline void wide_public_divide(const uint64_t *a, uint32_t na, const uint64_t *b, uint32_t nb,
                                      uint64_t *quotient) {
    uint64_t rest[WIDE_MAX_WORDS] = {0};
    uint64_t divisor[WIDE_MAX_WORDS] = {0};
    memcpy(divisor, b, (size_t)nb * sizeof *b);
    memset(quotient, 0, (size_t)na * sizeof *quotient);
    for (uint32_t bit = 64 * na; bit-- > 0;) {
        /* rest = 2 rest + the next bit, below 2b: one word more than b suffices */
        uint64_t next = (a[bit / 64] >> (bit % 64)) & 1;
        for (uint32_t i = 0; i <= nb; i++) {
            const uint64_t top = rest[i] >> 63;
            rest[i] = (rest[i] << 1) | next;
            next = top;
        }
        if (wide_less(rest, divisor, nb + 1) == 0) {
            (void)wide_sub(rest, divisor, nb + 1, rest);
            quotient[bit / 64] |= UINT64_C(1) << (bit % 64);
        }
    }
}

#endif
