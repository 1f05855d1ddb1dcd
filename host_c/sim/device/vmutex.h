/* Many mutexes behind a few of the hardware's. In WRAM: one that is held at the end of a launch is
 * held at the start of the next. */
#ifndef DPUSIM_VMUTEX_H
#define DPUSIM_VMUTEX_H

#include "mutex.h"

struct vmutex {
    uint8_t *vmutexes; /* natively a byte each */
    uint16_t count;
};

#define VMUTEX_INIT(NAME, NV, NHW)                                                                           \
    _Static_assert((NV) > 0 && (NV) % 8 == 0, "the number of virtual mutexes must be a multiple of 8");      \
    _Static_assert((NHW) > 0 && ((NHW) & ((NHW) - 1)) == 0, "the number of mutexes must be a power of 2");   \
    uint8_t dpusim_vmutex_##NAME[NV];                                                                        \
    struct vmutex NAME = {dpusim_vmutex_##NAME, (NV)};

static inline void vmutex_lock(const struct vmutex *vmutex, uint16_t id) {
    dpusim_program.ops->lock(vmutex->vmutexes + id % vmutex->count, __FILE__, __LINE__);
}

static inline void vmutex_unlock(const struct vmutex *vmutex, uint16_t id) {
    dpusim_program.ops->unlock(vmutex->vmutexes + id % vmutex->count, __FILE__, __LINE__);
}

#endif
