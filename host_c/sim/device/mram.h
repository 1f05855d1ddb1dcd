/* DMA between MRAM and WRAM: 8 to 2,048 bytes, a multiple of 8, both addresses multiples of 8.
 * What other values do depends on the simulator's mode (README). */
#ifndef DPUSIM_MRAM_H
#define DPUSIM_MRAM_H

#include "attributes.h"

/* The first byte after the program's own MRAM data. */
#define DPU_MRAM_HEAP_POINTER ((__mram_ptr void *)dpusim_program.ops->mram_heap())

/* Is n an integer constant expression? (The conditional's type tells a null pointer constant.) */
#define DPUSIM_IS_CONSTANT(n) (sizeof(int) == sizeof(*(1 ? ((void *)((intptr_t)(n) * 0)) : (int *)8)))
#define DPUSIM_CONSTANT(n, other) __builtin_choose_expr(DPUSIM_IS_CONSTANT(n), (n), (other))
/* Refuses a wrong constant at compile time, as the SDK does. */
#define DPUSIM_DMA_CHECK(name, n)                                                                            \
    ((void)sizeof(struct {                                                                                   \
        _Static_assert(DPUSIM_CONSTANT(n, 8) <= 2048, name ": nb_of_bytes must not be higher than 2048");    \
        _Static_assert(DPUSIM_CONSTANT(n, 8) % 8 == 0, name ": nb_of_bytes must be a multiple of 8");        \
        _Static_assert(DPUSIM_CONSTANT(n, 8) != 0, name ": nb_of_bytes must not be null");                   \
        char none;                                                                                           \
    }))

/* An array is as aligned as its declaration says; whether it lies well natively is chance. */
#define DPUSIM_IS_ARRAY(x) (!__builtin_types_compatible_p(__typeof__(x), __typeof__((x) + 0)))
#define DPUSIM_UNALIGNED(x) (DPUSIM_IS_ARRAY(x) && __alignof__(x) < 8 ? #x : NULL)
#define DPUSIM_DMA(name, way, buffer) (&(const struct dpusim_dma){name, __FILE__, __LINE__, way, buffer})

/* The copies stay in the program, so that a sanitizer's report shows its line. */
static inline void dpusim_mram_read(const __mram_ptr void *from, void *to, unsigned int n,
                                    const struct dpusim_dma *dma) {
    uintptr_t mram = (uintptr_t)from, wram = (uintptr_t)to;
    uint64_t first;
    n = dpusim_program.ops->dma(&mram, &wram, n, dma);
    __builtin_memcpy((void *)wram, (const void *)mram, n);
    __builtin_memcpy(&first, (const void *)wram, sizeof first); /* here, as now it is in the cache */
    if (first == DPUSIM_UNWRITTEN)
        dpusim_program.ops->unwritten((const void *)wram, n, dma);
}

static inline void dpusim_mram_write(const void *from, __mram_ptr void *to, unsigned int n,
                                     const struct dpusim_dma *dma) {
    uintptr_t mram = (uintptr_t)to, wram = (uintptr_t)from;
    n = dpusim_program.ops->dma(&mram, &wram, n, dma);
    __builtin_memcpy((void *)mram, (const void *)wram, n);
}

static inline void mram_read(const __mram_ptr void *from, void *to, unsigned int n) {
    dpusim_mram_read(from, to, n, DPUSIM_DMA("mram_read", DPUSIM_READ, NULL));
}
static inline void mram_write(const void *from, __mram_ptr void *to, unsigned int n) {
    dpusim_mram_write(from, to, n, DPUSIM_DMA("mram_write", DPUSIM_WRITE, NULL));
}

#define mram_read(from, to, n)                                                                               \
    (DPUSIM_DMA_CHECK("mram_read", n),                                                                       \
     dpusim_mram_read((from), (to), (n), DPUSIM_DMA("mram_read", DPUSIM_READ, DPUSIM_UNALIGNED(to))))
#define mram_write(from, to, n)                                                                              \
    (DPUSIM_DMA_CHECK("mram_write", n),                                                                      \
     dpusim_mram_write((from), (to), (n), DPUSIM_DMA("mram_write", DPUSIM_WRITE, DPUSIM_UNALIGNED(from))))

/* What the SDK's compiler calls them. */
#define __builtin_dpu_ldma(to, from, n) mram_read((from), (to), (n))
#define __builtin_dpu_sdma(from, to, n) mram_write((from), (to), (n))

#endif
