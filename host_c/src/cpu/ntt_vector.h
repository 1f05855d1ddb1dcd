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

#define VEC_INLINE static inline __attribute__((always_inline))

/* Pairs of vectors that go through the short stages side by side, to hide latencies. Measured. */
#define VEC_GROUP 4u
#define VEC_EACH_PAIR _Pragma("GCC unroll 4")
#define VEC_EACH_OF_8 _Pragma("GCC unroll 8")

/* A twiddle of each lane, its Shoup quotient, and the quotients of the odd lanes in the even ones. */
struct vec_twiddle {
    vec w, shoup, shoup_odd;
};

/* What all butterflies of a transform need. */
struct vec_prime {
    vec p, p2, fold; /* p, 2p; the multiple of p that the left word is folded by */
};

/* zq_fold, lane by lane. */
VEC_INLINE vec vec_fold(vec x, vec c) {
    return vec_min(x, vec_sub(x, c));
}

/* zq_mul_shoup_lazy, lane by lane. In: any words. Out: < 2p. */
VEC_INLINE vec vec_mul_shoup_lazy(vec a, const struct vec_twiddle *t, vec p) {
    return vec_sub(vec_mul_low(a, t->w), vec_mul_low(vec_mul_high(a, t->shoup, t->shoup_odd), p));
}

VEC_INLINE struct vec_twiddle vec_twiddle_at(const uint32_t *w, const uint32_t *w_shoup, size_t at) {
    const vec shoup = vec_set1(w_shoup[at]);
    return (struct vec_twiddle){vec_set1(w[at]), shoup, shoup};
}

/* The forward butterfly, and how large its words grow. ntt_forward folds the left word by 2p in every
 * stage: below 4p in and out. For p < 2^28, 16p fits a word: then words below B p come out below (B + 2) p
 * without folding, and one fold by 8p takes a left word from below 16p to below 8p. */
VEC_INLINE void vec_forward(vec *left, vec *right, struct vec_twiddle t, const struct vec_prime *prime,
                            bool fold) {
    const vec u = fold ? vec_fold(*left, prime->fold) : *left;
    const vec v = vec_mul_shoup_lazy(*right, &t, prime->p);
    *left = vec_add(u, v);
    *right = vec_add(vec_sub(u, v), prime->p2);
}

/* The butterfly of ntt_inverse_stage_lazy, same ranges. */
VEC_INLINE void vec_inverse(vec *left, vec *right, struct vec_twiddle t, const struct vec_prime *prime) {
    const vec a = *left, b = *right;
    *left = vec_fold(vec_add(a, b), prime->p2);
    *right = vec_mul_shoup_lazy(vec_add(vec_sub(a, b), prime->p2), &t, prime->p);
}

/* The stages m and 2m of the way forward in one pass over memory; gap >= VEC_LANES in both. */
VEC_INLINE void vec_forward_two_stages(uint32_t *restrict x, uint32_t n, uint32_t m,
                                       const uint32_t *restrict w, const uint32_t *restrict w_shoup,
                                       const struct vec_prime *prime, bool fold, bool fold_again) {
    const size_t gap = n / (4 * m);
    for (uint32_t i = 0; i < m; i++) {
        const struct vec_twiddle w0 = vec_twiddle_at(w, w_shoup, m + i);
        const struct vec_twiddle w1 = vec_twiddle_at(w, w_shoup, 2 * (m + i));
        const struct vec_twiddle w2 = vec_twiddle_at(w, w_shoup, 2 * (m + i) + 1);
        for (uint32_t *at = x + 4 * gap * i, *end = at + gap; at < end; at += VEC_LANES) {
            vec a = vec_load(at), b = vec_load(at + gap);
            vec c = vec_load(at + 2 * gap), d = vec_load(at + 3 * gap);
            vec_forward(&a, &c, w0, prime, fold);
            vec_forward(&b, &d, w0, prime, fold);
            vec_forward(&a, &b, w1, prime, fold_again);
            vec_forward(&c, &d, w2, prime, fold_again);
            vec_store(at, a);
            vec_store(at + gap, b);
            vec_store(at + 2 * gap, c);
            vec_store(at + 3 * gap, d);
        }
    }
}

/* The stages 1, 2 and 4 of the way forward in one pass, without folds; gap >= VEC_LANES in all. */
VEC_INLINE void vec_forward_three_stages(uint32_t *restrict x, uint32_t n, const uint32_t *restrict w,
                                         const uint32_t *restrict w_shoup, const struct vec_prime *prime,
                                         bool fold) {
    const size_t gap = n / 8;
    for (uint32_t *at = x, *end = x + gap; at < end; at += VEC_LANES) {
        vec a[8];
        VEC_EACH_OF_8
        for (uint32_t k = 0; k < 8; k++) {
            a[k] = vec_load(at + k * gap);
        }
        VEC_EACH_OF_8
        for (uint32_t k = 0; k < 4; k++) {
            vec_forward(&a[k], &a[k + 4], vec_twiddle_at(w, w_shoup, 1), prime, fold);
        }
        VEC_EACH_OF_8
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t left = 4 * (k / 2) + k % 2;
            vec_forward(&a[left], &a[left + 2], vec_twiddle_at(w, w_shoup, 2 + k / 2), prime, fold);
        }
        VEC_EACH_OF_8
        for (uint32_t k = 0; k < 4; k++) {
            vec_forward(&a[2 * k], &a[2 * k + 1], vec_twiddle_at(w, w_shoup, 4 + k), prime, fold);
        }
        VEC_EACH_OF_8
        for (uint32_t k = 0; k < 8; k++) {
            vec_store(at + k * gap, a[k]);
        }
    }
}

/* The stage m; gap >= VEC_LANES. */
VEC_INLINE void vec_forward_stage(uint32_t *restrict x, uint32_t n, uint32_t m, const uint32_t *restrict w,
                                  const uint32_t *restrict w_shoup, const struct vec_prime *prime,
                                  bool fold) {
    const size_t gap = n / (2 * m);
    for (uint32_t i = 0; i < m; i++) {
        const struct vec_twiddle t = vec_twiddle_at(w, w_shoup, m + i);
        for (uint32_t *at = x + 2 * gap * i, *end = at + gap; at < end; at += VEC_LANES) {
            vec left = vec_load(at), right = vec_load(at + gap);
            vec_forward(&left, &right, t, prime, fold);
            vec_store(at, left);
            vec_store(at + gap, right);
        }
    }
}

/* The stages 2m and m, m >= 2, of the way back in one pass; gap >= VEC_LANES in both. */
VEC_INLINE void vec_inverse_two_stages(uint32_t *restrict x, uint32_t n, uint32_t m,
                                       const uint32_t *restrict v, const uint32_t *restrict v_shoup,
                                       const struct vec_prime *prime) {
    const size_t gap = n / (4 * m);
    for (uint32_t i = 0; i < m; i++) {
        const struct vec_twiddle v0 = vec_twiddle_at(v, v_shoup, m + i);
        const struct vec_twiddle v1 = vec_twiddle_at(v, v_shoup, 2 * (m + i));
        const struct vec_twiddle v2 = vec_twiddle_at(v, v_shoup, 2 * (m + i) + 1);
        for (uint32_t *at = x + 4 * gap * i, *end = at + gap; at < end; at += VEC_LANES) {
            vec a = vec_load(at), b = vec_load(at + gap);
            vec c = vec_load(at + 2 * gap), d = vec_load(at + 3 * gap);
            vec_inverse(&a, &b, v1, prime);
            vec_inverse(&c, &d, v2, prime);
            vec_inverse(&a, &c, v0, prime);
            vec_inverse(&b, &d, v0, prime);
            vec_store(at, a);
            vec_store(at + gap, b);
            vec_store(at + 2 * gap, c);
            vec_store(at + 3 * gap, d);
        }
    }
}

/* The butterfly of ntt_inverse_last: t0 and t1 carry N^-1. Out: < p. */
VEC_INLINE void vec_inverse_last(vec *left, vec *right, struct vec_twiddle t0, struct vec_twiddle t1,
                                 const struct vec_prime *prime) {
    const vec a = *left, b = *right, p = prime->p;
    *left = vec_fold(vec_mul_shoup_lazy(vec_add(a, b), &t0, p), p);
    *right = vec_fold(vec_mul_shoup_lazy(vec_add(vec_sub(a, b), prime->p2), &t1, p), p);
}

/* The stages 2 and 1 of the way back in one pass; gap >= VEC_LANES in both. */
VEC_INLINE void vec_inverse_last_two(uint32_t *restrict x, uint32_t n, const uint32_t *restrict v,
                                     const uint32_t *restrict v_shoup, const struct vec_prime *prime) {
    const size_t gap = n / 4;
    const struct vec_twiddle t0 = vec_twiddle_at(v, v_shoup, 0), t1 = vec_twiddle_at(v, v_shoup, 1);
    const struct vec_twiddle t2 = vec_twiddle_at(v, v_shoup, 2), t3 = vec_twiddle_at(v, v_shoup, 3);
    for (uint32_t *at = x, *end = x + gap; at < end; at += VEC_LANES) {
        vec a = vec_load(at), b = vec_load(at + gap);
        vec c = vec_load(at + 2 * gap), d = vec_load(at + 3 * gap);
        vec_inverse(&a, &b, t2, prime);
        vec_inverse(&c, &d, t3, prime);
        vec_inverse_last(&a, &c, t0, t1, prime);
        vec_inverse_last(&b, &d, t0, t1, prime);
        vec_store(at, a);
        vec_store(at + gap, b);
        vec_store(at + 2 * gap, c);
        vec_store(at + 3 * gap, d);
    }
}

/* The stages 4, 2 and 1 of the way back in one pass; gap >= VEC_LANES in all. */
VEC_INLINE void vec_inverse_last_three(uint32_t *restrict x, uint32_t n, const uint32_t *restrict v,
                                       const uint32_t *restrict v_shoup, const struct vec_prime *prime) {
    const size_t gap = n / 8;
    for (uint32_t *at = x, *end = x + gap; at < end; at += VEC_LANES) {
        vec a[8];
        VEC_EACH_OF_8
        for (uint32_t k = 0; k < 8; k++) {
            a[k] = vec_load(at + k * gap);
        }
        VEC_EACH_OF_8
        for (uint32_t k = 0; k < 4; k++) {
            vec_inverse(&a[2 * k], &a[2 * k + 1], vec_twiddle_at(v, v_shoup, 4 + k), prime);
        }
        VEC_EACH_OF_8
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t left = 4 * (k / 2) + k % 2;
            vec_inverse(&a[left], &a[left + 2], vec_twiddle_at(v, v_shoup, 2 + k / 2), prime);
        }
        VEC_EACH_OF_8
        for (uint32_t k = 0; k < 4; k++) {
            vec_inverse_last(&a[k], &a[k + 4], vec_twiddle_at(v, v_shoup, 0), vec_twiddle_at(v, v_shoup, 1),
                             prime);
        }
        VEC_EACH_OF_8
        for (uint32_t k = 0; k < 8; k++) {
            vec_store(at + k * gap, a[k]);
        }
    }
}

/* The twiddles of the pair `pair` for gap g < VEC_LANES: VEC_LANES / g words of the
 * table from n / 2g + pair VEC_LANES / g, each g times. It loads VEC_LANES words:
 * the last of them is at most the table's last, since (n - VEC_LANES) / g + VEC_LANES <= n. */
VEC_INLINE struct vec_twiddle vec_twiddles(const uint32_t *w, const uint32_t *w_shoup, uint32_t n,
                                           uint32_t pair, uint32_t gap) {
    const size_t at = n / (2 * gap) + (size_t)pair * (VEC_LANES / gap);
    const vec shoup = vec_spread(vec_load(w_shoup + at), gap);
    return (struct vec_twiddle){vec_spread(vec_load(w + at), gap), shoup, gap == 1 ? vec_odd(shoup) : shoup};
}

/* The stage of gap < VEC_LANES of `count` pairs. */
VEC_INLINE void vec_forward_level(vec *left, vec *right, uint32_t n, uint32_t pair, uint32_t count,
                                  uint32_t gap, const uint32_t *restrict w, const uint32_t *restrict w_shoup,
                                  const struct vec_prime *prime, bool fold) {
    VEC_EACH_PAIR
    for (uint32_t k = 0; k < count; k++) {
        vec_exchange(&left[k], &right[k], gap);
        vec_forward(&left[k], &right[k], vec_twiddles(w, w_shoup, n, pair + k, gap), prime, fold);
    }
}

/* The last stages of the way forward for `count` pairs (1 or VEC_GROUP). With room:
 * words come below 16p, and are below 10p, 12p, 14p, 16p, 10p after the stages. */
VEC_INLINE void vec_forward_short(uint32_t *restrict x, uint32_t n, uint32_t pair, uint32_t count,
                                  const uint32_t *restrict w, const uint32_t *restrict w_shoup,
                                  const struct vec_prime *prime, bool room) {
    const uint32_t pairs = n / (2 * VEC_LANES);
    uint32_t *at = x + (size_t)2 * VEC_LANES * pair;
    vec left[VEC_GROUP], right[VEC_GROUP];
    VEC_EACH_PAIR
    for (uint32_t k = 0; k < count; k++) {
        left[k] = vec_load(at + (size_t)2 * VEC_LANES * k);
        right[k] = vec_load(at + (size_t)2 * VEC_LANES * k + VEC_LANES);
        vec_forward(&left[k], &right[k], vec_twiddle_at(w, w_shoup, pairs + pair + k), prime, true);
    }
    if (VEC_LANES > 8) {
        vec_forward_level(left, right, n, pair, count, 8, w, w_shoup, prime, !room);
    }
    vec_forward_level(left, right, n, pair, count, 4, w, w_shoup, prime, !room);
    vec_forward_level(left, right, n, pair, count, 2, w, w_shoup, prime, !room);
    vec_forward_level(left, right, n, pair, count, 1, w, w_shoup, prime, true);
    VEC_EACH_PAIR
    for (uint32_t k = 0; k < count; k++) {
        if (room) {
            const vec p4 = vec_add(prime->p2, prime->p2);
            left[k] = vec_fold(vec_fold(left[k], prime->fold), p4);
            right[k] = vec_fold(vec_fold(right[k], prime->fold), p4);
        }
        left[k] = vec_fold(vec_fold(left[k], prime->p2), prime->p);
        right[k] = vec_fold(vec_fold(right[k], prime->p2), prime->p);
        vec_interleave(&left[k], &right[k]);
        vec_store(at + (size_t)2 * VEC_LANES * k, left[k]);
        vec_store(at + (size_t)2 * VEC_LANES * k + VEC_LANES, right[k]);
    }
}

/* ntt_forward for n >= 2 VEC_LANES. room: p < 2^28. In: < p. The long stages are taken two at a time, after
 * one or three when their number is odd; with room, words are below B p before and (B + 2) p after each:
 * without a fold while that stays within 16, else with one at first, which leaves B = 8. */
VEC_INLINE void vec_ntt_forward_in(uint32_t *restrict x, uint32_t n, const uint32_t *restrict w,
                                   const uint32_t *restrict w_shoup, uint32_t p, bool room) {
    const uint32_t pairs = n / (2 * VEC_LANES);
    const struct vec_prime prime = {vec_set1(p), vec_set1(2 * p), vec_set1(room ? 8 * p : 2 * p)};
    uint32_t m = 1, bound = 1;
    if (pairs == 2) {
        vec_forward_stage(x, n, 1, w, w_shoup, &prime, !room);
        m = 2;
    } else if ((__builtin_ctz(pairs) & 1) != 0) {
        vec_forward_three_stages(x, n, w, w_shoup, &prime, !room);
        m = 8;
        bound = 7;
    }
    for (; m < pairs; m *= 4) {
        if (!room) {
            vec_forward_two_stages(x, n, m, w, w_shoup, &prime, true, true);
        } else if (bound <= 12) {
            vec_forward_two_stages(x, n, m, w, w_shoup, &prime, false, false);
            bound += 4;
        } else {
            vec_forward_two_stages(x, n, m, w, w_shoup, &prime, true, false);
            bound = 12;
        }
        ZQ_ASSERT(bound <= 16);
    }
    const uint32_t step = pairs < VEC_GROUP ? 1 : VEC_GROUP;
    for (uint32_t pair = 0; pair < pairs; pair += step) {
        if (step == 1) {
            vec_forward_short(x, n, pair, 1, w, w_shoup, &prime, room);
        } else {
            vec_forward_short(x, n, pair, VEC_GROUP, w, w_shoup, &prime, room);
        }
    }
}

static inline void vec_ntt_forward(uint32_t *x, uint32_t n, const uint32_t *w, const uint32_t *w_shoup,
                                   uint32_t p) {
    if (p < UINT32_C(1) << 28) {
        vec_ntt_forward_in(x, n, w, w_shoup, p, true);
    } else {
        vec_ntt_forward_in(x, n, w, w_shoup, p, false);
    }
}

/* The stage of gap < VEC_LANES of `count` pairs. */
VEC_INLINE void vec_inverse_level(vec *left, vec *right, uint32_t n, uint32_t pair, uint32_t count,
                                  uint32_t gap, const uint32_t *restrict v, const uint32_t *restrict v_shoup,
                                  const struct vec_prime *prime) {
    VEC_EACH_PAIR
    for (uint32_t k = 0; k < count; k++) {
        vec_inverse(&left[k], &right[k], vec_twiddles(v, v_shoup, n, pair + k, gap), prime);
        vec_exchange(&left[k], &right[k], gap);
    }
}

/* The first stages of the way back for `count` pairs (1 or VEC_GROUP). */
VEC_INLINE void vec_inverse_short(uint32_t *x, const uint32_t *from, uint32_t n, uint32_t pair,
                                  uint32_t count, const uint32_t *restrict v,
                                  const uint32_t *restrict v_shoup, const struct vec_prime *prime) {
    const uint32_t pairs = n / (2 * VEC_LANES);
    uint32_t *at = x + (size_t)2 * VEC_LANES * pair;
    const uint32_t *in = from + (size_t)2 * VEC_LANES * pair;
    vec left[VEC_GROUP], right[VEC_GROUP];
    VEC_EACH_PAIR
    for (uint32_t k = 0; k < count; k++) {
        left[k] = vec_load(in + (size_t)2 * VEC_LANES * k);
        right[k] = vec_load(in + (size_t)2 * VEC_LANES * k + VEC_LANES);
        vec_deinterleave(&left[k], &right[k]);
    }
    vec_inverse_level(left, right, n, pair, count, 1, v, v_shoup, prime);
    vec_inverse_level(left, right, n, pair, count, 2, v, v_shoup, prime);
    vec_inverse_level(left, right, n, pair, count, 4, v, v_shoup, prime);
    if (VEC_LANES > 8) {
        vec_inverse_level(left, right, n, pair, count, 8, v, v_shoup, prime);
    }
    VEC_EACH_PAIR
    for (uint32_t k = 0; k < count; k++) {
        vec_inverse(&left[k], &right[k], vec_twiddle_at(v, v_shoup, pairs + pair + k), prime);
        vec_store(at + (size_t)2 * VEC_LANES * k, left[k]);
        vec_store(at + (size_t)2 * VEC_LANES * k + VEC_LANES, right[k]);
    }
}

/* ntt_inverse from `from` to x (which may be one) for n >= 4 VEC_LANES: the last stage is not among the
 * short ones. */
static inline void vec_ntt_inverse(uint32_t *x, const uint32_t *from, uint32_t n, const uint32_t *restrict v,
                                   const uint32_t *restrict v_shoup, uint32_t p) {
    const uint32_t pairs = n / (2 * VEC_LANES);
    const struct vec_prime prime = {vec_set1(p), vec_set1(2 * p), vec_set1(2 * p)};
    const uint32_t step = pairs < VEC_GROUP ? 1 : VEC_GROUP;
    for (uint32_t pair = 0; pair < pairs; pair += step) {
        if (step == 1) {
            vec_inverse_short(x, from, n, pair, 1, v, v_shoup, &prime);
        } else {
            vec_inverse_short(x, from, n, pair, VEC_GROUP, v, v_shoup, &prime);
        }
    }
    uint32_t m = pairs / 2;
    for (; m >= 8; m /= 4) {
        vec_inverse_two_stages(x, n, m / 2, v, v_shoup, &prime);
    }
    if (m == 4) {
        vec_inverse_last_three(x, n, v, v_shoup, &prime);
    } else if (m == 2) {
        vec_inverse_last_two(x, n, v, v_shoup, &prime);
    } else {
        ntt_inverse_last(x, n, v, v_shoup, p);
    }
}

#endif
