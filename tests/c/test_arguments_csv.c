/* Plain delimited text: what is read, where reading stops, what is refused. */
#include <stdio.h>

#include "test.h"

enum { COLUMNS = 3, WANTED = 2, ROOM = 4 };

static const int32_t places[COLUMNS] = {1, -1, 0};
static int64_t mantissa[WANTED * ROOM], decimals[WANTED * ROOM];
static uint32_t spans[2 * WANTED * ROOM];
static uint64_t rows, used;

/* The status for a text in memory of just its size, so that a sanitizer sees the first byte beyond it. */
static int read_text(const char *text, uint64_t first, uint64_t room) {
    const size_t size = strlen(text);
    uint8_t *bytes = test_alloc(size + 1);
    memcpy(bytes + 1, text, size); /* at no special address */
    const int status = bfv_csv_read(bytes + 1, size, ',', '.', COLUMNS, places, first, room, mantissa,
                                    decimals, spans, &rows, &used);
    free(bytes);
    return status;
}

static bool is_number(uint64_t place, uint64_t row, int64_t value, int64_t places_after) {
    return mantissa[place * ROOM + row] == value && decimals[place * ROOM + row] == places_after;
}

void test_csv(void) {
    const char *text = "1.50,x,-7\n\"2\",\"a,\"\"b\",  .5\r\n,,999999999999999999\n1,2,3";
    CHECK(read_text(text, 0, ROOM) == BFV_OK && rows == 3 && used == strlen(text) - 5);
    CHECK(is_number(1, 0, 150, 2) && is_number(0, 0, -7, 0));
    CHECK(is_number(1, 1, 2, 0) && is_number(0, 1, 5, 1));
    CHECK(is_number(1, 2, 0, -1) && is_number(0, 2, 999999999999999999, 0));
    CHECK(spans[2 * (ROOM + 1)] == 11 && spans[2 * (ROOM + 1) + 1] == 12);
    CHECK(read_text("5,,6\n7,,8\n", 3, ROOM) == BFV_OK && rows == 4 && used == 5);
    CHECK(is_number(1, 3, 5, 0) && is_number(0, 3, 6, 0) && is_number(0, 2, 999999999999999999, 0));
    CHECK(read_text("", 1, ROOM) == BFV_OK && rows == 1 && used == 0);
    CHECK(read_text("1,2,3\n", ROOM, ROOM) == BFV_OK && rows == ROOM && used == 0);

    static const char *const odd[] = {"",
                                      "+1",
                                      "-",
                                      ".",
                                      "1.2.3",
                                      "1e5",
                                      "--1",
                                      "1-",
                                      "1 ",
                                      "\xc2\xb2",
                                      "NA",
                                      " ",
                                      "0x1",
                                      "1 2",
                                      "-1.2.",
                                      "a\"",
                                      "1000000000000000000",
                                      "0000000000000000001",
                                      "-.0000000000000000001"};
    char line[80];
    for (size_t k = 0; k < sizeof odd / sizeof odd[0]; k++) {
        (void)snprintf(line, sizeof line, "%s,0,1\n", odd[k]);
        CHECK(read_text(line, 0, ROOM) == BFV_OK && rows == 1 && is_number(1, 0, 0, -1) &&
              is_number(0, 0, 1, 0));
    }
    static const char *const unplain[] = {"\n",
                                          "\r\n",
                                          "1,2\n",
                                          "1,2,3,4\n",
                                          "1,2,3\r4,5,6\n",
                                          "1,\"2\n\",3\n",
                                          "1,\"2\" ,3\n",
                                          "\"1\"\"\",2,3\n",
                                          "1,2,\"3\n",
                                          " \n"};
    for (size_t k = 0; k < sizeof unplain / sizeof unplain[0]; k++) {
        (void)snprintf(line, sizeof line, "1,2,3\n%s1,2,3\n", unplain[k]);
        CHECK(read_text(line, 0, ROOM) == BFV_E_UNSUPPORTED && rows == 1 && used == 6);
    }
    enum { LONG = 70000 };
    char *wide = test_alloc(LONG + 8);
    memset(wide, '1', LONG);
    strcpy(wide + LONG, ",2,3\n");
    CHECK(read_text(wide, 0, ROOM) == BFV_E_UNSUPPORTED && rows == 0 && used == 0);
    CHECK(read_text(wide + LONG - 2000, 0, ROOM) == BFV_OK && is_number(1, 0, 0, -1));
    CHECK(read_text(wide + LONG - 2001, 0, ROOM) == BFV_E_UNSUPPORTED);
    wide[LONG] = '\0';
    CHECK(read_text(wide, 0, ROOM) == BFV_E_UNSUPPORTED);
    CHECK(read_text(wide + LONG - 65536, 0, ROOM) == BFV_OK && rows == 0);
    free(wide);
}

void test_arguments_csv(void) {
    const uint8_t *text = (const uint8_t *)"1,2,3\n";
    memset(mantissa, 7, sizeof mantissa);
    rows = used = 99;
#define READ(t, size, mark, columns, wanted, first, room, m, d, s, r, u)                                     \
    CHECK(bfv_csv_read(t, size, ',', mark, columns, wanted, first, room, m, d, s, r, u) == BFV_E_ARGUMENT)
    static const int32_t high[COLUMNS] = {0, COLUMNS, -1}, low[COLUMNS] = {0, -2, -1};
    int64_t *const off = (int64_t *)(void *)((char *)mantissa + 1);
    uint32_t *const off_spans = (uint32_t *)(void *)((char *)spans + 1);
    READ(NULL, 6, '.', COLUMNS, places, 0, ROOM, mantissa, decimals, spans, &rows, &used);
    READ(text, (uint64_t)BFV_CSV_TEXT + 1, '.', COLUMNS, places, 0, ROOM, mantissa, decimals, spans, &rows,
         &used);
    READ(text, UINT64_MAX, '.', COLUMNS, places, 0, ROOM, mantissa, decimals, spans, &rows, &used);
    READ(text, 6, ',', COLUMNS, places, 0, ROOM, mantissa, decimals, spans, &rows, &used);
    READ(text, 6, 128, COLUMNS, places, 0, ROOM, mantissa, decimals, spans, &rows, &used);
    READ(text, 6, '.', 0, places, 0, ROOM, mantissa, decimals, spans, &rows, &used);
    READ(text, 6, '.', COLUMNS, NULL, 0, ROOM, mantissa, decimals, spans, &rows, &used);
    READ(text, 6, '.', COLUMNS, high, 0, ROOM, mantissa, decimals, spans, &rows, &used);
    READ(text, 6, '.', COLUMNS, low, 0, ROOM, mantissa, decimals, spans, &rows, &used);
    READ(text, 6, '.', COLUMNS, places, ROOM + 1, ROOM, mantissa, decimals, spans, &rows, &used);
    READ(text, 6, '.', COLUMNS, places, 0, UINT64_C(1) << 32, mantissa, decimals, spans, &rows, &used);
    READ(text, 6, '.', COLUMNS, places, 0, ROOM, NULL, decimals, spans, &rows, &used);
    READ(text, 6, '.', COLUMNS, places, 0, ROOM, off, decimals, spans, &rows, &used);
    READ(text, 6, '.', COLUMNS, places, 0, ROOM, mantissa, NULL, spans, &rows, &used);
    READ(text, 6, '.', COLUMNS, places, 0, ROOM, mantissa, off, spans, &rows, &used);
    READ(text, 6, '.', COLUMNS, places, 0, ROOM, mantissa, decimals, NULL, &rows, &used);
    READ(text, 6, '.', COLUMNS, places, 0, ROOM, mantissa, decimals, off_spans, &rows, &used);
    READ(text, 6, '.', COLUMNS, places, 0, ROOM, mantissa, decimals, spans, NULL, &used);
    READ(text, 6, '.', COLUMNS, places, 0, ROOM, mantissa, decimals, spans, &rows, NULL);
#undef READ
    CHECK(rows == 99 && used == 99 && mantissa[0] == INT64_C(0x0707070707070707));
    CHECK(bfv_csv_read(NULL, 0, ',', '.', COLUMNS, places, 0, ROOM, mantissa, decimals, spans, &rows,
                       &used) == BFV_OK);
    CHECK(rows == 0 && used == 0);
}
