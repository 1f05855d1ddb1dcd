/* Accumulators and arithmetic of the backend, against plain loops with division. */
#include "test.h"

/* The sum of `count` terms as it should be saved: [parts][L][N]. */
static void expected_sum(const bfv_ring *ring, uint32_t parts, const uint32_t *src, uint64_t first,
                         uint64_t stride, uint64_t count, uint32_t *out) {
    const size_t words = parts * ring_poly_words(ring);
    for (size_t w = 0; w < words; w++) {
        const uint32_t p = ring->prime[w / ring->n % ring->count].p;
        uint64_t sum = 0;
        for (uint64_t k = 0; k < count; k++) {
            sum += src[(first + k * stride) * words + w];
        }
        out[w] = (uint32_t)(sum % p);
    }
}

static void expected_products(const bfv_ring *ring, const uint32_t *a, uint64_t first_a, const uint32_t *b,
                              uint64_t first_b, uint64_t stride, uint64_t count, uint32_t *out) {
    const size_t poly = ring_poly_words(ring);
    for (size_t w = 0; w < poly; w++) {
        const uint64_t p = ring->prime[w / ring->n].p;
        uint64_t sum[3] = {0, 0, 0};
        for (uint64_t k = 0; k < count; k++) {
            const uint32_t *x = a + (first_a + k * stride) * 2 * poly + w;
            const uint32_t *y = b + (first_b + k * stride) * 2 * poly + w;
            const uint64_t x0 = x[0], x1 = x[poly], y0 = y[0], y1 = y[poly];
            sum[0] = (sum[0] + x0 * y0) % p;
            sum[1] = (sum[1] + x0 * y1 % p + x1 * y0 % p) % p;
            sum[2] = (sum[2] + x1 * y1) % p;
        }
        for (size_t part = 0; part < 3; part++) {
            out[part * poly + w] = (uint32_t)sum[part];
        }
    }
}

static bfv_acc *new_acc(bfv_backend *backend, uint32_t kind, uint32_t parts) {
    bfv_acc *acc = NULL;
    CHECK(bfv_acc_new(backend, kind, parts, &acc) == BFV_OK);
    return acc;
}

/* All residues p - 1 = -1: a square is (1, 2, 1), a sum -1. At p - 1 every product is
 * the largest there is, so one term too many in a round overflows 64 bits. */
void test_acc_at_the_limit(void) {
    static const uint32_t primes[] = {268369921, 66813953, 1073692673};
    enum { N = 16, MOST = 2 * 4132 + 3 };
    for (uint32_t body = 0; bfv_body(body) != NULL; body++) {
        bfv_backend *backend = test_backend(N, primes, 3, 1, bfv_body(body));
        const bfv_ring *ring = bfv_backend_ring(backend);
        const size_t poly = ring_poly_words(ring);
        uint32_t *src = test_words(2 * poly * MOST), out[3 * 3 * N];
        for (size_t w = 0; w < 2 * poly * MOST; w++) {
            src[w] = primes[w / N % 3] - 1;
        }
        bfv_array *a = test_put(backend, 2, src, MOST), *b = test_put(backend, 2, src, MOST);
        for (uint32_t i = 0; i < 3; i++) {
            const uint64_t limit = ring->prime[i].max_products;
            CHECK(limit == (i == 0 ? 256 : i == 1 ? 4132 : 16));
            const uint64_t counts[] = {
                limit / 2 - 1, limit / 2, limit / 2 + 1, limit - 1,     limit, limit + 1,
                2 * limit - 1, 2 * limit, 2 * limit + 1, 2 * limit + 3, 1,     5};
            for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
                for (int square = 0; square < 2; square++) {
                    bfv_acc *acc = new_acc(backend, BFV_ACC_PRODUCT, 3);
                    CHECK(bfv_acc_mul(backend, acc, a, 0, square ? a : b, 0, 1, counts[k]) == BFV_OK);
                    CHECK(bfv_acc_save(backend, acc, out) == BFV_OK);
                    uint32_t bad = 0;
                    for (size_t w = 0; w < 3 * poly; w++) {
                        const uint64_t times = w / poly == 1 ? 2 : 1;
                        bad += out[w] != times * counts[k] % primes[w / N % 3];
                    }
                    CHECK(bad == 0);
                    CHECK(bfv_acc_drop(backend, acc) == BFV_OK);
                }
            }
        }
        bfv_acc *acc = new_acc(backend, BFV_ACC_SUM, 2);
        CHECK(bfv_acc_add(backend, acc, a, 0, 1, MOST) == BFV_OK);
        CHECK(bfv_acc_save(backend, acc, out) == BFV_OK);
        uint32_t bad = 0;
        for (size_t w = 0; w < 2 * poly; w++) {
            bad += out[w] != primes[w / N % 3] - MOST;
        }
        CHECK(bad == 0);
        bfv_close(backend);
        free(src);
    }
}

/* Any split into calls, any order and merging save the same bytes. */
void test_acc_splits(void) {
    enum { N = 64, L = 3, COUNT = 600 };
    uint32_t *expected = test_words(3 * L * N), *out = test_words(3 * L * N);
    for (uint32_t body = 0; bfv_body(body) != NULL; body++) {
        bfv_backend *backend = test_backend(N, chain + 4, L, 1, bfv_body(body));
        const bfv_ring *ring = bfv_backend_ring(backend);
        uint32_t *src = test_words((size_t)2 * L * N * COUNT);
        random_residues(ring, src, 2 * COUNT);
        bfv_array *a = test_put(backend, 2, src, COUNT);
        for (uint32_t round = 0; round < 6; round++) {
            bfv_acc *sum = new_acc(backend, BFV_ACC_SUM, 2);
            bfv_acc *part = new_acc(backend, BFV_ACC_SUM, 2);
            bfv_acc *product = new_acc(backend, BFV_ACC_PRODUCT, 3);
            bfv_acc *other = new_acc(backend, BFV_ACC_PRODUCT, 3);
            const uint64_t shift = round % 2 == 0 ? 0 : 7; /* 7: pairs of different elements */
            const uint64_t count = COUNT - shift;
            uint64_t at = 0;
            while (at < count) {
                const uint64_t left = count - at;
                uint64_t piece = round == 0 ? left : 1 + random64() % (round == 1 ? 3 : 2 * left);
                piece = piece < left ? piece : left;
                const bool merged = random64() % 2 == 0;
                CHECK(bfv_acc_add(backend, merged ? part : sum, a, at, 1, piece) == BFV_OK);
                CHECK(bfv_acc_mul(backend, merged ? other : product, a, at, a, at + shift, 1, piece) ==
                      BFV_OK);
                at += piece;
            }
            CHECK(bfv_acc_merge(backend, sum, part) == BFV_OK);
            CHECK(bfv_acc_merge(backend, product, other) == BFV_OK);

            expected_sum(ring, 2, src, 0, 1, count, expected);
            CHECK(bfv_acc_save(backend, sum, out) == BFV_OK);
            CHECK(memcmp(out, expected, 2 * L * N * sizeof *out) == 0);
            expected_products(ring, src, 0, src, shift, 1, count, expected);
            CHECK(bfv_acc_save(backend, product, out) == BFV_OK);
            CHECK(memcmp(out, expected, 3 * L * N * sizeof *out) == 0);

            /* Saved, loaded into another, and carried on. */
            CHECK(bfv_acc_load(backend, other, out) == BFV_OK);
            CHECK(bfv_acc_merge(backend, other, product) == BFV_OK);
            CHECK(bfv_acc_save(backend, other, expected) == BFV_OK);
            uint32_t bad = 0;
            for (size_t w = 0; w < 3 * L * N; w++) {
                bad += expected[w] != 2 * (uint64_t)out[w] % ring->prime[w / N % L].p;
            }
            CHECK(bad == 0);
            CHECK(bfv_acc_drop(backend, sum) == BFV_OK && bfv_acc_drop(backend, part) == BFV_OK);
            CHECK(bfv_acc_drop(backend, other) == BFV_OK);
            CHECK(bfv_acc_drop(backend, product) == BFV_OK);
        }
        bfv_close(backend);
        free(src);
    }
    free(expected);
    free(out);
}

/* first and stride pick elements; parts 3; rings from N = 2 up to several blocks. */
void test_acc_strides(void) {
    static const uint32_t sizes[] = {2, 8, 256, 8192};
    for (size_t t = 0; t < sizeof sizes / sizeof sizes[0]; t++) {
        enum { L = 2, COUNT = 23 };
        const uint32_t n = sizes[t];
        bfv_backend *backend = test_backend(n, chain, L, 2, NULL);
        const bfv_ring *ring = bfv_backend_ring(backend);
        uint32_t *src = test_words((size_t)3 * L * n * COUNT);
        uint32_t *out = test_words((size_t)3 * L * n), *expected = test_words((size_t)3 * L * n);
        for (uint32_t parts = 2; parts <= 3; parts++) {
            random_residues(ring, src, parts * COUNT);
            bfv_array *a = test_put(backend, parts, src, COUNT);
            static const uint64_t picks[][3] = {{0, 1, 23}, {22, 1, 1}, {22, UINT64_MAX, 1},
                                                {1, 2, 11}, {0, 22, 2}, {3, 5, 4}};
            for (size_t k = 0; k < sizeof picks / sizeof picks[0]; k++) {
                const uint64_t first = picks[k][0], stride = picks[k][1], count = picks[k][2];
                bfv_acc *acc = new_acc(backend, BFV_ACC_SUM, parts);
                CHECK(bfv_acc_add(backend, acc, a, first, stride, count) == BFV_OK);
                CHECK(bfv_acc_save(backend, acc, out) == BFV_OK);
                expected_sum(ring, parts, src, first, stride, count, expected);
                CHECK(memcmp(out, expected, parts * ring_poly_words(ring) * sizeof *out) == 0);
                CHECK(bfv_acc_drop(backend, acc) == BFV_OK);
            }
            if (parts == 2) { /* column 1 times column 0 of rows of 3 columns */
                bfv_acc *acc = new_acc(backend, BFV_ACC_PRODUCT, 3);
                CHECK(bfv_acc_mul(backend, acc, a, 1, a, 0, 3, 7) == BFV_OK);
                CHECK(bfv_acc_save(backend, acc, out) == BFV_OK);
                expected_products(ring, src, 1, src, 0, 3, 7, expected);
                CHECK(memcmp(out, expected, 3 * ring_poly_words(ring) * sizeof *out) == 0);
            }
        }
        bfv_close(backend);
        free(src);
        free(out);
        free(expected);
    }
}

/* Jobs big enough for threads: any number of them, and any that fail to start, save the
 * same bytes. */
void test_acc_threads(void) {
    enum { N = 2048, L = 4, COUNT = 40, WORDS = 2 * L * N };
    bfv_ring *ring = test_ring(N, chain, L, NULL);
    uint32_t *src = test_words((size_t)WORDS * COUNT);
    uint32_t *sum = test_words(WORDS), *products = test_words(3 * L * N);
    uint32_t *out = test_words(3 * L * N);
    random_residues(ring, src, 2 * COUNT);
    expected_sum(ring, 2, src, 0, 1, COUNT, sum);
    expected_products(ring, src, 0, src, 1, 1, COUNT - 1, products);
    static const uint32_t threads[] = {1, 2, 3, 8, 0, BFV_MAX_THREADS};
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        for (uint32_t failing = 0; failing < 4; failing++) {
            /* None, the first, the third, and all of the threads fail. */
            fault_thread = (struct fault){.wait = failing == 2 ? 2 : 0,
                                          .fail = failing == 3   ? 100000
                                                  : failing == 0 ? 0
                                                                 : 1};
            bfv_backend *backend = test_backend(N, chain, L, threads[t], NULL);
            bfv_array *a = test_put(backend, 2, src, COUNT);
            bfv_acc *acc = new_acc(backend, BFV_ACC_SUM, 2);
            CHECK(bfv_acc_add(backend, acc, a, 0, 1, COUNT) == BFV_OK);
            CHECK(bfv_acc_save(backend, acc, out) == BFV_OK);
            CHECK(memcmp(out, sum, WORDS * sizeof *out) == 0);
            acc = new_acc(backend, BFV_ACC_PRODUCT, 3);
            CHECK(bfv_acc_mul(backend, acc, a, 0, a, 1, 1, COUNT - 1) == BFV_OK);
            CHECK(bfv_acc_save(backend, acc, out) == BFV_OK);
            CHECK(memcmp(out, products, 3 * L * N * sizeof *out) == 0);
            bfv_close(backend);
        }
    }
    fault_thread = (struct fault){0, 0};
    bfv_info info;
    bfv_backend *backend = test_backend(N, chain, L, 0, NULL);
    CHECK(bfv_get_info(backend, &info) == BFV_OK);
    CHECK(info.threads >= 1 && info.threads <= BFV_MAX_THREADS);
    bfv_close(backend);
    bfv_ring_close(ring);
    free(src);
    free(sum);
    free(products);
    free(out);
}

/* add, sub, neg, plaintexts, tensor, finish: word by word, in every body. */
void test_arithmetic(void) {
    enum { N = 128, L = 3, COUNT = 3, POLY = L * N };
    for (uint32_t body = 0; bfv_body(body) != NULL; body++) {
        bfv_backend *backend = test_backend(N, chain + 5, L, 1, bfv_body(body));
        const bfv_ring *ring = bfv_backend_ring(backend);
        uint32_t x[2 * POLY * COUNT], y[2 * POLY * COUNT], z[3 * POLY * COUNT], m[POLY];
        random_residues(ring, x, 2 * COUNT);
        random_residues(ring, y, 2 * COUNT);
        random_residues(ring, m, 1);
        bfv_array *a = test_put(backend, 2, x, COUNT), *b = test_put(backend, 2, y, COUNT);
        bfv_array *sum = NULL, *difference = NULL, *negative = NULL, *plus = NULL, *times = NULL;
        CHECK(bfv_add(backend, a, b, &sum) == BFV_OK);
        CHECK(bfv_sub(backend, a, b, &difference) == BFV_OK);
        CHECK(bfv_neg(backend, a, &negative) == BFV_OK);
        CHECK(bfv_add_plain(backend, a, m, &plus) == BFV_OK);
        CHECK(bfv_mul_plain(backend, a, m, &times) == BFV_OK);
        bfv_array *const results[] = {sum, difference, negative, plus, times};
        for (uint32_t op = 0; op < 5; op++) {
            uint32_t bad = 0;
            CHECK(bfv_get(backend, results[op], 0, COUNT, z) == BFV_OK);
            for (size_t w = 0; w < 2 * POLY * COUNT; w++) {
                const uint64_t p = ring->prime[w / N % L].p, plain = m[w % POLY];
                const bool part0 = w / POLY % 2 == 0;
                const uint64_t expected[] = {(x[w] + y[w]) % p, (x[w] + p - y[w]) % p, (p - x[w]) % p,
                                             (x[w] + (part0 ? plain : 0)) % p, x[w] * plain % p};
                bad += z[w] != expected[op];
            }
            CHECK(bad == 0);
        }
        bfv_array *tensor = NULL;
        uint32_t expected[3 * POLY];
        CHECK(bfv_mul(backend, a, b, &tensor) == BFV_OK);
        for (uint32_t k = 0; k < COUNT; k++) {
            expected_products(ring, x, k, y, k, 1, 1, expected);
            CHECK(bfv_get(backend, tensor, k, 1, z) == BFV_OK);
            CHECK(memcmp(z, expected, sizeof expected) == 0);
        }
        /* finish multiplies by one factor a prime. */
        bfv_acc *acc = new_acc(backend, BFV_ACC_PRODUCT, 3);
        bfv_array *finished = NULL;
        const uint32_t factor[L] = {3, chain[6] - 1, 123456};
        CHECK(bfv_acc_mul(backend, acc, a, 0, b, 0, 1, COUNT) == BFV_OK);
        CHECK(bfv_acc_finish(backend, acc, factor, &finished) == BFV_OK);
        CHECK(bfv_get(backend, finished, 0, 1, z) == BFV_OK);
        expected_products(ring, x, 0, y, 0, 1, COUNT, expected);
        uint32_t bad = 0;
        for (size_t w = 0; w < 3 * POLY; w++) {
            const uint32_t i = (uint32_t)(w / N % L);
            bad += z[w] != (uint64_t)expected[w] * factor[i] % ring->prime[i].p;
        }
        CHECK(bad == 0);

        bfv_stats stats;
        CHECK(bfv_get_stats(backend, &stats) == BFV_OK);
        CHECK(stats.sums == 0 && stats.products == COUNT);
        CHECK(stats.bytes_in == sizeof x + sizeof y);
        CHECK(stats.bytes_out == 5 * sizeof x + sizeof z + 3 * POLY * sizeof *z);
        bfv_close(backend);
    }
}
