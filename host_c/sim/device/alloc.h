/* The bump allocator of WRAM. Its pointer persists over launches: tasklet 0 resets it first. */
#ifndef DPUSIM_ALLOC_H
#define DPUSIM_ALLOC_H

#include "attributes.h"

/* 8-aligned; faults where the 64 KB of stacks, static data and heap are used up. */
#define mem_alloc(n) dpusim_program.ops->mem_alloc((n), __FILE__, __LINE__)

static inline void *mem_reset(void) {
    return dpusim_program.ops->mem_reset();
}

#endif
