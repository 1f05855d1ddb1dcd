/* The AVX-512 body (F, DQ, BW, VL); rules.mk compiles this file with its instruction set. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define BODY_NAME "avx512"
#define BODY_TABLE cpu_avx512
#define BODY_HAS_VEC

typedef __m512i vec;
#define VEC_LANES 16u

static inline vec vec_load(const uint32_t *x) {
    return _mm512_loadu_si512(x);
}

static inline void vec_store(uint32_t *x, vec v) {
    _mm512_storeu_si512(x, v);
}

static inline vec vec_set1(uint32_t x) {
    return _mm512_set1_epi32((int)x);
}

static inline vec vec_add(vec a, vec b) {
    return _mm512_add_epi32(a, b);
}

static inline vec vec_sub(vec a, vec b) {
    return _mm512_sub_epi32(a, b);
}

static inline vec vec_min(vec a, vec b) {
    return _mm512_min_epu32(a, b);
}

static inline vec vec_mul_low(vec a, vec b) {
    return _mm512_mullo_epi32(a, b);
}

/* b_odd: b shifted down by a word, or b itself where neighbours are equal. */
static inline vec vec_mul_high(vec a, vec b, vec b_odd) {
    const vec even = _mm512_mul_epu32(a, b);
    const vec odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), b_odd);
    return _mm512_mask_shuffle_epi32(odd, 0x5555, even, 0xf5);
}

/* On the 64-bit halves of pairs of words: products of the even words, and so on. */
static inline vec vec_mul_even(vec a, vec b) {
    return _mm512_mul_epu32(a, b);
}

static inline vec vec_odd(vec a) {
    return _mm512_srli_epi64(a, 32);
}

static inline vec vec_set1_64(uint64_t x) {
    return _mm512_set1_epi64((long long)x);
}

static inline vec vec_add_64(vec a, vec b) {
    return _mm512_add_epi64(a, b);
}

static inline vec vec_shift_right_64(vec a, uint32_t bits) {
    return _mm512_srl_epi64(a, _mm_cvtsi32_si128((int)bits));
}

/* The high words of even and of odd, interleaved. */
static inline vec vec_merge_high(vec even, vec odd) {
    return _mm512_mask_shuffle_epi32(odd, 0x5555, even, 0xf5);
}

static inline vec vec_sub_64(vec a, vec b) {
    return _mm512_sub_epi64(a, b);
}

/* The low words of even and of odd, interleaved. */
static inline vec vec_merge_low(vec even, vec odd) {
    return _mm512_mask_shuffle_epi32(even, 0xaaaa, odd, 0xa0);
}

static inline bool vec_differ(vec a, vec b) {
    return _mm512_cmpneq_epi64_mask(a, b) != 0;
}

static inline vec vec_and(vec a, vec b) {
    return _mm512_and_si512(a, b);
}

static inline vec vec_load_bytes(const uint8_t *x) {
    return _mm512_loadu_si512(x);
}

/* The words of v below p, in their order, then others: VEC_LANES words are written. Gives how many they are.
 */
static inline uint32_t vec_store_below(uint32_t *out, vec v, vec p) {
    const __mmask16 below = _mm512_cmplt_epu32_mask(v, p);
    vec_store(out, _mm512_maskz_compress_epi32(below, v));
    return (uint32_t)__builtin_popcount(below);
}

static inline vec vec_xor(vec a, vec b) {
    return _mm512_xor_si512(a, b);
}

/* Numbers of six bytes to the 64-bit words; the two upper bytes are anything. */
static inline vec vec_load_sixes(const uint8_t *x) {
    const vec bytes = _mm512_maskz_loadu_epi16(0xffffff, x);
    const vec order = _mm512_set_epi16(0, 23, 22, 21, 0, 20, 19, 18, 0, 17, 16, 15, 0, 14, 13, 12, 0, 11, 10,
                                       9, 0, 8, 7, 6, 0, 5, 4, 3, 0, 2, 1, 0);
    return _mm512_permutexvar_epi16(order, bytes);
}

/* Bits set in each 64-bit word: of the halves of bytes, by a table in a register, then summed. */
static inline vec vec_count_bits(vec x) {
    const vec table = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const vec half = _mm512_set1_epi8(15);
    const vec low = _mm512_shuffle_epi8(table, _mm512_and_si512(x, half));
    const vec high = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi64(x, 4), half));
    return _mm512_sad_epu8(_mm512_add_epi8(low, high), _mm512_setzero_si512());
}

/* Lane k gets word k / gap. */
static inline vec vec_spread(vec words, uint32_t gap) {
    switch (gap) {
    case 1:
        return words;
    case 2:
        return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                                        words);
    case 4:
        return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
                                        words);
    default:
        return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
                                        words);
    }
}

static inline void vec_exchange(vec *left, vec *right, uint32_t gap) {
    const vec a = *left, b = *right;
    switch (gap) {
    case 1:
        *left = _mm512_mask_shuffle_epi32(a, 0xaaaa, b, 0xa0);
        *right = _mm512_mask_shuffle_epi32(b, 0x5555, a, 0xf5);
        break;
    case 2:
        *left = _mm512_unpacklo_epi64(a, b);
        *right = _mm512_unpackhi_epi64(a, b);
        break;
    case 4: {
        /* Words 16 and more are b's. */
        const vec to_left = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
        const vec to_right = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
        *left = _mm512_permutex2var_epi64(a, to_left, b);
        *right = _mm512_permutex2var_epi64(a, to_right, b);
        break;
    }
    default:
        *left = _mm512_shuffle_i64x2(a, b, 0x44);
        *right = _mm512_shuffle_i64x2(a, b, 0xee);
        break;
    }
}

static inline void vec_interleave(vec *left, vec *right) {
    const vec a = *left, b = *right;
    const vec low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const vec high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    *left = _mm512_permutex2var_epi32(a, low, b);
    *right = _mm512_permutex2var_epi32(a, high, b);
}

static inline void vec_deinterleave(vec *left, vec *right) {
    const vec a = *left, b = *right;
    const vec even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const vec odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    *left = _mm512_permutex2var_epi32(a, even, b);
    *right = _mm512_permutex2var_epi32(a, odd, b);
}

#include "kernels_body.h"
#else
extern int cpu_avx512_is_absent; /* a translation unit declares something */
#endif
