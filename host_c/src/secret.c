/* All that touches a secret key: holding it, key generation's public half,
 * symmetric encryption, the phase of a ciphertext and its rounding. No branch,
 * index or division depends on the key, on errors or on messages; refusals are
 * decided once, from a mask, at the end. */
#define _GNU_SOURCE /* madvise, MADV_DONTDUMP */

#include <stdlib.h>
#include <sys/mman.h>

#include "declassify.h"
#include "ring.h"
#include "small.h"
#include "wide.h"
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
    uint32_t *s; /* [L][N], NTT form */
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
    const int status = bfv_ntt_forward(ring, secret->s, 1);
    if (status != BFV_OK) {
        bfv_secret_close(secret);
        return status;
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

/* out = NTT(m + e) - a s. In: a, m residues, |e| <= 21. */
static int encrypt_with(const bfv_secret *secret, const uint32_t *a, const int8_t *e, const uint32_t *m,
                        uint32_t *out) {
    const bfv_ring *ring = secret->ring;
    int status = bfv_check_residues(ring, a, 1);
    if (status == BFV_OK && m != NULL) {
        status = bfv_check_residues(ring, m, 1);
    }
    const size_t bytes = ring_poly_words(ring) * sizeof(uint32_t);
    uint32_t *noise = NULL;
    if (status == BFV_OK) {
        noise = buffer_alloc(bytes);
        status = noise == NULL ? BFV_E_MEMORY : BFV_OK;
    }
    if (status == BFV_OK) {
        small_add(ring, e, m, noise);
        status = bfv_ntt_forward(ring, noise, 1);
    }
    if (status == BFV_OK) {
        status = bfv_poly_mul(ring, a, secret->s, 1, out);
    }
    if (status == BFV_OK) {
        status = bfv_poly_sub(ring, noise, out, 1, out);
    }
    wipe_and_free(noise, bytes);
    return status;
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

int bfv_secret_phase(const bfv_secret *secret, const uint32_t *ct, uint32_t parts, uint32_t *out) {
    if (!secret_is_open(secret) || ct == NULL || parts < 2 || parts > BFV_MAX_PARTS ||
        !is_apart(secret, out, ct, parts)) {
        return BFV_E_ARGUMENT;
    }
    const bfv_ring *ring = secret->ring;
    const size_t words = ring_poly_words(ring);
    int status = bfv_check_residues(ring, ct, parts);
    /* Horner's rule in s: no power of s is ever stored */
    const uint32_t *factor = ct + (parts - 1) * words;
    for (uint32_t part = parts - 1; status == BFV_OK && part-- > 0;) {
        status = bfv_poly_mul(ring, factor, secret->s, 1, out);
        if (status == BFV_OK) {
            status = bfv_poly_add(ring, out, ct + part * words, 1, out);
        }
        factor = out;
    }
    return status != BFV_OK ? status : bfv_ntt_inverse(ring, out, 1);
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
        uint32_t others = 1;
        for (uint32_t k = 0; k < ring->count; k++) {
            if (k != i) {
                others = zq_mul(others, zq_reduce32(primes[k], p), p);
            }
        }
        r->inverse[i] = zq_inv(others, p);
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
        for (uint32_t k = first; k < first + count; k++) {
            outside |= phase[(size_t)i * ring->n + k] >= ring->prime[i].p;
        }
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
