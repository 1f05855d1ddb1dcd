/* The transforms of dpu/core/ntt.h over the few vector operations that avx2.c and
 * avx512.c define (VEC_LANES words each), with the same words after every stage:
 * two long stages a pass, to load and store half as often, and all stages whose
 * gap is a vector or less, where compilers find no vectors, in one.
 *
 * In the short stages a pair of vectors holds 2 VEC_LANES consecutive words. For gap g it is kept as
 * (left, right), the left and the right halves of its blocks in their order, so
 * that a stage is one butterfly of whole vectors. With 4 lanes:
 *
 *     gap 4   left = 0 1 2 3   right = 4 5 6 7    as loaded
 *     gap 2   left = 0 1 4 5   right = 2 3 6 7    vec_exchange 2
 *     gap 1   left = 0 2 4 6   right = 1 3 5 7    vec_exchange 1
 *     stored  0 1 2 3, 4 5 6 7                    vec_interleave
 *
 * vec_exchange g swaps the second g words of every 2 g in left with the first g
 * in right: it is its own inverse, so the way back takes the same steps. */
#ifndef PYBFV_NTT_VECTOR_H
#define PYBFV_NTT_VECTOR_H

#include "../../../dpu/core/ntt.h"

/* zq_fold, lane by lane. */
static inline vec vec_fold(vec x, vec c) {
    return vec_min(x, vec_sub(x, c));
}

/* zq_mul_shoup_lazy, lane by lane. Out: < 2p. */
static inline vec vec_mul_shoup_lazy(vec a, vec w, vec w_shoup, vec p) {
    return vec_sub(vec_mul_low(a, w), vec_mul_low(vec_mul_high(a, w_shoup), p));
}

/* The butterflies of ntt_forward_stage_lazy and ntt_inverse_stage_lazy, same ranges. */
static inline void vec_forward(vec *left, vec *right, vec w, vec w_shoup, vec p, vec p2) {
    const vec u = vec_fold(*left, p2);
    const vec v = vec_mul_shoup_lazy(*right, w, w_shoup, p);
    *left = vec_add(u, v);
    *right = vec_add(vec_sub(u, v), p2);
}

static inline void vec_inverse(vec *left, vec *right, vec w, vec w_shoup, vec p, vec p2) {
    const vec a = *left, b = *right;
    *left = vec_fold(vec_add(a, b), p2);
    *right = vec_mul_shoup_lazy(vec_add(vec_sub(a, b), p2), w, w_shoup, p);
}

/* The stages m and 2m of the way forward in one pass over memory; gap >= VEC_LANES in both. */
static inline void vec_forward_two_stages(uint32_t *restrict x, uint32_t n, uint32_t m,
                                          const uint32_t *restrict w, const uint32_t *restrict w_shoup, vec p,
                                          vec p2) {
    const size_t gap = n / (4 * m);
    for (uint32_t i = 0; i < m; i++) {
        const vec w0 = vec_set1(w[m + i]), w0_shoup = vec_set1(w_shoup[m + i]);
        const vec w1 = vec_set1(w[2 * (m + i)]), w1_shoup = vec_set1(w_shoup[2 * (m + i)]);
        const vec w2 = vec_set1(w[2 * (m + i) + 1]), w2_shoup = vec_set1(w_shoup[2 * (m + i) + 1]);
        for (uint32_t *at = x + 4 * gap * i, *end = at + gap; at < end; at += VEC_LANES) {
            vec a = vec_load(at), b = vec_load(at + gap);
            vec c = vec_load(at + 2 * gap), d = vec_load(at + 3 * gap);
            vec_forward(&a, &c, w0, w0_shoup, p, p2);
            vec_forward(&b, &d, w0, w0_shoup, p, p2);
            vec_forward(&a, &b, w1, w1_shoup, p, p2);
            vec_forward(&c, &d, w2, w2_shoup, p, p2);
            vec_store(at, a);
            vec_store(at + gap, b);
            vec_store(at + 2 * gap, c);
            vec_store(at + 3 * gap, d);
        }
    }
}

/* The stages 2m and m, m >= 2, of the way back in one pass; gap >= VEC_LANES in both. */
static inline void vec_inverse_two_stages(uint32_t *restrict x, uint32_t n, uint32_t m,
                                          const uint32_t *restrict v, const uint32_t *restrict v_shoup, vec p,
                                          vec p2) {
    const size_t gap = n / (4 * m);
    for (uint32_t i = 0; i < m; i++) {
        const vec v0 = vec_set1(v[m + i]), v0_shoup = vec_set1(v_shoup[m + i]);
        const vec v1 = vec_set1(v[2 * (m + i)]), v1_shoup = vec_set1(v_shoup[2 * (m + i)]);
        const vec v2 = vec_set1(v[2 * (m + i) + 1]), v2_shoup = vec_set1(v_shoup[2 * (m + i) + 1]);
        for (uint32_t *at = x + 4 * gap * i, *end = at + gap; at < end; at += VEC_LANES) {
            vec a = vec_load(at), b = vec_load(at + gap);
            vec c = vec_load(at + 2 * gap), d = vec_load(at + 3 * gap);
            vec_inverse(&a, &b, v1, v1_shoup, p, p2);
            vec_inverse(&c, &d, v2, v2_shoup, p, p2);
            vec_inverse(&a, &c, v0, v0_shoup, p, p2);
            vec_inverse(&b, &d, v0, v0_shoup, p, p2);
            vec_store(at, a);
            vec_store(at + gap, b);
            vec_store(at + 2 * gap, c);
            vec_store(at + 3 * gap, d);
        }
    }
}

/* The twiddles of the pair `pair` for gap g < VEC_LANES: VEC_LANES / g words of the
 * table from n / 2g + pair VEC_LANES / g, each g times. It loads VEC_LANES words:
 * the last of them is at most the table's last, since (n - VEC_LANES) / g + VEC_LANES <= n. */
static inline vec vec_twiddles(const uint32_t *table, uint32_t n, uint32_t pair, uint32_t gap) {
    return vec_spread(vec_load(table + n / (2 * gap) + (size_t)pair * (VEC_LANES / gap)), gap);
}

/* ntt_forward for n >= 2 VEC_LANES. */
static inline void vec_ntt_forward(uint32_t *restrict x, uint32_t n, const uint32_t *restrict w,
                                   const uint32_t *restrict w_shoup, uint32_t prime) {
    const uint32_t pairs = n / (2 * VEC_LANES);
    const vec p = vec_set1(prime), p2 = vec_set1(2 * prime);
    uint32_t m = 1;
    for (; 2 * m < pairs; m *= 4) {
        vec_forward_two_stages(x, n, m, w, w_shoup, p, p2);
    }
    if (m < pairs) {
        ntt_forward_stage_lazy(x, n, m, w, w_shoup, prime);
    }
    for (uint32_t pair = 0; pair < pairs; pair++, x += 2 * VEC_LANES) {
        vec left = vec_load(x), right = vec_load(x + VEC_LANES);
        vec_forward(&left, &right, vec_set1(w[pairs + pair]), vec_set1(w_shoup[pairs + pair]), p, p2);
        VEC_UNROLL
        for (uint32_t gap = VEC_LANES / 2; gap != 0; gap /= 2) {
            vec_exchange(&left, &right, gap);
            vec_forward(&left, &right, vec_twiddles(w, n, pair, gap), vec_twiddles(w_shoup, n, pair, gap), p,
                        p2);
        }
        left = vec_fold(vec_fold(left, p2), p);
        right = vec_fold(vec_fold(right, p2), p);
        vec_interleave(&left, &right);
        vec_store(x, left);
        vec_store(x + VEC_LANES, right);
    }
}

/* ntt_inverse for n >= 4 VEC_LANES: the last stage is not among the short ones. */
static inline void vec_ntt_inverse(uint32_t *restrict x, uint32_t n, const uint32_t *restrict v,
                                   const uint32_t *restrict v_shoup, uint32_t prime) {
    const uint32_t pairs = n / (2 * VEC_LANES);
    const vec p = vec_set1(prime), p2 = vec_set1(2 * prime);
    for (uint32_t pair = 0; pair < pairs; pair++) {
        uint32_t *at = x + (size_t)2 * VEC_LANES * pair;
        vec left = vec_load(at), right = vec_load(at + VEC_LANES);
        vec_deinterleave(&left, &right);
        VEC_UNROLL
        for (uint32_t gap = 1; gap < VEC_LANES; gap *= 2) {
            vec_inverse(&left, &right, vec_twiddles(v, n, pair, gap), vec_twiddles(v_shoup, n, pair, gap), p,
                        p2);
            vec_exchange(&left, &right, gap);
        }
        vec_inverse(&left, &right, vec_set1(v[pairs + pair]), vec_set1(v_shoup[pairs + pair]), p, p2);
        vec_store(at, left);
        vec_store(at + VEC_LANES, right);
    }
    uint32_t m = pairs / 2;
    for (; m >= 4; m /= 4) {
        vec_inverse_two_stages(x, n, m / 2, v, v_shoup, p, p2);
    }
    if (m == 2) {
        ntt_inverse_stage_lazy(x, n, m, v, v_shoup, prime);
    }
    ntt_inverse_last(x, n, v, v_shoup, prime);
}

#endif
