/* Pointwise sums, differences and products mod p of ciphertexts in slices (abi.h). */
#include "stream.h"

#include "ntt_fast.h"

/* out[j] = a[j] b[j] mod p, `words` words. One copy on the DPU, where a product is 71 instructions, or 130.
 */
KERNEL_ONCE void mul_words(uint32_t *out, const uint32_t *a, const uint32_t *b, uint32_t words,
                           const struct zq_mod *mod) {
    if (ntt_fast_prime(mod->p)) {
        const struct ntt_fast_prime prime = ntt_fast_product(mod);
        for (uint32_t j = 0; j < words; j++) {
            out[j] = ntt_fast_mul(a[j], b[j], &prime);
        }
    } else {
        for (uint32_t j = 0; j < words; j++) {
            out[j] = zq_mul(a[j], b[j], mod);
        }
    }
}

/* Each: the result of one block. In, Out: residues. */
static void block_add(const struct stream_block *block) {
    const uint32_t words = block->shape.in * BFV_UNIT;
    for (uint32_t u = 0; u < block->units; u++) {
        const uint32_t p = block->rows[u].mod.p;
        for (uint32_t j = u * words; j < (u + 1) * words; j++) {
            block->out[j] = zq_add(block->a[j], block->b[j], p);
        }
    }
}

static void block_sub(const struct stream_block *block) {
    const uint32_t words = block->shape.in * BFV_UNIT;
    for (uint32_t u = 0; u < block->units; u++) {
        const uint32_t p = block->rows[u].mod.p;
        for (uint32_t j = u * words; j < (u + 1) * words; j++) {
            block->out[j] = zq_sub(block->a[j], block->b[j], p);
        }
    }
}

static void block_mul(const struct stream_block *block) {
    const uint32_t words = block->shape.in * BFV_UNIT;
    for (uint32_t u = 0; u < block->units; u++) {
        const uint32_t at = u * words;
        mul_words(block->out + at, block->a + at, block->b + at, words, &block->rows[u].mod);
    }
}

/* (a0 b0, a0 b1 + a1 b0, a1 b1), the mixed part as (a0 + a1)(b0 + b1) less the others. */
static void block_tensor(const struct stream_block *block) {
    for (uint32_t u = 0; u < block->units; u++) {
        const struct zq_mod *mod = &block->rows[u].mod;
        uint32_t *a0 = block->a + u * 2 * BFV_UNIT, *a1 = a0 + BFV_UNIT;
        uint32_t *b0 = block->b + u * 2 * BFV_UNIT, *b1 = b0 + BFV_UNIT;
        uint32_t *c0 = block->out + u * 3 * BFV_UNIT, *c1 = c0 + BFV_UNIT, *c2 = c1 + BFV_UNIT;
        mul_words(c0, a0, b0, BFV_UNIT, mod);
        mul_words(c2, a1, b1, BFV_UNIT, mod);
        for (uint32_t j = 0; j < BFV_UNIT; j++) {
            a0[j] = zq_add(a0[j], a1[j], mod->p);
            b0[j] = zq_add(b0[j], b1[j], mod->p);
        }
        mul_words(c1, a0, b0, BFV_UNIT, mod);
        for (uint32_t j = 0; j < BFV_UNIT; j++) {
            c1[j] = zq_sub(zq_sub(c1[j], c0[j], mod->p), c2[j], mod->p);
        }
    }
}

static void block_of(const struct bfv_args *args, const struct stream_block *block) {
    switch (args->command) {
    case BFV_CMD_NTT_ADD:
        block_add(block);
        break;
    case BFV_CMD_NTT_SUB:
        block_sub(block);
        break;
    case BFV_CMD_NTT_MUL:
        block_mul(block);
        break;
    default:
        block_tensor(block);
        break;
    }
}

static struct stream_shape shape_of(const struct bfv_args *args) {
    const struct stream_shape tensor = {2, 3}, same = {args->parts, args->parts};
    return args->command == BFV_CMD_NTT_TENSOR ? tensor : same;
}

uint32_t ntt_pointwise_heap(const struct bfv_args *args) {
    if (!slice_valid(args) || (args->command == BFV_CMD_NTT_TENSOR && args->parts != 2)) {
        return 0;
    }
    return args->tasklets * stream_lines(shape_of(args)) * args->block * BFV_UNIT_BYTES;
}

void ntt_pointwise(const struct bfv_args *args, void *heap) {
    stream_blocks(args, heap, shape_of(args), block_of);
}
