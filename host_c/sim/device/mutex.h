/* Mutexes; all are free at each boot. */
#ifndef DPUSIM_MUTEX_H
#define DPUSIM_MUTEX_H

#include "attributes.h"

typedef uint8_t *mutex_id_t;

#define MUTEX_GET(name) name
#define MUTEX_INIT(name)                                                                                     \
    uint8_t dpusim_mutex_##name __attribute__((used, section("dpu_atomic")));                                \
    const mutex_id_t name = &dpusim_mutex_##name;

#define mutex_lock(mutex) dpusim_program.ops->mutex_lock((mutex), __FILE__, __LINE__)
#define mutex_trylock(mutex) dpusim_program.ops->mutex_trylock((mutex), __FILE__, __LINE__)
#define mutex_unlock(mutex) dpusim_program.ops->mutex_unlock((mutex), __FILE__, __LINE__)

#endif
