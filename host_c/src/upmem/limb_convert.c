/* Mixed radix (Garner 1959): x = v_0 + p_0 (v_1 + p_1 (v_2 + ...)), v_i in [0, p_i); all in words. */
#include "limb_convert.h"

#include <string.h>

#include "../cpu/kernels.h"

/* x = x p + v over `limbs` words; returns the carry. */
static uint32_t horner(uint32_t *x, uint32_t p, uint32_t v, uint32_t limbs) {
    uint32_t carry = v;
    for (uint32_t i = 0; i < limbs; i++) {
        const uint64_t sum = (uint64_t)x[i] * p + carry; /* below 2^64: p < 2^30 */
        x[i] = (uint32_t)sum;
        carry = (uint32_t)(sum >> 32);
    }
    return carry;
}

/* q in eight limbs; false when it needs more. */
static bool modulus_of(const bfv_ring *ring, uint32_t *q) {
    uint32_t carry = 0;
    memset(q, 0, LIMB_MAX * sizeof *q);
    q[0] = 1;
    for (uint32_t i = 0; i < ring->count && carry == 0; i++) {
        carry = horner(q, ring->prime[i].p, 0, LIMB_MAX);
    }
    return carry == 0;
}

static uint32_t limbs_for(const uint32_t *q) {
    uint32_t limbs = 1;
    while (limbs <= LIMB_MAX) {
        bool fits = q[limbs - 1] >> 31 == 0;
        for (uint32_t i = limbs; i < LIMB_MAX; i++) {
            fits = fits && q[i] == 0;
        }
        if (fits) {
            return limbs;
        }
        limbs *= 2;
    }
    return 0;
}

uint32_t limb_count(const bfv_ring *ring) {
    uint32_t q[LIMB_MAX];
    return modulus_of(ring, q) ? limbs_for(q) : 0;
}

int limb_form_open(const bfv_ring *ring, struct limb_form *out) {
    uint32_t q[LIMB_MAX];
    if (!modulus_of(ring, q) || limbs_for(q) == 0) {
        return BFV_E_UNSUPPORTED;
    }
    memset(out, 0, sizeof *out);
    out->ring = ring;
    out->limbs = limbs_for(q);
    limb_modulus_init(&out->modulus, q, out->limbs);
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct zq_mod *mod = &ring->prime[i].mod;
        for (uint32_t j = 0; j < i; j++) {
            out->inverse[i][j] = zq_inv(zq_reduce32(ring->prime[j].p, mod), mod);
            out->inverse_shoup[i][j] = zq_shoup(out->inverse[i][j], mod->p);
        }
    }
    return BFV_OK;
}

void limb_from_ntt(const struct limb_form *form, const uint32_t *x, uint32_t *space, uint32_t *out) {
    const bfv_ring *ring = form->ring;
    const uint32_t n = ring->n, primes = ring->count, limbs = form->limbs;
    memcpy(space, x, ring_poly_words(ring) * sizeof *x);
    (void)bfv_ntt_inverse(ring, space, 1);
    for (uint32_t k = 0; k < n; k++, out += limbs) {
        uint32_t digit[BFV_MAX_PRIMES];
        for (uint32_t i = 0; i < primes; i++) {
            const struct zq_mod *mod = &ring->prime[i].mod;
            uint32_t v = space[(size_t)i * n + k];
            for (uint32_t j = 0; j < i; j++) {
                v = zq_sub(v, zq_reduce32(digit[j], mod), mod->p);
                v = zq_mul_shoup(v, form->inverse[i][j], form->inverse_shoup[i][j], mod->p);
            }
            digit[i] = v;
        }
        memset(out, 0, limbs * sizeof *out);
        for (uint32_t i = primes; i-- > 0;) {
            (void)horner(out, ring->prime[i].p, digit[i], limbs); /* below q: nothing is carried out */
        }
    }
}

int limb_to_ntt(const struct limb_form *form, const uint32_t *x, uint32_t *out) {
    const bfv_ring *ring = form->ring;
    const uint32_t n = ring->n, limbs = form->limbs;
    for (uint32_t k = 0; k < n; k++) {
        if (limb_less(x + (size_t)k * limbs, form->modulus.q, limbs) == 0) {
            return BFV_E_RESIDUE;
        }
    }
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct zq_mod *mod = &ring->prime[i].mod;
        for (uint32_t k = 0; k < n; k++) {
            uint32_t r = 0;
            for (uint32_t j = limbs; j-- > 0;) {
                r = zq_reduce64((uint64_t)r << 32 | x[(size_t)k * limbs + j], mod);
            }
            out[(size_t)i * n + k] = r;
        }
    }
    return bfv_ntt_forward(ring, out, 1);
}
