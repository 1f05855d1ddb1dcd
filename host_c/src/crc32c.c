/* CRC-32C (Castagnoli): a register of 32 bits, reflected (bit 31 is x^0), that
 * multiplies by x^8 and reduces for every byte.
 *
 * The portable body takes eight bytes a step through eight tables ("slicing by 8",
 * Kounavis and Berry 2005). The x86-64 body runs the CRC instruction, whose
 * latency is three cycles, on three stretches at a time and joins them: a register
 * followed by n zero bytes is the register times x^(8 n). */
#include "crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL UINT32_C(0x82f63b78) /* reflected, without x^32 */

static pthread_once_t tables_once = PTHREAD_ONCE_INIT;
/* tables[k][b]: the register after byte b and k zero bytes. Written once, under tables_once. */
static uint32_t tables[8][256];

static void fill_tables(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int k = 0; k < 8; k++) {
            crc = (crc >> 1) ^ (POLYNOMIAL & (0 - (crc & 1)));
        }
        tables[0][byte] = crc;
    }
    for (int k = 1; k < 8; k++) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            const uint32_t crc = tables[k - 1][byte];
            tables[k][byte] = (crc >> 8) ^ tables[0][crc & 255];
        }
    }
}

static uint32_t load_le32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t size) {
    const uint8_t *at = data;
    (void)pthread_once(&tables_once, fill_tables);
    crc = ~crc;
    for (; size >= 8; size -= 8, at += 8) {
        const uint32_t low = crc ^ load_le32(at), high = load_le32(at + 4);
        crc = tables[7][low & 255] ^ tables[6][(low >> 8) & 255] ^ tables[5][(low >> 16) & 255] ^
              tables[4][low >> 24] ^ tables[3][high & 255] ^ tables[2][(high >> 8) & 255] ^
              tables[1][(high >> 16) & 255] ^ tables[0][high >> 24];
    }
    for (; size != 0; size--, at++) {
        crc = (crc >> 8) ^ tables[0][(crc ^ *at) & 255];
    }
    return ~crc;
}

#if defined(__x86_64__)

#include <immintrin.h>

/* Bytes of a stretch, and x^(8 n - 33) mod P for n of one and of two stretches: the
 * carry-less product of two reflected words stands one place low (x^1), and the
 * CRC instruction that reduces it multiplies by x^32. */
#define STRETCH ((size_t)1024)
#define SHIFT_ONE 0x170076faLL
#define SHIFT_TWO 0xa51b6135LL

bool crc32c_has_hardware(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

static uint64_t load64(const uint8_t *at) {
    uint64_t word = 0;
    memcpy(&word, at, sizeof word);
    return word;
}

/* register x^(8 n) mod P for the n of `shift`. */
__attribute__((target("sse4.2,pclmul"))) static uint64_t crc_shift(uint64_t crc, long long shift) {
    const __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128(shift), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t crc32c_hardware(uint32_t start, const uint8_t *at,
                                                                         size_t size) {
    uint64_t crc = ~start;
    for (; size >= 3 * STRETCH; size -= 3 * STRETCH, at += 3 * STRETCH) {
        uint64_t second = 0, third = 0;
        for (size_t k = 0; k < STRETCH; k += 8) {
            crc = _mm_crc32_u64(crc, load64(at + k));
            second = _mm_crc32_u64(second, load64(at + STRETCH + k));
            third = _mm_crc32_u64(third, load64(at + 2 * STRETCH + k));
        }
        crc = crc_shift(crc, SHIFT_TWO) ^ crc_shift(second, SHIFT_ONE) ^ third;
    }
    for (; size >= 8; size -= 8, at += 8) {
        crc = _mm_crc32_u64(crc, load64(at));
    }
    for (; size != 0; size--, at++) {
        crc = _mm_crc32_u8((uint32_t)crc, *at);
    }
    return ~(uint32_t)crc;
}

#elif defined(__aarch64__) && defined(__linux__) && defined(__GNUC__)

#include <sys/auxv.h>

#define HWCAP_BIT_CRC32 (1UL << 7)

bool crc32c_has_hardware(void) {
    return (getauxval(AT_HWCAP) & HWCAP_BIT_CRC32) != 0;
}

static uint32_t crc32c_hardware(uint32_t crc, const uint8_t *at, size_t size) {
    crc = ~crc;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word = 0;
        memcpy(&word, at, sizeof word);
        /* In assembly: the compiler need not be told of the extension. */
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    }
    for (; size != 0; size--, at++) {
        __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)*at));
    }
    return ~crc;
}

#else

bool crc32c_has_hardware(void) {
    return false;
}

static uint32_t crc32c_hardware(uint32_t crc, const uint8_t *at, size_t size) {
    return crc32c_portable(crc, at, size);
}

#endif

uint32_t bfv_crc32c(uint32_t crc, const void *data, size_t size) {
    if (data == NULL || size == 0) {
        return crc;
    }
    return crc32c_has_hardware() ? crc32c_hardware(crc, data, size) : crc32c_portable(crc, data, size);
}
