/* What calls for many ciphertexts, slots and key switching refuse: missing, foreign, misaligned,
 * overlapping, empty and huge arguments; outputs unchanged. */
#include "../../host_c/include/bfv_secret.h"
#include "test.h"

enum { N = 16, L = 2, K = 3, POLY = L * N, COUNT = 2 };

static uint32_t pool[64 * POLY], pool_before[64 * POLY];

static void *shifted(void *data, size_t bytes) {
    return (char *)data + bytes;
}

static bool unchanged(void) {
    return memcmp(pool, pool_before, sizeof pool) == 0;
}

#define REFUSED(call) CHECK((call) == BFV_E_ARGUMENT && unchanged())

static const uint64_t impossible[] = {0, UINT64_MAX, UINT64_MAX / (4 * POLY) + 1, UINT64_C(1) << 57,
                                      UINT64_C(1) << 63};
enum { IMPOSSIBLE = sizeof impossible / sizeof impossible[0] };

void test_arguments_many(void) {
    bfv_ring *ring = test_ring(N, chain, L, NULL), *other = test_ring(N, chain + 1, L, NULL);
    bfv_encoder *encoder = NULL, *foreign = NULL, *coefficients = NULL;
    bfv_secret *secret = NULL;
    const uint32_t t_primes[] = {97, 193};
    const uint64_t t[1] = {1000};
    uint32_t nonsense[64] = {0};
    int8_t key[N] = {1, -1};
    CHECK(bfv_encoder_open_batched(ring, t_primes, 2, &encoder) == BFV_OK);
    CHECK(bfv_encoder_open_batched(other, t_primes, 2, &foreign) == BFV_OK);
    CHECK(bfv_encoder_open_coefficients(ring, t, 1, &coefficients) == BFV_OK);
    CHECK(bfv_secret_open(ring, key, &secret) == BFV_OK);
    random_residues(ring, pool, 64);
    memcpy(pool_before, pool, sizeof pool);
    uint32_t *const pk = pool, *const a = pool + 4 * POLY, *const out = pool + 16 * POLY;
    uint64_t *const values = (uint64_t *)(void *)(pool + 8 * POLY); /* COUNT N words of 64 bits: 2 POLY */
    static uint8_t rnd[COUNT * 400];
    const size_t need = COUNT * bfv_encrypt_bytes(N, 2), few = COUNT * bfv_error_bytes(N);

#define MANY(ring, pk, encoder, values, words, width, count, rnd, bytes, threads, out, stride)               \
    REFUSED(                                                                                                 \
        bfv_encrypt_many(ring, pk, encoder, values, words, width, count, rnd, bytes, threads, out, stride))
#define SECRET(secret, a, encoder, values, words, width, count, rnd, bytes, threads, out, stride)            \
    REFUSED(bfv_secret_encrypt_many(secret, a, encoder, values, words, width, count, rnd, bytes, threads,    \
                                    out, stride))
    const bfv_ring *const no_rings[] = {NULL, (const bfv_ring *)(void *)nonsense};
    const bfv_secret *const no_secrets[] = {NULL, (const bfv_secret *)(void *)nonsense};
    const bfv_encoder *const no_encoders[] = {NULL, (const bfv_encoder *)(void *)nonsense, foreign};
    for (size_t k = 0; k < 3; k++) {
        MANY(ring, pk, no_encoders[k], values, 1, N, COUNT, rnd, need, 1, out, 1);
        SECRET(secret, a, no_encoders[k], values, 1, N, COUNT, rnd, few, 1, out, 1);
        REFUSED(bfv_secret_slots(ring, no_encoders[k], a, 5, out));
        if (k < 2) {
            MANY(no_rings[k], pk, encoder, values, 1, N, COUNT, rnd, need, 1, out, 1);
            SECRET(no_secrets[k], a, encoder, values, 1, N, COUNT, rnd, few, 1, out, 1);
            REFUSED(bfv_secret_slots(no_rings[k], encoder, a, 5, out));
        }
    }
    for (size_t k = 0; k < IMPOSSIBLE; k++) {
        MANY(ring, pk, encoder, values, 1, N, impossible[k], rnd, need, 1, out, 1);
        SECRET(secret, a, encoder, values, 1, N, impossible[k], rnd, few, 1, out, 1);
        MANY(ring, pk, encoder, values, 1, N, COUNT, rnd, need, 1, out, impossible[k]);
        SECRET(secret, a, encoder, values, 1, N, COUNT, rnd, few, 1, out, impossible[k]);
    }
    MANY(ring, NULL, encoder, values, 1, N, COUNT, rnd, need, 1, out, 1);
    MANY(ring, shifted(pk, 1), encoder, values, 1, N, COUNT, rnd, need, 1, out, 1);
    MANY(ring, pk, encoder, NULL, 1, N, COUNT, rnd, need, 1, out, 1);
    MANY(ring, pk, encoder, shifted(values, 4), 1, N, COUNT, rnd, need, 1, out, 1);
    MANY(ring, pk, encoder, values, 0, N, COUNT, rnd, need, 1, out, 1);
    MANY(ring, pk, encoder, values, BFV_MAX_T_WORDS + 1, N, COUNT, rnd, need, 1, out, 1);
    MANY(ring, pk, encoder, values, 1, N + 1, COUNT, rnd, need, 1, out, 1);
    MANY(ring, pk, encoder, values, 1, UINT32_MAX, COUNT, rnd, need, 1, out, 1);
    MANY(ring, pk, encoder, values, 1, N, COUNT, NULL, need, 1, out, 1);
    MANY(ring, pk, encoder, values, 1, N, COUNT, rnd, need, BFV_MAX_THREADS + 1, out, 1);
    MANY(ring, pk, encoder, values, 1, N, COUNT, rnd, need, 1, NULL, 1);
    MANY(ring, pk, encoder, values, 1, N, COUNT, rnd, need, 1, shifted(out, 2), 1);
    MANY(ring, pk, encoder, values, 1, N, COUNT, rnd, need, 1, pk + 2 * POLY - 1, 1);
    MANY(ring, pk, encoder, values, 1, N, COUNT, rnd, need, 1, pool + 10 * POLY - 1, 1);
    MANY(ring, out + 12 * POLY - 1, encoder, values, 1, N, COUNT, rnd, need, 1, out,
         5); /* the last one ends there */
    MANY(ring, pk, encoder, values, 1, N, COUNT, (const uint8_t *)(out + 1), need, 1, out, 1);
    CHECK(bfv_encrypt_many(ring, pk, encoder, values, 1, N, COUNT, rnd, need - 1, 1, out, 1) == BFV_E_RANDOM);
    SECRET(secret, NULL, encoder, values, 1, N, COUNT, rnd, few, 1, out, 1);
    SECRET(secret, shifted(a, 2), encoder, values, 1, N, COUNT, rnd, few, 1, out, 1);
    SECRET(secret, a, encoder, NULL, 1, N, COUNT, rnd, few, 1, out, 1);
    SECRET(secret, a, encoder, values, 0, N, COUNT, rnd, few, 1, out, 1);
    SECRET(secret, a, encoder, values, 1, N + 1, COUNT, rnd, few, 1, out, 1);
    SECRET(secret, a, encoder, values, 1, N, COUNT, NULL, few, 1, out, 1);
    SECRET(secret, a, encoder, values, 1, N, COUNT, rnd, few, BFV_MAX_THREADS + 1, out, 1);
    SECRET(secret, a, encoder, values, 1, N, COUNT, rnd, few, 1, NULL, 1);
    SECRET(secret, a, encoder, values, 1, N, COUNT, rnd, few, 1, shifted(out, 1), 1);
    SECRET(secret, a, encoder, values, 1, N, COUNT, rnd, few, 1, a + 1, 1);
    SECRET(secret, a, encoder, values, 1, N, COUNT, rnd, few, 1, pool + 10 * POLY - 1, 1);
    SECRET(secret, a, encoder, values, 1, N, COUNT, (const uint8_t *)out, few, 1, out, 1);
    CHECK(bfv_secret_encrypt_many(secret, a, encoder, values, 1, N, COUNT, rnd, few - 1, 1, out, 1) ==
          BFV_E_RANDOM);
    REFUSED(bfv_secret_slots(ring, coefficients, a, 5, out));
    REFUSED(bfv_secret_slots(ring, encoder, NULL, 5, out));
    REFUSED(bfv_secret_slots(ring, encoder, shifted(a, 1), 5, out));
    REFUSED(bfv_secret_slots(ring, encoder, a, UINT64_C(1) << 63, out));
    REFUSED(bfv_secret_slots(ring, encoder, a, 5, NULL));
    REFUSED(bfv_secret_slots(ring, encoder, a, 5, shifted(out, 2)));
    REFUSED(bfv_secret_slots(ring, encoder, a, 5, a + POLY - 1));
    pk[2 * POLY - 1] = a[2 * POLY - 1] = chain[L - 1];
    memcpy(pool_before, pool, sizeof pool);
    CHECK(bfv_encrypt_many(ring, pk, encoder, values, 1, N, COUNT, rnd, need, 1, out, 1) == BFV_E_RESIDUE);
    CHECK(bfv_secret_encrypt_many(secret, a, encoder, values, 1, N, COUNT, rnd, few, 1, out, 1) ==
          BFV_E_RESIDUE);
    CHECK(bfv_secret_slots(ring, encoder, a + POLY, 5, out) == BFV_E_RESIDUE && unchanged());
    pk[2 * POLY - 1] = a[2 * POLY - 1] = 0;
    CHECK(bfv_encrypt_many(ring, pk, encoder, NULL, 1, 0, COUNT, rnd, need, 1, out, 1) == BFV_OK);
    CHECK(bfv_encrypt_many(ring, pk, coefficients, values, 1, N, COUNT, rnd, need, 1, out, 1) == BFV_OK);

    memcpy(pool_before, pool, sizeof pool);
    const uint8_t *const streams = (const uint8_t *)pool;
    size_t sizes[L] = {64, 32};
    uint32_t filled[L] = {0};
    for (size_t k = 0; k < 2; k++) {
        REFUSED(bfv_expand_planes(no_rings[k], streams, sizes, out, filled));
    }
    REFUSED(bfv_expand_planes(ring, NULL, sizes, out, filled));
    REFUSED(bfv_expand_planes(ring, streams, NULL, out, filled));
    REFUSED(bfv_expand_planes(ring, streams, shifted(sizes, 1), out, filled));
    REFUSED(bfv_expand_planes(ring, streams, sizes, NULL, filled));
    REFUSED(bfv_expand_planes(ring, streams, sizes, shifted(out, 1), filled));
    REFUSED(bfv_expand_planes(ring, streams, sizes, out, NULL));
    REFUSED(bfv_expand_planes(ring, streams, sizes, out, shifted(filled, 2)));
    REFUSED(bfv_expand_planes(ring, (const uint8_t *)out - 95, sizes, out, filled));
    REFUSED(bfv_expand_planes(ring, streams, sizes, out, out + POLY - 1));
    REFUSED(bfv_expand_planes(ring, (const uint8_t *)filled, sizes, out, filled));
    sizes[1] = 33;
    REFUSED(bfv_expand_planes(ring, streams, sizes, out, filled));
    sizes[1] = SIZE_MAX - 3;
    REFUSED(bfv_expand_planes(ring, streams, sizes, out, filled));
    sizes[1] = 0;
    CHECK(bfv_expand_planes(ring, streams, sizes, out, filled) == BFV_OK && filled[1] == 0);
    bfv_secret_close(secret);
    bfv_encoder_close(encoder);
    bfv_encoder_close(foreign);
    bfv_encoder_close(coefficients);
    bfv_ring_close(ring);
    bfv_ring_close(other);
}

void test_arguments_switching(void) {
    bfv_ring *ring = test_ring(N, chain, L, NULL);
    bfv_lifter *lifter = NULL;
    uint32_t nonsense[64] = {0};
    random_residues(ring, pool, 64);
    memcpy(pool_before, pool, sizeof pool);
    uint32_t *const x = pool, *const keys = pool + 4 * POLY, *const out = pool + 16 * POLY;
    double *const numbers = (double *)(void *)out;
    const bfv_ring *const no_rings[] = {NULL, (const bfv_ring *)(void *)nonsense};
    for (size_t k = 0; k < 2; k++) {
        REFUSED(bfv_switch_keys(no_rings[k], x, keys, out));
        REFUSED(bfv_fractions(no_rings[k], x, 1, numbers));
    }
    uint32_t *const bad[] = {NULL, shifted(x, 1), shifted(x, 2)};
    for (size_t k = 0; k < 3; k++) {
        REFUSED(bfv_switch_keys(ring, bad[k], keys, out));
        REFUSED(bfv_switch_keys(ring, x, bad[k], out));
        REFUSED(bfv_switch_keys(ring, x, keys, bad[k]));
        REFUSED(bfv_fractions(ring, bad[k], 1, numbers));
    }
    REFUSED(bfv_switch_keys(ring, out + 2 * POLY - 1, keys, out));
    REFUSED(bfv_switch_keys(ring, x, keys, keys + 2 * L * POLY - 1));
    REFUSED(bfv_fractions(ring, x, 1, NULL));
    REFUSED(bfv_fractions(ring, x, 1, shifted(numbers, 4)));
    REFUSED(bfv_fractions(ring, x, 1, (double *)(void *)x));
    for (size_t k = 0; k < IMPOSSIBLE; k++) {
        REFUSED(bfv_fractions(ring, x, impossible[k], numbers));
    }

    CHECK(bfv_lifter_open(ring, chain + L, K, &lifter) == BFV_OK);
    const uint64_t t[BFV_MAX_T_WORDS] = {5}, zero[1] = {0}, huge[] = {1, UINT64_MAX};
    const uint32_t *const a[] = {x, x}, *const b[] = {x, keys}, *const none[] = {x, NULL},
                          *const odd[] = {bad[1]};
    const uint32_t *const close[] = {x, out + 3 * POLY - 1};
    const bfv_lifter *const no_lifters[] = {NULL, (const bfv_lifter *)(void *)nonsense};
    for (size_t k = 0; k < 2; k++) {
        REFUSED(bfv_scaled_dot(no_lifters[k], t, 1, a, b, 2, out));
    }
    REFUSED(bfv_scaled_dot(lifter, NULL, 1, a, b, 2, out));
    REFUSED(bfv_scaled_dot(lifter, t, 0, a, b, 2, out));
    REFUSED(bfv_scaled_dot(lifter, t, BFV_MAX_T_WORDS + 1, a, b, 2, out));
    REFUSED(bfv_scaled_dot(lifter, zero, 1, a, b, 2, out));
    REFUSED(bfv_scaled_dot(lifter, huge, 2, a, b, 2, out));
    REFUSED(bfv_scaled_dot(lifter, t, 1, NULL, b, 2, out));
    REFUSED(bfv_scaled_dot(lifter, t, 1, a, NULL, 2, out));
    REFUSED(bfv_scaled_dot(lifter, t, 1, a, none, 2, out));
    REFUSED(bfv_scaled_dot(lifter, t, 1, odd, b, 1, out));
    REFUSED(bfv_scaled_dot(lifter, t, 1, a, close, 2, out));
    REFUSED(bfv_scaled_dot(lifter, t, 1, a, b, 0, out));
    REFUSED(bfv_scaled_dot(lifter, t, 1, a, b, 2, NULL));
    REFUSED(bfv_scaled_dot(lifter, t, 1, a, b, 2, shifted(out, 2)));
    CHECK(bfv_scaled_dot(lifter, t, 1, a, b, 2, out) == BFV_OK &&
          bfv_switch_keys(ring, x, keys, out) == BFV_OK && bfv_fractions(ring, x, 2, numbers) == BFV_OK);
    bfv_lifter_close(lifter);
    bfv_ring_close(ring);
}
