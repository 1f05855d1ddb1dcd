/* The device layer over <dpu.h>: transfers, launches, the SDK's errors in words, and the host's threads. */
#define _GNU_SOURCE /* sched_getaffinity */
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

int upmem_device_status(struct upmem *upmem, dpu_error_t error, const char *what) {
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
        const uint32_t number = upmem->places[index].number;
        if (status == BFV_OK && number != UPMEM_OUT) {
            status =
                upmem_device_status(upmem, dpu_prepare_xfer(dpu, (uint8_t *)data + number * bytes), what);
        }
    }
    if (status == BFV_OK) {
        status =
            upmem_device_status(upmem, dpu_push_xfer(upmem->set, way, symbol, offset, bytes, flags), what);
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
    const int synced = upmem_device_status(upmem, dpu_sync(upmem->set), "copying to the DPUs");
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
        status = upmem_device_status(
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
            return upmem_blame(upmem, d, "ended without a report: its program stopped early");
        }
        if (report->status != BFV_DPU_OK) {
            return upmem_blame(upmem, d, "refused command 0x%x (status %u)", upmem->command, report->status);
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
        status = upmem_device_status(upmem, upmem_device_start(upmem), "running the DPUs");
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
    int status = upmem_device_status(upmem, dpu_sync(upmem->set), "running the DPUs");
    const uint64_t start = upmem_clock();
    stats->kernel += (upmem->ended != 0 ? upmem->ended : start) - upmem->launched;
    if (status != BFV_OK) {
        upmem_blame_faulty(upmem);
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
