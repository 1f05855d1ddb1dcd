/* The backend "cpu": arrays in memory, work split over threads by coefficients,
 * never by terms, so that a result does not depend on the number of threads. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend_cpu.h"
#include "client.h"

/* Encryptions and expansions into fewer bytes run on the calling thread: starting another takes about as
 * long. */
#define CLIENT_SMALL_JOB ((size_t)1 << 16)

/* ---- threads -------------------------------------------------------------- */

struct share {
    cpu_unit_function run;
    void *job;
    uint64_t first, last;
};

static void *run_share(void *argument) {
    const struct share *share = argument;
    share->run(share->job, share->first, share->last);
    return NULL;
}

void cpu_in_parallel(uint32_t threads, uint64_t units, uint64_t words, cpu_unit_function run, void *job) {
    struct share shares[BFV_MAX_THREADS];
    pthread_t started[BFV_MAX_THREADS];
    bool runs[BFV_MAX_THREADS];
    const uint32_t parts = words < CPU_SMALL_JOB ? 1 : units < threads ? (uint32_t)units : threads;

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

void client_in_parallel(uint32_t threads, uint64_t count, size_t bytes, cpu_unit_function run, void *job) {
    cpu_in_parallel(threads == 0 ? count_cores() : threads, count, bytes < CLIENT_SMALL_JOB ? 0 : UINT64_MAX,
                    run, job);
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
    out->seed = 0;
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
    cpu_in_parallel(backend->threads, units, units * backend->ring->n, put_units, &job);
    if (atomic_load_explicit(&job.bad, memory_order_relaxed)) {
        cpu_drop(backend, array);
        return BFV_E_RESIDUE;
    }
    return BFV_OK;
}

static int cpu_get(struct bfv_backend *backend, const struct bfv_array *array, uint64_t first, uint64_t count,
                   uint32_t *dst) {
    const size_t words = backend_words(backend, array->parts);
    const size_t bytes = (size_t)count * words * sizeof *dst;
    const uint32_t *source = cpu_words_of(array);
    if (overlaps(source, (size_t)array->count * words * sizeof *source, dst, bytes)) {
        return BFV_E_ARGUMENT; /* a borrowed source, which stays unchanged */
    }
    memcpy(dst, source + (size_t)first * words, bytes);
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
    const uint32_t *x = cpu_words_of(a), *y = cpu_words_of(b);
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
    const uint32_t *x = cpu_words_of(a);
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
    memcpy(z, cpu_words_of(a), (size_t)polys * ring_poly_words(ring) * sizeof *z);
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

uint32_t cpu_block_width(const struct bfv_backend *backend, uint32_t planes) {
    const uint32_t n = backend->ring->n;
    uint32_t width = n < ACC_BLOCK ? n : (uint32_t)ACC_BLOCK;
    while (width > NARROW_BLOCK && planes * (n / width) < 2 * backend->threads) {
        width /= 2;
    }
    return width;
}

static struct acc_job acc_job_of(const struct bfv_backend *backend, const struct bfv_acc *acc,
                                 uint32_t planes) {
    const uint32_t n = backend->ring->n;
    const uint32_t width = cpu_block_width(backend, planes);
    return (struct acc_job){.ring = backend->ring, .state = acc->data, .width = width, .blocks = n / width};
}

static int cpu_acc_add(struct bfv_backend *backend, struct bfv_acc *acc, const struct bfv_array *a,
                       uint64_t first, uint64_t stride, uint64_t count) {
    const size_t words = backend_words(backend, a->parts);
    const uint32_t planes = acc->parts * backend->ring->count;
    struct acc_job job = acc_job_of(backend, acc, planes);
    job.a = cpu_words_of(a) + (size_t)first * words;
    job.stride = count > 1 ? (size_t)stride * words : 0;
    job.count = count;
    const uint64_t units = (uint64_t)planes * job.blocks;
    cpu_in_parallel(backend->threads, units, count * words, acc_add_units, &job);
    return BFV_OK;
}

static int cpu_acc_mul(struct bfv_backend *backend, struct bfv_acc *acc, const struct bfv_array *a,
                       uint64_t first_a, const struct bfv_array *b, uint64_t first_b, uint64_t stride,
                       uint64_t count) {
    if (acc->kind == BFV_ACC_SCALED) {
        return cpu_scaled_mul(backend, acc, a, first_a, b, first_b, stride, count);
    }
    const size_t words = backend_words(backend, 2);
    struct acc_job job = acc_job_of(backend, acc, backend->ring->count);
    job.a = cpu_words_of(a) + (size_t)first_a * words;
    job.b = cpu_words_of(b) + (size_t)first_b * words;
    job.stride = count > 1 ? (size_t)stride * words : 0;
    job.count = count;
    const uint64_t units = (uint64_t)job.ring->count * job.blocks;
    cpu_in_parallel(backend->threads, units, count * words, acc_mul_units, &job);
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
