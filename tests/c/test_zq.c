/* dpu/core/zq.h: toy primes in full, the chain's primes at random and at the edges. */
#include "test.h"

#include "../../dpu/core/params_gen.h"

void test_zq_all_pairs(void) {
    static const uint32_t primes[] = {3, 5, 17, 97, 193, 257};
    for (size_t i = 0; i < sizeof primes / sizeof primes[0]; i++) {
        const uint32_t p = primes[i];
        const struct zq_mod mod = zq_mod_init(p);
        uint32_t bad = 0;
        for (uint32_t a = 0; a < p; a++) {
            bad += zq_neg(a, p) != (p - a) % p;
            for (uint32_t b = 0; b < p; b++) {
                const uint32_t quotient = zq_shoup(b, p);
                bad += zq_add(a, b, p) != (a + b) % p;
                bad += zq_sub(a, b, p) != (a + p - b) % p;
                bad += zq_mul(a, b, &mod) != a * b % p;
                bad += zq_mul_shoup(a, b, quotient, p) != a * b % p;
            }
            bad += a != 0 && zq_mul(a, zq_inv(a, &mod), &mod) != 1;
            uint32_t power = 1;
            for (uint32_t e = 0; e < 12; e++) {
                bad += zq_pow(a, e, &mod) != power;
                power = power * a % p;
            }
        }
        for (uint64_t x = 0; x < UINT64_C(1) << (2 * mod.bits); x++) {
            bad += zq_reduce_product(x, &mod) != x % p;
        }
        CHECK(bad == 0);
    }
}

void test_zq_reduce64_edges(void) {
    static const uint32_t primes[] = {3, 17, 257, 66813953, 268369921, 1073692673, 1073741789};
    for (size_t i = 0; i < sizeof primes / sizeof primes[0]; i++) {
        const uint32_t p = primes[i];
        const struct zq_mod mod = zq_mod_init(p);
        const uint64_t square = (uint64_t)(p - 1) * (p - 1);
        const uint64_t most = UINT64_MAX / square;
        const uint64_t edges[] = {0,
                                  1,
                                  p - 1,
                                  p,
                                  p + 1,
                                  UINT32_MAX,
                                  UINT64_C(1) << 32,
                                  square,
                                  square * most,
                                  UINT64_MAX - 1,
                                  UINT64_MAX,
                                  UINT64_MAX / p * p,
                                  UINT64_MAX / p * p - 1,
                                  UINT64_MAX << 32};
        uint32_t bad = 0;
        for (size_t k = 0; k < sizeof edges / sizeof edges[0]; k++) {
            bad += zq_reduce64(edges[k], &mod) != edges[k] % p;
            bad += zq_reduce32((uint32_t)edges[k], &mod) != (uint32_t)edges[k] % p;
        }
        for (uint32_t k = 0; k < 100000; k++) {
            const uint64_t x = k % 2 == 0 ? random_runs() : random64();
            bad += zq_reduce64(x, &mod) != x % p;
            bad += zq_reduce32((uint32_t)x, &mod) != (uint32_t)x % p;
        }
        CHECK(bad == 0);
    }
}

void test_zq_chain_primes(void) {
    for (uint32_t i = 0; i < CHAIN; i++) {
        const uint32_t p = chain[i];
        const struct zq_mod mod = zq_mod_init(p);
        const uint32_t edges[] = {0, 1, 2, p / 2, p / 2 + 1, p - 2, p - 1};
        uint32_t bad = 0;
        for (uint32_t k = 0; k < 20000; k++) {
            const uint32_t a = k < 49 ? edges[k / 7] : (uint32_t)(random_runs() % p);
            const uint32_t b = k < 49 ? edges[k % 7] : (uint32_t)(random_runs() % p);
            const uint32_t product = (uint32_t)((uint64_t)a * b % p);
            const uint32_t any = (uint32_t)random_runs();
            bad += zq_add(a, b, p) != (a + b) % p;
            bad += zq_sub(a, b, p) != (a + p - b) % p;
            bad += zq_mul(a, b, &mod) != product;
            bad += zq_mul_shoup(a, b, zq_shoup(b, p), p) != product;
            bad += zq_mul_shoup(any, b, zq_shoup(b, p), p) != (uint64_t)any * b % p;
            bad += zq_mul_shoup_lazy(any, b, zq_shoup(b, p), p) >= 2 * p;
        }
        CHECK(bad == 0);
    }
}

/* The generated header, the ring and the division agree on the accumulators' limits. */
void test_generated_limits(void) {
    static const struct {
        uint32_t p;
        uint64_t products, sums;
    } rows[] = {
#define ROW(prime, bits, neg_inv32, max_products, max_sums) {prime, max_products, max_sums},
        BFV_PRIMES(ROW)
#undef ROW
    };
    uint32_t known = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bfv_ring *ring = test_ring(2, &rows[i].p, 1, NULL);
        CHECK(ring->prime[0].max_products == rows[i].products);
        CHECK(ring->prime[0].max_sums == rows[i].sums);
        const unsigned __int128 square = (unsigned __int128)(rows[i].p - 1) * (rows[i].p - 1);
        CHECK(square * rows[i].products <= UINT64_MAX);
        CHECK(square * (rows[i].products + 1) > UINT64_MAX);
        bfv_ring_close(ring);
        for (uint32_t k = 0; k < CHAIN; k++) {
            known += chain[k] == rows[i].p;
        }
    }
    CHECK(known == CHAIN);
}
