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
