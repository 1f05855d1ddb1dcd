/* Runs every part of device.c on a few DPUs, through libdpu as any host program would. */
#include <dpu.h>
#include <dpu_log.h>

#include <string.h>

#include "parts.h"

#define DPUS 5

static void fill(struct dpu_set_t set) {
    static uint32_t numbers[WORDS];
    for (uint32_t i = 0; i < WORDS; i++)
        numbers[i] = i;
    DPU_ASSERT(dpu_broadcast_to(set, "numbers", 0, numbers, sizeof numbers, DPU_XFER_DEFAULT));
}

static int check(struct dpu_set_t set, uint32_t part) {
    struct outcome outcomes[DPUS];
    uint64_t totals[DPUS][NR_TASKLETS];
    struct dpu_set_t dpu;
    uint32_t i, bad = 0;
    DPU_FOREACH(set, dpu, i) {
        DPU_ASSERT(dpu_prepare_xfer(dpu, &outcomes[i]));
    }
    DPU_ASSERT(dpu_push_xfer(set, DPU_XFER_FROM_DPU, "outcome", 0, sizeof *outcomes, DPU_XFER_DEFAULT));
    DPU_FOREACH(set, dpu, i) {
        DPU_ASSERT(dpu_copy_from(dpu, "totals", 0, totals[i], sizeof *totals));
        if (outcomes[i].line != 0) {
            printf("part %u: device.c:%u: DPU %u tasklet %u\n", part, outcomes[i].line, i,
                   outcomes[i].tasklet);
            bad = 1;
        }
        for (uint32_t t = 0; t < NR_TASKLETS; t++)
            bad |= totals[i][t] != t + part;
    }
    return (int)bad;
}

static int check_log(struct dpu_set_t set) {
    static const char expected[] = "-3|   42|ab  |CD|10|z|text|"
                                   "1099511627776|1099511627776|10000000000|0001.500|2.000000e+00|%|%g|%p\n"
                                   "line\n!\n";
    struct dpu_set_t dpu;
    char text[1024] = "";
    DPU_FOREACH(set, dpu) {
        FILE *stream = fmemopen(text, sizeof text, "w");
        DPU_ASSERT(dpu_log_read(dpu, stream));
        fclose(stream);
        if (strncmp(text, "=== DPU#0x", 10) != 0 || strcmp(strchr(text, '\n') + 1, expected) != 0) {
            printf("log: %s\n", text);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    struct dpu_set_t set;
    struct dpu_symbol_t heap, order_symbol;
    struct dpu_program_t *program;
    int bad = 0;
    DPU_ASSERT(dpu_alloc(DPUS, argc > 2 ? argv[2] : NULL, &set));
    DPU_ASSERT(dpu_load(set, argv[1], &program));
    DPU_ASSERT(dpu_get_symbol(program, DPU_MRAM_HEAP_POINTER_NAME, &heap));
    DPU_ASSERT(dpu_get_symbol(program, "order", &order_symbol));
    /* constants, numbers, words and the log's buffer come first */
    bad |= heap.address != 0x08000000 + 16 + 4 * WORDS + 512 + 4096 ||
           heap.size != (64u << 20) - (heap.address & 0xffffff);
    fill(set);
    for (uint32_t part = 0; part < PARTS; part++)
        for (uint32_t launch = 1; launch <= 2; launch++) {
            struct order order = {part, launch};
            DPU_ASSERT(dpu_copy_to_symbol(set, order_symbol, 0, &order, sizeof order));
            DPU_ASSERT(dpu_launch(set, DPU_SYNCHRONOUS));
            bad |= check(set, part);
            if (part == PRINTING)
                bad |= check_log(set);
        }
    DPU_ASSERT(dpu_free(set));
    puts(bad ? "bad" : "good");
    return bad;
}
