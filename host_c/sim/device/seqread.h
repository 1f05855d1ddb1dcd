/* Reads MRAM from an address on, through a cache of two pages of SEQREAD_CACHE_SIZE bytes. */
#ifndef DPUSIM_SEQREAD_H
#define DPUSIM_SEQREAD_H

#include "alloc.h"
#include "mram.h"

#ifndef SEQREAD_CACHE_SIZE
#define SEQREAD_CACHE_SIZE 256
#endif
_Static_assert(SEQREAD_CACHE_SIZE >= 32 && SEQREAD_CACHE_SIZE <= 1024 &&
                   (SEQREAD_CACHE_SIZE & (SEQREAD_CACHE_SIZE - 1)) == 0,
               "SEQREAD_CACHE_SIZE should be 32, 64, 128, 256, 512 or 1024");

typedef uintptr_t seqreader_buffer_t;

typedef struct {
    seqreader_buffer_t wram_cache;
    uintptr_t mram_addr; /* of the cache's first byte */
} seqreader_t;

static inline seqreader_buffer_t dpusim_seqread_alloc(const char *file, uint32_t line) {
    return (seqreader_buffer_t)dpusim_program.ops->alloc((size_t)2 * SEQREAD_CACHE_SIZE, file, line);
}

/* The cache's second page may be one that nobody wrote. */
static inline void dpusim_seqread_fill(seqreader_t *reader, const char *file, uint32_t line) {
    struct dpusim_dma dma = {"seqread", file, line, DPUSIM_PREFETCH, NULL};
    dpusim_mram_read((const __mram_ptr void *)reader->mram_addr, (void *)reader->wram_cache,
                     2 * SEQREAD_CACHE_SIZE, &dma);
}

static inline void *dpusim_seqread_seek(__mram_ptr void *mram_addr, seqreader_t *reader, const char *file,
                                        uint32_t line) {
    uintptr_t in_page = (uintptr_t)mram_addr & (SEQREAD_CACHE_SIZE - 1);
    uintptr_t page = (uintptr_t)mram_addr - in_page;
    if (page != reader->mram_addr) {
        reader->mram_addr = page;
        dpusim_seqread_fill(reader, file, line);
    }
    return (uint8_t *)reader->wram_cache + in_page;
}

static inline void *dpusim_seqread_init(seqreader_buffer_t cache, __mram_ptr void *mram_addr,
                                        seqreader_t *reader, const char *file, uint32_t line) {
    reader->wram_cache = cache;
    reader->mram_addr = ~(uintptr_t)0;
    return dpusim_seqread_seek(mram_addr, reader, file, line);
}

/* inc: at most the cache's size. */
static inline void *dpusim_seqread_get(void *ptr, uint32_t inc, seqreader_t *reader, const char *file,
                                       uint32_t line) {
    uint8_t *next = (uint8_t *)ptr + inc;
    if ((uintptr_t)next - reader->wram_cache >= SEQREAD_CACHE_SIZE) {
        reader->mram_addr += SEQREAD_CACHE_SIZE;
        dpusim_seqread_fill(reader, file, line);
        next -= SEQREAD_CACHE_SIZE;
    }
    return next;
}

static inline __mram_ptr void *seqread_tell(void *ptr, seqreader_t *reader) {
    return (__mram_ptr void *)(reader->mram_addr + ((uintptr_t)ptr - reader->wram_cache));
}

static inline seqreader_buffer_t seqread_alloc(void) {
    return dpusim_seqread_alloc("", 0);
}
static inline void *seqread_init(seqreader_buffer_t cache, __mram_ptr void *mram_addr, seqreader_t *reader) {
    return dpusim_seqread_init(cache, mram_addr, reader, "", 0);
}
static inline void *seqread_get(void *ptr, uint32_t inc, seqreader_t *reader) {
    return dpusim_seqread_get(ptr, inc, reader, "", 0);
}
static inline void *seqread_seek(__mram_ptr void *mram_addr, seqreader_t *reader) {
    return dpusim_seqread_seek(mram_addr, reader, "", 0);
}

#define seqread_alloc() dpusim_seqread_alloc(__FILE__, __LINE__)
#define seqread_init(cache, mram_addr, reader)                                                               \
    dpusim_seqread_init((cache), (mram_addr), (reader), __FILE__, __LINE__)
#define seqread_get(ptr, inc, reader) dpusim_seqread_get((ptr), (inc), (reader), __FILE__, __LINE__)
#define seqread_seek(mram_addr, reader) dpusim_seqread_seek((mram_addr), (reader), __FILE__, __LINE__)

#endif
