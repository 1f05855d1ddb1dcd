/* Cases of programs that run: tasklets, DMA, memory, faults, schedules. */
#include "conform.h"

#include <time.h>

static void expect_fault(const char *profile, dpu_error_t error, enum command command, uint64_t a, uint64_t b,
                         uint64_t c, const char *part) {
    struct dpu_set_t set = open_set(3, profile);
    bool done = false, fault = false;
    EXPECT(error, launch(set, command, a, b, c));
    REPORT(set, part, "DPU ");
    OK(dpu_status(set, &done, &fault));
    CHECK(done && fault);
    EXPECT(error, dpu_launch(set, DPU_SYNCHRONOUS)); /* it stays in fault, */
    (void)read_word(set, 0, "launches", 0);          /* can still be read, */
    OK(dpu_load(set, program, NULL));                /* until the next load */
    OK(launch(set, NOTHING, 0, 0, 0));
    OK(dpu_free(set));
}

/* Tasklets of different counts; state that stays over launches. */
static void tasklets(const char *profile) {
    struct dpu_set_t set = open_set(3, profile);
    static const uint32_t counts[] = {1, 2, 11, 16, 24};
    for (uint32_t k = 0; k < 5; k++) {
        OK(dpusim_set_tasklets(set, counts[k]));
        OK(launch(set, WHO, 0, 0, 0));
        for (uint32_t d = 0; d < 3; d++)
            for (uint32_t i = 0; i < counts[k]; i++)
                CHECK(heap_word(set, d, 16 * i) == i && heap_word(set, d, 16 * i + 8) == counts[k]);
    }
    CHECK(read_word(set, 2, "launches", 0) == 5);
    for (uint32_t i = 0; i < 2; i++)
        OK(launch(set, OWN_MRAM, 0, 0, 0));
    CHECK(read_word(set, 1, "result", 0) == 42 && read_word(set, 1, "table", 0) == 12);
    OK(launch(set, CLOCK, 0, 0, 0));
    CHECK(read_word(set, 0, "result", 0) == 1);
    OK(dpu_free(set));
    char few[96];
    snprintf(few, sizeof few, "%s,tasklets=5", profile);
    set = open_set(1, few);
    OK(launch(set, WHO, 0, 0, 0));
    CHECK(heap_word(set, 0, 16 * 4 + 8) == 5);
    OK(dpu_free(set));
}

static void synchronisation(const char *profile) {
    struct dpu_set_t set = open_set(3, profile);
    OK(launch(set, COUNT, 20, 0, 0));
    CHECK(heap_word(set, 2, 0) == 20 * 24);
    OK(launch(set, TRY_COUNT, 5, 0, 0));
    CHECK(heap_word(set, 1, 0) == 5 * 24);
    OK(launch(set, HAND_OVER, 3, 0, 0));
    CHECK(read_word(set, 0, "result", 0) == 23);
    OK(launch(set, SEMAPHORE, 23, 0, 0));
    CHECK(read_word(set, 0, "result", 0) == 23);
    OK(launch(set, HANDSHAKE, 24, 0, 0));
    OK(launch(set, HANDSHAKE_TWICE, 0, 0, 0));
    CHECK(read_word(set, 2, "result", 0) == 101);
    EXPECT(DPU_ERR_TIMEOUT, launch(set, DEADLOCK, 0, 0, 0));
    REPORT(set, "calls.c:", "a mutex");
    OK(dpu_free(set));
    set = open_set(2, profile);
    EXPECT(DPU_ERR_DPU_FAULT, launch(set, FAULT_AND_WAIT, 0, 0, 0)); /* breaks the others' barrier */
    REPORT(set, "calls.c:", "halt", "tasklet 0");
    OK(dpu_free(set));
}

static void test_tasklets_strict(void) {
    tasklets(STRICT);
}
static void test_tasklets_faithful(void) {
    tasklets(FAITHFUL);
}
static void test_synchronisation_strict(void) {
    synchronisation(STRICT);
}
static void test_synchronisation_faithful(void) {
    synchronisation(FAITHFUL);
}
static void test_tasklets_threads(void) {
    tasklets(STRICT ",threads=1");
}
static void test_synchronisation_threads(void) {
    synchronisation("strict=0,threads=1");
}

static void test_dma_strict(void) {
    const struct {
        uint64_t a, b, c;
        const char *part;
    } cases[] = {
        {0, 0, 12, "12 bytes: not a multiple of 8"},
        {0, 0, 2056, "2056 bytes: not a multiple of 8 from 8 to 2048"},
        {0, 0, 0, "0 bytes"},
        {4, 0, 8, "the MRAM address is not a multiple of 8"},
        {0, 4, 8, "the WRAM address is not a multiple of 8"},
        {(64u << 20) - 32 - 8, 0, 16, "outside MRAM"},
        {-(uint64_t)4096, 0, 8, "outside MRAM"},
        {0, 40000, 2048, "the buffer is not all in WRAM"},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_fault(STRICT, DPU_ERR_DPU_FAULT, DMA_READ, cases[i].a, cases[i].b, cases[i].c, cases[i].part);
        expect_fault(STRICT, DPU_ERR_DPU_FAULT, DMA_WRITE, cases[i].a, cases[i].b, cases[i].c, cases[i].part);
    }
    expect_fault(STRICT, DPU_ERR_DPU_FAULT, DMA_NOWHERE, 0, 0, 0, "not all in WRAM");
    struct dpu_set_t set = open_set(1, STRICT);
    EXPECT(DPU_ERR_DPU_FAULT, launch(set, DMA_READ, (64u << 20) - 32 - 2048, 8, 2048));
    REPORT(set, "calls.c:", "mram_read of 2048 bytes of MRAM that nobody wrote");
    OK(dpu_load(set, program, NULL));
    OK(launch(set, DMA_WRITE, (64u << 20) - 32 - 2048, 8, 2048));
    OK(launch(set, DMA_READ, (64u << 20) - 32 - 2048, 8, 2048));
    EXPECT(DPU_ERR_DPU_FAULT, launch(set, DMA_READ, 0, 0, 12));
    REPORT(set, "calls.c:", "DPU 0 tasklet 0", "mram_read", "seed 7");
    OK(dpu_free(set));
}

/* What the hardware does without a word. */
static void test_dma_faithful(void) {
    struct dpu_set_t set = open_set(1, FAITHFUL);
    uint64_t zeros[320] = {0};
    const char *heap = DPU_MRAM_HEAP_POINTER_NAME;
    const uint64_t ramp = UINT64_C(0x0706050403020100);
    OK(launch(set, DMA_WRITE, 4, 4, 20)); /* to 0, from 0, 16 bytes */
    CHECK(heap_word(set, 0, 0) == ramp && heap_word(set, 0, 16) == 0);
    OK(launch(set, DMA_READ, 13, 6, 8)); /* from 8 to 0 */
    CHECK(read_word(set, 0, "result", 0) == ramp + UINT64_C(0x0808080808080808));
    OK(dpu_copy_to(set, heap, 0, zeros, sizeof zeros));
    OK(launch(set, DMA_WRITE, 0, 0, 2056)); /* 8 bytes */
    CHECK(heap_word(set, 0, 0) == ramp && heap_word(set, 0, 8) == 0);
    OK(launch(set, DMA_WRITE, 0, 0, 0)); /* 2,048 bytes */
    CHECK(heap_word(set, 0, 2040) != 0 && heap_word(set, 0, 2048) == 0);
    EXPECT(DPU_ERR_DPU_FAULT, launch(set, DMA_READ, (64u << 20) - 32 - 8, 0, 16));
    REPORT(set, "outside MRAM");
    OK(dpu_free(set));
}

static void memory(const char *profile) {
    struct dpu_set_t set = open_set(2, profile);
    /* 64 KB less stacks (24 * (1024 + 8)), static data and the program's own 32 bytes */
    OK(launch(set, ALLOCATE, 40000, 0, 0));
    CHECK(read_word(set, 0, "result", 0) % 8 == 0);
    EXPECT(DPU_ERR_DPU_FAULT, launch(set, ALLOCATE, 41000, 0, 0));
    REPORT(set, "calls.c:", "mem_alloc of 41000 bytes");
    OK(dpu_load(set, program, NULL));
    OK(launch(set, ALLOCATE, 20000, 0, 0));
    uint64_t first = read_word(set, 0, "result", 0);
    OK(launch(set, ALLOCATE_KEEP, 20000, 0, 0)); /* the pointer persists */
    CHECK(read_word(set, 0, "result", 0) == first + 20000);
    EXPECT(DPU_ERR_DPU_FAULT, launch(set, ALLOCATE_KEEP, 20000, 0, 0));
    OK(dpu_free(set));
}

static void test_memory_strict(void) {
    memory(STRICT);
    struct dpu_set_t set = open_set(1, STRICT);
    OK(launch(set, ALLOCATE, 8, 0, 0));
    CHECK(read_word(set, 0, "result", 0) % 16 == 8); /* no more aligned than promised */
    OK(dpu_free(set));
}
static void test_memory_faithful(void) {
    memory(FAITHFUL);
}

static void faults(const char *profile) {
    expect_fault(profile, DPU_ERR_DPU_FAULT, HALT, 0, 0, 0, "halt (fault 4)");
    expect_fault(profile, DPU_ERR_DPU_FAULT, ASSERT, 0, 0, 0, "assert(args.a == 12345) (fault 3)");
#if defined(__x86_64__)
    expect_fault(profile, DPU_ERR_DPU_FAULT, DIVIDE, 0, 0, 0, "division by zero");
    expect_fault(profile, DPU_ERR_DPU_FAULT, BREAKPOINT, 0, 0, 0, "trap (a check of the program failed)");
#endif
    expect_fault(profile, DPU_ERR_DPU_FAULT, BEYOND_WRAM, 0, 0, 0, "access beyond WRAM, at program+0x");
    expect_fault(profile, DPU_ERR_DPU_FAULT, NULL_POINTER, 0, 0, 0, "access through a null pointer");
    expect_fault(profile, DPU_ERR_DPU_FAULT, RECURSE, 100000, 0, 0, "stack overflow");
    expect_fault(profile, DPU_ERR_DPU_FAULT, TRAP, 0, 0, 0, "trap (a check of the program failed)");
    /* far from any memory of the DPU, and still no memory of the host */
    const uint64_t far = UINT64_C(15) << 20;
    expect_fault(profile, DPU_ERR_DPU_FAULT, STRAY_HEAP, far, 0, 0, "access beyond WRAM");
    expect_fault(profile, DPU_ERR_DPU_FAULT, STRAY_HEAP, -far, 0, 0, "outside its memories");
    expect_fault(profile, DPU_ERR_DPU_FAULT, STRAY_STACK, far, 0, 0, "outside its memories");
    expect_fault(profile, DPU_ERR_DPU_FAULT, STRAY_STACK, -far, 0, 0, "stack overflow");
    expect_fault(profile, DPU_ERR_DPU_FAULT, STRAY_MRAM, (64u << 20) + far, 0, 0, "outside its memories");
    expect_fault(profile, DPU_ERR_DPU_FAULT, STRAY_MRAM, -far, 0, 0, "outside its memories");
}

static void test_faults_strict(void) {
    faults(STRICT);
    expect_fault(STRICT, DPU_ERR_DPU_FAULT, RECURSE, 400, 0, 0, "stack overflow");
    struct dpu_set_t set = open_set(1, STRICT);
    EXPECT(DPU_ERR_DPU_FAULT, launch(set, TRAP, 0, 0, 0));
    REPORT(set, "DPU 0 tasklet 0", "trap", "seed 7");
    OK(dpu_free(set));
}
static void test_faults_faithful(void) {
    faults(FAITHFUL);
    struct dpu_set_t set = open_set(1, FAITHFUL);
    OK(launch(set, RECURSE, 400, 0, 0)); /* silent on the hardware too */
    OK(dpu_free(set));
}

static void test_too_few(void) {
    struct dpu_set_t set = open_set(1, FAITHFUL);
    OK(launch(set, TOO_FEW, 0, 0, 0)); /* success, */
    OK(dpu_free(set));
    set = open_set(1, STRICT);
    EXPECT(DPU_ERR_DPU_FAULT, launch(set, TOO_FEW, 0, 0, 0));
    REPORT(set, "calls.c:", "still blocked at the end", "a barrier", "tasklets 0, 2, 3", "seed 7");
    OK(dpu_free(set));
    set = open_set(1, STRICT ",threads=1");
    EXPECT(DPU_ERR_DPU_FAULT, launch(set, TOO_FEW, 0, 0, 0));
    REPORT(set, "still blocked at the end");
    OK(dpu_free(set));
}

static void test_too_few_text(void) {
    struct dpu_set_t set = open_set(1, STRICT);
    EXPECT(DPU_ERR_DPU_FAULT, launch(set, TOO_FEW, 0, 0, 0));
    puts(dpusim_last_error(set));
    OK(dpu_free(set));
}

/* Needs a program that counts its basic blocks. */
static void test_endless(void) {
    expect_fault(STRICT ",timeout=100", DPU_ERR_TIMEOUT, ENDLESS, 0, 0, 0, "no end after 100 ms");
    expect_fault(FAITHFUL ",timeout=100", DPU_ERR_TIMEOUT, ENDLESS, 0, 0, 0, "no end after 100 ms");
    struct dpu_set_t set = open_set(2, STRICT);
    OK(launch(set, SPIN, 0, 0, 0));
    OK(dpu_free(set));
    set = open_set(2, FAITHFUL);
    OK(launch(set, SPIN, 0, 0, 0));
    OK(dpu_free(set));
}

/* How many of 20 seeds give another result than the right one. */
static uint32_t mismatches(enum command command) {
    uint32_t wrong = 0;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        char profile[64];
        snprintf(profile, sizeof profile, "strict=1,seed=%u", seed);
        struct dpu_set_t set = open_set(1, profile);
        OK(launch(set, command, 4, 0, 0));
        bool counts = command == COUNT || command == COUNT_RACE;
        uint64_t got = counts ? heap_word(set, 0, 0) : read_word(set, 0, "result", 0);
        wrong += got != (counts ? 4 * 24 : 23);
        OK(dpu_free(set));
    }
    return wrong;
}

static void test_races(void) {
    CHECK(mismatches(COUNT) == 0);
    CHECK(mismatches(COUNT_RACE) >= 18);
    CHECK(mismatches(HAND_OVER) == 0);
    CHECK(mismatches(HAND_OVER_RACE) >= 18);
}

/* The same seed, the same schedule. */
static void test_seeds(void) {
    uint64_t got[2][8];
    for (uint32_t k = 0; k < 2; k++) {
        struct dpu_set_t set =
            open_set(8, k == 0 ? "strict=1,seed=3,workers=1" : "strict=1,seed=3,workers=4");
        OK(launch(set, COUNT_RACE, 20, 0, 0));
        for (uint32_t i = 0; i < 8; i++)
            got[k][i] = heap_word(set, i, 0);
        OK(dpu_free(set));
    }
    CHECK(memcmp(got[0], got[1], sizeof *got) == 0);
    CHECK(got[0][0] != got[0][1] || got[0][0] != got[0][2]);
}

/* For a build under ThreadSanitizer, which reports the race itself. */
static void test_race_count(void) {
    struct dpu_set_t set = open_set(2, FAITHFUL);
    (void)launch(set, COUNT_RACE, 20, 0, 0);
    OK(dpu_free(set));
}
static void test_race_hand_over(void) {
    struct dpu_set_t set = open_set(2, FAITHFUL);
    (void)launch(set, HAND_OVER_RACE, 3, 0, 0);
    OK(dpu_free(set));
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void test_parallel(void) {
    struct dpu_set_t set = open_set(8, "strict=0,workers=8");
    double start = seconds();
    OK(launch(set, SLEEP, 200000, 0, 0));
    CHECK(seconds() - start < 1.0); /* one after the other: 1.6 s */
    OK(dpu_free(set));
    set = open_set(64, FAITHFUL);
    OK(dpusim_set_tasklets(set, 16));
    OK(launch(set, NOTHING, 0, 0, 0));
    double best = 1;
    for (uint32_t i = 0; i < 20; i++) {
        start = seconds();
        OK(dpu_launch(set, DPU_SYNCHRONOUS));
        best = seconds() - start < best ? seconds() - start : best;
    }
    CHECK(best < 0.25); /* a hang or a mistake by two orders; the time itself is for reading */
    printf("launch of 64 DPUs with 16 tasklets: %.3f ms\n", best * 1e3);
    OK(dpu_free(set));
}

const struct conform_case run_cases[] = {
    CASE(tasklets_strict),
    CASE(synchronisation_strict),
    CASE(tasklets_faithful),
    CASE(synchronisation_faithful),
    CASE(tasklets_threads),
    CASE(synchronisation_threads),
    CASE(dma_strict),
    CASE(dma_faithful),
    CASE(memory_strict),
    CASE(memory_faithful),
    CASE(faults_strict),
    CASE(faults_faithful),
    CASE(too_few),
    CASE(too_few_text),
    CASE(endless),
    CASE(races),
    CASE(seeds),
    CASE(race_count),
    CASE(race_hand_over),
    CASE(parallel),
    {NULL, NULL},
};
