/* check.h: expectations, and results against them. */
#define _GNU_SOURCE /* getrandom */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "../cpu/kernels.h"
#include "check.h"

/* ---- points ----------------------------------------------------------------------------- */

static bool random_bytes(uint8_t *out, size_t size) {
    while (size != 0) {
        const ssize_t got = getrandom(out, size, 0);
        if (got < 0 && errno != EINTR) {
            return false;
        }
        out += got < 0 ? 0 : got;
        size -= got < 0 ? 0 : (size_t)got;
    }
    return true;
}

/* The greatest point mod p: some products of two values fit 64 bits where p allows, one in any case. 0 and 1
 * are no points: they would pass a lost part, and two parts in each other's place. */
static uint32_t greatest_point(uint32_t p) {
    uint32_t most = (UINT32_C(1) << 30) / (p - 1);
    most = most > 4 ? most - 1 : 3;
    most = most < POINT_MOST ? most : (uint32_t)POINT_MOST;
    return most < p - 2 ? most : p - 2;
}

int check_open(struct check *check, const bfv_ring *ring, bool full) {
    *check = (struct check){.full = full};
    if (full) {
        return BFV_OK;
    }
    const size_t words = ring_poly_words(ring);
    uint8_t *bytes = malloc(words);
    check->points = buffer_alloc(words * sizeof *check->points);
    int status = bytes == NULL || check->points == NULL ? BFV_E_MEMORY : BFV_OK;
    if (status == BFV_OK && !random_bytes(bytes, words)) {
        status = BFV_E_RANDOM;
    }
    for (uint32_t i = 0; i < ring->count && status == BFV_OK; i++) {
        const uint32_t p = ring->prime[i].p, most = greatest_point(p);
        const uint64_t value = (uint64_t)(most + 1) * (p - 1);
        check->limit[i] = UINT64_MAX / (value * value);
        for (size_t k = (size_t)i * ring->n; k < (size_t)(i + 1) * ring->n; k++) {
            check->points[k] = 2 + bytes[k] % (most - 1);
        }
    }
    free(bytes);
    if (status != BFV_OK) {
        check_close(check);
    }
    return status;
}

void check_close(struct check *check) {
    buffer_free(check->points);
    buffer_free(check->mask);
    buffer_free(check->folded);
    *check = (struct check){0};
}

/* ---- accumulators ------------------------------------------------------------------------ */

size_t check_words(const struct check *check, const bfv_ring *ring, uint32_t parts) {
    return (check->full ? parts : 1) * ring_poly_words(ring);
}

struct add_job {
    const struct check *check;
    const struct check_terms *terms;
    uint32_t *expected;
    uint32_t width, blocks; /* of a block of a plane, and how many */
};

/* One block of one plane, in all parts. */
static void add_block(void *argument, uint32_t unit) {
    const struct add_job *job = argument;
    const struct check_terms *terms = job->terms;
    const bfv_ring *ring = terms->ring;
    const uint32_t i = unit / job->blocks;
    const size_t poly = ring_poly_words(ring),
                 at = (size_t)unit * job->width; /* blocks lie one after the other */
    const struct bfv_prime *prime = &ring->prime[i];
    const struct cpu_kernels *body = ring->body;
    const uint32_t *const a[3] = {terms->a + at, terms->a + poly + at,
                                  terms->parts == 3 ? terms->a + 2 * poly + at : NULL};
    const size_t step = job->check->full ? poly : 0; /* from part to part of what is expected */
    uint32_t *const out[3] = {job->expected + at, job->expected + step + at, job->expected + 2 * step + at};
    if (terms->b == NULL && job->check->full) {
        for (uint32_t p = 0; p < terms->parts; p++) {
            body->acc_sum(out[p], a[p], terms->words, terms->count, job->width, prime);
        }
    } else if (terms->b == NULL) {
        body->point_sum(out[0], a, job->check->points + at, terms->words, terms->count, job->width, prime);
    } else {
        const uint32_t *const b[2] = {terms->b + at, terms->b + poly + at};
        if (!job->check->full) {
            body->point_mul(out[0], a, b, job->check->points + at, job->check->limit[i], terms->words,
                            terms->count, job->width, prime);
        } else if (terms->a == terms->b) {
            body->acc_square(out, a, terms->words, terms->count, job->width, prime);
        } else {
            body->acc_mul(out, a, b, terms->words, terms->count, job->width, prime);
        }
    }
}

void check_add(struct upmem *upmem, const struct check *check, uint32_t *expected,
               const struct check_terms *terms) {
    const uint32_t n = terms->ring->n;
    struct add_job job = {.check = check, .terms = terms, .expected = expected};
    job.width = n < (uint32_t)ACC_BLOCK ? n : (uint32_t)ACC_BLOCK;
    job.blocks = n / job.width;
    upmem_parallel(upmem, terms->ring->count * job.blocks, add_block, &job);
}

void check_value(const struct check *check, const bfv_ring *ring, const uint32_t *value, size_t step,
                 uint32_t parts, uint32_t *expected) {
    const size_t poly = ring_poly_words(ring);
    if (check->full) {
        for (uint32_t p = 0; p < parts; p++) {
            memcpy(expected + p * poly, value + p * step, poly * sizeof *expected);
        }
        return;
    }
    const size_t width = ring->n < (uint32_t)ACC_BLOCK ? ring->n : (size_t)ACC_BLOCK;
    memset(expected, 0, poly * sizeof *expected);
    for (size_t at = 0; at < poly; at += width) {
        const uint32_t *const x[3] = {value + at, value + step + at,
                                      parts == 3 ? value + 2 * step + at : NULL};
        ring->body->point_sum(expected + at, x, check->points + at, 0, 1, width, &ring->prime[at / ring->n]);
    }
}

bool check_compare(const struct check *check, const bfv_ring *ring, const uint32_t *expected,
                   const uint32_t *value, size_t step, uint32_t parts, uint32_t *wrong) {
    const size_t poly = ring_poly_words(ring), words = check_words(check, ring, parts);
    check_value(check, ring, value, step, parts, wrong);
    uint32_t all = 0;
    for (size_t k = 0; k < words; k++) {
        wrong[k] ^= expected[k];
        all |= wrong[k];
    }
    for (size_t k = poly; k < words; k++) {
        wrong[k % poly] |= wrong[k];
    }
    return all == 0;
}

/* ---- results, ciphertext by ciphertext ------------------------------------------------------ */

enum { WORKERS = 64 };

struct pointwise_job {
    const struct check *check;
    const bfv_ring *ring;
    const struct check_results *results;
    uint32_t workers;
    uint32_t *space; /* [workers][3][L][N] */
    size_t found[WORKERS];
};

/* out = x(s) of one ciphertext, plane i. */
static void values_of(const struct pointwise_job *job, const uint32_t *x, uint32_t parts, uint32_t i,
                      uint32_t *out) {
    const bfv_ring *ring = job->ring;
    const size_t poly = ring_poly_words(ring);
    const size_t width = ring->n < (uint32_t)ACC_BLOCK ? ring->n : (size_t)ACC_BLOCK;
    memset(out, 0, ring->n * sizeof *out);
    for (size_t c = 0; c < ring->n; c += width) {
        const size_t at = (size_t)i * ring->n + c;
        const uint32_t *const part[3] = {x + at, x + poly + at, parts == 3 ? x + 2 * poly + at : NULL};
        ring->body->point_sum(out + c, part, job->check->points + at, 0, 1, width, &ring->prime[i]);
    }
}

static void combine(enum family_op op, const struct cpu_kernels *body, uint32_t *out, const uint32_t *a,
                    const uint32_t *b, size_t n, const struct zq_mod *mod) {
    if (op == FAMILY_ADD) {
        body->add(out, a, b, n, mod->p);
    } else if (op == FAMILY_SUB) {
        body->sub(out, a, b, n, mod->p);
    } else {
        body->mul(out, a, b, n, mod);
    }
}

/* The first wrong coefficient of plane i of a result, or N. space: 3 N words. */
static size_t wrong_in_plane(const struct pointwise_job *job, const uint32_t *a, const uint32_t *b,
                             const uint32_t *out, uint32_t i, uint32_t *space) {
    const struct check_results *results = job->results;
    const bfv_ring *ring = job->ring;
    const struct cpu_kernels *body = ring->body;
    const struct zq_mod *mod = &ring->prime[i].mod;
    const size_t n = ring->n, poly = ring_poly_words(ring), at = i * n;
    const bool tensor = results->op == FAMILY_TENSOR;
    uint32_t *const x = space, *const y = space + n, *const z = space + 2 * n;
    size_t found = n;
    if (!job->check->full) {
        values_of(job, a, results->parts, i, x);
        values_of(job, out, tensor ? 3 : results->parts, i, z);
        if (results->op != FAMILY_SCALE) {
            values_of(job, b, results->parts, i, y);
        } /* else b is the same in every part */
        combine(results->op, body, x, x, results->op == FAMILY_SCALE ? b + at : y, n, mod);
        for (size_t k = n; k-- > 0;) {
            found = x[k] != z[k] ? k : found;
        }
        return found;
    }
    uint32_t *const products[3] = {x, y, z};
    const uint32_t *const left[2] = {a + at, a + poly + at}, *const right[2] = {b + at, b + poly + at};
    if (tensor) {
        body->tensor(products, left, right, n, mod);
    }
    for (uint32_t p = 0; p < (tensor ? 3 : results->parts); p++) {
        if (!tensor) {
            combine(results->op, body, x, a + p * poly + at, b + p * poly + at, n, mod);
        }
        const uint32_t *expected = tensor ? products[p] : x;
        for (size_t k = found; k-- > 0;) {
            found = expected[k] != out[p * poly + at + k] ? k : found;
        }
    }
    return found;
}

static void pointwise_share(void *argument, uint32_t worker) {
    struct pointwise_job *job = argument;
    const struct check_results *results = job->results;
    const size_t n = job->ring->n, poly = ring_poly_words(job->ring), words = results->parts * poly;
    const size_t words_out = (results->op == FAMILY_TENSOR ? 3 : results->parts) * poly;
    job->found[worker] = poly;
    for (uint64_t k = worker; k < results->count; k += job->workers) {
        for (uint32_t i = 0; i < job->ring->count; i++) {
            const size_t found = wrong_in_plane(job, results->a + k * results->sa * words,
                                                results->b + k * results->sb * words,
                                                results->out + k * words_out, i, job->space + worker * 3 * n);
            if (found != n) {
                job->found[worker] = i * n + found;
            }
        }
    }
}

int check_results(struct upmem *upmem, const struct check *check, const struct check_results *results,
                  size_t *found) {
    const bfv_ring *ring = upmem->backend->ring;
    struct pointwise_job job = {.check = check, .ring = ring, .results = results};
    job.workers = results->count < WORKERS ? (uint32_t)results->count : (uint32_t)WORKERS;
    job.space = buffer_alloc((size_t)job.workers * 3 * ring->n * sizeof *job.space);
    if (job.space == NULL) {
        return BFV_E_MEMORY;
    }
    upmem_parallel(upmem, job.workers, pointwise_share, &job);
    buffer_free(job.space);
    *found = ring_poly_words(ring);
    for (uint32_t i = 0; i < job.workers; i++) {
        *found = job.found[i] < *found ? job.found[i] : *found;
    }
    return BFV_OK;
}

/* ---- transforms ------------------------------------------------------------------------------ */

/* With x the inverse transform of r, F^T r has coefficients N x_0 and -N x_(N - k): psi^N = -1. */
static void fold(uint32_t *x, uint32_t n, const struct bfv_prime *prime) {
    const struct zq_mod *mod = &prime->mod;
    const uint32_t size = zq_reduce32(n, mod);
    for (uint32_t k = 1; 2 * k <= n; k++) {
        const uint32_t low = x[k];
        x[k] = zq_neg(x[n - k], mod->p);
        x[n - k] = zq_neg(low, mod->p);
    }
    for (uint32_t k = 0; k < n; k++) {
        x[k] = zq_mul(x[k], size, mod);
    }
}

int check_transforms_open(struct check *check, const bfv_ring *ring) {
    if (check->full || check->mask != NULL) {
        return BFV_OK;
    }
    const size_t words = ring_poly_words(ring);
    uint64_t *bytes = malloc(words * sizeof *bytes);
    uint32_t *mask = buffer_alloc(words * sizeof *mask), *folded = buffer_alloc(words * sizeof *folded);
    int status = bytes == NULL || mask == NULL || folded == NULL ? BFV_E_MEMORY : BFV_OK;
    if (status == BFV_OK && !random_bytes((uint8_t *)bytes, words * sizeof *bytes)) {
        status = BFV_E_RANDOM;
    }
    for (size_t k = 0; k < words && status == BFV_OK; k++) {
        mask[k] = zq_reduce64(bytes[k], &ring->prime[k / ring->n].mod);
    }
    if (status == BFV_OK) {
        memcpy(folded, mask, words * sizeof *folded);
        status = bfv_ntt_inverse(ring, folded, 1);
    }
    free(bytes);
    if (status != BFV_OK) {
        buffer_free(mask);
        buffer_free(folded);
        return status;
    }
    for (uint32_t i = 0; i < ring->count; i++) {
        fold(folded + (size_t)i * ring->n, ring->n, &ring->prime[i]);
    }
    check->mask = mask;
    check->folded = folded;
    return BFV_OK;
}

static uint32_t inner_product(const uint32_t *a, const uint32_t *b, uint32_t n,
                              const struct bfv_prime *prime) {
    const uint32_t limit = prime->max_products < n ? (uint32_t)prime->max_products : n;
    uint32_t result = 0;
    for (uint32_t first = 0; first < n; first += limit) {
        const uint32_t last = n - first < limit ? n : first + limit;
        uint64_t sum = 0;
        for (uint32_t k = first; k < last; k++) {
            sum += (uint64_t)a[k] * b[k];
        }
        result = zq_add(result, zq_reduce64(sum, &prime->mod), prime->p);
    }
    return result;
}

bool check_transform(const struct check *check, const bfv_ring *ring, uint32_t i, const uint32_t *ntt,
                     const uint32_t *coefficients, uint32_t *space) {
    const struct bfv_prime *prime = &ring->prime[i];
    const uint32_t n = ring->n;
    if (check->full) {
        memcpy(space, coefficients, n * sizeof *space);
        ring->body->ntt_forward(space, n, prime);
        return memcmp(space, ntt, n * sizeof *space) == 0;
    }
    const uint32_t *mask = check->mask + (size_t)i * n, *folded = check->folded + (size_t)i * n;
    return inner_product(mask, ntt, n, prime) == inner_product(folded, coefficients, n, prime);
}
