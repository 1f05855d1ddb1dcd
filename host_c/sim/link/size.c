/* dpu-size FILE: what a program takes of a DPU's memories; fails where it doesn't fit. */
#include "../include/dpusim.h"

int main(int argc, char **argv) {
    struct dpu_set_t set;
    struct dpu_program_t *program;
    struct dpusim_sizes sizes;
    if (argc != 2) {
        fprintf(stderr, "usage: dpu-size FILE\n");
        return 2;
    }
    /* libdpu.so says what is wrong */
    if (dpu_alloc(1, "workers=1,backend=simulator", &set) != DPU_OK ||
        dpu_load(set, argv[1], &program) != DPU_OK)
        return 1;
    dpusim_program_sizes(program, &sizes);
    printf("%s: IRAM about %u of %u instructions; WRAM %u variables + %u stacks, %u of %u left for the heap; "
           "MRAM %u of %u\n",
           argv[1], sizes.instructions, sizes.all_instructions, sizes.wram_static, sizes.wram_stacks,
           sizes.wram - sizes.wram_static - sizes.wram_stacks, sizes.wram, sizes.mram, sizes.all_mram);
    if (sizes.instructions > sizes.all_instructions)
        fprintf(stderr, "dpu-size: %s: may not fit in IRAM: about %u of %u instructions\n", argv[1],
                sizes.instructions, sizes.all_instructions);
    return dpu_free(set) != DPU_OK;
}
