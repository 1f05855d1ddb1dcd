/* What DPUs return, against what the host works out of the same ciphertexts.
 *
 * A ciphertext is a polynomial in its parts: x(s) = x_0 + s x_1 (+ s^2 x_2). Sums and tensors keep that:
 * (a (x) b)(s) = a(s) b(s). So for each coefficient of each prime one sum of x(s), or of a(s) b(s), tells
 * whether all parts of an accumulator are right: one product a term in the place of three or four. The points
 * s are small, chosen at random for each coefficient when the backend is opened.
 *
 * One wrong part of a coefficient is always found, as s is no multiple of p. Of errors in two or three parts
 * of a coefficient those pass that have a root at s: one in p of random ones, and at most two of all values
 * of s. BFV_CHECK_FULL computes every part, as the cpu backend does: nothing passes.
 */
#ifndef PYBFV_UPMEM_CHECK_H
#define PYBFV_UPMEM_CHECK_H

#include "upmem.h"

struct check {
    bool full;
    /* [primes of q][N] random residues r and F^T r, F the transform; linear only, NULL until the first
     * transform. <r, F x> = <F^T r, x> for every x, and one wrong word makes it false but once in p. */
    uint32_t *mask, *folded;
    uint32_t *points;               /* [primes][N], those of q first; linear only */
    uint64_t limit[BFV_MAX_PRIMES]; /* as point_mul */
};

/* Terms on the host: NTT form mod the primes of a ring, `words` apart from one to the next. */
struct check_terms {
    const bfv_ring *ring;
    const uint32_t *a, *b; /* b NULL: sums */
    uint32_t parts;
    size_t words;
    uint64_t count;
};

int check_open(struct check *check, const bfv_ring *ring, bool full);
void check_close(struct check *check);

/* Words of what is expected of an accumulator of `parts` parts. */
size_t check_words(const struct check *check, const bfv_ring *ring, uint32_t parts);
/* expected += what the terms give. */
void check_add(struct upmem *upmem, const struct check *check, uint32_t *expected,
               const struct check_terms *terms);

/* expected = what a value [parts][..] gives, whose parts are `step` words apart. In: residues. */
void check_value(const struct check *check, const bfv_ring *ring, const uint32_t *value, size_t step,
                 uint32_t parts, uint32_t *expected);

/* Whether such a value is what is expected. wrong [check_words]: the first L N are 0 where it is. */
bool check_compare(const struct check *check, const bfv_ring *ring, const uint32_t *expected,
                   const uint32_t *value, size_t step, uint32_t parts, uint32_t *wrong);

/* Results of family_ops.pointwise. */
struct check_results {
    enum family_op op;
    uint32_t parts, sa, sb;
    const uint32_t *a, *b, *out;
    uint64_t count;
};

/* *found: a coefficient that is wrong in one of them, i N + c for c of plane i, or L N when all are right. */
int check_results(struct upmem *upmem, const struct check *check, const struct check_results *results,
                  size_t *found);

/* Whether `ntt` is the transform of `coefficients`, one plane, mod prime i. space: N words. */
bool check_transform(const struct check *check, const bfv_ring *ring, uint32_t i, const uint32_t *ntt,
                     const uint32_t *coefficients, uint32_t *space);
/* Before the first. */
int check_transforms_open(struct check *check, const bfv_ring *ring);

#endif
