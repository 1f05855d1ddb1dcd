/* DMA between MRAM and WRAM: 8 to 2,048 bytes, a multiple of 8, both addresses multiples of 8.
 * What other values do depends on the simulator's mode (README). */
#ifndef DPUSIM_MRAM_H
#define DPUSIM_MRAM_H

#include "attributes.h"

/* The first byte after the program's own MRAM data. */
#define DPU_MRAM_HEAP_POINTER ((__mram_ptr void *)dpusim_program.ops->mram_heap())

#define mram_read(from, to, n) dpusim_mram_read((from), (to), (n), __FILE__, __LINE__)
#define mram_write(from, to, n) dpusim_mram_write((from), (to), (n), __FILE__, __LINE__)

/* The copies stay in the program, so that a sanitizer's report shows its line. */
static inline void dpusim_mram_read(const __mram_ptr void *from, void *to, unsigned int n, const char *file,
                                    uint32_t line) {
    uintptr_t mram = (uintptr_t)from, wram = (uintptr_t)to;
    n = dpusim_program.ops->dma(&mram, &wram, n, "mram_read", file, line);
    __builtin_memcpy((void *)wram, (const void *)mram, n);
}

static inline void dpusim_mram_write(const void *from, __mram_ptr void *to, unsigned int n, const char *file,
                                     uint32_t line) {
    uintptr_t mram = (uintptr_t)to, wram = (uintptr_t)from;
    n = dpusim_program.ops->dma(&mram, &wram, n, "mram_write", file, line);
    __builtin_memcpy((void *)mram, (const void *)wram, n);
}

#endif
