/* The kernels of encryption, decryption and key switching: samplers, small polynomials, encoding and
 * decoding, sums. Plain C in blocks that compilers vectorise, included by kernels_body.h. No branch or index
 * depends on a value, but for the rejected words and bytes, which are public. */
#ifndef PYBFV_CLIENT_BODY_H
#define PYBFV_CLIENT_BODY_H

#include "../declassify.h"
#include "../wipe.h"

static void body_mul_lifted(uint32_t *out, const uint32_t *a, const uint32_t *b, const uint32_t *plus,
                            size_t width, const struct bfv_prime *prime) {
    const uint32_t p = prime->p, neg_inv = prime->neg_inv;
#ifdef BODY_HAS_VEC
    if (width % VEC_LANES == 0) {
        vec_mul_lifted(out, a, b, plus, width, neg_inv, p);
        return;
    }
#endif
    for (size_t c = 0; c < width; c++) {
        const uint32_t product = redc((uint64_t)a[c] * b[c], neg_inv, p);
        out[c] = plus == NULL ? product : zq_add(product, plus[c], p);
    }
}

/* Coefficients of a sum of products that is kept in words of 64 bits. */
#define DOT_BLOCK ((size_t)256)

/* dot of terms whose sum is below 2^32 p. */
static void dot_terms(uint32_t *restrict out, const uint32_t *restrict a, size_t a_stride,
                      const uint32_t *restrict b, size_t b_stride, uint32_t count, size_t width,
                      const struct bfv_prime *prime) {
    const uint32_t p = prime->p, neg_inv = prime->neg_inv;
#ifdef BODY_HAS_VEC
    if (width % VEC_LANES == 0) {
        vec_dot(out, a, a_stride, b, b_stride, count, width, neg_inv, p);
        return;
    }
#endif
    for (size_t at = 0; at < width; at += DOT_BLOCK) {
        _Alignas(64) uint64_t sum[DOT_BLOCK];
        const size_t block = width - at < DOT_BLOCK ? width - at : DOT_BLOCK;
        memset(sum, 0, block * sizeof *sum);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t *x = a + i * a_stride + at, *y = b + i * b_stride + at;
            for (size_t c = 0; c < block; c++) {
                sum[c] += (uint64_t)x[c] * y[c];
            }
        }
        for (size_t c = 0; c < block; c++) {
            out[at + c] = zq_add(out[at + c], redc(sum[c], neg_inv, p), p);
        }
    }
}

static void body_dot(uint32_t *out, const uint32_t *a, size_t a_stride, const uint32_t *b, size_t b_stride,
                     uint32_t count, size_t width, const struct bfv_prime *prime) {
    const uint32_t most = prime->max_sums < count ? (uint32_t)prime->max_sums : count;
    for (uint32_t i = 0; i < count; i += most) {
        const uint32_t terms = count - i < most ? count - i : most;
        dot_terms(out, a + i * a_stride, a_stride, b + i * b_stride, b_stride, terms, width, prime);
    }
}

static void body_recentre(uint32_t *restrict out, const uint32_t *restrict x, uint32_t from, size_t width,
                          const struct zq_mod *mod) {
    const struct zq_mod m = *mod;
    /* with h = (from - 1)/2 the centred x is ((x + h) mod from) - h */
    const uint32_t half = from / 2, shift = zq_mul_shoup(half, m.r32, m.r32_shoup, m.p);
    for (size_t c = 0; c < width; c++) {
        const uint32_t moved = zq_fold(x[c] + half, from);
        out[c] = zq_sub(zq_mul_shoup(moved, m.r32, m.r32_shoup, m.p), shift, m.p);
    }
}

static void body_fractions(double *restrict out, const uint32_t *restrict y, size_t stride, uint32_t count,
                           size_t width, const double *inverse) {
    const double whole = 0x1.8p52; /* adding and taking it off rounds to an integer */
    for (size_t c = 0; c < width; c++) {
        double sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            sum += (double)y[i * stride + c] * inverse[i];
        }
        out[c] = sum - ((sum + whole) - whole);
    }
}

/* out = x mod p. */
static inline void small_residues(uint32_t *restrict out, const int8_t *restrict x, size_t width,
                                  const struct zq_mod *mod) {
    const struct zq_mod m = *mod;
    if (m.p > 128) {
        for (size_t c = 0; c < width; c++) {
            const uint32_t word = (uint32_t)(int32_t)x[c];
            out[c] = word + (m.p & (UINT32_C(0) - (word >> 31)));
        }
    } else {
        /* toy primes: a multiple of p above 128 makes the sum positive */
        const uint32_t offset = m.p * (128 / m.p + 1);
        for (size_t c = 0; c < width; c++) {
            out[c] = zq_reduce32((uint32_t)(int32_t)x[c] + offset, &m);
        }
    }
}

static void body_small(uint32_t *out, const int8_t *x, const uint32_t *plus, size_t width,
                       const struct zq_mod *mod) {
    small_residues(out, x, width, mod);
    if (plus != NULL) {
        body_add(out, out, plus, width, mod->p);
    }
}

enum {
    TERNARY_REJECT = 255, /* the byte values below are 85 of each residue mod 3 */
    TERNARY_BLOCK = 32    /* bytes taken together where none is rejected: seven times of eight */
};

/* byte mod 3 - 1. */
static inline int8_t ternary_of(uint8_t byte) {
    const uint32_t third = ((uint32_t)byte * 171) >> 9; /* floor(byte / 3) for byte < 256 */
    return (int8_t)((int32_t)(byte - 3 * third) - 1);
}

static bool body_ternary(int8_t *restrict out, uint32_t n, const uint8_t *restrict rnd, size_t bytes) {
    size_t rejected = 0;
    for (size_t i = 0; i < bytes; i++) {
        rejected += rnd[i] == TERNARY_REJECT;
    }
    if (bytes - declassify(rejected) < n) { /* how many bytes are rejected */
        return false;
    }
    uint32_t next = 0;
    size_t i = 0;
    while (next < n) {
        if (n - next >= TERNARY_BLOCK && bytes - i >= TERNARY_BLOCK) {
            uint32_t any = 0;
            for (size_t k = 0; k < TERNARY_BLOCK; k++) {
                any |= rnd[i + k] == TERNARY_REJECT;
                out[next + k] = ternary_of(rnd[i + k]);
            }
            if (declassify(any) == 0) { /* which blocks have a rejected byte */
                next += TERNARY_BLOCK;
                i += TERNARY_BLOCK;
                continue;
            }
        }
        /* A rejected byte writes too and is overwritten: the addresses tell where rejections are, never a
         * value. */
        for (size_t k = 0; k < TERNARY_BLOCK && next < n; k++, i++) {
            out[next] = ternary_of(rnd[i]);
            next += (uint32_t)declassify(rnd[i] != TERNARY_REJECT);
        }
    }
    return true;
}

enum {
    ERROR_BYTES = 6,  /* of one coefficient */
    ERROR_HALF = 21,  /* bits on either side */
    ERROR_BLOCK = 256 /* coefficients at a time */
};

static inline uint32_t load_le32(const uint8_t *b) {
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* With the upper half's bits flipped, the bits set in both halves are 21 more than their difference. Sums of
 * 2, 4, 8 bits, then of the bytes: 42 at most. */
static void body_error(int8_t *restrict out, size_t n, const uint8_t *restrict rnd) {
    const uint64_t flip = ((UINT64_C(1) << ERROR_HALF) - 1) << ERROR_HALF;
    const uint64_t used = (UINT64_C(1) << (2 * ERROR_HALF)) - 1;
    uint64_t count[ERROR_BLOCK];
    for (size_t at = 0; at < n; at += ERROR_BLOCK) {
        const size_t width = n - at < ERROR_BLOCK ? n - at : ERROR_BLOCK;
        const uint8_t *b = rnd + at * ERROR_BYTES;
        size_t k = 0;
#ifdef BODY_HAS_VEC
        for (; width - k >= VEC_LANES / 2; k += VEC_LANES / 2, b += VEC_LANES / 2 * ERROR_BYTES) {
            vec_error_counts(count + k, b, flip, used);
        }
#endif
        for (; k < width; k++, b += ERROR_BYTES) {
            uint64_t x = load_le32(b) | (uint64_t)b[4] << 32 | (uint64_t)b[5] << 40;
            x = (x ^ flip) & used;
            x -= (x >> 1) & UINT64_C(0x5555555555555555);
            x = (x & UINT64_C(0x3333333333333333)) + ((x >> 2) & UINT64_C(0x3333333333333333));
            x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
            x += x >> 32;
            x += x >> 16;
            x += x >> 8;
            count[k] = x & 127;
        }
        for (k = 0; k < width; k++) {
            out[at + k] = (int8_t)((int32_t)count[k] - ERROR_HALF);
        }
    }
    wipe(count, sizeof count);
}

static uint32_t body_uniform(uint32_t *restrict out, uint32_t filled, uint32_t n, const uint8_t *restrict rnd,
                             size_t bytes, uint32_t p, uint32_t mask) {
    size_t i = 0;
#ifdef BODY_HAS_VEC
    const vec keep = vec_set1(mask), limit = vec_set1(p);
    for (; n - filled >= VEC_LANES && bytes - i >= 4 * VEC_LANES; i += 4 * VEC_LANES) {
        filled += vec_store_below(out + filled, vec_and(vec_load_bytes(rnd + i), keep), limit);
    }
#endif
    /* without a branch on the value, which half of the words may fail: a refused one is overwritten by the
     * next */
    for (; i < bytes && filled < n; i += 4) {
        const uint32_t word = load_le32(rnd + i) & mask;
        out[filled] = word;
        filled += word < p;
    }
    return filled;
}

/* value mod t of integers in two's complement of one word. */
static void body_reduce_words(uint32_t *out, const uint64_t *values, size_t width, const struct zq_mod *mod) {
    const struct zq_mod m = *mod;
    const uint32_t r64 = zq_mul(m.r32, m.r32, &m); /* a negative value's word is value + 2^64 */
    for (size_t c = 0; c < width; c++) {
        const uint32_t sign = UINT32_C(0) - (uint32_t)(values[c] >> 63);
        out[c] = zq_sub(zq_reduce64(values[c], &m), r64 & sign, m.p);
    }
}

/* Coefficients that are encoded or decoded at a time. */
#define CODE_BLOCK ((size_t)256)

static void body_encode(uint32_t *out, size_t out_stride, const uint32_t *y, size_t stride, size_t width,
                        const struct encode_change *change) {
    _Alignas(64) uint64_t carry[CODE_BLOCK];
#ifdef BODY_HAS_VEC
    if (width % VEC_LANES == 0 && change->narrow) {
        if (change->count == 1) {
            vec_encode(out, out_stride, y, stride, width, change, 1);
        } else {
            vec_encode(out, out_stride, y, stride, width, change, change->count);
        }
        return;
    }
#endif
    for (size_t at = 0; at < width; at += CODE_BLOCK) {
        const size_t block = width - at < CODE_BLOCK ? width - at : CODE_BLOCK;
        const uint32_t *from = y + at;
        /* floor(1/2 + sum of fractions): columns of 32 bits, each a sum of few words below 2^33 */
        uint64_t low[CODE_BLOCK], middle[CODE_BLOCK];
        for (size_t c = 0; c < block; c++) {
            low[c] = 0;
            middle[c] = UINT64_C(1) << 31;
            carry[c] = 0;
        }
        for (uint32_t i = 0; i < change->count; i++) {
            const uint64_t f0 = change->fraction[i] & UINT32_MAX, f1 = change->fraction[i] >> 32;
            const uint32_t *digit = from + i * stride;
            for (size_t c = 0; c < block; c++) {
                const uint64_t p0 = f0 * digit[c], p1 = f1 * digit[c];
                low[c] += p0 & UINT32_MAX;
                middle[c] += (p0 >> 32) + (p1 & UINT32_MAX);
                carry[c] += p1 >> 32;
            }
        }
        for (size_t c = 0; c < block; c++) {
            carry[c] += (middle[c] + (low[c] >> 32)) >> 32;
        }
        for (uint32_t j = 0; j < change->targets; j++) {
            const struct zq_mod m = change->mod[j];
            uint32_t *restrict plane = out + j * out_stride + at;
            const uint32_t *scale = change->scale[j];
            for (size_t c = 0; c < block; c++) {
                low[c] = carry[c];
            }
            for (uint32_t i = 0; i < change->count; i++) {
                const uint32_t *digit = from + i * stride;
                if (i == ENCODE_PRODUCTS) {
                    for (size_t c = 0; c < block; c++) {
                        low[c] = zq_reduce64(low[c], &m);
                    }
                }
                for (size_t c = 0; c < block; c++) {
                    low[c] += (uint64_t)scale[i] * digit[c];
                }
            }
            for (size_t c = 0; c < block; c++) {
                plane[c] = zq_reduce64(low[c], &m);
            }
        }
        wipe(low, sizeof low);
    }
    wipe(carry, sizeof carry);
}

static uint32_t body_decode(uint32_t *out, size_t out_stride, const uint32_t *y, size_t stride, size_t width,
                            const struct decode_change *change) {
    _Alignas(64) uint64_t low[CODE_BLOCK], middle[CODE_BLOCK], high[CODE_BLOCK], whole[CODE_BLOCK];
    uint64_t doubt = 0;
    for (size_t at = 0; at < width; at += CODE_BLOCK) {
        const size_t block = width - at < CODE_BLOCK ? width - at : CODE_BLOCK;
        const uint32_t *from = y + at;
        for (size_t c = 0; c < block; c++) {
            low[c] = middle[c] = high[c] = whole[c] = 0;
        }
        for (uint32_t i = 0; i < change->count; i++) {
            const uint64_t r0 = change->reciprocal[i][0], r1 = change->reciprocal[i][1];
            const uint64_t r2 = change->reciprocal[i][2];
            const uint32_t *digit = from + i * stride;
            for (size_t c = 0; c < block; c++) {
                const uint64_t p0 = r0 * digit[c], p1 = r1 * digit[c], p2 = r2 * digit[c];
                low[c] += p0 & UINT32_MAX;
                middle[c] += (p0 >> 32) + (p1 & UINT32_MAX);
                high[c] += (p1 >> 32) + (p2 & UINT32_MAX);
                whole[c] += p2 >> 32;
            }
        }
        const uint64_t bound = change->bound, width_high = change->width[0], width_low = change->width[1];
        for (size_t c = 0; c < block; c++) {
            /* the fraction's upper 64 and lower 32 bits */
            const uint64_t mid = middle[c] + (low[c] >> 32);
            const uint64_t top = high[c] + (mid >> 32);
            const uint64_t lower = low[c] & UINT32_MAX, upper = (top << 32) | (mid & UINT32_MAX);
            whole[c] += (top + (UINT64_C(1) << 31)) >> 32; /* rounded */
            /* fraction + bound, mod 1, is to be at most the width */
            const uint64_t reach = upper + bound;
            const uint64_t over = (uint64_t)(reach > width_high);
            const uint64_t equal = (uint64_t)(reach == width_high) & (uint64_t)(lower > width_low);
            doubt |= over | equal;
        }
        for (uint32_t k = 0; k < change->targets; k++) {
            const struct zq_mod m = change->target[k].mod;
            uint32_t *restrict plane = out + k * out_stride + at;
            const uint32_t *factor = change->target[k].factor;
            for (size_t c = 0; c < block; c++) {
                low[c] = whole[c];
            }
            for (uint32_t i = 0; i < change->count; i++) {
                const uint32_t *digit = from + i * stride;
                if (i % DECODE_PRODUCTS == DECODE_PRODUCTS - 1) {
                    for (size_t c = 0; c < block; c++) {
                        low[c] = zq_reduce64(low[c], &m);
                    }
                }
                for (size_t c = 0; c < block; c++) {
                    low[c] += (uint64_t)factor[i] * digit[c];
                }
            }
            for (size_t c = 0; c < block; c++) {
                plane[c] = zq_reduce64(low[c], &m);
            }
        }
    }
    wipe(low, sizeof low);
    wipe(middle, sizeof middle);
    wipe(high, sizeof high);
    wipe(whole, sizeof whole);
    return (uint32_t)doubt;
}

#endif
