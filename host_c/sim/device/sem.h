/* Counting semaphores. Their counts persist over launches. */
#ifndef DPUSIM_SEM_H
#define DPUSIM_SEM_H

#include "atomic_bit.h"

typedef struct dpusim_semaphore sem_t;

#define SEMAPHORE_INIT(name, value) sem_t name __attribute__((used)) = {0xff, 0, (value)};

static inline void sem_take(sem_t *semaphore) {
    dpusim_program.ops->take(semaphore, "", 0);
}
static inline void sem_give(sem_t *semaphore) {
    dpusim_program.ops->give(semaphore, "", 0);
}

#define sem_take(semaphore) dpusim_program.ops->take((semaphore), __FILE__, __LINE__)
#define sem_give(semaphore) dpusim_program.ops->give((semaphore), __FILE__, __LINE__)

#endif
