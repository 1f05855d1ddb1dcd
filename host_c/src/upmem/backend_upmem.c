/* The backends "sim" and "upmem": the table that bfv.c calls. Arrays stay in host memory; what goes
 * to the DPUs, and when, the families decide. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../cpu/kernels.h"
#include "guard.h"

enum {
    DEFAULT_TASKLETS = 16,
    MAX_CHUNKS = 64 /* that put's check is cut into */
};

/* ---- open and close -------------------------------------------------------------- */

static void upmem_close(struct bfv_backend *backend) {
    struct upmem *upmem = upmem_of(backend);
    (void)upmem_launch_end(upmem);
    guard_close(upmem);
    if (upmem->family != NULL) {
        upmem->ops->close(upmem);
    }
    upmem_device_close(upmem);
    free(upmem);
    backend->data = NULL;
}

static int upmem_open(struct bfv_backend *backend, const bfv_options *options) {
    struct upmem *upmem = calloc(1, sizeof *upmem);
    if (upmem == NULL) {
        return BFV_E_MEMORY;
    }
    upmem->backend = backend;
    upmem->ops = backend->kernels == BFV_KERNELS_NTT ? &family_ntt : &family_limb;
    upmem->tasklets = options->tasklets == 0 ? (uint32_t)DEFAULT_TASKLETS : options->tasklets;
    backend->data = upmem;

    int status = BFV_OK;
    const char *program = upmem->ops->program(backend->ring);
    if (program == NULL) {
        status =
            upmem_fail(upmem, BFV_E_UNSUPPORTED, "the %s kernels can't serve this ring", upmem->ops->name);
    } else {
        status = upmem_device_open(upmem, options, program);
    }
    if (status == BFV_OK) {
        status = upmem->ops->open(upmem);
    }
    if (status == BFV_OK) {
        status = guard_open(upmem, options->check);
    }
    if (status != BFV_OK) {
        upmem_close(backend);
    }
    return status;
}

static void upmem_info(const struct bfv_backend *backend, bfv_info *out) {
    const struct upmem *upmem = upmem_of(backend);
    out->threads = 0; /* does not apply */
    out->dpus = upmem->dpus;
    out->tasklets = upmem->tasklets;
    out->seed = upmem_seed(upmem);
    memset(out->body, 0, sizeof out->body);
    strncpy(out->body, "dpu", sizeof out->body - 1);
}

/* ---- arrays ------------------------------------------------------------------------ */

static uint32_t *array_allocate(const struct bfv_backend *backend, struct bfv_array *array) {
    size_t bytes = 0;
    struct upmem_array *data = calloc(1, sizeof *data);
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

static void upmem_drop(struct bfv_backend *backend, struct bfv_array *array) {
    guard_array_drop(upmem_of(backend), array);
}

struct put_job {
    const bfv_ring *ring;
    const uint32_t *src;
    uint32_t *dst; /* NULL: check only */
    uint64_t planes;
    uint32_t chunks;
    atomic_bool bad;
};

/* A chunk is a run of planes. */
static void put_chunk(void *argument, uint32_t k) {
    struct put_job *job = argument;
    const bfv_ring *ring = job->ring;
    const uint64_t first = job->planes * k / job->chunks, last = job->planes * (k + 1) / job->chunks;
    bool good = true;
    for (uint64_t plane = first; plane < last; plane++) {
        const size_t at = (size_t)plane * ring->n;
        const uint32_t p = ring->prime[plane % ring->count].p;
        good &= job->dst == NULL ? ring->body->check(job->src + at, ring->n, p)
                                 : ring->body->copy_check(job->dst + at, job->src + at, ring->n, p);
    }
    if (!good) {
        atomic_store_explicit(&job->bad, true, memory_order_relaxed);
    }
}

static int upmem_put(struct bfv_backend *backend, struct bfv_array *array, const uint32_t *src,
                     uint32_t flags) {
    struct put_job job = {.ring = backend->ring, .src = src};
    atomic_init(&job.bad, false);
    if ((flags & BFV_PUT_BORROW) != 0) {
        struct upmem_array *data = calloc(1, sizeof *data);
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
    job.planes = array->count * array->parts * backend->ring->count;
    /* A thread is worth its start from about a quarter of a million words on. */
    const uint64_t chunks = job.planes * backend->ring->n / (UINT64_C(1) << 18) + 1;
    job.chunks = chunks < MAX_CHUNKS ? (uint32_t)chunks : (uint32_t)MAX_CHUNKS;
    upmem_parallel(upmem_of(backend), job.chunks, put_chunk, &job);
    if (atomic_load_explicit(&job.bad, memory_order_relaxed)) {
        upmem_drop(backend, array);
        return BFV_E_RESIDUE;
    }
    return BFV_OK;
}

static int upmem_get(struct bfv_backend *backend, const struct bfv_array *array, uint64_t first,
                     uint64_t count, uint32_t *dst) {
    const size_t words = backend_words(backend, array->parts);
    const size_t bytes = (size_t)count * words * sizeof *dst;
    const uint32_t *source = upmem_words(array);
    if (overlaps(source, (size_t)array->count * words * sizeof *source, dst, bytes)) {
        return BFV_E_ARGUMENT; /* a borrowed source, which stays unchanged */
    }
    memcpy(dst, source + (size_t)first * words, bytes);
    return BFV_OK;
}

static int upmem_wait(struct bfv_backend *backend, bfv_ticket ticket) {
    (void)backend;
    (void)ticket;
    return BFV_OK; /* put has copied its source or borrowed it; a launch under way reads neither */
}

static int upmem_sync(struct bfv_backend *backend) {
    return guard_sync(upmem_of(backend));
}

/* ---- arithmetic ---------------------------------------------------------------------- */

/* out->data from a's and b's ciphertexts; a step of 0 takes the same one every time. */
static int pointwise(struct bfv_backend *backend, enum family_op op, uint32_t parts, const uint32_t *a,
                     uint32_t sa, const uint32_t *b, uint32_t sb, struct bfv_array *out) {
    struct upmem *upmem = upmem_of(backend);
    uint32_t *words = array_allocate(backend, out);
    if (words == NULL) {
        return BFV_E_MEMORY;
    }
    const int status = guard_pointwise(upmem, op, parts, a, sa, b, sb, out->count, words);
    if (status != BFV_OK) {
        upmem_drop(backend, out);
    }
    return status;
}

static int upmem_binary(struct bfv_backend *backend, enum backend_binary op, const struct bfv_array *a,
                        const struct bfv_array *b, struct bfv_array *out) {
    const enum family_op code = op == BACKEND_ADD   ? FAMILY_ADD
                                : op == BACKEND_SUB ? FAMILY_SUB
                                                    : FAMILY_TENSOR;
    return pointwise(backend, code, a->parts, upmem_words(a), 1, upmem_words(b), 1, out);
}

static int upmem_unary(struct bfv_backend *backend, enum backend_unary op, const struct bfv_array *a,
                       const uint32_t *m, struct bfv_array *out) {
    const size_t poly = ring_poly_words(backend->ring);
    const uint32_t parts = a->parts;
    /* The other operand as one ciphertext: 0, (m, 0, ..) or (m, m, ..). */
    uint32_t *other = calloc(parts * poly, sizeof *other);
    if (other == NULL) {
        return BFV_E_MEMORY;
    }
    for (uint32_t p = 0; p < parts && (op == BACKEND_MUL_PLAIN || (op == BACKEND_ADD_PLAIN && p == 0)); p++) {
        memcpy(other + p * poly, m, poly * sizeof *other);
    }
    int status;
    if (op == BACKEND_NEG) {
        status = pointwise(backend, FAMILY_SUB, parts, other, 0, upmem_words(a), 1, out);
    } else {
        status = pointwise(backend, op == BACKEND_MUL_PLAIN ? FAMILY_SCALE : FAMILY_ADD, parts,
                           upmem_words(a), 1, other, 0, out);
    }
    free(other);
    return status;
}

static int upmem_convert(struct bfv_backend *backend, const struct bfv_array *a, struct bfv_array *out) {
    struct upmem *upmem = upmem_of(backend);
    const uint64_t polys = a->count * a->parts;
    const bool inverse = a->form == BFV_FORM_NTT;
    uint32_t *words = array_allocate(backend, out);
    if (words == NULL) {
        return BFV_E_MEMORY;
    }
    int status;
    if (upmem->ops->convert != NULL) {
        status = guard_convert(upmem, upmem_words(a), polys, inverse, words);
    } else {
        const uint64_t start = upmem_clock();
        memcpy(words, upmem_words(a), (size_t)polys * ring_poly_words(backend->ring) * sizeof *words);
        status = inverse ? bfv_ntt_inverse(backend->ring, words, polys)
                         : bfv_ntt_forward(backend->ring, words, polys);
        backend->stats.convert += upmem_clock() - start;
    }
    if (status != BFV_OK) {
        upmem_drop(backend, out);
    }
    return status;
}

/* ---- accumulators: the family's, guarded ------------------------------------------------------- */

static int upmem_acc_new(struct bfv_backend *backend, struct bfv_acc *acc) {
    return guard_acc_new(upmem_of(backend), acc);
}

static void upmem_acc_drop(struct bfv_backend *backend, struct bfv_acc *acc) {
    guard_acc_drop(upmem_of(backend), acc);
}

static int upmem_acc_add(struct bfv_backend *backend, struct bfv_acc *acc, const struct bfv_array *a,
                         uint64_t first, uint64_t stride, uint64_t count) {
    return guard_acc_terms(upmem_of(backend), acc, a, first, NULL, 0, stride, count);
}

static int upmem_acc_mul(struct bfv_backend *backend, struct bfv_acc *acc, const struct bfv_array *a,
                         uint64_t first_a, const struct bfv_array *b, uint64_t first_b, uint64_t stride,
                         uint64_t count) {
    return guard_acc_terms(upmem_of(backend), acc, a, first_a, b, first_b, stride, count);
}

static int upmem_acc_merge(struct bfv_backend *backend, struct bfv_acc *acc, const struct bfv_acc *other) {
    return guard_acc_merge(upmem_of(backend), acc, other);
}

static int upmem_acc_save(struct bfv_backend *backend, const struct bfv_acc *acc, uint32_t *dst) {
    return guard_acc_save(upmem_of(backend), acc, dst);
}

static int upmem_acc_load(struct bfv_backend *backend, struct bfv_acc *acc, const uint32_t *src) {
    return guard_acc_load(upmem_of(backend), acc, src);
}

static int upmem_acc_finish(struct bfv_backend *backend, const struct bfv_acc *acc, const uint32_t *factor,
                            struct bfv_array *out) {
    struct upmem *upmem = upmem_of(backend);
    uint32_t *words = array_allocate(backend, out);
    if (words == NULL) {
        return BFV_E_MEMORY;
    }
    int status = guard_acc_save(upmem, acc, words);
    if (status == BFV_OK) {
        status = bfv_poly_mul_scalar(backend->ring, words, factor, acc->parts, words);
    }
    if (status != BFV_OK) {
        upmem_drop(backend, out);
    }
    return status;
}

#ifdef DPUSIM
#define BACKEND_NAME "sim"
#else
#define BACKEND_NAME "upmem"
#endif

static int upmem_events(const struct bfv_backend *backend, bfv_event *out, uint32_t room, uint32_t *count) {
    return upmem_recorded(upmem_of(backend), out, room, count);
}

static const struct backend_ops backend_upmem = {
    .name = BACKEND_NAME,
    .version = BACKEND_VERSION,
    .scaled = true,
    .open = upmem_open,
    .close = upmem_close,
    .info = upmem_info,
    .put = upmem_put,
    .get = upmem_get,
    .drop = upmem_drop,
    .wait = upmem_wait,
    .sync = upmem_sync,
    .binary = upmem_binary,
    .unary = upmem_unary,
    .convert = upmem_convert,
    .acc_new = upmem_acc_new,
    .acc_drop = upmem_acc_drop,
    .acc_add = upmem_acc_add,
    .acc_mul = upmem_acc_mul,
    .acc_merge = upmem_acc_merge,
    .acc_save = upmem_acc_save,
    .acc_load = upmem_acc_load,
    .acc_finish = upmem_acc_finish,
    .events = upmem_events,
};

/* The one symbol of a plug-in. */
const struct backend_ops *pybfv_backend(void);
__attribute__((visibility("default"))) const struct backend_ops *pybfv_backend(void) {
    return &backend_upmem;
}
