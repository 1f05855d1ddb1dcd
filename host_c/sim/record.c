#define _GNU_SOURCE
/* What was done, for whoever wants to know what it would cost: dpusim.h. */
#include "sim.h"

#include <string.h>

void sim_record_dma(struct dpusim_dma_record *record, uint32_t n) {
    record->number++;
    record->bytes += n;
    record->sizes[29 - __builtin_clz((n - 1) | 7)]++; /* 8: 0, up to 16: 1, .., up to 2048: 8 */
}

static bool same_kind(const struct dpusim_transfer_record *a, const struct dpusim_transfer_record *b) {
    return a->to_dpus == b->to_dpus && a->in_mram == b->in_mram && a->way == b->way && a->dpus == b->dpus &&
           a->bytes == b->bytes;
}

dpu_error_t sim_record_transfer(struct sim *sim, struct dpusim_transfer_record transfer) {
    for (uint32_t i = sim->transfer_count; i-- > 0;) /* the latest kinds come again first */
        if (same_kind(&sim->transfers[i], &transfer)) {
            sim->transfers[i].times++;
            return DPU_OK;
        }
    if (sim->transfer_count == sim->transfer_room) {
        uint32_t room = sim->transfer_room == 0 ? 16 : 2 * sim->transfer_room;
        struct dpusim_transfer_record *larger = realloc(sim->transfers, room * sizeof *larger);
        if (larger == NULL)
            return DPU_ERR_SYSTEM;
        sim->transfers = larger;
        sim->transfer_room = room;
    }
    sim->transfers[sim->transfer_count++] = transfer;
    return DPU_OK;
}

dpu_error_t dpusim_transfers(struct dpu_set_t set, struct dpusim_transfer_record *out, uint32_t room,
                             uint32_t *count) {
    struct sim *sim;
    dpu_error_t error = sim_enter(&set, "dpusim_transfers", &sim);
    if (error != DPU_OK)
        return error;
    pthread_mutex_lock(&sim->lock);
    uint32_t some = room < sim->transfer_count ? room : sim->transfer_count;
    if (some != 0)
        memcpy(out, sim->transfers, some * sizeof *out);
    *count = sim->transfer_count;
    pthread_mutex_unlock(&sim->lock);
    return DPU_OK;
}

dpu_error_t dpusim_last_launch(struct dpu_set_t dpu, struct dpusim_launch_record *out) {
    struct sim *sim;
    dpu_error_t error = sim_enter(&dpu, "dpusim_last_launch", &sim);
    if (error != DPU_OK)
        return error;
    if (sim_count_dpus(&dpu) != 1)
        return sim_fail(sim, DPU_ERR_INVALID_DPU_SET, "dpusim_last_launch: one DPU only");
    sim_wait(sim, &dpu);
    *out = sim_dpu_of_set(&dpu, 0)->record;
    return DPU_OK;
}
