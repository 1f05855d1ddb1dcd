/* The set-up of residue number systems, and the sums that fixed point can't round. */
#include "rns.h"

#include "cpu/kernels.h"
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
    uint64_t sum[RNS_WORDS] = {0}, tie[RNS_WORDS] = {0}, twice[RNS_WORDS];
    for (uint32_t i = 0; i < base->count; i++) {
        wide_mul_add_word(sum, base->cofactor[i], y[i], RNS_WORDS);
    }
    memcpy(twice, sum, sizeof twice);
    (void)wide_add(twice, sum, RNS_WORDS);
    wide_mul_add_word(tie, base->product, 2 * (uint64_t)v + 1, RNS_WORDS);
    return v + (uint32_t)wide_less(tie, twice, RNS_WORDS);
}

uint64_t rns_mod(const uint64_t *x, uint64_t p) {
    uint64_t rest = 0;
    for (uint32_t i = RNS_WORDS; i-- > 0;) {
        rest = (uint64_t)((((wide_pair)rest << 64) | x[i]) % p);
    }
    return rest;
}

void rns_source_init(struct rns_source *source, const bfv_ring *ring, uint32_t first, uint32_t count) {
    uint64_t primes[BFV_MAX_PRIMES] = {0};
    source->first = first;
    source->count = count;
    source->rounding.count = count;
    source->rounding.margin = 0;
    source->greatest = count;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t p = ring->prime[first + i].p;
        primes[i] = p;
        source->greatest = p - 1 > source->greatest ? p - 1 : source->greatest;
    }
    rns_base_init(&source->base, primes, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct zq_mod *mod = &ring->prime[first + i].mod;
        const uint32_t shift = mod->bits < 27 ? 27 - mod->bits : 0;
        source->inverse[i] = zq_inv((uint32_t)rns_mod(source->base.cofactor[i], mod->p), mod);
        source->rounding.shift[i] = shift;
        source->rounding.weight[i] = (uint32_t)((UINT64_C(1) << (RNS_POINT - shift)) / mod->p);
        source->rounding.margin += (uint64_t)mod->p << shift;
    }
}

void rns_target_init(struct rns_target *target, const struct rns_source *source, const struct zq_mod *mod) {
    for (uint32_t i = 0; i < source->count; i++) {
        target->factor[i] = (uint32_t)rns_mod(source->base.cofactor[i], mod->p);
    }
    target->factor[source->count] = zq_neg((uint32_t)rns_mod(source->base.product, mod->p), mod->p);
    const uint64_t most = UINT64_MAX / ((uint64_t)source->greatest * (mod->p - 1));
    target->limit = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

/* The doubtful sums of a block, again with integers of full length. */
static void round_exactly(const struct rns_source *source, const uint32_t *y, size_t stride, size_t width,
                          uint32_t *v) {
    const struct rns_rounding *r = &source->rounding;
    const uint64_t half = UINT64_C(1) << (RNS_POINT - 1);
    for (size_t c = 0; c < width; c++) {
        uint64_t sum = half, digits[BFV_MAX_PRIMES];
        for (uint32_t i = 0; i < r->count; i++) {
            digits[i] = y[i * stride + c];
            sum += (digits[i] * r->weight[i]) << r->shift[i];
        }
        if ((sum + r->margin) >> RNS_POINT != sum >> RNS_POINT) {
            v[c] = rns_base_round(&source->base, digits, v[c]);
        }
    }
}

/* Nothing branches on digits but the way to round_exactly. */
void rns_round(const struct rns_source *source, const bfv_ring *ring, const uint32_t *y, uint32_t *v) {
    const size_t n = ring->n, block = n < RNS_BLOCK ? n : RNS_BLOCK;
    for (size_t at = 0; at < n; at += block) {
        if (ring->body->rns_round(v + at, y + at, n, block, &source->rounding)) {
            round_exactly(source, y + at, n, block, v + at);
        }
    }
}

void rns_combine(const struct rns_source *source, const struct rns_target *target, const bfv_ring *ring,
                 const uint32_t *y, const uint32_t *v, const struct zq_mod *mod, uint32_t *out) {
    const size_t n = ring->n, block = n < RNS_BLOCK ? n : RNS_BLOCK;
    for (size_t at = 0; at < n; at += block) {
        ring->body->rns_combine(out + at, y + at, n, v + at, block, source->count, target, mod);
    }
}
