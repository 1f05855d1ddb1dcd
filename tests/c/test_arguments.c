/* What the interface refuses: each with its status, and outputs unchanged. */
#include "test.h"

enum { N = 16, L = 2, POLY = L * N, COUNT = 4 };

static const bfv_desc good = {.n = N,
                              .primes = L,
                              .word = 32,
                              .parts = 2,
                              .form = BFV_FORM_NTT,
                              .purpose = BFV_POINTWISE,
                              .flags = 0,
                              .reserved = 0};

void test_put_checks_residues(void) {
    uint32_t src[2 * POLY * COUNT], back[2 * POLY * COUNT];
    for (uint32_t threads = 1; threads <= 2; threads++) {
        bfv_backend *backend = test_backend(N, chain, L, threads, NULL);
        random_residues(bfv_backend_ring(backend), src, 2 * COUNT);
        for (uint32_t flags = 0; flags <= BFV_PUT_BORROW; flags++) {
            bfv_desc desc = good;
            desc.flags = flags;
            bfv_array *array = NULL;
            bfv_ticket ticket = 0;
            uint32_t bad = 0;
            for (size_t w = 0; w < 2 * POLY * COUNT; w++) {
                const uint32_t kept = src[w];
                src[w] = w % 3 == 0 ? UINT32_MAX : chain[w / N % L];
                bad += bfv_put(backend, &desc, src, COUNT, &array, &ticket) != BFV_E_RESIDUE;
                bad += array != NULL || ticket != 0;
                src[w] = kept;
            }
            CHECK(bad == 0);
            CHECK(bfv_sync(backend) == BFV_OK); /* the caller has been told; nothing was begun */
            CHECK(bfv_put(backend, &desc, src, COUNT, &array, &ticket) == BFV_OK);
            CHECK(ticket != 0 && bfv_wait(backend, ticket) == BFV_OK);
            CHECK(bfv_get(backend, array, 0, COUNT, back) == BFV_OK);
            CHECK(memcmp(src, back, sizeof src) == 0);
            CHECK(bfv_get(backend, array, COUNT - 1, 1, back) == BFV_OK);
            CHECK(memcmp(src + 2 * POLY * (COUNT - 1), back, sizeof src / COUNT) == 0);
            /* Borrowed words are used in place; copied ones are ours. */
            src[0] ^= 1;
            CHECK(bfv_get(backend, array, 0, 1, back) == BFV_OK);
            CHECK((back[0] == src[0]) == (flags == BFV_PUT_BORROW));
            src[0] ^= 1;
            if (flags == BFV_PUT_BORROW) { /* and not written over */
                CHECK(bfv_get(backend, array, 1, 1, src) == BFV_E_ARGUMENT);
                CHECK(bfv_get(backend, array, 0, 1, src + 2 * POLY - 1) == BFV_E_ARGUMENT);
            }
            CHECK(bfv_drop(backend, array) == BFV_OK);
        }
        bfv_close(backend);
    }
    /* Big enough for threads: one bad residue in the last plane. */
    enum { BIG = 4096 };
    bfv_backend *backend = test_backend(BIG, chain, 1, 3, NULL);
    uint32_t *big = test_words((size_t)2 * BIG * 64);
    memset(big, 0, (size_t)2 * BIG * 64 * sizeof *big);
    const bfv_desc desc = {.n = BIG, .primes = 1, .word = 32, .parts = 2};
    bfv_array *array = NULL;
    big[(size_t)2 * BIG * 64 - 1] = chain[0];
    CHECK(bfv_put(backend, &desc, big, 64, &array, NULL) == BFV_E_RESIDUE && array == NULL);
    big[(size_t)2 * BIG * 64 - 1] = chain[0] - 1;
    CHECK(bfv_put(backend, &desc, big, 64, &array, NULL) == BFV_OK && array != NULL);
    bfv_close(backend);
    free(big);
}

void test_arguments(void) {
    bfv_backend *backend = NULL;
    bfv_options options = {.n = N, .count = L, .primes = chain, .threads = 1};
    CHECK(bfv_open(NULL, &options, &backend) == BFV_E_ARGUMENT);
    CHECK(bfv_open("cpu", NULL, &backend) == BFV_E_ARGUMENT);
    CHECK(bfv_open("cpu", &options, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_open("upmem", &options, &backend) == BFV_E_UNSUPPORTED);
    CHECK(bfv_open("", &options, &backend) == BFV_E_UNSUPPORTED);
    options.kernels = BFV_KERNELS_LIMB;
    CHECK(bfv_open("cpu", &options, &backend) == BFV_E_UNSUPPORTED);
    options.kernels = 2;
    CHECK(bfv_open("cpu", &options, &backend) == BFV_E_ARGUMENT);
    options.kernels = BFV_KERNELS_NTT;
    options.threads = BFV_MAX_THREADS + 1;
    CHECK(bfv_open("cpu", &options, &backend) == BFV_E_ARGUMENT);
    options.threads = 1;
    options.body = "quantum";
    CHECK(bfv_open("cpu", &options, &backend) == BFV_E_UNSUPPORTED);
    options.body = NULL;
    options.n = 12;
    CHECK(bfv_open("cpu", &options, &backend) == BFV_E_ARGUMENT && backend == NULL);

    backend = test_backend(N, chain, L, 1, NULL);
    uint32_t src[3 * POLY * COUNT];
    random_residues(bfv_backend_ring(backend), src, 3 * COUNT);
    bfv_array *const untouched = (bfv_array *)(void *)src;
    bfv_array *out = untouched;
    bfv_ticket ticket = 99;

    struct {
        bfv_desc desc;
        int status;
    } cases[] = {{good, BFV_E_ARGUMENT},    {good, BFV_E_ARGUMENT}, {good, BFV_E_UNSUPPORTED},
                 {good, BFV_E_UNSUPPORTED}, {good, BFV_E_ARGUMENT}, {good, BFV_E_ARGUMENT},
                 {good, BFV_E_UNSUPPORTED}, {good, BFV_E_ARGUMENT}, {good, BFV_E_ARGUMENT},
                 {good, BFV_E_ARGUMENT},    {good, BFV_E_ARGUMENT}, {good, BFV_E_ARGUMENT}};
    cases[0].desc.n = 2 * N;
    cases[1].desc.primes = L + 1;
    cases[2].desc.word = 64;
    cases[3].desc.word = 0;
    cases[4].desc.parts = 1;
    cases[5].desc.parts = 4;
    cases[6].desc.form = BFV_FORM_LIMB;
    cases[7].desc.form = 3;
    cases[8].desc.purpose = 2;
    cases[9].desc.flags = 2;
    cases[10].desc.flags = UINT32_MAX;
    cases[11].desc.reserved = 1;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        CHECK(bfv_put(backend, &cases[k].desc, src, COUNT, &out, &ticket) == cases[k].status);
    }
    CHECK(bfv_put(NULL, &good, src, COUNT, &out, &ticket) == BFV_E_ARGUMENT);
    CHECK(bfv_put(backend, NULL, src, COUNT, &out, &ticket) == BFV_E_ARGUMENT);
    CHECK(bfv_put(backend, &good, NULL, COUNT, &out, &ticket) == BFV_E_ARGUMENT);
    CHECK(bfv_put(backend, &good, (const uint32_t *)(const void *)((const char *)src + 1), 1, &out,
                  &ticket) == BFV_E_ARGUMENT);
    CHECK(bfv_put(backend, &good, src, COUNT, NULL, &ticket) == BFV_E_ARGUMENT);
    static const uint64_t impossible[] = {0, UINT64_MAX, UINT64_MAX / (2 * POLY * 4) + 1, UINT64_C(1) << 56,
                                          UINT64_C(1) << 63};
    for (size_t k = 0; k < sizeof impossible / sizeof impossible[0]; k++) {
        CHECK(bfv_put(backend, &good, src, impossible[k], &out, &ticket) == BFV_E_ARGUMENT);
    }
    CHECK(out == untouched && ticket == 99);

    bfv_desc shape = good;
    bfv_array *a = test_put(backend, 2, src, COUNT), *fewer = test_put(backend, 2, src, COUNT - 1);
    bfv_array *three = test_put(backend, 3, src, COUNT), *coefficients = NULL;
    shape.form = BFV_FORM_COEFFICIENT;
    CHECK(bfv_put(backend, &shape, src, COUNT, &coefficients, NULL) == BFV_OK);

    uint32_t words[3 * POLY] = {7}, factor[L] = {1, 1}, plain[POLY] = {0};
    CHECK(bfv_get(backend, a, 0, 0, words) == BFV_E_ARGUMENT);
    CHECK(bfv_get(backend, a, COUNT, 1, words) == BFV_E_ARGUMENT);
    CHECK(bfv_get(backend, a, 1, COUNT, words) == BFV_E_ARGUMENT);
    CHECK(bfv_get(backend, a, 1, UINT64_MAX, words) == BFV_E_ARGUMENT);
    CHECK(bfv_get(backend, a, UINT64_MAX, 2, words) == BFV_E_ARGUMENT);
    CHECK(bfv_get(backend, a, 0, 1, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_get(backend, NULL, 0, 1, words) == BFV_E_ARGUMENT);
    CHECK(words[0] == 7);

    CHECK(bfv_add(backend, a, fewer, &out) == BFV_E_ARGUMENT);
    CHECK(bfv_add(backend, a, three, &out) == BFV_E_ARGUMENT);
    CHECK(bfv_sub(backend, a, coefficients, &out) == BFV_E_ARGUMENT);
    CHECK(bfv_convert(backend, a, BFV_FORM_NTT, &out) == BFV_E_ARGUMENT);
    CHECK(bfv_convert(backend, a, BFV_FORM_LIMB, &out) == BFV_E_ARGUMENT);
    CHECK(bfv_convert(backend, a, UINT32_MAX, &out) == BFV_E_ARGUMENT);
    CHECK(bfv_convert(backend, NULL, BFV_FORM_COEFFICIENT, &out) == BFV_E_ARGUMENT);
    CHECK(bfv_convert(backend, a, BFV_FORM_COEFFICIENT, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_sub(backend, NULL, a, &out) == BFV_E_ARGUMENT);
    CHECK(bfv_add(backend, a, a, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_neg(backend, NULL, &out) == BFV_E_ARGUMENT);
    CHECK(bfv_mul(backend, three, three, &out) == BFV_E_ARGUMENT);
    CHECK(bfv_mul(backend, coefficients, coefficients, &out) == BFV_E_ARGUMENT);
    CHECK(bfv_add_plain(backend, a, NULL, &out) == BFV_E_ARGUMENT);
    CHECK(bfv_mul_plain(backend, coefficients, plain, &out) == BFV_E_ARGUMENT);
    plain[POLY - 1] = chain[L - 1];
    CHECK(bfv_mul_plain(backend, a, plain, &out) == BFV_E_RESIDUE);
    CHECK(bfv_add_plain(backend, a, plain, &out) == BFV_E_RESIDUE);
    CHECK(out == untouched);

    bfv_acc *const no_acc = (bfv_acc *)(void *)src;
    bfv_acc *acc = no_acc;
    CHECK(bfv_acc_new(backend, 3, 3, &acc) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_new(backend, BFV_ACC_SCALED, 2, &acc) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_new(backend, BFV_ACC_SCALED, 3, &acc) == BFV_E_UNSUPPORTED); /* no wide primes */
    CHECK(bfv_acc_new(backend, BFV_ACC_PRODUCT, 2, &acc) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_new(backend, BFV_ACC_SUM, 1, &acc) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_new(backend, BFV_ACC_SUM, 4, &acc) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_new(backend, BFV_ACC_SUM, 2, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_new(NULL, BFV_ACC_SUM, 2, &acc) == BFV_E_ARGUMENT);
    CHECK(acc == no_acc);
    bfv_acc *sum = NULL, *sum3 = NULL, *product = NULL;
    CHECK(bfv_acc_new(backend, BFV_ACC_SUM, 2, &sum) == BFV_OK);
    CHECK(bfv_acc_new(backend, BFV_ACC_SUM, 3, &sum3) == BFV_OK);
    CHECK(bfv_acc_new(backend, BFV_ACC_PRODUCT, 3, &product) == BFV_OK);

    static const uint64_t terms[][3] = {/* first, stride, count */
                                        {0, 1, 0},          {0, 0, 1},
                                        {COUNT, 1, 1},      {0, 1, COUNT + 1},
                                        {0, 2, 3},          {1, 3, 2},
                                        {0, UINT64_MAX, 2}, {1, UINT64_MAX, UINT64_MAX},
                                        {UINT64_MAX, 1, 1}, {1, UINT64_C(1) << 63, 3}};
    for (size_t k = 0; k < sizeof terms / sizeof terms[0]; k++) {
        const uint64_t first = terms[k][0], stride = terms[k][1], count = terms[k][2];
        CHECK(bfv_acc_add(backend, sum, a, first, stride, count) == BFV_E_ARGUMENT);
        CHECK(bfv_acc_mul(backend, product, a, first, a, 0, stride, count) == BFV_E_ARGUMENT);
        CHECK(bfv_acc_mul(backend, product, a, 0, a, first, stride, count) == BFV_E_ARGUMENT);
    }
    CHECK(bfv_acc_add(backend, sum, three, 0, 1, 1) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_add(backend, sum3, a, 0, 1, 1) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_add(backend, product, three, 0, 1, 1) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_add(backend, sum, coefficients, 0, 1, 1) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_mul(backend, sum3, a, 0, a, 0, 1, 1) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_mul(backend, product, a, 0, three, 0, 1, 1) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_mul(backend, product, coefficients, 0, a, 0, 1, 1) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_mul(backend, product, a, 0, NULL, 0, 1, 1) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_merge(backend, sum, sum) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_merge(backend, sum, sum3) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_merge(backend, sum3, product) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_merge(backend, sum, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_save(backend, sum, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_load(backend, sum, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_save(backend, sum, (uint32_t *)(void *)((char *)words + 2)) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_load(backend, sum, (uint32_t *)(void *)((char *)words + 1)) == BFV_E_ARGUMENT);
    memset(words, 0, sizeof words);
    words[2 * POLY - 1] = chain[L - 1];
    CHECK(bfv_acc_load(backend, sum, words) == BFV_E_RESIDUE);
    CHECK(bfv_acc_finish(backend, sum, NULL, &out) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_finish(backend, sum, factor, NULL) == BFV_E_ARGUMENT);
    factor[L - 1] = chain[L - 1];
    CHECK(bfv_acc_finish(backend, sum, factor, &out) == BFV_E_RESIDUE);
    CHECK(out == untouched);
    /* Nothing of that reached the accumulators. */
    CHECK(bfv_acc_save(backend, product, words) == BFV_OK);
    uint32_t set = 0;
    for (size_t w = 0; w < 3 * POLY; w++) {
        set |= words[w];
    }
    CHECK(bfv_acc_save(backend, sum, words) == BFV_OK);
    for (size_t w = 0; w < 2 * POLY; w++) {
        set |= words[w];
    }
    CHECK(set == 0);

    CHECK(bfv_wait(backend, 0) == BFV_E_ARGUMENT);
    CHECK(bfv_wait(backend, 5) == BFV_E_ARGUMENT);
    CHECK(bfv_wait(backend, 4) == BFV_OK);
    CHECK(bfv_wait(NULL, 1) == BFV_E_ARGUMENT && bfv_sync(NULL) == BFV_E_ARGUMENT);
    bfv_info info = {.name = "x"};
    bfv_stats stats = {.sums = 5};
    CHECK(bfv_get_info(NULL, &info) == BFV_E_ARGUMENT && info.name[0] == 'x');
    CHECK(bfv_get_stats(NULL, &stats) == BFV_E_ARGUMENT && stats.sums == 5);
    CHECK(bfv_get_info(backend, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_get_stats(backend, NULL) == BFV_E_ARGUMENT);
    bfv_event event = {.times = 7};
    uint32_t events = 3;
    CHECK(bfv_get_events(NULL, &event, 1, &events) == BFV_E_ARGUMENT && events == 3);
    CHECK(bfv_get_events(backend, NULL, 1, &events) == BFV_E_ARGUMENT && events == 3);
    CHECK(bfv_get_events(backend, &event, 1, NULL) == BFV_E_ARGUMENT && event.times == 7);
    CHECK(bfv_get_events(backend, NULL, 0, &events) == BFV_OK && events == 0); /* "cpu" records nothing */
    CHECK(bfv_get_info(backend, &info) == BFV_OK && strcmp(info.name, "cpu") == 0);
    CHECK(strcmp(info.body, bfv_ring_body(bfv_backend_ring(backend))) == 0);
    CHECK(info.kernels == BFV_KERNELS_NTT && info.threads == 1);
    CHECK(info.dpus == 0 && info.tasklets == 0);
    CHECK(bfv_backend_ring(NULL) == NULL);
    bfv_close(backend);
    bfv_close(NULL);
}

/* Another backend's handles, dropped ones and nonsense. */
void test_handles(void) {
    bfv_backend *backend = test_backend(N, chain, L, 1, NULL);
    bfv_backend *stranger = test_backend(N, chain, L, 1, NULL);
    uint32_t src[2 * POLY] = {0}, words[2 * POLY], factor[L] = {1, 1}, nonsense[64] = {1, 2, 3};
    bfv_array *a = test_put(backend, 2, src, 1), *gone = test_put(backend, 2, src, 1), *out = NULL;
    bfv_acc *acc = NULL, *theirs = NULL;
    CHECK(bfv_acc_new(backend, BFV_ACC_SUM, 2, &acc) == BFV_OK);
    CHECK(bfv_acc_new(stranger, BFV_ACC_SUM, 2, &theirs) == BFV_OK);

    CHECK(bfv_get(stranger, a, 0, 1, words) == BFV_E_ARGUMENT);
    CHECK(bfv_add(stranger, a, a, &out) == BFV_E_ARGUMENT);
    CHECK(bfv_drop(stranger, a) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_add(stranger, theirs, a, 0, 1, 1) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_add(backend, theirs, a, 0, 1, 1) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_merge(backend, acc, theirs) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_drop(backend, theirs) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_finish(backend, theirs, factor, &out) == BFV_E_ARGUMENT);

    CHECK(bfv_drop(backend, gone) == BFV_OK);
    CHECK(bfv_drop(backend, gone) == BFV_E_ARGUMENT);
    CHECK(bfv_get(backend, gone, 0, 1, words) == BFV_E_ARGUMENT);
    CHECK(bfv_drop(backend, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_drop(backend, NULL) == BFV_E_ARGUMENT);
    CHECK(bfv_get(backend, (bfv_array *)(void *)nonsense, 0, 1, words) == BFV_E_ARGUMENT);
    CHECK(bfv_acc_save(backend, (bfv_acc *)(void *)a, words) == BFV_E_ARGUMENT);
    CHECK(bfv_sync((bfv_backend *)(void *)nonsense) == BFV_E_ARGUMENT);
    CHECK(bfv_ntt_forward((const bfv_ring *)(void *)nonsense, words, 1) == BFV_E_ARGUMENT);
    CHECK(bfv_get(backend, a, 0, 1, words) == BFV_OK);
    CHECK(bfv_acc_drop(backend, acc) == BFV_OK);
    CHECK(bfv_acc_drop(backend, acc) == BFV_E_ARGUMENT);
    CHECK(out == NULL);
    bfv_close(backend);
    bfv_close(stranger); /* drops what it owns: the leak check of a sanitizer build sees */
}

/* Every allocation of every function fails once: BFV_E_MEMORY, nothing lost or changed. */
void test_out_of_memory(void) {
    uint32_t src[2 * POLY] = {0}, factor[L] = {1, 1};
    const bfv_options options = {.n = N, .count = L, .primes = chain, .threads = 1};
    uint32_t failures = 0;
    for (uint32_t wait = 0; wait < 64; wait++) {
        bfv_backend *backend = NULL;
        bfv_array *a = NULL, *b = NULL, *c = NULL, *d = NULL, *e = NULL;
        bfv_acc *acc = NULL;
        bfv_desc borrow = good;
        borrow.flags = BFV_PUT_BORROW;
        fault_memory = (struct fault){.wait = wait, .fail = 1};
        int status = bfv_open("cpu", &options, &backend);
        if (status == BFV_OK) {
            status = bfv_put(backend, &good, src, 1, &a, NULL);
        }
        if (status == BFV_OK) {
            status = bfv_put(backend, &borrow, src, 1, &b, NULL);
        }
        if (status == BFV_OK) {
            status = bfv_mul(backend, a, b, &c);
        }
        if (status == BFV_OK) {
            status = bfv_neg(backend, a, &d);
        }
        if (status == BFV_OK) {
            status = bfv_acc_new(backend, BFV_ACC_SUM, 2, &acc);
        }
        if (status == BFV_OK) {
            status = bfv_acc_finish(backend, acc, factor, &e);
        }
        const bool struck = fault_memory.fail == 0;
        fault_memory = (struct fault){0, 0};
        CHECK(status == (struck ? BFV_E_MEMORY : BFV_OK));
        CHECK((status == BFV_OK) == (e != NULL));
        failures += struck;
        bfv_close(backend);
    }
    CHECK(failures >= 15 && failures < 64);
}
