/* Memory from WRAM: the bump allocator; on top of it blocks of one size and the buddy allocator.
 * Its pointer persists over launches: tasklet 0 resets it first. */
#ifndef DPUSIM_ALLOC_H
#define DPUSIM_ALLOC_H

#include "attributes.h"

/* 8-aligned; faults where the WRAM of stacks, static data and heap is used up. 0: where the next block
 * would start. */
static inline void *mem_alloc(size_t n) {
    return dpusim_program.ops->alloc(n, "", 0);
}

#define mem_alloc(n) dpusim_program.ops->alloc((n), __FILE__, __LINE__)

static inline void *mem_reset(void) {
    return dpusim_program.ops->reset();
}

#ifndef DPUSIM_TYPECHECK /* no C library there */
#include "buddy_alloc.h"
#include "fsb_allocator.h"
#endif

#endif
