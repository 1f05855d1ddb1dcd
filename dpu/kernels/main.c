/* A DPU program: the symbols that the host sees, tasklet 0's set-up, and the dispatch
 * on the command. */
#include <alloc.h>
#include <barrier.h>
#include <perfcounter.h>

#include "kernels.h"

/* On the host's simulator a section of its own, one image per DPU; on a DPU ordinary data. */
#ifdef DPU
#define SHARED
#else
#define SHARED __attribute__((section("dpu_wram"), used))
#endif

#ifdef BFV_LIMBS
enum { HEAP_BYTES = BFV_LIMB_HEAP_BYTES, STACK_BYTES = BFV_LIMB_STACK_BYTES };
#else
enum { HEAP_BYTES = BFV_NTT_HEAP_BYTES, STACK_BYTES = BFV_NTT_STACK_BYTES };
#endif
#ifdef STACK_SIZE_DEFAULT
_Static_assert(STACK_SIZE_DEFAULT == STACK_BYTES, "the stacks that abi.h counts on");
#endif

__host struct bfv_args bfv_args;
__host struct bfv_report bfv_report;

/* Written by tasklet 0 before the first barrier. */
struct shared {
    void *heap;
    uint32_t status; /* enum bfv_dpu_status */
};
SHARED struct shared shared;

BARRIER_INIT(meeting, NR_TASKLETS);

void kernel_sync(void) {
    barrier_wait(&meeting);
}

/* The bytes of heap that a command needs, 0 for bad arguments; *known: whether it is ours. */
static uint32_t heap_of(const struct bfv_args *args, bool *known) {
    *known = true;
    switch (args->command) {
    case BFV_CMD_NONE:
        return 8;
#ifdef BFV_FAMILY_NTT
    case BFV_CMD_NTT_SUM:
    case BFV_CMD_NTT_PRODUCT:
    case BFV_CMD_NTT_SQUARE:
        return ntt_accumulate_heap(args);
    case BFV_CMD_NTT_ADD:
    case BFV_CMD_NTT_SUB:
    case BFV_CMD_NTT_MUL:
    case BFV_CMD_NTT_TENSOR:
        return ntt_pointwise_heap(args);
    case BFV_CMD_NTT_FORWARD:
    case BFV_CMD_NTT_INVERSE:
        return ntt_transform_heap(args);
#endif
    default:
#ifdef BFV_LIMBS
        if (args->command >= BFV_CMD_LIMB_FIRST && args->command <= BFV_CMD_LIMB_LAST) {
            return limb_heap(args);
        }
#endif
        *known = false;
        return 0;
    }
}

static void run(const struct bfv_args *args, void *heap) {
    switch (args->command) {
    case BFV_CMD_NONE:
        break;
#ifdef BFV_FAMILY_NTT
    case BFV_CMD_NTT_SUM:
    case BFV_CMD_NTT_PRODUCT:
    case BFV_CMD_NTT_SQUARE:
        ntt_accumulate(args, heap);
        break;
    case BFV_CMD_NTT_ADD:
    case BFV_CMD_NTT_SUB:
    case BFV_CMD_NTT_MUL:
    case BFV_CMD_NTT_TENSOR:
        ntt_pointwise(args, heap);
        break;
    case BFV_CMD_NTT_FORWARD:
    case BFV_CMD_NTT_INVERSE:
        ntt_transform(args, heap);
        break;
#endif
    default:
#ifdef BFV_LIMBS
        limb_run(args, heap);
#endif
        break;
    }
}

int main(void) {
    if (me() == 0) {
        bool known = false;
        const uint32_t bytes = heap_of(&bfv_args, &known);
        (void)perfcounter_config(COUNT_CYCLES, true);
        (void)mem_reset();
        shared.status = BFV_DPU_OK;
        if (!known) {
            shared.status = BFV_DPU_COMMAND;
        } else if (bytes == 0 || bfv_args.tasklets == 0 || bfv_args.tasklets > NR_TASKLETS) {
            shared.status = BFV_DPU_ARGUMENT;
        } else if (bytes > (uint32_t)HEAP_BYTES) {
            shared.status = BFV_DPU_MEMORY;
        } else {
            shared.heap = mem_alloc(bytes);
        }
    }
    kernel_sync();
    if (shared.status == BFV_DPU_OK) {
        run(&bfv_args, shared.heap);
    }
    kernel_sync();
    if (me() == 0) {
        bfv_report.status = shared.status;
        bfv_report.cycles = (uint64_t)perfcounter_get();
        bfv_report.serial = bfv_args.serial;
    }
    return 0;
}
