/* What stands between a caller and DPUs that err.
 *
 * The guard keeps a journal: the calls on accumulators since each was last read and found right, with their
 * ciphertexts, and each accumulator's value from then. A DPU in fault, one that doesn't answer and a result
 * that fails its check (check.h) have one answer: the DPU is left out, the others get its share, all
 * accumulators their kept values, and the journal is played again. Only once: what fails before the journal
 * has been found right is refused, naming both, and the backend is of no more use.
 *
 * A dropped array that the journal needs is kept, a borrowed one copied; when that takes much memory, all
 * accumulators are read and checked, and the journal begins anew.
 *
 * With BFV_CHECK_NONE there is no guard: upmem->guard is NULL, and these functions go straight to the family.
 */
#ifndef PYBFV_UPMEM_GUARD_H
#define PYBFV_UPMEM_GUARD_H

#include "upmem.h"

/* After the family is open. check: BFV_CHECK_*. */
int guard_open(struct upmem *upmem, uint32_t check);
void guard_close(struct upmem *upmem);

/* As backend_ops. */
int guard_acc_new(struct upmem *upmem, struct bfv_acc *acc);
void guard_acc_drop(struct upmem *upmem, struct bfv_acc *acc);
/* b NULL: sums. */
int guard_acc_terms(struct upmem *upmem, struct bfv_acc *acc, const struct bfv_array *a, uint64_t first_a,
                    const struct bfv_array *b, uint64_t first_b, uint64_t stride, uint64_t count);
int guard_acc_merge(struct upmem *upmem, struct bfv_acc *acc, const struct bfv_acc *other);
int guard_acc_save(struct upmem *upmem, const struct bfv_acc *acc, uint32_t *dst);
int guard_acc_load(struct upmem *upmem, struct bfv_acc *acc, const uint32_t *src);
int guard_sync(struct upmem *upmem);

/* Before an array's ciphertexts go; frees its data, or keeps them. */
void guard_array_drop(struct upmem *upmem, struct bfv_array *array);

/* As family_ops. */
int guard_pointwise(struct upmem *upmem, enum family_op op, uint32_t parts, const uint32_t *a, uint32_t sa,
                    const uint32_t *b, uint32_t sb, uint64_t count, uint32_t *out);
int guard_convert(struct upmem *upmem, const uint32_t *a, uint64_t polys, bool inverse, uint32_t *out);

/* In family_ops.convert: whether `out` of the DPUs is the transform, or its inverse, of the plane x mod prime
 * i. */
bool guard_transform_is_right(struct upmem *upmem, uint32_t i, bool inverse, const uint32_t *x,
                              const uint32_t *out);

/* Frees an array's data: its cache and what it owns. */
void upmem_array_free(struct upmem *upmem, struct upmem_array *data);

#endif
