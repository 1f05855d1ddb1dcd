/* What the C fuzzers share: a reader of their input, rings to draw from, plain arithmetic to judge by. */
#ifndef PYBFV_FUZZ_H
#define PYBFV_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../host_c/include/bfv_secret.h"

/* Ends the run with what was expected; libFuzzer keeps the input. */
#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: expected: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes of one input, in turn; zeros when there are no more. */
struct input {
    const uint8_t *data;
    size_t left;
};

static inline uint32_t next_byte(struct input *in) {
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->data++;
}

/* 0 to below - 1; below <= 256. */
static inline uint32_t pick(struct input *in, uint32_t below) {
    return next_byte(in) % below;
}

/* Mostly small numbers, sometimes those at which products and sums wrap. */
static inline uint64_t next_count(struct input *in, uint32_t usual) {
    static const uint64_t edges[] = {0,
                                     UINT64_MAX,
                                     UINT64_C(1) << 31,
                                     UINT64_C(1) << 32,
                                     UINT64_C(1) << 56,
                                     UINT64_C(1) << 61,
                                     UINT64_C(1) << 62,
                                     UINT64_C(1) << 63,
                                     (UINT64_C(1) << 62) + 1,
                                     UINT64_MAX - 1};
    const uint32_t byte = next_byte(in);
    return byte < 224 ? byte % (usual + 1) : edges[byte % (sizeof edges / sizeof edges[0])];
}

/* Numbers that follow from one byte of the input. */
static inline uint64_t mix(uint64_t *state) {
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = *state;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Memory of exactly this size, so that a sanitizer sees the first byte beyond it; never NULL. */
static inline void *fresh(size_t size) {
    void *data = calloc(size == 0 ? 1 : size, 1);
    EXPECT(data != NULL);
    return data;
}

enum { FUZZ_MAX_N = 16, FUZZ_MAX_PRIMES = 3, FUZZ_MAX_POLY = FUZZ_MAX_N * FUZZ_MAX_PRIMES };

/* A ring by its numbers: n a power of two up to 16, primes = 1 mod 32, small and nearly 2^30. */
struct numbers {
    uint32_t n, count, poly; /* poly = count n, words of a residue polynomial */
    uint32_t primes[FUZZ_MAX_PRIMES];
    uint32_t roots[FUZZ_MAX_PRIMES]; /* as the library says; a test of rings proves them */
};

static inline struct numbers next_numbers(struct input *in) {
    static const uint32_t known[] = {97, 193, 257, 7681, 12289, 65537, 67043329, 134348801, 1073741441};
    enum { KNOWN = sizeof known / sizeof known[0] };
    struct numbers r = {.n = 2U << pick(in, 4), .count = 1 + pick(in, FUZZ_MAX_PRIMES)};
    const uint32_t first = pick(in, KNOWN);
    for (uint32_t i = 0; i < r.count; i++) {
        r.primes[i] = known[(first + i) % KNOWN];
    }
    r.poly = r.count * r.n;
    return r;
}

/* NULL (the default), each body that this CPU has, or one that it has not. */
static inline const char *next_body(struct input *in) {
    const uint32_t choice = pick(in, 8);
    return choice == 0 ? NULL : choice == 7 ? "none" : bfv_body((choice - 1) % 3);
}

/* Residues: all 0, all p - 1, single ones, or mixed; `wild` puts one word that is no residue among them. */
static inline void next_residues(struct input *in, const struct numbers *r, uint32_t polys, bool wild,
                                 uint32_t *x) {
    uint64_t state = next_byte(in);
    const uint64_t kind = state % 4, words = (uint64_t)polys * r->poly;
    for (uint64_t k = 0; k < words; k++) {
        const uint32_t p = r->primes[k / r->n % r->count];
        const uint64_t noise = mix(&state);
        x[k] = kind == 0   ? 0
               : kind == 1 ? p - 1
               : kind == 2 ? (noise % 8 == 0)
                           : (uint32_t)((noise >> 40) % 4 == 0 ? p - 1 - noise % 2 : noise % p);
    }
    if (wild) {
        const uint64_t at = mix(&state) % words;
        x[at] = mix(&state) % 2 == 0 ? UINT32_MAX : r->primes[at / r->n % r->count];
    }
}

static inline uint32_t times(uint32_t a, uint32_t b, uint32_t p) {
    return (uint32_t)((uint64_t)a * b % p);
}

/* One plane to NTT form by the definition: X[i] = a(psi^(2 brv(i) + 1)). */
static inline void plain_ntt(uint32_t n, uint32_t p, uint32_t psi, const uint32_t *a, uint32_t *x) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t exponent = 0; /* brv(i) */
        for (uint32_t bit = 1, to = n / 2; bit < n; bit *= 2, to /= 2) {
            exponent += (i & bit) != 0 ? to : 0;
        }
        uint32_t point = 1, sum = 0;
        for (uint32_t k = 0; k < 2 * exponent + 1; k++) {
            point = times(point, psi, p);
        }
        for (uint32_t k = n; k-- > 0;) {
            sum = (uint32_t)(((uint64_t)sum * point + a[k]) % p);
        }
        x[i] = sum;
    }
}

static inline void plain_forward(const struct numbers *r, const uint32_t *a, uint32_t polys, uint32_t *x) {
    for (uint32_t plane = 0; plane < polys * r->count; plane++) {
        const uint32_t i = plane % r->count;
        plain_ntt(r->n, r->primes[i], r->roots[i], a + (size_t)plane * r->n, x + (size_t)plane * r->n);
    }
}

#endif
