/* Calls for many ciphertexts and for products, beside the single calls that they are made of; for
 * fuzz_ring.c. */
#ifndef PYBFV_FUZZ_CLIENT_H
#define PYBFV_FUZZ_CLIENT_H

#include "fuzz.h"

/* Values in slots, encrypted in one call and one by one, and read through the phase's slots. */
static inline void batches(const bfv_ring *ring, const bfv_secret *secret, const struct numbers *r,
                           const bfv_encoder *encoder, const uint64_t *values, uint32_t width,
                           struct input *in) {
    enum { COUNT = 3 };
    const uint32_t n = r->n, poly = r->poly, threads = pick(in, 4), stride = 1 + pick(in, 2);
    const uint32_t count = 1 + pick(in, COUNT);
    const size_t size = bfv_encrypt_bytes(n, 2), few = bfv_error_bytes(n),
                 room = (size_t)COUNT * stride * 2 * poly;
    uint64_t state = next_byte(in), *many_values = fresh((size_t)COUNT * (width + 1) * sizeof *values);
    uint8_t *rnd = fresh(COUNT * size);
    uint32_t *pk = fresh(2 * poly * sizeof *pk), *a = fresh(COUNT * poly * sizeof *a),
             *m = fresh(poly * sizeof *m);
    uint32_t *out = fresh(room * sizeof *out), *one = fresh(2 * poly * sizeof *one);
    next_residues(in, r, 2, false, pk);
    next_residues(in, r, COUNT, false, a);
    for (size_t k = 0; k < COUNT * size; k++) {
        rnd[k] = (uint8_t)(mix(&state) % 255); /* none is rejected */
    }
    for (uint32_t k = 0; k < count; k++) {
        memcpy(many_values + (size_t)k * width, values, width * sizeof *values);
        if (width != 0) {
            many_values[(size_t)k * width] += k;
        }
    }
    EXPECT(bfv_encrypt_many(ring, pk, encoder, many_values, 1, width, count, rnd, count * size - 1, threads,
                            out, stride) == BFV_E_RANDOM);
    EXPECT(bfv_encrypt_many(ring, pk, encoder, many_values, 1, n + 1, count, rnd, count * size, threads, out,
                            stride) == BFV_E_ARGUMENT);
    EXPECT(bfv_encrypt_many(ring, pk, encoder, many_values, 1, width, count, rnd, count * size, threads, out,
                            stride) == BFV_OK);
    for (uint32_t k = 0; k < count; k++) {
        EXPECT(bfv_encode(encoder, many_values + (size_t)k * width, 1, width, m) == BFV_OK);
        EXPECT(bfv_encrypt_public(ring, pk, m, rnd + k * size, size, one) == BFV_OK);
        EXPECT(memcmp(one, out + (size_t)k * stride * 2 * poly, 2 * poly * sizeof *one) == 0);
    }
    EXPECT(bfv_secret_encrypt_many(secret, a, encoder, many_values, 1, width, count, rnd, count * few - 1,
                                   threads, out, stride) == BFV_E_RANDOM);
    EXPECT(bfv_secret_encrypt_many(secret, a, encoder, many_values, 1, width, count, rnd, count * few,
                                   threads, out, stride) == BFV_OK);
    for (uint32_t k = 0; k < count; k++) {
        EXPECT(bfv_encode(encoder, many_values + (size_t)k * width, 1, width, m) == BFV_OK);
        EXPECT(bfv_secret_encrypt(secret, a + (size_t)k * poly, m, rnd + k * few, few, one) == BFV_OK);
        EXPECT(memcmp(one, out + (size_t)k * stride * poly, poly * sizeof *one) == 0);
    }
    free(many_values), free(rnd), free(pk), free(a), free(m), free(out), free(one);
}

/* Slots of any phase at any bound: what rounding and decoding give. */
static inline void slots_of(const bfv_ring *ring, const struct numbers *r, const bfv_encoder *encoder,
                            uint64_t t, uint32_t t_primes, const uint32_t *near, struct input *in) {
    const uint32_t n = r->n;
    uint64_t state = next_byte(in), *m = fresh(n * sizeof *m);
    uint32_t *x = fresh(r->poly * sizeof *x);
    uint32_t *found = fresh((size_t)t_primes * n * sizeof *found),
             *right = fresh((size_t)t_primes * n * sizeof *right);
    const uint64_t bound = mix(&state) >> (1 + pick(in, 63));
    if (pick(in, 2) == 0) {
        memcpy(x, near, r->poly * sizeof *x); /* an encoding: little residuals */
    } else {
        next_residues(in, r, 1, false, x);
    }
    const int status = bfv_secret_round(ring, x, &t, 1, 0, n, bound, m);
    EXPECT(status == BFV_OK || status == BFV_E_NOISE);
    EXPECT(bfv_secret_slots(ring, encoder, x, bound, found) == status);
    EXPECT(status != BFV_OK || bfv_decode_slots(encoder, m, 1, right) == BFV_OK);
    EXPECT(memcmp(found, right, (size_t)t_primes * n * sizeof *found) == 0); /* zeros where it failed */
    EXPECT(bfv_secret_slots(ring, encoder, x, UINT64_C(1) << 63, found) == BFV_E_ARGUMENT);
    free(m), free(x), free(found), free(right);
}

/* Planes expanded at once and one by one. */
static inline void planes(const bfv_ring *ring, const struct numbers *r, struct input *in) {
    size_t sizes[FUZZ_MAX_PRIMES], total = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        total += sizes[i] = 4 * (size_t)pick(in, 80);
    }
    uint64_t state = next_byte(in);
    uint8_t *streams = fresh(total);
    uint32_t *out = fresh(r->poly * sizeof *out), *plane = fresh(r->n * sizeof *plane),
             filled[FUZZ_MAX_PRIMES];
    for (size_t k = 0; k < total; k++) {
        streams[k] = (uint8_t)mix(&state);
    }
    EXPECT(bfv_expand_planes(ring, streams, sizes, out, filled) == BFV_OK);
    const uint8_t *at = streams;
    for (uint32_t i = 0; i < r->count; at += sizes[i], i++) {
        uint32_t one = 0;
        EXPECT(bfv_expand_uniform(ring, i, at, sizes[i], plane, &one) == BFV_OK && one == filled[i]);
        EXPECT(memcmp(plane, out + (size_t)i * r->n, one * sizeof *plane) == 0);
    }
    sizes[0]++;
    EXPECT(bfv_expand_planes(ring, streams, sizes, out, filled) == BFV_E_ARGUMENT);
    free(streams), free(out), free(plane);
}

/* Key switching is linear, and nothing of zero. */
static inline void switching(const bfv_ring *ring, const struct numbers *r, struct input *in) {
    const uint32_t poly = r->poly;
    uint32_t *x = fresh(poly * sizeof *x), *keys = fresh((size_t)r->count * 2 * poly * sizeof *keys);
    uint32_t *out = fresh(2 * poly * sizeof *out), *back = fresh(2 * poly * sizeof *back);
    double *fractions = fresh(r->n * sizeof *fractions);
    next_residues(in, r, 2 * r->count, false, keys);
    next_residues(in, r, 2, false, out);
    memcpy(back, out, 2 * poly * sizeof *out);
    EXPECT(bfv_switch_keys(ring, x, keys, out) == BFV_OK);
    EXPECT(memcmp(out, back, 2 * poly * sizeof *out) == 0);
    next_residues(in, r, 1, false, x);
    EXPECT(bfv_switch_keys(ring, x, keys, out) == BFV_OK);
    EXPECT(bfv_poly_neg(ring, x, 1, x) == BFV_OK); /* centred digits of -x are those of x, negated */
    EXPECT(bfv_switch_keys(ring, x, keys, out) == BFV_OK);
    EXPECT(memcmp(out, back, 2 * poly * sizeof *out) == 0);
    EXPECT(bfv_switch_keys(ring, out, keys, out) == BFV_E_ARGUMENT);
    EXPECT(bfv_fractions(ring, x, 1, fractions) == BFV_OK);
    for (uint32_t k = 0; k < r->n; k++) {
        EXPECT(fractions[k] >= -0.5 && fractions[k] <= 0.5);
    }
    EXPECT(bfv_fractions(ring, x, 0, fractions) == BFV_E_ARGUMENT);
    free(x), free(keys), free(out), free(back), free(fractions);
}

#endif
