/* What the limb family's files share: a program is built for BFV_LIMBS words a coefficient. */
#ifndef PYBFV_LIMB_KERNELS_H
#define PYBFV_LIMB_KERNELS_H

#include "limb.h"
#include "stream.h"

#if BFV_LIMBS != 1 && BFV_LIMBS != 2 && BFV_LIMBS != 4 && BFV_LIMBS != 8
#error "BFV_LIMBS is 1, 2, 4 or 8"
#endif

enum {
    LIMBS = BFV_LIMBS,
    COEFF = 4 * BFV_LIMBS,                      /* bytes of a coefficient */
    ACC_WORDS = 2 * BFV_LIMBS + 2,              /* words of a product's accumulator: LIMB_ACC */
    LAZY_WORDS = (BFV_LIMBS + 2) / 2 * 2,       /* words of a lazy sum: LIMB_LAZY */
    SLICE_BLOCK = 64 / BFV_LIMBS,               /* coefficients of a slice in WRAM at a time: 256 bytes */
    TILE = BFV_LIMBS <= 2 ? 16 : 32 / BFV_LIMBS /* outputs, and coefficients of an operand, at a time */
};

/* The constants of q from the tables. */
static inline void limb_constants(const struct bfv_args *args, struct limb_modulus *modulus) {
    stream_read(args->tables, modulus, sizeof *modulus);
}

/* Each tasklet's bytes of heap, 0 for bad arguments; and the work. */
uint32_t limb_slice_heap(const struct bfv_args *args); /* ADD, SUB, SUM, SUM_LAZY */
void limb_slice(const struct bfv_args *args, void *own);
uint32_t limb_product_heap(const struct bfv_args *args); /* PRODUCT, TENSOR */
void limb_product(const struct bfv_args *args, void *own);

#endif
