/* N mutexes for many things: number i is guarded by mutex i modulo N. */
#ifndef DPUSIM_MUTEX_POOL_H
#define DPUSIM_MUTEX_POOL_H

#include "mutex.h"

struct mutex_pool {
    mutex_id_t hw_mutexes;
    uint16_t mask;
};

#define MUTEX_POOL_INIT(NAME, N)                                                                             \
    _Static_assert((N) > 0 && ((N) & ((N) - 1)) == 0, "the number of mutexes must be a power of 2");         \
    uint8_t dpusim_pool_##NAME[N] __atomic_bit;                                                              \
    struct mutex_pool NAME = {dpusim_pool_##NAME, (N) - 1};

static inline void mutex_pool_lock(const struct mutex_pool *pool, uint16_t id) {
    dpusim_program.ops->lock(pool->hw_mutexes + (id & pool->mask), __FILE__, __LINE__);
}

static inline void mutex_pool_unlock(const struct mutex_pool *pool, uint16_t id) {
    dpusim_program.ops->unlock(pool->hw_mutexes + (id & pool->mask), __FILE__, __LINE__);
}

#endif
