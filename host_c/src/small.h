/* Polynomials with small signed coefficients (ternary, errors), int8_t[N]. */
#ifndef PYBFV_SMALL_H
#define PYBFV_SMALL_H

#include "cpu/kernels.h"

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
    const size_t n = ring->n;
    for (uint32_t i = 0; i < ring->count; i++) {
        ring->body->small(out + i * n, x, m == NULL ? NULL : m + i * n, n, &ring->prime[i].mod);
    }
}

#endif
