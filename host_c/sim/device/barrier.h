/* Barriers. Natively one of NR_TASKLETS waits for the tasklets of the launch. */
#ifndef DPUSIM_BARRIER_H
#define DPUSIM_BARRIER_H

#include "atomic_bit.h"

typedef struct dpusim_barrier barrier_t;

#define BARRIER_INIT(name, tasklets)                                                                         \
    _Static_assert((tasklets) <= 127 && (tasklets) >= -127, "barrier counter out of range");                 \
    barrier_t name __attribute__((used)) = {0xff, (tasklets), (tasklets), 0};

static inline void barrier_wait(barrier_t *barrier) {
    dpusim_program.ops->wait(barrier, "", 0);
}

#define barrier_wait(barrier) dpusim_program.ops->wait((barrier), __FILE__, __LINE__)

#endif
