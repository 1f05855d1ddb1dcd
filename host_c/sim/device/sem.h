/* Counting semaphores. Their counts persist over launches. */
#ifndef DPUSIM_SEM_H
#define DPUSIM_SEM_H

#include "attributes.h"

typedef struct dpusim_semaphore sem_t;

#define SEMAPHORE_INIT(name, value)                                                                          \
    sem_t name __attribute__((used, section("dpu_wram"))) = {0xff, 0, (value)};

#define sem_take(semaphore) dpusim_program.ops->sem_take((semaphore), __FILE__, __LINE__)
#define sem_give(semaphore) dpusim_program.ops->sem_give((semaphore), __FILE__, __LINE__)

#endif
