/* Blocks of one size: allocated once, got and freed in any order, by any tasklet. */
#ifndef DPUSIM_FSB_ALLOCATOR_H
#define DPUSIM_FSB_ALLOCATOR_H

#include "alloc.h"

struct dpusim_block {
    struct dpusim_block *next;
};
typedef struct dpusim_block *fsb_allocator_t;

DPUSIM_HIDDEN __attribute__((section("dpu_atomic"))) uint8_t dpusim_fsb_lock;

/* nb_of_blocks of block_size bytes, rounded up to 8, behind the head of the list of free ones. */
static inline fsb_allocator_t dpusim_fsb_alloc(unsigned int block_size, unsigned int nb_of_blocks,
                                               const char *file, uint32_t line) {
    unsigned int size = block_size == 0 ? 8 : (block_size + 7) & ~7u;
    uint8_t *at = (uint8_t *)dpusim_program.ops->alloc(
        sizeof(struct dpusim_block) + (size_t)size * nb_of_blocks, file, line);
    struct dpusim_block *last = (struct dpusim_block *)(void *)at;
    fsb_allocator_t allocator = last;
    at += sizeof(struct dpusim_block);
    for (unsigned int i = 0; i < nb_of_blocks; i++, at += size) {
        last->next = (struct dpusim_block *)(void *)at;
        last = last->next;
    }
    last->next = NULL;
    return allocator;
}

static inline fsb_allocator_t fsb_alloc(unsigned int block_size, unsigned int nb_of_blocks) {
    return dpusim_fsb_alloc(block_size, nb_of_blocks, "", 0);
}
#define fsb_alloc(block_size, nb_of_blocks) dpusim_fsb_alloc((block_size), (nb_of_blocks), __FILE__, __LINE__)

/* NULL: all are taken. */
static inline void *fsb_get(fsb_allocator_t allocator) {
    dpusim_program.ops->lock(&dpusim_fsb_lock, __FILE__, __LINE__);
    struct dpusim_block *block = allocator->next;
    if (block != NULL)
        allocator->next = block->next;
    dpusim_program.ops->unlock(&dpusim_fsb_lock, __FILE__, __LINE__);
    return block;
}

static inline void fsb_free(fsb_allocator_t allocator, void *ptr) {
    struct dpusim_block *block = (struct dpusim_block *)ptr;
    dpusim_program.ops->lock(&dpusim_fsb_lock, __FILE__, __LINE__);
    block->next = allocator->next;
    allocator->next = block;
    dpusim_program.ops->unlock(&dpusim_fsb_lock, __FILE__, __LINE__);
}

#endif
