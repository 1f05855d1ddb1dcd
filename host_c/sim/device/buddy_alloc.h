/* The buddy allocator: blocks of 16 bytes times a power of two out of one block of mem_alloc. */
#ifndef DPUSIM_BUDDY_ALLOC_H
#define DPUSIM_BUDDY_ALLOC_H

#include "alloc.h"

#include <errno.h>

#define DPUSIM_BUDDY_UNIT 16u
#define DPUSIM_BUDDY_MOST 32768u

/* units[i]: 0 inside a block, else its order + 1, with 0x80 where it is taken. */
struct dpusim_buddy {
    uint8_t *heap;
    uint32_t bytes;
    uint8_t units[DPUSIM_BUDDY_MOST / DPUSIM_BUDDY_UNIT];
};
DPUSIM_HIDDEN struct dpusim_buddy dpusim_buddy;
DPUSIM_HIDDEN __attribute__((section("dpu_atomic"))) uint8_t dpusim_buddy_lock;

/* Order of the smallest block that holds size bytes. */
static inline uint32_t dpusim_buddy_order(size_t size) {
    uint32_t order = 0;
    while (((size_t)DPUSIM_BUDDY_UNIT << order) < size)
        order++;
    return order;
}

static inline void dpusim_buddy_clear(void) {
    __builtin_memset(dpusim_buddy.units, 0, sizeof dpusim_buddy.units);
    dpusim_buddy.units[0] = (uint8_t)(dpusim_buddy_order(dpusim_buddy.bytes) + 1);
}

/* size: 2,048 to 32,768, a power of two; one tasklet calls it, once for each mem_reset. */
static inline void dpusim_buddy_init(size_t size, const char *file, uint32_t line) {
    size = size < 2048 ? 2048 : size > DPUSIM_BUDDY_MOST ? DPUSIM_BUDDY_MOST : size;
    dpusim_buddy.bytes = DPUSIM_BUDDY_UNIT << dpusim_buddy_order(size);
    dpusim_buddy.heap = (uint8_t *)dpusim_program.ops->alloc(dpusim_buddy.bytes, file, line);
    dpusim_buddy_clear();
}

static inline void buddy_init(size_t size) {
    dpusim_buddy_init(size, "", 0);
}
#define buddy_init(size) dpusim_buddy_init((size), __FILE__, __LINE__)

/* All blocks are free again. */
static inline void buddy_reset(void) {
    dpusim_program.ops->lock(&dpusim_buddy_lock, __FILE__, __LINE__);
    dpusim_buddy_clear();
    dpusim_program.ops->unlock(&dpusim_buddy_lock, __FILE__, __LINE__);
}

/* NULL with errno EINVAL for a size of 0 or above 32,768, or ENOMEM. */
static inline void *buddy_alloc(size_t size) {
    if (size == 0 || size > DPUSIM_BUDDY_MOST) {
        errno = EINVAL;
        return NULL;
    }
    uint32_t order = dpusim_buddy_order(size), count = dpusim_buddy.bytes / DPUSIM_BUDDY_UNIT;
    uint32_t best = count, best_order = UINT32_MAX;
    dpusim_program.ops->lock(&dpusim_buddy_lock, __FILE__, __LINE__);
    for (uint32_t at = 0; at < count; at += UINT32_C(1) << ((dpusim_buddy.units[at] & 0x7f) - 1)) {
        uint32_t found = (uint32_t)(dpusim_buddy.units[at] & 0x7f) - 1;
        if (!(dpusim_buddy.units[at] & 0x80) && found >= order && found < best_order) {
            best = at;
            best_order = found;
        }
    }
    if (best < count) {
        for (; best_order > order; best_order--)
            dpusim_buddy.units[best + (UINT32_C(1) << (best_order - 1))] = (uint8_t)best_order;
        dpusim_buddy.units[best] = (uint8_t)(0x80 | (order + 1));
    }
    dpusim_program.ops->unlock(&dpusim_buddy_lock, __FILE__, __LINE__);
    if (best == count) {
        errno = ENOMEM;
        return NULL;
    }
    return dpusim_buddy.heap + (size_t)best * DPUSIM_BUDDY_UNIT;
}

static inline void buddy_free(void *pointer) {
    if (pointer == NULL)
        return;
    uint32_t at = (uint32_t)((uint8_t *)pointer - dpusim_buddy.heap) / DPUSIM_BUDDY_UNIT;
    uint32_t count = dpusim_buddy.bytes / DPUSIM_BUDDY_UNIT;
    dpusim_program.ops->lock(&dpusim_buddy_lock, __FILE__, __LINE__);
    if (at < count && (dpusim_buddy.units[at] & 0x80)) {
        uint32_t order = (uint32_t)(dpusim_buddy.units[at] & 0x7f) - 1;
        for (; (UINT32_C(1) << order) < count; order++) {
            uint32_t buddy = at ^ (UINT32_C(1) << order);
            if (dpusim_buddy.units[buddy] != order + 1)
                break;
            dpusim_buddy.units[at] = dpusim_buddy.units[buddy] = 0;
            at &= ~(UINT32_C(1) << order);
        }
        dpusim_buddy.units[at] = (uint8_t)(order + 1);
    }
    dpusim_program.ops->unlock(&dpusim_buddy_lock, __FILE__, __LINE__);
}

/* As realloc: NULL (with errno) leaves the old block. */
static inline void *buddy_realloc(void *pointer, size_t size) {
    if (pointer == NULL)
        return buddy_alloc(size);
    if (size == 0) {
        buddy_free(pointer);
        return NULL;
    }
    uint32_t at = (uint32_t)((uint8_t *)pointer - dpusim_buddy.heap) / DPUSIM_BUDDY_UNIT;
    size_t old = (size_t)DPUSIM_BUDDY_UNIT << ((dpusim_buddy.units[at] & 0x7f) - 1);
    void *moved = buddy_alloc(size);
    if (moved == NULL)
        return NULL;
    __builtin_memcpy(moved, pointer, old < size ? old : size);
    buddy_free(pointer);
    return moved;
}

#endif
