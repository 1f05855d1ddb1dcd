/* The limb family's commands: who runs them and what WRAM each tasklet gets. */
#include "kernels.h"

#ifdef BFV_LIMBS
#include "limb_kernels.h"

static uint32_t own_heap(const struct bfv_args *args) {
    if (args->primes != LIMBS) {
        return 0;
    }
    switch (args->command) {
    case BFV_CMD_LIMB_PRODUCT:
    case BFV_CMD_LIMB_TENSOR:
        return limb_product_heap(args);
    default:
        return limb_slice_heap(args);
    }
}

uint32_t limb_heap(const struct bfv_args *args) {
    return args->tasklets * own_heap(args);
}

void limb_run(const struct bfv_args *args, void *heap) {
    void *own = (uint8_t *)heap + (uint32_t)me() * own_heap(args);
    switch (args->command) {
    case BFV_CMD_LIMB_PRODUCT:
    case BFV_CMD_LIMB_TENSOR:
        limb_product(args, own);
        break;
    default:
        limb_slice(args, own);
        break;
    }
}

#endif
