/* The device layer over <dpu.h>: the set of DPUs and its program, transfers, launches, the SDK's
 * errors in words, and the host's threads. */
#define _GNU_SOURCE /* dladdr, sched_getaffinity */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "upmem.h"

#ifdef DPUSIM
#include <dpusim.h>
#endif

enum {
    DEFAULT_SIM_DPUS = 64,
    MAX_HOST_THREADS = 16 /* moving memory saturates before */
};

/* ---- errors and time --------------------------------------------------------- */

uint64_t upmem_seed(const struct upmem *upmem) {
#ifdef DPUSIM
    return upmem->dpus != 0 && dpusim_is_strict(upmem->set) ? dpusim_seed(upmem->set) : 0;
#else
    (void)upmem;
    return 0;
#endif
}

int upmem_fail(struct upmem *upmem, int status, const char *format, ...) {
    char *detail = upmem->backend->detail;
    const size_t size = sizeof upmem->backend->detail;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(detail, size, format, arguments);
    va_end(arguments);
    const uint64_t seed = upmem_seed(upmem);
    const size_t length = strlen(detail);
    if (seed != 0 && strstr(detail, "(seed ") == NULL) {
        (void)snprintf(detail + length, size - length, " (seed %llu)", (unsigned long long)seed);
    }
    return status;
}

/* BFV_OK, or BFV_E_BACKEND with the SDK's words. */
static int device(struct upmem *upmem, dpu_error_t error, const char *what) {
    if (error == DPU_OK) {
        return BFV_OK;
    }
    char *text = dpu_error_to_string(error);
#ifdef DPUSIM
    const char *more = dpusim_last_error(upmem->set);
#else
    const char *more = "";
#endif
    const char *separator = more[0] != '\0' ? ": " : "";
    (void)upmem_fail(upmem, BFV_E_BACKEND, "%s: %s%s%s", what, text != NULL ? text : "unknown", separator,
                     more);
    free(text);
    return BFV_E_BACKEND;
}

uint64_t upmem_clock(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Notes when a launch under way has ended, so that the host's own work doesn't count as the kernel's. */
static void watch(struct upmem *upmem) {
    bool done = false, fault = false;
    if (upmem->running && upmem->ended == 0 && dpu_status(upmem->set, &done, &fault) == DPU_OK && done) {
        upmem->ended = upmem_clock();
    }
}

/* ---- host threads ------------------------------------------------------------- */

struct crew {
    void (*run)(void *job, uint32_t k);
    void *job;
    uint32_t count;
    atomic_uint next;
};

/* Runs the next k; false when there is none. */
static bool crew_step(struct crew *crew) {
    const uint32_t k = atomic_fetch_add_explicit(&crew->next, 1, memory_order_relaxed);
    if (k < crew->count) {
        crew->run(crew->job, k);
    }
    return k < crew->count;
}

static void *crew_run(void *argument) {
    while (crew_step(argument)) {
    }
    return NULL;
}

void upmem_parallel(struct upmem *upmem, uint32_t count, void (*run)(void *job, uint32_t k), void *job) {
    struct crew crew = {.run = run, .job = job, .count = count};
    atomic_init(&crew.next, 0);
    cpu_set_t set;
    CPU_ZERO(&set);
    uint32_t threads = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
    threads = threads < MAX_HOST_THREADS ? threads : MAX_HOST_THREADS;
    threads = threads < count ? threads : count;

    pthread_t started[MAX_HOST_THREADS];
    uint32_t running = 0;
    while (running + 1 < threads && pthread_create(&started[running], NULL, crew_run, &crew) == 0) {
        running++;
    }
    while (crew_step(&crew)) { /* whatever found no thread is done here */
        watch(upmem);
    }
    for (uint32_t i = 0; i < running; i++) {
        (void)pthread_join(started[i], NULL);
    }
}

/* ---- transfers and launches ---------------------------------------------------- */

uint32_t *upmem_stage(struct upmem *upmem, uint32_t which, uint64_t bytes) {
    size_t size = 0;
    if (!size_mul(bytes, upmem->dpus, &size)) {
        return NULL;
    }
    if (size > upmem->stage_bytes[which]) {
        buffer_free(upmem->stage[which]);
        upmem->stage[which] = buffer_alloc(size);
        upmem->stage_bytes[which] = upmem->stage[which] == NULL ? 0 : size;
    }
    return upmem->stage[which];
}

/* Prepares and pushes `bytes` of each DPU, DPU d's at data + d * bytes. The host can't reach a DPU's
 * memory while it runs, so a launch under way is waited for first. */
static int transfer(struct upmem *upmem, dpu_xfer_t way, const char *symbol, uint32_t offset, void *data,
                    uint64_t bytes, dpu_xfer_flags_t flags, const char *what) {
    struct dpu_set_t dpu;
    uint32_t index = 0;
    int status = upmem_launch_end(upmem);
    DPU_FOREACH(upmem->set, dpu, index) {
        if (status == BFV_OK) {
            status = device(upmem, dpu_prepare_xfer(dpu, (uint8_t *)data + index * bytes), what);
        }
    }
    if (status == BFV_OK) {
        status = device(upmem, dpu_push_xfer(upmem->set, way, symbol, offset, bytes, flags), what);
    }
    if (status != BFV_OK) { /* a failed push leaves its buffers prepared */
        (void)dpu_prepare_xfer(upmem->set, NULL);
    }
    return status;
}

int upmem_push_begin(struct upmem *upmem, uint32_t offset, const void *src, uint64_t bytes) {
    const uint64_t start = upmem_clock();
    const int status = transfer(upmem, DPU_XFER_TO_DPU, DPU_MRAM_HEAP_POINTER_NAME, offset,
                                (void *)(uintptr_t)src, bytes, DPU_XFER_ASYNC, "copying to the DPUs");
    upmem->backend->stats.host_to_dpu += upmem_clock() - start;
    return status;
}

int upmem_settle(struct upmem *upmem) {
    const int ended = upmem_launch_end(upmem);
    const uint64_t start = upmem_clock();
    const int synced = device(upmem, dpu_sync(upmem->set), "copying to the DPUs");
    const int status = ended != BFV_OK ? ended : synced;
    upmem->backend->stats.host_to_dpu += upmem_clock() - start;
    return status;
}

int upmem_push(struct upmem *upmem, uint32_t offset, const void *src, uint64_t bytes) {
    const uint64_t start = upmem_clock();
    const int status = transfer(upmem, DPU_XFER_TO_DPU, DPU_MRAM_HEAP_POINTER_NAME, offset,
                                (void *)(uintptr_t)src, bytes, DPU_XFER_DEFAULT, "copying to the DPUs");
    upmem->backend->stats.host_to_dpu += upmem_clock() - start;
    return status;
}

int upmem_pull(struct upmem *upmem, uint32_t offset, void *dst, uint64_t bytes) {
    const uint64_t start = upmem_clock();
    const int status = transfer(upmem, DPU_XFER_FROM_DPU, DPU_MRAM_HEAP_POINTER_NAME, offset, dst, bytes,
                                DPU_XFER_DEFAULT, "copying from the DPUs");
    upmem->backend->stats.dpu_to_host += upmem_clock() - start;
    return status;
}

int upmem_broadcast(struct upmem *upmem, uint32_t offset, const void *src, uint64_t bytes) {
    int status = upmem_launch_end(upmem);
    const uint64_t start = upmem_clock();
    if (status == BFV_OK) {
        status = device(
            upmem,
            dpu_broadcast_to(upmem->set, DPU_MRAM_HEAP_POINTER_NAME, offset, src, bytes, DPU_XFER_DEFAULT),
            "copying to all DPUs");
    }
    upmem->backend->stats.host_to_dpu += upmem_clock() - start;
    return status;
}

/* Whether every DPU has run these arguments to the end. */
static int check_reports(struct upmem *upmem) {
    for (uint32_t d = 0; d < upmem->dpus; d++) {
        const struct bfv_report *report = &upmem->reports[d];
        if (report->serial != upmem->serial) {
            return upmem_fail(upmem, BFV_E_BACKEND,
                              "DPU %u of %u ended without a report: its program stopped early", d,
                              upmem->dpus);
        }
        if (report->status != BFV_DPU_OK) {
            return upmem_fail(upmem, BFV_E_BACKEND, "DPU %u of %u refused command 0x%x (status %u)", d,
                              upmem->dpus, upmem->command, report->status);
        }
    }
    return BFV_OK;
}

int upmem_launch_begin(struct upmem *upmem) {
    int status = upmem_launch_end(upmem);
    if (status != BFV_OK) {
        return status;
    }
    upmem->serial = upmem->serial == UINT32_MAX ? 1 : upmem->serial + 1;
    upmem->command = upmem->args[0].command;
    upmem->ended = 0;
    for (uint32_t d = 0; d < upmem->dpus; d++) {
        upmem->args[d].serial = upmem->serial;
        upmem->args[d].tasklets = (uint8_t)upmem->tasklets;
    }
    const uint64_t start = upmem_clock();
    status = transfer(upmem, DPU_XFER_TO_DPU, "bfv_args", 0, upmem->args, sizeof *upmem->args,
                      DPU_XFER_DEFAULT, "sending arguments");
    upmem->launched = upmem_clock();
    upmem->backend->stats.host_to_dpu += upmem->launched - start;
    if (status == BFV_OK) {
        status = device(upmem, dpu_launch(upmem->set, DPU_ASYNCHRONOUS), "running the DPUs");
    }
    upmem->running = status == BFV_OK;
    if (upmem->running) {
        upmem_record_begin(upmem);
    }
    return status;
}

/* Waits for the launch under way and reads its reports. */
static int end_run(struct upmem *upmem) {
    bfv_stats *stats = &upmem->backend->stats;
    watch(upmem);
    upmem->running = false;
    int status = device(upmem, dpu_sync(upmem->set), "running the DPUs");
    const uint64_t start = upmem_clock();
    stats->kernel += (upmem->ended != 0 ? upmem->ended : start) - upmem->launched;
    if (status != BFV_OK) {
        return status;
    }
    upmem_record_end(upmem);
    status = transfer(upmem, DPU_XFER_FROM_DPU, "bfv_report", 0, upmem->reports, sizeof *upmem->reports,
                      DPU_XFER_DEFAULT, "reading reports");
    stats->dpu_to_host += upmem_clock() - start;
    return status == BFV_OK ? check_reports(upmem) : status;
}

int upmem_launch_end(struct upmem *upmem) {
    if (!upmem->running) {
        return BFV_OK;
    }
    const int status = end_run(upmem);
    const struct upmem_left left = upmem->left;
    upmem->left = (struct upmem_left){0};
    return left.acc == NULL ? status : left.finish(upmem, left.acc, status);
}

void upmem_leave(struct upmem *upmem, int (*finish)(struct upmem *upmem, void *acc, int status), void *acc) {
    upmem->left = (struct upmem_left){finish, acc};
}

void upmem_forget(struct upmem *upmem, const void *acc) {
    if (upmem->left.acc == acc) {
        upmem->left.acc = NULL;
    }
}

int upmem_launch(struct upmem *upmem) {
    const int status = upmem_launch_begin(upmem);
    return status == BFV_OK ? upmem_launch_end(upmem) : status;
}

/* ---- the set of DPUs --------------------------------------------------------------- */

/* The folder of programs beside this plug-in, with room for a name: false when it's too long. */
static bool program_path(const char *name, const char *suffix, char *out, size_t size) {
    Dl_info info;
    if (dladdr(&family_ntt, &info) == 0 || info.dli_fname == NULL) {
        return false;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - info.dli_fname) + 1;
    const int length = snprintf(out, size, "%.*sdpu/%s%s", folder, info.dli_fname, name, suffix);
    return length > 0 && (size_t)length < size;
}

/* Whether the environment's profiles, which the backend's would win over, have a key ("timeout="). */
static bool environment_names(const char *key) {
    static const char *const names[] = {"UPMEM_PROFILE_BASE", "UPMEM_PROFILE"};
    bool found = false;
    for (uint32_t i = 0; i < 2; i++) {
        const char *value = getenv(names[i]);
        found |= value != NULL && strstr(value, key) != NULL;
    }
    return found;
}

#ifdef DPUSIM
static bool is_strict(uint32_t strict) {
    if (strict == BFV_SIM_DEFAULT) {
        const char *mode = getenv("PYBFV_SIM");
        return mode == NULL || strcmp(mode, "faithful") != 0; /* the binding refuses other words */
    }
    return strict == BFV_SIM_STRICT;
}

/* Milliseconds for one DPU's run in strict mode: long, as real jobs are and loops have an end. */
#define STRICT_TIMEOUT "timeout=3600000,"
#endif

int upmem_device_open(struct upmem *upmem, const bfv_options *options, const char *program) {
    char profile[512], path[4096];
    const char *user = options->profile == NULL ? "" : options->profile;
    const char *comma = user[0] == '\0' ? "" : ",";
#ifdef DPUSIM
    const bool strict = is_strict(options->strict);
    const char *suffix = strict ? ".strict.so" : ".sim.so";
    const char *timeout = strict && !environment_names("timeout=") ? STRICT_TIMEOUT : "";
    const int length = snprintf(profile, sizeof profile, "backend=simulator,nrDpusPerCI=8,%sstrict=%d%s%s",
                                timeout, strict, comma, user); /* the user's come last and win */
    const uint32_t wanted = options->dpus == 0 ? (uint32_t)DEFAULT_SIM_DPUS : options->dpus;
#else
    const char *suffix = ".dpu";
    /* hardware, unless it is the vendor's simulator that the environment asks for */
    const char *backend = environment_names("backend=") ? "" : "backend=hw";
    const int length =
        snprintf(profile, sizeof profile, "%s%s%s", backend, backend[0] == '\0' ? "" : comma, user);
    const uint32_t wanted = options->dpus == 0 ? DPU_ALLOCATE_ALL : options->dpus;
#endif
    if (length < 0 || (size_t)length >= sizeof profile) {
        return upmem_fail(upmem, BFV_E_ARGUMENT, "the profile is too long");
    }
    if (!program_path(program, suffix, path, sizeof path)) {
        return upmem_fail(upmem, BFV_E_UNSUPPORTED, "the folder of the DPU programs can't be found");
    }
    dpu_error_t error = dpu_alloc(wanted, profile, &upmem->set);
    if (error != DPU_OK) {
        (void)device(upmem, error, "allocating DPUs");
        /* More than there are? Then the number is at fault, not the machine. */
        uint32_t exist = 0;
        if (error == DPU_ERR_ALLOCATION && wanted != DPU_ALLOCATE_ALL &&
            dpu_alloc(DPU_ALLOCATE_ALL, profile, &upmem->set) == DPU_OK) {
            (void)dpu_get_nr_dpus(upmem->set, &exist);
            (void)dpu_free(upmem->set);
        }
        upmem->set = (struct dpu_set_t){0};
        if (exist != 0) {
            return upmem_fail(upmem, BFV_E_ARGUMENT, "%u DPUs were asked for, %u are free", wanted, exist);
        }
        return error == DPU_ERR_INVALID_PROFILE ? BFV_E_ARGUMENT : BFV_E_UNSUPPORTED;
    }
    int status = device(upmem, dpu_get_nr_dpus(upmem->set, &upmem->dpus), "counting DPUs");
    struct dpu_program_t *loaded = NULL;
    if (status == BFV_OK) {
        status = device(upmem, dpu_load(upmem->set, path, &loaded), path);
        if (status != BFV_OK) {
            status = BFV_E_UNSUPPORTED; /* not built, or built for another SDK */
        }
    }
#ifdef DPUSIM
    if (status == BFV_OK) {
        status = device(upmem, dpusim_set_tasklets(upmem->set, upmem->tasklets), "setting tasklets");
    }
#endif
    struct dpu_symbol_t heap = {0};
    if (status == BFV_OK) {
        status =
            device(upmem, dpu_get_symbol(loaded, DPU_MRAM_HEAP_POINTER_NAME, &heap), "finding the MRAM heap");
    }
    upmem->mram.size = heap.size / BFV_ALIGN * BFV_ALIGN;
    /* Tests make MRAM small, to force rounds. */
    const char *limit = getenv("PYBFV_MRAM_LIMIT");
    if (limit != NULL) {
        const unsigned long bytes = strtoul(limit, NULL, 10) / BFV_ALIGN * BFV_ALIGN;
        upmem->mram.size = bytes < upmem->mram.size ? (uint32_t)bytes : upmem->mram.size;
    }
    if (status == BFV_OK) {
        upmem->args = calloc(upmem->dpus, sizeof *upmem->args);
        upmem->reports = calloc(upmem->dpus, sizeof *upmem->reports);
        status = upmem->args == NULL || upmem->reports == NULL ? BFV_E_MEMORY : BFV_OK;
    }
    return status;
}

void upmem_device_close(struct upmem *upmem) {
    if (upmem->dpus != 0) {
        (void)dpu_free(upmem->set);
    }
    mram_close(&upmem->mram);
    for (uint32_t i = 0; i < UPMEM_STAGES; i++) {
        buffer_free(upmem->stage[i]);
    }
    free(upmem->args);
    free(upmem->reports);
    free(upmem->record.events);
}
