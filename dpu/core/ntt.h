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

/* One stage, m blocks: (x, y) -> (x + w y, x - w y).
 * In, Out: n words < 4p; w, w_shoup: the tables; m < n a power of two.
 * Alias: none. x folded below 2p, w y < 2p by Shoup: both results in [0, 4p). */
static inline void ntt_forward_stage_lazy(uint32_t *restrict x, uint32_t n, uint32_t m,
                                          const uint32_t *restrict w, const uint32_t *restrict w_shoup,
                                          uint32_t p) {
    const uint32_t gap = n / (2 * m);
    for (uint32_t i = 0; i < m; i++) {
        uint32_t *restrict left = x + (size_t)2 * gap * i;
        uint32_t *restrict right = left + gap;
        const uint32_t twiddle = w[m + i], quotient = w_shoup[m + i];
        for (uint32_t j = 0; j < gap; j++) {
            const uint32_t u = zq_fold(left[j], 2 * p);
            const uint32_t v = zq_mul_shoup_lazy(right[j], twiddle, quotient, p);
            left[j] = u + v;
            right[j] = u - v + 2 * p;
        }
    }
}

/* One stage, m >= 2 blocks: (x, y) -> (x + y, (x - y) v).
 * In, Out: n words < 2p. Alias: none. x + y < 4p is folded, x - y + 2p is in
 * (0, 4p), and Shoup brings any word below 2p. */
static inline void ntt_inverse_stage_lazy(uint32_t *restrict x, uint32_t n, uint32_t m,
                                          const uint32_t *restrict v, const uint32_t *restrict v_shoup,
                                          uint32_t p) {
    const uint32_t gap = n / (2 * m);
    for (uint32_t i = 0; i < m; i++) {
        uint32_t *restrict left = x + (size_t)2 * gap * i;
        uint32_t *restrict right = left + gap;
        const uint32_t twiddle = v[m + i], quotient = v_shoup[m + i];
        for (uint32_t j = 0; j < gap; j++) {
            const uint32_t a = left[j], b = right[j];
            left[j] = zq_fold(a + b, 2 * p);
            right[j] = zq_mul_shoup_lazy(a - b + 2 * p, twiddle, quotient, p);
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
        const uint32_t a = x[j], b = right[j];
        x[j] = zq_mul_shoup(a + b, v0, v0_shoup, p);
        right[j] = zq_mul_shoup(a - b + 2 * p, v1, v1_shoup, p);
    }
}

/* In: n words < 4p. Out: < p. */
static inline void ntt_reduce(uint32_t *restrict x, uint32_t n, uint32_t p) {
    for (uint32_t j = 0; j < n; j++) {
        x[j] = zq_fold(zq_fold(x[j], 2 * p), p);
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
