/* Polynomials with small signed coefficients (ternary, errors), int8_t[N]. */
#ifndef PYBFV_SMALL_H
#define PYBFV_SMALL_H

#include "ring.h"

/* out[k] = x[k] mod p for any prime of a ring. Out: residues. No branches on x. */
static inline void small_residues(const int8_t *x, uint32_t n, const struct zq_mod *mod, uint32_t *out) {
    const uint32_t p = mod->p;
    if (p > 128) {
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t word = (uint32_t)(int32_t)x[k];
            out[k] = word + (p & (UINT32_C(0) - (word >> 31)));
        }
    } else {
        /* toy primes: a multiple of p above 128 makes the sum positive */
        const uint32_t offset = p * (128 / p + 1);
        for (uint32_t k = 0; k < n; k++) {
            out[k] = zq_reduce32((uint32_t)(int32_t)x[k] + offset, mod);
        }
    }
}

/* 1 when some |x[k]| > limit, else 0; no branches on x. In: 0 <= limit < 128. */
static inline uint32_t small_exceeds(const int8_t *x, uint32_t n, int32_t limit) {
    uint32_t bad = 0;
    for (uint32_t k = 0; k < n; k++) {
        /* the sign bit of either difference */
        bad |= (uint32_t)(limit - x[k]) | (uint32_t)(limit + x[k]);
    }
    return bad >> 31;
}

/* out = m + x in coefficient form, [L][N]; m may be NULL for zero. In, Out: residues. */
static inline void small_add(const bfv_ring *ring, const int8_t *x, const uint32_t *m, uint32_t *out) {
    const uint32_t n = ring->n;
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct bfv_prime *prime = &ring->prime[i];
        uint32_t *plane = out + (size_t)i * n;
        small_residues(x, n, &prime->mod, plane);
        if (m != NULL) {
            const uint32_t *source = m + (size_t)i * n;
            for (uint32_t k = 0; k < n; k++) {
                plane[k] = zq_add(plane[k], source[k], prime->p);
            }
        }
    }
}

#endif
