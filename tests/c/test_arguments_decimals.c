/* Cells to numbers: what is plain, and what is refused. */
#include "test.h"

enum { CELLS = 4 };

static int64_t mantissa[CELLS], decimals[CELLS];

/* The one cell in memory of just its size, so that a sanitizer sees the first byte beyond it. */
static bool reads(const char *cell, int64_t value, int64_t after) {
    const size_t size = strlen(cell);
    uint8_t *bytes = test_alloc(size + 1);
    memcpy(bytes + 1, cell, size); /* at no special address */
    const int32_t ends[2] = {0, (int32_t)size};
    const int status = bfv_decimals(bytes + 1, size, ends, 1, '.', mantissa, decimals);
    free(bytes);
    return status == BFV_OK && mantissa[0] == value && decimals[0] == after;
}

void test_decimals(void) {
    CHECK(reads("0", 0, 0) && reads("-0", 0, 0) && reads("007", 7, 0) && reads("1.50", 150, 2) &&
          reads(".5", 5, 1));
    CHECK(reads("5.", 5, 0) && reads("-.5", -5, 1) && reads("  12", 12, 0) && reads(" -7.25", -725, 2));
    CHECK(reads("999999999999999999", 999999999999999999, 0) &&
          reads("-99999999999999999.9", -999999999999999999, 1));
    static const char *const odd[] = {"",
                                      "+1",
                                      "-",
                                      ".",
                                      "-.",
                                      "1.2.3",
                                      "1e5",
                                      "--1",
                                      "1-",
                                      "1 ",
                                      "NA",
                                      " ",
                                      "0x1",
                                      "1,",
                                      "1 2",
                                      "- 1",
                                      "-1.2.",
                                      "\"1\"",
                                      "\t1",
                                      "\xc2\xb2",
                                      "1000000000000000000",
                                      "0000000000000000001",
                                      "-.0000000000000000001",
                                      "99999999999999999999",
                                      "-12345678901234567890123"};
    for (size_t k = 0; k < sizeof odd / sizeof odd[0]; k++) {
        CHECK(reads(odd[k], 0, -1));
    }
    static const int32_t ends[] = {1, 3, 3, 6, 7};
    CHECK(bfv_decimals((const uint8_t *)"x12-,5x", 7, ends, CELLS, ',', mantissa, decimals) == BFV_OK);
    CHECK(mantissa[0] == 12 && decimals[0] == 0 && mantissa[1] == 0 && decimals[1] == -1);
    CHECK(mantissa[2] == -5 && decimals[2] == 1 && mantissa[3] == 0 && decimals[3] == -1);
    static const int32_t zeros[CELLS + 1] = {0};
    memset(mantissa, 7, sizeof mantissa);
    CHECK(bfv_decimals(NULL, 0, zeros, CELLS, '.', mantissa, decimals) == BFV_OK && mantissa[3] == 0 &&
          decimals[3] == -1);
    CHECK(bfv_decimals(NULL, 0, zeros, 0, '.', mantissa, decimals) == BFV_OK);
}

void test_arguments_decimals(void) {
    const uint8_t *text = (const uint8_t *)"123456";
    static const int32_t ends[] = {0, 1, 2, 4, 6}, falling[] = {0, 3, 2, 4, 6}, below[] = {-1, 1, 2, 4, 6},
                         beyond[] = {0, 1, 2, 4, 7}, high[] = {7, 7, 7, 7, 7};
    int64_t *const off = (int64_t *)(void *)((char *)mantissa + 1);
    const int32_t *const off_ends = (const int32_t *)(const void *)((const char *)ends + 1);
    memset(mantissa, 7, sizeof mantissa);
    memset(decimals, 7, sizeof decimals);
    static const int32_t *const wrong[] = {NULL, falling, below, beyond, high};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        CHECK(bfv_decimals(text, 6, wrong[k], CELLS, '.', mantissa, decimals) == BFV_E_ARGUMENT);
    }
    CHECK(bfv_decimals(text, 6, off_ends, 2, '.', mantissa, decimals) == BFV_E_ARGUMENT);
    CHECK(bfv_decimals(NULL, 6, ends, CELLS, '.', mantissa, decimals) == BFV_E_ARGUMENT);
    CHECK(bfv_decimals(text, 6, ends, UINT64_MAX, '.', mantissa, decimals) == BFV_E_ARGUMENT);
    CHECK(bfv_decimals(text, 6, ends, UINT64_C(1) << 31, '.', mantissa, decimals) == BFV_E_ARGUMENT);
    CHECK(bfv_decimals(text, 6, ends, CELLS, 128, mantissa, decimals) == BFV_E_ARGUMENT);
    CHECK(bfv_decimals(text, 6, ends, CELLS, '.', NULL, decimals) == BFV_E_ARGUMENT);
    CHECK(bfv_decimals(text, 6, ends, CELLS, '.', mantissa, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_decimals(text, 6, ends, 1, '.', off, decimals) == BFV_E_ARGUMENT);
    CHECK(bfv_decimals(text, 6, ends, 1, '.', mantissa, off) == BFV_E_ARGUMENT);
    CHECK(mantissa[0] == INT64_C(0x0707070707070707) && decimals[3] == mantissa[0]);
}
