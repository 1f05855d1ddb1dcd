/* What rings, samplers, encoders and secret keys refuse: missing, foreign, misaligned, overlapping, empty and
 * huge arguments, each with its status and outputs unchanged. Backends: test_arguments.c. */
#include <limits.h>

#include "../../host_c/include/bfv_secret.h"
#include "test.h"

enum { N = 16, L = 2, POLY = L * N };

/* Operands in one piece of memory, so that they can be made to overlap. */
static uint32_t pool[16 * POLY], pool_before[16 * POLY];

static void *shifted(void *data, size_t bytes) {
    return (char *)data + bytes;
}

static void fill(const bfv_ring *ring) {
    random_residues(ring, pool, 16);
    memcpy(pool_before, pool, sizeof pool);
}

static bool unchanged(void) {
    return memcmp(pool, pool_before, sizeof pool) == 0;
}

#define REFUSED(call) CHECK((call) == BFV_E_ARGUMENT && unchanged())

void test_arguments_texts(void) {
    for (int status = BFV_E_LAST - 2; status <= 2; status++) {
        CHECK(bfv_status_text(status) != NULL && bfv_status_text(status)[0] != '\0');
    }
    CHECK(bfv_status_text(INT_MIN) != NULL && bfv_status_text(INT_MAX) != NULL);
    CHECK(bfv_body(0) != NULL && bfv_body(1000) == NULL && bfv_body(UINT32_MAX) == NULL);
    CHECK(bfv_crc32c(5, NULL, 0) == 5 && bfv_crc32c(5, NULL, SIZE_MAX) == 5 && bfv_crc32c(5, "", 0) == 5);
    CHECK(strcmp(bfv_backend_error(NULL), "") == 0);
    bfv_wipe(NULL, 0);
    bfv_wipe(NULL, SIZE_MAX);
    bfv_wipe(pool, 0);
    memset(pool, 7, sizeof pool);
    bfv_wipe(shifted(pool, 1), 2);
    CHECK(pool[0] == 0x07000007 && pool[1] == 0x07070707);
}

void test_arguments_ring(void) {
    bfv_ring *ring = test_ring(N, chain, L, NULL), *out = NULL;
    uint32_t few[L + 1];
    memcpy(few, chain, sizeof few);
    CHECK(bfv_ring_open(N, shifted(few, 1), 1, NULL, &out) == BFV_E_ARGUMENT && out == NULL);
    CHECK(bfv_ring_open(N, chain, UINT32_MAX, NULL, &out) == BFV_E_ARGUMENT && out == NULL);
    CHECK(bfv_ring_open(N, chain, L, "", &out) == BFV_E_UNSUPPORTED && out == NULL);
    CHECK(bfv_ring_open(N, chain, L, NULL, NULL) == BFV_E_ARGUMENT);

    uint32_t nonsense[64] = {0};
    bfv_ring *const strangers[] = {NULL, (bfv_ring *)(void *)nonsense};
    fill(ring);
    uint32_t *const a = pool, *const b = pool + 4 * POLY, *const c = pool + 8 * POLY;
    uint32_t *const poly_pointers[] = {NULL, shifted(a, 1), shifted(a, 2)};
    static const uint64_t impossible[] = {0, UINT64_MAX, UINT64_MAX / (4 * POLY) + 1, UINT64_C(1) << 57,
                                          UINT64_C(1) << 63};
    uint32_t s[L] = {1, 1};
    static int (*const in_place[])(const bfv_ring *, uint32_t *, uint64_t) = {bfv_ntt_forward,
                                                                              bfv_ntt_inverse};
    static int (*const binary[])(const bfv_ring *, const uint32_t *, const uint32_t *, uint64_t,
                                 uint32_t *) = {bfv_poly_add, bfv_poly_sub, bfv_poly_mul};
    for (size_t k = 0; k < 2; k++) {
        bfv_ring_close(strangers[k]);
        CHECK(bfv_ring_body(strangers[k]) == NULL && bfv_ring_root(strangers[k], 0) == 0);
        REFUSED(bfv_check_residues(strangers[k], a, 1));
        for (size_t f = 0; f < 2; f++) {
            REFUSED(in_place[f](strangers[k], a, 1));
        }
        for (size_t f = 0; f < 3; f++) {
            REFUSED(binary[f](strangers[k], a, b, 1, c));
        }
        REFUSED(bfv_poly_neg(strangers[k], a, 1, c));
        REFUSED(bfv_poly_mul_scalar(strangers[k], a, s, 1, c));
        REFUSED(bfv_from_int64(strangers[k], (const int64_t *)(void *)a, c));
    }
    CHECK(bfv_ring_root(ring, L) == 0 && bfv_ring_root(ring, UINT32_MAX) == 0);
    for (size_t k = 0; k < 3; k++) {
        uint32_t *bad = poly_pointers[k];
        REFUSED(bfv_check_residues(ring, bad, 1));
        for (size_t f = 0; f < 2; f++) {
            REFUSED(in_place[f](ring, bad, 1));
        }
        for (size_t f = 0; f < 3; f++) {
            REFUSED(binary[f](ring, bad, b, 1, c));
            REFUSED(binary[f](ring, b, bad, 1, c));
            REFUSED(binary[f](ring, b, c, 1, bad));
        }
        REFUSED(bfv_poly_neg(ring, bad, 1, c));
        REFUSED(bfv_poly_neg(ring, b, 1, bad));
        REFUSED(bfv_poly_mul_scalar(ring, bad, s, 1, c));
        REFUSED(bfv_poly_mul_scalar(ring, b, s, 1, bad));
        REFUSED(bfv_poly_mul_scalar(ring, b, bad, 1, c));
        REFUSED(bfv_from_int64(ring, (const int64_t *)(void *)b, bad));
        REFUSED(bfv_from_int64(ring, (const int64_t *)(void *)bad, c));
    }
    REFUSED(bfv_from_int64(ring, (const int64_t *)shifted(a, 4), c));
    for (size_t k = 0; k < sizeof impossible / sizeof impossible[0]; k++) {
        REFUSED(bfv_check_residues(ring, a, impossible[k]));
        for (size_t f = 0; f < 2; f++) {
            REFUSED(in_place[f](ring, a, impossible[k]));
        }
        for (size_t f = 0; f < 3; f++) {
            REFUSED(binary[f](ring, a, b, impossible[k], c));
        }
        REFUSED(bfv_poly_neg(ring, a, impossible[k], c));
        REFUSED(bfv_poly_mul_scalar(ring, a, s, impossible[k], c));
    }
    /* Partly in an input, from either side, by a word and by all but a word. */
    static const int steps[] = {1, -1, 2 * POLY - 1, 1 - 2 * POLY};
    for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
        uint32_t *near = b + steps[k];
        for (size_t f = 0; f < 3; f++) {
            REFUSED(binary[f](ring, b, c, 2, near));
            REFUSED(binary[f](ring, c + 2 * POLY, b, 2, near));
            REFUSED(binary[f](ring, b, near, 2, b));
        }
        REFUSED(bfv_poly_neg(ring, b, 2, near));
        REFUSED(bfv_poly_mul_scalar(ring, b, s, 2, near));
        REFUSED(bfv_from_int64(ring, (const int64_t *)(void *)b, b + (steps[k] < 0 ? -1 : 2 * N - 1)));
    }
    REFUSED(bfv_poly_mul_scalar(ring, b, c + 5, 1, c));
    s[1] = chain[1];
    CHECK(bfv_poly_mul_scalar(ring, b, s, 1, c) == BFV_E_RESIDUE && unchanged());
    int64_t values[N] = {0};
    values[N - 1] = INT64_C(1) << 62;
    REFUSED(bfv_from_int64(ring, values, c));
    values[N - 1] = INT64_MIN;
    REFUSED(bfv_from_int64(ring, values, c));
    /* In place, and beside each other without a gap. */
    CHECK(bfv_poly_add(ring, a, b, 2, a) == BFV_OK && bfv_poly_sub(ring, a, b, 2, b) == BFV_OK);
    CHECK(bfv_poly_mul(ring, b, b, 2, b) == BFV_OK && bfv_poly_neg(ring, b, 2, b + 2 * POLY) == BFV_OK);
    bfv_ring_close(ring);
}

void test_arguments_random(void) {
    bfv_ring *ring = test_ring(N, chain, L, NULL);
    fill(ring);
    uint8_t *const rnd = (uint8_t *)pool;
    uint32_t *const out = pool + 8 * POLY;
    int8_t *const small = (int8_t *)out;
    uint32_t filled = 3;
    REFUSED(bfv_expand_uniform(NULL, 0, rnd, 8, out, &filled));
    REFUSED(bfv_expand_uniform(ring, L, rnd, 8, out, &filled));
    REFUSED(bfv_expand_uniform(ring, 0, NULL, 8, out, &filled));
    REFUSED(bfv_expand_uniform(ring, 0, rnd, 7, out, &filled));
    REFUSED(bfv_expand_uniform(ring, 0, rnd, 8, NULL, &filled));
    REFUSED(bfv_expand_uniform(ring, 0, rnd, 8, shifted(out, 2), &filled));
    REFUSED(bfv_expand_uniform(ring, 0, rnd, 8, out, NULL));
    REFUSED(bfv_expand_uniform(ring, 0, rnd, 8, pool + 1, &filled));
    REFUSED(bfv_expand_uniform(ring, 0, (uint8_t *)(out + N - 1), 8, out, &filled));
    REFUSED(bfv_expand_uniform(ring, 0, rnd, 8, out, pool)); /* its value is huge */
    out[N - 1] = pool[1] = 2;
    memcpy(pool_before, pool, sizeof pool);
    REFUSED(bfv_expand_uniform(ring, 0, rnd, 8, out, out + N - 1));
    REFUSED(bfv_expand_uniform(ring, 0, rnd, 8, out, pool + 1));
    CHECK(filled == 3);
    filled = N + 1;
    REFUSED(bfv_expand_uniform(ring, 0, rnd, 8, out, &filled));
    CHECK(filled == N + 1);
    filled = N;
    CHECK(bfv_expand_uniform(ring, 0, NULL, 0, out, &filled) == BFV_OK && filled == N && unchanged());

    static const uint32_t dimensions[] = {0, 1, BFV_MAX_N + 1, UINT32_MAX};
    for (size_t k = 0; k < sizeof dimensions / sizeof dimensions[0]; k++) {
        REFUSED(bfv_sample_ternary(dimensions[k], rnd, 100, small));
        REFUSED(bfv_sample_error(dimensions[k], rnd, 100, small));
        CHECK(bfv_encrypt_bytes(dimensions[k], 2) == 0);
    }
    static const uint32_t parts[] = {0, 1, 4, UINT32_MAX};
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
        CHECK(bfv_encrypt_bytes(N, parts[k]) == 0);
    }
    /* Enough for any number that a caller could hand on. */
    CHECK(bfv_ternary_bytes(UINT32_MAX) > UINT32_MAX && bfv_error_bytes(UINT32_MAX) > UINT32_MAX);
    static int (*const samplers[])(uint32_t, const uint8_t *, size_t, int8_t *) = {bfv_sample_ternary,
                                                                                   bfv_sample_error};
    for (size_t f = 0; f < 2; f++) {
        REFUSED(samplers[f](N, NULL, 6 * N, small));
        REFUSED(samplers[f](N, rnd, 6 * N, NULL));
        REFUSED(samplers[f](N, rnd, 6 * N, (int8_t *)rnd));
        REFUSED(samplers[f](N, rnd, 6 * N, (int8_t *)rnd + 6 * N - 1));
        REFUSED(samplers[f](N, rnd + N, 6 * N, (int8_t *)rnd + 1));
        CHECK(samplers[f](N, rnd, 0, small) == BFV_E_RANDOM && unchanged());
        CHECK(samplers[f](N, rnd, N - 1, small) == BFV_E_RANDOM && unchanged());
    }
    bfv_ring_close(ring);
}

void test_arguments_encrypt(void) {
    bfv_ring *ring = test_ring(N, chain, L, NULL);
    fill(ring);
    uint32_t *const pk = pool, *const m = pool + 2 * POLY, *const out = pool + 3 * POLY;
    uint8_t rnd[1000] = {0}, *const inside = (uint8_t *)(pool + 8 * POLY);
    const size_t two = bfv_encrypt_bytes(N, 2), three = bfv_encrypt_bytes(N, 3);
    CHECK(two != 0 && three > two && three <= sizeof rnd);
    REFUSED(bfv_encrypt_public(NULL, pk, m, rnd, two, out));
    REFUSED(bfv_encrypt_public(ring, NULL, m, rnd, two, out));
    REFUSED(bfv_encrypt_public(ring, pk, m, NULL, two, out));
    REFUSED(bfv_encrypt_public(ring, pk, m, rnd, two, NULL));
    REFUSED(bfv_encrypt_public(ring, shifted(pk, 1), m, rnd, two, out));
    REFUSED(bfv_encrypt_public(ring, pk, shifted(m, 2), rnd, two, out));
    REFUSED(bfv_encrypt_public(ring, pk, m, rnd, two, shifted(out, 3)));
    REFUSED(bfv_encrypt_public(ring, pk, m, rnd, two, pk));
    REFUSED(bfv_encrypt_public(ring, pk, NULL, rnd, two, pk + 2 * POLY - 1));
    REFUSED(bfv_encrypt_public(ring, pk, m, rnd, two, m + POLY - 1));
    REFUSED(bfv_encrypt_public(ring, pk, m, rnd, two, m));
    REFUSED(bfv_encrypt_public(ring, pk, m, inside, two, pool + 6 * POLY + 1));
    REFUSED(bfv_encrypt_zero3(NULL, pk, rnd, three, out));
    REFUSED(bfv_encrypt_zero3(ring, NULL, rnd, three, out));
    REFUSED(bfv_encrypt_zero3(ring, pk, NULL, three, out));
    REFUSED(bfv_encrypt_zero3(ring, pk, rnd, three, NULL));
    REFUSED(bfv_encrypt_zero3(ring, pk, rnd, three, pk + POLY));
    REFUSED(bfv_encrypt_zero3(ring, pk, inside, three, pool + 5 * POLY + 1));
    CHECK(bfv_encrypt_public(ring, pk, m, rnd, two - 1, out) == BFV_E_RANDOM && unchanged());
    CHECK(bfv_encrypt_zero3(ring, pk, rnd, 0, out) == BFV_E_RANDOM && unchanged());
    memset(rnd, 255, bfv_ternary_bytes(N)); /* every ternary byte is to be rejected */
    CHECK(bfv_encrypt_public(ring, pk, m, rnd, two, out) == BFV_E_RANDOM && unchanged());
    CHECK(bfv_encrypt_zero3(ring, pk, rnd, three, out) == BFV_E_RANDOM && unchanged());
    memset(rnd, 0, sizeof rnd);
    pk[2 * POLY - 1] = chain[L - 1];
    memcpy(pool_before, pool, sizeof pool);
    CHECK(bfv_encrypt_public(ring, pk, m, rnd, two, out) == BFV_E_RESIDUE && unchanged());
    CHECK(bfv_encrypt_zero3(ring, pk, rnd, three, out) == BFV_E_RESIDUE && unchanged());
    pk[2 * POLY - 1] = 0;
    m[0] = UINT32_MAX;
    memcpy(pool_before, pool, sizeof pool);
    CHECK(bfv_encrypt_public(ring, pk, m, rnd, two, out) == BFV_E_RESIDUE && unchanged());
    CHECK(bfv_encrypt_public(ring, pk, NULL, rnd, two, out) == BFV_OK);
    bfv_ring_close(ring);
}

void test_arguments_encoder(void) {
    bfv_ring *ring = test_ring(N, chain, L, NULL);
    bfv_encoder *slots = NULL, *coefficients = NULL, *none = NULL;
    uint32_t nonsense[64] = {0};
    const uint32_t t_primes[] = {97, 193, chain[0], 97, 33, 0};
    const uint64_t t[BFV_MAX_T_WORDS] = {1000};
    CHECK(bfv_encoder_open_batched(NULL, t_primes, 1, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_batched((const bfv_ring *)(void *)nonsense, t_primes, 1, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_batched(ring, NULL, 1, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_batched(ring, shifted(nonsense, 1), 1, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_batched(ring, t_primes, 1, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_batched(ring, t_primes, 0, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_batched(ring, t_primes, BFV_MAX_T_PRIMES + 1, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_batched(ring, t_primes, UINT32_MAX, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_batched(ring, t_primes, 3, &none) == BFV_E_ARGUMENT);     /* a prime of q */
    CHECK(bfv_encoder_open_batched(ring, t_primes + 3, 2, &none) == BFV_E_ARGUMENT); /* 33 */
    CHECK(bfv_encoder_open_batched(ring, t_primes + 5, 1, &none) == BFV_E_ARGUMENT); /* 0 */
    const uint64_t zero[BFV_MAX_T_WORDS] = {0}, one[] = {1}, huge[] = {1, UINT64_MAX}, shared[] = {chain[1]};
    CHECK(bfv_encoder_open_coefficients(NULL, t, 1, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_coefficients(ring, NULL, 1, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_coefficients(ring, shifted(nonsense, 4), 1, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_coefficients(ring, t, 1, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_coefficients(ring, t, 0, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_coefficients(ring, t, BFV_MAX_T_WORDS + 1, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_coefficients(ring, t, UINT32_MAX, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_coefficients(ring, zero, BFV_MAX_T_WORDS, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_coefficients(ring, one, 1, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_encoder_open_coefficients(ring, huge, 2, &none) == BFV_E_ARGUMENT); /* above q */
    CHECK(bfv_encoder_open_coefficients(ring, shared, 1, &none) == BFV_E_ARGUMENT);
    CHECK(none == NULL);
    CHECK(bfv_encoder_open_batched(ring, t_primes, 2, &slots) == BFV_OK);
    CHECK(bfv_encoder_open_coefficients(ring, t, BFV_MAX_T_WORDS, &coefficients) == BFV_OK);

    fill(ring);
    uint64_t *const values = (uint64_t *)(void *)pool;
    uint32_t *const out = pool + 8 * POLY;
    for (size_t k = 0; k < 2; k++) {
        const bfv_encoder *encoder = k == 0 ? slots : coefficients;
        REFUSED(bfv_encode(encoder, NULL, 1, 1, out));
        REFUSED(bfv_encode(encoder, values, 0, 1, out));
        REFUSED(bfv_encode(encoder, values, BFV_MAX_T_WORDS + 1, 1, out));
        REFUSED(bfv_encode(encoder, values, UINT32_MAX, 1, out));
        REFUSED(bfv_encode(encoder, values, 1, N + 1, out));
        REFUSED(bfv_encode(encoder, values, 1, UINT32_MAX, out));
        REFUSED(bfv_encode(encoder, values, 1, 1, NULL));
        REFUSED(bfv_encode(encoder, values, 1, 1, shifted(out, 1)));
        REFUSED(bfv_encode(encoder, shifted(values, 4), 1, 1, out));
        REFUSED(bfv_encode(encoder, values, 1, N, pool));
        REFUSED(bfv_encode(encoder, values, 1, N, pool + 2 * N - 1));
        REFUSED(bfv_encode(encoder, (const uint64_t *)(void *)(out + POLY - 2), 1, 1, out));
    }
    bfv_encoder *const strangers[] = {NULL, (bfv_encoder *)(void *)nonsense, (bfv_encoder *)(void *)ring};
    for (size_t k = 0; k < 3; k++) {
        REFUSED(bfv_encode(strangers[k], values, 1, 1, out));
        REFUSED(bfv_decode_slots(strangers[k], values, 1, out));
        bfv_encoder_close(strangers[k]);
    }
    CHECK(strcmp(bfv_ring_body(ring), bfv_body(0)) == 0); /* it was not closed as an encoder */
    memset(pool, 0, sizeof pool);
    memcpy(pool_before, pool, sizeof pool);
    REFUSED(bfv_decode_slots(coefficients, values, 1, out));
    REFUSED(bfv_decode_slots(slots, NULL, 1, out));
    REFUSED(bfv_decode_slots(slots, shifted(values, 4), 1, out));
    REFUSED(bfv_decode_slots(slots, values, 0, out));
    REFUSED(bfv_decode_slots(slots, values, BFV_MAX_T_WORDS + 1, out));
    REFUSED(bfv_decode_slots(slots, values, 1, NULL));
    REFUSED(bfv_decode_slots(slots, values, 1, shifted(out, 2)));
    REFUSED(bfv_decode_slots(slots, values, 1, pool + 1));
    values[N - 1] = 97 * 193;
    memcpy(pool_before, pool, sizeof pool);
    REFUSED(bfv_decode_slots(slots, values, 1, out));
    CHECK(bfv_encode(slots, NULL, 1, 0, out) == BFV_OK); /* nothing: all zero */
    bfv_encoder_close(slots);
    bfv_encoder_close(coefficients);
    bfv_ring_close(ring);
}

void test_arguments_secret(void) {
    bfv_ring *ring = test_ring(N, chain, L, NULL);
    bfv_secret *secret = NULL;
    int8_t key[N] = {1, -1, 0, 1}, e[N] = {21, -21};
    uint32_t nonsense[64] = {0};
    CHECK(bfv_secret_open(NULL, key, &secret) == BFV_E_ARGUMENT);
    CHECK(bfv_secret_open((const bfv_ring *)(void *)nonsense, key, &secret) == BFV_E_ARGUMENT);
    CHECK(bfv_secret_open(ring, NULL, &secret) == BFV_E_ARGUMENT);
    CHECK(bfv_secret_open(ring, key, NULL) == BFV_E_ARGUMENT);
    static const int8_t wrong[] = {2, -2, 127, -128};
    for (size_t k = 0; k < sizeof wrong; k++) {
        key[N - 1] = wrong[k];
        CHECK(bfv_secret_open(ring, key, &secret) == BFV_E_ARGUMENT && secret == NULL);
    }
    key[N - 1] = 0;
    CHECK(bfv_secret_open(ring, key, &secret) == BFV_OK);

    fill(ring);
    uint32_t *const a = pool, *const m = pool + 3 * POLY, *const out = pool + 4 * POLY;
    uint8_t rnd[6 * N] = {0};
    bfv_secret *const strangers[] = {NULL, (bfv_secret *)(void *)nonsense, (bfv_secret *)(void *)ring};
    for (size_t k = 0; k < 3; k++) {
        REFUSED(bfv_secret_public(strangers[k], a, e, out));
        REFUSED(bfv_secret_encrypt(strangers[k], a, m, rnd, sizeof rnd, out));
        REFUSED(bfv_secret_phase(strangers[k], a, 2, out));
        bfv_secret_close(strangers[k]);
    }
    REFUSED(bfv_secret_public(secret, NULL, e, out));
    REFUSED(bfv_secret_public(secret, shifted(a, 1), e, out));
    REFUSED(bfv_secret_public(secret, a, NULL, out));
    REFUSED(bfv_secret_public(secret, a, e, NULL));
    REFUSED(bfv_secret_public(secret, a, e, shifted(out, 2)));
    REFUSED(bfv_secret_public(secret, a, e, a));
    REFUSED(bfv_secret_public(secret, a, e, a + POLY - 1));
    REFUSED(bfv_secret_public(secret, a, (const int8_t *)(out + 3), out));
    static const int8_t large[] = {22, -22, 127, -128};
    for (size_t k = 0; k < sizeof large; k++) {
        e[N - 1] = large[k];
        REFUSED(bfv_secret_public(secret, a, e, out));
    }
    e[N - 1] = 0;
    REFUSED(bfv_secret_encrypt(secret, NULL, m, rnd, sizeof rnd, out));
    REFUSED(bfv_secret_encrypt(secret, shifted(a, 2), m, rnd, sizeof rnd, out));
    REFUSED(bfv_secret_encrypt(secret, a, shifted(m, 2), rnd, sizeof rnd, out));
    REFUSED(bfv_secret_encrypt(secret, a, m, NULL, sizeof rnd, out));
    REFUSED(bfv_secret_encrypt(secret, a, m, rnd, sizeof rnd, NULL));
    REFUSED(bfv_secret_encrypt(secret, a, m, rnd, sizeof rnd, shifted(out, 1)));
    REFUSED(bfv_secret_encrypt(secret, a, m, rnd, sizeof rnd, a));
    REFUSED(bfv_secret_encrypt(secret, a, m, rnd, sizeof rnd, m + 1));
    REFUSED(bfv_secret_encrypt(secret, a, m, (const uint8_t *)(out + 1), 6 * N, out));
    CHECK(bfv_secret_encrypt(secret, a, m, rnd, sizeof rnd - 1, out) == BFV_E_RANDOM && unchanged());
    static const uint32_t parts[] = {0, 1, 4, UINT32_MAX};
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
        REFUSED(bfv_secret_phase(secret, a, parts[k], out));
    }
    REFUSED(bfv_secret_phase(secret, NULL, 2, out));
    REFUSED(bfv_secret_phase(secret, shifted(a, 1), 2, out));
    REFUSED(bfv_secret_phase(secret, a, 2, NULL));
    REFUSED(bfv_secret_phase(secret, a, 2, shifted(out, 1)));
    REFUSED(bfv_secret_phase(secret, a, 3, a + 2 * POLY + 1));
    REFUSED(bfv_secret_phase(secret, a, 2, a));
    a[2 * POLY - 1] = chain[L - 1];
    m[POLY - 1] = UINT32_MAX;
    memcpy(pool_before, pool, sizeof pool);
    CHECK(bfv_secret_phase(secret, a, 2, out) == BFV_E_RESIDUE && unchanged());
    CHECK(bfv_secret_public(secret, a + POLY, e, out) == BFV_E_RESIDUE && unchanged());
    CHECK(bfv_secret_encrypt(secret, a, m, rnd, sizeof rnd, out) == BFV_E_RESIDUE && unchanged());
    CHECK(bfv_secret_encrypt(secret, a, NULL, rnd, sizeof rnd, out) == BFV_OK);
    bfv_secret_close(secret);

    fill(ring);
    const uint64_t t[BFV_MAX_T_WORDS] = {1000}, one[] = {1}, huge[] = {1, UINT64_MAX};
    uint64_t *const rounded = (uint64_t *)(void *)out;
    REFUSED(bfv_secret_round(NULL, a, t, 1, 0, N, 5, rounded));
    REFUSED(bfv_secret_round((const bfv_ring *)(void *)nonsense, a, t, 1, 0, N, 5, rounded));
    REFUSED(bfv_secret_round(ring, NULL, t, 1, 0, N, 5, rounded));
    REFUSED(bfv_secret_round(ring, shifted(a, 2), t, 1, 0, N, 5, rounded));
    REFUSED(bfv_secret_round(ring, a, NULL, 1, 0, N, 5, rounded));
    REFUSED(bfv_secret_round(ring, a, shifted(nonsense, 4), 1, 0, N, 5, rounded));
    REFUSED(bfv_secret_round(ring, a, t, 0, 0, N, 5, rounded));
    REFUSED(bfv_secret_round(ring, a, t, BFV_MAX_T_WORDS + 1, 0, N, 5, rounded));
    REFUSED(bfv_secret_round(ring, a, t, 1, N + 1, 0, 5, rounded));
    REFUSED(bfv_secret_round(ring, a, t, 1, 1, N, 5, rounded));
    REFUSED(bfv_secret_round(ring, a, t, 1, 2, UINT32_MAX, 5, rounded));
    REFUSED(bfv_secret_round(ring, a, t, 1, UINT32_MAX, 2, 5, rounded));
    REFUSED(bfv_secret_round(ring, a, t, 1, 0, N, UINT64_C(1) << 63, rounded));
    REFUSED(bfv_secret_round(ring, a, t, 1, 0, N, 5, NULL));
    REFUSED(bfv_secret_round(ring, a, t, 1, 0, N, 5, shifted(rounded, 4)));
    REFUSED(bfv_secret_round(ring, a, t, 1, 0, N, 5, (uint64_t *)(void *)a));
    REFUSED(bfv_secret_round(ring, a, rounded + 1, 1, 0, N, 5, rounded));
    REFUSED(bfv_secret_round(ring, a, one, 1, 0, N, 5, rounded));
    REFUSED(bfv_secret_round(ring, a, huge, 2, 0, N, 5, rounded));
    CHECK(bfv_secret_round(ring, a, t, 1, N, 0, 5, rounded) == BFV_OK && unchanged());
    a[POLY - 1] = chain[L - 1];
    memcpy(pool_before, pool, sizeof pool);
    CHECK(bfv_secret_round(ring, a, t, 1, 0, N, 5, rounded) == BFV_E_RESIDUE && unchanged());
    bfv_ring_close(ring);
}
