/* The negacyclic number-theoretic transform mod X^N + 1 and mod one prime p < 2^30.
 *
 * Forward takes coefficients a_0 .. a_{N-1} to X[i] = a(psi^(2 brv(i) + 1)), psi the
 * smallest primitive 2N-th root of unity, brv the reversal of log2 N bits: the
 * order of SEAL. Butterflies are D. Harvey's ("Faster arithmetic for
 * number-theoretic transforms", 2014): words stay below 4p on the way forward
 * and below 2p on the way back, and are reduced at the very end.
 *
 * Forward, Cooley-Tukey, N = 8: m blocks, each with its own twiddle w[m + i];
 * a block's left half meets its right half, "gap" words apart.
 *
 *     m = 1, gap 4   [ 0 1 2 3 | 4 5 6 7 ]          w[1]
 *     m = 2, gap 2   [ 0 1 | 2 3 ][ 4 5 | 6 7 ]     w[2] w[3]
 *     m = 4, gap 1   [ 0|1 ][ 2|3 ][ 4|5 ][ 6|7 ]   w[4] w[5] w[6] w[7]
 *
 * Inverse, Gentleman-Sande: the same picture read upwards, each butterfly undone
 * up to its factor 2, and all those factors undone at once by N^-1:
 *
 *     m = 4, gap 1   [ 0|1 ][ 2|3 ][ 4|5 ][ 6|7 ]   v[4] v[5] v[6] v[7]
 *     m = 2, gap 2   [ 0 1 | 2 3 ][ 4 5 | 6 7 ]     v[2] v[3]
 *     m = 1, gap 4   [ 0 1 2 3 | 4 5 6 7 ]          left v[0], right v[1]
 *
 * w[i] = psi^brv(i); v[i] = psi^-brv(i) for i >= 2, v[1] = psi^-brv(1) N^-1, v[0] = N^-1.
 * Each table has a twin of Shoup quotients (zq_shoup).
 */
#ifndef PYBFV_NTT_H
#define PYBFV_NTT_H

#include "zq.h"

/* (x, y) -> (x + w y, x - w y) mod p.
 * In, Out: *x, *y < 4p; w < p, w_shoup its quotient; p < 2^30. Alias: none.
 * x folded below 2p, w y < 2p by Shoup: both results in [0, 4p). */
static inline void ntt_butterfly_forward(uint32_t *restrict x, uint32_t *restrict y, uint32_t w,
                                         uint32_t w_shoup, uint32_t p) {
    ZQ_ASSERT(p < ZQ_PRIME_LIMIT && *x < 4 * p && *y < 4 * p);
    const uint32_t u = zq_fold(*x, 2 * p);
    const uint32_t v = zq_mul_shoup_lazy(*y, w, w_shoup, p);
    *x = u + v;
    *y = u - v + 2 * p;
    ZQ_ASSERT(*x < 4 * p && *y < 4 * p);
}

/* (x, y) -> (x + y, (x - y) v) mod p.
 * In, Out: *x, *y < 2p; v < p, v_shoup its quotient; p < 2^30. Alias: none.
 * x + y < 4p is folded, x - y + 2p is in (0, 4p), and Shoup brings any word below 2p. */
static inline void ntt_butterfly_inverse(uint32_t *restrict x, uint32_t *restrict y, uint32_t v,
                                         uint32_t v_shoup, uint32_t p) {
    ZQ_ASSERT(p < ZQ_PRIME_LIMIT && *x < 2 * p && *y < 2 * p);
    const uint32_t a = *x, b = *y;
    *x = zq_fold(a + b, 2 * p);
    *y = zq_mul_shoup_lazy(a - b + 2 * p, v, v_shoup, p);
}

/* (x, y) -> ((x + y) v0, (x - y) v1) mod p, the factor 1/N in both twiddles.
 * In: *x, *y < 2p; v0, v1 < p with their quotients; p < 2^30. Out: < p. Alias: none. */
static inline void ntt_butterfly_last(uint32_t *restrict x, uint32_t *restrict y, uint32_t v0,
                                      uint32_t v0_shoup, uint32_t v1, uint32_t v1_shoup, uint32_t p) {
    ZQ_ASSERT(p < ZQ_PRIME_LIMIT && *x < 2 * p && *y < 2 * p);
    const uint32_t a = *x, b = *y;
    *x = zq_mul_shoup(a + b, v0, v0_shoup, p);
    *y = zq_mul_shoup(a - b + 2 * p, v1, v1_shoup, p);
}

/* One stage, m blocks of forward butterflies.
 * In, Out: n words < 4p; w, w_shoup: the tables; m < n, both powers of two. Alias: none. */
static inline void ntt_forward_stage_lazy(uint32_t *restrict x, uint32_t n, uint32_t m,
                                          const uint32_t *restrict w, const uint32_t *restrict w_shoup,
                                          uint32_t p) {
    ZQ_ASSERT(m != 0 && m < n && (m & (m - 1)) == 0 && (n & (n - 1)) == 0);
    const uint32_t gap = n / (2 * m);
    for (uint32_t i = 0; i < m; i++) {
        uint32_t *restrict left = x + (size_t)2 * gap * i;
        uint32_t *restrict right = left + gap;
        const uint32_t twiddle = w[m + i], quotient = w_shoup[m + i];
        for (uint32_t j = 0; j < gap; j++) {
            ntt_butterfly_forward(left + j, right + j, twiddle, quotient, p);
        }
    }
}

/* One stage, m >= 2 blocks of inverse butterflies.
 * In, Out: n words < 2p; v, v_shoup: the tables; m < n, both powers of two. Alias: none. */
static inline void ntt_inverse_stage_lazy(uint32_t *restrict x, uint32_t n, uint32_t m,
                                          const uint32_t *restrict v, const uint32_t *restrict v_shoup,
                                          uint32_t p) {
    ZQ_ASSERT(m >= 2 && m < n && (m & (m - 1)) == 0 && (n & (n - 1)) == 0);
    const uint32_t gap = n / (2 * m);
    for (uint32_t i = 0; i < m; i++) {
        uint32_t *restrict left = x + (size_t)2 * gap * i;
        uint32_t *restrict right = left + gap;
        const uint32_t twiddle = v[m + i], quotient = v_shoup[m + i];
        for (uint32_t j = 0; j < gap; j++) {
            ntt_butterfly_inverse(left + j, right + j, twiddle, quotient, p);
        }
    }
}

/* The last stage of the inverse, with N^-1 in both twiddles.
 * In: n words < 2p. Out: n words < p. Alias: none. */
static inline void ntt_inverse_last(uint32_t *restrict x, uint32_t n, const uint32_t *restrict v,
                                    const uint32_t *restrict v_shoup, uint32_t p) {
    const uint32_t gap = n / 2;
    uint32_t *restrict right = x + gap;
    const uint32_t v0 = v[0], v0_shoup = v_shoup[0], v1 = v[1], v1_shoup = v_shoup[1];
    for (uint32_t j = 0; j < gap; j++) {
        ntt_butterfly_last(x + j, right + j, v0, v0_shoup, v1, v1_shoup, p);
    }
}

/* A word of the forward transform, in full. In: x < 4p, p < 2^30. Out: < p. */
static inline uint32_t ntt_reduce_word(uint32_t x, uint32_t p) {
    ZQ_ASSERT(p < ZQ_PRIME_LIMIT && x < 4 * p);
    return zq_fold(zq_fold(x, 2 * p), p);
}

/* In: n words < 4p. Out: < p. */
static inline void ntt_reduce(uint32_t *restrict x, uint32_t n, uint32_t p) {
    for (uint32_t j = 0; j < n; j++) {
        x[j] = ntt_reduce_word(x[j], p);
    }
}

/* Coefficients to SEAL's order, in place.
 * In: n words < 4p, n >= 2 a power of two. Out: < p. Alias: none. */
static inline void ntt_forward(uint32_t *restrict x, uint32_t n, const uint32_t *restrict w,
                               const uint32_t *restrict w_shoup, uint32_t p) {
    for (uint32_t m = 1; m < n; m *= 2) {
        ntt_forward_stage_lazy(x, n, m, w, w_shoup, p);
    }
    ntt_reduce(x, n, p);
}

/* SEAL's order to coefficients, in place.
 * In: n words < 2p, n >= 2 a power of two. Out: < p. Alias: none. */
static inline void ntt_inverse(uint32_t *restrict x, uint32_t n, const uint32_t *restrict v,
                               const uint32_t *restrict v_shoup, uint32_t p) {
    for (uint32_t m = n / 2; m >= 2; m /= 2) {
        ntt_inverse_stage_lazy(x, n, m, v, v_shoup, p);
    }
    ntt_inverse_last(x, n, v, v_shoup, p);
}

#endif
