/* All that touches a secret key: holding it, key generation's public half,
 * symmetric encryption, the phase of a ciphertext and its rounding. No branch,
 * index or division depends on the key, on errors or on messages; refusals are
 * decided once, from a mask, at the end. */
#define _GNU_SOURCE /* madvise, MADV_DONTDUMP */

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "client.h"
#include "declassify.h"
#include "small.h"
#include "wipe.h"

#pragma GCC visibility push(default)
#include "../include/bfv_secret.h"
#pragma GCC visibility pop

enum {
    SECRET_MAGIC = 0x53454352,
    TERNARY_LIMIT = 1,
    ERROR_LIMIT = 21,
    /* bfv_secret_round: words of the fixed-point fraction, and of t times it */
    POINT_WORDS = (BFV_MAX_Q_PRIMES * 30 + 64 * BFV_MAX_T_WORDS + 100 + 63) / 64,
    PRODUCT_WORDS = POINT_WORDS + BFV_MAX_T_WORDS
};

struct bfv_secret {
    uint32_t magic;
    const bfv_ring *ring;
    uint32_t *s; /* [L][N], NTT form, times 2^32 */
    size_t size; /* bytes of the mapping */
};

void bfv_wipe(void *data, size_t size) {
    if (data != NULL) {
        wipe(data, size);
    }
}

static bool secret_is_open(const bfv_secret *secret) {
    return secret != NULL && secret->magic == SECRET_MAGIC && ring_is_open(secret->ring);
}

/* Whether one polynomial can be written to out while `polys` are read from in. */
static bool is_apart(const bfv_secret *secret, const uint32_t *out, const uint32_t *in, uint32_t polys) {
    const size_t bytes = ring_poly_words(secret->ring) * sizeof *out;
    return is_aligned(out, _Alignof(uint32_t)) && !overlaps(out, bytes, in, polys * bytes);
}

/* Pages of their own: never swapped where the limit on locked memory allows, never in a core dump. */
static uint32_t *secret_map(size_t size) {
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        return NULL;
    }
    (void)mlock(pages, size);
#ifdef MADV_DONTDUMP
    (void)madvise(pages, size, MADV_DONTDUMP);
#endif
    return pages;
}

int bfv_secret_open(const bfv_ring *ring, const int8_t *s, bfv_secret **out) {
    if (!ring_is_open(ring) || s == NULL || out == NULL ||
        declassify(small_exceeds(s, ring->n, TERNARY_LIMIT)) != 0) {
        return BFV_E_ARGUMENT;
    }
    bfv_secret *secret = malloc(sizeof *secret);
    if (secret == NULL) {
        return BFV_E_MEMORY;
    }
    secret->magic = SECRET_MAGIC;
    secret->ring = ring;
    secret->size = ring_poly_words(ring) * sizeof *secret->s;
    secret->s = secret_map(secret->size);
    if (secret->s == NULL) {
        free(secret);
        return BFV_E_MEMORY;
    }
    small_add(ring, s, NULL, secret->s);
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct bfv_prime *prime = &ring->prime[i];
        uint32_t *plane = secret->s + (size_t)i * ring->n;
        ring->body->ntt_forward(plane, ring->n, prime);
        ring->body->mul_scalar(plane, plane, prime->mod.r32, ring->n, prime->p);
    }
    *out = secret;
    return BFV_OK;
}

void bfv_secret_close(bfv_secret *secret) {
    /* the ring may be gone already: only the secret's own memory is touched */
    if (secret != NULL && secret->magic == SECRET_MAGIC) {
        secret->magic = 0;
        wipe(secret->s, secret->size);
        (void)munmap(secret->s, secret->size); /* this unlocks too */
        free(secret);
    }
}

/* out = NTT(m + e) - a s. In: a, m residues, |e| <= 21; product: N words of work space. Prime by prime, so
 * that its planes stay in the cache. */
static void encrypt_one(const bfv_secret *secret, const uint32_t *a, const int8_t *e, const uint32_t *m,
                        uint32_t *product, uint32_t *out) {
    const bfv_ring *ring = secret->ring;
    const struct cpu_kernels *body = ring->body;
    const uint32_t n = ring->n;
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct bfv_prime *prime = &ring->prime[i];
        const size_t at = (size_t)i * n;
        body->small(out + at, e, m == NULL ? NULL : m + at, n, &prime->mod);
        body->ntt_forward(out + at, n, prime);
        body->mul_lifted(product, a + at, secret->s + at, NULL, n, prime);
        body->sub(out + at, out + at, product, n, prime->p);
    }
}

/* The same, with checks. */
static int encrypt_with(const bfv_secret *secret, const uint32_t *a, const int8_t *e, const uint32_t *m,
                        uint32_t *out) {
    const bfv_ring *ring = secret->ring;
    int status = bfv_check_residues(ring, a, 1);
    if (status == BFV_OK && m != NULL) {
        status = bfv_check_residues(ring, m, 1);
    }
    if (status != BFV_OK) {
        return status;
    }
    const size_t bytes = ring->n * sizeof(uint32_t);
    uint32_t *product = buffer_alloc(bytes);
    if (product == NULL) {
        return BFV_E_MEMORY;
    }
    encrypt_one(secret, a, e, m, product, out);
    wipe_and_free(product, bytes);
    return BFV_OK;
}

int bfv_secret_public(const bfv_secret *secret, const uint32_t *a, const int8_t *e, uint32_t *p0) {
    if (!secret_is_open(secret) || a == NULL || e == NULL || !is_apart(secret, p0, a, 1) ||
        overlaps(e, secret->ring->n, p0, ring_poly_words(secret->ring) * sizeof *p0) ||
        declassify(small_exceeds(e, secret->ring->n, ERROR_LIMIT)) != 0) {
        return BFV_E_ARGUMENT;
    }
    const uint32_t n = secret->ring->n;
    int8_t *negated = buffer_alloc(n);
    if (negated == NULL) {
        return BFV_E_MEMORY;
    }
    for (uint32_t k = 0; k < n; k++) {
        negated[k] = (int8_t)-e[k];
    }
    const int status = encrypt_with(secret, a, negated, NULL, p0);
    wipe_and_free(negated, n);
    return status;
}

int bfv_secret_encrypt(const bfv_secret *secret, const uint32_t *a, const uint32_t *m, const uint8_t *rnd,
                       size_t bytes, uint32_t *c0) {
    if (!secret_is_open(secret) || a == NULL || rnd == NULL || !is_apart(secret, c0, a, 1) ||
        (m != NULL && !is_apart(secret, c0, m, 1)) ||
        overlaps(rnd, bfv_error_bytes(secret->ring->n), c0, ring_poly_words(secret->ring) * sizeof *c0)) {
        return BFV_E_ARGUMENT;
    }
    const uint32_t n = secret->ring->n;
    int8_t *e = buffer_alloc(n);
    if (e == NULL) {
        return BFV_E_MEMORY;
    }
    int status = bfv_sample_error(n, rnd, bytes, e);
    if (status == BFV_OK) {
        status = encrypt_with(secret, a, e, m, c0);
    }
    wipe_and_free(e, n);
    return status;
}

struct encrypt_job {
    const bfv_secret *secret;
    const uint32_t *a;
    const struct client_values *values;
    const uint8_t *rnd;
    uint32_t *out;
    atomic_int status;
};

static void encrypt_units(void *argument, uint64_t first, uint64_t last) {
    struct encrypt_job *job = argument;
    const bfv_ring *ring = job->secret->ring;
    const struct client_values *values = job->values;
    const size_t n = ring->n, words = ring_poly_words(ring), bytes = (words + n) * sizeof(uint32_t) + n;
    struct encoder_work work;
    uint32_t *m = buffer_alloc(bytes);
    const bool codes = encoder_work_open(&work, values->encoder);
    if (m != NULL && codes) {
        int8_t *error = (int8_t *)(m + words + n);
        for (uint64_t k = first; k < last; k++) {
            encoder_encode(values->encoder, client_values_at(values, k), values->words, values->width, &work,
                           m);
            ring->body->error(error, n, job->rnd + k * bfv_error_bytes(ring->n));
            encrypt_one(job->secret, job->a + k * words, error, m, m + words,
                        job->out + k * values->stride * words);
        }
    } else {
        atomic_store_explicit(&job->status, BFV_E_MEMORY, memory_order_relaxed);
    }
    wipe_and_free(m, bytes);
    if (codes) {
        encoder_work_close(&work);
    }
}

int bfv_secret_encrypt_many(const bfv_secret *secret, const uint32_t *a, const bfv_encoder *encoder,
                            const uint64_t *values, uint32_t words, uint32_t width, uint64_t count,
                            const uint8_t *rnd, size_t bytes, uint32_t threads, uint32_t *out,
                            uint64_t stride) {
    const struct client_values given = {encoder, values, words, width, count, stride};
    size_t out_bytes = 0;
    if (!secret_is_open(secret) || !client_values_are_valid(&given, secret->ring, 1, out, &out_bytes) ||
        !is_aligned(a, _Alignof(uint32_t)) || rnd == NULL || threads > BFV_MAX_THREADS) {
        return BFV_E_ARGUMENT;
    }
    const bfv_ring *ring = secret->ring;
    const size_t a_bytes = (size_t)count * ring_poly_words(ring) * sizeof *a; /* at most out_bytes */
    const size_t need = (size_t)count * bfv_error_bytes(ring->n);
    if (overlaps(a, a_bytes, out, out_bytes) || overlaps(rnd, need, out, out_bytes)) {
        return BFV_E_ARGUMENT;
    }
    if (bytes < need) {
        return BFV_E_RANDOM;
    }
    const int status = bfv_check_residues(ring, a, count);
    if (status != BFV_OK) {
        return status;
    }
    struct encrypt_job job = {secret, a, &given, rnd, out, BFV_OK};
    client_in_parallel(threads, count, out_bytes, encrypt_units, &job);
    return atomic_load_explicit(&job.status, memory_order_relaxed);
}

int bfv_secret_phase(const bfv_secret *secret, const uint32_t *ct, uint32_t parts, uint32_t *out) {
    if (!secret_is_open(secret) || ct == NULL || parts < 2 || parts > BFV_MAX_PARTS ||
        !is_apart(secret, out, ct, parts)) {
        return BFV_E_ARGUMENT;
    }
    const bfv_ring *ring = secret->ring;
    const struct cpu_kernels *body = ring->body;
    const size_t words = ring_poly_words(ring), n = ring->n;
    const int status = bfv_check_residues(ring, ct, parts);
    if (status != BFV_OK) {
        return status;
    }
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct bfv_prime *prime = &ring->prime[i];
        uint32_t *plane = out + i * n;
        /* Horner's rule in s: no power of s is ever stored */
        const uint32_t *factor = ct + (parts - 1) * words + i * n;
        for (uint32_t part = parts - 1; part-- > 0;) {
            body->mul_lifted(plane, factor, secret->s + i * n, ct + part * words + i * n, n, prime);
            factor = plane;
        }
        body->ntt_inverse(plane, ring->n, prime);
    }
    return BFV_OK;
}

/* Constants of one rounding, all public. */
struct rounding {
    uint32_t words; /* of t and of every m */
    uint32_t point; /* the fraction has P = 64 point bits */
    uint64_t t[WIDE_T_WORDS];
    uint64_t low[POINT_WORDS];                          /* 2^P (1/2 - bound) - slack */
    uint64_t width[POINT_WORDS];                        /* 2 (2^P bound + slack) */
    uint32_t inverse[BFV_MAX_Q_PRIMES];                 /* (q/p_i)^-1 mod p_i */
    uint64_t reciprocal[BFV_MAX_Q_PRIMES][POINT_WORDS]; /* floor(2^P / p_i) */
};

/* (q/p_i)^-1 mod p_i. */
static uint32_t inverse_of_others(const bfv_ring *ring, uint32_t i) {
    const struct zq_mod *p = &ring->prime[i].mod;
    uint32_t others = 1;
    for (uint32_t k = 0; k < ring->count; k++) {
        if (k != i) {
            others = zq_mul(others, zq_reduce32(ring->prime[k].p, p), p);
        }
    }
    return zq_inv(others, p);
}

/* The fraction of x/q is that of sum y_i/p_i, y_i = [x_i (q/p_i)^-1]_{p_i}. With reciprocals rounded down to
 * P bits the sum is too small by less than L 2^30 2^-P, and t times it by less than E = t L 2^30 2^-P <
 * slack, slack = 2^(bits t + 35) 2^-P (L < 2^5). The residual r = t x/q - m is a multiple of 1/q and bound
 * one of 2^-64; they differ by at least 2^-64/q unless equal. Because P >= bits q + bits t + 100, 2 slack <=
 * 2^-64/q, so |r| <= bound  gives  -bound - slack <= r - E <= bound + slack, and |r| >  bound  gives  r - E <
 * -bound - slack or r - E > bound + 2 slack - E > bound + slack: the comparison of the approximate residual
 * with bound + slack decides exactly. Where it holds, bound + slack < 1/2, so the rounding is exact too. */
static int rounding_open(struct rounding *r, const bfv_ring *ring, const uint64_t *t, uint32_t words,
                         uint64_t bound) {
    uint32_t primes[BFV_MAX_Q_PRIMES];
    uint64_t q[WIDE_Q_WORDS];
    uint64_t wide_t[WIDE_Q_WORDS] = {0};
    memcpy(wide_t, t, words * sizeof *t);
    for (uint32_t i = 0; i < ring->count; i++) {
        primes[i] = ring->prime[i].p;
    }
    const uint32_t t_bits = wide_public_bits(t, words);
    if (!wide_public_product(primes, ring->count, q, WIDE_Q_WORDS) || t_bits < 2 ||
        wide_less(wide_t, q, WIDE_Q_WORDS) == 0) {
        return BFV_E_ARGUMENT;
    }
    memset(r, 0, sizeof *r);
    r->words = words;
    memcpy(r->t, t, words * sizeof *t);
    r->point = (wide_public_bits(q, WIDE_Q_WORDS) + t_bits + 100 + 63) / 64;

    const uint32_t slack_bit = t_bits + 35; /* below P - 64 */
    uint64_t reach[POINT_WORDS] = {0};      /* 2^P bound + slack */
    reach[r->point - 1] = bound;
    reach[slack_bit / 64] |= UINT64_C(1) << (slack_bit % 64);
    r->low[r->point - 1] = UINT64_C(1) << 63;
    (void)wide_sub(r->low, reach, r->point, r->low);
    memcpy(r->width, reach, r->point * sizeof *reach);
    (void)wide_add(r->width, reach, r->point);

    for (uint32_t i = 0; i < ring->count; i++) {
        const struct zq_mod *p = &ring->prime[i].mod;
        r->inverse[i] = inverse_of_others(ring, i);
        uint64_t rest = 1; /* long division of 2^P by p, 32 bits a step */
        for (uint32_t w = r->point; w-- > 0;) {
            const uint64_t high = rest << 32;
            const uint64_t low = (high % p->p) << 32;
            r->reciprocal[i][w] = ((high / p->p) << 32) | (low / p->p);
            rest = low % p->p;
        }
    }
    return BFV_OK;
}

/* What one rounding computes with: secret, wiped by the caller. */
struct rounding_work {
    uint64_t fraction[POINT_WORDS];
    uint64_t product[PRODUCT_WORDS];
};

/* m = round(t x / q) mod t for coefficient k. Returns 1 when the residual exceeds the bound, else 0. */
static uint64_t round_one(const struct rounding *r, const bfv_ring *ring, const uint32_t *phase, uint32_t k,
                          struct rounding_work *work, uint64_t *m) {
    memset(work->fraction, 0, r->point * sizeof *work->fraction);
    for (uint32_t i = 0; i < ring->count; i++) {
        const uint32_t y = zq_mul(phase[(size_t)i * ring->n + k], r->inverse[i], &ring->prime[i].mod);
        wide_mul_add_word(work->fraction, r->reciprocal[i], y, r->point);
    }
    wide_mul(work->fraction, r->point, r->t, r->words, work->product);
    /* + 1/2: then the integer part is m (t for an x just below q) and the fraction 1/2 + residual */
    uint64_t *whole = work->product + r->point;
    const uint64_t half = UINT64_C(1) << 63;
    (void)wide_add_word(whole, wide_add_word(work->product + r->point - 1, half, 1), r->words);
    wide_fold(whole, r->t, r->words);
    memcpy(m, whole, r->words * sizeof *m);
    (void)wide_sub(work->product, r->low, r->point, work->fraction);
    return wide_less(r->width, work->fraction, r->point);
}

int bfv_secret_round(const bfv_ring *ring, const uint32_t *phase, const uint64_t *t, uint32_t words,
                     uint32_t first, uint32_t count, uint64_t bound, uint64_t *out) {
    if (!ring_is_open(ring) || ring->count > BFV_MAX_Q_PRIMES || !is_aligned(phase, _Alignof(uint32_t)) ||
        !is_aligned(t, _Alignof(uint64_t)) || words == 0 || words > BFV_MAX_T_WORDS || first > ring->n ||
        count > ring->n - first || (bound >> 63) != 0 || !is_aligned(out, _Alignof(uint64_t))) {
        return BFV_E_ARGUMENT;
    }
    const size_t out_bytes = (size_t)count * words * sizeof *out;
    if (overlaps(phase, ring_poly_words(ring) * sizeof *phase, out, out_bytes) ||
        overlaps(t, words * sizeof *t, out, out_bytes)) {
        return BFV_E_ARGUMENT;
    }
    uint32_t outside = 0;
    for (uint32_t i = 0; i < ring->count; i++) {
        outside |= !ring->body->check(phase + (size_t)i * ring->n + first, count, ring->prime[i].p);
    }
    if (declassify(outside) != 0) { /* that the phase is damaged */
        return BFV_E_RESIDUE;
    }
    struct rounding r;
    const int status = rounding_open(&r, ring, t, words, bound);
    if (status != BFV_OK) {
        return status;
    }
    struct rounding_work work;
    uint64_t noisy = 0;
    for (uint32_t k = 0; k < count; k++) {
        noisy |= round_one(&r, ring, phase, first + k, &work, out + (size_t)k * words);
    }
    wipe(&work, sizeof work);
    if (declassify(noisy) != 0) { /* that decryption fails: nothing else is told */
        memset(out, 0, out_bytes);
        return BFV_E_NOISE;
    }
    return BFV_OK;
}

/* The constants of decoding. Let z = [t x]_q, centred: m = (t x - z)/q mod t, and as t = 0 mod t_k, m = -z/q
 * mod t_k. With the digits y_i of t x, z = sum y_i q/p_i - v q, so m = v - sum y_i/p_i mod t_k (1/p_i mod
 * t_k). The residual is r = z/q, the sum of y_i/p_i less v. With reciprocals rounded down to 96 bits the sum
 * F is below it by less than slack = 2^-96 sum p_i: where -bound <= F <= bound - slack (mod 1), |r| <= bound
 * for certain, and v = floor(F + 1/2), as bound < 1/2. False: so small a bound that this never holds. */
static bool decode_open(struct decode_change *change, const bfv_ring *ring, const bfv_ring *slots,
                        uint64_t bound) {
    uint64_t slack = 0;
    change->count = ring->count;
    change->targets = slots->count;
    for (uint32_t i = 0; i < ring->count; i++) {
        const uint32_t p = ring->prime[i].p;
        uint64_t rest = 1; /* long division of 2^96 by p, 32 bits a step */
        slack += p;
        for (uint32_t w = 3; w-- > 0;) {
            rest <<= 32;
            change->reciprocal[i][w] = (uint32_t)(rest / p);
            rest %= p;
        }
        for (uint32_t k = 0; k < slots->count; k++) {
            const struct zq_mod *t = &slots->prime[k].mod;
            change->target[k].mod = *t;
            change->target[k].factor[i] = zq_neg(zq_inv(zq_reduce32(p, t), t), t->p);
        }
    }
    const wide_pair twice = (wide_pair)bound << 33;
    if (twice < slack) {
        return false;
    }
    change->bound = bound;
    change->width[0] = (uint64_t)((twice - slack) >> 32);
    change->width[1] = (uint64_t)(twice - slack) & UINT32_MAX;
    return true;
}

/* m mod the primes of t, exactly, where the fixed point can't tell. x: [T][N]. */
static int decode_exactly(const bfv_ring *ring, const bfv_encoder *encoder, const uint32_t *phase,
                          uint64_t bound, uint32_t *x) {
    const bfv_ring *slots = encoder_slots(encoder);
    const uint64_t *t = encoder_modulus(encoder);
    const uint32_t words = (wide_public_bits(t, WIDE_T_WORDS) + 63) / 64, n = ring->n;
    const size_t bytes = (size_t)n * words * sizeof(uint64_t);
    uint64_t *m = buffer_alloc(bytes);
    if (m == NULL) {
        return BFV_E_MEMORY;
    }
    const int status = bfv_secret_round(ring, phase, t, words, 0, n, bound, m);
    for (uint32_t i = 0; status == BFV_OK && i < slots->count; i++) {
        for (uint32_t k = 0; k < n; k++) {
            x[(size_t)i * n + k] = wide_mod(m + (size_t)k * words, words, &slots->prime[i].mod);
        }
    }
    wipe_and_free(m, bytes);
    return status;
}

int bfv_secret_slots(const bfv_ring *ring, const bfv_encoder *encoder, const uint32_t *phase, uint64_t bound,
                     uint32_t *out) {
    if (!ring_is_open(ring) || ring->count > BFV_MAX_Q_PRIMES || !encoder_fits(encoder, ring) ||
        encoder_slots(encoder) == NULL || !is_aligned(phase, _Alignof(uint32_t)) || (bound >> 63) != 0 ||
        !is_aligned(out, _Alignof(uint32_t))) {
        return BFV_E_ARGUMENT;
    }
    const bfv_ring *slots = encoder_slots(encoder);
    const uint32_t *map = encoder_map(encoder);
    const size_t n = ring->n, words = ring_poly_words(ring), out_words = ring_poly_words(slots);
    if (overlaps(phase, words * sizeof *phase, out, out_words * sizeof *out)) {
        return BFV_E_ARGUMENT;
    }
    int status = bfv_check_residues(ring, phase, 1);
    if (status != BFV_OK) {
        return status;
    }
    const size_t bytes = (words + out_words) * sizeof *out;
    struct decode_change change;
    uint32_t *y = buffer_alloc(bytes), *x = y + words;
    if (y == NULL) {
        return BFV_E_MEMORY;
    }
    uint64_t doubt = 1;
    if (decode_open(&change, ring, slots, bound)) {
        for (uint32_t i = 0; i < ring->count; i++) {
            const struct zq_mod *p = &ring->prime[i].mod;
            const uint32_t t = wide_mod(encoder_modulus(encoder), WIDE_T_WORDS, p);
            const uint32_t factor = zq_mul(t, inverse_of_others(ring, i), p);
            ring->body->mul_scalar(y + i * n, phase + i * n, factor, n, p->p);
        }
        doubt = ring->body->decode(x, n, y, n, n, &change);
    }
    if (declassify(doubt) !=
        0) { /* that decryption fails, or that the residual is within 2^-66 of the bound */
        status = decode_exactly(ring, encoder, phase, bound, x);
    }
    if (status == BFV_OK) {
        for (uint32_t i = 0; i < slots->count; i++) {
            slots->body->ntt_forward(x + i * n, ring->n, &slots->prime[i]);
            for (size_t k = 0; k < n; k++) {
                out[i * n + k] = x[i * n + map[k]];
            }
        }
    } else if (status == BFV_E_NOISE) {
        memset(out, 0, out_words * sizeof *out);
    }
    wipe_and_free(y, bytes);
    return status;
}
