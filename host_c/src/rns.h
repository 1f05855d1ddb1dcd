/* Residue number systems: from the residues of an integer mod some primes to its
 * residues mod others, exactly.
 *
 * Residues x_i mod p_1 .. p_m, pairwise coprime and odd, stand for the centred x in
 * (-M/2, M/2), M their product. With the digits y_i = [x_i (M/p_i)^-1] mod p_i,
 *     x = sum y_i M/p_i - v M,   v = round(sum y_i / p_i) <= m,
 * no tie as M is odd. The sum of fractions is kept in fixed point and rounded down: its error is below a
 * known margin, and where the sum lies closer than that below a tie, integers of full length decide. */
#ifndef PYBFV_RNS_H
#define PYBFV_RNS_H

#include "ring.h"

enum {
    RNS_MAX_POINT = 58, /* bits after the point: BFV_MAX_PRIMES fractions and one half fit 64 bits */
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
/* round(sum y_i / p_i), given a v that is not above it. Takes its time: for the rare doubtful sums. */
uint32_t rns_base_round(const struct rns_base *base, const uint64_t *y, uint32_t v);
/* x mod p. In: p below 2^63. Divides: set-up. */
uint64_t rns_mod(const uint64_t *x, uint64_t p);

/* To one prime w: x mod w = sum y_i factor[i] + v factor[m] mod w. */
struct rns_target {
    struct zq_mod mod;
    uint32_t neg_inv;                    /* -1/w mod 2^32 */
    uint32_t limit;                      /* such terms, or residues mod w, that a uint64_t holds; >= 2 */
    uint32_t factor[BFV_MAX_PRIMES + 1]; /* M/p_i mod w, and -M mod w */
    uint32_t lifted[BFV_MAX_PRIMES + 1]; /* the same times 2^32 mod w */
};

/* From some primes of a ring to others of it. */
struct rns_change {
    uint32_t count, targets;
    uint32_t greatest;                /* of all y and v */
    bool narrow;                      /* sum p_i + m < 2^32: then a sum of y_i lifted[i] is below 2^32 w */
    uint32_t point;                   /* bits after the point: all weights below 2^32 */
    uint32_t weight[BFV_MAX_PRIMES];  /* floor(2^point / p_i) */
    uint64_t margin;                  /* sum p_i: what a sum of y_i weight[i] is too small by is less */
    uint32_t inverse[BFV_MAX_PRIMES]; /* (M/p_i)^-1 mod p_i */
    struct rns_base base;
    struct rns_target *target;
};

/* From the `count` primes at `first` to the `targets` ones at `to`. False: no memory. */
bool rns_change_init(struct rns_change *change, const bfv_ring *ring, uint32_t first, uint32_t count,
                     uint32_t to, uint32_t targets);
void rns_change_free(struct rns_change *change);

/* v of `width` coefficients, whatever fixed point can tell; y: their digits, planes `stride` words apart. One
 * after the other: for the few that fixed point can't. */
void rns_round(const struct rns_change *change, const uint32_t *y, size_t stride, size_t width, uint32_t *v);

/* Whether 1 <= t <= the base's product; out: t in RNS_WORDS words. */
bool rns_scale_is_valid(const struct rns_base *base, const uint64_t *t, uint32_t words, uint64_t *out);

/* A lifter's fields, for the backend. */
struct bfv_lifter {
    uint32_t magic; /* LIFTER_MAGIC while open */
    uint32_t n, count, wide;
    bfv_ring *full;                  /* the primes of q, then the wide ones */
    struct rns_change to_wide, to_q; /* from q, from the wide primes */
    uint32_t inv_q[BFV_MAX_PRIMES];  /* q^-1 mod wide prime k */
    struct bfv_prime *digits;        /* [count]: those of q, whose way back ends in digits */
    uint32_t *tables;                /* their twiddles */
};

#define LIFTER_MAGIC UINT32_C(0x4c494654)

/* Words that lifter_lift needs to work in. */
static inline size_t lifter_scratch(const bfv_lifter *lifter) {
    return (size_t)lifter->count * lifter->n;
}

/* bfv_lift of one polynomial. */
void lifter_lift(const bfv_lifter *lifter, const uint32_t *x, uint32_t *out, uint32_t *scratch);

#endif
