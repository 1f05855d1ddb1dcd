/* The transforms against their definitions, and the bodies against the portable one. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"

static uint32_t reversed(uint32_t x, uint32_t bits) {
    uint32_t y = 0;
    for (uint32_t i = 0; i < bits; i++) {
        y = y << 1 | ((x >> i) & 1);
    }
    return y;
}

/* Smallest primes = 1 mod 2N for toy N, and some of the chain (any N). */
static const struct {
    uint32_t n, p;
} toys[] = {{2, 5},    {2, 17},   {4, 17},        {8, 17},         {16, 97},        {16, 193},
            {32, 193}, {64, 257}, {64, 66813953}, {32, 268369921}, {64, 1073692673}};

enum { TOYS = sizeof toys / sizeof toys[0] };

/* X[i] = sum_k a_k psi^((2 brv(i) + 1) k), term by term. */
void test_ntt_definition(void) {
    for (uint32_t b = 0; bfv_body(b) != NULL; b++) {
        for (size_t t = 0; t < TOYS; t++) {
            const uint32_t n = toys[t].n, p = toys[t].p;
            bfv_ring *ring = test_ring(n, &p, 1, bfv_body(b));
            const struct zq_mod *mod = &ring->prime[0].mod;
            const uint32_t psi = bfv_ring_root(ring, 0);
            uint32_t a[64], x[64], bad = 0;

            /* psi is a primitive 2N-th root, and no smaller number is one. */
            CHECK(zq_pow(psi, n, mod) == p - 1);
            for (uint32_t g = 1; g < psi && g < 1000; g++) {
                bad += zq_pow(g, n, mod) == p - 1;
            }
            random_residues(ring, a, 1);
            memcpy(x, a, n * sizeof *a);
            CHECK(bfv_ntt_forward(ring, x, 1) == BFV_OK);
            for (uint32_t i = 0; i < n; i++) {
                const uint32_t point = zq_pow(psi, 2 * reversed(i, ring->log_n) + 1, mod);
                uint64_t value = 0;
                for (uint32_t k = n; k-- > 0;) {
                    value = (value * point + a[k]) % p;
                }
                bad += x[i] != value;
            }
            CHECK(bad == 0);
            bfv_ring_close(ring);
        }
    }
}

void test_ntt_schoolbook(void) {
    for (size_t t = 0; t < TOYS; t++) {
        const uint32_t n = toys[t].n, p = toys[t].p;
        bfv_ring *ring = test_ring(n, &p, 1, NULL);
        for (uint32_t round = 0; round < 4; round++) {
            uint32_t a[64], b[64], c[64] = {0};
            random_residues(ring, a, 1);
            random_residues(ring, b, 1);
            if (round == 0) {
                for (uint32_t k = 0; k < n; k++) {
                    a[k] = b[k] = p - 1;
                }
            }
            for (uint32_t i = 0; i < n; i++) {
                for (uint32_t k = 0; k < n; k++) {
                    const uint32_t product = (uint32_t)((uint64_t)a[i] * b[k] % p);
                    const uint32_t at = (i + k) % n;
                    c[at] = (uint32_t)(((uint64_t)c[at] + (i + k < n ? product : p - product)) % p);
                }
            }
            CHECK(bfv_ntt_forward(ring, a, 1) == BFV_OK);
            CHECK(bfv_ntt_forward(ring, b, 1) == BFV_OK);
            CHECK(bfv_poly_mul(ring, a, b, 1, a) == BFV_OK);
            CHECK(bfv_ntt_inverse(ring, a, 1) == BFV_OK);
            CHECK(memcmp(a, c, n * sizeof *a) == 0);
        }
        bfv_ring_close(ring);
    }
}

static void fill(const bfv_ring *ring, uint32_t *x, uint32_t round) {
    random_residues(ring, x, 1);
    if (round == 0) {
        for (uint32_t i = 0; i < ring->count; i++) {
            for (uint32_t k = 0; k < ring->n; k++) {
                x[(size_t)i * ring->n + k] = ring->prime[i].p - 1;
            }
        }
    }
}

/* Every body, all primes of the chain: equal to the portable one and back again. */
void test_ntt_round_trip(void) {
    for (uint32_t n = 2; n <= BFV_MAX_N; n *= 2) {
        bfv_ring *oracle = test_ring(n, chain, CHAIN, "portable");
        const size_t words = ring_poly_words(oracle);
        uint32_t *a = test_words(words), *x = test_words(words), *y = test_words(words);
        for (uint32_t b = 0; bfv_body(b) != NULL; b++) {
            bfv_ring *ring = test_ring(n, chain, CHAIN, bfv_body(b));
            for (uint32_t round = 0; round < 2; round++) {
                fill(ring, a, round);
                memcpy(x, a, words * sizeof *a);
                memcpy(y, a, words * sizeof *a);
                CHECK(bfv_ntt_forward(ring, x, 1) == BFV_OK);
                CHECK(bfv_ntt_forward(oracle, y, 1) == BFV_OK);
                CHECK(memcmp(x, y, words * sizeof *a) == 0);
                CHECK(bfv_check_residues(ring, x, 1) == BFV_OK);
                CHECK(bfv_ntt_inverse(ring, x, 1) == BFV_OK);
                CHECK(memcmp(x, a, words * sizeof *a) == 0);
                /* The inverse of anything, too. */
                memcpy(x, a, words * sizeof *a);
                memcpy(y, a, words * sizeof *a);
                CHECK(bfv_ntt_inverse(ring, x, 1) == BFV_OK);
                CHECK(bfv_ntt_inverse(oracle, y, 1) == BFV_OK);
                CHECK(memcmp(x, y, words * sizeof *a) == 0);
            }
            bfv_ring_close(ring);
        }
        free(a);
        free(x);
        free(y);
        bfv_ring_close(oracle);
    }
}

void test_ring_refuses(void) {
    static const struct {
        uint32_t n, count;
        uint32_t primes[3];
        int status;
    } cases[] = {
        {1, 1, {17}, BFV_E_ARGUMENT},
        {0, 1, {17}, BFV_E_ARGUMENT},
        {3, 1, {7}, BFV_E_ARGUMENT},
        {1000, 1, {67043329}, BFV_E_ARGUMENT},
        {32768, 1, {67043329}, BFV_E_ARGUMENT},
        {UINT32_C(1) << 31, 1, {67043329}, BFV_E_ARGUMENT},
        {8, 0, {17}, BFV_E_ARGUMENT},
        {8, BFV_MAX_PRIMES + 1, {17}, BFV_E_ARGUMENT},
        {8, 2, {17, 17}, BFV_E_ARGUMENT},
        {8, 1, {19}, BFV_E_ARGUMENT}, /* not 1 mod 16 */
        {8, 1, {33}, BFV_E_ARGUMENT}, /* 1 mod 16, not prime */
        {8, 1, {0}, BFV_E_ARGUMENT},
        {8, 1, {1}, BFV_E_ARGUMENT},          /* 1 mod 16, no modulus */
        {2, 1, {561}, BFV_E_ARGUMENT},        /* a Carmichael number */
        {2, 1, {25326001}, BFV_E_ARGUMENT},   /* a strong pseudoprime to 2, 3 and 5 */
        {8, 1, {2013265921}, BFV_E_ARGUMENT}, /* a prime above 2^30 */
        {8, 1, {UINT32_C(4293918721)}, BFV_E_ARGUMENT},
        {8, 2, {17, 97}, BFV_OK},
        {16384, 1, {67043329}, BFV_OK},
        {8, 1, {1073692673}, BFV_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t primes[BFV_MAX_PRIMES + 1];
        for (uint32_t k = 0; k <= BFV_MAX_PRIMES; k++) {
            primes[k] = k < 3 ? cases[i].primes[k] : chain[k % CHAIN];
        }
        bfv_ring *ring = NULL;
        CHECK(bfv_ring_open(cases[i].n, primes, cases[i].count, NULL, &ring) == cases[i].status);
        CHECK((ring != NULL) == (cases[i].status == BFV_OK));
        bfv_ring_close(ring);
    }
    bfv_ring *ring = NULL;
    CHECK(bfv_ring_open(8, NULL, 1, NULL, &ring) == BFV_E_ARGUMENT && ring == NULL);
    CHECK(bfv_ring_open(8, chain, 1, NULL, NULL) == BFV_E_ARGUMENT);
    bfv_ring_close(NULL);
    CHECK(bfv_ring_body(NULL) == NULL && bfv_ring_root(NULL, 0) == 0);

    ring = test_ring(8, chain, 2, NULL);
    CHECK(bfv_ring_root(ring, 1) != 0 && bfv_ring_root(ring, 2) == 0);
    uint32_t x[16] = {1}, y[16], s[2] = {1, 1};
    CHECK(bfv_ntt_forward(NULL, x, 1) == BFV_E_ARGUMENT);
    CHECK(bfv_ntt_forward(ring, NULL, 1) == BFV_E_ARGUMENT);
    CHECK(bfv_ntt_forward(ring, x, 0) == BFV_E_ARGUMENT);
    CHECK(bfv_ntt_forward(ring, x, UINT64_MAX) == BFV_E_ARGUMENT);
    CHECK(bfv_ntt_inverse(ring, x, UINT64_C(1) << 57) == BFV_E_ARGUMENT);
    CHECK(bfv_check_residues(ring, NULL, 1) == BFV_E_ARGUMENT);
    CHECK(bfv_poly_add(ring, x, NULL, 1, y) == BFV_E_ARGUMENT);
    CHECK(bfv_poly_sub(ring, NULL, x, 1, y) == BFV_E_ARGUMENT);
    CHECK(bfv_poly_neg(ring, x, 1, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_poly_mul(ring, x, x, 0, y) == BFV_E_ARGUMENT);
    CHECK(bfv_poly_mul_scalar(ring, x, NULL, 1, y) == BFV_E_ARGUMENT);
    s[1] = chain[1];
    CHECK(bfv_poly_mul_scalar(ring, x, s, 1, y) == BFV_E_RESIDUE);
    CHECK(x[0] == 1);
    bfv_ring_close(ring);
}

void test_bodies_agree(void) {
    /* Widths below, at and above every vector length. */
    static const uint32_t sizes[] = {2, 4, 8, 16, 32, 64, 1024};
    for (size_t t = 0; t < sizeof sizes / sizeof sizes[0]; t++) {
        bfv_ring *oracle = test_ring(sizes[t], chain, CHAIN, "portable");
        const size_t words = 3 * ring_poly_words(oracle), bytes = words * sizeof(uint32_t);
        uint32_t *a = test_words(words), *b = test_words(words);
        uint32_t *x = test_words(words), *y = test_words(words), s[CHAIN];
        for (uint32_t k = 0; k < CHAIN; k++) {
            s[k] = k == 0 ? chain[k] - 1 : (uint32_t)(random_runs() % chain[k]);
        }
        for (uint32_t body = 0; bfv_body(body) != NULL; body++) {
            bfv_ring *ring = test_ring(sizes[t], chain, CHAIN, bfv_body(body));
            random_residues(ring, a, 3);
            random_residues(ring, b, 3);
            CHECK(bfv_poly_add(ring, a, b, 3, x) == BFV_OK);
            CHECK(bfv_poly_add(oracle, a, b, 3, y) == BFV_OK);
            CHECK(memcmp(x, y, bytes) == 0);
            CHECK(bfv_poly_sub(ring, a, b, 3, x) == BFV_OK);
            CHECK(bfv_poly_sub(oracle, a, b, 3, y) == BFV_OK);
            CHECK(memcmp(x, y, bytes) == 0);
            CHECK(bfv_poly_neg(ring, a, 3, x) == BFV_OK);
            CHECK(bfv_poly_neg(oracle, a, 3, y) == BFV_OK);
            CHECK(memcmp(x, y, bytes) == 0);
            CHECK(bfv_poly_mul(ring, a, b, 3, x) == BFV_OK);
            CHECK(bfv_poly_mul(oracle, a, b, 3, y) == BFV_OK);
            CHECK(memcmp(x, y, bytes) == 0);
            CHECK(bfv_poly_mul_scalar(ring, a, s, 3, x) == BFV_OK);
            CHECK(bfv_poly_mul_scalar(oracle, a, s, 3, y) == BFV_OK);
            CHECK(memcmp(x, y, bytes) == 0);
            uint32_t bad = 0;
            for (size_t k = 0; k < words; k++) { /* the oracle itself, against division */
                const uint32_t i = (uint32_t)(k / sizes[t]) % CHAIN;
                bad += y[k] != (uint64_t)a[k] * s[i] % chain[i];
            }
            CHECK(bad == 0);
            /* In place. */
            memcpy(x, a, bytes);
            CHECK(bfv_poly_mul(oracle, a, b, 3, y) == BFV_OK);
            CHECK(bfv_poly_mul(ring, x, b, 3, x) == BFV_OK);
            CHECK(memcmp(x, y, bytes) == 0);
            /* Every single bad residue is seen. */
            for (size_t k = 0; k < words; k += words / 61 + 1) {
                const uint32_t p = chain[(k / sizes[t]) % CHAIN], kept = a[k];
                a[k] = k % 2 == 0 ? p : UINT32_MAX;
                CHECK(bfv_check_residues(ring, a, 3) == BFV_E_RESIDUE);
                a[k] = kept;
            }
            CHECK(bfv_check_residues(ring, a, 3) == BFV_OK);
            bfv_ring_close(ring);
        }
        bfv_ring_close(oracle);
        free(a);
        free(b);
        free(x);
        free(y);
    }
}

void test_bodies_by_name(void) {
    uint32_t count = 0;
    while (bfv_body(count) != NULL) {
        bfv_ring *ring = test_ring(8, chain, 1, bfv_body(count));
        CHECK(strcmp(bfv_ring_body(ring), bfv_body(count)) == 0);
        bfv_ring_close(ring);
        count++;
    }
    CHECK(count >= 1 && strcmp(bfv_body(count - 1), "portable") == 0);
    CHECK(bfv_body(UINT32_MAX) == NULL);

    bfv_ring *ring = NULL;
    CHECK(bfv_ring_open(8, chain, 1, "quantum", &ring) == BFV_E_UNSUPPORTED && ring == NULL);
    CHECK(bfv_ring_open(8, chain, 1, "", &ring) == BFV_E_UNSUPPORTED && ring == NULL);

    const char *set = getenv("PYBFV_CPU");
    char *kept = set == NULL ? NULL : strcpy(test_alloc(strlen(set) + 1), set);
    setenv("PYBFV_CPU", "portable", 1);
    ring = test_ring(8, chain, 1, NULL);
    CHECK(strcmp(bfv_ring_body(ring), "portable") == 0);
    bfv_ring_close(ring);
    ring = NULL;
    setenv("PYBFV_CPU", "quantum", 1);
    CHECK(bfv_ring_open(8, chain, 1, NULL, &ring) == BFV_E_UNSUPPORTED && ring == NULL);
    unsetenv("PYBFV_CPU");
    ring = test_ring(8, chain, 1, NULL);
    CHECK(strcmp(bfv_ring_body(ring), bfv_body(0)) == 0);
    bfv_ring_close(ring);
    if (kept != NULL) {
        setenv("PYBFV_CPU", kept, 1);
        free(kept);
    }

    for (int status = BFV_E_LAST - 1; status <= 1; status++) {
        CHECK(bfv_status_text(status) != NULL && bfv_status_text(status)[0] != '\0');
    }
}

void test_from_int64(void) {
    const int64_t most = (INT64_C(1) << 62) - 1;
    for (uint32_t body = 0; bfv_body(body) != NULL; body++) {
        bfv_ring *ring = test_ring(16, chain, CHAIN, bfv_body(body));
        int64_t values[16] = {0, 1, -1, most, -most, 66813953, -66813953, INT64_C(1) << 32};
        for (uint32_t k = 8; k < 16; k++) {
            values[k] = (int64_t)(random_runs() >> 2) * (k % 2 == 0 ? 1 : -1);
        }
        uint32_t out[16 * CHAIN] = {0}, bad = 0;
        CHECK(bfv_from_int64(ring, values, out) == BFV_OK);
        for (uint32_t i = 0; i < CHAIN; i++) {
            for (uint32_t k = 0; k < 16; k++) {
                const int64_t p = chain[i], r = values[k] % p;
                bad += out[16 * i + k] != (r < 0 ? r + p : r);
            }
        }
        CHECK(bad == 0);
        static const int64_t outside[] = {INT64_C(1) << 62, -(INT64_C(1) << 62), INT64_MAX, INT64_MIN};
        for (size_t k = 0; k < 4; k++) {
            out[0] = 77;
            values[k] = outside[k];
            CHECK(bfv_from_int64(ring, values, out) == BFV_E_ARGUMENT && out[0] == 77);
            values[k] = 0;
        }
        CHECK(bfv_from_int64(ring, NULL, out) == BFV_E_ARGUMENT);
        CHECK(bfv_from_int64(NULL, values, out) == BFV_E_ARGUMENT);
        bfv_ring_close(ring);
    }
}
