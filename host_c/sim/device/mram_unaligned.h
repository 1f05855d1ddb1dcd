/* MRAM accesses of any address and size. */
#ifndef DPUSIM_MRAM_UNALIGNED_H
#define DPUSIM_MRAM_UNALIGNED_H

#include "defs.h"
#include "mram.h"
#include "mutex.h"

/* Guards every read-modify-write of this file. */
DPUSIM_HIDDEN __attribute__((section("dpu_atomic"))) uint8_t dpusim_unaligned_lock;

/* At most 2,048 bytes with the rounding; buffer holds n + 16, 8-aligned. Out: where in buffer the
 * first byte is. */
static inline void *mram_read_unaligned(const __mram_ptr void *from, void *buffer, unsigned int n) {
    uintptr_t before = (uintptr_t)from & 7;
    unsigned int whole = (unsigned int)((before + n + 7) & ~(uintptr_t)7);
    dpusim_mram_read((const __mram_ptr uint8_t *)from - before, buffer, whole,
                     DPUSIM_DMA("mram_read_unaligned", DPUSIM_PREFETCH, NULL));
    return (uint8_t *)buffer + before;
}

static inline void dpusim_update(__mram_ptr void *at, const void *bytes, uintptr_t first, uintptr_t count) {
    __dma_aligned uint8_t word[8];
    dpusim_mram_read(at, word, 8, DPUSIM_DMA("mram_write_unaligned", DPUSIM_PREFETCH, NULL));
    __builtin_memcpy(word + first, bytes, count);
    dpusim_mram_write(word, at, 8, DPUSIM_DMA("mram_write_unaligned", DPUSIM_WRITE, NULL));
}

/* from and dest are equal modulo 8, else fault 8. Bytes around dest stay, also where several
 * tasklets write parts of one word. */
static inline void mram_write_unaligned(const void *from, __mram_ptr void *dest, unsigned int n) {
    const uint8_t *source = (const uint8_t *)from;
    __mram_ptr uint8_t *to = (__mram_ptr uint8_t *)dest;
    uintptr_t first = (uintptr_t)to & 7;
    if (((uintptr_t)from & 7) != first)
        dpusim_fault_at(DPUSIM_FAULT_UNALIGNED, "mram_write_unaligned", __FILE__, __LINE__);
    if (n == 0)
        return;
    dpusim_program.ops->lock(&dpusim_unaligned_lock, __FILE__, __LINE__);
    if (first != 0) {
        unsigned int part = (unsigned int)(n < 8 - first ? n : 8 - first);
        dpusim_update(to - first, source, first, part);
        source += part;
        to += part;
        n -= part;
    }
    if (n >= 8)
        dpusim_mram_write(source, to, n & ~7u, DPUSIM_DMA("mram_write_unaligned", DPUSIM_WRITE, NULL));
    if (n % 8 != 0)
        dpusim_update(to + (n & ~7u), source + (n & ~7u), 0, n % 8);
    dpusim_program.ops->unlock(&dpusim_unaligned_lock, __FILE__, __LINE__);
}

/* update_func changes the value in WRAM, between one tasklet's read and write. */
static inline void mram_update_int_atomic(__mram_ptr int *dest, void (*update_func)(int *, void *),
                                          void *args) {
    __dma_aligned int pair[2];
    __mram_ptr int *at = dest - ((uintptr_t)dest >> 2 & 1);
    dpusim_program.ops->lock(&dpusim_unaligned_lock, __FILE__, __LINE__);
    dpusim_mram_read(at, pair, 8, DPUSIM_DMA("mram_update_int_atomic", DPUSIM_READ, NULL));
    update_func(&pair[dest - at], args);
    dpusim_mram_write(pair, at, 8, DPUSIM_DMA("mram_update_int_atomic", DPUSIM_WRITE, NULL));
    dpusim_program.ops->unlock(&dpusim_unaligned_lock, __FILE__, __LINE__);
}

static inline void mram_update_byte_atomic(__mram_ptr uint8_t *dest, void (*update_func)(uint8_t *, void *),
                                           void *args) {
    __dma_aligned uint8_t word[8];
    __mram_ptr uint8_t *at = dest - ((uintptr_t)dest & 7);
    dpusim_program.ops->lock(&dpusim_unaligned_lock, __FILE__, __LINE__);
    dpusim_mram_read(at, word, 8, DPUSIM_DMA("mram_update_byte_atomic", DPUSIM_READ, NULL));
    update_func(&word[dest - at], args);
    dpusim_mram_write(word, at, 8, DPUSIM_DMA("mram_update_byte_atomic", DPUSIM_WRITE, NULL));
    dpusim_program.ops->unlock(&dpusim_unaligned_lock, __FILE__, __LINE__);
}

static inline void dpusim_write_atomic(__mram_ptr void *dest, const void *bytes, uintptr_t count) {
    uintptr_t first = (uintptr_t)dest & 7;
    dpusim_program.ops->lock(&dpusim_unaligned_lock, __FILE__, __LINE__);
    dpusim_update((__mram_ptr uint8_t *)dest - first, bytes, first, count);
    dpusim_program.ops->unlock(&dpusim_unaligned_lock, __FILE__, __LINE__);
}

static inline void mram_write_int_atomic(__mram_ptr int *dest, int value) {
    dpusim_write_atomic(dest, &value, sizeof value);
}

static inline void mram_write_byte_atomic(__mram_ptr uint8_t *dest, uint8_t value) {
    dpusim_write_atomic(dest, &value, sizeof value);
}

#endif
