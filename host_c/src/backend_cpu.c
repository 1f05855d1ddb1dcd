/* The backend "cpu": arrays in memory, work split over threads by coefficients,
 * never by terms, so that a result does not depend on the number of threads. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"
#include "cpu/kernels.h"

/* Jobs that touch fewer words run on the calling thread: starting a thread costs
 * about as much as reading this many. */
#define SMALL_JOB ((uint64_t)1 << 18)

/* Blocks of accumulators are not split below this many words. */
#define NARROW_BLOCK 256

struct cpu_array {
    const uint32_t *words; /* [count][parts][L][N]: owned, or the caller's (borrowed) */
    uint32_t *owned;       /* NULL when borrowed */
    uint32_t *lifted;      /* [count][2][K][N], what elements are lifted in; NULL before the first */
    bool *is_lifted;       /* [count] */
};

static const uint32_t *words_of(const struct bfv_array *array) {
    return ((const struct cpu_array *)array->data)->words;
}

/* ---- threads -------------------------------------------------------------- */

typedef void (*unit_function)(void *job, uint64_t first, uint64_t last);

struct share {
    unit_function run;
    void *job;
    uint64_t first, last;
};

static void *run_share(void *argument) {
    const struct share *share = argument;
    share->run(share->job, share->first, share->last);
    return NULL;
}

/* Calls run(job, first, last) on ranges that together are [0, units), in up to
 * `threads` threads, and waits. words: how much the job touches. */
static void in_parallel(uint32_t threads, uint64_t units, uint64_t words, unit_function run, void *job) {
    struct share shares[BFV_MAX_THREADS];
    pthread_t started[BFV_MAX_THREADS];
    bool runs[BFV_MAX_THREADS];
    const uint32_t parts = words < SMALL_JOB ? 1 : units < threads ? (uint32_t)units : threads;

    for (uint32_t i = 0; i < parts; i++) {
        /* units / parts each and one more for the first units % parts. */
        const uint64_t each = units / parts, more = units % parts;
        shares[i].run = run;
        shares[i].job = job;
        shares[i].first = i * each + (i < more ? i : more);
        shares[i].last = shares[i].first + each + (i < more ? 1 : 0);
        runs[i] = i != 0 && pthread_create(&started[i], NULL, run_share, &shares[i]) == 0;
    }
    /* This thread takes the first share, and those that found no thread. */
    for (uint32_t i = 0; i < parts; i++) {
        if (!runs[i]) {
            (void)run_share(&shares[i]);
        }
    }
    for (uint32_t i = 0; i < parts; i++) {
        if (runs[i]) {
            (void)pthread_join(started[i], NULL);
        }
    }
}

static uint32_t count_cores(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    long cores = 0;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        cores = CPU_COUNT(&set);
    } else {
        cores = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than a cpu_set_t holds */
    }
    return cores < 1 ? 1 : cores > BFV_MAX_THREADS ? (uint32_t)BFV_MAX_THREADS : (uint32_t)cores;
}

/* ---- open, arrays --------------------------------------------------------- */

static int cpu_open(struct bfv_backend *backend, const bfv_options *options) {
    if (options->kernels != BFV_KERNELS_NTT) {
        return BFV_E_UNSUPPORTED;
    }
    if (backend->threads == 0) {
        backend->threads = count_cores();
    }
    return BFV_OK;
}

static void cpu_close(struct bfv_backend *backend) {
    (void)backend;
}

static void cpu_info(const struct bfv_backend *backend, bfv_info *out) {
    (void)backend;
    out->dpus = 0;
    out->tasklets = 0;
}

/* Gives an array memory for its ciphertexts: NULL and nothing changed when there is none. */
static uint32_t *array_allocate(const struct bfv_backend *backend, struct bfv_array *array) {
    size_t bytes = 0;
    struct cpu_array *data = calloc(1, sizeof *data);
    uint32_t *words = NULL;
    if (size_mul(array->count, backend_words(backend, array->parts) * sizeof *words, &bytes)) {
        words = buffer_alloc(bytes);
    }
    if (data == NULL || words == NULL) {
        free(data);
        buffer_free(words);
        return NULL;
    }
    data->words = words;
    data->owned = words;
    array->data = data;
    return words;
}

static void cpu_drop(struct bfv_backend *backend, struct bfv_array *array) {
    (void)backend;
    struct cpu_array *data = array->data;
    buffer_free(data->owned);
    buffer_free(data->lifted);
    free(data->is_lifted);
    free(data);
    array->data = NULL;
}

struct put_job {
    const bfv_ring *ring;
    const uint32_t *src;
    uint32_t *dst; /* NULL: check only */
    atomic_bool bad;
};

/* A unit is one plane of N words. */
static void put_units(void *argument, uint64_t first, uint64_t last) {
    struct put_job *job = argument;
    const bfv_ring *ring = job->ring;
    bool good = true;
    for (uint64_t unit = first; unit < last; unit++) {
        const size_t at = (size_t)unit * ring->n;
        const uint32_t p = ring->prime[unit % ring->count].p;
        good &= job->dst == NULL ? ring->body->check(job->src + at, ring->n, p)
                                 : ring->body->copy_check(job->dst + at, job->src + at, ring->n, p);
    }
    if (!good) {
        atomic_store_explicit(&job->bad, true, memory_order_relaxed);
    }
}

static int cpu_put(struct bfv_backend *backend, struct bfv_array *array, const uint32_t *src,
                   uint32_t flags) {
    struct put_job job = {.ring = backend->ring, .src = src, .dst = NULL};
    atomic_init(&job.bad, false);
    if ((flags & BFV_PUT_BORROW) != 0) {
        struct cpu_array *data = calloc(1, sizeof *data);
        if (data == NULL) {
            return BFV_E_MEMORY;
        }
        data->words = src;
        array->data = data;
    } else {
        job.dst = array_allocate(backend, array);
        if (job.dst == NULL) {
            return BFV_E_MEMORY;
        }
    }
    const uint64_t units = array->count * array->parts * backend->ring->count;
    in_parallel(backend->threads, units, units * backend->ring->n, put_units, &job);
    if (atomic_load_explicit(&job.bad, memory_order_relaxed)) {
        cpu_drop(backend, array);
        return BFV_E_RESIDUE;
    }
    return BFV_OK;
}

static int cpu_get(struct bfv_backend *backend, const struct bfv_array *array, uint64_t first, uint64_t count,
                   uint32_t *dst) {
    const size_t words = backend_words(backend, array->parts);
    memcpy(dst, words_of(array) + (size_t)first * words, (size_t)count * words * sizeof *dst);
    return BFV_OK;
}

static int cpu_wait(struct bfv_backend *backend, bfv_ticket ticket) {
    (void)backend;
    (void)ticket;
    return BFV_OK; /* every call here has finished when it returns */
}

static int cpu_sync(struct bfv_backend *backend) {
    (void)backend;
    return BFV_OK;
}

/* ---- arithmetic ----------------------------------------------------------- */

static int cpu_binary(struct bfv_backend *backend, enum backend_binary op, const struct bfv_array *a,
                      const struct bfv_array *b, struct bfv_array *out) {
    const bfv_ring *ring = backend->ring;
    const size_t poly = ring_poly_words(ring);
    const uint32_t *x = words_of(a), *y = words_of(b);
    uint32_t *z = array_allocate(backend, out);
    if (z == NULL) {
        return BFV_E_MEMORY;
    }
    const uint64_t polys = a->count * a->parts;
    switch (op) {
    case BACKEND_ADD:
        return bfv_poly_add(ring, x, y, polys, z);
    case BACKEND_SUB:
        return bfv_poly_sub(ring, x, y, polys, z);
    case BACKEND_MUL:
        break;
    }
    for (uint64_t k = 0; k < a->count; k++, x += 2 * poly, y += 2 * poly, z += 3 * poly) {
        for (uint32_t i = 0; i < ring->count; i++) {
            const size_t at = (size_t)i * ring->n;
            const uint32_t *const from_a[2] = {x + at, x + poly + at};
            const uint32_t *const from_b[2] = {y + at, y + poly + at};
            uint32_t *const to[3] = {z + at, z + poly + at, z + 2 * poly + at};
            ring->body->tensor(to, from_a, from_b, ring->n, &ring->prime[i].mod);
        }
    }
    return BFV_OK;
}

static int cpu_unary(struct bfv_backend *backend, enum backend_unary op, const struct bfv_array *a,
                     const uint32_t *m, struct bfv_array *out) {
    const bfv_ring *ring = backend->ring;
    const size_t poly = ring_poly_words(ring);
    const uint32_t *x = words_of(a);
    uint32_t *z = array_allocate(backend, out);
    if (z == NULL) {
        return BFV_E_MEMORY;
    }
    const uint64_t polys = a->count * a->parts;
    if (op == BACKEND_NEG) {
        return bfv_poly_neg(ring, x, polys, z);
    }
    for (uint64_t k = 0; k < polys; k++, x += poly, z += poly) {
        if (op == BACKEND_MUL_PLAIN) {
            (void)bfv_poly_mul(ring, x, m, 1, z);
        } else if (k % a->parts == 0) {
            (void)bfv_poly_add(ring, x, m, 1, z); /* a plaintext adds to part 0 */
        } else {
            memcpy(z, x, poly * sizeof *z);
        }
    }
    return BFV_OK;
}

static int cpu_convert(struct bfv_backend *backend, const struct bfv_array *a, struct bfv_array *out) {
    const bfv_ring *ring = backend->ring;
    uint32_t *z = array_allocate(backend, out);
    if (z == NULL) {
        return BFV_E_MEMORY;
    }
    const uint64_t polys = a->count * a->parts;
    memcpy(z, words_of(a), (size_t)polys * ring_poly_words(ring) * sizeof *z);
    return out->form == BFV_FORM_NTT ? bfv_ntt_forward(ring, z, polys) : bfv_ntt_inverse(ring, z, polys);
}

/* ---- accumulators: data is the state, [parts][L][N] residues; scaled: [3][L + K][N] ---- */

static int cpu_acc_new(struct bfv_backend *backend, struct bfv_acc *acc) {
    const size_t bytes = backend_acc_words(backend, acc) * sizeof(uint32_t);
    acc->data = buffer_alloc(bytes);
    if (acc->data == NULL) {
        return BFV_E_MEMORY;
    }
    memset(acc->data, 0, bytes);
    return BFV_OK;
}

static void cpu_acc_drop(struct bfv_backend *backend, struct bfv_acc *acc) {
    (void)backend;
    buffer_free(acc->data);
    acc->data = NULL;
}

struct acc_job {
    const bfv_ring *ring;
    uint32_t *state;
    const uint32_t *a, *b; /* the first terms; b is NULL for sums */
    size_t stride;         /* words from term to term */
    uint64_t count;
    uint32_t width;  /* words of a block */
    uint32_t blocks; /* of a plane */
};

/* A unit is one block of one plane of the state. */
static void acc_add_units(void *argument, uint64_t first, uint64_t last) {
    const struct acc_job *job = argument;
    const bfv_ring *ring = job->ring;
    for (uint64_t unit = first; unit < last; unit++) {
        const uint64_t plane = unit / job->blocks;
        const size_t at = (size_t)unit * job->width; /* blocks lie one after the other */
        ring->body->acc_sum(job->state + at, job->a + at, job->stride, job->count, job->width,
                            &ring->prime[plane % ring->count]);
    }
}

/* A unit is one block of one prime, in all three parts. */
static void acc_mul_units(void *argument, uint64_t first, uint64_t last) {
    const struct acc_job *job = argument;
    const bfv_ring *ring = job->ring;
    const size_t poly = ring_poly_words(ring);
    for (uint64_t unit = first; unit < last; unit++) {
        const struct bfv_prime *prime = &ring->prime[unit / job->blocks];
        const size_t at = (size_t)unit * job->width;
        uint32_t *const state[3] = {job->state + at, job->state + poly + at, job->state + 2 * poly + at};
        const uint32_t *const a[2] = {job->a + at, job->a + poly + at};
        const uint32_t *const b[2] = {job->b + at, job->b + poly + at};
        if (job->a == job->b) {
            ring->body->acc_square(state, a, job->stride, job->count, job->width, prime);
        } else {
            ring->body->acc_mul(state, a, b, job->stride, job->count, job->width, prime);
        }
    }
}

/* Blocks of the widest kind, or narrower ones when there would be too few of them
 * for the threads. planes: how many planes the units cover. */
static struct acc_job acc_job_of(const struct bfv_backend *backend, const struct bfv_acc *acc,
                                 uint32_t planes) {
    const uint32_t n = backend->ring->n;
    uint32_t width = n < ACC_BLOCK ? n : (uint32_t)ACC_BLOCK;
    while (width > NARROW_BLOCK && planes * (n / width) < 2 * backend->threads) {
        width /= 2;
    }
    return (struct acc_job){.ring = backend->ring, .state = acc->data, .width = width, .blocks = n / width};
}

static int cpu_acc_add(struct bfv_backend *backend, struct bfv_acc *acc, const struct bfv_array *a,
                       uint64_t first, uint64_t stride, uint64_t count) {
    const size_t words = backend_words(backend, a->parts);
    const uint32_t planes = acc->parts * backend->ring->count;
    struct acc_job job = acc_job_of(backend, acc, planes);
    job.a = words_of(a) + (size_t)first * words;
    job.stride = count > 1 ? (size_t)stride * words : 0;
    job.count = count;
    const uint64_t units = (uint64_t)planes * job.blocks;
    in_parallel(backend->threads, units, count * words, acc_add_units, &job);
    return BFV_OK;
}

/* ---- scaled products ---- */

/* Where the residues of an array's elements lie: those mod q, and the lifted ones. */
struct lifted_view {
    const uint32_t *q; /* [2][L][N] of the first element */
    const uint32_t *w; /* [2][K][N] */
    size_t q_stride, w_stride;
};

struct scaled_job {
    const bfv_lifter *lifter;
    uint32_t *state; /* [3][L + K][N] */
    struct lifted_view a, b;
    bool square;
    uint64_t count;
    uint32_t width, blocks; /* as in acc_job */
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
        if (job->square) {
            full->body->acc_square(state, a, stride, job->count, job->width, &full->prime[plane]);
        } else {
            full->body->acc_mul(state, a, b, stride, job->count, job->width, &full->prime[plane]);
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
    in_parallel(backend->threads, count, count * LIFT_WORK * backend_words(backend, 2), lift_units, &job);
    buffer_free(scratch);
    return BFV_OK;
}

static struct lifted_view lifted_view_of(const struct bfv_backend *backend, const struct bfv_array *array,
                                         uint64_t first, uint64_t stride) {
    const struct cpu_array *data = array->data;
    const size_t q = backend_words(backend, 2);
    const size_t w = (size_t)2 * backend->lifter->wide * backend->ring->n;
    return (struct lifted_view){.q = data->words + (size_t)first * q,
                                .w = data->lifted + (size_t)first * w,
                                .q_stride = (size_t)stride * q,
                                .w_stride = (size_t)stride * w};
}

/* Squares whose elements no other product has needed so far: each thread lifts a few at a time, into a
 * buffer that stays in its cache, and adds their squares to a sum of its own. */
struct stream_job {
    struct scaled_job scaled; /* a.q: the first element */
    uint32_t *buffers;        /* a share's: lifted elements, scratch, sum */
    size_t share_words, lifted_words, scratch_words;
    uint64_t shares, group;
};

/* A unit is one share of the terms. */
static void stream_units(void *argument, uint64_t first, uint64_t last) {
    const struct stream_job *job = argument;
    const bfv_lifter *lifter = job->scaled.lifter;
    const size_t n = lifter->n, from = lifter->count * n, to = lifter->wide * n;
    for (uint64_t unit = first; unit < last; unit++) {
        struct scaled_job one = job->scaled;
        uint32_t *lifted = job->buffers + (size_t)unit * job->share_words;
        uint32_t *scratch = lifted + job->lifted_words;
        if (unit != 0) { /* share 0 adds to the accumulator itself */
            one.state = scratch + job->scratch_words;
            memset(one.state, 0, 3 * ring_poly_words(lifter->full) * sizeof *one.state);
        }
        const uint64_t begin = job->scaled.count * unit / job->shares;
        const uint64_t end = job->scaled.count * (unit + 1) / job->shares;
        one.a.w = lifted;
        one.a.w_stride = 2 * to;
        for (uint64_t term = begin; term < end; term += one.count) {
            one.count = end - term < job->group ? end - term : job->group;
            one.a.q = job->scaled.a.q + (size_t)term * one.a.q_stride;
            for (uint64_t k = 0; k < one.count; k++) {
                const uint32_t *x = one.a.q + (size_t)k * one.a.q_stride;
                lifter_lift(lifter, x, lifted + 2 * k * to, scratch);
                lifter_lift(lifter, x + from, lifted + (2 * k + 1) * to, scratch);
            }
            one.b = one.a;
            scaled_units(&one, 0, (uint64_t)lifter->full->count * one.blocks);
        }
    }
}

/* Bytes of lifted elements that a thread keeps in its cache. */
#define STREAM_BYTES ((size_t)512 << 10)

static int stream_squares(struct bfv_backend *backend, struct scaled_job scaled) {
    const bfv_lifter *lifter = backend->lifter;
    const bfv_ring *full = lifter->full;
    const size_t element = (size_t)2 * lifter->wide * lifter->n;
    const size_t state = 3 * ring_poly_words(full);
    const uint64_t words = scaled.count * LIFT_WORK * backend_words(backend, 2);
    struct stream_job job = {.scaled = scaled, .shares = 1, .group = STREAM_BYTES / 4 / element};
    if (words >= SMALL_JOB) {
        job.shares = scaled.count < backend->threads ? scaled.count : backend->threads;
    }
    job.group = job.group < 1 ? 1 : job.group < scaled.count ? job.group : scaled.count;
    job.lifted_words = (size_t)job.group * element;
    job.scratch_words = lifter_scratch(lifter);
    job.share_words = job.lifted_words + job.scratch_words + state;
    job.buffers = buffer_alloc((size_t)job.shares * job.share_words * sizeof *job.buffers);
    if (job.buffers == NULL) {
        return BFV_E_MEMORY;
    }
    in_parallel(backend->threads, job.shares, words, stream_units, &job);
    for (uint64_t share = 1; share < job.shares; share++) {
        const uint32_t *sum =
            job.buffers + (size_t)share * job.share_words + job.lifted_words + job.scratch_words;
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

static int scaled_mul(struct bfv_backend *backend, struct bfv_acc *acc, const struct bfv_array *a,
                      uint64_t first_a, const struct bfv_array *b, uint64_t first_b, uint64_t stride,
                      uint64_t count) {
    const struct acc_job shape = acc_job_of(backend, acc, backend->lifter->full->count);
    struct scaled_job job = {.lifter = backend->lifter,
                             .state = acc->data,
                             .square = a == b && first_a == first_b,
                             .count = count,
                             .width = shape.width,
                             .blocks = shape.blocks};
    stride = count > 1 ? stride : 0;
    if (job.square && !all_lifted(a->data, first_a, stride, count)) {
        const size_t q = backend_words(backend, 2);
        job.a = (struct lifted_view){.q = words_of(a) + (size_t)first_a * q, .q_stride = (size_t)stride * q};
        return stream_squares(backend, job);
    }
    int status = lift_terms(backend, a, first_a, stride, count);
    if (status == BFV_OK && !job.square) {
        status = lift_terms(backend, b, first_b, stride, count);
    }
    if (status != BFV_OK) {
        return status;
    }
    job.a = lifted_view_of(backend, a, first_a, stride);
    job.b = lifted_view_of(backend, b, first_b, stride);
    const uint64_t units = (uint64_t)job.lifter->full->count * job.blocks;
    in_parallel(backend->threads, units, 2 * count * backend_words(backend, 2), scaled_units, &job);
    return BFV_OK;
}

static int cpu_acc_mul(struct bfv_backend *backend, struct bfv_acc *acc, const struct bfv_array *a,
                       uint64_t first_a, const struct bfv_array *b, uint64_t first_b, uint64_t stride,
                       uint64_t count) {
    if (acc->kind == BFV_ACC_SCALED) {
        return scaled_mul(backend, acc, a, first_a, b, first_b, stride, count);
    }
    const size_t words = backend_words(backend, 2);
    struct acc_job job = acc_job_of(backend, acc, backend->ring->count);
    job.a = words_of(a) + (size_t)first_a * words;
    job.b = words_of(b) + (size_t)first_b * words;
    job.stride = count > 1 ? (size_t)stride * words : 0;
    job.count = count;
    const uint64_t units = (uint64_t)job.ring->count * job.blocks;
    in_parallel(backend->threads, units, count * words, acc_mul_units, &job);
    return BFV_OK;
}

static int cpu_acc_merge(struct bfv_backend *backend, struct bfv_acc *acc, const struct bfv_acc *other) {
    return bfv_poly_add(backend_acc_ring(backend, acc), acc->data, other->data, acc->parts, acc->data);
}

static int cpu_acc_save(struct bfv_backend *backend, const struct bfv_acc *acc, uint32_t *dst) {
    memcpy(dst, acc->data, backend_acc_words(backend, acc) * sizeof *dst);
    return BFV_OK;
}

static int cpu_acc_load(struct bfv_backend *backend, struct bfv_acc *acc, const uint32_t *src) {
    memcpy(acc->data, src, backend_acc_words(backend, acc) * sizeof *src);
    return BFV_OK;
}

static int cpu_acc_finish(struct bfv_backend *backend, const struct bfv_acc *acc, const uint32_t *factor,
                          struct bfv_array *out) {
    uint32_t *words = array_allocate(backend, out);
    if (words == NULL) {
        return BFV_E_MEMORY;
    }
    return bfv_poly_mul_scalar(backend->ring, acc->data, factor, acc->parts, words);
}

const struct backend_ops backend_cpu = {
    .name = "cpu",
    .version = BACKEND_VERSION,
    .scaled = true,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .put = cpu_put,
    .get = cpu_get,
    .drop = cpu_drop,
    .wait = cpu_wait,
    .sync = cpu_sync,
    .binary = cpu_binary,
    .unary = cpu_unary,
    .convert = cpu_convert,
    .acc_new = cpu_acc_new,
    .acc_drop = cpu_acc_drop,
    .acc_add = cpu_acc_add,
    .acc_mul = cpu_acc_mul,
    .acc_merge = cpu_acc_merge,
    .acc_save = cpu_acc_save,
    .acc_load = cpu_acc_load,
    .acc_finish = cpu_acc_finish,
};
