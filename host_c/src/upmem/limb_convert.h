/* Residue polynomials to coefficients in limbs and back, exactly.
 *
 * Limb form: [N][limbs], coefficient k at words limbs k and following, little-endian, in [0, q). Both
 * forms hold the same polynomial, so that either way is a bijection. The host does it, with the ring's
 * transforms; the limb family's kernels know nothing of residues.
 */
#ifndef PYBFV_LIMB_CONVERT_H
#define PYBFV_LIMB_CONVERT_H

#include <stddef.h>

#include "../ring.h"

#include "../../../dpu/core/limb.h"

/* A ring's constants. */
struct limb_form {
    const bfv_ring *ring;
    uint32_t limbs;                          /* 1, 2, 4 or 8: the least with q < 2^(32 limbs - 1) */
    _Alignas(8) struct limb_modulus modulus; /* limb.h reads two words at a time */
    /* p_j^-1 mod p_i for j < i and its Shoup quotient. */
    uint32_t inverse[BFV_MAX_PRIMES][BFV_MAX_PRIMES], inverse_shoup[BFV_MAX_PRIMES][BFV_MAX_PRIMES];
};

_Static_assert(offsetof(struct limb_form, modulus) % 8 == 0, "limb.h reads q and r2 by eight bytes");

/* Words of one polynomial in limb form. */
static inline size_t limb_poly_words(const struct limb_form *form) {
    return (size_t)form->limbs * form->ring->n;
}

/* The limbs of a ring's q, 0 when it does not fit eight. */
uint32_t limb_count(const bfv_ring *ring);

/* BFV_E_UNSUPPORTED when q does not fit eight limbs. The ring must outlive the form. */
int limb_form_open(const bfv_ring *ring, struct limb_form *out);

/* out = the polynomial whose residues in NTT form are x [L][N]. space: L N words. In: residues. */
void limb_from_ntt(const struct limb_form *form, const uint32_t *x, uint32_t *space, uint32_t *out);

/* out [L][N] = the residues in NTT form of x [N][limbs]; BFV_E_RESIDUE, and out unchanged, when some
 * coefficient is not below q. */
int limb_to_ntt(const struct limb_form *form, const uint32_t *x, uint32_t *out);

#endif
