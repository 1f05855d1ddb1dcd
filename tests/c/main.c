/* Runs all tests, or those named on the command line; prints "N passed, M failed". */
#include <pthread.h>
#include <stdio.h>

#include "test.h"

const uint32_t chain[CHAIN] = {67043329,  134348801, 132120577, 67239937, 134250497, 268369921,
                               66813953,  136314881, 41680897,  83361793, 135135233, 141557761,
                               150863873, 167510017, 234356737, 268238849};

static uint32_t failed_checks;

void test_check(bool ok, const char *file, int line, const char *text) {
    if (!ok) {
        failed_checks++;
        fprintf(stderr, "%s:%d: failed: %s\n", file, line, text);
    }
}

uint64_t random64(void) {
    static uint64_t state[2] = {0x9e3779b97f4a7c15u, 0xd1b54a32d192ed03u};
    uint64_t x = state[0];
    const uint64_t y = state[1];
    state[0] = y;
    x ^= x << 23;
    state[1] = x ^ y ^ (x >> 17) ^ (y >> 26);
    return state[1] + y;
}

uint64_t random_runs(void) {
    uint64_t word = 0, noise = random64();
    uint32_t filled = 0;
    while (filled < 64) {
        const uint32_t length = (uint32_t)(noise & 15) + 1;
        const uint64_t bit = (noise >> 4) & 1;
        word |= (0 - bit) << filled; /* the next run overwrites what is too long */
        if (filled + length < 64) {
            word &= (UINT64_C(1) << (filled + length)) - 1;
        }
        filled += length;
        noise = filled % 3 == 0 ? random64() : noise >> 5;
    }
    return word;
}

void random_residues(const bfv_ring *ring, uint32_t *x, uint64_t polys) {
    for (uint64_t plane = 0; plane < polys * ring->count; plane++, x += ring->n) {
        const uint32_t p = ring->prime[plane % ring->count].p;
        for (uint32_t k = 0; k < ring->n; k++) {
            const uint64_t choice = random64() % 8;
            x[k] = choice == 0   ? 0
                   : choice == 1 ? p - 1
                   : choice < 4  ? (uint32_t)(random_runs() % p)
                                 : (uint32_t)(random64() % p);
        }
    }
}

void *test_alloc(size_t size) {
    void *data = malloc(size);
    if (data == NULL) {
        fputs("no memory for the tests\n", stderr);
        exit(2);
    }
    return data;
}

uint32_t *test_words(size_t count) {
    return test_alloc(count * sizeof(uint32_t));
}

bfv_ring *test_ring(uint32_t n, const uint32_t *primes, uint32_t count, const char *body) {
    bfv_ring *ring = NULL;
    if (bfv_ring_open(n, primes, count, body, &ring) != BFV_OK) {
        fprintf(stderr, "no ring for N = %u\n", n);
        exit(2);
    }
    return ring;
}

bfv_backend *test_backend(uint32_t n, const uint32_t *primes, uint32_t count, uint32_t threads,
                          const char *body) {
    const bfv_options options = {.n = n,
                                 .count = count,
                                 .primes = primes,
                                 .kernels = BFV_KERNELS_NTT,
                                 .threads = threads,
                                 .body = body};
    bfv_backend *backend = NULL;
    if (bfv_open("cpu", &options, &backend) != BFV_OK) {
        fprintf(stderr, "no backend for N = %u\n", n);
        exit(2);
    }
    return backend;
}

bfv_array *test_put(bfv_backend *backend, uint32_t parts, const uint32_t *src, uint64_t count) {
    const bfv_ring *ring = bfv_backend_ring(backend);
    const bfv_desc desc = {.n = ring->n,
                           .primes = ring->count,
                           .word = 32,
                           .parts = parts,
                           .form = BFV_FORM_NTT,
                           .purpose = BFV_POINTWISE,
                           .flags = 0,
                           .reserved = 0};
    bfv_array *array = NULL;
    CHECK(bfv_put(backend, &desc, src, count, &array, NULL) == BFV_OK);
    return array;
}

/* ---- injected faults: the linker sends the library's calls here ------------ */

struct fault fault_thread, fault_memory;

static bool strikes(struct fault *fault) {
    if (fault->fail == 0) {
        return false;
    }
    if (fault->wait != 0) {
        fault->wait--;
        return false;
    }
    fault->fail--;
    return true;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                          void *argument) {
    return strikes(&fault_thread) ? 11 : __real_pthread_create(thread, attributes, start, argument);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) {
    return strikes(&fault_memory) ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return strikes(&fault_memory) ? NULL : __real_calloc(count, size);
}

void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size) {
    return strikes(&fault_memory) ? NULL : __real_aligned_alloc(align, size);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
#define ENTRY(name) {#name, test_##name},
        TESTS(ENTRY)
#undef ENTRY
    };
    uint32_t passed = 0, failed = 0;
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        bool wanted = argc == 1;
        for (int k = 1; k < argc; k++) {
            wanted = wanted || strcmp(argv[k], tests[i].name) == 0;
        }
        if (!wanted) {
            continue;
        }
        failed_checks = 0;
        tests[i].run();
        if (failed_checks == 0) {
            passed++;
        } else {
            failed++;
            fprintf(stderr, "%s: %u checks failed\n", tests[i].name, failed_checks);
        }
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed == 0 && passed != 0 ? 0 : 1;
}
