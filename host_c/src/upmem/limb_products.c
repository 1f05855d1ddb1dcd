/* Products of whole polynomials. The DPUs form groups that share the pairs among them; in a group each
 * computes a range of output coefficients of the same pairs. With more pairs than DPUs a group is one
 * DPU. What the groups return is added here. */
#include <string.h>

#include "limb_family.h"

/* How pairs and output coefficients lie on the DPUs: `groups` groups of `slices` DPUs each, DPU d in
 * group d / slices. */
struct grid {
    uint32_t groups, slices;
    uint32_t range; /* output coefficients of a DPU; the last slice may have fewer */
    uint64_t each;  /* pairs of a group; the last groups may have fewer */
};

static struct grid grid_of(const struct upmem *upmem, uint64_t pairs) {
    const uint32_t n = limb_family_of(upmem)->form.ring->n;
    const uint32_t unit = n < BFV_RUN ? n : (uint32_t)BFV_RUN, units = n / unit;
    struct grid grid = {.slices = 1};
    if (pairs < upmem->dpus) {
        const uint32_t share = upmem->dpus / (uint32_t)pairs;
        grid.slices = share < units ? share : units;
    }
    const uint32_t per = (units + grid.slices - 1) / grid.slices;
    grid.range = per * unit;
    grid.slices = (units + per - 1) / per;
    grid.groups = (uint32_t)limb_min(pairs, upmem->dpus / grid.slices);
    grid.each = (pairs + grid.groups - 1) / grid.groups;
    return grid;
}

/* Pairs [first, first + count) of group `group` from pair `done` of it on, at most `batch`. */
static uint64_t grid_pairs(const struct grid *grid, uint64_t pairs, uint32_t group, uint64_t done,
                           uint64_t batch, uint64_t *first) {
    const uint64_t from = group * grid->each + done;
    const uint64_t end = limb_min(pairs, (group + 1) * grid->each);
    *first = from;
    return from >= end ? 0 : limb_min(batch, end - from);
}

struct product_job {
    const struct grid *grid;
    struct limb_operand operand;
    uint64_t pairs, done, batch;
    size_t words; /* of an operand */
    uint32_t *stage;
    const struct limb_family *family;
    bool shifted; /* by `half` */
};

/* An operand on its way to a DPU. */
static void copy_operand(const struct product_job *job, const uint32_t *from, uint32_t *to) {
    const struct limb_form *form = &job->family->form;
    if (!job->shifted) {
        memcpy(to, from, job->words * sizeof *to);
        return;
    }
    for (size_t i = 0; i < job->words; i += form->limbs) {
        limb_add_mod(to + i, from + i, job->family->half, form->modulus.q, form->limbs);
    }
}

/* The operands of one DPU, [batch][words]; what a group lacks is left as it is. */
static void operand_share(void *argument, uint32_t dpu) {
    const struct product_job *job = argument;
    const uint32_t group = dpu / job->grid->slices;
    uint64_t first = 0;
    if (group >= job->grid->groups) {
        return;
    }
    const uint64_t count = grid_pairs(job->grid, job->pairs, group, job->done, job->batch, &first);
    uint32_t *to = job->stage + (size_t)dpu * job->batch * job->words;
    for (uint64_t k = 0; k < count; k++) {
        copy_operand(job, job->operand.words + (first + k) * job->operand.stride, to + k * job->words);
    }
}

/* Sends a round's operands to `offset`: broadcast where all DPUs need the same. */
static int send_operands(struct upmem *upmem, struct product_job *job, uint32_t offset) {
    const uint64_t bytes = job->batch * job->words * sizeof(uint32_t);
    const bool shared = job->grid->groups == 1;
    job->stage = upmem_stage(upmem, 0, bytes);
    if (job->stage == NULL) {
        return BFV_E_MEMORY;
    }
    upmem_parallel(upmem, shared ? 1 : upmem->dpus, operand_share, job);
    return shared ? upmem_broadcast(upmem, offset, job->stage, bytes)
                  : upmem_push(upmem, offset, job->stage, bytes);
}

/* The polynomials that a command multiplies and gives. */
static uint32_t polys_in(uint32_t command) {
    return command == BFV_CMD_LIMB_TENSOR ? 2 : 1;
}

static uint32_t polys_out(uint32_t command) {
    return command == BFV_CMD_LIMB_TENSOR ? 3 : 1;
}

/* Bytes from one part of a DPU's results to the next. */
static uint64_t part_bytes(const struct upmem *upmem, const struct limb_task *task, const struct grid *grid) {
    return (uint64_t)grid->range * limb_result_words(upmem, task) * sizeof(uint32_t);
}

/* The arguments of all DPUs for pairs `done` and following of each group. bytes: of an operand. */
static void set_args(struct upmem *upmem, const struct limb_task *task, const struct grid *grid,
                     uint64_t done, uint64_t batch, uint32_t bytes) {
    const struct limb_form *form = &limb_family_of(upmem)->form;
    for (uint32_t d = 0; d < upmem->dpus; d++) {
        struct bfv_args *args = &upmem->args[d];
        const uint32_t group = d / grid->slices, first = d % grid->slices * grid->range;
        const uint32_t rest = form->ring->n - first;
        uint64_t at = 0;
        *args = limb_args(upmem, task->command);
        if (group < grid->groups) {
            args->count = (uint32_t)grid_pairs(grid, task->pairs, group, done, batch, &at);
            args->first = first;
            args->positions = rest < grid->range ? rest : grid->range;
        }
        args->flags = (uint8_t)((done == 0 ? BFV_FLAG_FRESH : 0) | (task->integer ? BFV_FLAG_INTEGER : 0));
        args->out = task->offset;
        args->stride_a = bytes;
        args->stride_b = bytes;
        args->stride_part = (uint32_t)part_bytes(upmem, task, grid);
    }
}

int limb_begin(struct upmem *upmem, struct limb_task *task, struct limb_operand a, struct limb_operand b) {
    const struct limb_form *form = &limb_family_of(upmem)->form;
    const struct grid grid = grid_of(upmem, task->pairs);
    const size_t words = polys_in(task->command) * limb_poly_words(form);
    const bool square = a.words == b.words && a.stride == b.stride;
    const uint64_t result = polys_out(task->command) * part_bytes(upmem, task, &grid);
    const uint64_t bytes = words * sizeof(uint32_t); /* of an operand */
    const uint64_t held = limb_batch(upmem, grid.each, square ? bytes : 2 * bytes, result);
    const uint64_t batch = limb_min(held, BFV_LIMB_PAIRS);
    struct mram_region *left = NULL, *right = NULL, *sums = NULL;

    int status = batch == 0 ? BFV_E_MEMORY : mram_alloc(&upmem->mram, result, &sums);
    if (status == BFV_OK) {
        task->offset = sums->offset;
        status = mram_alloc(&upmem->mram, batch * bytes, &left);
    }
    if (status == BFV_OK && !square) {
        status = mram_alloc(&upmem->mram, batch * bytes, &right);
    }
    for (uint64_t done = 0; status == BFV_OK && done < grid.each; done += batch) {
        struct product_job job = {.grid = &grid,
                                  .operand = a,
                                  .pairs = task->pairs,
                                  .done = done,
                                  .batch = batch,
                                  .words = words,
                                  .family = limb_family_of(upmem),
                                  .shifted = task->integer};
        status = send_operands(upmem, &job, left->offset);
        if (status == BFV_OK && !square) {
            job.operand = b;
            status = send_operands(upmem, &job, right->offset);
        }
        if (status == BFV_OK) {
            set_args(upmem, task, &grid, done, batch, (uint32_t)bytes);
            for (uint32_t d = 0; d < upmem->dpus; d++) {
                upmem->args[d].a = left->offset;
                upmem->args[d].b = square ? left->offset : right->offset;
            }
            status = upmem_launch_begin(upmem);
        }
    }
    mram_free(&upmem->mram, left);
    mram_free(&upmem->mram, right);
    mram_free(&upmem->mram, sums);
    return status;
}

/* Adds what group `group` returned, at stage, to out [polys][N][words]. */
static int merge_group(struct upmem *upmem, const struct limb_task *task, const struct grid *grid,
                       uint32_t group, const uint32_t *stage, uint32_t *out) {
    const uint32_t n = limb_family_of(upmem)->form.ring->n, polys = polys_out(task->command);
    const size_t words = limb_result_words(upmem, task), range = grid->range * words;
    int status = BFV_OK;
    uint32_t *truth = NULL;
    if (upmem->suspicious && task->origin.a != NULL) {
        uint64_t first = 0;
        const uint64_t count = grid_pairs(grid, task->pairs, group, 0, UINT64_MAX, &first);
        truth = limb_truth_alloc(upmem);
        status = truth == NULL ? BFV_E_MEMORY : limb_truth(upmem, task, first, count, truth);
    }
    for (uint32_t s = 0; s < grid->slices; s++) {
        const uint32_t dpu = group * grid->slices + s;
        const uint32_t *from = stage + dpu * polys * range;
        const uint32_t first = s * grid->range, length = n - first < grid->range ? n - first : grid->range;
        for (uint32_t p = 0; p < polys && status == BFV_OK; p++) {
            uint32_t *to = out + ((size_t)p * n + first) * words;
            status = task->integer ? limb_add_integers(upmem, to, from + p * range, length)
                                   : limb_add_returned(upmem, to, from + p * range, length * words);
            if (status == BFV_E_BACKEND) {
                status =
                    upmem_blame(upmem, dpu, "%s",
                                task->integer ? "returned an integer that is too large" : LIMB_TOO_LARGE);
            } else if (status == BFV_OK && truth != NULL &&
                       !limb_is_true(upmem, task, truth + p * ring_poly_words(upmem->backend->ring), first,
                                     length, from + p * range)) {
                status = upmem_blame(upmem, dpu, "gave a wrong result, in coefficients %u to %u", first,
                                     first + length - 1);
            }
        }
    }
    buffer_free(truth);
    return status;
}

int limb_collect(struct upmem *upmem, const struct limb_task *task, bool single, uint32_t *out) {
    const struct grid grid = grid_of(upmem, task->pairs);
    const uint32_t polys = polys_out(task->command), n = limb_family_of(upmem)->form.ring->n;
    const uint64_t result = polys * part_bytes(upmem, task, &grid);
    const size_t step = single ? (size_t)polys * n * limb_result_words(upmem, task) : 0;
    uint32_t *stage = upmem_stage(upmem, UPMEM_STAGE_BACK, result);
    int status = stage == NULL ? BFV_E_MEMORY : upmem_pull(upmem, task->offset, stage, result);
    for (uint32_t g = 0; status == BFV_OK && g < grid.groups; g++) {
        status = merge_group(upmem, task, &grid, g, stage, out + g * step);
    }
    return status;
}

int limb_multiply(struct upmem *upmem, uint32_t command, struct limb_operand a, struct limb_operand b,
                  uint64_t pairs, uint32_t *out) {
    const size_t result = polys_out(command) * limb_poly_words(&limb_family_of(upmem)->form);
    const uint64_t most = upmem->dpus; /* so that every pair has a group of its own */
    int status = BFV_OK;
    memset(out, 0, (size_t)pairs * result * sizeof *out);
    for (uint64_t begun = 0; status == BFV_OK && begun < pairs; begun += most) {
        const struct limb_operand x = {a.words + begun * a.stride, a.stride};
        const struct limb_operand y = {b.words + begun * b.stride, b.stride};
        struct limb_task task = {.command = command, .pairs = limb_min(most, pairs - begun)};
        status = limb_begin(upmem, &task, x, y);
        if (status == BFV_OK) {
            status = upmem_launch_end(upmem);
        }
        if (status == BFV_OK) {
            status = limb_collect(upmem, &task, true, out + begun * result);
        }
    }
    return status;
}

/* Fetches the products of a launch that was left and adds them. */
static int finish_products(struct upmem *upmem, void *data, int status) {
    struct limb_acc *acc = limb_acc_of(data);
    const size_t words = 3 * limb_poly_words(&limb_family_of(upmem)->form);
    uint32_t *total = limb_alloc(upmem, 3);
    if (status == BFV_OK) {
        status = total == NULL ? BFV_E_MEMORY : BFV_OK;
    }
    if (status == BFV_OK) {
        memset(total, 0, words * sizeof *total);
        status = limb_collect(upmem, &limb_family_of(upmem)->left, false, total);
    }
    if (status == BFV_OK) {
        status = limb_add_returned(upmem, acc->words, total, words);
    }
    buffer_free(total);
    acc->damaged = status != BFV_OK;
    return status;
}

int limb_accumulate(struct upmem *upmem, struct bfv_acc *acc, struct limb_operand a, struct limb_operand b,
                    uint64_t pairs, struct limb_origin origin) {
    struct limb_task task = {.origin = origin, .command = BFV_CMD_LIMB_TENSOR, .pairs = pairs};
    const int status = limb_begin(upmem, &task, a, b);
    if (status == BFV_OK) {
        limb_family_of(upmem)->left = task;
        upmem_leave(upmem, finish_products, acc);
    }
    return status;
}
