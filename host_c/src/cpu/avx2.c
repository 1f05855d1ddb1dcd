/* The AVX2 body; rules.mk compiles this file with its instruction set. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define BODY_NAME "avx2"
#define BODY_TABLE cpu_avx2
#define BODY_HAS_VEC

typedef __m256i vec;
#define VEC_LANES 8u

static inline vec vec_load(const uint32_t *x) {
    return _mm256_loadu_si256((const __m256i *)(const void *)x);
}

static inline void vec_store(uint32_t *x, vec v) {
    _mm256_storeu_si256((__m256i *)(void *)x, v);
}

static inline vec vec_set1(uint32_t x) {
    return _mm256_set1_epi32((int)x);
}

static inline vec vec_add(vec a, vec b) {
    return _mm256_add_epi32(a, b);
}

static inline vec vec_sub(vec a, vec b) {
    return _mm256_sub_epi32(a, b);
}

static inline vec vec_min(vec a, vec b) {
    return _mm256_min_epu32(a, b);
}

static inline vec vec_mul_low(vec a, vec b) {
    return _mm256_mullo_epi32(a, b);
}

/* b_odd: b shifted down by a word, or b itself where neighbours are equal. */
static inline vec vec_mul_high(vec a, vec b, vec b_odd) {
    const vec even = _mm256_mul_epu32(a, b);
    const vec odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b_odd);
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

/* On the 64-bit halves of pairs of words: products of the even words, and so on. */
static inline vec vec_mul_even(vec a, vec b) {
    return _mm256_mul_epu32(a, b);
}

static inline vec vec_odd(vec a) {
    return _mm256_srli_epi64(a, 32);
}

static inline vec vec_set1_64(uint64_t x) {
    return _mm256_set1_epi64x((long long)x);
}

static inline vec vec_add_64(vec a, vec b) {
    return _mm256_add_epi64(a, b);
}

static inline vec vec_shift_right_64(vec a, uint32_t bits) {
    return _mm256_srl_epi64(a, _mm_cvtsi32_si128((int)bits));
}

/* The high words of even and of odd, interleaved. */
static inline vec vec_merge_high(vec even, vec odd) {
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

static inline vec vec_sub_64(vec a, vec b) {
    return _mm256_sub_epi64(a, b);
}

/* The low words of even and of odd, interleaved. */
static inline vec vec_merge_low(vec even, vec odd) {
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

static inline bool vec_differ(vec a, vec b) {
    const vec x = _mm256_xor_si256(a, b);
    return _mm256_testz_si256(x, x) == 0;
}

static inline vec vec_and(vec a, vec b) {
    return _mm256_and_si256(a, b);
}

static inline vec vec_load_bytes(const uint8_t *x) {
    return _mm256_loadu_si256((const __m256i *)(const void *)x);
}

/* The words of v below p, in their order, then others: VEC_LANES words are written. Gives how many they are.
 * The order's table is computed: it depends on which words are refused, never on a value. In: words below
 * 2^31. */
static inline uint32_t vec_store_below(uint32_t *out, vec v, vec p) {
    const vec below = _mm256_cmpgt_epi32(p, v);
    const uint32_t mask = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(below));
    const uint64_t bytes = _pdep_u64(mask, UINT64_C(0x0101010101010101)) * 255;
    const uint64_t order = _pext_u64(UINT64_C(0x0706050403020100), bytes);
    const vec lanes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)order));
    vec_store(out, _mm256_permutevar8x32_epi32(v, lanes));
    return (uint32_t)__builtin_popcount(mask);
}

static inline vec vec_xor(vec a, vec b) {
    return _mm256_xor_si256(a, b);
}

/* Numbers of six bytes to the 64-bit words, upper bits zero. */
static inline vec vec_load_sixes(const uint8_t *x) {
    const __m128i low = _mm_loadu_si128((const __m128i *)(const void *)x);
    const __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(x + 8));
    const vec order =
        _mm256_setr_epi8(0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1, /* from x */
                         4, 5, 6, 7, 8, 9, -1, -1, 10, 11, 12, 13, 14, 15, -1, -1 /* from x + 8 */);
    return _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1), order);
}

/* Bits set in each 64-bit word: of the halves of bytes, by a table in a register, then summed. */
static inline vec vec_count_bits(vec x) {
    const vec table =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const vec half = _mm256_set1_epi8(15);
    const vec low = _mm256_shuffle_epi8(table, _mm256_and_si256(x, half));
    const vec high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi64(x, 4), half));
    return _mm256_sad_epu8(_mm256_add_epi8(low, high), _mm256_setzero_si256());
}

/* Lane k gets word k / gap. */
static inline vec vec_spread(vec words, uint32_t gap) {
    switch (gap) {
    case 1:
        return words;
    case 2:
        return _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
    default:
        return _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
    }
}

static inline void vec_exchange(vec *left, vec *right, uint32_t gap) {
    const vec a = *left, b = *right;
    switch (gap) {
    case 1:
        *left = _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xaa);
        *right = _mm256_blend_epi32(_mm256_srli_epi64(a, 32), b, 0xaa);
        break;
    case 2:
        *left = _mm256_unpacklo_epi64(a, b);
        *right = _mm256_unpackhi_epi64(a, b);
        break;
    default:
        *left = _mm256_permute2x128_si256(a, b, 0x20);
        *right = _mm256_permute2x128_si256(a, b, 0x31);
        break;
    }
}

static inline void vec_interleave(vec *left, vec *right) {
    const vec low = _mm256_unpacklo_epi32(*left, *right);
    const vec high = _mm256_unpackhi_epi32(*left, *right);
    *left = _mm256_permute2x128_si256(low, high, 0x20);
    *right = _mm256_permute2x128_si256(low, high, 0x31);
}

static inline void vec_deinterleave(vec *left, vec *right) {
    const __m256 a = _mm256_castsi256_ps(_mm256_permute2x128_si256(*left, *right, 0x20));
    const __m256 b = _mm256_castsi256_ps(_mm256_permute2x128_si256(*left, *right, 0x31));
    *left = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
    *right = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
}

#include "kernels_body.h"
#else
extern int cpu_avx2_is_absent; /* a translation unit declares something */
#endif
