/* Time that sections of code take, for each tasklet: between profiling_start and profiling_stop, added up in
 * `count`. Natively in nanoseconds, as perfcounter.h counts. Without DPU_PROFILING both calls are nothing, as
 * in the SDK. */
#ifndef DPUSIM_PROFILING_H
#define DPUSIM_PROFILING_H

#include "defs.h"
#include "dpufault.h"
#include "perfcounter.h"

#ifndef NR_THREADS
#define NR_THREADS 24
#endif
#define PROFILING_RESET_VALUE UINT32_MAX

typedef struct {
    uint32_t start[NR_THREADS]; /* PROFILING_RESET_VALUE: outside of the section */
    uint32_t count[NR_THREADS];
} dpu_profiling_t;

#define PROFILING_INIT(name)                                                                                 \
    dpu_profiling_t name = {.start = {[0 ...(NR_THREADS - 1)] = PROFILING_RESET_VALUE}}

#ifdef DPU_PROFILING
static inline uint32_t dpusim_profiling_now(void) {
    const uint32_t now = (uint32_t)perfcounter_get();
    return now == PROFILING_RESET_VALUE ? 0 : now;
}

static inline void dpusim_profiling_start(dpu_profiling_t *context, const char *file, uint32_t line) {
    if (context->start[me()] != PROFILING_RESET_VALUE)
        dpusim_fault_at(DPU_FAULT_ALREADY_PROFILING, "profiling_start within the section", file, line);
    context->start[me()] = dpusim_profiling_now();
}

static inline void dpusim_profiling_stop(dpu_profiling_t *context, const char *file, uint32_t line) {
    if (context->start[me()] == PROFILING_RESET_VALUE)
        dpusim_fault_at(DPU_FAULT_NOT_PROFILING, "profiling_stop outside of the section", file, line);
    context->count[me()] += dpusim_profiling_now() - context->start[me()];
    context->start[me()] = PROFILING_RESET_VALUE;
}

#define profiling_start(context) dpusim_profiling_start(context, __FILE__, __LINE__)
#define profiling_stop(context) dpusim_profiling_stop(context, __FILE__, __LINE__)
#else
#define profiling_start(context) ((void)(context))
#define profiling_stop(context) ((void)(context))
#endif

#endif
