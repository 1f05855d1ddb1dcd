/* Sums, and sums and differences of arrays: no reduction crosses DPUs. */
#include <string.h>

#include "limb_family.h"

/* A run of coefficients of a ciphertext on each DPU: the same width on all but the last ones. */
struct runs {
    uint64_t words; /* of a ciphertext */
    uint32_t width; /* words of a run, a multiple of BFV_RUN coefficients */
};

static struct runs runs_of(const struct upmem *upmem, uint32_t parts) {
    const struct limb_form *form = &limb_family_of(upmem)->form;
    const uint32_t coefficients = parts * form->ring->n;
    const uint32_t units = (coefficients + BFV_RUN - 1) / BFV_RUN;
    const uint32_t each = (units + upmem->dpus - 1) / upmem->dpus;
    const struct runs runs = {parts * limb_poly_words(form), each * BFV_RUN * form->limbs};
    return runs;
}

/* Words of a ciphertext from word `from` of it on that DPU `dpu` has: its run, less at the end, 0 beyond. */
static uint32_t run_words(const struct runs *runs, uint32_t dpu) {
    const uint64_t from = (uint64_t)dpu * runs->width;
    return from >= runs->words ? 0 : (uint32_t)limb_min(runs->width, runs->words - from);
}

struct slice_job {
    const struct runs *runs;
    const uint32_t *src; /* the first ciphertext */
    uint32_t *dst;
    size_t stride; /* words from ciphertext to ciphertext on the host */
    uint64_t count;
    bool back; /* from the stage to ciphertexts */
};

/* DPU `dpu`'s runs of all ciphertexts, to [count][width] on its stage, or back. */
static void slice_share(void *argument, uint32_t dpu) {
    const struct slice_job *job = argument;
    const uint32_t width = job->runs->width, words = run_words(job->runs, dpu);
    const size_t stage = (size_t)dpu * job->count * width, from = (size_t)dpu * width;
    for (uint64_t k = 0; k < job->count && words != 0; k++) {
        if (job->back) {
            memcpy(job->dst + k * job->stride + from, job->src + stage + k * width, words * sizeof *job->src);
        } else {
            uint32_t *to = job->dst + stage + k * width;
            memcpy(to, job->src + k * job->stride + from, words * sizeof *to);
            memset(to + words, 0, (width - words) * sizeof *to);
        }
    }
}

static void slice(struct upmem *upmem, const struct runs *runs, const uint32_t *src, size_t stride,
                  uint64_t count, uint32_t *dst, bool back) {
    struct slice_job job = {
        .runs = runs, .src = src, .dst = dst, .stride = stride, .count = count, .back = back};
    upmem_parallel(upmem, upmem->dpus, slice_share, &job);
}

/* BFV_E_BACKEND, and the DPU blamed, when a sum holds what is not below q; where there is a suspicion, or
 * what is not true. */
static int look_at_runs(struct upmem *upmem, const struct runs *runs, const uint32_t *total) {
    const struct limb_family *family = limb_family_of(upmem);
    const uint32_t limbs = family->form.limbs, n = family->form.ring->n;
    uint32_t *truth = NULL;
    int status = BFV_OK;
    if (upmem->suspicious) {
        truth = limb_truth_alloc(upmem);
        status =
            truth == NULL ? BFV_E_MEMORY : limb_truth(upmem, &family->left, 0, family->left.pairs, truth);
    }
    for (uint64_t at = 0; status == BFV_OK && at < runs->words; at += limbs) {
        const uint32_t dpu = (uint32_t)(at / runs->width), k = (uint32_t)(at / limbs);
        if (limb_less(total + at, family->form.modulus.q, limbs) == 0) {
            status = upmem_blame(upmem, dpu, LIMB_TOO_LARGE);
        } else if (truth != NULL &&
                   !limb_is_true(upmem, &family->left, truth + k / n * ring_poly_words(family->form.ring),
                                 k % n, 1, total + at)) {
            status = upmem_blame(upmem, dpu, "gave a wrong result, in coefficient %u", k % n);
        }
    }
    buffer_free(truth);
    return status;
}

/* Fetches the sums of a launch that was left and adds them. */
static int finish_sum(struct upmem *upmem, void *data, int status) {
    struct bfv_acc *acc = data;
    const struct runs runs = runs_of(upmem, acc->parts);
    const uint64_t term = runs.width * sizeof(uint32_t);
    uint32_t *sums = upmem_stage(upmem, UPMEM_STAGE_BACK, term), *total = limb_alloc(upmem, acc->parts);
    if (status == BFV_OK && (sums == NULL || total == NULL)) {
        status = BFV_E_MEMORY;
    }
    if (status == BFV_OK) {
        status = upmem_pull(upmem, limb_family_of(upmem)->left.offset, sums, term);
    }
    if (status == BFV_OK) {
        slice(upmem, &runs, sums, 0, 1, total, true);
        status = look_at_runs(upmem, &runs, total);
    }
    if (status == BFV_OK) {
        status = limb_add_returned(upmem, limb_acc_of(acc)->words, total, runs.words);
    }
    buffer_free(total);
    limb_acc_of(acc)->damaged = status != BFV_OK;
    return status;
}

int limb_sum(struct upmem *upmem, struct bfv_acc *acc, const uint32_t *src, size_t stride, uint64_t count,
             struct limb_origin origin) {
    const struct runs runs = runs_of(upmem, acc->parts);
    const uint64_t term = runs.width * sizeof *src;
    const uint64_t batch = limb_batch(upmem, count, term, term);
    struct mram_region *terms = NULL, *out = NULL;
    int status = batch == 0 ? BFV_E_MEMORY : mram_alloc(&upmem->mram, term, &out);
    if (status == BFV_OK) {
        status = mram_alloc(&upmem->mram, batch * term, &terms);
    }
    uint32_t *stage[2] = {NULL, NULL};
    for (uint32_t i = 0; i < 2 && status == BFV_OK; i++) {
        stage[i] = upmem_stage(upmem, i, batch * term);
        status = stage[i] == NULL ? BFV_E_MEMORY : BFV_OK;
    }
    uint64_t now = limb_min(batch, count);
    if (status == BFV_OK) {
        slice(upmem, &runs, src, stride, now, stage[0], false);
    }
    for (uint64_t done = 0; status == BFV_OK && done < count;) {
        status = upmem_push_begin(upmem, terms->offset, stage[0], now * term);
        if (status != BFV_OK) {
            break;
        }
        /* the next batch is gathered while this one is on its way */
        const uint64_t begun = done + now, next = limb_min(batch, count - begun);
        slice(upmem, &runs, src + (size_t)begun * stride, stride, next, stage[1], false);
        for (uint32_t d = 0; d < upmem->dpus; d++) {
            struct bfv_args *args = &upmem->args[d];
            *args = limb_args(upmem, BFV_CMD_LIMB_SUM_LAZY);
            args->flags = done == 0 ? BFV_FLAG_FRESH : 0;
            args->count = (uint32_t)now;
            args->positions = run_words(&runs, d) == 0 ? 0 : runs.width / limb_family_of(upmem)->form.limbs;
            args->a = terms->offset;
            args->stride_a = (uint32_t)term;
            args->out = out->offset;
        }
        status = upmem_launch_begin(upmem); /* waits for the transfer */
        uint32_t *const free_again = stage[0];
        stage[0] = stage[1];
        stage[1] = free_again;
        done = begun;
        now = next;
    }
    if (status == BFV_OK) {
        limb_family_of(upmem)->left =
            (struct limb_task){.origin = origin, .pairs = count, .offset = out->offset};
        upmem_leave(upmem, finish_sum, acc);
    }
    mram_free(&upmem->mram, terms);
    mram_free(&upmem->mram, out);
    return status;
}

/* out[k] = a[k sa] op b[k sb], limb form, ciphertexts of `parts` parts. */
int limb_combine(struct upmem *upmem, uint32_t command, uint32_t parts, const uint32_t *a, uint32_t sa,
                 const uint32_t *b, uint32_t sb, uint64_t count, uint32_t *out) {
    const struct runs runs = runs_of(upmem, parts);
    const size_t words = (size_t)runs.words;
    const uint64_t term = runs.width * sizeof *a;
    const uint64_t batch = limb_batch(upmem, count, 2 * term, 0);
    struct mram_region *left = NULL, *right = NULL; /* the left operand makes room for the result */
    int status = batch == 0 ? BFV_E_MEMORY : mram_alloc(&upmem->mram, batch * term, &left);
    if (status == BFV_OK) {
        status = mram_alloc(&upmem->mram, batch * term, &right);
    }
    for (uint64_t done = 0; status == BFV_OK && done < count; done += batch) {
        const uint64_t now = limb_min(batch, count - done);
        const uint64_t na = sa == 0 ? 1 : now, nb = sb == 0 ? 1 : now;
        uint32_t *stage = upmem_stage(upmem, 0, now * term);
        if (stage == NULL) {
            status = BFV_E_MEMORY;
            break;
        }
        slice(upmem, &runs, a + (size_t)(done * sa) * words, words, na, stage, false);
        status = upmem_push(upmem, left->offset, stage, na * term);
        if (status == BFV_OK) {
            slice(upmem, &runs, b + (size_t)(done * sb) * words, words, nb, stage, false);
            status = upmem_push(upmem, right->offset, stage, nb * term);
        }
        for (uint32_t d = 0; d < upmem->dpus; d++) {
            struct bfv_args *args = &upmem->args[d];
            *args = limb_args(upmem, command);
            args->count = (uint32_t)now;
            args->positions = run_words(&runs, d) == 0 ? 0 : runs.width / limb_family_of(upmem)->form.limbs;
            args->a = left->offset;
            args->b = right->offset;
            args->out = sa == 0 ? right->offset : left->offset;
            args->stride_a = sa * (uint32_t)term;
            args->stride_b = sb * (uint32_t)term;
            args->stride_part = (uint32_t)term;
        }
        if (status == BFV_OK) {
            status = upmem_launch(upmem);
        }
        if (status == BFV_OK) {
            status = upmem_pull(upmem, upmem->args[0].out, stage, now * term);
        }
        if (status == BFV_OK) {
            slice(upmem, &runs, stage, words, now, out + (size_t)done * words, true);
        }
    }
    mram_free(&upmem->mram, left);
    mram_free(&upmem->mram, right);
    return status;
}
