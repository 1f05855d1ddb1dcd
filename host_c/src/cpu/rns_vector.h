/* rns_convert over the vector operations of avx2.c and avx512.c, VEC_LANES coefficients at a time: sums of
 * the even and of the odd words apart, in 64 bits, and Montgomery's reduction of them. */
#ifndef PYBFV_RNS_VECTOR_H
#define PYBFV_RNS_VECTOR_H

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

/* count: change->count, as a constant where it is one. */
VEC_INLINE void vec_rns_convert_count(uint32_t *restrict out, const uint32_t *restrict y, size_t n,
                                      const struct rns_change *change, uint32_t count) {
    for (size_t c = 0; c < n; c += VEC_LANES) {
        const struct vec_sums v = vec_rns_round(y + c, n, count, change);
        for (uint32_t k = 0; k < change->targets; k++) {
            const struct rns_target *target = &change->target[k];
            const vec p = vec_set1(target->mod.p), f = vec_set1(target->lifted[count]);
            struct vec_sums sum = {vec_mul_even(v.even, f), vec_mul_even(v.odd, f)};
            for (uint32_t i = 0; i < count; i++) {
                sum = vec_add_product(sum, vec_load(y + i * n + c), target->lifted[i]);
            }
            vec_store(out + k * n + c, vec_fold(vec_redc(sum, vec_set1(target->neg_inv), p), p));
        }
    }
}

/* In: n >= VEC_LANES, change->narrow. */
static inline void vec_rns_convert(uint32_t *restrict out, const uint32_t *restrict y, size_t n,
                                   const struct rns_change *change) {
    switch (change->count) {
    case 2:
        vec_rns_convert_count(out, y, n, change, 2);
        break;
    case 3:
        vec_rns_convert_count(out, y, n, change, 3);
        break;
    case 4:
        vec_rns_convert_count(out, y, n, change, 4);
        break;
    case 5:
        vec_rns_convert_count(out, y, n, change, 5);
        break;
    default:
        vec_rns_convert_count(out, y, n, change, change->count);
        break;
    }
}

#endif
