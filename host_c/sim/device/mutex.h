/* Mutexes; all are free at each boot. */
#ifndef DPUSIM_MUTEX_H
#define DPUSIM_MUTEX_H

#include "atomic_bit.h"

typedef uint8_t *mutex_id_t;

#define MUTEX_GET(name) name
#define MUTEX_INIT(name)                                                                                     \
    ATOMIC_BIT_INIT(name);                                                                                   \
    const mutex_id_t name = &ATOMIC_BIT_GET(name);

/* Functions, so that their addresses can be taken, and macros, which know the caller's line. */
static inline void mutex_lock(mutex_id_t mutex) {
    dpusim_program.ops->lock(mutex, "", 0);
}
static inline bool mutex_trylock(mutex_id_t mutex) {
    return dpusim_program.ops->trylock(mutex, "", 0);
}
static inline void mutex_unlock(mutex_id_t mutex) {
    dpusim_program.ops->unlock(mutex, "", 0);
}

#define mutex_lock(mutex) dpusim_program.ops->lock((mutex), __FILE__, __LINE__)
#define mutex_trylock(mutex) dpusim_program.ops->trylock((mutex), __FILE__, __LINE__)
#define mutex_unlock(mutex) dpusim_program.ops->unlock((mutex), __FILE__, __LINE__)

#endif
