/* Scaled products: the tensor T of the centred integers x, -h <= x <= h, h = (q - 1)/2, over the integers.
 *
 * The kernels multiply what is not negative, so operands are shifted on their way to the DPUs: u = x + h J,
 * J the polynomial whose coefficients are all 1. As residues that is u = x + h mod q. With v = y + h J,
 *     x y = u v - h J (u + v) + h^2 J^2.
 * J w, coefficient c: w_0 + .. + w_c - w_(c+1) - .. - w_(N-1), as X^N = -1; so J^2 has 2 c + 2 - N. Over
 * pairs the host needs sums of u + v alone. All this is done mod each prime of the state, L + K of them: T is
 * below half their product, by the choice of the wide primes.
 */
#include <string.h>

#include "limb_family.h"

int limb_add_integers(struct upmem *upmem, uint32_t *x, const uint32_t *y, uint64_t count) {
    const uint32_t words = LIMB_ACC(limb_family_of(upmem)->form.limbs);
    for (uint64_t k = 0; k < count; k++, x += words, y += words) {
        /* two words of sign: sums over all DPUs stay in range */
        if (y[words - 1] != UINT32_C(0) - (y[words - 2] >> 31)) {
            return upmem_fail(upmem, BFV_E_BACKEND, "a DPU returned an integer that is too large");
        }
        uint32_t carry = 0;
        for (uint32_t i = 0; i < words; i++) {
            const uint64_t sum = (uint64_t)x[i] + y[i] + carry;
            x[i] = (uint32_t)sum;
            carry = (uint32_t)(sum >> 32);
        }
    }
    return BFV_OK;
}

/* ---- sums of the shifted operands ----------------------------------------------------- */

struct shift_job {
    const struct limb_family *family;
    struct limb_operand a, b;
    uint64_t pairs;
};

enum { SHIFT_RUNS = 32 };

/* A run of the 2 N coefficients of ciphertexts: shifts = sum over pairs of u + v, lazily. */
static void shift_share(void *argument, uint32_t run) {
    const struct shift_job *job = argument;
    const struct limb_form *form = &job->family->form;
    const uint32_t limbs = form->limbs, lazy = LIMB_LAZY(limbs), all = 2 * form->ring->n;
    const uint32_t first = all / SHIFT_RUNS * run + all % SHIFT_RUNS * run / SHIFT_RUNS;
    const uint32_t next = run + 1, last = all / SHIFT_RUNS * next + all % SHIFT_RUNS * next / SHIFT_RUNS;
    memset(job->family->shifts + (size_t)first * lazy, 0, (size_t)(last - first) * lazy * sizeof(uint32_t));
    for (uint64_t k = 0; k < job->pairs; k++) {
        const uint32_t *from[2] = {job->a.words + k * job->a.stride, job->b.words + k * job->b.stride};
        for (uint32_t c = first; c < last; c++) {
            for (uint32_t side = 0; side < 2; side++) {
                LIMB_LOCAL(u, LIMB_MAX);
                limb_add_mod(u, from[side] + (size_t)c * limbs, job->family->half, form->modulus.q, limbs);
                limb_add_lazy(job->family->shifts + (size_t)c * lazy, u, limbs);
            }
        }
    }
}

static int sum_shifts(struct upmem *upmem, struct limb_operand a, struct limb_operand b, uint64_t pairs) {
    struct limb_family *family = limb_family_of(upmem);
    const uint64_t start = upmem_clock();
    if (family->shifts == NULL) {
        const struct limb_form *form = &family->form;
        family->shifts = buffer_alloc((size_t)2 * form->ring->n * LIMB_LAZY(form->limbs) * sizeof(uint32_t));
        if (family->shifts == NULL) {
            return BFV_E_MEMORY;
        }
    }
    struct shift_job job = {.family = family, .a = a, .b = b, .pairs = pairs};
    upmem_parallel(upmem, SHIFT_RUNS, shift_share, &job);
    upmem->backend->stats.convert += upmem_clock() - start;
    return BFV_OK;
}

/* ---- from the DPUs' integers to the state ---------------------------------------------- */

struct residue_job {
    const struct limb_family *family;
    const bfv_ring *full;
    const uint32_t *integers; /* [3][N][LIMB_ACC(limbs)], sums of u v */
    uint64_t pairs;
    uint32_t *out; /* [3][L + K][N], coefficient form */
};

/* Plane `index` of all three parts. */
static void residue_plane(void *argument, uint32_t index) {
    const struct residue_job *job = argument;
    const struct zq_mod *mod = &job->full->prime[index].mod;
    const uint32_t n = job->full->n, limbs = job->family->form.limbs, p = mod->p;
    const uint32_t words = LIMB_ACC(limbs), lazy = LIMB_LAZY(limbs);
    const size_t poly = ring_poly_words(job->full), at = (size_t)index * n;
    const uint32_t h = limb_residue(job->family->half, limbs, mod);
    const uint32_t pairs = zq_reduce64(job->pairs, mod);
    const uint32_t square = zq_mul(zq_mul(h, h, mod), pairs, mod);
    uint32_t top = zq_reduce64(1, mod); /* 2^(32 words) */
    for (uint32_t i = 0; i < words; i++) {
        top = zq_reduce64((uint64_t)top << 32, mod);
    }
    /* w = u + v in the place of each part; the middle one has both */
    uint32_t *const part[3] = {job->out + at, job->out + poly + at, job->out + 2 * poly + at};
    uint32_t total[3] = {0, 0, 0};
    for (uint32_t c = 0; c < n; c++) {
        const uint32_t *const shift = job->family->shifts + (size_t)c * lazy;
        part[0][c] = limb_residue(shift, limbs + 1, mod);
        part[2][c] = limb_residue(shift + (size_t)n * lazy, limbs + 1, mod);
        part[1][c] = zq_add(part[0][c], part[2][c], p);
        for (uint32_t k = 0; k < 3; k++) {
            total[k] = zq_add(total[k], part[k][c], p);
        }
    }
    for (uint32_t k = 0; k < 3; k++) {
        const uint32_t *x = job->integers + (size_t)k * n * words;
        const uint32_t step = k == 1 ? zq_add(square, square, p) : square; /* of h^2 J^2, to be doubled */
        uint32_t below = 0;                                                /* w_0 + .. + w_c */
        for (uint32_t c = 0; c < n; c++, x += words) {
            below = zq_add(below, part[k][c], p);
            const uint32_t jw = zq_sub(zq_add(below, below, p), total[k], p);
            uint32_t r = limb_residue(x, words, mod);
            r = x[words - 1] >> 31 != 0 ? zq_sub(r, top, p) : r;
            r = zq_sub(r, zq_mul(h, jw, mod), p);
            const uint32_t j2 = 2 * c + 2 < n ? n - 2 * c - 2 : 2 * c + 2 - n; /* |2 c + 2 - N| */
            const uint32_t shift = zq_mul(step, zq_reduce64(j2, mod), mod);
            part[k][c] = 2 * c + 2 < n ? zq_sub(r, shift, p) : zq_add(r, shift, p);
        }
    }
}

static int add_integers(struct upmem *upmem, uint32_t *state, const uint32_t *integers, uint64_t pairs) {
    const bfv_ring *full = upmem->backend->lifter->full;
    const uint64_t start = upmem_clock();
    uint32_t *residues = buffer_alloc(3 * ring_poly_words(full) * sizeof *residues);
    if (residues == NULL) {
        return BFV_E_MEMORY;
    }
    struct residue_job job = {
        .family = limb_family_of(upmem), .full = full, .integers = integers, .pairs = pairs, .out = residues};
    upmem_parallel(upmem, full->count, residue_plane, &job);
    int status = bfv_ntt_forward(full, residues, 3);
    if (status == BFV_OK) {
        status = bfv_poly_add(full, state, residues, 3, state);
    }
    buffer_free(residues);
    upmem->backend->stats.convert += upmem_clock() - start;
    return status;
}

/* Fetches the products of a launch that was left and adds them. */
static int finish(struct upmem *upmem, void *data, int status) {
    struct limb_acc *acc = limb_acc_of(data);
    const struct limb_family *family = limb_family_of(upmem);
    const size_t bytes = (size_t)3 * family->form.ring->n * LIMB_ACC(family->form.limbs) * sizeof(uint32_t);
    uint32_t *integers = buffer_alloc(bytes);
    if (status == BFV_OK) {
        status = integers == NULL ? BFV_E_MEMORY : BFV_OK;
    }
    if (status == BFV_OK) {
        memset(integers, 0, bytes);
        status = limb_collect(upmem, &family->left, false, integers);
    }
    if (status == BFV_OK) {
        status = add_integers(upmem, acc->words, integers, family->left.pairs);
    }
    buffer_free(integers);
    acc->damaged = status != BFV_OK;
    return status;
}

int limb_accumulate_scaled(struct upmem *upmem, struct bfv_acc *acc, struct limb_operand a,
                           struct limb_operand b, uint64_t pairs, struct limb_origin origin) {
    struct limb_family *family = limb_family_of(upmem);
    int status = BFV_OK;
    /* at most so many pairs at a time, as their sum is not reduced */
    for (uint64_t done = 0; status == BFV_OK && done < pairs; done += BFV_LIMB_PAIRS) {
        const struct limb_operand x = {a.words + done * a.stride, a.stride};
        const struct limb_operand y = {b.words + done * b.stride, b.stride};
        const size_t skip = (size_t)done * origin.stride;
        struct limb_task task = {.origin = {origin.a + skip, origin.b + skip, origin.stride, 2},
                                 .command = BFV_CMD_LIMB_TENSOR,
                                 .integer = true,
                                 .pairs = limb_min(pairs - done, BFV_LIMB_PAIRS)};
        status = limb_begin(upmem, &task, x, y); /* ends the launch before, which family->shifts is of */
        if (status == BFV_OK) {
            status = sum_shifts(upmem, x, y, task.pairs);
        }
        if (status == BFV_OK) {
            family->left = task;
            upmem_leave(upmem, finish, acc);
        } else if (done != 0) {
            limb_acc_of(acc)->damaged = true;
        }
    }
    return status;
}
