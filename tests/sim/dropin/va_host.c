/* va_host PROGRAM LOG2: adds two vectors of 2^LOG2 int32 on 64 DPUs, from allocation to the checked result.
 */
#define _GNU_SOURCE
#include <dpu.h>

#include <time.h>

#define DPUS 64

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void push(struct dpu_set_t set, dpu_xfer_t way, int32_t *vector, uint32_t offset, size_t bytes) {
    struct dpu_set_t dpu;
    uint32_t i;
    DPU_FOREACH(set, dpu, i) {
        DPU_ASSERT(dpu_prepare_xfer(dpu, (uint8_t *)vector + i * bytes));
    }
    DPU_ASSERT(dpu_push_xfer(set, way, DPU_MRAM_HEAP_POINTER_NAME, offset, bytes, DPU_XFER_DEFAULT));
}

int main(int argc, char **argv) {
    int log2 = argc > 2 ? atoi(argv[2]) : 20;
    size_t count = (size_t)1 << log2, bytes = count / DPUS * 4;
    int32_t *a = malloc(count * 4), *b = malloc(count * 4);
    uint32_t elements = (uint32_t)(count / DPUS);
    struct dpu_set_t set;
    for (size_t i = 0; i < count; i++) {
        a[i] = (int32_t)(uint32_t)(i * 2654435761u);
        b[i] = (int32_t)i;
    }
    double start = seconds();
    DPU_ASSERT(dpu_alloc(DPUS, NULL, &set));
    DPU_ASSERT(dpu_load(set, argv[1], NULL));
    DPU_ASSERT(dpu_broadcast_to(set, "elements", 0, &elements, sizeof elements, DPU_XFER_DEFAULT));
    push(set, DPU_XFER_TO_DPU, a, 0, bytes);
    push(set, DPU_XFER_TO_DPU, b, (uint32_t)bytes, bytes);
    double launch = seconds();
    DPU_ASSERT(dpu_launch(set, DPU_SYNCHRONOUS));
    double launched = seconds();
    push(set, DPU_XFER_FROM_DPU, b, (uint32_t)bytes, bytes);
    DPU_ASSERT(dpu_free(set));
    double end = seconds();
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += (uint32_t)b[i] != (uint32_t)a[i] + (uint32_t)i;
    printf("2^%d int32 on %d DPUs: %s, %.2f s (the launch %.2f s)\n", log2, DPUS,
           wrong == 0 ? "right" : "wrong", end - start, launched - launch);
    free(a);
    free(b);
    return wrong != 0;
}
