/* What the files of the backend "cpu" share. */
#ifndef PYBFV_BACKEND_CPU_H
#define PYBFV_BACKEND_CPU_H

#include "backend.h"
#include "cpu/kernels.h"

/* Jobs that touch fewer words run on the calling thread: starting a thread costs
 * about as much as reading this many. */
#define CPU_SMALL_JOB ((uint64_t)1 << 18)

/* Blocks of accumulators are not split below this many words. */
#define NARROW_BLOCK 256

struct cpu_array {
    const uint32_t *words; /* [count][parts][L][N]: owned, or the caller's (borrowed) */
    uint32_t *owned;       /* NULL when borrowed */
    uint32_t *lifted;      /* [count][2][K][N], what elements are lifted in; NULL before the first */
    bool *is_lifted;       /* [count] */
};

static inline const uint32_t *cpu_words_of(const struct bfv_array *array) {
    return ((const struct cpu_array *)array->data)->words;
}

typedef void (*cpu_unit_function)(void *job, uint64_t first, uint64_t last);

/* Calls run(job, first, last) on ranges that together are [0, units), in up to
 * `threads` threads, and waits. words: how much the job touches. */
void cpu_in_parallel(uint32_t threads, uint64_t units, uint64_t words, cpu_unit_function run, void *job);

/* Words of a block of an accumulator's plane: the most there may be, or less when there would be too few
 * blocks for the threads. planes: how many planes the units cover. */
uint32_t cpu_block_width(const struct bfv_backend *backend, uint32_t planes);

/* acc_mul for a scaled accumulator (scaled_cpu.c). */
int cpu_scaled_mul(struct bfv_backend *backend, struct bfv_acc *acc, const struct bfv_array *a,
                   uint64_t first_a, const struct bfv_array *b, uint64_t first_b, uint64_t stride,
                   uint64_t count);

#endif
