/* CRC-32C: published vectors, and the hardware against the tables and a bit loop. */
#include "../../host_c/src/crc32c.h"
#include "test.h"

static uint32_t by_bits(uint32_t crc, const uint8_t *at, size_t size) {
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= at[i];
        for (int k = 0; k < 8; k++) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? UINT32_C(0x82f63b78) : 0);
        }
    }
    return ~crc;
}

void test_crc_vectors(void) {
    uint8_t bytes[32];
    CHECK(bfv_crc32c(0, "123456789", 9) == 0xe3069283);
    CHECK(crc32c_portable(0, "123456789", 9) == 0xe3069283);
    /* RFC 3720, appendix B.4. */
    memset(bytes, 0, sizeof bytes);
    CHECK(bfv_crc32c(0, bytes, sizeof bytes) == 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    CHECK(bfv_crc32c(0, bytes, sizeof bytes) == 0x62a8ab43);
    for (uint8_t k = 0; k < 32; k++) {
        bytes[k] = k;
    }
    CHECK(bfv_crc32c(0, bytes, sizeof bytes) == 0x46dd794e);
    for (uint8_t k = 0; k < 32; k++) {
        bytes[k] = (uint8_t)(31 - k);
    }
    CHECK(bfv_crc32c(0, bytes, sizeof bytes) == 0x113fdb5c);
    CHECK(bfv_crc32c(0, NULL, 0) == 0 && bfv_crc32c(0x1234, NULL, 0) == 0x1234);
}

void test_crc_bodies(void) {
    enum { SIZE = 20000 };
    uint8_t *bytes = test_alloc(SIZE + 16);
    for (size_t k = 0; k < SIZE + 16; k++) {
        bytes[k] = (uint8_t)random_runs();
    }
    static const size_t sizes[] = {0,    1,    7,    8,    9,    63,   1023,  1024,
                                   3071, 3072, 3073, 3079, 3080, 6144, 10000, SIZE};
    uint32_t bad = 0;
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        for (size_t shift = 0; shift < 9; shift++) {
            const uint32_t start = (uint32_t)random64();
            const uint32_t expected = by_bits(start, bytes + shift, sizes[k]);
            bad += crc32c_portable(start, bytes + shift, sizes[k]) != expected;
            bad += bfv_crc32c(start, bytes + shift, sizes[k]) != expected;
        }
    }
    CHECK(bad == 0);
    const uint32_t whole = by_bits(0, bytes, SIZE);
    for (uint32_t k = 0; k < 200; k++) { /* in three pieces */
        const size_t first = random64() % SIZE, second = first + random64() % (SIZE - first);
        uint32_t crc = bfv_crc32c(0, bytes, first);
        crc = bfv_crc32c(crc, bytes + first, second - first);
        bad += bfv_crc32c(crc, bytes + second, SIZE - second) != whole;
    }
    CHECK(bad == 0);
    for (uint32_t k = 0; k < 200; k++) { /* any flipped bit shows */
        const size_t at = random64() % SIZE;
        const uint8_t bit = (uint8_t)(1u << (random64() % 8));
        bytes[at] ^= bit;
        bad += bfv_crc32c(0, bytes, SIZE) == whole;
        bytes[at] ^= bit;
    }
    CHECK(bad == 0);
    free(bytes);
}
