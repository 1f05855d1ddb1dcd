/* AES-256 in counter mode (FIPS 197; NIST SP 800-38A), eight blocks at a time by AES-NI, 32 by VAES. Where a
 * CPU has neither, the caller expands seeds by other means: tables would tell a key by the cache. */
#include "aes.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define NI __attribute__((target("aes,ssse3")))
#define WIDE __attribute__((target("vaes,avx512f,avx512bw")))

bool aes_has_hardware(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("ssse3");
}

static bool aes_has_wide(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("vaes") && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw");
}

/* Words x0, x0 + x1, .., x0 + x1 + x2 + x3 (+ is exclusive or), each plus the word of `last`. */
NI static inline __m128i mix(__m128i x, __m128i last) {
    x = _mm_xor_si128(x, _mm_slli_si128(x, 4));
    x = _mm_xor_si128(x, _mm_slli_si128(x, 8));
    return _mm_xor_si128(x, last);
}

/* The round keys 2 k and 2 k + 1; the round constant is an immediate. */
#define NEXT_KEYS(k, constant)                                                                               \
    even = mix(even, _mm_shuffle_epi32(_mm_aeskeygenassist_si128(odd, constant), 0xff));                     \
    _mm_store_si128((__m128i *)(void *)key->round[2 * (k)], even);                                           \
    if (2 * (k) < AES_ROUNDS) {                                                                              \
        odd = mix(odd, _mm_shuffle_epi32(_mm_aeskeygenassist_si128(even, 0), 0xaa));                         \
        _mm_store_si128((__m128i *)(void *)key->round[(2 * (k) + 1) % (AES_ROUNDS + 1)], odd);               \
    }

NI void aes_key_init(struct aes_key *key, const uint8_t *seed) {
    __m128i even = _mm_loadu_si128((const __m128i *)(const void *)seed);
    __m128i odd = _mm_loadu_si128((const __m128i *)(const void *)(seed + AES_BLOCK));
    _mm_store_si128((__m128i *)(void *)key->round[0], even);
    _mm_store_si128((__m128i *)(void *)key->round[1], odd);
    NEXT_KEYS(1, 0x01)
    NEXT_KEYS(2, 0x02)
    NEXT_KEYS(3, 0x04)
    NEXT_KEYS(4, 0x08)
    NEXT_KEYS(5, 0x10)
    NEXT_KEYS(6, 0x20)
    NEXT_KEYS(7, 0x40)
}

enum { TOGETHER = 8 };
#define EACH _Pragma("GCC unroll 8")

/* Eight blocks; counters are kept as little-endian numbers and turned round. */
NI static void eight_blocks(const struct aes_key *key, uint32_t index, uint64_t first, uint8_t *out) {
    __m128i x[TOGETHER];
    __m128i k = _mm_load_si128((const __m128i *)(const void *)key->round[0]);
    EACH for (int i = 0; i < TOGETHER; i++) {
        const uint64_t count = __builtin_bswap64(first + (uint64_t)i);
        x[i] = _mm_xor_si128(_mm_set_epi64x((long long)count, (long long)(uint64_t)index), k);
    }
    for (int r = 1; r < AES_ROUNDS; r++) {
        k = _mm_load_si128((const __m128i *)(const void *)key->round[r]);
        EACH for (int i = 0; i < TOGETHER; i++) {
            x[i] = _mm_aesenc_si128(x[i], k);
        }
    }
    k = _mm_load_si128((const __m128i *)(const void *)key->round[AES_ROUNDS]);
    EACH for (int i = 0; i < TOGETHER; i++) {
        _mm_storeu_si128((__m128i *)(void *)(out + AES_BLOCK * i), _mm_aesenclast_si128(x[i], k));
    }
}

NI static void one_block(const struct aes_key *key, uint32_t index, uint64_t first, uint8_t *out) {
    __m128i x = _mm_set_epi64x((long long)__builtin_bswap64(first), (long long)(uint64_t)index);
    x = _mm_xor_si128(x, _mm_load_si128((const __m128i *)(const void *)key->round[0]));
    for (int r = 1; r < AES_ROUNDS; r++) {
        x = _mm_aesenc_si128(x, _mm_load_si128((const __m128i *)(const void *)key->round[r]));
    }
    x = _mm_aesenclast_si128(x, _mm_load_si128((const __m128i *)(const void *)key->round[AES_ROUNDS]));
    _mm_storeu_si128((__m128i *)(void *)out, x);
}

enum { WIDE_BLOCKS = 4 * TOGETHER };

/* Groups of 32 blocks: eight vectors of four. */
WIDE static void wide_blocks(const struct aes_key *key, uint32_t index, uint64_t first, uint64_t groups,
                             uint8_t *out) {
    __m512i k[AES_ROUNDS + 1], x[TOGETHER];
    for (int r = 0; r <= AES_ROUNDS; r++) {
        k[r] = _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)(const void *)key->round[r]));
    }
    /* the high half of each block turned round, the low half as it is */
    const __m512i turn =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 15, 14, 13, 12, 11, 10, 9, 8));
    const __m512i step = _mm512_setr_epi64(0, 4, 0, 4, 0, 4, 0, 4);
    const long long low = (long long)(uint64_t)index, at = (long long)first;
    __m512i count = _mm512_setr_epi64(low, at, low, at + 1, low, at + 2, low, at + 3);
    for (; groups != 0; groups--, out += (size_t)AES_BLOCK * WIDE_BLOCKS) {
        EACH for (int i = 0; i < TOGETHER; i++) {
            x[i] = _mm512_xor_si512(_mm512_shuffle_epi8(count, turn), k[0]);
            count = _mm512_add_epi64(count, step);
        }
        _Pragma("GCC unroll 13") for (int r = 1; r < AES_ROUNDS; r++) {
            EACH for (int i = 0; i < TOGETHER; i++) {
                x[i] = _mm512_aesenc_epi128(x[i], k[r]);
            }
        }
        EACH for (int i = 0; i < TOGETHER; i++) {
            _mm512_storeu_si512(out + (size_t)64 * (size_t)i, _mm512_aesenclast_epi128(x[i], k[AES_ROUNDS]));
        }
    }
}

void aes_stream(const struct aes_key *key, uint32_t index, uint64_t first, uint64_t blocks, uint8_t *out) {
    if (blocks >= WIDE_BLOCKS && aes_has_wide()) {
        const uint64_t groups = blocks / WIDE_BLOCKS, done = groups * WIDE_BLOCKS;
        wide_blocks(key, index, first, groups, out);
        first += done, blocks -= done, out += done * AES_BLOCK;
    }
    for (; blocks >= TOGETHER; first += TOGETHER, blocks -= TOGETHER, out += TOGETHER * AES_BLOCK) {
        eight_blocks(key, index, first, out);
    }
    for (; blocks != 0; first++, blocks--, out += AES_BLOCK) {
        one_block(key, index, first, out);
    }
}

#else

bool aes_has_hardware(void) {
    return false;
}

void aes_key_init(struct aes_key *key, const uint8_t *seed) {
    (void)key;
    (void)seed;
}

void aes_stream(const struct aes_key *key, uint32_t index, uint64_t first, uint64_t blocks, uint8_t *out) {
    (void)key;
    (void)index;
    (void)first;
    (void)blocks;
    (void)out;
}

#endif
