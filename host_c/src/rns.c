/* The set-up of residue number systems, and the sums that fixed point can't round. */
#include "rns.h"

#include <stdlib.h>

#include "wide.h"

/* x = x y over RNS_WORDS words. In: a product that fits. */
static void multiply(uint64_t *x, uint64_t y) {
    uint64_t carry = 0;
    for (uint32_t i = 0; i < RNS_WORDS; i++) {
        const wide_pair s = (wide_pair)x[i] * y + carry;
        x[i] = (uint64_t)s;
        carry = (uint64_t)(s >> 64);
    }
}

void rns_base_init(struct rns_base *base, const uint64_t *primes, uint32_t count) {
    memset(base, 0, sizeof *base);
    base->count = count;
    base->product[0] = 1;
    for (uint32_t i = 0; i < count; i++) {
        multiply(base->product, primes[i]);
        base->cofactor[i][0] = 1;
        for (uint32_t k = 0; k < count; k++) {
            if (k != i) {
                multiply(base->cofactor[i], primes[k]);
            }
        }
    }
}

uint32_t rns_base_round(const struct rns_base *base, const uint64_t *y, uint32_t v) {
    /* sum y_i / p_i > v + 1/2  as  (2v + 1) M < 2 sum y_i M/p_i; never equal, as M is odd */
    uint64_t sum[RNS_WORDS] = {0}, twice[RNS_WORDS];
    for (uint32_t i = 0; i < base->count; i++) {
        wide_mul_add_word(sum, base->cofactor[i], y[i], RNS_WORDS);
    }
    memcpy(twice, sum, sizeof twice);
    (void)wide_add(twice, sum, RNS_WORDS);
    for (;; v++) {
        uint64_t tie[RNS_WORDS] = {0};
        wide_mul_add_word(tie, base->product, 2 * (uint64_t)v + 1, RNS_WORDS);
        if (wide_less(tie, twice, RNS_WORDS) == 0) {
            return v;
        }
    }
}

uint64_t rns_mod(const uint64_t *x, uint64_t p) {
    uint64_t rest = 0;
    for (uint32_t i = RNS_WORDS; i-- > 0;) {
        rest = (uint64_t)((((wide_pair)rest << 64) | x[i]) % p);
    }
    return rest;
}

static void target_init(struct rns_target *target, const struct rns_change *change,
                        const struct bfv_prime *prime) {
    const struct rns_base *base = &change->base;
    const struct zq_mod *mod = &prime->mod;
    const uint32_t p = mod->p;
    target->mod = *mod;
    target->neg_inv = prime->neg_inv;
    for (uint32_t i = 0; i <= change->count; i++) {
        target->factor[i] = i < change->count ? (uint32_t)rns_mod(base->cofactor[i], p)
                                              : zq_neg((uint32_t)rns_mod(base->product, p), p);
        target->lifted[i] = zq_mul(target->factor[i], mod->r32, mod);
    }
    const uint64_t most = UINT64_MAX / ((uint64_t)change->greatest * (p - 1));
    target->limit = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

bool rns_change_init(struct rns_change *change, const bfv_ring *ring, uint32_t first, uint32_t count,
                     uint32_t to, uint32_t targets) {
    uint64_t primes[BFV_MAX_PRIMES] = {0};
    uint32_t bits = 32;
    change->target = calloc(targets == 0 ? 1 : targets, sizeof *change->target);
    if (change->target == NULL) {
        return false;
    }
    change->count = count;
    change->targets = targets;
    change->greatest = count;
    change->margin = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct zq_mod *mod = &ring->prime[first + i].mod;
        primes[i] = mod->p;
        bits = mod->bits < bits ? mod->bits : bits;
        change->margin += mod->p;
        change->greatest = mod->p - 1 > change->greatest ? mod->p - 1 : change->greatest;
    }
    rns_base_init(&change->base, primes, count);
    change->narrow = change->margin + count <= UINT32_MAX;
    change->point = bits + 31 < RNS_MAX_POINT ? bits + 31 : (uint32_t)RNS_MAX_POINT;
    for (uint32_t i = 0; i < count; i++) {
        const struct zq_mod *mod = &ring->prime[first + i].mod;
        change->inverse[i] = zq_inv((uint32_t)rns_mod(change->base.cofactor[i], mod->p), mod);
        change->weight[i] = (uint32_t)((UINT64_C(1) << change->point) / mod->p);
    }
    for (uint32_t k = 0; k < targets; k++) {
        target_init(&change->target[k], change, &ring->prime[to + k]);
    }
    return true;
}

void rns_change_free(struct rns_change *change) {
    free(change->target);
    change->target = NULL;
}

void rns_round(const struct rns_change *change, const uint32_t *y, size_t stride, size_t width, uint32_t *v) {
    for (size_t c = 0; c < width; c++) {
        uint64_t sum = UINT64_C(1) << (change->point - 1), digits[BFV_MAX_PRIMES];
        for (uint32_t i = 0; i < change->count; i++) {
            digits[i] = y[i * stride + c];
            sum += digits[i] * change->weight[i];
        }
        const uint32_t low = (uint32_t)(sum >> change->point);
        v[c] =
            low == (sum + change->margin) >> change->point ? low : rns_base_round(&change->base, digits, low);
    }
}
