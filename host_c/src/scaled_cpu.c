/* The backend "cpu": products summed over the integers, mod the primes of q and the wide ones. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cpu.h"

/* Where the residues of an array's elements lie: those mod q, and the lifted ones. */
struct view {
    const uint32_t *q; /* [2][L][N] of the first element */
    const uint32_t *w; /* [2][K][N] */
    size_t q_stride, w_stride;
};

struct scaled_job {
    const bfv_lifter *lifter;
    uint32_t *state; /* [3][L + K][N] */
    struct view a, b;
    enum { SQUARE, SQUARE_FEW, PRODUCT } kind;
    uint64_t count;
    uint32_t width;  /* words of a block */
    uint32_t blocks; /* of a plane */
};

/* A unit is one block of one prime of L + K, in all three parts. */
static void scaled_units(void *argument, uint64_t first, uint64_t last) {
    const struct scaled_job *job = argument;
    const bfv_ring *full = job->lifter->full;
    const size_t n = full->n, count = job->lifter->count, poly = ring_poly_words(full);
    for (uint64_t unit = first; unit < last; unit++) {
        const size_t plane = (size_t)unit / job->blocks;
        const size_t at = (size_t)unit * job->width; /* of the state: blocks lie one after the other */
        const bool lifted = plane >= count;
        const size_t in = lifted ? at - count * n : at;
        const size_t part = (lifted ? job->lifter->wide : count) * n;
        const size_t stride = lifted ? job->a.w_stride : job->a.q_stride;
        const uint32_t *x = (lifted ? job->a.w : job->a.q) + in, *y = (lifted ? job->b.w : job->b.q) + in;
        uint32_t *const state[3] = {job->state + at, job->state + poly + at, job->state + 2 * poly + at};
        const uint32_t *const a[2] = {x, x + part}, *const b[2] = {y, y + part};
        const struct bfv_prime *prime = &full->prime[plane];
        switch (job->kind) {
        case SQUARE:
            full->body->acc_square(state, a, stride, job->count, job->width, prime);
            break;
        case SQUARE_FEW:
            full->body->acc_square_few(state, a, stride, job->count, job->width, prime);
            break;
        case PRODUCT:
            full->body->acc_mul(state, a, b, stride, job->count, job->width, prime);
            break;
        }
    }
}

struct lift_job {
    const bfv_lifter *lifter;
    const uint32_t *words;
    uint32_t *lifted;
    bool *is_lifted;
    uint64_t first, stride;
    uint32_t *scratch;
    atomic_uint next; /* place in scratch for the next thread */
};

/* A unit is one element, lifted unless it is already. */
static void lift_units(void *argument, uint64_t first, uint64_t last) {
    struct lift_job *job = argument;
    const bfv_lifter *lifter = job->lifter;
    const size_t n = lifter->n, from = lifter->count * n, to = lifter->wide * n;
    const size_t place = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
    uint32_t *scratch = job->scratch + place * lifter_scratch(lifter);
    for (uint64_t unit = first; unit < last; unit++) {
        const size_t at = (size_t)(job->first + unit * job->stride);
        if (!job->is_lifted[at]) {
            for (size_t part = 2 * at; part < 2 * at + 2; part++) {
                lifter_lift(lifter, job->words + part * from, job->lifted + part * to, scratch);
            }
            job->is_lifted[at] = true;
        }
    }
}

/* Lifting is this many times the work that reading the words is. */
#define LIFT_WORK 8

/* Lifts the elements of an array that a product needs, and keeps what it lifted with the array. */
static int lift_terms(struct bfv_backend *backend, const struct bfv_array *array, uint64_t first,
                      uint64_t stride, uint64_t count) {
    const bfv_lifter *lifter = backend->lifter;
    struct cpu_array *data = array->data;
    size_t words = 0;
    if (data->lifted == NULL) {
        bool *is_lifted = calloc((size_t)array->count, sizeof *is_lifted);
        if (size_mul(array->count, (size_t)2 * lifter->wide * lifter->n * sizeof(uint32_t), &words)) {
            data->lifted = buffer_alloc(words);
        }
        if (is_lifted == NULL || data->lifted == NULL) {
            free(is_lifted);
            buffer_free(data->lifted);
            data->lifted = NULL;
            return BFV_E_MEMORY;
        }
        data->is_lifted = is_lifted;
    }
    uint32_t *scratch = buffer_alloc(backend->threads * lifter_scratch(lifter) * sizeof *scratch);
    if (scratch == NULL) {
        return BFV_E_MEMORY;
    }
    struct lift_job job = {.lifter = lifter,
                           .words = data->words,
                           .lifted = data->lifted,
                           .is_lifted = data->is_lifted,
                           .first = first,
                           .stride = stride,
                           .scratch = scratch};
    atomic_init(&job.next, 0);
    cpu_in_parallel(backend->threads, count, count * LIFT_WORK * backend_words(backend, 2), lift_units, &job);
    buffer_free(scratch);
    return BFV_OK;
}

static struct view view_of(const struct bfv_backend *backend, const struct bfv_array *array, uint64_t first,
                           uint64_t stride) {
    const struct cpu_array *data = array->data;
    const size_t q = backend_words(backend, 2);
    const size_t w = (size_t)2 * backend->lifter->wide * backend->ring->n;
    return (struct view){.q = data->words + (size_t)first * q,
                         .w = data->lifted + (size_t)first * w,
                         .q_stride = (size_t)stride * q,
                         .w_stride = (size_t)stride * w};
}

/* Squares whose elements no other product has needed so far: each thread lifts a few at a time, into a
 * buffer that stays in its cache, and adds their squares to a sum of its own, which is divided by 2^32. */
struct stream_job {
    struct scaled_job scaled; /* a.q: the first element */
    uint32_t *buffers;        /* a share's: its sum, lifted elements, scratch */
    size_t share_words, state_words, lifted_words;
    uint64_t shares, group;
};

/* A unit is one share of the terms. */
static void stream_units(void *argument, uint64_t first, uint64_t last) {
    const struct stream_job *job = argument;
    const bfv_lifter *lifter = job->scaled.lifter;
    const bfv_ring *full = lifter->full;
    const size_t n = lifter->n, from = lifter->count * n, to = lifter->wide * n;
    for (uint64_t unit = first; unit < last; unit++) {
        struct scaled_job one = job->scaled;
        one.kind = SQUARE_FEW;
        one.state = job->buffers + (size_t)unit * job->share_words;
        uint32_t *lifted = one.state + job->state_words, *scratch = lifted + job->lifted_words;
        memset(one.state, 0, job->state_words * sizeof *one.state);
        one.a.w = lifted;
        one.a.w_stride = 2 * to;
        const uint64_t begin = job->scaled.count * unit / job->shares;
        const uint64_t end = job->scaled.count * (unit + 1) / job->shares;
        for (uint64_t term = begin; term < end; term += one.count) {
            one.count = end - term < job->group ? end - term : job->group;
            one.a.q = job->scaled.a.q + (size_t)term * one.a.q_stride;
            for (uint64_t k = 0; k < one.count; k++) {
                const uint32_t *x = one.a.q + (size_t)k * one.a.q_stride;
                lifter_lift(lifter, x, lifted + 2 * k * to, scratch);
                lifter_lift(lifter, x + from, lifted + (2 * k + 1) * to, scratch);
            }
            one.b = one.a;
            scaled_units(&one, 0, (uint64_t)full->count * one.blocks);
        }
        uint32_t *plane = one.state;
        for (uint32_t k = 0; k < 3 * full->count; k++, plane += n) {
            const struct zq_mod *mod = &full->prime[k % full->count].mod;
            full->body->mul_scalar(plane, plane, mod->r32, n, mod->p);
        }
    }
}

/* Bytes of lifted elements that a thread keeps in its cache. Measured. */
#define STREAM_BYTES ((size_t)1 << 20)

static int stream_squares(struct bfv_backend *backend, struct scaled_job scaled) {
    const bfv_lifter *lifter = backend->lifter;
    const bfv_ring *full = lifter->full;
    const size_t element = (size_t)2 * lifter->wide * lifter->n;
    const uint64_t words = scaled.count * LIFT_WORK * backend_words(backend, 2);
    struct stream_job job = {
        .scaled = scaled, .shares = 1, .group = STREAM_BYTES / sizeof(uint32_t) / element};
    if (words >= CPU_SMALL_JOB) {
        job.shares = scaled.count < backend->threads ? scaled.count : backend->threads;
    }
    job.group = job.group < 1 ? 1 : job.group < scaled.count ? job.group : scaled.count;
    for (uint32_t i = 0; i < full->count; i++) { /* what acc_square_few takes */
        const uint64_t most = full->prime[i].max_sums;
        job.group = job.group < most ? job.group : most;
    }
    job.state_words = 3 * ring_poly_words(full);
    job.lifted_words = (size_t)job.group * element;
    job.share_words = job.state_words + job.lifted_words + lifter_scratch(lifter);
    job.buffers = buffer_alloc((size_t)job.shares * job.share_words * sizeof *job.buffers);
    if (job.buffers == NULL) {
        return BFV_E_MEMORY;
    }
    cpu_in_parallel(backend->threads, job.shares, words, stream_units, &job);
    for (uint64_t share = 0; share < job.shares; share++) {
        const uint32_t *sum = job.buffers + (size_t)share * job.share_words;
        (void)bfv_poly_add(full, scaled.state, sum, 3, scaled.state);
    }
    buffer_free(job.buffers);
    return BFV_OK;
}

static bool all_lifted(const struct cpu_array *data, uint64_t first, uint64_t stride, uint64_t count) {
    bool all = data->lifted != NULL;
    for (uint64_t k = 0; all && k < count; k++) {
        all = data->is_lifted[first + k * stride];
    }
    return all;
}

int cpu_scaled_mul(struct bfv_backend *backend, struct bfv_acc *acc, const struct bfv_array *a,
                   uint64_t first_a, const struct bfv_array *b, uint64_t first_b, uint64_t stride,
                   uint64_t count) {
    const uint32_t width = cpu_block_width(backend, backend->lifter->full->count);
    const bool square = a == b && first_a == first_b;
    struct scaled_job job = {.lifter = backend->lifter,
                             .state = acc->data,
                             .kind = square ? SQUARE : PRODUCT,
                             .count = count,
                             .width = width,
                             .blocks = backend->ring->n / width};
    stride = count > 1 ? stride : 0;
    if (square && !all_lifted(a->data, first_a, stride, count)) {
        const size_t q = backend_words(backend, 2);
        job.a = (struct view){.q = cpu_words_of(a) + (size_t)first_a * q, .q_stride = (size_t)stride * q};
        return stream_squares(backend, job);
    }
    int status = lift_terms(backend, a, first_a, stride, count);
    if (status == BFV_OK && !square) {
        status = lift_terms(backend, b, first_b, stride, count);
    }
    if (status != BFV_OK) {
        return status;
    }
    job.a = view_of(backend, a, first_a, stride);
    job.b = view_of(backend, b, first_b, stride);
    const uint64_t units = (uint64_t)job.lifter->full->count * job.blocks;
    cpu_in_parallel(backend->threads, units, 2 * count * backend_words(backend, 2), scaled_units, &job);
    return BFV_OK;
}
