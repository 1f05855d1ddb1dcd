/* b[i] += a[i], block by block. */
#include <alloc.h>
#include <barrier.h>
#include <defs.h>
#include <mram.h>

#define BLOCK 1024

__host uint32_t elements; /* of this DPU; a and b follow each other in MRAM's heap */

BARRIER_INIT(ready, NR_TASKLETS);

int main(void) {
    if (me() == 0)
        mem_reset();
    barrier_wait(&ready);
    uint32_t a = (uint32_t)DPU_MRAM_HEAP_POINTER, b = a + elements * 4;
    int32_t *left = mem_alloc(BLOCK), *right = mem_alloc(BLOCK);
    for (uint32_t at = me() * BLOCK; at < elements * 4; at += NR_TASKLETS * BLOCK) {
        mram_read((__mram_ptr void *)(a + at), left, BLOCK);
        mram_read((__mram_ptr void *)(b + at), right, BLOCK);
        for (uint32_t i = 0; i < BLOCK / 4; i++)
            right[i] += left[i];
        mram_write(right, (__mram_ptr void *)(b + at), BLOCK);
    }
    return 0;
}
