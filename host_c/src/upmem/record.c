/* What was launched and what it moved, for a time model: the simulator's records beside the arguments that
 * only the host knows. On hardware nothing is recorded. */
#include <stdlib.h>
#include <string.h>

#include "upmem.h"

#ifdef DPUSIM
#include <dpusim.h>

/* What a DPU has to do, comparable within a launch. */
static uint64_t work_of(const struct bfv_args *args) {
    const bool whole = args->command == BFV_CMD_NTT_FORWARD || args->command == BFV_CMD_NTT_INVERSE;
    return args->count * (whole ? UINT64_C(1) : args->positions);
}

void upmem_record_begin(struct upmem *upmem) {
    struct upmem_record *record = &upmem->record;
    uint64_t most = 0;
    record->now = (bfv_event){.kind = BFV_EVENT_LAUNCH, .times = 1};
    record->busiest = 0;
    for (uint32_t d = 0; d < upmem->dpus; d++) {
        const uint64_t work = work_of(&upmem->args[d]);
        record->now.dpus += work != 0;
        if (work > most) {
            most = work;
            record->busiest = d;
        }
    }
    const struct bfv_args *args = &upmem->args[record->busiest];
    record->now.command = args->command;
    record->now.log_n = args->log_n;
    record->now.primes = args->primes;
    record->now.parts = args->parts;
    record->now.tasklets = args->tasklets;
    record->now.block = args->block;
    record->now.count = args->count;
    record->now.positions = args->positions;
}

/* One direction of all tasklets. */
static void add_moves(bfv_event *event, const struct dpusim_dma_record *moves, uint64_t *number,
                      uint64_t *bytes) {
    _Static_assert(BFV_EVENT_SIZES == DPUSIM_DMA_SIZES, "the simulator's sizes");
    for (uint32_t i = 0; i < DPUSIM_TASKLETS; i++) {
        *number += moves[i].number;
        *bytes += moves[i].bytes;
        for (uint32_t k = 0; k < BFV_EVENT_SIZES; k++) {
            event->sizes[k] += moves[i].sizes[k];
        }
    }
}

static void take_moves(bfv_event *event, const struct dpusim_launch_record *launch) {
    add_moves(event, launch->read, &event->reads, &event->read_bytes);
    add_moves(event, launch->write, &event->writes, &event->write_bytes);
    for (uint32_t i = 0; i < DPUSIM_TASKLETS; i++) {
        const uint64_t bytes = launch->read[i].bytes + launch->write[i].bytes;
        if (bytes > event->busiest_bytes) {
            event->busiest_reads = launch->read[i].number;
            event->busiest_writes = launch->write[i].number;
            event->busiest_bytes = bytes;
        }
    }
}

/* One more of an event, which is the same as one before, or new. */
static void count_event(struct upmem_record *record, const bfv_event *event) {
    for (uint32_t i = record->count; i-- > 0;) {
        bfv_event same = record->events[i];
        same.times = event->times;
        if (memcmp(&same, event, sizeof same) == 0) {
            record->events[i].times += event->times;
            return;
        }
    }
    if (record->count == record->room) {
        const uint32_t room = record->room == 0 ? 16 : 2 * record->room;
        bfv_event *larger = realloc(record->events, room * sizeof *larger);
        if (larger == NULL) {
            return;
        }
        record->events = larger;
        record->room = room;
    }
    record->events[record->count++] = *event;
}

void upmem_record_end(struct upmem *upmem) {
    struct dpusim_launch_record launch;
    struct dpu_set_t dpu;
    uint32_t index = 0;
    DPU_FOREACH(upmem->set, dpu, index) {
        if (upmem->places[index].number == upmem->record.busiest &&
            dpusim_last_launch(dpu, &launch) == DPU_OK) {
            take_moves(&upmem->record.now, &launch);
            count_event(&upmem->record, &upmem->record.now);
        }
    }
}

int upmem_recorded(const struct upmem *upmem, bfv_event *out, uint32_t room, uint32_t *count) {
    const struct upmem_record *record = &upmem->record;
    uint32_t kinds = 0;
    if (dpusim_transfers(upmem->set, NULL, 0, &kinds) != DPU_OK) {
        return BFV_E_BACKEND;
    }
    struct dpusim_transfer_record *transfers = calloc(kinds + 1, sizeof *transfers);
    if (transfers == NULL) {
        return BFV_E_MEMORY;
    }
    (void)dpusim_transfers(upmem->set, transfers, kinds, &kinds);
    for (uint32_t i = 0; i < record->count && i < room; i++) {
        out[i] = record->events[i];
    }
    for (uint32_t i = 0; i < kinds && record->count + i < room; i++) {
        out[record->count + i] =
            (bfv_event){.kind = transfers[i].to_dpus ? BFV_EVENT_TO_DPUS : BFV_EVENT_FROM_DPUS,
                        .dpus = transfers[i].dpus,
                        .times = transfers[i].times,
                        .bytes = transfers[i].bytes,
                        .way = (uint32_t)transfers[i].way,
                        .wram = transfers[i].in_mram ? 0 : 1};
    }
    *count = record->count + kinds;
    free(transfers);
    return BFV_OK;
}

#else

void upmem_record_begin(struct upmem *upmem) {
    (void)upmem;
}

void upmem_record_end(struct upmem *upmem) {
    (void)upmem;
}

int upmem_recorded(const struct upmem *upmem, bfv_event *out, uint32_t room, uint32_t *count) {
    (void)upmem;
    (void)out;
    (void)room;
    *count = 0;
    return BFV_OK;
}

#endif
