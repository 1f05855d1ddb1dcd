/* Lifts, rounding and scaled accumulators against 128-bit integers and division. */
#include "test.h"

#include "../../host_c/src/rns.h"

__extension__ typedef __int128 integer;
__extension__ typedef unsigned __int128 natural;

/* The primes of n4096_q109 and the wide ones of 2,560 products; all are = 1 mod 2^15. */
static const uint32_t primes[] = {132120577, 134250497, 134348801, 268369921, 268271617,
                                  268238849, 268042241, 267943937, 267550721};
enum { L = 4, K = 5 };

static natural product_of(const uint32_t *factors, uint32_t count) {
    natural product = 1;
    for (uint32_t i = 0; i < count; i++) {
        product *= factors[i];
    }
    return product;
}

static uint32_t mod_of(integer x, uint32_t p) {
    const integer r = x % (integer)p;
    return (uint32_t)(r < 0 ? r + (integer)p : r);
}

/* Within base/2 of 0: the ends, small numbers, runs of bits. */
static integer random_centred(natural base) {
    const natural half = base / 2;
    const natural word = (natural)random_runs() << 64 | random_runs();
    const uint64_t choice = random64() % 6;
    const natural size = choice == 0   ? half
                         : choice == 1 ? half - random64() % 8 % (half + 1)
                         : choice == 2 ? random64() % 8 % (half + 1)
                         : choice == 3 ? (word >> (random64() % 128)) % (half + 1)
                                       : word % (half + 1);
    return random64() % 2 == 0 ? (integer)size : -(integer)size;
}

/* out [count][N], NTT form. */
static void to_ntt(const bfv_ring *ring, const integer *x, uint32_t *out) {
    for (size_t w = 0; w < ring_poly_words(ring); w++) {
        out[w] = mod_of(x[w % ring->n], ring->prime[w / ring->n].p);
    }
    CHECK(bfv_ntt_forward(ring, out, 1) == BFV_OK);
}

/* round(a / q), q odd. */
static integer round_div(integer a, natural q) {
    const integer d = (integer)q, floor = a / d - (a % d < 0), rest = a - floor * d;
    return floor + (2 * rest > d);
}

static const uint32_t sizes[] = {2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
enum { MOST = 1024, ROUNDS = 4 };

void test_lift(void) {
    static const struct {
        uint32_t first, count, wide;
    } cases[] = {{0, 4, 5}, {0, 1, 1}, {3, 2, 3}, {0, 3, 6}, {0, 4, 1}};
    for (uint32_t body = 0; bfv_body(body) != NULL; body++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (size_t t = 0; t < sizeof cases / sizeof cases[0]; t++) {
                const uint32_t n = sizes[s], count = cases[t].count, wide = cases[t].wide;
                const uint32_t *q = primes + cases[t].first;
                bfv_ring *ring = test_ring(n, q, count, bfv_body(body));
                bfv_ring *over = test_ring(n, q + count, wide, bfv_body(body));
                bfv_lifter *lifter = NULL;
                CHECK(bfv_lifter_open(ring, q + count, wide, &lifter) == BFV_OK);
                integer *x = test_alloc(MOST * sizeof *x);
                uint32_t *in = test_words(L * MOST), *out = test_words(9 * MOST),
                         *want = test_words(9 * MOST);
                for (uint32_t round = 0; round < ROUNDS; round++) {
                    for (uint32_t c = 0; c < n; c++) {
                        x[c] = random_centred(product_of(q, count));
                    }
                    to_ntt(ring, x, in);
                    to_ntt(over, x, want);
                    CHECK(bfv_lift(lifter, in, 1, out) == BFV_OK);
                    CHECK(memcmp(out, want, ring_poly_words(over) * sizeof *out) == 0);
                }
                bfv_lifter_close(lifter);
                bfv_ring_close(ring);
                bfv_ring_close(over);
                free(x);
                free(in);
                free(out);
                free(want);
            }
        }
    }
}

/* Bases of 64 to 82 bits and t of 16, so that t x fits. */
void test_scale_round(void) {
    static const struct {
        uint32_t count, wide;
    } cases[] = {{1, 2}, {2, 1}, {1, 1}, {2, 2}};
    for (uint32_t body = 0; bfv_body(body) != NULL; body++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (size_t t = 0; t < sizeof cases / sizeof cases[0]; t++) {
                const uint32_t n = sizes[s], count = cases[t].count, wide = cases[t].wide;
                bfv_ring *ring = test_ring(n, primes, count, bfv_body(body));
                bfv_ring *full = test_ring(n, primes, count + wide, bfv_body(body));
                bfv_lifter *lifter = NULL;
                CHECK(bfv_lifter_open(ring, primes + count, wide, &lifter) == BFV_OK);
                integer *x = test_alloc(MOST * sizeof *x);
                uint32_t *in = test_words(4 * MOST), *out = test_words(2 * MOST),
                         *want = test_words(2 * MOST);
                static const uint64_t scales[] = {1, 2, 3, 255, 4097, 65535};
                for (size_t k = 0; k < sizeof scales / sizeof scales[0]; k++) {
                    for (uint32_t c = 0; c < n; c++) {
                        x[c] = random_centred(product_of(primes, count + wide));
                    }
                    to_ntt(full, x, in);
                    CHECK(bfv_scale_round(lifter, &scales[k], 1, in, 1, out) == BFV_OK);
                    for (uint32_t c = 0; c < n; c++) {
                        x[c] = round_div((integer)scales[k] * x[c], product_of(primes, count));
                    }
                    to_ntt(ring, x, want);
                    CHECK(memcmp(out, want, ring_poly_words(ring) * sizeof *out) == 0);
                }
                bfv_lifter_close(lifter);
                bfv_ring_close(ring);
                bfv_ring_close(full);
                free(x);
                free(in);
                free(out);
                free(want);
            }
        }
    }
}

/* Two moduli of 40 and 15 bits over wide primes of 112 bits. */
void test_lift64(void) {
    enum { N = 64, WIDE = 4 };
    static const uint64_t moduli[] = {UINT64_C(1099511627689), 32749};
    const natural q = (natural)moduli[0] * moduli[1];
    bfv_lifter64 *lifter = NULL;
    bfv_ring *ring = test_ring(N, primes, WIDE, NULL);
    CHECK(bfv_lifter64_open(N, moduli, 2, primes, WIDE, &lifter) == BFV_OK);
    for (uint32_t round = 0; round < 20; round++) {
        integer x[N];
        uint64_t low[2 * N], back[2 * N];
        uint32_t out[WIDE * N], want[WIDE * N];
        for (uint32_t c = 0; c < N; c++) {
            x[c] = random_centred(q);
            for (uint32_t i = 0; i < 2; i++) {
                const integer r = x[c] % (integer)moduli[i];
                low[i * N + c] = (uint64_t)(r < 0 ? r + (integer)moduli[i] : r);
            }
        }
        to_ntt(ring, x, want);
        CHECK(bfv_lift64(lifter, low, 1, out) == BFV_OK);
        CHECK(memcmp(out, want, sizeof out) == 0);
        CHECK(bfv_reduce64(lifter, out, 1, back) == BFV_OK);
        CHECK(memcmp(back, low, sizeof back) == 0);
        const uint64_t t = 1 + random64() % 32767;
        uint32_t bad = 0;
        for (uint32_t c = 0; c < N; c++) {
            x[c] = random_centred(product_of(primes, WIDE));
        }
        to_ntt(ring, x, want);
        CHECK(bfv_scale_round64(lifter, &t, 1, want, 1, back) == BFV_OK);
        for (uint32_t c = 0; c < N; c++) {
            const integer rounded = round_div((integer)t * x[c], q);
            for (uint32_t i = 0; i < 2; i++) {
                const integer r = rounded % (integer)moduli[i];
                bad += back[i * N + c] != (uint64_t)(r < 0 ? r + (integer)moduli[i] : r);
            }
        }
        CHECK(bad == 0);
    }
    uint64_t wrong[2 * N] = {moduli[0]};
    uint32_t out[WIDE * N] = {7};
    CHECK(bfv_lift64(lifter, wrong, 1, out) == BFV_E_RESIDUE && out[0] == 7);
    bfv_lifter64_close(lifter);
    bfv_ring_close(ring);
}

/* At p - 1 and as many terms as 64 bits and the division take, one short of too many. */
void test_square_few(void) {
    enum { N = 64 };
    static const uint32_t some[] = {268369921, 66813953, 1073692673, 97};
    for (uint32_t body = 0; bfv_body(body) != NULL; body++) {
        bfv_ring *ring = test_ring(16, some, 4, bfv_body(body));
        for (uint32_t i = 0; i < 4; i++) {
            const struct bfv_prime *prime = &ring->prime[i];
            const uint64_t most = prime->max_sums < 64 ? prime->max_sums : 64;
            for (uint64_t count = 1; count <= most; count++) {
                uint32_t *src = test_words(2 * N * 64), sum[3][N];
                uint32_t *const state[3] = {sum[0], sum[1], sum[2]};
                const uint32_t *const a[2] = {src, src + N};
                const uint32_t width = count % 3 == 0 ? 8 : N;
                uint32_t bad = 0;
                for (uint32_t w = 0; w < 2 * N * 64; w++) {
                    src[w] = random64() % 4 == 0 ? (uint32_t)(random_runs() % prime->p) : prime->p - 1;
                }
                for (uint32_t w = 0; w < 3 * N; w++) {
                    sum[w / N][w % N] = w % 2 == 0 ? prime->p - 1 : (uint32_t)(random64() % prime->p);
                }
                uint32_t want[3][N];
                for (uint32_t c = 0; c < width; c++) {
                    uint64_t s[3] = {0, 0, 0};
                    for (uint64_t k = 0; k < count; k++) {
                        const uint64_t x = src[2 * N * k + c], y = src[2 * N * k + N + c];
                        s[0] += x * x % prime->p;
                        s[1] += 2 * (x * y % prime->p);
                        s[2] += y * y % prime->p;
                    }
                    const uint32_t inverse = zq_inv(prime->mod.r32, &prime->mod);
                    for (uint32_t part = 0; part < 3; part++) {
                        const uint64_t divided = s[part] % prime->p * inverse % prime->p;
                        want[part][c] = (uint32_t)((divided + sum[part][c]) % prime->p);
                    }
                }
                ring->body->acc_square_few(state, a, 2 * N, count, width, prime);
                for (uint32_t part = 0; part < 3; part++) {
                    bad += memcmp(sum[part], want[part], width * sizeof want[0][0]) != 0;
                }
                CHECK(bad == 0);
                free(src);
            }
        }
        bfv_ring_close(ring);
    }
}

static bfv_backend *scaled_backend(uint32_t n, uint32_t threads, const char *body) {
    const bfv_options options = {.n = n,
                                 .count = L,
                                 .primes = primes,
                                 .threads = threads,
                                 .body = body,
                                 .wide = primes + L,
                                 .wide_count = K};
    bfv_backend *backend = NULL;
    CHECK(bfv_open("cpu", &options, &backend) == BFV_OK);
    return backend;
}

/* The sum of tensors over the full ring, of elements that bfv_lift lifts, [3][L + K][N]. */
static void expected_scaled(const bfv_ring *ring, const uint32_t *src, uint64_t first_a, uint64_t first_b,
                            uint64_t stride, uint64_t count, uint32_t *out) {
    const uint32_t n = ring->n;
    bfv_lifter *lifter = NULL;
    CHECK(bfv_lifter_open(ring, primes + L, K, &lifter) == BFV_OK);
    uint32_t *x = test_words((size_t)4 * (L + K) * n);
    memset(out, 0, (size_t)3 * (L + K) * n * sizeof *out);
    for (uint64_t k = 0; k < count; k++) {
        const uint64_t at[2] = {first_a + k * stride, first_b + k * stride};
        for (uint32_t poly = 0; poly < 4; poly++) { /* a0, a1, b0, b1 */
            const uint32_t *from = src + (2 * at[poly / 2] + poly % 2) * L * n;
            memcpy(x + (size_t)poly * (L + K) * n, from, (size_t)L * n * sizeof *x);
            CHECK(bfv_lift(lifter, from, 1, x + (size_t)(poly * (L + K) + L) * n) == BFV_OK);
        }
        for (uint32_t w = 0; w < (L + K) * n; w++) {
            const uint64_t p = primes[w / n];
            const uint64_t a0 = x[w], a1 = x[(L + K) * n + w], b0 = x[2 * (L + K) * n + w],
                           b1 = x[3 * (L + K) * n + w];
            const uint64_t tensor[3] = {a0 * b0 % p, (a0 * b1 % p + a1 * b0 % p) % p, a1 * b1 % p};
            for (uint32_t part = 0; part < 3; part++) {
                uint32_t *sum = out + part * (L + K) * n + w;
                *sum = (uint32_t)((*sum + tensor[part]) % p);
            }
        }
    }
    bfv_lifter_close(lifter);
    free(x);
}

/* Any threads, any that fail to start, any body: the same words; overlapping pairs too. */
void test_acc_scaled(void) {
    enum { N = 512, COUNT = 12, WORDS = 3 * (L + K) * N };
    uint32_t *src = test_words((size_t)2 * L * N * COUNT), *out = test_words(WORDS);
    uint32_t *squares = test_words(WORDS), *pairs = test_words(WORDS), *zero = test_words(WORDS);
    bfv_ring *ring = test_ring(N, primes, L, NULL);
    random_residues(ring, src, 2 * COUNT);
    expected_scaled(ring, src, 1, 1, 2, 5, squares);
    expected_scaled(ring, src, 0, 1, 1, COUNT - 1, pairs);
    memset(zero, 0, WORDS * sizeof *zero);
    static const uint32_t threads[] = {1, 2, 3, 8, BFV_MAX_THREADS};
    for (uint32_t body = 0; bfv_body(body) != NULL; body++) {
        for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
            for (uint32_t failing = 0; failing < 3; failing++) {
                fault_thread = (struct fault){.wait = 0, .fail = failing == 2 ? 100000 : failing};
                bfv_backend *backend = scaled_backend(N, threads[t], bfv_body(body));
                bfv_array *a = test_put(backend, 2, src, COUNT);
                for (uint32_t cached = 0; cached < 2; cached++) {
                    bfv_acc *acc = NULL, *other = NULL;
                    CHECK(bfv_acc_new(backend, BFV_ACC_SCALED, 3, &acc) == BFV_OK);
                    CHECK(bfv_acc_mul(backend, acc, a, 1, a, 1, 2, 5) == BFV_OK);
                    CHECK(bfv_acc_save(backend, acc, out) == BFV_OK);
                    CHECK(memcmp(out, squares, WORDS * sizeof *out) == 0);
                    CHECK(bfv_acc_new(backend, BFV_ACC_SCALED, 3, &other) == BFV_OK);
                    CHECK(bfv_acc_mul(backend, other, a, 0, a, 1, 1, 4) == BFV_OK);
                    CHECK(bfv_acc_load(backend, acc, zero) == BFV_OK);
                    CHECK(bfv_acc_mul(backend, acc, a, 4, a, 5, 1, COUNT - 5) == BFV_OK);
                    CHECK(bfv_acc_merge(backend, acc, other) == BFV_OK);
                    CHECK(bfv_acc_save(backend, acc, out) == BFV_OK);
                    CHECK(memcmp(out, pairs, WORDS * sizeof *out) == 0);
                }
                bfv_close(backend);
            }
        }
    }
    fault_thread = (struct fault){0, 0};
    bfv_ring_close(ring);
    free(src);
    free(out);
    free(squares);
    free(pairs);
    free(zero);
}

/* Every allocation fails once: BFV_E_MEMORY, and sums are what they were. */
void test_scaled_out_of_memory(void) {
    enum { N = 16, WORDS = 3 * (L + K) * N };
    uint32_t src[2 * 2 * L * N] = {5}, before[WORDS], after[WORDS];
    uint64_t y64[2 * N];
    static const uint64_t moduli[] = {1000003, 32749}, t = 3;
    uint32_t failures = 0;
    for (uint32_t wait = 0; wait < 64; wait++) {
        bfv_backend *backend = NULL;
        bfv_acc *acc = NULL;
        bfv_array *a = NULL;
        bfv_lifter64 *lifter64 = NULL;
        bfv_lifter *lifter = NULL;
        const bfv_options options = {
            .n = N, .count = L, .primes = primes, .threads = 1, .wide = primes + L, .wide_count = K};
        CHECK(bfv_open("cpu", &options, &backend) == BFV_OK);
        a = test_put(backend, 2, src, 2);
        CHECK(bfv_acc_new(backend, BFV_ACC_SCALED, 3, &acc) == BFV_OK);
        CHECK(bfv_acc_mul(backend, acc, a, 0, a, 0, 1, 2) == BFV_OK);
        CHECK(bfv_acc_save(backend, acc, before) == BFV_OK);
        fault_memory = (struct fault){.wait = wait, .fail = 1};
        int status = bfv_acc_mul(backend, acc, a, 0, a, 0, 1, 2);
        const bool first = status == BFV_OK;
        if (status == BFV_OK) {
            status = bfv_acc_mul(backend, acc, a, 0, a, 1, 1, 1);
        }
        const bool second = status == BFV_OK;
        if (status == BFV_OK) {
            status = bfv_lifter_open(bfv_backend_ring(backend), primes + L, K, &lifter);
        }
        if (status == BFV_OK) {
            status = bfv_scale_round(lifter, &t, 1, before, 1, after);
        }
        if (status == BFV_OK) {
            status = bfv_lift(lifter, src, 1, after);
        }
        if (status == BFV_OK) {
            status = bfv_lifter64_open(N, moduli, 2, primes, L, &lifter64);
        }
        if (status == BFV_OK) {
            status = bfv_reduce64(lifter64, src, 1, y64);
        }
        if (status == BFV_OK) {
            status = bfv_scale_round64(lifter64, &t, 1, src, 1, y64);
        }
        const bool struck = fault_memory.fail == 0;
        fault_memory = (struct fault){0, 0};
        CHECK(status == (struck ? BFV_E_MEMORY : BFV_OK));
        if (struck && !first) {
            CHECK(bfv_acc_save(backend, acc, after) == BFV_OK && memcmp(before, after, sizeof after) == 0);
        }
        if (struck && first && !second) { /* what was lifted before the failure is used again */
            CHECK(bfv_acc_mul(backend, acc, a, 0, a, 1, 1, 1) == BFV_OK);
        }
        failures += struck;
        bfv_lifter64_close(lifter64);
        bfv_lifter_close(lifter);
        bfv_close(backend);
    }
    CHECK(failures >= 15 && failures < 64);
}

void test_lift_arguments(void) {
    enum { N = 8 };
    bfv_ring *ring = test_ring(N, primes, 2, NULL);
    bfv_lifter *lifter = NULL, *const none = NULL;
    uint32_t x[4 * N] = {0}, out[4 * N] = {7};
    uint64_t t[9] = {1}, big[2 * N] = {0};
    CHECK(bfv_lifter_open(NULL, primes + 2, 1, &lifter) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter_open(ring, NULL, 1, &lifter) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter_open(ring, primes + 2, 0, &lifter) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter_open(ring, primes + 2, UINT32_MAX, &lifter) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter_open(ring, primes + 1, 1, &lifter) == BFV_E_ARGUMENT); /* the ring's own */
    CHECK(bfv_lifter_open(ring, primes + 2, 1, NULL) == BFV_E_ARGUMENT);
    CHECK(lifter == NULL);
    CHECK(bfv_lifter_open(ring, primes + 2, 1, &lifter) == BFV_OK);
    CHECK(bfv_lift(none, x, 1, out) == BFV_E_ARGUMENT);
    CHECK(bfv_lift(lifter, NULL, 1, out) == BFV_E_ARGUMENT);
    CHECK(bfv_lift(lifter, x, 0, out) == BFV_E_ARGUMENT);
    CHECK(bfv_lift(lifter, x, UINT64_MAX, out) == BFV_E_ARGUMENT);
    CHECK(bfv_lift(lifter, x, 1, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_scale_round(none, t, 1, x, 1, out) == BFV_E_ARGUMENT);
    CHECK(bfv_scale_round(lifter, NULL, 1, x, 1, out) == BFV_E_ARGUMENT);
    CHECK(bfv_scale_round(lifter, t, 0, x, 1, out) == BFV_E_ARGUMENT);
    CHECK(bfv_scale_round(lifter, t, 9, x, 1, out) == BFV_E_ARGUMENT);
    CHECK(bfv_scale_round(lifter, t + 1, 1, x, 1, out) == BFV_E_ARGUMENT); /* 0 */
    t[0] = primes[2] + 1;
    CHECK(bfv_scale_round(lifter, t, 1, x, 1, out) == BFV_E_ARGUMENT); /* above the wide primes */
    t[0] = primes[2];
    CHECK(bfv_scale_round(lifter, t, 1, x, 0, out) == BFV_E_ARGUMENT);
    CHECK(bfv_scale_round(lifter, t, 1, x, UINT64_MAX / 2, out) == BFV_E_ARGUMENT);
    CHECK(out[0] == 7);
    CHECK(bfv_scale_round(lifter, t, 1, x, 1, out) == BFV_OK && out[0] == 0);
    bfv_lifter_close(lifter);
    bfv_lifter_close(NULL);

    bfv_lifter64 *lifter64 = NULL;
    const uint64_t q[] = {15, 5, 21, UINT64_C(1) << 61, 4, 7, (uint64_t)3 * 268369921};
    CHECK(bfv_lifter64_open(N, NULL, 1, primes, 2, &lifter64) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, q, 2, primes, 2, &lifter64) == BFV_E_ARGUMENT); /* not coprime */
    CHECK(bfv_lifter64_open(N, q + 3, 1, primes, 2, &lifter64) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, q + 4, 1, primes, 2, &lifter64) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, q + 6, 1, primes, 4, &lifter64) == BFV_E_ARGUMENT); /* shares a wide prime */
    CHECK(bfv_lifter64_open(N, q, 0, primes, 2, &lifter64) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, q, 17, primes, 2, &lifter64) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, q + 5, 1, primes, 0, &lifter64) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, q + 5, 1, primes, UINT32_MAX, &lifter64) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(7, q + 5, 1, primes, 2, &lifter64) == BFV_E_ARGUMENT);
    CHECK(bfv_lifter64_open(N, q + 5, 1, primes, 2, NULL) == BFV_E_ARGUMENT);
    CHECK(lifter64 == NULL);
    CHECK(bfv_lifter64_open(N, q + 5, 1, primes, 2, &lifter64) == BFV_OK);
    CHECK(bfv_lift64(NULL, big, 1, out) == BFV_E_ARGUMENT);
    CHECK(bfv_lift64(lifter64, NULL, 1, out) == BFV_E_ARGUMENT);
    CHECK(bfv_lift64(lifter64, big, 0, out) == BFV_E_ARGUMENT);
    CHECK(bfv_lift64(lifter64, big, UINT64_MAX, out) == BFV_E_ARGUMENT);
    CHECK(bfv_reduce64(lifter64, x, 0, big) == BFV_E_ARGUMENT);
    CHECK(bfv_reduce64(lifter64, NULL, 1, big) == BFV_E_ARGUMENT);
    t[0] = 0;
    CHECK(bfv_scale_round64(lifter64, t, 1, x, 1, big) == BFV_E_ARGUMENT);
    CHECK(bfv_scale_round64(NULL, t, 1, x, 1, big) == BFV_E_ARGUMENT);
    bfv_lifter64_close(lifter64);
    bfv_lifter64_close(NULL);
    bfv_ring_close(ring);
}
