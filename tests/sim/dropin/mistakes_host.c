/* mistakes_host PROGRAM NUMBER PROFILE: one launch; prints its error's text and tasklet 2's result. */
#include <dpu.h>

int main(int argc, char **argv) {
    struct dpu_set_t set, dpu;
    uint32_t mistake = argc > 2 ? (uint32_t)atoi(argv[2]) : 0, size = 8;
    uint64_t result = 0;
    DPU_ASSERT(dpu_alloc(2, argc > 3 ? argv[3] : NULL, &set));
    DPU_ASSERT(dpu_load(set, argv[1], NULL));
    DPU_ASSERT(dpu_broadcast_to(set, "mistake", 0, &mistake, sizeof mistake, DPU_XFER_DEFAULT));
    size = mistake == 19 ? 16 : mistake == 15 ? 0 : size;
    DPU_ASSERT(dpu_broadcast_to(set, "size", 0, &size, sizeof size, DPU_XFER_DEFAULT));
    char *text = dpu_error_to_string(dpu_launch(set, DPU_SYNCHRONOUS));
    DPU_FOREACH(set, dpu) {
        DPU_ASSERT(dpu_copy_from(dpu, "result", 0, &result, sizeof result));
    }
    printf("%s %u\n", text, (unsigned)result);
    free(text);
    DPU_ASSERT(dpu_free(set));
    return 0;
}
