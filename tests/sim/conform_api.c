/* Cases of the younger host calls: callbacks, scatter/gather, programs from memory, chips. */
#include "conform.h"

#include <time.h>

struct seen {
    uint32_t calls, ranks, last;
    uint64_t words[8];
    bool slow;
};

static void wait_a_little(void) {
    struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
}

/* Reads what the launch before it made, and changes what the launch behind it takes. */
static dpu_error_t look(struct dpu_set_t rank, uint32_t index, void *args) {
    struct seen *seen = args;
    struct dpu_set_t dpu;
    uint32_t count = 0;
    if (seen->slow)
        wait_a_little();
    DPU_FOREACH(rank, dpu) {
        uint64_t word = 0;
        if (dpu_copy_from(dpu, "result", 0, &word, sizeof word) != DPU_OK)
            return DPU_ERR_INTERNAL;
        __atomic_fetch_add(&seen->words[index], word, __ATOMIC_RELAXED);
        count++;
    }
    struct args next = {OWN_MRAM, 0, 0, 0};
    dpu_error_t error = dpu_copy_to(rank, "args", 0, &next, sizeof next);
    __atomic_fetch_add(&seen->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&seen->ranks, count, __ATOMIC_RELAXED);
    seen->last = index;
    return error;
}

static dpu_error_t refuse(struct dpu_set_t rank, uint32_t index, void *args) {
    (void)rank;
    (void)args;
    return index == 1 ? DPU_ERR_TIMEOUT : DPU_OK;
}

static dpu_error_t launch_inside(struct dpu_set_t rank, uint32_t index, void *args) {
    (void)index;
    (void)args;
    dpu_error_t error = dpu_launch(rank, DPU_SYNCHRONOUS);
    return error != DPU_OK ? error : dpu_sync(rank);
}

static dpu_error_t count_slowly(struct dpu_set_t rank, uint32_t index, void *args) {
    (void)rank;
    (void)index;
    wait_a_little();
    __atomic_fetch_add((uint32_t *)args, 1, __ATOMIC_RELAXED);
    return DPU_OK;
}

static void test_callbacks(void) {
    struct dpu_set_t set = open_set(7, "strict=0,nrDpusPerCI=3,workers=2");
    struct seen seen = {0};
    struct args first = {HAND_OVER, 3, 0, 0};
    OK(dpu_broadcast_to(set, "args", 0, &first, sizeof first, DPU_XFER_DEFAULT));
    OK(dpu_launch(set, DPU_ASYNCHRONOUS));
    OK(dpu_callback(set, look, &seen, DPU_CALLBACK_DEFAULT)); /* waits for the launch */
    CHECK(seen.calls == 3 && seen.ranks == 7 && seen.words[0] == 3 * 23 && seen.words[2] == 23);
    OK(dpu_launch(set, DPU_SYNCHRONOUS));
    CHECK(read_word(set, 6, "result", 0) == 41); /* the callback's order */
    OK(dpu_sync(set));
    /* in order between two launches */
    seen = (struct seen){.slow = true};
    OK(dpu_broadcast_to(set, "args", 0, &first, sizeof first, DPU_XFER_ASYNC));
    OK(dpu_launch(set, DPU_ASYNCHRONOUS));
    OK(dpu_callback(set, look, &seen, DPU_CALLBACK_ASYNC));
    OK(dpu_launch(set, DPU_ASYNCHRONOUS));
    OK(dpu_sync(set));
    CHECK(seen.calls == 3 && seen.words[1] == 3 * 23);
    CHECK(read_word(set, 0, "result", 0) == 42 && read_word(set, 6, "result", 0) == 42);
    seen = (struct seen){0};
    OK(dpu_callback(set, look, &seen, DPU_CALLBACK_ASYNC | DPU_CALLBACK_SINGLE_CALL));
    OK(dpu_sync(set));
    CHECK(seen.calls == 1 && seen.ranks == 7 && seen.words[0] == 7 * 42);
    EXPECT(DPU_ERR_NONBLOCKING_SYNC_CALLBACK, dpu_callback(set, look, &seen, DPU_CALLBACK_NONBLOCKING));
    /* errors: at once, or at dpu_sync */
    EXPECT(DPU_ERR_TIMEOUT, dpu_callback(set, refuse, NULL, DPU_CALLBACK_DEFAULT));
    OK(dpu_callback(set, refuse, NULL, DPU_CALLBACK_ASYNC));
    EXPECT(DPU_ERR_TIMEOUT, dpu_sync(set));
    OK(dpu_sync(set));
    OK(dpu_callback(set, launch_inside, NULL, DPU_CALLBACK_ASYNC));
    OK(dpu_sync(set));
    CHECK(read_word(set, 3, "result", 0) == 43);
    uint32_t slow = 0;
    OK(dpu_callback(set, count_slowly, &slow, DPU_CALLBACK_ASYNC | DPU_CALLBACK_NONBLOCKING));
    CHECK(read_word(set, 0, "result", 0) == 43); /* doesn't wait for it */
    OK(dpu_sync(set));
    CHECK(slow == 3);
    OK(dpu_free(set));
}

#define MOST_BLOCKS 4
struct blocks {
    uint8_t *base;
    uint32_t count, length;
};

/* DPU d has count + d blocks of that many bytes. */
static bool get_block(struct sg_block_info *out, uint32_t dpu, uint32_t block, void *args) {
    const struct blocks *blocks = args;
    if (block >= blocks->count + dpu)
        return false;
    out->addr = blocks->base + (size_t)(16 * dpu + block) * blocks->length;
    out->length = blocks->length;
    return true;
}

static void test_gather(void) {
    const char *heap = DPU_MRAM_HEAP_POINTER_NAME;
    static uint8_t source[3 * 16 * 8], back[sizeof source];
    struct blocks blocks = {source, 2, 8};
    get_block_t info = {get_block, &blocks, sizeof blocks};
    for (uint32_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)(i * 7 + 1);
    struct dpu_set_t set = open_set(2, FAITHFUL);
    EXPECT(DPU_ERR_SG_NOT_ACTIVATED,
           dpu_push_sg_xfer(set, DPU_XFER_TO_DPU, heap, 0, 24, &info, DPU_SG_XFER_DEFAULT));
    OK(dpu_free(set));
    set = open_set(3, FAITHFUL ",sgXferEnable=true,sgXferMaxBlocksPerDpu=4");
    EXPECT(DPU_ERR_SG_LENGTH_MISMATCH,
           dpu_push_sg_xfer(set, DPU_XFER_TO_DPU, heap, 0, 32, &info, DPU_SG_XFER_DEFAULT));
    EXPECT(DPU_ERR_SG_NOT_MRAM_SYMBOL,
           dpu_push_sg_xfer(set, DPU_XFER_TO_DPU, "args", 0, 32, &info, DPU_SG_XFER_DEFAULT));
    EXPECT(DPU_ERR_INVALID_SYMBOL_ACCESS,
           dpu_push_sg_xfer(set, DPU_XFER_TO_DPU, "table", 8, 32, &info, DPU_SG_XFER_DEFAULT));
    uint64_t ones[5] = {~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0)};
    OK(dpu_broadcast_to(set, heap, 0, ones, sizeof ones, DPU_XFER_DEFAULT));
    OK(dpu_push_sg_xfer(set, DPU_XFER_TO_DPU, heap, 0, 32, &info, DPU_SG_XFER_DISABLE_LENGTH_CHECK));
    for (uint32_t d = 0; d < 3; d++)
        for (uint32_t b = 0; b < 5; b++) {
            uint64_t expected = b == 4 ? ~UINT64_C(0) : 0; /* up to the length zeros follow */
            if (b < 2 + d)
                memcpy(&expected, source + (16 * d + b) * 8, 8);
            CHECK(heap_word(set, d, 8 * b) == expected);
        }
    blocks.base = back;
    OK(dpu_push_sg_xfer(set, DPU_XFER_FROM_DPU, heap, 0, 32, &info,
                        DPU_SG_XFER_DISABLE_LENGTH_CHECK | DPU_SG_XFER_ASYNC));
    blocks.base = NULL; /* args were copied */
    OK(dpu_sync(set));
    CHECK(memcmp(back, source, 16) == 0 && memcmp(back + 256, source + 256, 32) == 0 && back[16] == 0);
    blocks = (struct blocks){source, 3, 8};
    EXPECT(DPU_ERR_SG_TOO_MANY_BLOCKS,
           dpu_push_sg_xfer(set, DPU_XFER_TO_DPU, heap, 0, 40, &info, DPU_SG_XFER_DISABLE_LENGTH_CHECK));
    OK(dpu_free(set));
}

static void test_from_memory(void) {
    struct dpu_set_t set = {0};
    struct dpu_program_t *loaded = NULL;
    struct dpu_symbol_t symbol;
    uint8_t junk[100] = {0};
    FILE *file = fopen(program, "rb");
    static uint8_t bytes[1 << 20];
    size_t count = file == NULL ? 0 : fread(bytes, 1, sizeof bytes, file);
    CHECK(count > 1000 && count < sizeof bytes);
    fclose(file);
    OK(dpu_alloc(2, STRICT, &set));
    EXPECT(DPU_ERR_ELF_INVALID_FILE, dpu_load_from_memory(set, junk, sizeof junk, NULL));
    EXPECT(DPU_ERR_ELF_INVALID_FILE, dpu_load_from_memory(set, bytes, count / 2, NULL));
    OK(dpu_load_from_memory(set, bytes, count, &loaded));
    OK(dpu_get_symbol(loaded, "args", &symbol));
    CHECK(symbol.size == sizeof(struct args) && symbol.address % 8 == 0);
    OK(launch(set, OWN_MRAM, 0, 0, 0));
    CHECK(read_word(set, 1, "result", 0) == 41);
    struct dpu_incbin_t included = {bytes, count, "calls"};
    OK(dpu_load_from_incbin(set, &included, &loaded));
    OK(launch(set, OWN_MRAM, 0, 0, 0));
    CHECK(read_word(set, 1, "result", 0) == 41); /* a load starts afresh */
    OK(dpu_free(set));
}

static void test_chips(void) {
    struct dpu_set_t set = {0};
    EXPECT(DPU_ERR_INVALID_PROFILE, dpu_alloc(1, "chip=v2", &set));
    OK(dpu_alloc(1, FAITHFUL ",chip=v1B", &set));
    EXPECT(DPU_ERR_TOO_MANY_TASKLETS, dpu_load(set, program, NULL)); /* 24 of 16 */
    OK(dpu_free(set));
    EXPECT(DPU_ERR_INTERNAL, dpu_fifo_push_xfer(set, NULL, DPU_XFER_DEFAULT));
}

static uint32_t told;
static void tell(const char *line) {
    told += strstr(line, "no such") != NULL || strstr(line, "No such") != NULL;
}

static void test_drop_in(void) {
    struct dpu_set_t set = {0};
    dpusim_drop_in("strict=0", tell);
    OK(dpu_alloc(1, NULL, &set));
    CHECK(!dpusim_is_strict(set));
    EXPECT(DPU_ERR_SYSTEM, dpu_load(set, "/nonexistent", NULL));
    CHECK(told == 1);
    OK(dpu_free(set));
    OK(dpu_alloc(1, "strict=1", &set));
    CHECK(dpusim_is_strict(set));
    OK(dpu_free(set));
}

static uint64_t times_of(struct dpu_set_t set, struct dpusim_transfer_record wanted) {
    struct dpusim_transfer_record found[32];
    uint32_t count = 0;
    uint64_t times = 0;
    OK(dpusim_transfers(set, found, 32, &count));
    CHECK(count <= 32);
    for (uint32_t i = 0; i < count; i++)
        if (found[i].to_dpus == wanted.to_dpus && found[i].in_mram == wanted.in_mram &&
            found[i].way == wanted.way && found[i].dpus == wanted.dpus && found[i].bytes == wanted.bytes)
            times += found[i].times;
    return times;
}

static void test_records(void) {
    const char *heap = DPU_MRAM_HEAP_POINTER_NAME;
    struct dpusim_launch_record launched = {.launches = 7};
    struct dpu_set_t set = open_set(3, FAITHFUL), dpu, one;
    uint64_t words[3][128] = {{0}};
    uint32_t i, count = 9;
    OK(dpusim_transfers(set, NULL, 0, &count));
    CHECK(count == 0);
    one = dpu_number(set, 1);
    OK(dpusim_last_launch(one, &launched));
    CHECK(launched.launches == 0 && launched.tasklets == 0);
    EXPECT(DPU_ERR_INVALID_DPU_SET, dpusim_last_launch(set, &launched));

    OK(launch(set, DMA_READ, 0, 0, 2048)); /* each launch broadcasts its arguments to WRAM */
    OK(dpusim_last_launch(one, &launched));
    CHECK(launched.launches == 1 && launched.tasklets == 24);
    CHECK(launched.read[0].number == 1 && launched.read[0].bytes == 2048 && launched.read[0].sizes[8] == 1);
    CHECK(launched.read[1].number == 0 && launched.write[0].number == 0);
    OK(launch(set, DMA_READ, 0, 0, 20)); /* 16 bytes on the hardware */
    OK(dpusim_last_launch(one, &launched));
    CHECK(launched.launches == 2 && launched.read[0].bytes == 16 && launched.read[0].sizes[1] == 1);
    OK(launch(set, WHO, 0, 0, 0));
    OK(dpusim_last_launch(one, &launched));
    for (i = 0; i < DPUSIM_TASKLETS; i++)
        CHECK(launched.read[i].number == 0 && launched.write[i].number == 1 && launched.write[i].bytes == 16);

    CHECK(times_of(set, (struct dpusim_transfer_record){true, false, DPUSIM_BROADCAST, 3, sizeof(struct args),
                                                        0}) == 3);
    OK(dpu_copy_to(one, heap, 0, words, 64));
    OK(dpu_copy_to(set, heap, 0, words, 64)); /* the same bytes for all */
    OK(dpu_copy_from(one, heap, 0, words, 128));
    OK(dpu_copy_from(one, heap, 0, words, 0)); /* nothing */
    CHECK(times_of(set, (struct dpusim_transfer_record){true, true, DPUSIM_SERIAL, 1, 64, 0}) == 1);
    CHECK(times_of(set, (struct dpusim_transfer_record){true, true, DPUSIM_BROADCAST, 3, 64, 0}) == 1);
    CHECK(times_of(set, (struct dpusim_transfer_record){false, true, DPUSIM_SERIAL, 1, 128, 0}) == 1);
    for (uint32_t round = 0; round < 40; round++) { /* DPU 2 has no part in it */
        DPU_FOREACH(set, dpu, i) {
            if (i != 2)
                OK(dpu_prepare_xfer(dpu, words[i]));
        }
        OK(dpu_push_xfer(set, DPU_XFER_TO_DPU, heap, 0, 8 + 8 * (size_t)(round % 20), DPU_XFER_DEFAULT));
    }
    CHECK(times_of(set, (struct dpusim_transfer_record){true, true, DPUSIM_PARALLEL, 2, 80, 0}) == 2);
    OK(dpusim_transfers(set, NULL, 0, &count));
    CHECK(count == 4 + 20);
    OK(dpu_free(set));
}

/* A machine of few ranks, of which the first lacks DPUs. */
static void test_machine(void) {
    const char *machine = FAITHFUL ",nrRanks=3,disabledMask=0x81";
    struct dpu_set_t set = {0}, rank;
    uint32_t dpus = 0, ranks = 0, counts[3] = {0};
    OK(dpu_alloc(DPU_ALLOCATE_ALL, machine, &set));
    OK(dpu_get_nr_dpus(set, &dpus));
    DPU_RANK_FOREACH(set, rank) {
        OK(dpu_get_nr_dpus(rank, &counts[ranks++ % 3]));
    }
    CHECK(dpus == 22 && ranks == 3 && counts[0] == 6 && counts[1] == 8 && counts[2] == 8);
    OK(dpu_free(set));
    OK(dpu_alloc(22, machine, &set));
    OK(dpu_free(set));
    EXPECT(DPU_ERR_ALLOCATION, dpu_alloc(23, machine, &set));
    OK(dpu_alloc_ranks(3, machine, &set));
    OK(dpu_free(set));
    EXPECT(DPU_ERR_ALLOCATION, dpu_alloc_ranks(4, machine, &set));
    EXPECT(DPU_ERR_ALLOCATION, dpu_alloc(1, "nrRanks=0", &set));
    EXPECT(DPU_ERR_ALLOCATION, dpu_alloc(DPU_ALLOCATE_ALL, "nrRanks=0", &set));
}

static uint32_t bits_of(struct dpu_set_t set, uint32_t dpu, uint32_t bytes) {
    uint64_t words[64] = {0};
    uint32_t bits = 0;
    OK(dpu_copy_from(dpu_number(set, dpu), DPU_MRAM_HEAP_POINTER_NAME, 0, words, bytes));
    for (uint32_t i = 0; i < bytes / 8; i++)
        bits += (uint32_t)__builtin_popcountll(words[i]);
    return bits;
}

static void test_injections(void) {
    const char *heap = DPU_MRAM_HEAP_POINTER_NAME;
    struct dpu_set_t set = open_set(3, STRICT ",inject=fault:1@2/hang:2@3+,timeout=100");
    uint64_t words[64] = {0}, plain[2 * 24], found[2 * 24];
    OK(launch(set, WHO, 0, 0, 0));
    EXPECT(DPU_ERR_DPU_FAULT, launch(set, WHO, 0, 0, 0));
    REPORT(set, "DPU 1: fault (injected)", "(seed 7)");
    CHECK(read_word(set, 1, heap, 0) == read_word(set, 0, heap, 0)); /* it has run */
    EXPECT(DPU_ERR_DPU_FAULT, launch(dpu_number(set, 1), WHO, 0, 0, 0));
    OK(dpu_load(set, program, NULL));
    EXPECT(DPU_ERR_TIMEOUT, launch(set, WHO, 0, 0, 0));
    REPORT(set, "DPU 2: no end in time (injected)");
    OK(dpu_load(set, program, NULL));
    EXPECT(DPU_ERR_TIMEOUT, launch(set, WHO, 0, 0, 0)); /* always; DPU 1 is well again */
    OK(dpu_free(set));

    for (uint32_t strict = 0; strict < 2; strict++) {
        set = open_set(2, strict ? STRICT ",inject=flip:1@1:0-8/flip:1@2"
                                 : FAITHFUL ",inject=flip:1@1:0-8/flip:1@2");
        OK(dpu_broadcast_to(set, heap, 0, words, sizeof words, DPU_XFER_DEFAULT));
        OK(launch(set, DMA_READ, 0, 0, 8));
        CHECK(bits_of(set, 0, 512) == 0 && bits_of(set, 1, 512) == 1 && bits_of(set, 1, 8) == 1);
        OK(dpu_broadcast_to(set, heap, 0, words, sizeof words, DPU_XFER_DEFAULT));
        OK(launch(set, DMA_READ, 0, 0, 8)); /* wherever the host has written */
        CHECK(bits_of(set, 0, 512) == 0 && bits_of(set, 1, 512) == 1);
        OK(launch(set, DMA_READ, 0, 0, 8));
        CHECK(bits_of(set, 1, 512) == 1);
        OK(dpu_free(set));

        set = open_set(2, strict ? STRICT ",inject=wrong:0@1" : FAITHFUL ",inject=wrong:0@1");
        OK(launch(set, WHO, 0, 0, 0));
        OK(dpu_copy_from(dpu_number(set, 0), heap, 0, found, sizeof found));
        OK(dpu_copy_from(dpu_number(set, 1), heap, 0, plain, sizeof plain));
        uint32_t differ = 0;
        for (uint32_t i = 0; i < 2 * 24; i++)
            differ += found[i] != plain[i];
        CHECK(differ == 1);
        OK(dpu_free(set));
    }
    static const char *const bad[] = {"",         "fault",      "fault:1",      "fault:1@0",
                                      "burn:1@1", "fault:1@1/", "flip:1@1:8-8", "wrong:1@1:0-8"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char profile[64];
        snprintf(profile, sizeof profile, "inject=%s", bad[i]);
        EXPECT(DPU_ERR_INVALID_PROFILE, dpu_alloc(1, profile, &set));
    }
}

const struct conform_case api_cases[] = {
    CASE(callbacks), CASE(gather),  CASE(from_memory), CASE(chips),  CASE(drop_in),
    CASE(records),   CASE(machine), CASE(injections),  {NULL, NULL},
};
