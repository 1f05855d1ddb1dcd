/* The kernels of encryption, decryption and key switching: each body beside the portable one, at every length
 * and alignment, on bits in runs, all ones, all zeros and single bits; the portable one beside plain
 * arithmetic. The functions of bfv.h that are made of others beside those. */
#include "../../host_c/include/bfv_secret.h"
#include "test.h"

__extension__ typedef unsigned __int128 uint128;

enum { MOST = 300, PATTERNS = 6 };

/* Bytes of a kind: zeros, ones, single bits, runs, few different ones, any. */
static void patterned(uint8_t *data, size_t size, uint32_t pattern) {
    for (size_t k = 0; k < size; k++) {
        const uint64_t any = random64();
        const uint64_t byte = pattern == 0   ? 0
                              : pattern == 1 ? 255
                              : pattern == 2 ? (any % 23 == 0 ? UINT64_C(1) << any / 23 % 8 : 0)
                              : pattern == 3 ? random_runs()
                              : pattern == 4 ? (any % 4 == 0 ? 255 : 252 + any / 4 % 3)
                                             : any;
        data[k] = (uint8_t)byte;
    }
}

/* Residues mod p of a kind. */
static void patterned_residues(uint32_t *x, size_t count, uint32_t p, uint32_t pattern) {
    for (size_t k = 0; k < count; k++) {
        x[k] = pattern == 0   ? 0
               : pattern == 1 ? p - 1
               : pattern == 2 ? (uint32_t)((UINT64_C(1) << random64() % 32) % p)
               : pattern == 3 ? (uint32_t)(random_runs() % p)
               : pattern == 4 ? (random64() % 2 == 0 ? 0 : p - 1)
                              : (uint32_t)(random64() % p);
    }
}

void test_sampler_bodies(void) {
    static uint8_t rnd[8 + 6 * MOST];
    static int8_t x[8 + MOST], y[8 + MOST];
    for (uint32_t body = 0; cpu_body(body) != NULL; body++) {
        const struct cpu_kernels *kernels = cpu_body(body);
        uint32_t bad = 0;
        for (uint32_t n = 1; n <= MOST; n++) {
            for (uint32_t pattern = 0; pattern < PATTERNS; pattern++) {
                const uint32_t at = (uint32_t)(random64() % 8), to = (uint32_t)(random64() % 8);
                patterned(rnd, sizeof rnd, pattern);
                memset(x, 99, sizeof x);
                memset(y, 99, sizeof y);
                kernels->error(x + to, n, rnd + at);
                for (uint32_t k = 0; k < n; k++) { /* by the definition */
                    int sum = 0;
                    for (uint32_t bit = 0; bit < 42; bit++) {
                        sum += (rnd[at + 6 * k + bit / 8] >> bit % 8 & 1) * (bit < 21 ? 1 : -1);
                    }
                    y[to + k] = (int8_t)sum;
                }
                bad += memcmp(x, y, sizeof x) != 0;

                /* so many bytes that some are just enough, some one too few */
                size_t bytes = n + random64() % 40, accepted = 0;
                uint32_t next = 0;
                memset(x, 99, sizeof x);
                memset(y, 99, sizeof y);
                for (size_t k = 0; k < bytes; k++) {
                    accepted += rnd[at + k] != 255;
                }
                for (size_t k = 0; accepted >= n && next < n; k++) {
                    y[to + next] = (int8_t)(rnd[at + k] % 3 - 1);
                    next += rnd[at + k] != 255;
                }
                bad += kernels->ternary(x + to, n, rnd + at, bytes) != (accepted >= n);
                bad += memcmp(x, y, sizeof x) != 0;
            }
        }
        CHECK(bad == 0);
    }
}

void test_uniform_bodies(void) {
    static uint8_t rnd[3 + 4 * 80];
    static uint32_t x[MOST], y[MOST];
    const uint32_t primes[] = {5, 97, chain[0], chain[1], 1073479681};
    for (uint32_t body = 0; cpu_body(body) != NULL; body++) {
        uint32_t bad = 0;
        for (uint32_t round = 0; round < 3000; round++) {
            const uint32_t p = primes[round % 5], n = 1 + (uint32_t)(random64() % 100);
            uint32_t mask = 1, filled = (uint32_t)(random64() % (n + 1));
            while (mask < p) {
                mask = 2 * mask + 1;
            }
            const size_t bytes = 4 * (random64() % 81), at = random64() % 4;
            patterned(rnd, sizeof rnd, round % PATTERNS);
            memset(x, 0x77, sizeof x);
            memset(y, 0x77, sizeof y);
            const uint32_t end = cpu_body(body)->uniform(x, filled, n, rnd + at, bytes, p, mask);
            for (size_t k = 0; k < bytes && filled < n; k += 4) {
                uint32_t word = 0;
                memcpy(&word, rnd + at + k, sizeof word);
                if ((word & mask) < p) {
                    y[filled++] = word & mask;
                }
            }
            bad += end != filled || memcmp(x, y, end * sizeof *x) != 0 ||
                   memcmp(x + n, y + n, (MOST - n) * sizeof *x) != 0;
        }
        CHECK(bad == 0);
    }
}

/* Constants of a prime without its tables. */
static struct bfv_prime prime_of(uint32_t p) {
    struct bfv_prime prime = {.p = p, .mod = zq_mod_init(p), .neg_inv = 1};
    for (uint32_t k = 0; k < 5; k++) {
        prime.neg_inv *= 2 - p * prime.neg_inv;
    }
    prime.neg_inv = 0 - prime.neg_inv;
    prime.max_products = UINT64_MAX / ((uint64_t)(p - 1) * (p - 1));
    prime.max_sums = UINT32_MAX / (p - 1);
    return prime;
}

void test_product_bodies(void) {
    enum { TERMS = 9, STRIDE = MOST + 5 };
    static uint32_t a[TERMS * STRIDE], b[TERMS * STRIDE], x[STRIDE], plus[STRIDE], y[3][STRIDE];
    static int8_t small[STRIDE];
    static uint64_t values[STRIDE];
    const uint32_t primes[] = {5, 97, 257, chain[0], chain[1], 1073479681};
    for (uint32_t body = 0; cpu_body(body) != NULL; body++) {
        const struct cpu_kernels *kernels = cpu_body(body);
        uint32_t bad = 0;
        for (uint32_t width = 1; width <= MOST; width++) {
            const uint32_t pattern = width % PATTERNS, p = primes[random64() % 6],
                           from = primes[random64() % 6];
            const struct bfv_prime prime = prime_of(p);
            const uint64_t lift = UINT64_C(0x100000000) % p;
            const uint32_t undo = zq_inv((uint32_t)lift, &prime.mod), at = (uint32_t)(random64() % 5);
            const uint32_t terms = 1 + (uint32_t)(random64() % TERMS);
            patterned_residues(a, TERMS * STRIDE, p, pattern);
            patterned_residues(b, TERMS * STRIDE, p, (uint32_t)(random64() % PATTERNS));
            patterned_residues(plus, STRIDE, p, (uint32_t)(random64() % PATTERNS));
            patterned((uint8_t *)small, STRIDE, (uint32_t)(random64() % PATTERNS));
            patterned((uint8_t *)values, sizeof values, pattern);

            kernels->mul_lifted(x + at, a + at, b + at, NULL, width, &prime);
            memcpy(y[0], plus, sizeof plus);
            kernels->mul_lifted(y[0] + at, a + at, b + at, y[0] + at, width, &prime); /* in place */
            for (uint32_t k = at; k < at + width; k++) {
                const uint64_t product = (uint64_t)a[k] * b[k] % p * undo % p;
                bad += x[k] != product || y[0][k] != (product + plus[k]) % p;
            }
            memcpy(x, plus, sizeof plus);
            kernels->dot(x + at, a + at, STRIDE, b + at, STRIDE, terms, width, &prime);
            for (uint32_t k = at; k < at + width; k++) {
                uint128 sum = 0;
                for (uint32_t i = 0; i < terms; i++) {
                    sum += (uint64_t)a[i * STRIDE + k] * b[i * STRIDE + k];
                }
                bad += x[k] != (uint64_t)(((uint64_t)(sum % p) * undo + plus[k]) % p);
            }
            kernels->mul(x + at, a + at, b + at, width, &prime.mod);
            kernels->tensor((uint32_t *const[]){y[0] + at, y[1] + at, y[2] + at},
                            (const uint32_t *const[]){a + at, a + STRIDE + at},
                            (const uint32_t *const[]){b + at, b + STRIDE + at}, width, &prime.mod);
            for (uint32_t k = at; k < at + width; k++) {
                const uint64_t a0 = a[k], a1 = a[STRIDE + k], b0 = b[k], b1 = b[STRIDE + k];
                bad += x[k] != a0 * b0 % p || y[0][k] != x[k] || y[1][k] != (a0 * b1 + a1 * b0) % p ||
                       y[2][k] != a1 * b1 % p;
            }
            kernels->small(x + at, small + at, NULL, width, &prime.mod);
            kernels->small(y[0] + at, small + at, plus + at, width, &prime.mod);
            for (uint32_t k = at; k < at + width; k++) {
                const int64_t s = small[k] % (int64_t)p, r = s < 0 ? s + p : s;
                bad += x[k] != r || y[0][k] != (uint64_t)(r + plus[k]) % p;
            }
            kernels->reduce_words(x + at, values + at, width, &prime.mod);
            for (uint32_t k = at; k < at + width; k++) {
                const uint64_t v = values[k], negated = (0 - v) % p;
                bad += x[k] != (v >> 63 != 0 ? (p - negated) % p : v % p);
            }
            patterned_residues(a, STRIDE, from, pattern);
            kernels->recentre(x + at, a + at, from, width, &prime.mod);
            for (uint32_t k = at; k < at + width; k++) {
                const uint64_t r = a[k] <= from / 2 ? a[k] % p : (p - (from - a[k]) % p) % p;
                bad += x[k] != r * lift % p;
            }
        }
        CHECK(bad == 0);
    }
}

/* Every body's encode and decode beside the portable one's, and those beside the definition. */
void test_code_bodies(void) {
    enum { STRIDE = MOST + 3, T = 20, Q = 24 };
    static uint32_t y[Q * STRIDE], x[Q * STRIDE], z[Q * STRIDE];
    static struct encode_change encode;
    static struct decode_change decode;
    static const uint32_t shapes[][2] = {{1, 1}, {1, 4}, {3, 4}, {4, 3}, {16, 5}, {20, 24}, {2, 24}};
    for (uint32_t round = 0; round < 7 * MOST; round++) {
        const uint32_t t_count = shapes[round % 7][0], q_count = shapes[round % 7][1], width = 1 + round / 7;
        uint64_t sum = 0;
        encode.count = t_count, encode.targets = q_count;
        decode.count = q_count, decode.targets = t_count;
        uint64_t slack = 0;
        uint32_t t[T], q[Q];
        for (uint32_t i = 0; i < t_count; i++) {
            t[i] = chain[(i + 5) % CHAIN];
            sum += 2 * (uint64_t)t[i];
            encode.fraction[i] = random_runs();
            patterned_residues(y + i * STRIDE, STRIDE, t[i], round % PATTERNS);
            decode.target[i].mod = zq_mod_init(t[i]);
        }
        for (uint32_t j = 0; j < q_count; j++) {
            q[j] = chain[j % CHAIN];
            slack += q[j];
            encode.mod[j] = zq_mod_init(q[j]);
            encode.neg_inv[j] = prime_of(q[j]).neg_inv;
            for (uint32_t i = 0; i < t_count; i++) {
                encode.scale[j][i] = (uint32_t)(random_runs() % q[j]);
                encode.lifted[j][i] = (uint32_t)((uint64_t)encode.scale[j][i] * encode.mod[j].r32 % q[j]);
                decode.target[i].factor[j] = (uint32_t)(random_runs() % t[i]);
            }
            uint128 rest = (uint128)1 << 96;
            for (uint32_t w = 0; w < 3; w++) {
                decode.reciprocal[j][w] = (uint32_t)(rest / q[j] >> (32 * w));
            }
        }
        encode.narrow = sum <= UINT32_MAX;
        const uint32_t at = round % 3;
        uint32_t bad = 0;
        cpu_portable.encode(z + at, STRIDE, y + at, STRIDE, width, &encode);
        for (uint32_t k = at; k < at + width; k++) {
            uint128 fraction = (uint128)1 << 63;
            for (uint32_t i = 0; i < t_count; i++) {
                fraction += (uint128)encode.fraction[i] * y[i * STRIDE + k];
            }
            for (uint32_t j = 0; j < q_count; j++) {
                uint128 all = fraction >> 64;
                for (uint32_t i = 0; i < t_count; i++) {
                    all += (uint64_t)encode.scale[j][i] * y[i * STRIDE + k];
                }
                bad += z[j * STRIDE + k] != (uint32_t)(all % q[j]);
            }
        }
        for (uint32_t body = 0; cpu_body(body) != NULL; body++) {
            cpu_body(body)->encode(x + at, STRIDE, y + at, STRIDE, width, &encode);
            for (uint32_t j = 0; j < q_count; j++) {
                bad += memcmp(x + j * STRIDE + at, z + j * STRIDE + at, width * sizeof *x) != 0;
            }
        }
        CHECK(bad == 0);

        /* any digits: the doubt is what 96 bits say */
        for (uint32_t j = 0; j < q_count; j++) {
            patterned_residues(y + j * STRIDE, STRIDE, q[j], (round + j) % PATTERNS);
        }
        decode.bound = round % 5 == 0 ? (UINT64_C(1) << 63) - 1 : random64() >> (1 + random64() % 20);
        const uint128 reach = ((uint128)decode.bound << 33) - slack;
        decode.width[0] = (uint64_t)(reach >> 32), decode.width[1] = (uint64_t)reach & UINT32_MAX;
        uint32_t doubt = 0;
        for (uint32_t k = at; k < at + width; k++) {
            uint128 fraction = 0; /* 2^96 sum y_i/q_i, below 2^101 */
            for (uint32_t j = 0; j < q_count; j++) {
                fraction += ((uint128)1 << 96) / q[j] * y[j * STRIDE + k];
            }
            const uint128 mask = ((uint128)1 << 96) - 1;
            doubt |= ((fraction + ((uint128)decode.bound << 32)) & mask) > reach;
            for (uint32_t i = 0; i < t_count; i++) {
                uint128 all = (fraction + ((uint128)1 << 95)) >> 96;
                for (uint32_t j = 0; j < q_count; j++) {
                    all += (uint64_t)decode.target[i].factor[j] * y[j * STRIDE + k];
                }
                z[i * STRIDE + k] = (uint32_t)(all % t[i]);
            }
        }
        for (uint32_t body = 0; cpu_body(body) != NULL; body++) {
            bad += cpu_body(body)->decode(x + at, STRIDE, y + at, STRIDE, width, &decode) != doubt;
            for (uint32_t i = 0; i < t_count; i++) {
                bad += memcmp(x + i * STRIDE + at, z + i * STRIDE + at, width * sizeof *x) != 0;
            }
        }
        CHECK(bad == 0);
    }
}

/* Batches are what single calls give, in any number of threads and at any distance. */
void test_batches(void) {
    enum { N = 4096, L = 3, POLY = L * N, COUNT = 5, WIDTH = 4000 };
    static const uint32_t t_primes[] = {40961, 65537, 114689};
    bfv_ring *ring = test_ring(N, chain, L, NULL);
    bfv_encoder *encoder = NULL;
    bfv_secret *secret = NULL;
    CHECK(bfv_encoder_open_batched(ring, t_primes, 3, &encoder) == BFV_OK);
    const size_t size = bfv_encrypt_bytes(N, 2), errors = bfv_error_bytes(N);
    uint8_t *rnd = test_alloc(COUNT * size);
    int8_t *key = test_alloc(N);
    uint64_t *values = test_alloc(COUNT * WIDTH * sizeof *values);
    uint32_t *pk = test_words(2 * POLY), *a = test_words(COUNT * POLY), *m = test_words(POLY);
    uint32_t *many = test_words(2 * COUNT * 2 * POLY), *one = test_words(2 * POLY),
             *slots = test_words(3 * N);
    random_residues(ring, pk, 2);
    random_residues(ring, a, COUNT);
    for (uint32_t k = 0; k < COUNT; k++) {
        patterned(rnd + k * size, size, k < 2 ? 2 * k : 5);
    }
    for (uint32_t k = 0; k < COUNT * WIDTH; k++) {
        values[k] = random_runs();
    }
    for (uint32_t k = 0; k < N; k++) {
        key[k] = (int8_t)(random64() % 3) - 1;
    }
    CHECK(bfv_secret_open(ring, key, &secret) == BFV_OK);
    for (uint32_t threads = 0; threads < 4; threads++) {
        const uint64_t stride = 1 + threads % 2;
        memset(many, 0x5a, 2 * COUNT * 2 * POLY * sizeof *many);
        CHECK(bfv_encrypt_many(ring, pk, encoder, values, 1, WIDTH, COUNT, rnd, COUNT * size, threads, many,
                               stride) == BFV_OK);
        for (uint32_t k = 0; k < COUNT; k++) {
            CHECK(bfv_encode(encoder, values + k * WIDTH, 1, WIDTH, m) == BFV_OK);
            CHECK(bfv_encrypt_public(ring, pk, m, rnd + k * size, size, one) == BFV_OK);
            CHECK(memcmp(one, many + k * stride * 2 * POLY, 2 * POLY * sizeof *one) == 0);
            CHECK(stride == 1 || k == COUNT - 1 || many[(k * 2 + 1) * 2 * POLY] == 0x5a5a5a5a);
        }
        memset(many, 0x5a, 2 * COUNT * POLY * sizeof *many);
        CHECK(bfv_secret_encrypt_many(secret, a, encoder, values, 1, WIDTH, COUNT, rnd, COUNT * errors,
                                      threads, many, stride) == BFV_OK);
        for (uint32_t k = 0; k < COUNT; k++) {
            CHECK(bfv_encode(encoder, values + k * WIDTH, 1, WIDTH, m) == BFV_OK);
            CHECK(bfv_secret_encrypt(secret, a + k * POLY, m, rnd + k * errors, errors, one) == BFV_OK);
            CHECK(memcmp(one, many + k * stride * POLY, POLY * sizeof *one) == 0);
            CHECK(stride == 1 || k == COUNT - 1 || many[(k * 2 + 1) * POLY] == 0x5a5a5a5a);
        }
    }
    /* one that can't be sampled spoils the call, and a thread or memory that lacks does not */
    memset(rnd + 3 * size, 255, size);
    CHECK(bfv_encrypt_many(ring, pk, encoder, values, 1, WIDTH, COUNT, rnd, COUNT * size, 3, many, 1) ==
          BFV_E_RANDOM);
    fault_thread = (struct fault){0, 1};
    CHECK(bfv_encrypt_many(ring, pk, encoder, values, 1, WIDTH, 3, rnd, 3 * size, 3, many, 1) == BFV_OK);
    for (uint32_t wait = 0; wait < 3; wait++) {
        fault_memory = (struct fault){wait, 1};
        CHECK(bfv_encrypt_many(ring, pk, encoder, values, 1, WIDTH, 3, rnd, 3 * size, 1, many, 1) ==
              BFV_E_MEMORY);
    }
    fault_memory = (struct fault){0, 1};
    CHECK(bfv_secret_encrypt_many(secret, a, encoder, values, 1, WIDTH, 2, rnd, 2 * errors, 1, many, 1) ==
          BFV_E_MEMORY);
    fault_memory = (struct fault){0, 1};
    CHECK(bfv_secret_slots(ring, encoder, m, 5, slots) == BFV_E_MEMORY);
    fault_memory = (struct fault){0, 0};

    /* slots beside rounding and decoding, at bounds that fixed point decides and at others */
    uint64_t t = 1, *rounded = test_alloc(N * sizeof *rounded);
    uint32_t *expected = test_words(3 * N);
    for (uint32_t i = 0; i < 3; i++) {
        t *= t_primes[i];
    }
    for (uint32_t bits = 0; bits < 63; bits++) {
        const uint64_t bound = (UINT64_C(1) << bits) - bits % 2;
        CHECK(bfv_encode(encoder, values, 1, WIDTH, m) == BFV_OK);
        const int status = bfv_secret_round(ring, m, &t, 1, 0, N, bound, rounded);
        memset(slots, 1, 3 * N * sizeof *slots);
        CHECK(bfv_secret_slots(ring, encoder, m, bound, slots) == status);
        memset(expected, 0, 3 * N * sizeof *expected);
        CHECK(status == BFV_E_NOISE || bfv_decode_slots(encoder, rounded, 1, expected) == BFV_OK);
        CHECK(memcmp(slots, expected, 3 * N * sizeof *slots) == 0);
        CHECK(bits < 50 || status == BFV_OK); /* t is 2^48: its residuals are below 2^-34 */
    }
    bfv_secret_close(secret);
    bfv_encoder_close(encoder);
    bfv_ring_close(ring);
    free(rounded), free(expected), free(slots), free(rnd), free(key), free(values);
    free(pk), free(a), free(m), free(many), free(one);
}

/* Key switching, fractions and scaled products beside what they are made of. */
void test_switching(void) {
    enum { N = 64, L = 6, K = 8, POLY = L * N, PAIRS = 3 };
    static uint32_t x[POLY], keys[L * 2 * POLY], out[2 * POLY], right[2 * POLY], y[POLY], digit[POLY];
    static uint32_t ct[PAIRS][2 * POLY], lifted[2][2][(L + K) * N], total[3][(L + K) * N], plain[3 * POLY],
        dot[3 * POLY];
    static int64_t centred[N];
    for (uint32_t body = 0; bfv_body(body) != NULL; body++) {
        bfv_ring *ring = test_ring(N, chain, L, bfv_body(body));
        random_residues(ring, x, 1);
        random_residues(ring, keys, 2 * L);
        random_residues(ring, out, 2);
        memcpy(right, out, sizeof out);
        double fractions[N], expected[N] = {0};
        memcpy(y, x, sizeof x);
        CHECK(bfv_ntt_inverse(ring, y, 1) == BFV_OK);
        for (uint32_t i = 0; i < L; i++) {
            const struct zq_mod *mod = &ring->prime[i].mod;
            uint32_t others = 1;
            for (uint32_t k = 0; k < L; k++) {
                others = k == i ? others : zq_mul(others, chain[k] % mod->p, mod);
            }
            for (uint32_t k = 0; k < N; k++) {
                const uint32_t d = zq_mul(y[i * N + k], zq_inv(others, mod), mod);
                centred[k] = d > mod->p / 2 ? (int64_t)d - mod->p : d;
                expected[k] += (double)centred[k] / mod->p;
            }
            CHECK(bfv_from_int64(ring, centred, digit) == BFV_OK &&
                  bfv_ntt_forward(ring, digit, 1) == BFV_OK);
            for (uint32_t part = 0; part < 2; part++) {
                uint32_t product[POLY];
                CHECK(bfv_poly_mul(ring, keys + (2 * i + part) * POLY, digit, 1, product) == BFV_OK);
                CHECK(bfv_poly_add(ring, right + part * POLY, product, 1, right + part * POLY) == BFV_OK);
            }
        }
        CHECK(bfv_switch_keys(ring, x, keys, out) == BFV_OK);
        CHECK(memcmp(out, right, sizeof out) == 0);
        CHECK(bfv_fractions(ring, x, 1, fractions) == BFV_OK);
        for (uint32_t k = 0; k < N; k++) {
            double far = fractions[k] - expected[k]; /* an integer, but for rounding */
            far -= (double)(int64_t)(far + (far < 0 ? -0.5 : 0.5));
            CHECK(fractions[k] >= -0.5 && fractions[k] <= 0.5 && far > -1e-12 && far < 1e-12);
        }

        bfv_lifter *lifter = NULL;
        CHECK(bfv_lifter_open(ring, chain + L, K, &lifter) == BFV_OK);
        bfv_ring *full = test_ring(N, chain, L + K, bfv_body(body));
        const uint64_t t = 1032193;
        random_residues(ring, ct[0], 2 * PAIRS);
        const uint32_t *const a[PAIRS] = {ct[0], ct[1], ct[2]}, *const b[PAIRS] = {ct[1], ct[1], ct[0]};
        memset(total, 0, sizeof total);
        for (uint32_t k = 0; k < PAIRS; k++) {
            uint32_t tensor[3][(L + K) * N];
            for (uint32_t part = 0; part < 2; part++) {
                memcpy(lifted[0][part], a[k] + part * POLY, POLY * sizeof *x);
                memcpy(lifted[1][part], b[k] + part * POLY, POLY * sizeof *x);
                CHECK(bfv_lift(lifter, a[k] + part * POLY, 1, lifted[0][part] + POLY) == BFV_OK);
                CHECK(bfv_lift(lifter, b[k] + part * POLY, 1, lifted[1][part] + POLY) == BFV_OK);
            }
            CHECK(bfv_poly_mul(full, lifted[0][0], lifted[1][0], 1, tensor[0]) == BFV_OK);
            CHECK(bfv_poly_mul(full, lifted[0][1], lifted[1][0], 1, tensor[1]) == BFV_OK);
            CHECK(bfv_poly_mul(full, lifted[0][0], lifted[1][1], 1, tensor[2]) == BFV_OK);
            CHECK(bfv_poly_add(full, tensor[1], tensor[2], 1, tensor[1]) == BFV_OK);
            CHECK(bfv_poly_mul(full, lifted[0][1], lifted[1][1], 1, tensor[2]) == BFV_OK);
            CHECK(bfv_poly_add(full, total[0], tensor[0], 3, total[0]) == BFV_OK);
            CHECK(bfv_scale_round(lifter, &t, 1, total[0], 3, plain) == BFV_OK);
            CHECK(bfv_scaled_dot(lifter, &t, 1, a, b, k + 1, dot) == BFV_OK);
            CHECK(memcmp(dot, plain, sizeof dot) == 0);
        }
        fault_memory = (struct fault){0, 1};
        CHECK(bfv_scaled_dot(lifter, &t, 1, a, b, 1, dot) == BFV_E_MEMORY);
        fault_memory = (struct fault){0, 1};
        CHECK(bfv_switch_keys(ring, x, keys, out) == BFV_E_MEMORY);
        fault_memory = (struct fault){0, 1};
        CHECK(bfv_fractions(ring, x, 1, fractions) == BFV_E_MEMORY);
        fault_memory = (struct fault){0, 0};
        CHECK(memcmp(dot, plain, sizeof dot) == 0 && memcmp(out, right, sizeof out) == 0);
        bfv_lifter_close(lifter);
        bfv_ring_close(full);
        bfv_ring_close(ring);
    }
}
