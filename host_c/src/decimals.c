/* Cells of a table to numbers, exactly. */
#include <stdbool.h>

#pragma GCC visibility push(default)
#include "../include/bfv.h"
#pragma GCC visibility pop

enum { MAX_DIGITS = 18 };

/* Out: the number of -?[0-9]*mark?[0-9]* with 1 to 18 digits, blanks before it passed over; decimals = -1 for
 * another text. */
static void read_number(const uint8_t *at, const uint8_t *end, uint8_t mark, int64_t *mantissa,
                        int64_t *decimals) {
    while (at < end && *at == ' ') {
        at++;
    }
    const bool negative = at < end && *at == '-';
    bool marked = false;
    uint64_t value = 0;
    int32_t digits = 0, after = 0;
    *mantissa = 0;
    *decimals = -1;
    if (end - at > MAX_DIGITS + 2) {
        return;
    }
    for (at += negative; at < end; at++) {
        const uint8_t digit = (uint8_t)(*at - '0');
        if (digit < 10) {
            value = value * 10 + digit; /* at most 20 digits: may wrap, and is then not used */
            digits++;
            after += marked;
        } else if (*at == mark && !marked) {
            marked = true;
        } else {
            return;
        }
    }
    if (digits > 0 && digits <= MAX_DIGITS) {
        *mantissa = negative ? -(int64_t)value : (int64_t)value;
        *decimals = after;
    }
}

int bfv_decimals(const uint8_t *text, uint64_t size, const int32_t *ends, uint64_t count, uint8_t mark,
                 int64_t *mantissa, int64_t *decimals) {
    if ((text == NULL && size != 0) || ends == NULL || (uintptr_t)ends % sizeof *ends != 0 ||
        count > INT32_MAX || mark >= 128 || mantissa == NULL || (uintptr_t)mantissa % sizeof *mantissa != 0 ||
        decimals == NULL || (uintptr_t)decimals % sizeof *decimals != 0 || ends[0] < 0) {
        return BFV_E_ARGUMENT;
    }
    for (uint64_t k = 0; k < count; k++) {
        if (ends[k] > ends[k + 1]) {
            return BFV_E_ARGUMENT;
        }
    }
    if ((uint64_t)ends[count] > size) {
        return BFV_E_ARGUMENT;
    }
    for (uint64_t k = 0; k < count && text != NULL; k++) {
        read_number(text + ends[k], text + ends[k + 1], mark, mantissa + k, decimals + k);
    }
    for (uint64_t k = 0; k < count && text == NULL; k++) { /* nothing but empty cells */
        mantissa[k] = 0;
        decimals[k] = -1;
    }
    return BFV_OK;
}
