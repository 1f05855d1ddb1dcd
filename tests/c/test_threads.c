/* Many callers at once: backends of their own, whose threads come on top, over one shared ring. */
#include <pthread.h>

#include "test.h"

enum { CALLERS = 24, N = 2048, L = 4, COUNT = 40, WORDS = 2 * L * N, STATES = WORDS + 3 * L * N };

struct caller {
    const bfv_ring *ring; /* shared */
    const uint32_t *src;  /* shared, [COUNT][2][L][N] */
    uint32_t threads;
    bool failed;
    uint32_t *out;  /* [STATES]: a sum, a product */
    uint32_t *poly; /* [WORDS]: a round trip */
};

static void *call(void *argument) {
    struct caller *caller = argument;
    const bfv_options options = {.n = N, .count = L, .primes = chain, .threads = caller->threads};
    const bfv_desc desc = {.n = N, .primes = L, .word = 32, .parts = 2, .form = BFV_FORM_NTT};
    for (uint32_t round = 0; round < 3; round++) {
        bfv_backend *backend = NULL;
        bfv_array *array = NULL;
        bfv_acc *sum = NULL, *product = NULL;
        bool good = bfv_open("cpu", &options, &backend) == BFV_OK;
        good = good && bfv_put(backend, &desc, caller->src, COUNT, &array, NULL) == BFV_OK;
        good = good && bfv_acc_new(backend, BFV_ACC_SUM, 2, &sum) == BFV_OK;
        good = good && bfv_acc_new(backend, BFV_ACC_PRODUCT, 3, &product) == BFV_OK;
        good = good && bfv_acc_add(backend, sum, array, 0, 1, COUNT) == BFV_OK;
        good = good && bfv_acc_mul(backend, product, array, 0, array, 1, 1, COUNT - 1) == BFV_OK;
        good = good && bfv_acc_save(backend, sum, caller->out) == BFV_OK;
        good = good && bfv_acc_save(backend, product, caller->out + WORDS) == BFV_OK;
        bfv_close(backend);
        memcpy(caller->poly, caller->src, WORDS * sizeof *caller->poly);
        good = good && bfv_ntt_inverse(caller->ring, caller->poly, 2) == BFV_OK;
        good = good && bfv_ntt_forward(caller->ring, caller->poly, 2) == BFV_OK;
        good = good && memcmp(caller->poly, caller->src, WORDS * sizeof *caller->poly) == 0;
        caller->failed = caller->failed || !good;
    }
    return NULL;
}

void test_many_threads(void) {
    bfv_ring *ring = test_ring(N, chain, L, NULL);
    uint32_t *src = test_words((size_t)WORDS * COUNT);
    random_residues(ring, src, 2 * COUNT);
    struct caller callers[CALLERS];
    pthread_t threads[CALLERS];
    for (uint32_t k = 0; k < CALLERS; k++) {
        callers[k] = (struct caller){.ring = ring,
                                     .src = src,
                                     .threads = 1 + k % 3,
                                     .out = test_words(STATES),
                                     .poly = test_words(WORDS)};
    }
    call(&callers[0]); /* alone: what the others must give, too */
    uint32_t *alone = test_words(STATES);
    memcpy(alone, callers[0].out, STATES * sizeof *alone);
    for (uint32_t k = 0; k < CALLERS; k++) {
        memset(callers[k].out, 0, STATES * sizeof *alone);
        CHECK(pthread_create(&threads[k], NULL, call, &callers[k]) == 0);
    }
    for (uint32_t k = 0; k < CALLERS; k++) {
        CHECK(pthread_join(threads[k], NULL) == 0);
        CHECK(!callers[k].failed);
        CHECK(memcmp(callers[k].out, alone, STATES * sizeof *alone) == 0);
        free(callers[k].out);
        free(callers[k].poly);
    }
    free(alone);
    free(src);
    bfv_ring_close(ring);
}
