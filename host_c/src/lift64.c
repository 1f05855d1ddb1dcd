/* Lifts and rounding for a q of moduli up to 61 bits, such as SEAL's. */
#include <stdlib.h>

#include "cpu/kernels.h"
#include "rns.h"
#include "wide.h"

/* Bits after the point in sums of fractions. */
#define POINT 58u

#define LIFTER64_MAGIC UINT32_C(0x4c463634)

/* A modulus below 2^61 with Montgomery's constants for R = 2^64. */
struct modulus {
    uint64_t p;
    uint64_t neg_inv; /* -1/p mod 2^64 */
    uint64_t weight;  /* floor(2^(63 + bits) / p) */
    uint32_t shift;   /* bits + 63 - POINT */
    uint64_t inverse; /* (q/p)^-1 2^64 mod p */
    /* From the wide primes: (W/w_k) 2^64 mod p, and -W 2^64 mod p. */
    uint64_t factor[BFV_MAX_PRIMES + 1];
};

struct bfv_lifter64 {
    uint32_t magic;
    uint32_t n, count;
    bfv_ring *wide;
    struct modulus mod[BFV_MAX_64_PRIMES];
    struct rns_base q;
    struct rns_change w; /* no targets */
    /* To wide prime k: q/p_i mod it, -q mod it, q^-1 mod it. */
    uint32_t factor[BFV_MAX_PRIMES][BFV_MAX_64_PRIMES], minus_q[BFV_MAX_PRIMES], inv_q[BFV_MAX_PRIMES];
};

static bool lifter64_is_open(const bfv_lifter64 *lifter) {
    return lifter != NULL && lifter->magic == LIFTER64_MAGIC;
}

void bfv_lifter64_close(bfv_lifter64 *lifter) {
    if (lifter64_is_open(lifter)) {
        lifter->magic = 0;
        bfv_ring_close(lifter->wide);
        rns_change_free(&lifter->w);
        buffer_free(lifter);
    }
}

/* x / 2^64 mod p (Montgomery). In: x < 2^64 p, p < 2^63. Out: < p. */
static inline uint64_t redc(wide_pair x, const struct modulus *mod) {
    const uint64_t m = (uint64_t)x * mod->neg_inv;
    const uint64_t high = (uint64_t)(x >> 64) + (uint64_t)(((wide_pair)m * mod->p) >> 64);
    /* The low halves add up to 0 or to 2^64: a carry unless the low half of x is 0. */
    uint64_t r = high + ((uint64_t)x != 0);
    const uint64_t less = r - mod->p;
    r = less + (mod->p & wide_mask(less >> 63));
    ZQ_ASSERT(r < mod->p);
    return r;
}

/* a b / 2^64 mod p. In: a < 2^64, b < p. */
static inline uint64_t mul_redc(uint64_t a, uint64_t b, const struct modulus *mod) {
    return redc((wide_pair)a * b, mod);
}

static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* a^-1 mod p, for coprime a and p < 2^63 (Euclid). */
static uint64_t inverse_of(uint64_t a, uint64_t p) {
    int64_t u = 0, v = 1;
    uint64_t r = p, s = a % p;
    while (s != 0) {
        const uint64_t quotient = r / s;
        const uint64_t rest = r - quotient * s;
        const int64_t next = u - (int64_t)quotient * v;
        r = s;
        s = rest;
        u = v;
        v = next;
    }
    return u < 0 ? (uint64_t)u + p : (uint64_t)u;
}

static uint64_t to_montgomery(uint64_t x, uint64_t p) {
    return (uint64_t)(((wide_pair)x << 64) % p);
}

static bool moduli_are_valid(const uint64_t *primes, uint32_t count, const uint32_t *wide,
                             uint32_t wide_count) {
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t p = primes[i];
        if (p < 3 || p % 2 == 0 || p >> 61 != 0) {
            return false;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (gcd(p, primes[k]) != 1) {
                return false;
            }
        }
        for (uint32_t k = 0; k < wide_count; k++) {
            if (wide[k] == 0 || p % wide[k] == 0) {
                return false;
            }
        }
    }
    return true;
}

static void fill(bfv_lifter64 *lifter, const uint64_t *primes) {
    const bfv_ring *wide = lifter->wide;
    rns_base_init(&lifter->q, primes, lifter->count);
    for (uint32_t i = 0; i < lifter->count; i++) {
        struct modulus *mod = &lifter->mod[i];
        const uint64_t p = primes[i];
        const uint32_t bits = 64 - (uint32_t)__builtin_clzll(p);
        mod->p = p;
        mod->neg_inv = 1; /* Newton: the number of right bits doubles, six times from one */
        for (uint32_t step = 0; step < 6; step++) {
            mod->neg_inv *= 2 - p * mod->neg_inv;
        }
        mod->neg_inv = 0 - mod->neg_inv;
        mod->weight = (uint64_t)(((wide_pair)1 << (63 + bits)) / p);
        mod->shift = bits + 63 - POINT;
        mod->inverse = to_montgomery(inverse_of(rns_mod(lifter->q.cofactor[i], p), p), p);
        for (uint32_t k = 0; k < wide->count; k++) {
            mod->factor[k] = to_montgomery(rns_mod(lifter->w.base.cofactor[k], p), p);
        }
        mod->factor[wide->count] = to_montgomery(p - rns_mod(lifter->w.base.product, p), p);
    }
    for (uint32_t k = 0; k < wide->count; k++) {
        const struct zq_mod *mod = &wide->prime[k].mod;
        for (uint32_t i = 0; i < lifter->count; i++) {
            lifter->factor[k][i] = (uint32_t)rns_mod(lifter->q.cofactor[i], mod->p);
        }
        const uint32_t q = (uint32_t)rns_mod(lifter->q.product, mod->p);
        lifter->minus_q[k] = zq_neg(q, mod->p);
        lifter->inv_q[k] = zq_inv(q, mod);
    }
}

int bfv_lifter64_open(uint32_t n, const uint64_t *primes, uint32_t count, const uint32_t *wide,
                      uint32_t wide_count, bfv_lifter64 **out) {
    if (!is_aligned(primes, _Alignof(uint64_t)) || !is_aligned(wide, _Alignof(uint32_t)) || out == NULL ||
        count == 0 || count > BFV_MAX_64_PRIMES || wide_count == 0 || wide_count > BFV_MAX_PRIMES ||
        !moduli_are_valid(primes, count, wide, wide_count)) {
        return BFV_E_ARGUMENT;
    }
    bfv_ring *ring = NULL;
    const int status = bfv_ring_open(n, wide, wide_count, NULL, &ring);
    if (status != BFV_OK) {
        return status;
    }
    bfv_lifter64 *lifter = buffer_alloc(sizeof *lifter);
    if (lifter == NULL) {
        bfv_ring_close(ring);
        return BFV_E_MEMORY;
    }
    memset(lifter, 0, sizeof *lifter);
    if (!rns_change_init(&lifter->w, ring, 0, wide_count, 0, 0)) {
        bfv_ring_close(ring);
        buffer_free(lifter);
        return BFV_E_MEMORY;
    }
    lifter->n = n;
    lifter->count = count;
    lifter->wide = ring;
    fill(lifter, primes);
    lifter->magic = LIFTER64_MAGIC;
    *out = lifter;
    return BFV_OK;
}

/* x[L][N] times s[i] (Montgomery form; NULL: times 1), centred, to out[K][N], all in coefficient form. Only
 * sums too close to a tie for fixed point, which come once in 2^50 random ones, take another way. */
static void lift_coefficients(const bfv_lifter64 *lifter, const uint64_t *x, const uint64_t *s,
                              uint32_t *out) {
    const uint32_t n = lifter->n, count = lifter->count;
    /* An error below 1 + 2^-5 a term: the weight's, y 2^-shift, and that of rounding down. */
    const uint64_t margin = 2 * (uint64_t)count;
    for (uint32_t c = 0; c < n; c++) {
        uint64_t y[BFV_MAX_64_PRIMES], sum = UINT64_C(1) << (POINT - 1);
        for (uint32_t i = 0; i < count; i++) {
            const struct modulus *mod = &lifter->mod[i];
            y[i] = mul_redc(x[(size_t)i * n + c], mod->inverse, mod);
            if (s != NULL) {
                y[i] = mul_redc(y[i], s[i], mod);
            }
            sum += (uint64_t)(((wide_pair)y[i] * mod->weight) >> mod->shift);
        }
        uint32_t v = (uint32_t)(sum >> POINT);
        if ((sum + margin) >> POINT != v) {
            v = rns_base_round(&lifter->q, y, v);
        }
        for (uint32_t k = 0; k < lifter->wide->count; k++) {
            const struct zq_mod *mod = &lifter->wide->prime[k].mod;
            uint32_t r = zq_mul(zq_reduce32(v, mod), lifter->minus_q[k], mod);
            for (uint32_t i = 0; i < count; i++) {
                r = zq_add(r, zq_mul(zq_reduce64(y[i], mod), lifter->factor[k][i], mod), mod->p);
            }
            out[(size_t)k * n + c] = r;
        }
    }
}

/* x[K][N], coefficient form, to its centred integers mod q: out[L][N]. y[K][N], v[N]: to work in. */
static void reduce_coefficients(const bfv_lifter64 *lifter, const uint32_t *x, uint32_t *y, uint32_t *v,
                                uint64_t *out) {
    const bfv_ring *wide = lifter->wide;
    const uint32_t n = lifter->n;
    for (uint32_t k = 0; k < wide->count; k++) {
        wide->body->mul_scalar(y + (size_t)k * n, x + (size_t)k * n, lifter->w.inverse[k], n,
                               wide->prime[k].p);
    }
    rns_round(&lifter->w, y, n, n, v);
    for (uint32_t i = 0; i < lifter->count; i++) {
        const struct modulus *mod = &lifter->mod[i];
        for (uint32_t c = 0; c < n; c++) {
            /* BFV_MAX_PRIMES products of 30 bits and p, and one more: below 2^64 p */
            wide_pair sum = (wide_pair)v[c] * mod->factor[wide->count];
            for (uint32_t k = 0; k < wide->count; k++) {
                sum += (wide_pair)y[(size_t)k * n + c] * mod->factor[k];
            }
            out[(size_t)i * n + c] = redc(sum, mod);
        }
    }
}

static bool polys_are_valid(const bfv_lifter64 *lifter, uint64_t polys, const uint64_t *low,
                            const uint32_t *wide) {
    size_t bytes = 0;
    const size_t low_bytes = lifter->count * lifter->n * sizeof *low;
    const size_t wide_bytes = ring_poly_words(lifter->wide) * sizeof *wide;
    return is_aligned(low, _Alignof(uint64_t)) && is_aligned(wide, _Alignof(uint32_t)) && polys != 0 &&
           size_mul(polys, low_bytes + wide_bytes, &bytes) && bytes <= PTRDIFF_MAX &&
           !overlaps(low, polys * low_bytes, wide, polys * wide_bytes);
}

int bfv_lift64(const bfv_lifter64 *lifter, const uint64_t *x, uint64_t polys, uint32_t *out) {
    if (!lifter64_is_open(lifter) || !polys_are_valid(lifter, polys, x, out)) {
        return BFV_E_ARGUMENT;
    }
    const size_t n = lifter->n, count = lifter->count;
    uint64_t outside = 0;
    for (size_t plane = 0; plane < polys * count; plane++) {
        for (size_t c = 0; c < n; c++) {
            outside |= x[plane * n + c] >= lifter->mod[plane % count].p;
        }
    }
    if (outside != 0) {
        return BFV_E_RESIDUE;
    }
    for (uint64_t k = 0; k < polys; k++, x += count * n, out += lifter->wide->count * n) {
        lift_coefficients(lifter, x, NULL, out);
        (void)bfv_ntt_forward(lifter->wide, out, 1);
    }
    return BFV_OK;
}

int bfv_reduce64(const bfv_lifter64 *lifter, const uint32_t *x, uint64_t polys, uint64_t *out) {
    if (!lifter64_is_open(lifter) || !polys_are_valid(lifter, polys, out, x)) {
        return BFV_E_ARGUMENT;
    }
    const size_t n = lifter->n, words = ring_poly_words(lifter->wide);
    uint32_t *buffer = buffer_alloc((2 * words + n) * sizeof *buffer);
    if (buffer == NULL) {
        return BFV_E_MEMORY;
    }
    for (uint64_t k = 0; k < polys; k++, x += words, out += lifter->count * n) {
        memcpy(buffer, x, words * sizeof *x);
        (void)bfv_ntt_inverse(lifter->wide, buffer, 1);
        reduce_coefficients(lifter, buffer, buffer + words, buffer + 2 * words, out);
    }
    buffer_free(buffer);
    return BFV_OK;
}

struct rounding_work {
    uint32_t *x, *y, *b, *c; /* [K][N] */
    uint32_t *v, *part;      /* [N] */
    uint64_t *low;           /* [L][N]: B mod q */
};

/* As in lift.c: round(t T/q) = t A + D, with B = [T]_q, A = (T - B)/q, D = (t B - [t B]_q)/q. */
static void scale_round(const bfv_lifter64 *lifter, const uint32_t *t_wide, const uint64_t *t_q,
                        const struct rounding_work *work, uint64_t *out) {
    const bfv_ring *wide = lifter->wide;
    const struct cpu_kernels *body = wide->body;
    const uint32_t n = lifter->n;
    (void)bfv_ntt_inverse(wide, work->x, 1);
    reduce_coefficients(lifter, work->x, work->y, work->v, work->low);
    lift_coefficients(lifter, work->low, NULL, work->b);
    lift_coefficients(lifter, work->low, t_q, work->c);
    for (uint32_t k = 0; k < wide->count; k++) {
        const uint32_t p = wide->prime[k].p;
        const size_t at = (size_t)k * n;
        body->mul_scalar(work->part, work->b + at, t_wide[k], n, p);
        body->sub(work->c + at, work->part, work->c + at, n, p);
        body->mul_scalar(work->c + at, work->c + at, lifter->inv_q[k], n, p);
        body->sub(work->b + at, work->x + at, work->b + at, n, p);
        body->mul_scalar(work->b + at, work->b + at, lifter->inv_q[k], n, p);
    }
    reduce_coefficients(lifter, work->b, work->y, work->v, work->low);
    reduce_coefficients(lifter, work->c, work->y, work->v, out);
    for (uint32_t i = 0; i < lifter->count; i++) {
        const struct modulus *mod = &lifter->mod[i];
        for (size_t at = (size_t)i * n; at < (size_t)(i + 1) * n; at++) {
            const uint64_t sum = out[at] + mul_redc(work->low[at], t_q[i], mod);
            const uint64_t less = sum - mod->p;
            out[at] = less + (mod->p & wide_mask(less >> 63));
        }
    }
}

int bfv_scale_round64(const bfv_lifter64 *lifter, const uint64_t *t, uint32_t words, const uint32_t *x,
                      uint64_t polys, uint64_t *out) {
    uint64_t scale[RNS_WORDS];
    if (!lifter64_is_open(lifter) || !polys_are_valid(lifter, polys, out, x) ||
        !rns_scale_is_valid(&lifter->w.base, t, words, scale)) {
        return BFV_E_ARGUMENT;
    }
    const bfv_ring *wide = lifter->wide;
    const size_t n = lifter->n, full = ring_poly_words(wide), low = (size_t)lifter->count * n;
    uint32_t *buffer = buffer_alloc((4 * full + 2 * n) * sizeof *buffer + low * sizeof(uint64_t));
    if (buffer == NULL) {
        return BFV_E_MEMORY;
    }
    struct rounding_work work;
    work.low = (uint64_t *)(void *)buffer;
    work.x = buffer + 2 * low;
    work.y = work.x + full;
    work.b = work.y + full;
    work.c = work.b + full;
    work.v = work.c + full;
    work.part = work.v + n;
    uint32_t t_wide[BFV_MAX_PRIMES];
    uint64_t t_q[BFV_MAX_64_PRIMES];
    for (uint32_t k = 0; k < wide->count; k++) {
        t_wide[k] = (uint32_t)rns_mod(scale, wide->prime[k].p);
    }
    for (uint32_t i = 0; i < lifter->count; i++) {
        t_q[i] = to_montgomery(rns_mod(scale, lifter->mod[i].p), lifter->mod[i].p);
    }
    for (uint64_t k = 0; k < polys; k++, x += full, out += low) {
        memcpy(work.x, x, full * sizeof *x);
        scale_round(lifter, t_wide, t_q, &work, out);
    }
    buffer_free(buffer);
    return BFV_OK;
}
