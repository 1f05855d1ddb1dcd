/* Lifts out of R_q and rounding back into it, for a q of 32-bit primes. */
#include <stdlib.h>

#include "cpu/kernels.h"
#include "rns.h"
#include "wide.h"

static bool lifter_is_open(const bfv_lifter *lifter) {
    return lifter != NULL && lifter->magic == LIFTER_MAGIC;
}

static void lifter_free(bfv_lifter *lifter) {
    lifter->magic = 0;
    bfv_ring_close(lifter->full);
    rns_change_free(&lifter->to_wide);
    rns_change_free(&lifter->to_q);
    free(lifter->digits);
    buffer_free(lifter->tables);
    free(lifter);
}

void bfv_lifter_close(bfv_lifter *lifter) {
    if (lifter_is_open(lifter)) {
        lifter_free(lifter);
    }
}

/* The primes of q with (q/p_i)^-1 in the last twiddles of the way back, beside N^-1. tables: 2 N words each.
 */
static void fill_digits(bfv_lifter *lifter) {
    const size_t n = lifter->n;
    for (uint32_t i = 0; i < lifter->count; i++) {
        struct bfv_prime *prime = &lifter->digits[i];
        *prime = lifter->full->prime[i];
        uint32_t *inverse = lifter->tables + 2 * i * n, *shoup = inverse + n;
        memcpy(inverse, prime->inverse, n * sizeof *inverse);
        memcpy(shoup, prime->inverse_shoup, n * sizeof *shoup);
        for (uint32_t k = 0; k < 2; k++) {
            inverse[k] = zq_mul(inverse[k], lifter->to_wide.inverse[i], &prime->mod);
            shoup[k] = zq_shoup(inverse[k], prime->p);
        }
        prime->inverse = inverse;
        prime->inverse_shoup = shoup;
    }
}

int bfv_lifter_open(const bfv_ring *ring, const uint32_t *wide, uint32_t count, bfv_lifter **out) {
    if (!ring_is_open(ring) || !is_aligned(wide, _Alignof(uint32_t)) || out == NULL || count == 0 ||
        count > BFV_MAX_PRIMES || ring->count + count > BFV_MAX_PRIMES) {
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
    if (lifter == NULL) {
        bfv_ring_close(full);
        return BFV_E_MEMORY;
    }
    lifter->n = ring->n;
    lifter->count = ring->count;
    lifter->wide = count;
    lifter->full = full;
    lifter->digits = calloc(ring->count, sizeof *lifter->digits);
    lifter->tables = buffer_alloc(2 * ring_poly_words(ring) * sizeof *lifter->tables);
    if (lifter->digits == NULL || lifter->tables == NULL ||
        !rns_change_init(&lifter->to_wide, full, 0, ring->count, ring->count, count) ||
        !rns_change_init(&lifter->to_q, full, ring->count, count, 0, ring->count)) {
        lifter_free(lifter);
        return BFV_E_MEMORY;
    }
    fill_digits(lifter);
    for (uint32_t k = 0; k < count; k++) {
        const struct zq_mod *mod = &full->prime[ring->count + k].mod;
        lifter->inv_q[k] = zq_inv((uint32_t)rns_mod(lifter->to_wide.base.product, mod->p), mod);
    }
    lifter->magic = LIFTER_MAGIC;
    *out = lifter;
    return BFV_OK;
}

void lifter_lift(const bfv_lifter *lifter, const uint32_t *x, uint32_t *out, uint32_t *scratch) {
    const bfv_ring *full = lifter->full;
    const size_t n = full->n;
    for (uint32_t i = 0; i < lifter->count; i++) {
        full->body->ntt_inverse_to(scratch + i * n, x + i * n, full->n, &lifter->digits[i]);
    }
    full->body->rns_convert(out, scratch, n, &lifter->to_wide);
    for (uint32_t k = 0; k < lifter->wide; k++) {
        full->body->ntt_forward(out + k * n, full->n, &full->prime[lifter->count + k]);
    }
}

/* Whether `polys` polynomials (at least one) can exist in memory, x of some planes and out of others, apart.
 */
static bool polys_are_valid(const bfv_lifter *lifter, uint64_t polys, const uint32_t *x, uint32_t planes,
                            const uint32_t *out, uint32_t out_planes) {
    size_t bytes = 0;
    const size_t plane = lifter->n * sizeof *x;
    return is_aligned(x, _Alignof(uint32_t)) && is_aligned(out, _Alignof(uint32_t)) && polys != 0 &&
           size_mul(polys, lifter->full->count * plane, &bytes) && bytes <= PTRDIFF_MAX &&
           !overlaps(x, polys * planes * plane, out, polys * out_planes * plane);
}

int bfv_lift(const bfv_lifter *lifter, const uint32_t *x, uint64_t polys, uint32_t *out) {
    if (!lifter_is_open(lifter) || !polys_are_valid(lifter, polys, x, lifter->count, out, lifter->wide)) {
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
    uint32_t *y;     /* [L][N]: digits */
    uint32_t *b, *c; /* [K][N]: B, then A; [t B]_q, then D */
    uint32_t *low;   /* [L][N] */
};

/* t: t mod every prime of the full ring. */
static void scale_round(const bfv_lifter *lifter, const uint32_t *t, const struct rounding_work *work,
                        uint32_t *out) {
    const bfv_ring *full = lifter->full;
    const struct cpu_kernels *body = full->body;
    const uint32_t n = full->n, count = lifter->count;
    uint32_t *x = work->x;
    for (uint32_t i = 0; i < full->count; i++, x += n) {
        body->ntt_inverse(x, n, i < count ? &lifter->digits[i] : &full->prime[i]);
    }
    body->rns_convert(work->b, work->x, n, &lifter->to_wide);
    for (uint32_t i = 0; i < count; i++) {
        body->mul_scalar(work->y + (size_t)i * n, work->x + (size_t)i * n, t[i], n, full->prime[i].p);
    }
    body->rns_convert(work->c, work->y, n, &lifter->to_wide);
    for (uint32_t k = 0; k < lifter->wide; k++) {
        const uint32_t p = full->prime[count + k].p;
        uint32_t *b = work->b + (size_t)k * n, *c = work->c + (size_t)k * n;
        x = work->x + (size_t)(count + k) * n;
        body->sub(x, x, b, n, p);
        body->mul_scalar(b, b, t[count + k], n, p);
        body->sub(c, b, c, n, p);
        /* A and D, as digits */
        const uint32_t factor =
            zq_mul(lifter->inv_q[k], lifter->to_q.inverse[k], &full->prime[count + k].mod);
        body->mul_scalar(b, x, factor, n, p);
        body->mul_scalar(c, c, factor, n, p);
    }
    body->rns_convert(out, work->b, n, &lifter->to_q);
    body->rns_convert(work->low, work->c, n, &lifter->to_q);
    for (uint32_t i = 0; i < count; i++) {
        const struct bfv_prime *prime = &full->prime[i];
        uint32_t *plane = out + (size_t)i * n;
        body->mul_scalar(plane, plane, t[i], n, prime->p);
        body->add(plane, plane, work->low + (size_t)i * n, n, prime->p);
        body->ntt_forward(plane, n, prime);
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

static size_t rounding_words(const bfv_lifter *lifter) {
    return ((size_t)lifter->full->count + 2 * lifter->count + 2 * lifter->wide) * lifter->n;
}

static struct rounding_work rounding_work_in(const bfv_lifter *lifter, uint32_t *buffer) {
    const size_t n = lifter->n, count = lifter->count;
    struct rounding_work work;
    work.x = buffer;
    work.y = work.x + lifter->full->count * n;
    work.low = work.y + count * n;
    work.b = work.low + count * n;
    work.c = work.b + lifter->wide * n;
    return work;
}

/* t mod every prime. */
static void scale_residues(const bfv_ring *full, const uint64_t *scale, uint32_t *t) {
    for (uint32_t i = 0; i < full->count; i++) {
        t[i] = (uint32_t)rns_mod(scale, full->prime[i].p);
    }
}

int bfv_scale_round(const bfv_lifter *lifter, const uint64_t *t, uint32_t words, const uint32_t *x,
                    uint64_t polys, uint32_t *out) {
    uint64_t scale[RNS_WORDS];
    if (!lifter_is_open(lifter) ||
        !polys_are_valid(lifter, polys, x, lifter->full->count, out, lifter->count) ||
        !rns_scale_is_valid(&lifter->to_q.base, t, words, scale)) {
        return BFV_E_ARGUMENT;
    }
    const bfv_ring *full = lifter->full;
    const size_t n = full->n, count = lifter->count;
    uint32_t *buffer = buffer_alloc(rounding_words(lifter) * sizeof *buffer);
    if (buffer == NULL) {
        return BFV_E_MEMORY;
    }
    const struct rounding_work work = rounding_work_in(lifter, buffer);
    uint32_t t_all[BFV_MAX_PRIMES];
    scale_residues(full, scale, t_all);
    for (uint64_t k = 0; k < polys; k++, x += full->count * n, out += count * n) {
        memcpy(work.x, x, full->count * n * sizeof *x);
        scale_round(lifter, t_all, &work, out);
    }
    buffer_free(buffer);
    return BFV_OK;
}

/* total [3][L + K][N] = the tensor of the integers of a and b, or plus it. lifted: [4][K][N] work space, one:
 * [3][N]. */
static void add_tensor(const bfv_lifter *lifter, const uint32_t *a, const uint32_t *b, bool first,
                       uint32_t *lifted, uint32_t *one, uint32_t *scratch, uint32_t *total) {
    const bfv_ring *full = lifter->full;
    const size_t n = full->n, poly = lifter->count * n, wide = lifter->wide * n, all = full->count * n;
    const uint32_t *const inputs[2] = {a, b};
    for (uint32_t k = 0; k < (a == b ? 2 : 4); k++) {
        lifter_lift(lifter, inputs[k / 2] + k % 2 * poly, lifted + k * wide, scratch);
    }
    for (uint32_t i = 0; i < full->count; i++) {
        const struct zq_mod *mod = &full->prime[i].mod;
        const uint32_t *u0 = a + i * n, *v0 = b + i * n, *u1 = u0 + poly, *v1 = v0 + poly;
        if (i >= lifter->count) {
            u0 = lifted + (i - lifter->count) * n, u1 = u0 + wide;
            v0 = a == b ? u0 : u0 + 2 * wide, v1 = a == b ? u1 : u1 + 2 * wide;
        }
        uint32_t *const plane = total + i * n;
        uint32_t *const sums[3] = {plane, plane + all, plane + 2 * all}, *const terms[3] = {one, one + n,
                                                                                            one + 2 * n};
        full->body->tensor(first ? sums : terms, (const uint32_t *const[]){u0, u1},
                           (const uint32_t *const[]){v0, v1}, n, mod);
        for (uint32_t part = 0; !first && part < 3; part++) {
            full->body->add(sums[part], sums[part], terms[part], n, mod->p);
        }
    }
}

int bfv_scaled_dot(const bfv_lifter *lifter, const uint64_t *t, uint32_t words, const uint32_t *const *a,
                   const uint32_t *const *b, uint64_t pairs, uint32_t *out) {
    uint64_t scale[RNS_WORDS];
    if (!lifter_is_open(lifter) || a == NULL || b == NULL || pairs == 0 ||
        !is_aligned(out, _Alignof(uint32_t)) || !rns_scale_is_valid(&lifter->to_q.base, t, words, scale)) {
        return BFV_E_ARGUMENT;
    }
    const bfv_ring *full = lifter->full;
    const size_t n = full->n, poly = lifter->count * n, all = full->count * n;
    for (uint64_t k = 0; k < pairs; k++) {
        for (uint32_t side = 0; side < 2; side++) {
            const uint32_t *x = side == 0 ? a[k] : b[k];
            if (!is_aligned(x, _Alignof(uint32_t)) ||
                overlaps(x, 2 * poly * sizeof *x, out, 3 * poly * sizeof *x)) {
                return BFV_E_ARGUMENT;
            }
        }
    }
    const size_t lifted_words = 4 * lifter->wide * n;
    uint32_t *buffer = buffer_alloc(
        (3 * all + lifted_words + 3 * n + lifter_scratch(lifter) + rounding_words(lifter)) * sizeof *buffer);
    if (buffer == NULL) {
        return BFV_E_MEMORY;
    }
    uint32_t *total = buffer, *lifted = total + 3 * all, *one = lifted + lifted_words, *scratch = one + 3 * n;
    struct rounding_work work = rounding_work_in(lifter, scratch + lifter_scratch(lifter));
    uint32_t t_all[BFV_MAX_PRIMES];
    for (uint64_t k = 0; k < pairs; k++) {
        add_tensor(lifter, a[k], b[k], k == 0, lifted, one, scratch, total);
    }
    scale_residues(full, scale, t_all);
    for (uint32_t part = 0; part < 3; part++) {
        work.x = total + part * all;
        scale_round(lifter, t_all, &work, out + part * poly);
    }
    buffer_free(buffer);
    return BFV_OK;
}
