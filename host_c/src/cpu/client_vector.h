/* Kernels of client_body.h over the vector operations of avx2.c and avx512.c, where compilers find no vectors
 * or poor ones: products of residues in words of 64 bits, the even and the odd ones apart, and Montgomery's
 * reduction. */
#ifndef PYBFV_CLIENT_VECTOR_H
#define PYBFV_CLIENT_VECTOR_H

#include "rns_vector.h"

/* x mod p by Barrett's reduction, as zq_reduce_product: with x below 2 p^2 the quotient is at most 3 too
 * small, so the remainder is below 4p. */
VEC_INLINE vec vec_barrett(struct vec_sums x, const struct zq_mod *mod) {
    const vec barrett = vec_set1(mod->barrett), p = vec_set1(mod->p), p2 = vec_set1(2 * mod->p);
    const vec even = vec_mul_even(vec_shift_right_64(x.even, mod->bits - 1), barrett);
    const vec odd = vec_mul_even(vec_shift_right_64(x.odd, mod->bits - 1), barrett);
    const vec r_even = vec_sub_64(x.even, vec_mul_even(vec_shift_right_64(even, mod->bits + 1), p));
    const vec r_odd = vec_sub_64(x.odd, vec_mul_even(vec_shift_right_64(odd, mod->bits + 1), p));
    return vec_fold(vec_fold(vec_merge_low(r_even, r_odd), p2), p);
}

/* a b mod p. In: width a multiple of VEC_LANES. Alias: out may be a or b. */
VEC_INLINE void vec_mul(uint32_t *out, const uint32_t *a, const uint32_t *b, size_t width,
                        const struct zq_mod *mod) {
    const vec zero = vec_set1(0);
    const struct vec_sums none = {zero, zero};
    for (size_t c = 0; c < width; c += VEC_LANES) {
        const vec x = vec_load(a + c), y = vec_load(b + c);
        vec_store(out + c, vec_barrett(vec_add_words(none, x, y, vec_odd(x), vec_odd(y)), mod));
    }
}

/* tensor. In: width a multiple of VEC_LANES. */
VEC_INLINE void vec_tensor(uint32_t *const out[3], const uint32_t *const a[2], const uint32_t *const b[2],
                           size_t width, const struct zq_mod *mod) {
    const vec zero = vec_set1(0);
    const struct vec_sums none = {zero, zero};
    uint32_t *const out0 = out[0], *const out1 = out[1], *const out2 = out[2];
    const uint32_t *const a0 = a[0], *const a1 = a[1], *const b0 = b[0], *const b1 = b[1];
    for (size_t c = 0; c < width; c += VEC_LANES) {
        const vec u0 = vec_load(a0 + c), u1 = vec_load(a1 + c), v0 = vec_load(b0 + c), v1 = vec_load(b1 + c);
        const vec u0_odd = vec_odd(u0), u1_odd = vec_odd(u1), v0_odd = vec_odd(v0), v1_odd = vec_odd(v1);
        const struct vec_sums cross = vec_add_words(none, u0, v1, u0_odd, v1_odd);
        vec_store(out0 + c, vec_barrett(vec_add_words(none, u0, v0, u0_odd, v0_odd), mod));
        vec_store(out1 + c, vec_barrett(vec_add_words(cross, u1, v0, u1_odd, v0_odd), mod));
        vec_store(out2 + c, vec_barrett(vec_add_words(none, u1, v1, u1_odd, v1_odd), mod));
    }
}

/* mul_lifted. In: width a multiple of VEC_LANES. */
VEC_INLINE void vec_mul_lifted(uint32_t *out, const uint32_t *a, const uint32_t *b, const uint32_t *plus,
                               size_t width, uint32_t neg_inv, uint32_t prime) {
    const vec p = vec_set1(prime), inv = vec_set1(neg_inv), zero = vec_set1(0);
    for (size_t c = 0; c < width; c += VEC_LANES) {
        const vec x = vec_load(a + c), y = vec_load(b + c);
        const struct vec_sums none = {zero, zero};
        vec r = vec_fold(vec_redc(vec_add_words(none, x, y, vec_odd(x), vec_odd(y)), inv, p), p);
        if (plus != NULL) {
            r = vec_fold(vec_add(r, vec_load(plus + c)), p);
        }
        vec_store(out + c, r);
    }
}

/* dot of terms whose sum is below 2^32 p. In: width a multiple of VEC_LANES. */
VEC_INLINE void vec_dot(uint32_t *restrict out, const uint32_t *restrict a, size_t a_stride,
                        const uint32_t *restrict b, size_t b_stride, uint32_t count, size_t width,
                        uint32_t neg_inv, uint32_t prime) {
    const vec p = vec_set1(prime), inv = vec_set1(neg_inv), zero = vec_set1(0);
    for (size_t c = 0; c < width; c += VEC_LANES) {
        struct vec_sums sum = {zero, zero};
        for (uint32_t i = 0; i < count; i++) {
            const vec x = vec_load(a + i * a_stride + c), y = vec_load(b + i * b_stride + c);
            sum = vec_add_words(sum, x, y, vec_odd(x), vec_odd(y));
        }
        const vec r = vec_fold(vec_redc(sum, inv, p), p);
        vec_store(out + c, vec_fold(vec_add(r, vec_load(out + c)), p));
    }
}

/* encode where change->narrow: sums of digits and carry are below 2^32, so sums of products with residues
 * below 2^32 p. In: width a multiple of VEC_LANES. */
VEC_INLINE void vec_encode(uint32_t *restrict out, size_t out_stride, const uint32_t *restrict y,
                           size_t stride, size_t width, const struct encode_change *change, uint32_t count) {
    const vec half = vec_set1_64(UINT64_C(1) << 31), low_words = vec_set1_64(UINT32_MAX);
    for (size_t c = 0; c < width; c += VEC_LANES) {
        const vec zero = vec_set1(0);
        struct vec_sums low = {zero, zero}, middle = {half, half}, high = {zero, zero};
        for (uint32_t i = 0; i < count; i++) {
            const vec x = vec_load(y + i * stride + c), odd = vec_odd(x);
            const vec f0 = vec_set1((uint32_t)change->fraction[i]);
            const vec f1 = vec_set1((uint32_t)(change->fraction[i] >> 32));
            const struct vec_sums p0 = {vec_mul_even(x, f0), vec_mul_even(odd, f0)};
            const struct vec_sums p1 = {vec_mul_even(x, f1), vec_mul_even(odd, f1)};
            low.even = vec_add_64(low.even, vec_and(p0.even, low_words));
            low.odd = vec_add_64(low.odd, vec_and(p0.odd, low_words));
            middle.even = vec_add_64(middle.even, vec_add_64(vec_odd(p0.even), vec_and(p1.even, low_words)));
            middle.odd = vec_add_64(middle.odd, vec_add_64(vec_odd(p0.odd), vec_and(p1.odd, low_words)));
            high.even = vec_add_64(high.even, vec_odd(p1.even));
            high.odd = vec_add_64(high.odd, vec_odd(p1.odd));
        }
        const struct vec_sums carry = {
            vec_add_64(high.even, vec_odd(vec_add_64(middle.even, vec_odd(low.even)))),
            vec_add_64(high.odd, vec_odd(vec_add_64(middle.odd, vec_odd(low.odd))))};
        for (uint32_t j = 0; j < change->targets; j++) {
            const vec p = vec_set1(change->mod[j].p), one = vec_set1(change->mod[j].r32);
            struct vec_sums sum = {vec_mul_even(carry.even, one), vec_mul_even(carry.odd, one)};
            for (uint32_t i = 0; i < count; i++) {
                sum = vec_add_product(sum, vec_load(y + i * stride + c), change->lifted[j][i]);
            }
            vec_store(out + j * out_stride + c, vec_fold(vec_redc(sum, vec_set1(change->neg_inv[j]), p), p));
        }
    }
}

/* Bits set in each of two halves of 48-bit numbers, as body_error wants them: see there. */
VEC_INLINE void vec_error_counts(uint64_t *counts, const uint8_t *rnd, uint64_t flip, uint64_t used) {
    const vec x = vec_and(vec_xor(vec_load_sixes(rnd), vec_set1_64(flip)), vec_set1_64(used));
    vec_store((uint32_t *)(void *)counts, vec_count_bits(x));
}

#endif
