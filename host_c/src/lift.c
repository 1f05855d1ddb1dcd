/* Lifts out of R_q and rounding back into it, for a q of 32-bit primes. */
#include <stdlib.h>

#include "cpu/kernels.h"
#include "rns.h"
#include "wide.h"

static bool lifter_is_open(const bfv_lifter *lifter) {
    return lifter != NULL && lifter->magic == LIFTER_MAGIC;
}

void bfv_lifter_close(bfv_lifter *lifter) {
    if (lifter_is_open(lifter)) {
        lifter->magic = 0;
        bfv_ring_close(lifter->full);
        free(lifter->to_wide);
        free(lifter->to_q);
        free(lifter);
    }
}

static void fill(bfv_lifter *lifter) {
    const bfv_ring *full = lifter->full;
    rns_source_init(&lifter->q, full, 0, lifter->count);
    rns_source_init(&lifter->w, full, lifter->count, lifter->wide);
    for (uint32_t k = 0; k < lifter->wide; k++) {
        const struct zq_mod *mod = &full->prime[lifter->count + k].mod;
        rns_target_init(&lifter->to_wide[k], &lifter->q, mod);
        lifter->inv_q[k] = zq_inv((uint32_t)rns_mod(lifter->q.base.product, mod->p), mod);
    }
    for (uint32_t i = 0; i < lifter->count; i++) {
        rns_target_init(&lifter->to_q[i], &lifter->w, &full->prime[i].mod);
    }
}

int bfv_lifter_open(const bfv_ring *ring, const uint32_t *wide, uint32_t count, bfv_lifter **out) {
    if (!ring_is_open(ring) || wide == NULL || out == NULL || count == 0 || count > BFV_MAX_PRIMES ||
        ring->count + count > BFV_MAX_PRIMES) {
        return BFV_E_ARGUMENT;
    }
    uint32_t primes[BFV_MAX_PRIMES];
    for (uint32_t i = 0; i < ring->count; i++) {
        primes[i] = ring->prime[i].p;
    }
    memcpy(primes + ring->count, wide, count * sizeof *wide);
    bfv_ring *full = NULL;
    const int status = bfv_ring_open(ring->n, primes, ring->count + count, ring->body->name, &full);
    if (status != BFV_OK) {
        return status;
    }
    bfv_lifter *lifter = calloc(1, sizeof *lifter);
    struct rns_target *to_wide = calloc(count, sizeof *to_wide);
    struct rns_target *to_q = calloc(ring->count, sizeof *to_q);
    if (lifter == NULL || to_wide == NULL || to_q == NULL) {
        bfv_ring_close(full);
        free(lifter);
        free(to_wide);
        free(to_q);
        return BFV_E_MEMORY;
    }
    lifter->n = ring->n;
    lifter->count = ring->count;
    lifter->wide = count;
    lifter->full = full;
    lifter->to_wide = to_wide;
    lifter->to_q = to_q;
    fill(lifter);
    lifter->magic = LIFTER_MAGIC;
    *out = lifter;
    return BFV_OK;
}

/* Digits y[count][N] of x times s[i] mod p_i: y = x s inverse. Alias: y may be x. */
static void digits(const struct rns_source *source, const bfv_ring *full, const uint32_t *x,
                   const uint32_t *s, uint32_t *y) {
    const size_t n = full->n;
    for (uint32_t i = 0; i < source->count; i++) {
        const struct zq_mod *mod = &full->prime[source->first + i].mod;
        const uint32_t factor = s == NULL ? source->inverse[i] : zq_mul(source->inverse[i], s[i], mod);
        full->body->mul_scalar(y + i * n, x + i * n, factor, n, mod->p);
    }
}

void lifter_lift(const bfv_lifter *lifter, const uint32_t *x, uint32_t *out, uint32_t *scratch) {
    const bfv_ring *full = lifter->full;
    const size_t n = full->n;
    uint32_t *y = scratch, *v = scratch + lifter->count * n;
    memcpy(y, x, lifter->count * n * sizeof *y);
    for (uint32_t i = 0; i < lifter->count; i++) {
        full->body->ntt_inverse(y + i * n, full->n, &full->prime[i]);
    }
    digits(&lifter->q, full, y, NULL, y);
    rns_round(&lifter->q, full, y, v);
    for (uint32_t k = 0; k < lifter->wide; k++) {
        const struct bfv_prime *prime = &full->prime[lifter->count + k];
        rns_combine(&lifter->q, &lifter->to_wide[k], full, y, v, &prime->mod, out + k * n);
        full->body->ntt_forward(out + k * n, full->n, prime);
    }
}

/* Whether `polys` polynomials (at least one) of the given planes can exist in memory. */
static bool polys_are_valid(const bfv_lifter *lifter, uint64_t polys, uint32_t planes) {
    size_t bytes = 0;
    return polys != 0 && size_mul(polys, (size_t)planes * lifter->n * sizeof(uint32_t), &bytes) &&
           bytes <= PTRDIFF_MAX;
}

int bfv_lift(const bfv_lifter *lifter, const uint32_t *x, uint64_t polys, uint32_t *out) {
    if (!lifter_is_open(lifter) || x == NULL || out == NULL ||
        !polys_are_valid(lifter, polys, lifter->full->count)) {
        return BFV_E_ARGUMENT;
    }
    uint32_t *scratch = buffer_alloc(lifter_scratch(lifter) * sizeof *scratch);
    if (scratch == NULL) {
        return BFV_E_MEMORY;
    }
    const size_t n = lifter->n;
    for (uint64_t k = 0; k < polys; k++, x += lifter->count * n, out += lifter->wide * n) {
        lifter_lift(lifter, x, out, scratch);
    }
    buffer_free(scratch);
    return BFV_OK;
}

/* The integers of rounding one polynomial, each in coefficient form. With B = [T]_q, centred,
 *     t T/q = t (T - B)/q + t B/q,    round(t T/q) = t A + D,    A = (T - B)/q,    D = round(t B/q),
 * and D = (t B - [t B]_q)/q in the same way. A = round(T/q) lies within the wide primes' range for
 * every T of the whole range, and |D| <= t/2, so both are known from their wide residues alone. */
struct rounding_work {
    uint32_t *x;     /* [L + K][N]: T */
    uint32_t *y;     /* [max(L, K)][N]: digits */
    uint32_t *v;     /* [N] */
    uint32_t *b, *c; /* [K][N]: B, then A; [t B]_q, then D */
    uint32_t *part;  /* [N] */
};

/* Centred residues of `digits` of a source to all wide primes. */
static void to_wide(const bfv_lifter *lifter, const struct rounding_work *work, uint32_t *out) {
    const bfv_ring *full = lifter->full;
    rns_round(&lifter->q, full, work->y, work->v);
    for (uint32_t k = 0; k < lifter->wide; k++) {
        rns_combine(&lifter->q, &lifter->to_wide[k], full, work->y, work->v,
                    &full->prime[lifter->count + k].mod, out + (size_t)k * full->n);
    }
}

/* t_all: t mod every prime of the full ring. */
static void scale_round(const bfv_lifter *lifter, const uint32_t *t_all, const struct rounding_work *work,
                        uint32_t *out) {
    const bfv_ring *full = lifter->full;
    const struct cpu_kernels *body = full->body;
    const uint32_t n = full->n, count = lifter->count;
    for (uint32_t i = 0; i < full->count; i++) {
        body->ntt_inverse(work->x + (size_t)i * n, n, &full->prime[i]);
    }
    digits(&lifter->q, full, work->x, NULL, work->y);
    to_wide(lifter, work, work->b);
    digits(&lifter->q, full, work->x, t_all, work->y);
    to_wide(lifter, work, work->c);
    for (uint32_t k = 0; k < lifter->wide; k++) {
        const uint32_t p = full->prime[count + k].p;
        const size_t at = (size_t)k * n;
        body->mul_scalar(work->part, work->b + at, t_all[count + k], n, p);
        body->sub(work->c + at, work->part, work->c + at, n, p);
        body->mul_scalar(work->c + at, work->c + at, lifter->inv_q[k], n, p);
        body->sub(work->b + at, work->x + (size_t)(count + k) * n, work->b + at, n, p);
        body->mul_scalar(work->b + at, work->b + at, lifter->inv_q[k], n, p);
    }
    for (uint32_t turn = 0; turn < 2; turn++) { /* A, then D */
        digits(&lifter->w, full, turn == 0 ? work->b : work->c, NULL, work->y);
        rns_round(&lifter->w, full, work->y, work->v);
        for (uint32_t i = 0; i < count; i++) {
            const struct bfv_prime *prime = &full->prime[i];
            uint32_t *plane = out + (size_t)i * n;
            if (turn == 0) {
                rns_combine(&lifter->w, &lifter->to_q[i], full, work->y, work->v, &prime->mod, plane);
                body->mul_scalar(plane, plane, t_all[i], n, prime->p);
            } else {
                rns_combine(&lifter->w, &lifter->to_q[i], full, work->y, work->v, &prime->mod, work->part);
                body->add(plane, plane, work->part, n, prime->p);
                body->ntt_forward(plane, n, prime);
            }
        }
    }
}

bool rns_scale_is_valid(const struct rns_base *base, const uint64_t *t, uint32_t words, uint64_t *out) {
    if (t == NULL || words == 0 || words > BFV_MAX_T_WORDS) {
        return false;
    }
    memset(out, 0, RNS_WORDS * sizeof *out);
    memcpy(out, t, words * sizeof *t);
    return wide_public_bits(out, RNS_WORDS) != 0 && wide_less(base->product, out, RNS_WORDS) == 0;
}

int bfv_scale_round(const bfv_lifter *lifter, const uint64_t *t, uint32_t words, const uint32_t *x,
                    uint64_t polys, uint32_t *out) {
    uint64_t scale[RNS_WORDS];
    if (!lifter_is_open(lifter) || x == NULL || out == NULL ||
        !polys_are_valid(lifter, polys, lifter->full->count) ||
        !rns_scale_is_valid(&lifter->w.base, t, words, scale)) {
        return BFV_E_ARGUMENT;
    }
    const bfv_ring *full = lifter->full;
    const size_t n = full->n, count = lifter->count, wide = lifter->wide;
    const size_t most = count > wide ? count : wide;
    uint32_t *buffer = buffer_alloc((full->count + most + 2 * wide + 2) * n * sizeof *buffer);
    if (buffer == NULL) {
        return BFV_E_MEMORY;
    }
    struct rounding_work work;
    work.x = buffer;
    work.y = work.x + full->count * n;
    work.b = work.y + most * n;
    work.c = work.b + wide * n;
    work.v = work.c + wide * n;
    work.part = work.v + n;
    uint32_t t_all[BFV_MAX_PRIMES];
    for (uint32_t i = 0; i < full->count; i++) {
        t_all[i] = (uint32_t)rns_mod(scale, full->prime[i].p);
    }
    for (uint64_t k = 0; k < polys; k++, x += full->count * n, out += count * n) {
        memcpy(work.x, x, full->count * n * sizeof *x);
        scale_round(lifter, t_all, &work, out);
    }
    buffer_free(buffer);
    return BFV_OK;
}
