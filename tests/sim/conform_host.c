/* Cases of the host interface: sets, loading, transfers, queues, logs, texts. */
#include "conform.h"

#include "../../host_c/sim/sim.h"

#include <sys/wait.h>
#include <unistd.h>

static void test_profiles(void) {
    struct dpu_set_t set = {0};
    uint32_t ranks, dpus;
    EXPECT(DPU_ERR_INVALID_PROFILE, dpu_alloc(1, "backend=nope", &set));
    EXPECT(DPU_ERR_INVALID_PROFILE, dpu_alloc(1, "strict", &set));
    EXPECT(DPU_ERR_INVALID_PROFILE, dpu_alloc(1, "tasklets=25", &set));
    REPORT(set, "tasklets=25", "1 to 24");
    EXPECT(DPU_ERR_ALLOCATION, dpu_alloc(1, "backend=hw", &set));
    EXPECT(DPU_ERR_ALLOCATION, dpu_alloc(0, NULL, &set));
    EXPECT(DPU_ERR_ALLOCATION, dpu_alloc(4097, NULL, &set));
    OK(dpu_alloc(11, "backend=simulator,unheardOf=1,nrDpusPerCI=8", &set));
    OK(dpu_get_nr_ranks(set, &ranks));
    OK(dpu_get_nr_dpus(set, &dpus));
    CHECK(ranks == 2 && dpus == 11);
    OK(dpu_free(set));
    OK(dpu_alloc_ranks(2, "nrDpusPerCI=8,nrCIs=8,disabledMask=0x11", &set));
    OK(dpu_get_nr_dpus(set, &dpus));
    CHECK(dpus == 126);
    uint32_t index, counts[2] = {0, 0};
    struct dpu_set_t rank;
    DPU_RANK_FOREACH(set, rank, index) {
        OK(dpu_get_nr_dpus(rank, &counts[index]));
    }
    CHECK(counts[0] == 62 && counts[1] == 64);
    OK(dpu_free(set));
    OK(dpu_alloc(DPU_ALLOCATE_ALL, "strict=0", &set));
    OK(dpu_get_nr_dpus(set, &dpus));
    CHECK(dpus == 64);
    OK(dpu_free(set));
    OK(dpu_alloc(2556, "strict=0,nrDpusPerCI=8,nrCIs=8", &set));
    OK(dpu_free(set));
    setenv("UPMEM_PROFILE", "strict=0,seed=5", 1);
    OK(dpu_alloc(1, "seed=6", &set));
    CHECK(!dpusim_is_strict(set) && dpusim_seed(set) == 6);
    OK(dpu_free(set));
}

/* An endless program ends, a long one isn't cut short. */
static void test_time_out(void) {
    struct sim_profile profile;
    OK(sim_profile_read("strict=1", &profile));
    CHECK(profile.time_out_ms == 30 * 60 * 1000);
    OK(sim_profile_read("strict=0", &profile));
    CHECK(profile.time_out_ms == 0);
    OK(sim_profile_read("strict=1,timeout=5", &profile));
    CHECK(profile.time_out_ms == 5);
}

static void refused(struct dpu_set_t set, const char *call, dpu_error_t error) {
    EXPECT(DPU_ERR_SYSTEM, error);
    REPORT(set, call, ": the simulator was opened by another process");
}

/* What a forked process may do with a set that its parent opened and runs. */
static void in_child(struct dpu_set_t set, struct dpu_program_t *loaded) {
    struct dpu_symbol_t symbol;
    struct args args = {.command = NOTHING};
    bool done, fault;
    refused(set, "dpu_copy_to", dpu_copy_to(set, "args", 0, &args, sizeof args));
    refused(set, "dpu_copy_from", dpu_copy_from(dpu_number(set, 0), "args", 0, &args, sizeof args));
    refused(set, "dpu_prepare_xfer", dpu_prepare_xfer(set, &args));
    refused(set, "dpu_push_xfer",
            dpu_push_xfer(set, DPU_XFER_TO_DPU, "args", 0, sizeof args, DPU_XFER_DEFAULT));
    refused(set, "dpu_broadcast_to", dpu_broadcast_to(set, "args", 0, &args, sizeof args, DPU_XFER_DEFAULT));
    refused(set, "dpu_launch", dpu_launch(set, DPU_SYNCHRONOUS));
    refused(set, "dpu_status", dpu_status(set, &done, &fault));
    refused(set, "dpu_sync", dpu_sync(set));
    refused(set, "dpu_load", dpu_load(set, program, NULL));
    refused(set, "dpu_get_symbol", dpu_get_symbol(loaded, "args", &symbol));
    refused(set, "dpu_log_read", dpu_log_read(dpu_number(set, 0), stderr));
    refused(set, "dpusim_set_tasklets", dpusim_set_tasklets(set, 1));
    OK(dpu_free(set));
    refused(set, "dpu_launch", dpu_launch(set, DPU_SYNCHRONOUS));
    set = open_set(2, STRICT); /* its own */
    OK(launch(set, COUNT, 3, 0, 0));
    CHECK(heap_word(set, 1, 0) == 3 * 24);
    EXPECT(DPU_ERR_DPU_FAULT, launch(set, NULL_POINTER, 0, 0, 0));
    OK(dpu_free(set));
}

static void test_fork(void) {
    for (uint32_t running = 0; running < 2; running++) {
        struct dpu_set_t set = {0};
        struct dpu_program_t *loaded;
        struct args args = {.command = SLEEP, .a = 50000};
        int status = -1;
        OK(dpu_alloc(3, STRICT, &set));
        OK(dpu_load(set, program, &loaded));
        OK(dpu_broadcast_to(set, "args", 0, &args, sizeof args, DPU_XFER_DEFAULT));
        if (running)
            OK(dpu_launch(set, DPU_ASYNCHRONOUS));
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            in_child(set, loaded);
            _exit(failures != 0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        OK(dpu_sync(set)); /* the parent's is as before */
        OK(launch(set, COUNT, 3, 0, 0));
        CHECK(heap_word(set, 2, 0) == 3 * 24);
        OK(dpu_free(set));
    }
}

/* A file that ends too early, wherever that is. */
static void test_truncated(void) {
    struct dpu_set_t set = {0};
    FILE *file = fopen(program, "rb");
    uint8_t *bytes = malloc(1 << 22);
    size_t count = fread(bytes, 1, 1 << 22, file);
    fclose(file);
    CHECK(count > 4096 && count < 1 << 22);
    OK(dpu_alloc(1, STRICT, &set));
    for (size_t i = 0; i < 40; i++) {
        const size_t few[] = {0, 3, 4, 63, 64, 200, count - 1, count};
        char name[] = "truncated-XXXXXX";
        int fd = mkstemp(name);
        size_t length = i < 8 ? few[i] : count * (i - 8) / 32;
        CHECK(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
        close(fd);
        EXPECT(length == count ? DPU_OK : DPU_ERR_ELF_INVALID_FILE, dpu_load(set, name, NULL));
        if (length >= 4 && length < count)
            REPORT(set, name, "a truncated or damaged ELF file");
        unlink(name);
    }
    OK(dpu_free(set));
    free(bytes);
}

static void test_sets(void) {
    struct dpu_set_t set = open_set(5, FAITHFUL), dpu = dpu_number(set, 3), rank, inner;
    uint32_t dpus, count = 0, i, j;
    bool in_order = true;
    uint64_t word = 0;
    EXPECT(DPU_ERR_INVALID_DPU_SET, dpu_free(dpu));
    EXPECT(DPU_ERR_INVALID_DPU_SET, dpu_copy_from(set, "result", 0, &word, 8));
    OK(dpu_get_nr_dpus(dpu, &dpus));
    CHECK(dpus == 1);
    DPU_RANK_FOREACH(set, rank, i) {
        DPU_FOREACH(rank, inner, j) {
            in_order = in_order && i == 0 && j == count && inner.kind == DPU_SET_DPU;
            count++;
        }
    }
    CHECK(in_order && count == 5);
    OK(dpu_free(set));
    EXPECT(DPU_ERR_INVALID_DPU_SET, dpu_free(set));
    /* two sets know nothing of each other */
    struct dpu_set_t a = open_set(2, FAITHFUL), b = open_set(2, STRICT);
    OK(launch(a, COUNT, 3, 0, 0));
    EXPECT(DPU_ERR_DPU_FAULT, launch(b, HALT, 0, 0, 0));
    OK(launch(a, COUNT, 3, 0, 0));
    CHECK(read_word(a, 1, "launches", 0) == 2 && *dpusim_last_error(a) == '\0');
    OK(dpu_free(b));
    CHECK(heap_word(a, 1, 0) == 3 * 24);
    OK(dpu_free(a));
}

static void test_load(void) {
    struct dpu_set_t set = {0};
    struct dpu_symbol_t symbol;
    struct dpu_program_t *loaded;
    uint64_t word = 0;
    OK(dpu_alloc(2, STRICT, &set));
    EXPECT(DPU_ERR_NO_PROGRAM_LOADED, dpu_launch(set, DPU_SYNCHRONOUS));
    EXPECT(DPU_ERR_NO_PROGRAM_LOADED, dpu_copy_to(set, "args", 0, &word, 8));
    EXPECT(DPU_ERR_SYSTEM, dpu_load(set, "no such file", NULL));
    EXPECT(DPU_ERR_ELF_INVALID_FILE, dpu_load(set, "/proc/self/exe", NULL)); /* an x86 ELF */
    EXPECT(DPU_ERR_ELF_INVALID_FILE, dpu_load(set, __FILE__, NULL));
    OK(dpu_load(set, program, &loaded));
    OK(dpu_get_symbol(loaded, "table", &symbol));
    CHECK(symbol.address == 0x08000000 && symbol.size == 32);
    OK(dpu_get_symbol(loaded, DPU_MRAM_HEAP_POINTER_NAME, &symbol));
    CHECK(symbol.address == 0x08000020 && symbol.size == (64u << 20) - 32);
    EXPECT(DPU_ERR_UNKNOWN_SYMBOL, dpu_get_symbol(loaded, "plain_global", &symbol));
    EXPECT(DPU_ERR_UNKNOWN_SYMBOL, dpu_copy_to(set, "nothing", 0, &word, 8));
    EXPECT(DPU_ERR_TOO_MANY_TASKLETS, dpusim_set_tasklets(set, 25));
    OK(dpu_load(dpu_number(set, 1), program, NULL)); /* another copy: another program */
    EXPECT(DPU_ERR_DIFFERENT_DPU_PROGRAMS, dpu_copy_to(set, "args", 0, &word, 8));
    OK(dpu_copy_to(dpu_number(set, 1), "result", 0, &word, 8));
    OK(dpu_free(set));
}

static void test_transfers(void) {
    struct dpu_set_t set = open_set(4, STRICT), dpu;
    const char *heap = DPU_MRAM_HEAP_POINTER_NAME;
    uint64_t words[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, back[9] = {0};
    uint8_t *odd = (uint8_t *)words + 1;
    uint32_t i;
    EXPECT(DPU_ERR_INVALID_SYMBOL_ACCESS, dpu_copy_to(set, "args", 8, words, 32));
    EXPECT(DPU_ERR_INVALID_SYMBOL_ACCESS, dpu_copy_to(set, heap, (64u << 20) - 32, words, 8));
    EXPECT(DPU_ERR_INVALID_SYMBOL_ACCESS, dpu_copy_to(set, "tiny", 0, words, 4));
    EXPECT(DPU_ERR_INVALID_WRAM_ACCESS, dpu_copy_to(set, "tiny", 0, words, 1));
    EXPECT(DPU_ERR_INVALID_WRAM_ACCESS, dpu_copy_to(set, "args", 2, words, 4));
    EXPECT(DPU_ERR_INVALID_WRAM_ACCESS, dpu_copy_to(set, "args", 0, words, 3));
    EXPECT(DPU_ERR_INVALID_WRAM_ACCESS, dpu_copy_to(set, "args", 0, odd, 4));
    EXPECT(DPU_ERR_INVALID_MRAM_ACCESS, dpu_copy_to(set, heap, 4, words, 8));
    EXPECT(DPU_ERR_INVALID_MRAM_ACCESS, dpu_copy_to(set, heap, 0, words, 12));
    EXPECT(DPU_ERR_INVALID_MRAM_ACCESS, dpu_copy_to(set, heap, 1, words, 8));
    REPORT(set, "dpu_copy_to", "multiples of 8");
    OK(dpu_copy_to(set, heap, 0, odd, 16)); /* MRAM takes any host pointer */
    OK(dpu_copy_to(set, heap, 0, words, 0));
    OK(dpu_copy_from(dpu_number(set, 2), heap, 0, back, 16));
    CHECK(memcmp(back, odd, 16) == 0);

    OK(dpu_push_xfer(set, DPU_XFER_TO_DPU, heap, 0, 16, DPU_XFER_DEFAULT)); /* nothing prepared */
    DPU_FOREACH(set, dpu, i) {
        OK(dpu_prepare_xfer(dpu, &words[2 * i]));
    }
    EXPECT(DPU_ERR_TRANSFER_ALREADY_SET, dpu_prepare_xfer(dpu_number(set, 0), &words[1]));
    EXPECT(DPU_ERR_INVALID_MRAM_ACCESS, dpu_push_xfer(set, DPU_XFER_TO_DPU, heap, 0, 12, DPU_XFER_DEFAULT));
    EXPECT(DPU_ERR_TRANSFER_ALREADY_SET, dpu_prepare_xfer(dpu_number(set, 0), &words[0])); /* still set */
    EXPECT(DPU_ERR_INVALID_MEMORY_TRANSFER, dpu_push_xfer(set, (dpu_xfer_t)7, heap, 0, 8, DPU_XFER_DEFAULT));
    OK(dpu_prepare_xfer(dpu_number(set, 3), NULL)); /* skipped */
    OK(dpu_push_xfer(set, DPU_XFER_TO_DPU, heap, 64, 16, DPU_XFER_NO_RESET));
    OK(dpu_push_xfer(set, DPU_XFER_TO_DPU, heap, 128, 16, DPU_XFER_DEFAULT));
    for (i = 0; i < 3; i++)
        CHECK(heap_word(set, i, 72) == 2 * i + 2 && heap_word(set, i, 128) == 2 * i + 1);
    CHECK(heap_word(set, 3, 64) == UINT64_C(0xa5a5a5a5a5a5a5a5)); /* strict: fresh memory is no zero */

    DPU_FOREACH(set, dpu) {
        OK(dpu_prepare_xfer(dpu, back));
    }
    EXPECT(DPU_ERR_INVALID_MEMORY_TRANSFER,
           dpu_push_xfer(set, DPU_XFER_FROM_DPU, heap, 64, 16, DPU_XFER_DEFAULT));
    REPORT(set, "two DPUs write to one buffer");
    DPU_FOREACH(set, dpu, i) {
        OK(dpu_prepare_xfer(dpu, NULL));
        OK(dpu_prepare_xfer(dpu, &back[2 * i]));
    }
    OK(dpu_push_xfer(set, DPU_XFER_FROM_DPU, heap, 64, 16, DPU_XFER_ASYNC));
    OK(dpu_sync(set));
    CHECK(memcmp(back, words, 48) == 0);
    OK(dpu_free(set));

    set = open_set(1, FAITHFUL);
    CHECK(heap_word(set, 0, 4096) == 0);
    OK(dpu_free(set));
}

/* Large pushes run on all workers, in order with launches. */
static void test_queue(void) {
    enum { DPUS = 9, BYTES = 1 << 20 };
    struct dpu_set_t set = open_set(DPUS, "strict=0,workers=3,nrDpusPerCI=8"), dpu;
    uint8_t *in = malloc((size_t)DPUS * BYTES), *out = calloc(DPUS, BYTES);
    struct args args = {.command = COUNT, .a = 5};
    uint64_t zero = 0;
    uint32_t i;
    for (size_t k = 0; k < (size_t)DPUS * BYTES; k++)
        in[k] = (uint8_t)(k * 7 + k / BYTES);
    DPU_FOREACH(set, dpu, i) {
        OK(dpu_prepare_xfer(dpu, in + (size_t)i * BYTES));
    }
    OK(dpu_push_xfer(set, DPU_XFER_TO_DPU, DPU_MRAM_HEAP_POINTER_NAME, 4096, BYTES, DPU_XFER_ASYNC));
    OK(dpu_broadcast_to(set, "args", 0, &args, sizeof args, DPU_XFER_ASYNC));
    OK(dpu_broadcast_to(set, DPU_MRAM_HEAP_POINTER_NAME, 0, &zero, 8, DPU_XFER_ASYNC));
    for (i = 0; i < 4; i++)
        OK(dpu_launch(set, DPU_ASYNCHRONOUS));
    DPU_FOREACH(set, dpu, i) {
        OK(dpu_prepare_xfer(dpu, out + (size_t)i * BYTES));
    }
    OK(dpu_push_xfer(set, DPU_XFER_FROM_DPU, DPU_MRAM_HEAP_POINTER_NAME, 4096, BYTES, DPU_XFER_DEFAULT));
    CHECK(memcmp(in, out, (size_t)DPUS * BYTES) == 0);
    OK(dpu_sync(set));
    for (i = 0; i < DPUS; i++)
        CHECK(heap_word(set, i, 0) == 4 * 5 * 24 && read_word(set, i, "launches", 0) == 4);
    /* a rank at a time, and an unknown policy, which is asynchronous */
    struct dpu_set_t rank;
    DPU_RANK_FOREACH(set, rank) {
        OK(dpu_launch(rank, (dpu_launch_policy_t)9));
    }
    OK(dpu_sync(set));
    CHECK(read_word(set, 8, "launches", 0) == 5);
    OK(dpu_free(set));
    free(in);
    free(out);
}

static void test_asynchronous(void) {
    struct dpu_set_t set = open_set(2, STRICT);
    struct args args = {.command = SLEEP, .a = 100000};
    bool done = true, fault = true;
    OK(dpu_copy_to(set, "args", 0, &args, sizeof args));
    OK(dpu_launch(set, DPU_ASYNCHRONOUS));
    OK(dpu_status(set, &done, &fault));
    CHECK(!done && !fault);
    OK(dpu_sync(set));
    args.command = HALT;
    OK(dpu_copy_to(dpu_number(set, 1), "args", 0, &args, sizeof args));
    OK(dpu_launch(set, DPU_ASYNCHRONOUS));
    dpu_error_t error = dpu_sync(set);
    char *text = dpu_error_to_string(error);
    CHECK((uint32_t)error >> 31 == 1 && ((uint32_t)error & 0xffff) == DPU_ERR_DPU_FAULT);
    CHECK(strncmp(text, "asynchronous operation error (launch_rank): dpu is in fault (0x10017)", 70) == 0);
    free(text);
    OK(dpu_sync(set)); /* told once */
    OK(dpu_status(dpu_number(set, 0), &done, &fault));
    CHECK(done && !fault);
    OK(dpu_free(set));
}

static void test_log(void) {
    struct dpu_set_t set = open_set(2, STRICT);
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    OK(launch(set, PRINT, 99, 0, 0));
    EXPECT(DPU_ERR_INVALID_DPU_SET, dpu_log_read(set, stream));
    OK(dpu_log_read(dpu_number(set, 1), stream));
    fflush(stream);
    CHECK(strncmp(text, "=== DPU#0x1 ===\ntasklet ", 24) == 0);
    CHECK(strstr(text, "tasklet 0 of 24: 99\n") != NULL && strstr(text, "tasklet 1 of 24: 99\n") != NULL);
    OK(launch(set, FLOOD, 1024, 0, 0)); /* just fits */
    OK(dpu_log_read(dpu_number(set, 0), stream));
    OK(launch(set, FLOOD, 1025, 0, 0));
    EXPECT(DPU_ERR_LOG_BUFFER_TOO_SMALL, dpu_log_read(dpu_number(set, 0), stream));
    fclose(stream);
    free(text);
    OK(dpu_free(set));
}

/* A program without printf. */
static void test_no_log(void) {
    struct dpu_set_t set = open_set(1, STRICT);
    FILE *stream = tmpfile();
    OK(dpu_launch(set, DPU_SYNCHRONOUS));
    EXPECT(DPU_ERR_LOG_CONTEXT_MISSING, dpu_log_read(dpu_number(set, 0), stream));
    fclose(stream);
    OK(dpu_free(set));
}

static void test_texts(void) {
    const struct {
        dpu_error_t error;
        const char *text;
    } cases[] = {
        {DPU_OK, "success"},
        {DPU_ERR_DPU_FAULT, "dpu is in fault"},
        {DPU_ERR_ELF_NO_SUCH_SECTION, "no such ELF section"},
        {DPU_ERR_TOO_MANY_TASKLETS, "dpu program uses more tasklets than the hardware has threads"},
        {(dpu_error_t)77, "unknown error"},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = dpu_error_to_string(cases[i].error);
        CHECK(strcmp(text, cases[i].text) == 0);
        free(text);
    }
}

const struct conform_case host_cases[] = {
    CASE(profiles),     CASE(sets),      CASE(load),   CASE(transfers), CASE(queue),
    CASE(asynchronous), CASE(log),       CASE(no_log), CASE(texts),     CASE(time_out),
    CASE(fork),         CASE(truncated), {NULL, NULL},
};
