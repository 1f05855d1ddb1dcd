/* Plain delimited text to numbers. A record is plain when it is one line with as many cells as there are
 * columns; cells may be quoted. What is not plain is left to a reader that knows all of CSV: this one only
 * has to be right about the records that it takes. */
#include <stdbool.h>
#include <string.h>

#pragma GCC visibility push(default)
#include "../include/bfv.h"
#pragma GCC visibility pop

enum { MAX_RECORD = 1 << 16, MAX_CELL = 2000, MAX_DIGITS = 18 };

typedef struct {
    uint8_t delimiter, mark;
    bool skip; /* blanks before a cell */
} style;

typedef struct {
    const uint8_t *begin, *end; /* of the text, without quotes */
    int64_t mantissa;
    int32_t decimals; /* -1: not a plain number */
} cell;

/* Out: the number of a cell that holds -?[0-9]*mark?[0-9]* with 1 to 18 digits, and else decimals = -1. */
static void read_number(cell *c, uint8_t mark) {
    const uint8_t *at = c->begin;
    const bool negative = at < c->end && *at == '-';
    bool marked = false;
    uint64_t value = 0;
    int32_t digits = 0, decimals = 0;
    c->mantissa = 0;
    c->decimals = -1;
    if (c->end - at > MAX_DIGITS + 2) {
        return;
    }
    for (at += negative; at < c->end; at++) {
        const uint8_t digit = (uint8_t)(*at - '0');
        if (digit < 10) {
            value = value * 10 + digit; /* at most 20 digits: may wrap, and is then not used */
            digits++;
            decimals += marked;
        } else if (*at == mark && !marked) {
            marked = true;
        } else {
            return;
        }
    }
    if (digits > 0 && digits <= MAX_DIGITS) {
        c->mantissa = negative ? -(int64_t)value : (int64_t)value;
        c->decimals = decimals;
    }
}

/* The cell that begins at `at`, in a line that ends at `stop`: what follows it, or NULL when it is not plain.
 * doubled: whether it may hold doubled quotes. */
static const uint8_t *read_cell(const style *s, const uint8_t *at, const uint8_t *stop, bool doubled,
                                cell *c) {
    while (s->skip && at < stop && *at == ' ') {
        at++;
    }
    if (at == stop || *at != '"') {
        c->begin = at;
        while (at < stop && *at != s->delimiter) {
            at++;
        }
        c->end = at;
        return at;
    }
    c->begin = ++at;
    for (;;) {
        at = at < stop ? memchr(at, '"', (size_t)(stop - at)) : NULL;
        if (at == NULL) {
            return NULL; /* goes on in the next line */
        }
        c->end = at++;
        if (at == stop || *at == s->delimiter) {
            return at;
        }
        if (*at != '"' || !doubled) {
            return NULL;
        }
        at++;
    }
}

static bool is_aligned(const void *data, uintptr_t bytes) {
    return data != NULL && (uintptr_t)data % bytes == 0;
}

int bfv_csv_read(const uint8_t *text, uint64_t size, uint8_t delimiter, uint8_t mark, uint32_t columns,
                 const int32_t *wanted, uint64_t first, uint64_t room, int64_t *mantissa, int64_t *decimals,
                 uint32_t *spans, uint64_t *rows, uint64_t *used) {
    if (size > BFV_CSV_TEXT || (text == NULL && size != 0) || columns == 0 || wanted == NULL ||
        first > room || room > UINT32_MAX || delimiter == mark || delimiter >= 128 || mark >= 128 ||
        !is_aligned(mantissa, 8) || !is_aligned(decimals, 8) || !is_aligned(spans, 4) || rows == NULL ||
        used == NULL) {
        return BFV_E_ARGUMENT;
    }
    for (uint32_t column = 0; column < columns; column++) {
        if (wanted[column] < -1 || wanted[column] >= (int64_t)columns) {
            return BFV_E_ARGUMENT;
        }
    }
    const style s = {delimiter, mark, delimiter != ' '};
    uint64_t row = first, done = 0;
    int status = BFV_OK;
    while (row < room && done < size) {
        const uint8_t *at = text + done, *const newline = memchr(at, '\n', (size_t)(size - done));
        if (newline == NULL) {
            status = size - done > MAX_RECORD ? BFV_E_UNSUPPORTED : BFV_OK;
            break;
        }
        const uint8_t *const stop = newline > at && newline[-1] == '\r' ? newline - 1 : newline;
        status = BFV_E_UNSUPPORTED;
        if (stop == at || stop - at > MAX_RECORD || memchr(at, '\r', (size_t)(stop - at)) != NULL) {
            break; /* a blank line, a long one, or several */
        }
        for (uint32_t column = 0; column < columns; column++) {
            const int32_t place = wanted[column];
            cell c;
            at = read_cell(&s, at, stop, place < 0, &c);
            if (at == NULL || (at == stop) != (column + 1 == columns)) {
                at = NULL;
                break;
            }
            at++; /* the delimiter */
            if (place >= 0) {
                if (c.end - c.begin > MAX_CELL) {
                    at = NULL;
                    break;
                }
                const uint64_t to = (uint64_t)place * room + row;
                read_number(&c, mark);
                mantissa[to] = c.mantissa;
                decimals[to] = c.decimals;
                spans[2 * to] = (uint32_t)(c.begin - text);
                spans[2 * to + 1] = (uint32_t)(c.end - text);
            }
        }
        if (at == NULL) {
            break;
        }
        status = BFV_OK;
        row++;
        done = (uint64_t)(newline + 1 - text);
    }
    *rows = row;
    *used = done;
    return status;
}
