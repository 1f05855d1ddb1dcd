/* Randomness into polynomials, and encryption under a public key. The random
 * bytes come from the caller; what they become is part of the file format.
 * Nothing here touches a secret key: the server re-randomises with it too. */
#include <stdatomic.h>

#include "backend_cpu.h"
#include "client.h"
#include "wipe.h"

enum { ERROR_BYTES = 6 /* of one coefficient */ };

static bool dimension_is_valid(uint32_t n) {
    return n >= BFV_MIN_N && n <= BFV_MAX_N;
}

int bfv_expand_uniform(const bfv_ring *ring, uint32_t index, const uint8_t *stream, size_t bytes,
                       uint32_t *out, uint32_t *filled) {
    if (!ring_is_open(ring) || index >= ring->count || (stream == NULL && bytes != 0) || bytes % 4 != 0 ||
        !is_aligned(out, _Alignof(uint32_t)) || !is_aligned(filled, _Alignof(uint32_t)) ||
        *filled > ring->n || overlaps(stream, bytes, out, ring->n * sizeof *out) ||
        overlaps(stream, bytes, filled, sizeof *filled) ||
        overlaps(out, ring->n * sizeof *out, filled, sizeof *filled)) {
        return BFV_E_ARGUMENT;
    }
    const struct bfv_prime *prime = &ring->prime[index];
    const uint32_t mask = (UINT32_C(1) << prime->bits) - 1;
    *filled = ring->body->uniform(out, *filled, ring->n, stream, bytes, prime->p, mask);
    return BFV_OK;
}

int bfv_expand_planes(const bfv_ring *ring, const uint8_t *streams, const size_t *bytes, uint32_t *out,
                      uint32_t *filled) {
    if (!ring_is_open(ring) || streams == NULL || !is_aligned(bytes, _Alignof(size_t)) ||
        !is_aligned(out, _Alignof(uint32_t)) || !is_aligned(filled, _Alignof(uint32_t))) {
        return BFV_E_ARGUMENT;
    }
    const size_t count = ring->count, out_bytes = ring_poly_words(ring) * sizeof *out;
    size_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (bytes[i] % 4 != 0 || bytes[i] > PTRDIFF_MAX - total) {
            return BFV_E_ARGUMENT;
        }
        total += bytes[i];
    }
    if (overlaps(streams, total, out, out_bytes) ||
        overlaps(streams, total, filled, count * sizeof *filled) ||
        overlaps(bytes, count * sizeof *bytes, out, out_bytes) ||
        overlaps(bytes, count * sizeof *bytes, filled, count * sizeof *filled) ||
        overlaps(out, out_bytes, filled, count * sizeof *filled)) {
        return BFV_E_ARGUMENT;
    }
    for (uint32_t i = 0; i < count; i++, out += ring->n) {
        const struct bfv_prime *prime = &ring->prime[i];
        const uint32_t mask = (UINT32_C(1) << prime->bits) - 1;
        filled[i] = ring->body->uniform(out, 0, ring->n, streams, bytes[i], prime->p, mask);
        streams += bytes[i];
    }
    return BFV_OK;
}

size_t bfv_ternary_bytes(uint32_t n) {
    return (size_t)n + n / 8 + 64;
}

size_t bfv_error_bytes(uint32_t n) {
    return (size_t)n * ERROR_BYTES;
}

size_t bfv_encrypt_bytes(uint32_t n, uint32_t parts) {
    if (!dimension_is_valid(n) || (parts != 2 && parts != 3)) {
        return 0;
    }
    return (parts - 1) * bfv_ternary_bytes(n) + parts * bfv_error_bytes(n);
}

int bfv_sample_ternary(uint32_t n, const uint8_t *rnd, size_t bytes, int8_t *out) {
    if (!dimension_is_valid(n) || rnd == NULL || out == NULL || overlaps(rnd, bytes, out, n)) {
        return BFV_E_ARGUMENT;
    }
    return cpu_body(0)->ternary(out, n, rnd, bytes) ? BFV_OK : BFV_E_RANDOM;
}

int bfv_sample_error(uint32_t n, const uint8_t *rnd, size_t bytes, int8_t *out) {
    if (!dimension_is_valid(n) || rnd == NULL || out == NULL || overlaps(rnd, bfv_error_bytes(n), out, n)) {
        return BFV_E_ARGUMENT;
    }
    if (bytes < bfv_error_bytes(n)) {
        return BFV_E_RANDOM;
    }
    cpu_body(0)->error(out, n, rnd);
    return BFV_OK;
}

/* ---- encryption under a public key ---------------------------------------- */

/* Work space of an encryption, wiped when it ends. */
struct scratch {
    uint32_t *u;     /* [parts - 1][N]: ternary polynomials mod one prime, NTT form */
    uint32_t *m;     /* [L][N], when encoding comes first */
    int8_t *ternary; /* [parts - 1][N] */
    int8_t *error;   /* [parts][N] */
    void *buffer;
    size_t bytes;
};

static void scratch_close(struct scratch *w) {
    wipe_and_free(w->buffer, w->bytes);
}

static bool scratch_open(struct scratch *w, const bfv_ring *ring, uint32_t parts, bool encodes) {
    const size_t n = ring->n, words = (parts - 1 + (encodes ? ring->count : 0)) * n;
    w->bytes = words * sizeof *w->u + (2 * parts - 1) * n;
    w->buffer = buffer_alloc(w->bytes);
    w->u = w->buffer;
    if (w->buffer == NULL) {
        return false;
    }
    w->m = w->u + (parts - 1) * n;
    w->ternary = (int8_t *)(w->u + words);
    w->error = w->ternary + (parts - 1) * n;
    return true;
}

/* The public key times 2^32, as encrypt_one needs it; NULL without memory. */
static uint32_t *lift_key(const bfv_ring *ring, const uint32_t *pk) {
    uint32_t *lifted = buffer_alloc(2 * ring_poly_words(ring) * sizeof *lifted);
    for (uint32_t plane = 0; lifted != NULL && plane < 2 * ring->count; plane++) {
        const struct bfv_prime *prime = &ring->prime[plane % ring->count];
        const size_t at = (size_t)plane * ring->n;
        ring->body->mul_scalar(lifted + at, pk + at, prime->mod.r32, ring->n, prime->p);
    }
    return lifted;
}

/* Part j is the sum of p_i u_k over i + k = j, plus e_j, plus m for j = 0. Prime by prime, so that its planes
 * stay in the cache. pk: of lift_key; rnd: bfv_encrypt_bytes. out is written only where the bytes suffice. */
static int encrypt_one(const struct scratch *w, const bfv_ring *ring, const uint32_t *pk, const uint32_t *m,
                       const uint8_t *rnd, uint32_t parts, uint32_t *out) {
    const struct cpu_kernels *body = ring->body;
    const uint32_t n = ring->n;
    const size_t words = ring_poly_words(ring);
    for (uint32_t k = 0; k < parts - 1; k++) {
        if (!body->ternary(w->ternary + (size_t)k * n, n, rnd, bfv_ternary_bytes(n))) {
            return BFV_E_RANDOM;
        }
        rnd += bfv_ternary_bytes(n);
    }
    body->error(w->error, (size_t)parts * n, rnd);
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct bfv_prime *prime = &ring->prime[i];
        const size_t at = (size_t)i * n;
        for (uint32_t k = 0; k < parts - 1; k++) {
            body->small(w->u + (size_t)k * n, w->ternary + (size_t)k * n, NULL, n, &prime->mod);
            body->ntt_forward(w->u + (size_t)k * n, n, prime);
        }
        for (uint32_t j = 0; j < parts; j++) {
            uint32_t *part = out + j * words + at;
            body->small(part, w->error + (size_t)j * n, m != NULL && j == 0 ? m + at : NULL, n, &prime->mod);
            body->ntt_forward(part, n, prime);
            for (uint32_t p = 0; p < 2; p++) {
                if (p <= j && j - p < parts - 1) {
                    body->mul_lifted(part, w->u + (size_t)(j - p) * n, pk + p * words + at, part, n, prime);
                }
            }
        }
    }
    return BFV_OK;
}

/* Both encryptions. */
static int encrypt_parts(const bfv_ring *ring, const uint32_t *pk, const uint32_t *m, const uint8_t *rnd,
                         size_t bytes, uint32_t parts, uint32_t *out) {
    if (!ring_is_open(ring) || pk == NULL || rnd == NULL || !is_aligned(out, _Alignof(uint32_t))) {
        return BFV_E_ARGUMENT;
    }
    const size_t words = ring_poly_words(ring);
    const size_t poly_bytes = words * sizeof *out, out_bytes = parts * poly_bytes;
    if (overlaps(pk, 2 * poly_bytes, out, out_bytes) ||
        overlaps(rnd, bfv_encrypt_bytes(ring->n, parts), out, out_bytes) ||
        (m != NULL && overlaps(m, poly_bytes, out, out_bytes))) {
        return BFV_E_ARGUMENT;
    }
    if (bytes < bfv_encrypt_bytes(ring->n, parts)) {
        return BFV_E_RANDOM;
    }
    int status = bfv_check_residues(ring, pk, 2);
    if (status == BFV_OK && m != NULL) {
        status = bfv_check_residues(ring, m, 1);
    }
    if (status != BFV_OK) {
        return status;
    }
    struct scratch w;
    uint32_t *lifted = lift_key(ring, pk);
    if (lifted == NULL || !scratch_open(&w, ring, parts, false)) {
        buffer_free(lifted);
        return BFV_E_MEMORY;
    }
    status = encrypt_one(&w, ring, lifted, m, rnd, parts, out);
    scratch_close(&w);
    buffer_free(lifted);
    return status;
}

int bfv_encrypt_public(const bfv_ring *ring, const uint32_t *pk, const uint32_t *m, const uint8_t *rnd,
                       size_t bytes, uint32_t *out) {
    return encrypt_parts(ring, pk, m, rnd, bytes, 2, out);
}

int bfv_encrypt_zero3(const bfv_ring *ring, const uint32_t *pk, const uint8_t *rnd, size_t bytes,
                      uint32_t *out) {
    return encrypt_parts(ring, pk, NULL, rnd, bytes, 3, out);
}

struct encrypt_job {
    const bfv_ring *ring;
    const uint32_t *pk; /* of lift_key */
    const struct client_values *values;
    const uint8_t *rnd;
    uint32_t *out;
    atomic_int status;
};

static void encrypt_units(void *argument, uint64_t first, uint64_t last) {
    struct encrypt_job *job = argument;
    const bfv_ring *ring = job->ring;
    const struct client_values *values = job->values;
    const size_t size = bfv_encrypt_bytes(ring->n, 2), words = 2 * ring_poly_words(ring);
    struct scratch w;
    struct encoder_work work;
    const bool ready = scratch_open(&w, ring, 2, true), codes = encoder_work_open(&work, values->encoder);
    int status = ready && codes ? BFV_OK : BFV_E_MEMORY;
    for (uint64_t k = first; status == BFV_OK && k < last; k++) {
        encoder_encode(values->encoder, client_values_at(values, k), values->words, values->width, &work,
                       w.m);
        status = encrypt_one(&w, ring, job->pk, w.m, job->rnd + k * size, 2,
                             job->out + k * values->stride * words);
    }
    if (ready) {
        scratch_close(&w);
    }
    if (codes) {
        encoder_work_close(&work);
    }
    if (status != BFV_OK) {
        atomic_store_explicit(&job->status, status, memory_order_relaxed);
    }
}

int bfv_encrypt_many(const bfv_ring *ring, const uint32_t *pk, const bfv_encoder *encoder,
                     const uint64_t *values, uint32_t words, uint32_t width, uint64_t count,
                     const uint8_t *rnd, size_t bytes, uint32_t threads, uint32_t *out, uint64_t stride) {
    const struct client_values given = {encoder, values, words, width, count, stride};
    size_t out_bytes = 0;
    if (!ring_is_open(ring) || !client_values_are_valid(&given, ring, 2, out, &out_bytes) || pk == NULL ||
        rnd == NULL || threads > BFV_MAX_THREADS) {
        return BFV_E_ARGUMENT;
    }
    const size_t need = (size_t)count * bfv_encrypt_bytes(ring->n, 2); /* less than out_bytes */
    if (overlaps(pk, 2 * ring_poly_words(ring) * sizeof *pk, out, out_bytes) ||
        overlaps(rnd, need, out, out_bytes)) {
        return BFV_E_ARGUMENT;
    }
    if (bytes < need) {
        return BFV_E_RANDOM;
    }
    const int status = bfv_check_residues(ring, pk, 2);
    if (status != BFV_OK) {
        return status;
    }
    uint32_t *lifted = lift_key(ring, pk);
    if (lifted == NULL) {
        return BFV_E_MEMORY;
    }
    struct encrypt_job job = {ring, lifted, &given, rnd, out, BFV_OK};
    client_in_parallel(threads, count, out_bytes, encrypt_units, &job);
    buffer_free(lifted);
    return atomic_load_explicit(&job.status, memory_order_relaxed);
}
