/* The performance counter. Natively it counts nanoseconds of the host's clock in steps of 16,
 * in every mode: it never goes back, and it says nothing about a DPU's speed. */
#ifndef DPUSIM_PERFCOUNTER_H
#define DPUSIM_PERFCOUNTER_H

#include "attributes.h"

typedef uint64_t perfcounter_t;
typedef enum {
    COUNT_SAME = 0,
    COUNT_CYCLES = 1,
    COUNT_INSTRUCTIONS = 2,
    COUNT_NOTHING = 3,
} perfcounter_config_t;

#undef CLOCKS_PER_SEC
#define CLOCKS_PER_SEC UINT32_C(1000000000)

static inline perfcounter_t perfcounter_config(perfcounter_config_t config, bool reset) {
    (void)config;
    return dpusim_program.ops->perfcounter(reset);
}

static inline perfcounter_t perfcounter_get(void) {
    return dpusim_program.ops->perfcounter(false);
}

#endif
