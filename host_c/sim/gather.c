#define _GNU_SOURCE
/* Scatter/gather: blocks of the host, one after the other in a DPU's MRAM. */
#include "sim.h"

#include <string.h>

static dpu_error_t copy_blocks(const struct job *job, uint32_t i, const struct sg_block_info *blocks,
                               uint32_t count, uint64_t sum) {
    uint8_t *at = job->dpus[i]->mram + job->offset;
    bool to = job->kind == JOB_TO_DPU;
    for (uint32_t b = 0; b < count; b++) {
        if (blocks[b].length != 0)
            memcpy(to ? at : blocks[b].addr, to ? blocks[b].addr : at, blocks[b].length);
        at += blocks[b].length;
    }
    if (to)
        memset(at, 0, job->length - sum);
    return DPU_OK;
}

dpu_error_t sim_gather_one(const struct job *job, uint32_t i) {
    struct sim *sim = job->dpus[i]->sim;
    const struct gather *gather = job->gather;
    uint32_t most = sim->profile.sg_blocks, count = 0;
    uint64_t sum = 0;
    dpu_error_t error = DPU_OK;
    struct sg_block_info *blocks = calloc(most + (size_t)1, sizeof *blocks);
    if (blocks == NULL)
        return sim_fail(sim, DPU_ERR_SYSTEM, "dpu_push_sg_xfer: out of memory");
    while (count <= most && gather->block.f(&blocks[count], i, count, gather->block.args))
        sum += blocks[count++].length;
    if (count > most)
        error = sim_fail(sim, DPU_ERR_SG_TOO_MANY_BLOCKS, "dpu_push_sg_xfer: more than %u blocks for DPU %u",
                         most, job->dpus[i]->index);
    else if (sum > job->length || (sum < job->length && !(gather->flags & DPU_SG_XFER_DISABLE_LENGTH_CHECK)))
        error = sim_fail(sim, DPU_ERR_SG_LENGTH_MISMATCH,
                         "dpu_push_sg_xfer: %llu bytes in the blocks of DPU %u, not %zu",
                         (unsigned long long)sum, job->dpus[i]->index, job->length);
    else
        error = copy_blocks(job, i, blocks, count, sum);
    free(blocks);
    return error;
}
