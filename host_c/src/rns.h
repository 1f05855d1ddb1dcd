/* Residue number systems: from the residues of an integer mod some primes to its
 * residues mod others, exactly.
 *
 * Residues x_i mod p_1 .. p_m, pairwise coprime and odd, stand for the centred x in
 * (-M/2, M/2), M their product. With the digits y_i = [x_i (M/p_i)^-1] mod p_i,
 *     x = sum y_i M/p_i - v M,   v = round(sum y_i / p_i) <= m,
 * no tie as M is odd. The sum of fractions is kept in fixed point, 58 bits after the point and rounded down:
 * its error is below a known margin, and where the sum lies closer than that to a tie, integers of full
 * length decide. */
#ifndef PYBFV_RNS_H
#define PYBFV_RNS_H

#include "ring.h"

enum {
    RNS_POINT = 58, /* BFV_MAX_PRIMES fractions and one half fit 64 bits */
    /* Words of 2 (m + 1) M: the longest of the integers of full length. */
    RNS_WORDS = (BFV_MAX_PRIMES * 30 + 7 + 63) / 64
};

/* The integers of full length. */
struct rns_base {
    uint32_t count;
    uint64_t product[RNS_WORDS];                  /* M */
    uint64_t cofactor[BFV_MAX_PRIMES][RNS_WORDS]; /* M / p_i */
};

/* In: moduli whose product is below 2^1200, at most BFV_MAX_PRIMES. */
void rns_base_init(struct rns_base *base, const uint64_t *primes, uint32_t count);
/* round(sum y_i / p_i), given v, its value or one less. Takes its time: for the rare doubtful sums. */
uint32_t rns_base_round(const struct rns_base *base, const uint64_t *y, uint32_t v);
/* x mod p. In: p below 2^63. Divides: set-up. */
uint64_t rns_mod(const uint64_t *x, uint64_t p);

/* What the fractions of 32-bit digits take: with b = bits of p_i and s = shift[i] = max(0, 27 - b),
 * weight[i] = floor(2^(58 - s) / p_i), below 2^32, so that y_i weight[i] 2^s <= 2^58 y_i / p_i with an error
 * below p_i 2^s. */
struct rns_rounding {
    uint32_t count;
    uint32_t weight[BFV_MAX_PRIMES], shift[BFV_MAX_PRIMES];
    uint64_t margin; /* what the sum is too small by is less */
};

/* From `count` primes of a ring, from prime `first` on. */
struct rns_source {
    uint32_t first, count;
    uint32_t greatest;                /* of all y and v */
    uint32_t inverse[BFV_MAX_PRIMES]; /* (M/p_i)^-1 mod p_i */
    struct rns_rounding rounding;
    struct rns_base base;
};

/* To one prime w: x mod w = sum y_i factor[i] + v factor[m] mod w. */
struct rns_target {
    uint32_t factor[BFV_MAX_PRIMES + 1]; /* M/p_i mod w, and -M mod w */
    uint32_t limit;                      /* such terms, or residues mod w, that a uint64_t holds; >= 2 */
};

void rns_source_init(struct rns_source *source, const bfv_ring *ring, uint32_t first, uint32_t count);
void rns_target_init(struct rns_target *target, const struct rns_source *source, const struct zq_mod *mod);

/* v[N] = round(sum y_i / p_i) for the digits y[count][N]. */
void rns_round(const struct rns_source *source, const bfv_ring *ring, const uint32_t *y, uint32_t *v);
/* out[N] = x mod the target's prime, mod. */
void rns_combine(const struct rns_source *source, const struct rns_target *target, const bfv_ring *ring,
                 const uint32_t *y, const uint32_t *v, const struct zq_mod *mod, uint32_t *out);

/* Whether 1 <= t <= the base's product; out: t in RNS_WORDS words. */
bool rns_scale_is_valid(const struct rns_base *base, const uint64_t *t, uint32_t words, uint64_t *out);

/* A lifter's fields, for backend_cpu.c. */
struct bfv_lifter {
    uint32_t magic; /* LIFTER_MAGIC while open */
    uint32_t n, count, wide;
    bfv_ring *full;                 /* the primes of q, then the wide ones */
    struct rns_source q, w;         /* from q, from the wide primes */
    struct rns_target *to_wide;     /* [wide], from q */
    struct rns_target *to_q;        /* [count], from the wide primes */
    uint32_t inv_q[BFV_MAX_PRIMES]; /* q^-1 mod wide prime k */
};

#define LIFTER_MAGIC UINT32_C(0x4c494654)

/* Words that lifter_lift needs to work in. */
static inline size_t lifter_scratch(const bfv_lifter *lifter) {
    return (size_t)(lifter->count + 1) * lifter->n;
}

/* bfv_lift of one polynomial. */
void lifter_lift(const bfv_lifter *lifter, const uint32_t *x, uint32_t *out, uint32_t *scratch);

#endif
