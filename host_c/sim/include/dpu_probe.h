/* Probes around parts of a host program: the time that they took, on this machine. The SDK's also measure the
 * energy of DIMMs, of which a simulator has none: that is not a number. */
#ifndef DPU_PROBE_H
#define DPU_PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "dpu.h"

typedef enum { DPU_ENERGY = 0, DPU_TIME = 1 } dpu_probe_unit_t;
typedef enum { DPU_AVERAGE = 0, DPU_ACCUMULATE = 1 } dpu_probe_operation_t;

struct dpu_probe_t {
    struct timespec begun;
    double seconds; /* of all sections */
    uint32_t sections;
    bool running;
};

static inline dpu_error_t dpu_probe_init(const char *name, struct dpu_probe_t *probe) {
    (void)name;
    *probe = (struct dpu_probe_t){.running = false};
    return DPU_OK;
}

static inline dpu_error_t dpu_probe_deinit(struct dpu_probe_t *probe) {
    return dpu_probe_init("", probe);
}

/* DPU_ERR_INTERNAL when it has been started already. */
static inline dpu_error_t dpu_probe_start(struct dpu_probe_t *probe) {
    if (probe->running)
        return DPU_ERR_INTERNAL;
    probe->running = true;
    return timespec_get(&probe->begun, TIME_UTC) == TIME_UTC ? DPU_OK : DPU_ERR_SYSTEM;
}

/* DPU_ERR_INTERNAL when it has not been started. */
static inline dpu_error_t dpu_probe_stop(struct dpu_probe_t *probe) {
    struct timespec now;
    if (!probe->running)
        return DPU_ERR_INTERNAL;
    if (timespec_get(&now, TIME_UTC) != TIME_UTC)
        return DPU_ERR_SYSTEM;
    probe->running = false;
    probe->seconds +=
        (double)(now.tv_sec - probe->begun.tv_sec) + 1e-9 * (double)(now.tv_nsec - probe->begun.tv_nsec);
    probe->sections++;
    return DPU_OK;
}

/* Of all sections that have ended, seconds for DPU_TIME: their sum, or their mean, not a number without one.
 */
static inline dpu_error_t dpu_probe_get(struct dpu_probe_t *probe, dpu_probe_unit_t unit,
                                        dpu_probe_operation_t operation, double *value) {
    const double none = __builtin_nan("");
    const double mean = probe->sections == 0 ? none : probe->seconds / probe->sections;
    *value = unit != DPU_TIME ? none : operation == DPU_AVERAGE ? mean : probe->seconds;
    return DPU_OK;
}

#endif
