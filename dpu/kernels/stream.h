/* Between MRAM and WRAM: transfers at byte offsets of the heap, and the block loop. */
#ifndef PYBFV_STREAM_H
#define PYBFV_STREAM_H

#include "kernels.h"

static inline __mram_ptr uint8_t *stream_at(uint32_t offset) {
    return (__mram_ptr uint8_t *)DPU_MRAM_HEAP_POINTER + offset;
}

/* bytes from MRAM at offset to WRAM. In: offset, to and bytes are multiples of 8, bytes > 0. */
static inline void stream_read(uint32_t offset, void *to, uint32_t bytes) {
    uint8_t *at = to;
    while (bytes > BFV_DMA_BYTES) {
        mram_read(stream_at(offset), at, BFV_DMA_BYTES);
        offset += BFV_DMA_BYTES;
        at += BFV_DMA_BYTES;
        bytes -= BFV_DMA_BYTES;
    }
    mram_read(stream_at(offset), at, bytes);
}

/* The same for at most BFV_DMA_BYTES, in a loop over terms. */
static inline void stream_read_short(uint32_t offset, void *to, uint32_t bytes) {
    ZQ_ASSERT(bytes <= BFV_DMA_BYTES);
    mram_read(stream_at(offset), to, bytes);
}

/* The way back, under the conditions of stream_read. */
static inline void stream_write(const void *from, uint32_t offset, uint32_t bytes) {
    const uint8_t *at = from;
    while (bytes > BFV_DMA_BYTES) {
        mram_write(at, stream_at(offset), BFV_DMA_BYTES);
        offset += BFV_DMA_BYTES;
        at += BFV_DMA_BYTES;
        bytes -= BFV_DMA_BYTES;
    }
    mram_write(at, stream_at(offset), bytes);
}

/* ---- slices ------------------------------------------------------------------- */

/* Blocks of the DPU's slice. In: block >= 1. */
static inline uint32_t slice_blocks(const struct bfv_args *args) {
    return (args->positions + args->block - 1) / args->block;
}

/* Units of block `index`: args->block, the last one maybe fewer. */
static inline uint32_t slice_units(const struct bfv_args *args, uint32_t index) {
    const uint32_t left = args->positions - index * args->block;
    return left < args->block ? left : args->block;
}

/* The rows of the primes of a block's units, to rows[units]. have: the prime of which rows[args->block] are
 * already, or UINT32_MAX; kept for the next block. */
static inline void slice_rows(const struct bfv_args *args, uint32_t index, uint32_t units,
                              struct bfv_prime_row *rows, uint32_t *have) {
    const uint32_t shift = args->log_n > 3 ? args->log_n - 3u : 0; /* log2 of the units of a plane */
    const uint32_t unit = args->first + index * args->block;
    const uint32_t prime = unit >> shift, last = (unit + units - 1) >> shift;
    if (prime == *have && last == prime) {
        return;
    }
    for (uint32_t u = 0; u < units; u++) {
        const uint32_t row = (unit + u) >> shift;
        stream_read_short(args->tables + row * (uint32_t)sizeof *rows, rows + u, sizeof *rows);
    }
    *have = last == prime && units == args->block ? prime : UINT32_MAX;
}

/* Whether a command's slice arguments are in range. */
static inline bool slice_valid(const struct bfv_args *args) {
    return args->block >= 1 && args->block <= BFV_BLOCK_UNITS && args->log_n >= 1 && args->log_n <= 14 &&
           args->parts >= 1 && args->parts <= 3;
}

/* ---- the block loop ------------------------------------------------------------- */

/* Parts of an operand and of a result. */
struct stream_shape {
    uint32_t in, out;
};

/* What a tasklet holds of one block: operands [units][in][BFV_UNIT], result [units][out][BFV_UNIT]. */
struct stream_block {
    uint32_t *a, *b; /* the work may write over them */
    uint32_t *out;
    const struct bfv_prime_row *rows; /* of the units */
    uint32_t units;
    struct stream_shape shape;
};

/* Units of memory that a tasklet holds for each unit of a block. */
static inline uint32_t stream_lines(struct stream_shape shape) {
    return BFV_ROW_LINES + 2 * shape.in + shape.out; /* the row of the prime, two operands, the result */
}

/* For every term and block: reads a and b, computes, writes the result. */
static inline __attribute__((always_inline)) void
stream_blocks(const struct bfv_args *args, void *heap, struct stream_shape shape,
              void (*compute)(const struct bfv_args *args, const struct stream_block *block)) {
    const uint32_t blocks = slice_blocks(args);
    const uint32_t items = args->count * blocks;
    const uint32_t line = args->block * BFV_UNIT_BYTES;
    uint8_t *own = (uint8_t *)heap + (uint32_t)me() * stream_lines(shape) * line;
    struct bfv_prime_row *rows = (struct bfv_prime_row *)(void *)own;
    uint32_t *a = (uint32_t *)(void *)(own + BFV_ROW_LINES * line);
    uint32_t *b = (uint32_t *)(void *)(own + (BFV_ROW_LINES + shape.in) * line);
    uint32_t *out = (uint32_t *)(void *)(own + (BFV_ROW_LINES + 2 * shape.in) * line);

    uint32_t have = UINT32_MAX;
    for (uint32_t item = kernel_first(args); item < items; item += args->tasklets) {
        const uint32_t term = item / blocks, index = item % blocks;
        const uint32_t units = slice_units(args, index), at = index * line;
        slice_rows(args, index, units, rows, &have);
        stream_read(args->a + term * args->stride_a + at * shape.in, a, units * shape.in * BFV_UNIT_BYTES);
        stream_read(args->b + term * args->stride_b + at * shape.in, b, units * shape.in * BFV_UNIT_BYTES);
        const struct stream_block block = {a, b, out, rows, units, shape};
        compute(args, &block);
        stream_write(out, args->out + term * args->stride_part + at * shape.out,
                     units * shape.out * BFV_UNIT_BYTES);
    }
}

#endif
