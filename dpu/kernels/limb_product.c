/* Negacyclic products of polynomials in limbs, accumulated over pairs; no transform.
 *
 * A tasklet takes TILE output coefficients c at a time and runs over the first operand in tiles of
 * TILE. With both aligned to TILE, the second operand's coefficients j = c - i mod N that a pair of
 * tiles needs are two tiles that lie one after the other (mod N):
 *
 *     window   [ c0 - i0 - TILE .. c0 - i0 )[ c0 - i0 .. c0 - i0 + TILE )      j -> TILE + c - i
 *
 * X^N = -1: a term counts negatively where i > c. A whole tile of i lies below, on or above the
 * diagonal i0 = c0.
 *
 * Tensor. (c0, c1) (x) (d0, d1) takes three products instead of four (Karatsuba over the two halves):
 *     p0 = c0 d0,   p2 = c1 d1,   c0 d1 + c1 d0 = (c0 + c1)(d0 + d1) - p0 - p2.
 * The sums of halves are not reduced: below 2q < 2^(32 LIMBS).
 *
 * Accumulators are signed integers of 2 LIMBS + 1 words. |acc| <= N BFV_LIMB_PAIRS (2q)^2
 * < 2^(64 LIMBS + 30), so nothing is reduced before the end, and BFV_FLAG_INTEGER gives them as they
 * are.
 */
#include "kernels.h"

#ifdef BFV_LIMBS
#include "limb_kernels.h"

/* What a pass multiplies. */
enum operand {
    FIRST = 0,  /* part 0 of each ciphertext, or the polynomial itself */
    SECOND = 1, /* part 1 */
    BOTH = 2    /* part 0 + part 1, below 2q */
};

/* A tasklet's WRAM. */
struct product_buffers {
    struct limb_modulus modulus;
    uint32_t acc[TILE * ACC_WORDS];   /* of the pass */
    uint32_t cross[TILE * ACC_WORDS]; /* the tensor's middle part so far */
    uint32_t a[TILE * LIMBS];
    uint32_t b[2 * TILE * LIMBS]; /* the window */
    uint32_t other[TILE * LIMBS]; /* part 1 of a sum; residues to be added to or stored */
};

_Static_assert(24 * sizeof(struct product_buffers) <= BFV_LIMB_HEAP_BYTES, "all tasklets fit");

/* TILE, or N where that is less. */
static uint32_t tile_of(const struct bfv_args *args) {
    const uint32_t n = UINT32_C(1) << args->log_n;
    return n < TILE ? n : TILE;
}

uint32_t limb_product_heap(const struct bfv_args *args) {
    if (args->log_n < 1 || args->log_n > 14 || args->count > BFV_LIMB_PAIRS) {
        return 0;
    }
    const uint32_t n = UINT32_C(1) << args->log_n, tile = tile_of(args);
    return args->first <= n && args->positions <= n - args->first && args->first % tile == 0 &&
                   args->positions % tile == 0
               ? (uint32_t)sizeof(struct product_buffers)
               : 0;
}

/* One tile of an operand from coefficient `at` on. base: MRAM offset of its part 0. */
static void load_tile(uint32_t *to, struct product_buffers *own, uint32_t base, uint32_t at, uint32_t tile,
                      const struct bfv_args *args, enum operand which) {
    const uint32_t poly = (uint32_t)COEFF << args->log_n;
    stream_read(base + (which == SECOND ? poly : 0) + at * COEFF, to, tile * COEFF);
    if (which == BOTH) {
        stream_read(base + poly + at * COEFF, own->other, tile * COEFF);
        for (uint32_t i = 0; i < tile; i++) {
            (void)limb_add(to + i * LIMBS, to + i * LIMBS, own->other + i * LIMBS, LIMBS);
        }
    }
}

/* acc += sum over i in [from, to) of a[i] b[c - i]; b points at b[c]. */
static inline __attribute__((always_inline)) void add_terms(uint32_t *acc, const uint32_t *a,
                                                            const uint32_t *b, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        limb_mac(acc, a + i * LIMBS, b - i * LIMBS, LIMBS);
    }
}

/* acc[c] += the terms of output tile c0 over all pairs, one pass. */
static void run_pass(const struct bfv_args *args, struct product_buffers *own, uint32_t c0,
                     enum operand which) {
    const uint32_t n = UINT32_C(1) << args->log_n, tile = tile_of(args);
    for (uint32_t k = 0; k < args->count; k++) {
        const uint32_t a = args->a + k * args->stride_a, b = args->b + k * args->stride_b;
        for (uint32_t i0 = 0; i0 < n; i0 += tile) {
            load_tile(own->a, own, a, i0, tile, args, which);
            load_tile(own->b, own, b, (c0 - i0 - tile) & (n - 1), tile, args, which);
            load_tile(own->b + tile * LIMBS, own, b, (c0 - i0) & (n - 1), tile, args, which);
            for (uint32_t c = 0; c < tile; c++) {
                uint32_t *const acc = own->acc + c * ACC_WORDS;
                const uint32_t *const window = own->b + (tile + c) * LIMBS;
                /* i < positive count with their sign, the others negated: at most two steps */
                const uint32_t positive = i0 < c0 ? tile : i0 == c0 ? c + 1 : 0;
                for (uint32_t step = 0; step < 2; step++) {
                    const uint32_t from = step == 0 ? 0 : positive, to = step == 0 ? positive : tile;
                    if (from < to) {
                        const uint32_t sign = UINT32_C(0) - step;
                        limb_negate_if(acc, sign, 2 * LIMBS + 1);
                        add_terms(acc, own->a, window, from, to);
                        limb_negate_if(acc, sign, 2 * LIMBS + 1);
                    }
                }
            }
        }
    }
}

static void clear(uint32_t *acc) {
    for (uint32_t i = 0; i < TILE * ACC_WORDS; i++) {
        acc[i] = 0;
    }
}

/* Adds a tile of accumulators to `out` at coefficient `at` of a part, reduced or as integers. */
static void deliver(const struct bfv_args *args, struct product_buffers *own, uint32_t *acc, uint32_t part,
                    uint32_t at) {
    const uint32_t tile = tile_of(args), base = args->out + part * args->stride_part;
    const bool fresh = (args->flags & BFV_FLAG_FRESH) != 0;
    if ((args->flags & BFV_FLAG_INTEGER) != 0) {
        const uint32_t bytes = ACC_WORDS * 4;
        for (uint32_t i = 0; i < tile; i++) {
            uint32_t *const x = acc + i * ACC_WORDS;
            if (!fresh) {
                stream_read(base + (at + i) * bytes, own->b, bytes);
                limb_acc_add(x, own->b, LIMBS);
            }
            x[2 * LIMBS + 1] = UINT32_C(0) - (x[2 * LIMBS] >> 31); /* the padding carries the sign */
        }
        stream_write(acc, base + at * bytes, tile * bytes);
        return;
    }
    const uint32_t offset = base + at * COEFF, bytes = tile * COEFF;
    if (!fresh) {
        stream_read(offset, own->other, bytes);
    }
    for (uint32_t i = 0; i < tile; i++) {
        LIMB_LOCAL(r, LIMBS + 1);
        uint32_t *const to = own->other + i * LIMBS;
        limb_reduce_signed(r, acc + i * ACC_WORDS, &own->modulus, LIMBS);
        if (fresh) {
            for (uint32_t j = 0; j < LIMBS; j++) {
                to[j] = r[j];
            }
        } else {
            limb_add_mod(to, to, r, own->modulus.q, LIMBS);
        }
    }
    stream_write(own->other, offset, bytes);
}

void limb_product(const struct bfv_args *args, void *buffers) {
    struct product_buffers *own = buffers;
    const uint32_t tile = tile_of(args), tiles = args->positions / tile;
    const bool tensor = args->command == BFV_CMD_LIMB_TENSOR;
    if (kernel_first(args) == UINT32_MAX) {
        return;
    }
    limb_constants(args, &own->modulus);
    for (uint32_t item = kernel_first(args); item < tiles; item += args->tasklets) {
        const uint32_t at = item * tile;
        if (tensor) {
            clear(own->cross);
        }
        /* one call site of run_pass: it holds the product, the largest code there is */
        for (uint32_t which = FIRST; which <= (tensor ? BOTH : FIRST); which++) {
            clear(own->acc);
            run_pass(args, own, args->first + at, (enum operand)which);
            if (!tensor) {
                deliver(args, own, own->acc, 0, at);
                break;
            }
            for (uint32_t i = 0; i < tile; i++) {
                uint32_t *const cross = own->cross + i * ACC_WORDS, *const acc = own->acc + i * ACC_WORDS;
                if (which == BOTH) {
                    limb_acc_add(acc, cross, LIMBS);
                } else {
                    limb_acc_sub(cross, acc, LIMBS);
                }
            }
            deliver(args, own, own->acc, which == FIRST ? 0 : which == SECOND ? 2 : 1, at);
        }
    }
}

#endif
