/* The CPU kernels, written once. A body's file defines BODY_NAME and BODY_TABLE,
 * includes this and is compiled for its instruction set. The loops are plain C
 * in the shape that gcc and clang vectorise, but for the transforms' short
 * stages, for which a body may bring vectors (BODY_HAS_VEC, ntt_vector.h). */
#include <string.h>

#include "../../../dpu/core/ntt.h"
#include "../rns.h"
#include "kernels.h"
#ifdef BODY_HAS_VEC
#include "client_vector.h"
#include "ntt_vector.h"
#include "rns_vector.h"
#endif

static void body_ntt_forward(uint32_t *x, uint32_t n, const struct bfv_prime *prime) {
#ifdef BODY_HAS_VEC
    if (n >= 2 * VEC_LANES) {
        vec_ntt_forward(x, n, prime->forward, prime->forward_shoup, prime->p);
        return;
    }
#endif
    ntt_forward(x, n, prime->forward, prime->forward_shoup, prime->p);
}

static void body_ntt_inverse_to(uint32_t *out, const uint32_t *x, uint32_t n, const struct bfv_prime *prime) {
#ifdef BODY_HAS_VEC
    if (n >= 4 * VEC_LANES) {
        vec_ntt_inverse(out, x, n, prime->inverse, prime->inverse_shoup, prime->p);
        return;
    }
#endif
    if (out != x) {
        memcpy(out, x, n * sizeof *out);
    }
    ntt_inverse(out, n, prime->inverse, prime->inverse_shoup, prime->p);
}

static void body_ntt_inverse(uint32_t *x, uint32_t n, const struct bfv_prime *prime) {
    body_ntt_inverse_to(x, x, n, prime);
}

static void body_add(uint32_t *out, const uint32_t *a, const uint32_t *b, size_t width, uint32_t p) {
    for (size_t c = 0; c < width; c++) {
        out[c] = zq_add(a[c], b[c], p);
    }
}

static void body_sub(uint32_t *out, const uint32_t *a, const uint32_t *b, size_t width, uint32_t p) {
    for (size_t c = 0; c < width; c++) {
        out[c] = zq_sub(a[c], b[c], p);
    }
}

static void body_neg(uint32_t *out, const uint32_t *a, size_t width, uint32_t p) {
    for (size_t c = 0; c < width; c++) {
        out[c] = zq_neg(a[c], p);
    }
}

static void body_mul(uint32_t *out, const uint32_t *a, const uint32_t *b, size_t width,
                     const struct zq_mod *mod) {
#ifdef BODY_HAS_VEC
    if (width % VEC_LANES == 0) {
        vec_mul(out, a, b, width, mod);
        return;
    }
#endif
    const struct zq_mod m = *mod; /* a copy: no store to out can change it */
    for (size_t c = 0; c < width; c++) {
        out[c] = zq_mul(a[c], b[c], &m);
    }
}

static void body_mul_scalar(uint32_t *out, const uint32_t *a, uint32_t s, size_t width, uint32_t p) {
    const uint32_t s_shoup = zq_shoup(s, p);
    for (size_t c = 0; c < width; c++) {
        ZQ_ASSERT(a[c] < p);
        out[c] = zq_mul_shoup(a[c], s, s_shoup, p);
    }
}

static void body_tensor(uint32_t *const out[3], const uint32_t *const a[2], const uint32_t *const b[2],
                        size_t width, const struct zq_mod *mod) {
#ifdef BODY_HAS_VEC
    if (width % VEC_LANES == 0) {
        vec_tensor(out, a, b, width, mod);
        return;
    }
#endif
    const struct zq_mod m = *mod;
    uint32_t *restrict out0 = out[0], *restrict out1 = out[1], *restrict out2 = out[2];
    const uint32_t *a0 = a[0], *a1 = a[1], *b0 = b[0], *b1 = b[1];
    for (size_t c = 0; c < width; c++) {
        out0[c] = zq_mul(a0[c], b0[c], &m);
        out1[c] = zq_add(zq_mul(a0[c], b1[c], &m), zq_mul(a1[c], b0[c], &m), m.p);
        out2[c] = zq_mul(a1[c], b1[c], &m);
    }
}

static void body_from_int64(uint32_t *out, const int64_t *values, size_t width, const struct zq_mod *mod) {
    const struct zq_mod m = *mod;
    /* Two's complement reads v < 0 as v + 2^64: take 2^64 mod p off again. */
    const uint32_t r64 = zq_mul(m.r32, m.r32, &m);
    for (size_t c = 0; c < width; c++) {
        const uint64_t v = (uint64_t)values[c];
        const uint32_t mask = 0 - (uint32_t)(v >> 63);
        out[c] = zq_sub(zq_reduce64(v, &m), r64 & mask, m.p);
    }
}

/* x / 2^32 mod p (Montgomery). In: x < 2^32 p. Out: < p. */
static inline uint32_t redc(uint64_t x, uint32_t neg_inv, uint32_t p) {
    ZQ_ASSERT(x >> 32 < p);
    const uint32_t m = (uint32_t)x * neg_inv;
    return zq_fold((uint32_t)((x + (uint64_t)m * p) >> 32), p);
}

#include "client_body.h"

static bool body_check(const uint32_t *x, size_t width, uint32_t p) {
    uint32_t greatest = 0;
    for (size_t c = 0; c < width; c++) {
        greatest = x[c] > greatest ? x[c] : greatest;
    }
    return greatest < p;
}

static bool body_copy_check(uint32_t *restrict out, const uint32_t *restrict x, size_t width, uint32_t p) {
    uint32_t greatest = 0;
    for (size_t c = 0; c < width; c++) {
        greatest = x[c] > greatest ? x[c] : greatest;
        out[c] = x[c];
    }
    return greatest < p;
}

/* state += wide mod p, and wide = 0. In: any wide words. */
static inline void settle(uint32_t *restrict state, uint64_t *restrict wide, size_t width,
                          const struct zq_mod *mod) {
    const struct zq_mod m = *mod;
    for (size_t c = 0; c < width; c++) {
        state[c] = zq_add(state[c], zq_reduce64(wide[c], &m), m.p);
        wide[c] = 0;
    }
}

/* As settle, with twice the sum. */
static inline void settle_twice(uint32_t *restrict state, uint64_t *restrict wide, size_t width,
                                const struct zq_mod *mod) {
    const struct zq_mod m = *mod;
    for (size_t c = 0; c < width; c++) {
        const uint32_t once = zq_reduce64(wide[c], &m);
        state[c] = zq_add(state[c], zq_add(once, once, m.p), m.p);
        wide[c] = 0;
    }
}

/* The accumulating loops below add four terms (two for the tensor) in one pass over a
 * block: the 64-bit accumulators then move through the cache once for all of
 * them, and several streams keep the memory busy. */

/* wide += x0 + x1 + x2 + x3. In: x < p, so that the sum of four is below 2^32. */
static inline void sum_of_four(uint64_t *restrict wide, const uint32_t *restrict x, size_t stride,
                               size_t width) {
    const uint32_t *restrict x1 = x + stride, *restrict x2 = x1 + stride, *restrict x3 = x2 + stride;
    for (size_t c = 0; c < width; c++) {
        wide[c] += x[c] + x1[c] + x2[c] + x3[c];
    }
}

/* Terms of one round of acc_sum: 2^34 residues below 2^30 fit 64 bits. */
#define SUM_TERMS (UINT64_C(1) << 34)

static void body_acc_sum(uint32_t *state, const uint32_t *x, size_t stride, uint64_t count, size_t width,
                         const struct bfv_prime *prime) {
    _Alignas(64) uint64_t wide[ACC_BLOCK];
    memset(wide, 0, width * sizeof wide[0]);
    while (count != 0) {
        const uint64_t round = count < SUM_TERMS ? count : SUM_TERMS;
        uint64_t k = 0;
        for (; round - k >= 4; k += 4, x += 4 * stride) {
            sum_of_four(wide, x, stride, width);
        }
        for (; k < round; k++, x += stride) {
            for (size_t c = 0; c < width; c++) {
                ZQ_ASSERT(x[c] < prime->p);
                wide[c] += x[c];
            }
        }
        settle(state, wide, width, &prime->mod);
        count -= round;
    }
}

struct wide_tensor {
    _Alignas(64) uint64_t part[3][ACC_BLOCK];
};

/* wide += (a0 b0, a0 b1 + a1 b0, a1 b1) over `terms` (1 or 2) terms. */
static inline void tensor_terms(struct wide_tensor *restrict wide, const uint32_t *restrict a0,
                                const uint32_t *restrict a1, const uint32_t *restrict b0,
                                const uint32_t *restrict b1, size_t stride, size_t terms, size_t width) {
    for (size_t c = 0; c < width; c++) {
        uint64_t sum0 = wide->part[0][c], sum1 = wide->part[1][c], sum2 = wide->part[2][c];
        for (size_t k = 0; k < terms; k++) {
            const uint64_t u0 = a0[k * stride + c], u1 = a1[k * stride + c];
            const uint64_t v0 = b0[k * stride + c], v1 = b1[k * stride + c];
            sum0 += u0 * v0;
            sum1 += u0 * v1;
            sum1 += u1 * v0;
            sum2 += u1 * v1;
        }
        wide->part[0][c] = sum0;
        wide->part[1][c] = sum1;
        wide->part[2][c] = sum2;
    }
}

static void body_acc_mul(uint32_t *const state[3], const uint32_t *const a[2], const uint32_t *const b[2],
                         size_t stride, uint64_t count, size_t width, const struct bfv_prime *prime) {
    struct wide_tensor wide;
    const uint32_t *a0 = a[0], *a1 = a[1], *b0 = b[0], *b1 = b[1];
    /* The middle accumulator takes two products a term. */
    const uint64_t limit = prime->max_products / 2;
    for (int part = 0; part < 3; part++) {
        memset(wide.part[part], 0, width * sizeof wide.part[part][0]);
    }
    while (count != 0) {
        const uint64_t round = count < limit ? count : limit;
        uint64_t k = 0;
        for (; round - k >= 2; k += 2) {
            tensor_terms(&wide, a0, a1, b0, b1, stride, 2, width);
            a0 += 2 * stride, a1 += 2 * stride, b0 += 2 * stride, b1 += 2 * stride;
        }
        if (k < round) {
            tensor_terms(&wide, a0, a1, b0, b1, stride, 1, width);
            a0 += stride, a1 += stride, b0 += stride, b1 += stride;
        }
        for (int part = 0; part < 3; part++) {
            settle(state[part], wide.part[part], width, &prime->mod);
        }
        count -= round;
    }
}

/* wide += (a0^2, a0 a1, a1^2) over `terms` (1 or 4) terms. */
static inline void square_terms(struct wide_tensor *restrict wide, const uint32_t *restrict a0,
                                const uint32_t *restrict a1, size_t stride, size_t terms, size_t width) {
    for (size_t c = 0; c < width; c++) {
        uint64_t sum0 = wide->part[0][c], sum1 = wide->part[1][c], sum2 = wide->part[2][c];
        for (size_t k = 0; k < terms; k++) {
            const uint64_t u0 = a0[k * stride + c], u1 = a1[k * stride + c];
            sum0 += u0 * u0;
            sum1 += u0 * u1;
            sum2 += u1 * u1;
        }
        wide->part[0][c] = sum0;
        wide->part[1][c] = sum1;
        wide->part[2][c] = sum2;
    }
}

static void body_acc_square(uint32_t *const state[3], const uint32_t *const a[2], size_t stride,
                            uint64_t count, size_t width, const struct bfv_prime *prime) {
    struct wide_tensor wide;
    const uint32_t *a0 = a[0], *a1 = a[1];
    /* The middle accumulator takes a0 a1 once a term and is doubled when it settles. */
    const uint64_t limit = prime->max_products;
    for (int part = 0; part < 3; part++) {
        memset(wide.part[part], 0, width * sizeof wide.part[part][0]);
    }
    while (count != 0) {
        const uint64_t round = count < limit ? count : limit;
        uint64_t k = 0;
        for (; round - k >= 4; k += 4, a0 += 4 * stride, a1 += 4 * stride) {
            square_terms(&wide, a0, a1, stride, 4, width);
        }
        for (; k < round; k++, a0 += stride, a1 += stride) {
            square_terms(&wide, a0, a1, stride, 1, width);
        }
        settle(state[0], wide.part[0], width, &prime->mod);
        settle_twice(state[1], wide.part[1], width, &prime->mod);
        settle(state[2], wide.part[2], width, &prime->mod);
        count -= round;
    }
}

static void body_acc_square_few(uint32_t *const state[3], const uint32_t *const a[2], size_t stride,
                                uint64_t count, size_t width, const struct bfv_prime *prime) {
    const uint32_t p = prime->p, neg_inv = prime->neg_inv;
    ZQ_ASSERT(count != 0 && count <= prime->max_sums);
#ifdef BODY_HAS_VEC
    if (width >= VEC_LANES) {
        vec_square_few(state, a, stride, count, width, neg_inv, p);
        return;
    }
#endif
    struct wide_tensor wide;
    for (int part = 0; part < 3; part++) {
        memset(wide.part[part], 0, width * sizeof wide.part[part][0]);
    }
    const uint32_t *a0 = a[0], *a1 = a[1];
    uint64_t k = 0;
    for (; count - k >= 4; k += 4, a0 += 4 * stride, a1 += 4 * stride) {
        square_terms(&wide, a0, a1, stride, 4, width);
    }
    for (; k < count; k++, a0 += stride, a1 += stride) {
        square_terms(&wide, a0, a1, stride, 1, width);
    }
    for (size_t c = 0; c < width; c++) {
        const uint32_t once = redc(wide.part[1][c], neg_inv, p);
        state[0][c] = zq_add(state[0][c], redc(wide.part[0][c], neg_inv, p), p);
        state[1][c] = zq_add(state[1][c], zq_add(once, once, p), p);
        state[2][c] = zq_add(state[2][c], redc(wide.part[2][c], neg_inv, p), p);
    }
}

/* sum += y_i factor[i] over `terms` (1 or 4) terms. */
static inline void digit_terms(uint64_t *restrict sum, const uint32_t *restrict y, size_t stride,
                               const uint32_t *restrict factor, size_t terms, size_t width) {
    for (size_t c = 0; c < width; c++) {
        uint64_t s = sum[c];
        for (size_t i = 0; i < terms; i++) {
            s += (uint64_t)y[i * stride + c] * factor[i];
        }
        sum[c] = s;
    }
}

#include "point_body.h"

/* Coefficients that are converted at a time. */
#define RNS_BLOCK 512

/* v: the fractions' sum rounded, or less, and then true is returned, as it may be when it is not. */
static bool round_block(uint32_t *restrict v, const uint32_t *y, size_t stride, size_t width,
                        const struct rns_change *change) {
    _Alignas(64) uint64_t sum[RNS_BLOCK];
    const uint64_t margin = change->margin;
    const uint32_t point = change->point;
    for (size_t c = 0; c < width; c++) {
        sum[c] = UINT64_C(1) << (point - 1);
    }
    uint32_t i = 0;
    for (; change->count - i >= 4; i += 4) {
        digit_terms(sum, y + i * stride, stride, change->weight + i, 4, width);
    }
    for (; i < change->count; i++) {
        digit_terms(sum, y + i * stride, stride, change->weight + i, 1, width);
    }
    uint64_t differ = 0;
    for (size_t c = 0; c < width; c++) {
        differ |= (sum[c] + margin) ^ sum[c];
        v[c] = (uint32_t)(sum[c] >> point);
    }
    return differ >> point != 0;
}

static void combine_block(uint32_t *restrict out, const uint32_t *y, size_t stride,
                          const uint32_t *restrict v, size_t width, uint32_t count,
                          const struct rns_target *target) {
    _Alignas(64) uint64_t sum[RNS_BLOCK];
    const struct zq_mod m = target->mod;
    const uint32_t *factor = target->factor;
    for (size_t c = 0; c < width; c++) {
        sum[c] = (uint64_t)v[c] * factor[count];
    }
    uint32_t room = target->limit - 1;
    for (uint32_t i = 0, terms; i < count; i += terms, room -= terms) {
        if (room == 0) {
            for (size_t c = 0; c < width; c++) {
                sum[c] = zq_reduce64(sum[c], &m);
            }
            room = target->limit - 1;
        }
        terms = room >= 4 && count - i >= 4 ? 4 : 1;
        if (terms == 4) {
            digit_terms(sum, y + i * stride, stride, factor + i, 4, width);
        } else {
            digit_terms(sum, y + i * stride, stride, factor + i, 1, width);
        }
    }
    for (size_t c = 0; c < width; c++) {
        out[c] = zq_reduce64(sum[c], &m);
    }
}

static void body_rns_convert(uint32_t *out, const uint32_t *y, size_t n, const struct rns_change *change) {
#ifdef BODY_HAS_VEC
    if (n >= VEC_LANES && change->narrow) {
        vec_rns_convert(out, y, n, change);
        return;
    }
#endif
    const size_t width = n < RNS_BLOCK ? n : RNS_BLOCK;
    for (size_t at = 0; at < n; at += width) {
        uint32_t v[RNS_BLOCK];
        if (round_block(v, y + at, n, width, change)) {
            rns_round(change, y + at, n, width, v);
        }
        for (uint32_t k = 0; k < change->targets; k++) {
            combine_block(out + k * n + at, y + at, n, v, width, change->count, &change->target[k]);
        }
    }
}

const struct cpu_kernels BODY_TABLE = {
    .name = BODY_NAME,
    .ntt_forward = body_ntt_forward,
    .ntt_inverse = body_ntt_inverse,
    .ntt_inverse_to = body_ntt_inverse_to,
    .add = body_add,
    .sub = body_sub,
    .neg = body_neg,
    .mul = body_mul,
    .mul_scalar = body_mul_scalar,
    .tensor = body_tensor,
    .from_int64 = body_from_int64,
    .check = body_check,
    .copy_check = body_copy_check,
    .acc_sum = body_acc_sum,
    .acc_mul = body_acc_mul,
    .acc_square = body_acc_square,
    .acc_square_few = body_acc_square_few,
    .mul_lifted = body_mul_lifted,
    .small = body_small,
    .dot = body_dot,
    .ternary = body_ternary,
    .error = body_error,
    .uniform = body_uniform,
    .reduce_words = body_reduce_words,
    .encode = body_encode,
    .decode = body_decode,
    .recentre = body_recentre,
    .fractions = body_fractions,
    .rns_convert = body_rns_convert,
    .point_sum = body_point_sum,
    .point_mul = body_point_mul,
};
