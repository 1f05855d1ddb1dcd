/* What goes wrong in practice, one mistake a launch. The test finds each by the name behind its line. */
#include <alloc.h>
#include <assert.h>
#include <barrier.h>
#include <defs.h>
#include <handshake.h>
#include <mram.h>
#include <mutex.h>
#include <stdio.h>
#include <string.h>

__host uint32_t mistake;
__host uint32_t size;
__host uint64_t result;
__mram_noinit uint8_t data[4096];
__mram_noinit uint8_t empty[64];

BARRIER_INIT(all, NR_TASKLETS);
MUTEX_INIT(lock);
uint8_t plain[256]; /* not __dma_aligned */
__dma_aligned uint8_t aligned[4096];
static volatile uint32_t sink;

static __attribute__((noinline)) uint32_t recurse(uint32_t depth) { /* recursion */
    volatile uint8_t frame[128];
    frame[depth % 128] = (uint8_t)depth;
    return depth == 0 ? 0 : recurse(depth - 1) + frame[depth % 128];
}

static __attribute__((noinline)) void large_frame(void) { /* large_frame */
    volatile uint8_t frame[3000];
    for (uint32_t i = 0; i < sizeof frame; i++)
        frame[i] = (uint8_t)i;
    sink = frame[size];
}

int main(void) {
    if (me() == 0)
        mem_reset();
    barrier_wait(&all);
    if (me() != 2)
        return 0;
    switch (mistake) {
    case 1:
        mram_write(aligned, data, size + 4); /* odd_size */
        break;
    case 2:
        mram_read(data, aligned, size + 2048); /* large_size */
        break;
    case 3:
        mram_read(data, &aligned[4], 8); /* unaligned_wram */
        break;
    case 4:
        mram_read(&data[4], aligned, 8); /* unaligned_mram */
        break;
    case 5:
        mram_write(plain, data, 64); /* not_dma_aligned */
        break;
    case 6:
        mram_write(aligned, (__mram_ptr void *)((uintptr_t)DPU_MRAM_HEAP_POINTER + (64u << 20)),
                   8); /* beyond_mram */
        break;
    case 7:
        *(volatile uint32_t *)0 = 1; /* null_pointer */
        break;
    case 8:
        *((volatile uint32_t *)mem_alloc(8) + (1 << 20)) = 1; /* beyond_wram */
        break;
    case 9:
        result = recurse(200);
        break;
    case 10:
        large_frame();
        break;
    case 11:
        for (;;)
            mem_alloc(1024); /* wram_exhausted */
    case 12:
        mram_read(empty, aligned, 64); /* nobody_wrote */
        break;
    case 13:
        barrier_wait(&all); /* blocked */
        break;
    case 14:
        while (sink == 0) { /* endless */
        }
        break;
    case 15:
        sink = 100 / size; /* division */
        break;
    case 16:
        assert(size == 12345); /* assertion */
        break;
    case 17:
        halt(); /* halted */
        break;
    case 18:
        mutex_lock(lock);
        mutex_lock(lock); /* mutex */
        break;
    case 19:
        memcpy((void *)(uintptr_t)size, aligned, 64); /* null_memcpy */
        break;
    case 20:
        handshake_wait_for(0); /* lost_handshake */
        break;
    default:
        break;
    }
    result = 1;
    return 0;
}
