/* What lifters refuse: missing, foreign, misaligned, overlapping, empty and huge arguments; outputs
 * unchanged. */
#include "test.h"

enum { N = 16, L = 2, K = 3, POLY = (L + K) * N };

static uint64_t pool[8 * POLY], pool_before[8 * POLY];

static void *shifted(void *data, size_t bytes) {
    return (char *)data + bytes;
}

#define REFUSED(call) CHECK((call) == BFV_E_ARGUMENT && memcmp(pool, pool_before, sizeof pool) == 0)

static const uint64_t impossible[] = {0, UINT64_MAX, UINT64_MAX / (4 * POLY) + 1, UINT64_C(1) << 57,
                                      UINT64_C(1) << 63};

void test_arguments_lift(void) {
    bfv_ring *ring = test_ring(N, chain, L, NULL);
    bfv_lifter *lifter = NULL, *none = NULL;
    uint32_t nonsense[64] = {0};
    const uint32_t *wide = chain + L;
    const uint32_t many[BFV_MAX_PRIMES] = {chain[L]};
    CHECK(bfv_lifter_open(NULL, wide, K, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter_open((const bfv_ring *)(void *)nonsense, wide, K, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter_open(ring, NULL, K, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter_open(ring, shifted(nonsense, 1), K, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter_open(ring, wide, K, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter_open(ring, wide, 0, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter_open(ring, many, BFV_MAX_PRIMES, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter_open(ring, many, UINT32_MAX, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter_open(ring, chain, 1, &none) == BFV_E_ARGUMENT); /* a prime of the ring */
    CHECK(bfv_lifter_open(ring, nonsense, 1, &none) == BFV_E_ARGUMENT && none == NULL);
    CHECK(bfv_lifter_open(ring, wide, K, &lifter) == BFV_OK);

    memset(pool, 0, sizeof pool);
    memset(pool_before, 0, sizeof pool);
    uint32_t *const x = (uint32_t *)(void *)pool, *const out = x + 2 * POLY;
    const uint64_t t[BFV_MAX_T_WORDS] = {5}, zero[BFV_MAX_T_WORDS] = {0}, huge[] = {1, UINT64_MAX};
    bfv_lifter *const strangers[] = {NULL, (bfv_lifter *)(void *)nonsense};
    for (size_t k = 0; k < 2; k++) {
        REFUSED(bfv_lift(strangers[k], x, 1, out));
        REFUSED(bfv_scale_round(strangers[k], t, 1, x, 1, out));
        bfv_lifter_close(strangers[k]);
    }
    uint32_t *const bad[] = {NULL, shifted(x, 1), shifted(x, 2)};
    for (size_t k = 0; k < 3; k++) {
        REFUSED(bfv_lift(lifter, bad[k], 1, out));
        REFUSED(bfv_lift(lifter, out, 1, bad[k]));
        REFUSED(bfv_scale_round(lifter, t, 1, bad[k], 1, out));
        REFUSED(bfv_scale_round(lifter, t, 1, out, 1, bad[k]));
    }
    for (size_t k = 0; k < sizeof impossible / sizeof impossible[0]; k++) {
        REFUSED(bfv_lift(lifter, x, impossible[k], out));
        REFUSED(bfv_scale_round(lifter, t, 1, x, impossible[k], out));
    }
    REFUSED(bfv_lift(lifter, x, 1, x));
    REFUSED(bfv_lift(lifter, x, 2, x + 2 * L * N - 1));
    REFUSED(bfv_lift(lifter, x + K * N - 1, 1, x));
    REFUSED(bfv_scale_round(lifter, t, 1, x, 1, x));
    REFUSED(bfv_scale_round(lifter, t, 1, x, 1, x + POLY - 1));
    REFUSED(bfv_scale_round(lifter, NULL, 1, x, 1, out));
    REFUSED(bfv_scale_round(lifter, t, 0, x, 1, out));
    REFUSED(bfv_scale_round(lifter, t, BFV_MAX_T_WORDS + 1, x, 1, out));
    REFUSED(bfv_scale_round(lifter, t, UINT32_MAX, x, 1, out));
    REFUSED(bfv_scale_round(lifter, zero, BFV_MAX_T_WORDS, x, 1, out));
    REFUSED(bfv_scale_round(lifter, huge, 2, x, 1, out));
    CHECK(bfv_lift(lifter, x, 1, x + L * N) == BFV_OK && bfv_scale_round(lifter, t, 1, x, 1, out) == BFV_OK);
    bfv_lifter_close(lifter);
    bfv_ring_close(ring);
}

void test_arguments_lift64(void) {
    bfv_lifter64 *lifter = NULL, *none = NULL;
    uint64_t nonsense[64] = {0};
    const uint64_t moduli[L] = {(UINT64_C(1) << 60) - 1, 1000003};
    CHECK(bfv_lifter64_open(N, NULL, L, chain, K, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, moduli, L, NULL, K, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, shifted(nonsense, 4), L, chain, K, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, moduli, L, shifted(nonsense, 2), K, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, moduli, L, chain, K, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(0, moduli, L, chain, K, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(UINT32_MAX, moduli, L, chain, K, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, moduli, 0, chain, K, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, moduli, BFV_MAX_64_PRIMES + 1, chain, K, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, moduli, UINT32_MAX, chain, K, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, moduli, L, chain, 0, &none) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, moduli, L, chain, BFV_MAX_PRIMES + 1, &none) == BFV_E_ARGUMENT);
    static const uint64_t wrong[] = {0, 1, 2, 1000003, UINT64_C(1) << 61, UINT64_MAX, 3000009};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        const uint64_t both[L] = {1000003, wrong[k]};
        CHECK(bfv_lifter64_open(N, both, L, chain, K, &none) == BFV_E_ARGUMENT);
    }
    const uint64_t shared[] = {3 * (uint64_t)chain[0]};
    CHECK(bfv_lifter64_open(N, shared, 1, chain, K, &none) == BFV_E_ARGUMENT && none == NULL);
    CHECK(bfv_lifter64_open(N, moduli, L, chain, K, &lifter) == BFV_OK);

    memset(pool, 0, sizeof pool);
    memset(pool_before, 0, sizeof pool);
    uint64_t *const low = pool;
    uint32_t *const wide = (uint32_t *)(void *)(pool + 2 * POLY);
    const uint64_t t[BFV_MAX_T_WORDS] = {5}, zero[BFV_MAX_T_WORDS] = {0};
    bfv_lifter64 *const strangers[] = {NULL, (bfv_lifter64 *)(void *)nonsense};
    for (size_t k = 0; k < 2; k++) {
        REFUSED(bfv_lift64(strangers[k], low, 1, wide));
        REFUSED(bfv_reduce64(strangers[k], wide, 1, low));
        REFUSED(bfv_scale_round64(strangers[k], t, 1, wide, 1, low));
        bfv_lifter64_close(strangers[k]);
    }
    uint64_t *const bad_low[] = {NULL, shifted(low, 4), shifted(low, 1)};
    uint32_t *const bad_wide[] = {NULL, shifted(wide, 2), shifted(wide, 1)};
    for (size_t k = 0; k < 3; k++) {
        REFUSED(bfv_lift64(lifter, bad_low[k], 1, wide));
        REFUSED(bfv_lift64(lifter, low, 1, bad_wide[k]));
        REFUSED(bfv_reduce64(lifter, bad_wide[k], 1, low));
        REFUSED(bfv_reduce64(lifter, wide, 1, bad_low[k]));
        REFUSED(bfv_scale_round64(lifter, t, 1, bad_wide[k], 1, low));
        REFUSED(bfv_scale_round64(lifter, t, 1, wide, 1, bad_low[k]));
    }
    for (size_t k = 0; k < sizeof impossible / sizeof impossible[0]; k++) {
        REFUSED(bfv_lift64(lifter, low, impossible[k], wide));
        REFUSED(bfv_reduce64(lifter, wide, impossible[k], low));
        REFUSED(bfv_scale_round64(lifter, t, 1, wide, impossible[k], low));
    }
    uint32_t *const inside = (uint32_t *)(void *)(low + L * N - 1);
    REFUSED(bfv_lift64(lifter, low, 1, inside));
    REFUSED(bfv_reduce64(lifter, inside, 1, low));
    REFUSED(bfv_scale_round64(lifter, t, 1, inside, 1, low));
    REFUSED(bfv_scale_round64(lifter, NULL, 1, wide, 1, low));
    REFUSED(bfv_scale_round64(lifter, t, 0, wide, 1, low));
    REFUSED(bfv_scale_round64(lifter, t, BFV_MAX_T_WORDS + 1, wide, 1, low));
    REFUSED(bfv_scale_round64(lifter, zero, BFV_MAX_T_WORDS, wide, 1, low));
    low[L * N - 1] = moduli[L - 1];
    memcpy(pool_before, pool, sizeof pool);
    CHECK(bfv_lift64(lifter, low, 1, wide) == BFV_E_RESIDUE && memcmp(pool, pool_before, sizeof pool) == 0);
    bfv_lifter64_close(lifter);
}
