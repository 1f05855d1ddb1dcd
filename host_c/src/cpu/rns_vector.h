/* rns_convert over the vector operations of avx2.c and avx512.c, VEC_LANES coefficients at a time: sums of
 * the even and of the odd words apart, in 64 bits, and Montgomery's reduction of them. */
#ifndef PYBFV_RNS_VECTOR_H
#define PYBFV_RNS_VECTOR_H

#include <string.h>

#include "../rns.h"
#include "ntt_vector.h"

/* Sums over digits: even and odd words. */
struct vec_sums {
    vec even, odd;
};

VEC_INLINE struct vec_sums vec_add_product(struct vec_sums sum, vec y, uint32_t factor) {
    const vec f = vec_set1(factor);
    sum.even = vec_add_64(sum.even, vec_mul_even(y, f));
    sum.odd = vec_add_64(sum.odd, vec_mul_even(vec_odd(y), f));
    return sum;
}

/* x / 2^32 mod p. In: x < 2^32 p. Out: < 2p. */
VEC_INLINE vec vec_redc(struct vec_sums x, vec neg_inv, vec p) {
    const vec even = vec_mul_even(vec_mul_even(x.even, neg_inv), p);
    const vec odd = vec_mul_even(vec_mul_even(x.odd, neg_inv), p);
    return vec_merge_high(vec_add_64(x.even, even), vec_add_64(x.odd, odd));
}

/* The rounded sums of fractions v, in the low words. y: `count` planes, stride words apart. */
VEC_INLINE struct vec_sums vec_rns_round(const uint32_t *restrict y, size_t stride, uint32_t count,
                                         const struct rns_change *change) {
    const vec half = vec_set1_64(UINT64_C(1) << (change->point - 1)), margin = vec_set1_64(change->margin);
    struct vec_sums sum = {half, half};
    for (uint32_t i = 0; i < count; i++) {
        sum = vec_add_product(sum, vec_load(y + i * stride), change->weight[i]);
    }
    struct vec_sums v = {vec_shift_right_64(sum.even, change->point),
                         vec_shift_right_64(sum.odd, change->point)};
    const vec even = vec_shift_right_64(vec_add_64(sum.even, margin), change->point);
    const vec odd = vec_shift_right_64(vec_add_64(sum.odd, margin), change->point);
    if (__builtin_expect(vec_differ(v.even, even) || vec_differ(v.odd, odd), 0)) {
        uint32_t exact[VEC_LANES];
        rns_round(change, y, stride, VEC_LANES, exact);
        v.even = vec_load(exact); /* the odd words are not read */
        v.odd = vec_odd(v.even);
    }
    return v;
}

/* Of `width` coefficients; planes lie `from` and `to` words apart. count: change->count, as a constant where
 * it is one. */
VEC_INLINE void vec_rns_convert_count(uint32_t *restrict out, size_t to, const uint32_t *restrict y,
                                      size_t from, size_t width, const struct rns_change *change,
                                      uint32_t count) {
    for (size_t c = 0; c < width; c += VEC_LANES) {
        const struct vec_sums v = vec_rns_round(y + c, from, count, change);
        for (uint32_t k = 0; k < change->targets; k++) {
            const struct rns_target *target = &change->target[k];
            const vec p = vec_set1(target->mod.p), f = vec_set1(target->lifted[count]);
            struct vec_sums sum = {vec_mul_even(v.even, f), vec_mul_even(v.odd, f)};
            for (uint32_t i = 0; i < count; i++) {
                sum = vec_add_product(sum, vec_load(y + i * from + c), target->lifted[i]);
            }
            vec_store(out + k * to + c, vec_fold(vec_redc(sum, vec_set1(target->neg_inv), p), p));
        }
    }
}

/* Coefficients whose many digits are brought together first: planes a power of two apart would push each
 * other out of the first-level cache. */
#define RNS_NEAR ((size_t)64)

/* In: n >= VEC_LANES, change->narrow. */
static inline void vec_rns_convert(uint32_t *restrict out, const uint32_t *restrict y, size_t n,
                                   const struct rns_change *change) {
    switch (change->count) {
    case 2:
        vec_rns_convert_count(out, n, y, n, n, change, 2);
        return;
    case 3:
        vec_rns_convert_count(out, n, y, n, n, change, 3);
        return;
    case 4:
        vec_rns_convert_count(out, n, y, n, n, change, 4);
        return;
    case 5:
        vec_rns_convert_count(out, n, y, n, n, change, 5);
        return;
    default:
        break;
    }
    const size_t width = n < RNS_NEAR ? n : RNS_NEAR;
    for (size_t c = 0; c < n; c += width) {
        _Alignas(64) uint32_t near[BFV_MAX_PRIMES * RNS_NEAR];
        for (uint32_t i = 0; i < change->count; i++) {
            memcpy(near + i * width, y + i * n + c, width * sizeof *near);
        }
        vec_rns_convert_count(out + c, n, near, width, width, change, change->count);
    }
}

/* sum += a b. */
VEC_INLINE struct vec_sums vec_add_words(struct vec_sums sum, vec a, vec b, vec a_odd, vec b_odd) {
    sum.even = vec_add_64(sum.even, vec_mul_even(a, b));
    sum.odd = vec_add_64(sum.odd, vec_mul_even(a_odd, b_odd));
    return sum;
}

/* acc_square_few. In: width a multiple of VEC_LANES. */
static inline void vec_square_few(uint32_t *const state[3], const uint32_t *const a[2], size_t stride,
                                  uint64_t count, size_t width, uint32_t neg_inv, uint32_t prime) {
    const vec p = vec_set1(prime), inv = vec_set1(neg_inv), zero = vec_set1(0);
    uint32_t *const state0 = state[0], *const state1 = state[1], *const state2 = state[2];
    for (size_t c = 0; c < width; c += VEC_LANES) {
        struct vec_sums s0 = {zero, zero}, s1 = s0, s2 = s0;
        const uint32_t *a0 = a[0] + c, *a1 = a[1] + c;
        for (uint64_t k = 0; k < count; k++, a0 += stride, a1 += stride) {
            const vec x = vec_load(a0), y = vec_load(a1), x_odd = vec_odd(x), y_odd = vec_odd(y);
            s0 = vec_add_words(s0, x, x, x_odd, x_odd);
            s1 = vec_add_words(s1, x, y, x_odd, y_odd);
            s2 = vec_add_words(s2, y, y, y_odd, y_odd);
        }
        const vec once = vec_fold(vec_redc(s1, inv, p), p);
        const vec twice = vec_fold(vec_add(once, once), p);
        const vec r0 = vec_fold(vec_redc(s0, inv, p), p), r2 = vec_fold(vec_redc(s2, inv, p), p);
        vec_store(state0 + c, vec_fold(vec_add(vec_load(state0 + c), r0), p));
        vec_store(state1 + c, vec_fold(vec_add(vec_load(state1 + c), twice), p));
        vec_store(state2 + c, vec_fold(vec_add(vec_load(state2 + c), r2), p));
    }
}

#endif
