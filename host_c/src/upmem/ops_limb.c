/* The limb family: the paper's kernels, coefficients of 1, 2, 4 or 8 words, no transform on a DPU.
 *
 * Arrays: converted to limb form on the host when they are first used, and kept so.
 * Accumulators: one ciphertext in limb form on the host, canonical; what the DPUs return is added.
 */
#include <stdlib.h>
#include <string.h>

#include "limb_family.h"

/* Host memory that a batch's transfer may take, unless a single term needs more. */
#define STAGE_BYTES ((uint64_t)1 << 28)

/* ---- shared with limb_slices.c and limb_products.c ------------------------------- */

struct bfv_args limb_args(const struct upmem *upmem, uint32_t command) {
    const struct limb_family *family = limb_family_of(upmem);
    const struct bfv_args args = {.command = (uint16_t)command,
                                  .flags = BFV_FLAG_FRESH,
                                  .tables = family->tables->offset,
                                  .log_n = (uint8_t)family->form.ring->log_n,
                                  .primes = (uint8_t)family->form.limbs};
    return args;
}

uint32_t *limb_alloc(const struct upmem *upmem, uint64_t polys) {
    size_t bytes = 0;
    return size_mul(polys, limb_poly_words(&limb_family_of(upmem)->form) * sizeof(uint32_t), &bytes)
               ? buffer_alloc(bytes)
               : NULL;
}

int limb_add_returned(struct upmem *upmem, uint32_t *x, const uint32_t *y, uint64_t words) {
    const struct limb_form *form = &limb_family_of(upmem)->form;
    for (uint64_t k = 0; k < words; k += form->limbs) {
        if (limb_less(y + k, form->modulus.q, form->limbs) == 0) {
            return upmem_fail(upmem, BFV_E_BACKEND, "a DPU " LIMB_TOO_LARGE);
        }
    }
    for (uint64_t k = 0; k < words; k += form->limbs) {
        limb_add_mod(x + k, x + k, y + k, form->modulus.q, form->limbs);
    }
    return BFV_OK;
}

uint64_t limb_batch(const struct upmem *upmem, uint64_t count, uint64_t term, uint64_t fixed) {
    const uint64_t room = mram_widest(&upmem->mram);
    if (room < fixed + term + 4 * BFV_ALIGN) {
        return 0;
    }
    const uint64_t held = (room - fixed - 4 * BFV_ALIGN) / term;
    const uint64_t staged = STAGE_BYTES / (term * upmem->dpus);
    return limb_min(count, limb_min(held, staged == 0 ? 1 : staged));
}

/* ---- conversion ----------------------------------------------------------------- */

struct convert_job {
    const struct limb_form *form;
    const uint32_t *src;
    uint32_t *dst;
    uint64_t polys;
    uint32_t workers;
    uint32_t *space; /* [workers][L][N], from NTT form only */
    int *status;     /* [workers], to NTT form only */
};

static void convert_share(void *argument, uint32_t worker) {
    const struct convert_job *job = argument;
    const size_t residues = ring_poly_words(job->form->ring), limbs = limb_poly_words(job->form);
    for (uint64_t k = worker; k < job->polys; k += job->workers) {
        if (job->space != NULL) {
            limb_from_ntt(job->form, job->src + (size_t)k * residues, job->space + worker * residues,
                          job->dst + (size_t)k * limbs);
        } else if (job->status[worker] == BFV_OK) {
            job->status[worker] =
                limb_to_ntt(job->form, job->src + (size_t)k * limbs, job->dst + (size_t)k * residues);
        }
    }
}

enum { WORKERS = 64 };

/* dst: limb form of polys residue polynomials in NTT form (in coefficient form the result is that of
 * another polynomial, by a bijection that commutes with addition). */
static int to_limbs(struct upmem *upmem, const uint32_t *src, uint64_t polys, uint32_t *dst) {
    const uint64_t start = upmem_clock();
    const struct limb_form *form = &limb_family_of(upmem)->form;
    struct convert_job job = {.form = form, .src = src, .dst = dst, .polys = polys};
    job.workers = (uint32_t)limb_min(polys, WORKERS);
    job.space = buffer_alloc(job.workers * ring_poly_words(form->ring) * sizeof *src);
    if (job.space == NULL) {
        return BFV_E_MEMORY;
    }
    upmem_parallel(upmem, job.workers, convert_share, &job);
    buffer_free(job.space);
    upmem->backend->stats.convert += upmem_clock() - start;
    return BFV_OK;
}

/* The way back. On an error dst is undefined. */
static int from_limbs(struct upmem *upmem, const uint32_t *src, uint64_t polys, uint32_t *dst) {
    const uint64_t start = upmem_clock();
    int status[WORKERS] = {BFV_OK};
    struct convert_job job = {
        .form = &limb_family_of(upmem)->form, .src = src, .dst = dst, .polys = polys, .status = status};
    job.workers = (uint32_t)limb_min(polys, WORKERS);
    upmem_parallel(upmem, job.workers, convert_share, &job);
    upmem->backend->stats.convert += upmem_clock() - start;
    for (uint32_t i = 0; i < job.workers; i++) {
        if (status[i] != BFV_OK) {
            return upmem_fail(upmem, BFV_E_BACKEND, "a DPU " LIMB_TOO_LARGE);
        }
    }
    return BFV_OK;
}

/* An array's limb form, [count][parts][N][limbs], converted once; NULL with *status set on failure. */
static const uint32_t *array_limbs(struct upmem *upmem, const struct bfv_array *array, int *status) {
    struct upmem_array *data = array->data;
    if (data->cache == NULL) {
        const uint64_t polys = array->count * array->parts;
        uint32_t *limbs = limb_alloc(upmem, polys);
        *status = limbs == NULL ? BFV_E_MEMORY : to_limbs(upmem, data->words, polys, limbs);
        if (*status != BFV_OK) {
            buffer_free(limbs);
            return NULL;
        }
        data->cache = limbs;
    }
    return data->cache;
}

static void limb_array_drop(struct upmem *upmem, struct upmem_array *array) {
    (void)upmem;
    buffer_free(array->cache);
    array->cache = NULL;
}

/* ---- open ----------------------------------------------------------------------- */

static const char *limb_program(const bfv_ring *ring) {
    switch (limb_count(ring)) {
    case 1:
        return "bfv_limb1";
    case 2:
        return "bfv_limb2";
    case 4:
        return "bfv_limb4";
    case 8:
        return "bfv_limb8";
    default:
        return NULL;
    }
}

static int limb_open(struct upmem *upmem) {
    struct limb_family *family = calloc(1, sizeof *family);
    if (family == NULL) {
        return BFV_E_MEMORY;
    }
    int status = limb_form_open(upmem->backend->ring, &family->form);
    for (uint32_t i = 0; i < LIMB_MAX; i++) {
        const uint32_t above = i + 1 < LIMB_MAX ? family->form.modulus.q[i + 1] : 0;
        family->half[i] = family->form.modulus.q[i] >> 1 | above << 31;
    }
    if (status == BFV_OK) {
        status = mram_alloc(&upmem->mram, sizeof family->form.modulus, &family->tables);
    }
    if (status == BFV_OK) {
        status = upmem_broadcast(upmem, family->tables->offset, &family->form.modulus,
                                 sizeof family->form.modulus);
    }
    if (status != BFV_OK) {
        mram_free(&upmem->mram, family->tables);
        free(family);
        return status;
    }
    upmem->family = family;
    return BFV_OK;
}

static void limb_close(struct upmem *upmem) {
    struct limb_family *family = limb_family_of(upmem);
    mram_free(&upmem->mram, family->tables);
    buffer_free(family->shifts);
    free(family);
    upmem->family = NULL;
}

/* ---- accumulators --------------------------------------------------------------- */

/* BFV_E_BACKEND when an error has left the accumulator without a value. */
static int acc_check(struct upmem *upmem, const struct limb_acc *acc) {
    return !acc->damaged ? BFV_OK : upmem_fail(upmem, BFV_E_BACKEND, UPMEM_DAMAGED);
}

/* The same once nothing is under way that could change its value. */
static int acc_settled(struct upmem *upmem, const struct limb_acc *acc) {
    const int status = upmem_launch_end(upmem);
    return status == BFV_OK ? acc_check(upmem, acc) : status;
}

/* Words of an accumulator's value. */
static size_t acc_words(const struct upmem *upmem, const struct bfv_acc *acc) {
    return acc->kind == BFV_ACC_SCALED ? backend_acc_words(upmem->backend, acc)
                                       : acc->parts * limb_poly_words(&limb_family_of(upmem)->form);
}

static const bfv_ring *limb_check_ring(const struct upmem *upmem, const struct bfv_acc *acc) {
    (void)acc; /* an integer that is right mod q is right: an error is no multiple of q */
    return upmem->backend->ring;
}

static const uint32_t *limb_terms(const struct upmem *upmem, const struct bfv_acc *acc,
                                  const struct bfv_array *a) {
    (void)upmem;
    (void)acc;
    return upmem_words(a);
}

static int limb_acc_new(struct upmem *upmem, struct bfv_acc *acc) {
    const size_t bytes = acc_words(upmem, acc) * sizeof(uint32_t);
    struct limb_acc *data = calloc(1, sizeof *data);
    uint32_t *words = buffer_alloc(bytes);
    if (data == NULL || words == NULL) {
        free(data);
        buffer_free(words);
        return BFV_E_MEMORY;
    }
    memset(words, 0, bytes);
    data->words = words;
    acc->data = data;
    return BFV_OK;
}

static void limb_acc_drop(struct upmem *upmem, struct bfv_acc *acc) {
    upmem_forget(upmem, acc);
    buffer_free(limb_acc_of(acc)->words);
    free(acc->data);
    acc->data = NULL;
}

static int limb_acc_add_terms(struct upmem *upmem, struct bfv_acc *acc, const struct bfv_array *a,
                              uint64_t first, uint64_t stride, uint64_t count) {
    int status = acc_check(upmem, limb_acc_of(acc));
    const size_t words = a->parts * limb_poly_words(&limb_family_of(upmem)->form);
    const uint32_t *limbs = status == BFV_OK ? array_limbs(upmem, a, &status) : NULL;
    if (limbs == NULL) {
        return status;
    }
    const size_t ciphertext = a->parts * ring_poly_words(upmem->backend->ring);
    const struct limb_origin origin = {upmem_words(a) + (size_t)first * ciphertext, NULL,
                                       (size_t)stride * ciphertext, a->parts};
    return limb_sum(upmem, acc, limbs + (size_t)first * words, (size_t)stride * words, count, origin);
}

static int limb_acc_mul(struct upmem *upmem, struct bfv_acc *acc, const struct bfv_array *a, uint64_t first_a,
                        const struct bfv_array *b, uint64_t first_b, uint64_t stride, uint64_t count) {
    int status = acc_check(upmem, limb_acc_of(acc));
    const size_t words = 2 * limb_poly_words(&limb_family_of(upmem)->form);
    const uint32_t *left = status == BFV_OK ? array_limbs(upmem, a, &status) : NULL;
    const uint32_t *right = left == NULL ? NULL : array_limbs(upmem, b, &status);
    if (right == NULL) {
        return status;
    }
    const struct limb_operand x = {left + (size_t)first_a * words, (size_t)stride * words};
    const struct limb_operand y = {right + (size_t)first_b * words, (size_t)stride * words};
    const size_t ciphertext = 2 * ring_poly_words(upmem->backend->ring);
    const struct limb_origin origin = {upmem_words(a) + (size_t)first_a * ciphertext,
                                       upmem_words(b) + (size_t)first_b * ciphertext,
                                       (size_t)stride * ciphertext, 2};
    return acc->kind == BFV_ACC_SCALED ? limb_accumulate_scaled(upmem, acc, x, y, count, origin)
                                       : limb_accumulate(upmem, acc, x, y, count, origin);
}

static int limb_acc_merge(struct upmem *upmem, struct bfv_acc *acc, const struct bfv_acc *other) {
    uint32_t *const words = limb_acc_of(acc)->words;
    int status = acc_settled(upmem, limb_acc_of(other));
    if (status == BFV_OK) {
        status = acc_check(upmem, limb_acc_of(acc));
    }
    if (status != BFV_OK) {
        return status;
    }
    return acc->kind == BFV_ACC_SCALED
               ? bfv_poly_add(upmem->backend->lifter->full, words, limb_acc_of(other)->words, 3, words)
               : limb_add_returned(upmem, words, limb_acc_of(other)->words, acc_words(upmem, acc));
}

static int limb_acc_save(struct upmem *upmem, const struct bfv_acc *acc, uint32_t *dst) {
    const uint32_t *const words = limb_acc_of(acc)->words;
    const int status = acc_settled(upmem, limb_acc_of(acc));
    if (status == BFV_OK && acc->kind != BFV_ACC_SCALED) {
        return from_limbs(upmem, words, acc->parts, dst);
    }
    if (status == BFV_OK) {
        memcpy(dst, words, acc_words(upmem, acc) * sizeof *dst);
    }
    return status;
}

static int limb_acc_load(struct upmem *upmem, struct bfv_acc *acc, const uint32_t *src) {
    const size_t bytes = acc_words(upmem, acc) * sizeof *src;
    uint32_t *words = buffer_alloc(bytes);
    int status = words == NULL ? BFV_E_MEMORY : BFV_OK;
    if (status == BFV_OK && acc->kind == BFV_ACC_SCALED) {
        memcpy(words, src, bytes);
    } else if (status == BFV_OK) {
        status = to_limbs(upmem, src, acc->parts, words);
    }
    if (status != BFV_OK) {
        buffer_free(words);
        return status;
    }
    upmem_forget(upmem, acc);
    buffer_free(limb_acc_of(acc)->words);
    *limb_acc_of(acc) = (struct limb_acc){.words = words};
    return BFV_OK;
}

/* ---- arithmetic on arrays -------------------------------------------------------- */

/* As family_ops: out[k] = a[k sa] op b[k sb]. */
static int limb_pointwise(struct upmem *upmem, enum family_op op, uint32_t parts, const uint32_t *a,
                          uint32_t sa, const uint32_t *b, uint32_t sb, uint64_t count, uint32_t *out) {
    const size_t poly = limb_poly_words(&limb_family_of(upmem)->form);
    const uint64_t na = (sa == 0 ? 1 : count) * parts, nb = (sb == 0 ? 1 : count) * parts;
    const uint32_t parts_out = op == FAMILY_TENSOR ? 3 : parts;
    uint32_t *x = limb_alloc(upmem, na), *y = limb_alloc(upmem, nb);
    uint32_t *z = limb_alloc(upmem, count * parts_out);
    int status = x == NULL || y == NULL || z == NULL ? BFV_E_MEMORY : to_limbs(upmem, a, na, x);
    if (status == BFV_OK) {
        status = to_limbs(upmem, b, nb, y);
    }
    if (status == BFV_OK && (op == FAMILY_ADD || op == FAMILY_SUB)) {
        status = limb_combine(upmem, op == FAMILY_ADD ? BFV_CMD_LIMB_ADD : BFV_CMD_LIMB_SUB, parts, x, sa, y,
                              sb, count, z);
    } else if (status == BFV_OK) {
        const uint32_t polys = op == FAMILY_TENSOR ? 2 : 1;
        const uint64_t pairs = op == FAMILY_TENSOR ? count : count * parts;
        if (op == FAMILY_TENSOR || (sa == 1 && sb == 1)) {
            const struct limb_operand left = {x, sa * polys * poly}, right = {y, sb * polys * poly};
            status = limb_multiply(upmem, op == FAMILY_TENSOR ? BFV_CMD_LIMB_TENSOR : BFV_CMD_LIMB_PRODUCT,
                                   left, right, pairs, z);
        }
        /* one operand for all: part by part of each ciphertext */
        for (uint64_t k = 0; status == BFV_OK && op == FAMILY_SCALE && (sa == 0 || sb == 0) && k < count;
             k++) {
            const struct limb_operand left = {x + k * sa * parts * poly, poly};
            const struct limb_operand right = {y + k * sb * parts * poly, poly};
            status = limb_multiply(upmem, BFV_CMD_LIMB_PRODUCT, left, right, parts, z + k * parts * poly);
        }
    }
    if (status == BFV_OK) {
        status = from_limbs(upmem, z, count * parts_out, out);
    }
    buffer_free(x);
    buffer_free(y);
    buffer_free(z);
    return status;
}

const struct family_ops family_limb = {
    .name = "limb",
    .program = limb_program,
    .open = limb_open,
    .close = limb_close,
    .array_drop = limb_array_drop,
    .check_ring = limb_check_ring,
    .terms = limb_terms,
    .owner = NULL,
    .acc_new = limb_acc_new,
    .acc_drop = limb_acc_drop,
    .acc_add = limb_acc_add_terms,
    .acc_mul = limb_acc_mul,
    .acc_merge = limb_acc_merge,
    .acc_save = limb_acc_save,
    .acc_load = limb_acc_load,
    .pointwise = limb_pointwise,
    .convert = NULL,
};
