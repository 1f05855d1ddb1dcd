/* What main.c gives to the kernels and the kernels to main.c.
 *
 * A kernel is two functions: how many bytes of WRAM heap it needs for given
 * arguments (0 when they are out of range), and its run, called by all NR_TASKLETS
 * tasklets at once with that heap, shared, 8-aligned, its contents undefined. It
 * calls no allocator itself. Tasklets beyond args->tasklets must touch nothing, but
 * must reach every kernel_sync; loops over work items written
 *
 *     for (uint32_t item = kernel_first(args); item < items; item += args->tasklets)
 *
 * do that by themselves, as kernel_first is beyond every item for an idle tasklet.
 */
#ifndef PYBFV_KERNELS_H
#define PYBFV_KERNELS_H

#include <defs.h>
#include <mram.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

/* A function that a program for a DPU holds once: instruction memory is 4,096 instructions. */
#ifdef DPU
#define KERNEL_ONCE static __attribute__((noinline))
#else
#define KERNEL_ONCE static inline
#endif

/* All NR_TASKLETS tasklets meet here. */
void kernel_sync(void);

/* A tasklet's first work item: its own number, or beyond everything when it is idle. */
static inline uint32_t kernel_first(const struct bfv_args *args) {
    const uint32_t id = (uint32_t)me();
    return id < args->tasklets ? id : UINT32_MAX;
}

#ifdef BFV_FAMILY_NTT
uint32_t ntt_accumulate_heap(const struct bfv_args *args); /* SUM, PRODUCT, SQUARE */
void ntt_accumulate(const struct bfv_args *args, void *heap);
uint32_t ntt_pointwise_heap(const struct bfv_args *args); /* ADD, SUB, MUL, TENSOR */
void ntt_pointwise(const struct bfv_args *args, void *heap);
uint32_t ntt_transform_heap(const struct bfv_args *args); /* FORWARD, INVERSE */
void ntt_transform(const struct bfv_args *args, void *heap);
#endif
#ifdef BFV_LIMBS
uint32_t limb_heap(const struct bfv_args *args); /* every command of the limb family */
void limb_run(const struct bfv_args *args, void *heap);
#endif

#endif
