/* Slices of coefficients in limbs: addition, subtraction, sum and lazy sum. */
#include "kernels.h"

#ifdef BFV_LIMBS
#include "limb_kernels.h"

/* A tasklet's WRAM. A lazy sum takes as many terms at a time as the heap has room for behind it. */
struct slice_buffers {
    struct limb_modulus modulus;
    uint32_t acc[SLICE_BLOCK * LAZY_WORDS]; /* the other operand, or the sums */
    uint32_t x[SLICE_BLOCK * LIMBS];        /* of the first term; the others follow */
};

enum { SLICE_BYTES = SLICE_BLOCK * COEFF, SLICE_TERMS = 16 };

_Static_assert(24 * sizeof(struct slice_buffers) <= BFV_LIMB_HEAP_BYTES, "all tasklets fit");

/* Terms that a lazy sum takes at a time. */
static uint32_t slice_terms(const struct bfv_args *args) {
    const uint32_t own = (uint32_t)BFV_LIMB_HEAP_BYTES / args->tasklets;
    uint32_t terms = 1, bytes = sizeof(struct slice_buffers) + SLICE_BYTES;
    while (terms < SLICE_TERMS && bytes <= own) {
        terms++;
        bytes += SLICE_BYTES;
    }
    return terms;
}

/* Coefficients of block `index`: SLICE_BLOCK, the last one maybe fewer. */
static uint32_t block_length(const struct bfv_args *args, uint32_t index) {
    const uint32_t left = args->positions - index * SLICE_BLOCK;
    return left < SLICE_BLOCK ? left : SLICE_BLOCK;
}

uint32_t limb_slice_heap(const struct bfv_args *args) {
    const uint32_t bytes = args->positions * COEFF;
    if (args->positions > BFV_MRAM_BYTES / COEFF || bytes % 8 != 0 || args->tasklets == 0) {
        return 0;
    }
    const uint32_t more = args->command == BFV_CMD_LIMB_SUM_LAZY ? slice_terms(args) - 1 : 0;
    return (uint32_t)sizeof(struct slice_buffers) + more * SLICE_BYTES;
}

/* out[k] = a[k] op b[k]. */
static void combine(const struct bfv_args *args, struct slice_buffers *own) {
    const uint32_t blocks = (args->positions + SLICE_BLOCK - 1) / SLICE_BLOCK;
    const uint32_t items = blocks * args->count;
    for (uint32_t item = kernel_first(args); item < items; item += args->tasklets) {
        const uint32_t term = item / blocks, index = item % blocks;
        const uint32_t length = block_length(args, index), at = index * SLICE_BLOCK * COEFF;
        stream_read(args->a + term * args->stride_a + at, own->acc, length * COEFF);
        stream_read(args->b + term * args->stride_b + at, own->x, length * COEFF);
        for (uint32_t i = 0; i < length; i++) {
            uint32_t *const r = own->acc + i * LIMBS;
            if (args->command == BFV_CMD_LIMB_ADD) {
                limb_add_mod(r, r, own->x + i * LIMBS, own->modulus.q, LIMBS);
            } else {
                limb_sub_mod(r, r, own->x + i * LIMBS, own->modulus.q, LIMBS);
            }
        }
        stream_write(own->acc, args->out + term * args->stride_part + at, length * COEFF);
    }
}

/* The block of sums that `start` gives; words: from one sum to the next. */
static void begin(const struct bfv_args *args, struct slice_buffers *own, uint32_t at, uint32_t length,
                  uint32_t words) {
    if ((args->flags & BFV_FLAG_FRESH) == 0) {
        stream_read(args->out + at, own->x, length * COEFF);
    }
    for (uint32_t i = 0; i < length; i++) {
        for (uint32_t j = 0; j < words; j++) {
            const bool read = j < LIMBS && (args->flags & BFV_FLAG_FRESH) == 0;
            own->acc[i * words + j] = read ? own->x[i * LIMBS + j] : 0;
        }
    }
}

/* out = start + sum of a[k], reduced after every term. */
static void sum(const struct bfv_args *args, struct slice_buffers *own) {
    const uint32_t blocks = (args->positions + SLICE_BLOCK - 1) / SLICE_BLOCK;
    for (uint32_t index = kernel_first(args); index < blocks; index += args->tasklets) {
        const uint32_t length = block_length(args, index), at = index * SLICE_BLOCK * COEFF;
        begin(args, own, at, length, LIMBS);
        for (uint32_t k = 0; k < args->count; k++) {
            stream_read(args->a + k * args->stride_a + at, own->x, length * COEFF);
            for (uint32_t i = 0; i < length; i++) {
                uint32_t *const s = own->acc + i * LIMBS;
                limb_add_mod(s, s, own->x + i * LIMBS, own->modulus.q, LIMBS);
            }
        }
        stream_write(own->acc, args->out + at, length * COEFF);
    }
}

/* `terms` terms from MRAM offset `from` on, `bytes` of each, to x one after the other. */
static void read_terms(const struct bfv_args *args, struct slice_buffers *own, uint32_t from, uint32_t terms,
                       uint32_t bytes) {
    uint32_t *x = own->x;
    if (args->stride_a == bytes) { /* they lie one after the other */
        stream_read(from, x, terms * bytes);
        return;
    }
    for (; terms != 0; terms--, from += args->stride_a, x += bytes / 4) {
        stream_read_short(from, x, bytes);
    }
}

/* The same, in one limb more and reduced once: 2^32 terms fit. */
static void sum_lazy(const struct bfv_args *args, struct slice_buffers *own) {
    const uint32_t blocks = (args->positions + SLICE_BLOCK - 1) / SLICE_BLOCK, group = slice_terms(args);
    for (uint32_t index = kernel_first(args); index < blocks; index += args->tasklets) {
        const uint32_t length = block_length(args, index), at = index * SLICE_BLOCK * COEFF;
        uint32_t from = args->a + at;
        begin(args, own, at, length, LAZY_WORDS);
        for (uint32_t left = args->count; left != 0;) {
            const uint32_t terms = left < group ? left : group;
            read_terms(args, own, from, terms, length * COEFF);
            for (uint32_t i = 0; i < length; i++) {
                limb_sum_lazy(own->acc + i * LAZY_WORDS, own->x + i * LIMBS, length * LIMBS, terms, LIMBS);
            }
            from += terms * args->stride_a;
            left -= terms;
        }
        for (uint32_t i = 0; i < length; i++) {
            LIMB_LOCAL(all, LIMB_ACC(LIMB_MAX));
            for (uint32_t j = 0; j < ACC_WORDS; j++) {
                all[j] = j <= LIMBS ? own->acc[i * LAZY_WORDS + j] : 0;
            }
            limb_reduce(own->x + i * LIMBS, all, &own->modulus, LIMBS);
        }
        stream_write(own->x, args->out + at, length * COEFF);
    }
}

void limb_slice(const struct bfv_args *args, void *own) {
    struct slice_buffers *buffers = own;
    if (kernel_first(args) == UINT32_MAX) {
        return;
    }
    limb_constants(args, &buffers->modulus);
    switch (args->command) {
    case BFV_CMD_LIMB_SUM:
        sum(args, buffers);
        break;
    case BFV_CMD_LIMB_SUM_LAZY:
        sum_lazy(args, buffers);
        break;
    default:
        combine(args, buffers);
        break;
    }
}

#endif
