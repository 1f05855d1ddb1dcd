/* Digits of ciphertext polynomials: key switching, and what they are as fractions of q. Nothing here is
 * secret. */
#include "cpu/kernels.h"

/* (q/p_i)^-1 mod p_i. */
static void digit_factors(const bfv_ring *ring, uint32_t *inverse) {
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct zq_mod *mod = &ring->prime[i].mod;
        uint32_t others = 1;
        for (uint32_t k = 0; k < ring->count; k++) {
            if (k != i) {
                others = zq_mul(others, zq_reduce32(ring->prime[k].p, mod), mod);
            }
        }
        inverse[i] = zq_inv(others, mod);
    }
}

/* y = the digits of x in coefficient form, [L][N]. */
static void digits_of(const bfv_ring *ring, const uint32_t *inverse, const uint32_t *x, uint32_t *y) {
    for (uint32_t i = 0; i < ring->count; i++, x += ring->n, y += ring->n) {
        const struct bfv_prime *prime = &ring->prime[i];
        ring->body->ntt_inverse_to(y, x, ring->n, prime);
        ring->body->mul_scalar(y, y, inverse[i], ring->n, prime->p);
    }
}

int bfv_fractions(const bfv_ring *ring, const uint32_t *x, uint64_t polys, double *out) {
    size_t bytes = 0;
    if (!ring_is_open(ring) || !is_aligned(x, _Alignof(uint32_t)) || !is_aligned(out, _Alignof(double)) ||
        polys == 0 || !size_mul(polys, (ring_poly_words(ring) + 2 * ring->n) * sizeof *x, &bytes) ||
        bytes > PTRDIFF_MAX ||
        overlaps(x, (size_t)polys * ring_poly_words(ring) * sizeof *x, out,
                 (size_t)polys * ring->n * sizeof *out)) {
        return BFV_E_ARGUMENT;
    }
    uint32_t inverse[BFV_MAX_PRIMES];
    double share[BFV_MAX_PRIMES];
    uint32_t *y = buffer_alloc(ring_poly_words(ring) * sizeof *y);
    if (y == NULL) {
        return BFV_E_MEMORY;
    }
    digit_factors(ring, inverse);
    for (uint32_t i = 0; i < ring->count; i++) {
        share[i] = 1.0 / ring->prime[i].p;
    }
    for (uint64_t k = 0; k < polys; k++, x += ring_poly_words(ring), out += ring->n) {
        digits_of(ring, inverse, x, y);
        ring->body->fractions(out, y, ring->n, ring->count, ring->n, share);
    }
    buffer_free(y);
    return BFV_OK;
}

int bfv_switch_keys(const bfv_ring *ring, const uint32_t *x, const uint32_t *keys, uint32_t *out) {
    if (!ring_is_open(ring) || !is_aligned(x, _Alignof(uint32_t)) || !is_aligned(keys, _Alignof(uint32_t)) ||
        !is_aligned(out, _Alignof(uint32_t))) {
        return BFV_E_ARGUMENT;
    }
    const struct cpu_kernels *body = ring->body;
    const uint32_t count = ring->count;
    const size_t n = ring->n, words = ring_poly_words(ring), out_bytes = 2 * words * sizeof *out;
    if (overlaps(x, words * sizeof *x, out, out_bytes) || overlaps(keys, count * out_bytes, out, out_bytes)) {
        return BFV_E_ARGUMENT;
    }
    /* digits as coefficients, and all of them mod one prime, NTT form, times 2^32 */
    uint32_t *y = buffer_alloc(2 * words * sizeof *y), *d = y + words;
    uint32_t inverse[BFV_MAX_PRIMES];
    if (y == NULL) {
        return BFV_E_MEMORY;
    }
    digit_factors(ring, inverse);
    digits_of(ring, inverse, x, y);
    for (uint32_t j = 0; j < count; j++) {
        const struct bfv_prime *prime = &ring->prime[j];
        const size_t at = j * n;
        for (uint32_t i = 0; i < count; i++) {
            if (i == j) { /* mod its own prime a digit is the residue times a constant: no transform */
                const uint32_t factor = zq_mul(inverse[j], prime->mod.r32, &prime->mod);
                body->mul_scalar(d + i * n, x + at, factor, n, prime->p);
            } else {
                body->recentre(d + i * n, y + i * n, ring->prime[i].p, n, &prime->mod);
                body->ntt_forward(d + i * n, ring->n, prime);
            }
        }
        body->dot(out + at, d, n, keys + at, 2 * words, count, n, prime);
        body->dot(out + words + at, d, n, keys + words + at, 2 * words, count, n, prime);
    }
    buffer_free(y);
    return BFV_OK;
}
