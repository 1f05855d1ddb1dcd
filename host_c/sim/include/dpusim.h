/* What the simulator offers beyond the SDK. A source that is built against both keeps it
 * under #ifdef DPUSIM. */
#ifndef DPUSIM_H
#define DPUSIM_H

#include "dpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the last error of this set was: file and line, DPU and tasklet where a program did it,
 * the seed of its schedule. "" where there was none. The text is valid until the calling
 * thread's next call. An invalid set (after a failed dpu_alloc): that failure's text. */
const char *dpusim_last_error(struct dpu_set_t set);

/* How many tasklets the next launches run: 1 .. the program's NR_TASKLETS, 0 for all of them.
 * Out: TOO_MANY_TASKLETS, nothing changed. */
dpu_error_t dpusim_set_tasklets(struct dpu_set_t set, uint32_t tasklets);

/* The seed of the set's schedules and how its programs run. */
uint64_t dpusim_seed(struct dpu_set_t set);
bool dpusim_is_strict(struct dpu_set_t set);

/* ---- records, for a time model: the simulator itself knows no time ------------------------------- */

#define DPUSIM_TASKLETS 24
#define DPUSIM_DMA_SIZES 9

/* DMA transfers of one tasklet in one direction, as the hardware would move them. */
struct dpusim_dma_record {
    uint64_t number, bytes;
    uint64_t
        sizes[DPUSIM_DMA_SIZES]; /* [i]: those of more than 2^(i+2) bytes, at most 2^(i+3): 8, .., 2048 */
};

/* One launch of one DPU. What a program does through __mram_ptr alone is no DMA and not in it. */
struct dpusim_launch_record {
    uint64_t launches; /* of this DPU until now, this one included */
    uint32_t tasklets; /* that ran */
    struct dpusim_dma_record read[DPUSIM_TASKLETS], write[DPUSIM_TASKLETS];
};

/* The last launch of a DPU that has ended; waits for one under way. All 0 before the first.
 * In: a set of one DPU. Out: INVALID_DPU_SET for others. */
dpu_error_t dpusim_last_launch(struct dpu_set_t dpu, struct dpusim_launch_record *out);

enum dpusim_way {
    DPUSIM_SERIAL,    /* dpu_copy_to, dpu_copy_from: one DPU */
    DPUSIM_PARALLEL,  /* dpu_push_xfer */
    DPUSIM_BROADCAST, /* dpu_broadcast_to, and dpu_copy_to for more than one DPU */
    DPUSIM_GATHER     /* dpu_push_sg_xfer */
};

/* A kind of transfer between host and DPUs, and how often it was asked for. */
struct dpusim_transfer_record {
    bool to_dpus, in_mram; /* in_mram: else WRAM */
    enum dpusim_way way;
    uint32_t dpus;  /* that took part */
    uint64_t bytes; /* of each DPU */
    uint64_t times;
};

/* Transfers of the set's allocation that were begun, equal ones once, in the order of the first. Writes at
 * most `room` of them; *count is how many there are. */
dpu_error_t dpusim_transfers(struct dpu_set_t set, struct dpusim_transfer_record *out, uint32_t room,
                             uint32_t *count);

/* What a program takes. Instructions are an estimate from its native code. */
struct dpusim_sizes {
    uint32_t instructions, all_instructions;
    uint32_t wram_static, wram_stacks, wram; /* bytes */
    uint32_t mram, all_mram;
};
void dpusim_program_sizes(const struct dpu_program_t *program, struct dpusim_sizes *out);

/* For the whole process: a profile before all others, and who is told of each error as it happens (one
 * line, from any thread). NULL: none. Both are kept as they are. */
void dpusim_drop_in(const char *base_profile, void (*report)(const char *line));

#ifdef __cplusplus
}
#endif

#endif
