/* Barriers. Natively one of NR_TASKLETS waits for the tasklets of the launch. */
#ifndef DPUSIM_BARRIER_H
#define DPUSIM_BARRIER_H

#include "attributes.h"

typedef struct dpusim_barrier barrier_t;

#define BARRIER_INIT(name, tasklets)                                                                         \
    barrier_t name __attribute__((used, section("dpu_wram"))) = {0xff, (tasklets), (tasklets), 0};

#define barrier_wait(barrier) dpusim_program.ops->barrier_wait((barrier), __FILE__, __LINE__)

#endif
