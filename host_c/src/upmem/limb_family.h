/* The limb family's own pieces: slices and products over the DPUs, on polynomials in limb form. */
#ifndef PYBFV_LIMB_FAMILY_H
#define PYBFV_LIMB_FAMILY_H

#include "limb_convert.h"
#include "upmem.h"

/* What a task computes on, in NTT form, one ciphertext `stride` words after the other. a NULL: not known. */
struct limb_origin {
    const uint32_t *a, *b; /* b NULL: sums */
    size_t stride;
    uint32_t parts;
};

/* Products, or sums, that the DPUs have been set to, and where they leave the results. */
struct limb_task {
    struct limb_origin origin;
    uint32_t command;
    bool integer; /* over the integers, of operands shifted by `half`: limb_scaled.c */
    uint64_t pairs;
    uint32_t offset; /* in MRAM */
};

struct limb_family {
    struct limb_form form;
    _Alignas(8) uint32_t half[LIMB_MAX]; /* (q - 1)/2 */
    struct mram_region *tables;          /* struct limb_modulus */
    struct limb_task left;               /* of the launch that an accumulator left under way */
    uint32_t *shifts;                    /* scaled products only: what limb_scaled.c takes off its results */
};

struct limb_acc {
    uint32_t *words; /* [parts][N][limbs], canonical; scaled: the state, [3][L + K][N] */
    bool damaged;    /* terms that it was said to hold were lost; until the next load */
};

static inline struct limb_acc *limb_acc_of(const struct bfv_acc *acc) {
    return acc->data;
}

static inline struct limb_family *limb_family_of(const struct upmem *upmem) {
    return (struct limb_family *)upmem->family;
}

static inline uint64_t limb_min(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* What every command's arguments share, BFV_FLAG_FRESH among it; the others are 0. */
struct bfv_args limb_args(const struct upmem *upmem, uint32_t command);

/* What is said of a DPU whose coefficient no computation gives. */
#define LIMB_TOO_LARGE "returned a coefficient that is not below q"

/* Memory for polys polynomials in limb form; NULL when there is none. */
uint32_t *limb_alloc(const struct upmem *upmem, uint64_t polys);

/* x += y mod q over `words` words. BFV_E_BACKEND, and x unchanged, when y, which a DPU returned, holds a
 * coefficient that is not below q. */
int limb_add_returned(struct upmem *upmem, uint32_t *x, const uint32_t *y, uint64_t words);

/* Terms of a batch: what MRAM (bytes of a term and of a fixed part on each DPU) and the host's stage
 * hold; 0 when MRAM can't hold one. */
uint64_t limb_batch(const struct upmem *upmem, uint64_t count, uint64_t term, uint64_t fixed);

/* ---- limb_slices.c: a DPU has the same run of coefficients of every ciphertext ------ */

/* acc += sum of `count` ciphertexts at src, `stride` words apart; the last launch is left. */
int limb_sum(struct upmem *upmem, struct bfv_acc *acc, const uint32_t *src, size_t stride, uint64_t count,
             struct limb_origin origin);

/* out[k] = a[k sa] op b[k sb], command BFV_CMD_LIMB_ADD or _SUB; sa, sb: 0 or 1. */
int limb_combine(struct upmem *upmem, uint32_t command, uint32_t parts, const uint32_t *a, uint32_t sa,
                 const uint32_t *b, uint32_t sb, uint64_t count, uint32_t *out);

/* ---- limb_products.c: a DPU has whole operands -------------------------------------- */

/* One operand of pairs 0, 1, ...: `stride` words from one to the next. */
struct limb_operand {
    const uint32_t *words;
    size_t stride;
};

/* Words of a coefficient of a task's results. */
static inline uint32_t limb_result_words(const struct upmem *upmem, const struct limb_task *task) {
    const uint32_t limbs = limb_family_of(upmem)->form.limbs;
    return task->integer ? LIMB_ACC(limbs) : limbs;
}

/* Sets the DPUs to a task, whose offset it chooses; the last launch is under way when it returns BFV_OK. */
int limb_begin(struct upmem *upmem, struct limb_task *task, struct limb_operand a, struct limb_operand b);

/* Fetches a task's results, once its launch has ended, and adds them to out [polys][N][words]; single: one
 * after the other, one pair a group. On an error out is undefined. */
int limb_collect(struct upmem *upmem, const struct limb_task *task, bool single, uint32_t *out);

/* out[k] = a[k] (x) b[k]; out is undefined on an error.
 * BFV_CMD_LIMB_PRODUCT: polynomials; _TENSOR: ciphertexts of two parts, to three. */
int limb_multiply(struct upmem *upmem, uint32_t command, struct limb_operand a, struct limb_operand b,
                  uint64_t pairs, uint32_t *out);

/* acc += sum of the tensors of a[k] and b[k]; the last launch is left. */
int limb_accumulate(struct upmem *upmem, struct bfv_acc *acc, struct limb_operand a, struct limb_operand b,
                    uint64_t pairs, struct limb_origin origin);

/* ---- limb_scaled.c ------------------------------------------------------------------- */

/* The same for a scaled accumulator: tensors of the centred integers. */
int limb_accumulate_scaled(struct upmem *upmem, struct bfv_acc *acc, struct limb_operand a,
                           struct limb_operand b, uint64_t pairs, struct limb_origin origin);

/* x += y over `count` integers as the DPUs give them. BFV_E_BACKEND where y holds one that is too large. */
int limb_add_integers(struct upmem *upmem, uint32_t *x, const uint32_t *y, uint64_t count);

/* x mod p, x of `words` words. */
static inline uint32_t limb_residue(const uint32_t *x, uint32_t words, const struct zq_mod *mod) {
    uint32_t r = 0;
    for (uint32_t i = words; i-- > 0;) {
        r = zq_reduce64((uint64_t)r << 32 | x[i], mod);
    }
    return r;
}

/* ---- limb_truth.c: shares one by one, once a result was wrong (upmem->suspicious) ---------- */

/* What terms first .. first + count - 1 of a task give, worked out by the host: residues in coefficient form,
 * [polys][L][N], polys being 3 or the parts of a sum. */
int limb_truth(struct upmem *upmem, const struct limb_task *task, uint64_t first, uint64_t count,
               uint32_t *out);
uint32_t *limb_truth_alloc(const struct upmem *upmem);
/* Whether `length` coefficients x of a DPU's result, those from `first` on of a polynomial, are true. */
bool limb_is_true(const struct upmem *upmem, const struct limb_task *task, const uint32_t *truth,
                  uint32_t first, uint32_t length, const uint32_t *x);

#endif
