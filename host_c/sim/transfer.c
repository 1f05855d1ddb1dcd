#define _GNU_SOURCE
/* Launches, copies, pushes: checks in the SDK's order, then a job. */
#include "sim.h"

#include <string.h>

dpu_error_t sim_transfer_one(const struct job *job, uint32_t i) {
    struct dpu_t *dpu = job->dpus[i];
    if (job->kind == JOB_TO_DPU && job->in_mram && job->offset + job->length > dpu->mram_used)
        dpu->mram_used = (uint32_t)(job->offset + job->length);
    if (job->gather != NULL)
        return sim_gather_one(job, i);
    uint8_t *memory =
        job->in_mram ? dpu->mram + job->offset : dpu->image + dpu->program->host_offset + job->offset;
    if (job->kind == JOB_FROM_DPU)
        memcpy(job->buffers[i], memory, job->length);
    else
        memcpy(memory, job->source != NULL ? job->source : job->buffers[i], job->length);
    return DPU_OK;
}

/* The program that all DPUs of a set have loaded. */
static dpu_error_t program_of(struct sim *sim, const struct dpu_set_t *set, const char *call,
                              struct dpu_program_t **out) {
    uint32_t count = sim_count_dpus(set);
    struct dpu_program_t *program = sim_dpu_of_set(set, 0)->program;
    for (uint32_t i = 0; i < count; i++) {
        const struct dpu_program_t *other = sim_dpu_of_set(set, i)->program;
        if (other == NULL)
            return sim_fail(sim, DPU_ERR_NO_PROGRAM_LOADED, "%s: no program is loaded", call);
        if (other != program)
            return sim_fail(sim, DPU_ERR_DIFFERENT_DPU_PROGRAMS, "%s: the DPUs have different programs",
                            call);
    }
    *out = program;
    return DPU_OK;
}

/* What moves where, in every kind of transfer. */
struct transfer {
    const char *call;
    enum job_kind kind;
    enum dpusim_way way;
    struct dpu_symbol_t symbol;
    uint32_t offset;
    size_t length;
    bool shared; /* all DPUs get source; else prepared buffers */
    const void *source;
    dpu_xfer_flags_t flags;
    struct gather *gather; /* or blocks */
};

static dpu_error_t check_host_pointer(struct sim *sim, const struct transfer *transfer, const void *pointer) {
    return (uintptr_t)pointer % 4 == 0 ? DPU_OK
                                       : sim_fail(sim, DPU_ERR_INVALID_WRAM_ACCESS,
                                                  "%s: the host's buffer is not 4-aligned", transfer->call);
}

static int by_address(const void *a, const void *b) {
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

/* Two DPUs must not write to the same place: what is there afterwards is undefined. */
static dpu_error_t check_overlap(struct sim *sim, const struct transfer *transfer, const struct job *job) {
    uintptr_t *places = malloc(job->count * sizeof *places);
    uint32_t count = 0;
    bool overlap = false;
    if (places == NULL)
        return sim_fail(sim, DPU_ERR_SYSTEM, "%s: out of memory", transfer->call);
    for (uint32_t i = 0; i < job->count; i++)
        if (job->buffers[i] != NULL)
            places[count++] = (uintptr_t)job->buffers[i];
    qsort(places, count, sizeof *places, by_address);
    for (uint32_t i = 1; i < count; i++)
        overlap |= places[i] - places[i - 1] < transfer->length;
    free(places);
    return overlap ? sim_fail(sim, DPU_ERR_INVALID_MEMORY_TRANSFER, "%s: two DPUs write to one buffer",
                              transfer->call)
                   : DPU_OK;
}

static dpu_error_t check_gather(struct sim *sim, const struct transfer *transfer, bool in_mram) {
    if (sim->profile.sg_blocks == 0)
        return sim_fail(sim, DPU_ERR_SG_NOT_ACTIVATED, "%s: the profile has no sgXferEnable=true",
                        transfer->call);
    return in_mram
               ? DPU_OK
               : sim_fail(sim, DPU_ERR_SG_NOT_MRAM_SYMBOL, "%s: the symbol is not in MRAM", transfer->call);
}

static dpu_error_t check_range(struct sim *sim, const struct transfer *transfer) {
    struct dpu_symbol_t symbol = transfer->symbol;
    bool in_mram = (symbol.address & SIM_MRAM_ADDRESS) != 0;
    uint64_t end = (uint64_t)transfer->offset + transfer->length;
    if (end > symbol.size || transfer->length > UINT32_MAX)
        return sim_fail(sim, DPU_ERR_INVALID_SYMBOL_ACCESS, "%s: bytes %u to %llu of a symbol of %u",
                        transfer->call, transfer->offset, (unsigned long long)end, symbol.size);
    uint32_t address = symbol.address + transfer->offset, unit = in_mram ? 8 : 4;
    if (address % unit != 0 || transfer->length % unit != 0)
        return sim_fail(sim, in_mram ? DPU_ERR_INVALID_MRAM_ACCESS : DPU_ERR_INVALID_WRAM_ACCESS,
                        "%s: address 0x%x and length %zu must be multiples of %u", transfer->call, address,
                        transfer->length, unit);
    return transfer->gather == NULL ? DPU_OK : check_gather(sim, transfer, in_mram);
}

static dpu_error_t record(struct sim *sim, const struct transfer *transfer, const struct job *job) {
    struct dpusim_transfer_record kind = {.to_dpus = transfer->kind == JOB_TO_DPU,
                                          .in_mram = job->in_mram,
                                          .way = transfer->way,
                                          .dpus = job->count,
                                          .bytes = transfer->length,
                                          .times = 1};
    for (uint32_t i = 0; job->buffers != NULL && i < job->count; i++)
        kind.dpus -= job->buffers[i] == NULL;
    if (kind.way == DPUSIM_SERIAL && kind.dpus > 1)
        kind.way = DPUSIM_BROADCAST;
    pthread_mutex_lock(&sim->lock);
    dpu_error_t error = kind.dpus == 0 ? DPU_OK : sim_record_transfer(sim, kind);
    pthread_mutex_unlock(&sim->lock);
    return error == DPU_OK ? DPU_OK : sim_fail(sim, error, "%s: out of memory", transfer->call);
}

/* Takes transfer->gather. */
static dpu_error_t move(struct sim *sim, const struct dpu_set_t *set, const struct transfer *transfer) {
    bool in_mram = (transfer->symbol.address & SIM_MRAM_ADDRESS) != 0;
    uint32_t address = transfer->symbol.address + transfer->offset;
    dpu_error_t error = check_range(sim, transfer);
    struct job *job = error != DPU_OK
                          ? NULL
                          : sim_job_new(set, transfer->kind, !transfer->shared && transfer->gather == NULL);
    if (job == NULL) {
        free(transfer->gather);
        return error != DPU_OK ? error : sim_fail(sim, DPU_ERR_SYSTEM, "%s: out of memory", transfer->call);
    }
    job->gather = transfer->gather;
    if (transfer->shared && transfer->source == NULL && transfer->length != 0)
        error = sim_fail(sim, DPU_ERR_INVALID_MEMORY_TRANSFER, "%s: no source", transfer->call);
    else if (!in_mram && transfer->shared)
        error = check_host_pointer(sim, transfer, transfer->source);
    for (uint32_t i = 0; !in_mram && job->buffers != NULL && i < job->count && error == DPU_OK; i++)
        error = check_host_pointer(sim, transfer, job->buffers[i]);
    if (error == DPU_OK && sim->profile.strict && transfer->kind == JOB_FROM_DPU && job->buffers != NULL)
        error = check_overlap(sim, transfer, job);
    if (error != DPU_OK || transfer->length == 0) {
        sim_job_free(job);
        return error;
    }
    job->asynchronous = (transfer->flags & DPU_XFER_ASYNC) != 0;
    job->in_mram = in_mram;
    job->offset = address - (in_mram ? SIM_MRAM_ADDRESS : SIM_NULL_WORD);
    job->length = transfer->length;
    job->source = transfer->source;
    error = record(sim, transfer, job);
    if (error != DPU_OK) {
        sim_job_free(job);
        return error;
    }
    return sim_job_submit(sim, job, set);
}

static dpu_error_t find_symbol(struct sim *sim, const struct dpu_set_t *set, const char *call,
                               const char *name, struct dpu_symbol_t *symbol) {
    struct dpu_program_t *program = NULL;
    dpu_error_t error = program_of(sim, set, call, &program);
    return error == DPU_OK ? sim_symbol(program, name, symbol) : error;
}

/* By name where one is given, else by transfer->symbol. Takes transfer.gather. */
static dpu_error_t transfer_to(struct dpu_set_t set, const char *name, struct transfer transfer) {
    struct sim *sim;
    struct dpu_program_t *program = NULL;
    dpu_error_t error = sim_enter(&set, transfer.call, &sim);
    if (error == DPU_OK)
        error = name != NULL ? find_symbol(sim, &set, transfer.call, name, &transfer.symbol)
                             : program_of(sim, &set, transfer.call, &program);
    if (error != DPU_OK) {
        free(transfer.gather);
        return error;
    }
    return move(sim, &set, &transfer);
}

static dpu_error_t copy_from(struct dpu_set_t set, const char *name, struct transfer transfer, void *dst) {
    struct sim *sim;
    dpu_error_t error = sim_enter(&set, transfer.call, &sim);
    if (error != DPU_OK)
        return error;
    if (sim_count_dpus(&set) != 1)
        return sim_fail(sim, DPU_ERR_INVALID_DPU_SET, "%s: one DPU only", transfer.call);
    struct dpu_t *dpu = sim_dpu_of_set(&set, 0);
    void *prepared = dpu->buffer;
    dpu->buffer = dst;
    error = transfer_to(set, name, transfer);
    dpu->buffer = prepared;
    return error;
}

dpu_error_t dpu_copy_to(struct dpu_set_t dpu_set, const char *symbol_name, uint32_t symbol_offset,
                        const void *src, size_t length) {
    return transfer_to(dpu_set, symbol_name,
                       (struct transfer){.call = "dpu_copy_to",
                                         .kind = JOB_TO_DPU,
                                         .offset = symbol_offset,
                                         .length = length,
                                         .shared = true,
                                         .source = src});
}

dpu_error_t dpu_copy_to_symbol(struct dpu_set_t dpu_set, struct dpu_symbol_t symbol, uint32_t symbol_offset,
                               const void *src, size_t length) {
    return transfer_to(dpu_set, NULL,
                       (struct transfer){.call = "dpu_copy_to_symbol",
                                         .kind = JOB_TO_DPU,
                                         .symbol = symbol,
                                         .offset = symbol_offset,
                                         .length = length,
                                         .shared = true,
                                         .source = src});
}

dpu_error_t dpu_copy_from(struct dpu_set_t dpu_set, const char *symbol_name, uint32_t symbol_offset,
                          void *dst, size_t length) {
    return copy_from(
        dpu_set, symbol_name,
        (struct transfer){
            .call = "dpu_copy_from", .kind = JOB_FROM_DPU, .offset = symbol_offset, .length = length},
        dst);
}

dpu_error_t dpu_copy_from_symbol(struct dpu_set_t dpu_set, struct dpu_symbol_t symbol, uint32_t symbol_offset,
                                 void *dst, size_t length) {
    return copy_from(dpu_set, NULL,
                     (struct transfer){.call = "dpu_copy_from_symbol",
                                       .kind = JOB_FROM_DPU,
                                       .symbol = symbol,
                                       .offset = symbol_offset,
                                       .length = length},
                     dst);
}

dpu_error_t dpu_prepare_xfer(struct dpu_set_t dpu_set, void *buffer) {
    struct sim *sim;
    dpu_error_t error = sim_enter(&dpu_set, "dpu_prepare_xfer", &sim);
    if (error != DPU_OK)
        return error;
    bool twice = false;
    for (uint32_t i = 0; i < sim_count_dpus(&dpu_set); i++) {
        struct dpu_t *dpu = sim_dpu_of_set(&dpu_set, i);
        twice |= buffer != NULL && dpu->buffer != NULL;
        dpu->buffer = buffer;
    }
    return twice ? sim_fail(sim, DPU_ERR_TRANSFER_ALREADY_SET, "dpu_prepare_xfer: a buffer was set already")
                 : DPU_OK;
}

static dpu_error_t push(struct dpu_set_t set, dpu_xfer_t xfer, const char *name, struct transfer transfer) {
    struct sim *sim;
    dpu_error_t error = sim_enter(&set, transfer.call, &sim);
    if (error != DPU_OK)
        return error;
    if (xfer != DPU_XFER_TO_DPU && xfer != DPU_XFER_FROM_DPU)
        return sim_fail(sim, DPU_ERR_INVALID_MEMORY_TRANSFER, "%s: direction %d", transfer.call, (int)xfer);
    transfer.kind = xfer == DPU_XFER_TO_DPU ? JOB_TO_DPU : JOB_FROM_DPU;
    transfer.way = DPUSIM_PARALLEL;
    error = transfer_to(set, name, transfer);
    /* a failed push leaves its buffers set */
    if (error == DPU_OK && !(transfer.flags & DPU_XFER_NO_RESET))
        for (uint32_t i = 0; i < sim_count_dpus(&set); i++)
            sim_dpu_of_set(&set, i)->buffer = NULL;
    return error;
}

dpu_error_t dpu_push_xfer(struct dpu_set_t dpu_set, dpu_xfer_t xfer, const char *symbol_name,
                          uint32_t symbol_offset, size_t length, dpu_xfer_flags_t flags) {
    return push(dpu_set, xfer, symbol_name,
                (struct transfer){
                    .call = "dpu_push_xfer", .offset = symbol_offset, .length = length, .flags = flags});
}

dpu_error_t dpu_push_xfer_symbol(struct dpu_set_t dpu_set, dpu_xfer_t xfer, struct dpu_symbol_t symbol,
                                 uint32_t symbol_offset, size_t length, dpu_xfer_flags_t flags) {
    return push(dpu_set, xfer, NULL,
                (struct transfer){.call = "dpu_push_xfer_symbol",
                                  .symbol = symbol,
                                  .offset = symbol_offset,
                                  .length = length,
                                  .flags = flags});
}

static dpu_error_t push_gather(struct dpu_set_t set, dpu_xfer_t xfer, const char *name,
                               struct transfer transfer, const get_block_t *block,
                               dpu_sg_xfer_flags_t flags) {
    struct sim *sim;
    dpu_error_t error = sim_enter(&set, transfer.call, &sim);
    if (error != DPU_OK)
        return error;
    if ((xfer != DPU_XFER_TO_DPU && xfer != DPU_XFER_FROM_DPU) || block == NULL || block->f == NULL)
        return sim_fail(sim, DPU_ERR_INVALID_MEMORY_TRANSFER, "%s: direction %d, or no function",
                        transfer.call, (int)xfer);
    size_t bytes = block->args == NULL ? 0 : block->args_size;
    transfer.gather = malloc(sizeof *transfer.gather + bytes);
    if (transfer.gather == NULL)
        return sim_fail(sim, DPU_ERR_SYSTEM, "%s: out of memory", transfer.call);
    transfer.gather->block = *block;
    transfer.gather->flags = flags;
    if (bytes != 0) {
        memcpy(transfer.gather->args, block->args, bytes);
        transfer.gather->block.args = transfer.gather->args;
    }
    transfer.kind = xfer == DPU_XFER_TO_DPU ? JOB_TO_DPU : JOB_FROM_DPU;
    transfer.way = DPUSIM_GATHER;
    transfer.flags = (flags & DPU_SG_XFER_ASYNC) != 0 ? DPU_XFER_ASYNC : DPU_XFER_DEFAULT;
    return transfer_to(set, name, transfer);
}

dpu_error_t dpu_push_sg_xfer(struct dpu_set_t dpu_set, dpu_xfer_t xfer, const char *symbol_name,
                             uint32_t symbol_offset, size_t length, get_block_t *get_block_info,
                             dpu_sg_xfer_flags_t flags) {
    return push_gather(
        dpu_set, xfer, symbol_name,
        (struct transfer){.call = "dpu_push_sg_xfer", .offset = symbol_offset, .length = length},
        get_block_info, flags);
}

dpu_error_t dpu_push_sg_xfer_symbol(struct dpu_set_t dpu_set, dpu_xfer_t xfer, struct dpu_symbol_t symbol,
                                    uint32_t symbol_offset, size_t length, get_block_t *get_block_info,
                                    dpu_sg_xfer_flags_t flags) {
    return push_gather(
        dpu_set, xfer, NULL,
        (struct transfer){
            .call = "dpu_push_sg_xfer_symbol", .symbol = symbol, .offset = symbol_offset, .length = length},
        get_block_info, flags);
}

dpu_error_t dpu_broadcast_to(struct dpu_set_t dpu_set, const char *symbol_name, uint32_t symbol_offset,
                             const void *src, size_t length, dpu_xfer_flags_t flags) {
    return transfer_to(dpu_set, symbol_name,
                       (struct transfer){.call = "dpu_broadcast_to",
                                         .kind = JOB_TO_DPU,
                                         .way = DPUSIM_BROADCAST,
                                         .offset = symbol_offset,
                                         .length = length,
                                         .shared = true,
                                         .source = src,
                                         .flags = flags});
}

dpu_error_t dpu_broadcast_to_symbol(struct dpu_set_t dpu_set, struct dpu_symbol_t symbol,
                                    uint32_t symbol_offset, const void *src, size_t length,
                                    dpu_xfer_flags_t flags) {
    return transfer_to(dpu_set, NULL,
                       (struct transfer){.call = "dpu_broadcast_to_symbol",
                                         .kind = JOB_TO_DPU,
                                         .way = DPUSIM_BROADCAST,
                                         .symbol = symbol,
                                         .offset = symbol_offset,
                                         .length = length,
                                         .shared = true,
                                         .source = src,
                                         .flags = flags});
}

dpu_error_t dpu_launch(struct dpu_set_t dpu_set, dpu_launch_policy_t policy) {
    struct sim *sim;
    dpu_error_t error = sim_enter(&dpu_set, "dpu_launch", &sim);
    if (error != DPU_OK)
        return error;
    for (uint32_t i = 0; i < sim_count_dpus(&dpu_set); i++)
        if (sim_dpu_of_set(&dpu_set, i)->program == NULL)
            return sim_fail(sim, DPU_ERR_NO_PROGRAM_LOADED, "dpu_launch: no program is loaded");
    struct job *job = sim_job_new(&dpu_set, JOB_LAUNCH, false);
    if (job == NULL)
        return sim_fail(sim, DPU_ERR_SYSTEM, "dpu_launch: out of memory");
    job->asynchronous = policy != DPU_SYNCHRONOUS;
    return sim_job_submit(sim, job, &dpu_set);
}

dpu_error_t dpu_status(struct dpu_set_t dpu_set, bool *done, bool *fault) {
    struct sim *sim;
    dpu_error_t error = sim_enter(&dpu_set, "dpu_status", &sim);
    if (error != DPU_OK)
        return error;
    *done = true;
    *fault = false;
    pthread_mutex_lock(&sim->lock);
    for (uint32_t i = 0; i < sim_count_dpus(&dpu_set); i++) {
        const struct dpu_t *dpu = sim_dpu_of_set(&dpu_set, i);
        *done = *done && dpu->pending == 0;
        *fault = *fault || (dpu->pending == 0 && dpu->fault != DPU_OK);
    }
    pthread_mutex_unlock(&sim->lock);
    return DPU_OK;
}

dpu_error_t dpu_sync(struct dpu_set_t dpu_set) {
    struct sim *sim;
    dpu_error_t error = sim_enter(&dpu_set, "dpu_sync", &sim);
    if (error != DPU_OK)
        return error;
    sim_wait_all(sim, &dpu_set);
    pthread_mutex_lock(&sim->lock);
    for (uint32_t i = 0; i < sim_count_dpus(&dpu_set); i++) {
        struct dpu_t *dpu = sim_dpu_of_set(&dpu_set, i);
        if (error == DPU_OK)
            error = dpu->async_error;
        dpu->async_error = DPU_OK;
    }
    pthread_mutex_unlock(&sim->lock);
    return error;
}
