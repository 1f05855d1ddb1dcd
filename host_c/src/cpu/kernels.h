/* The table of CPU kernels. Each body (portable, avx2, avx512) is the same C
 * compiled for another instruction set; "portable" is the oracle of the others. */
#ifndef PYBFV_CPU_KERNELS_H
#define PYBFV_CPU_KERNELS_H

#include "../ring.h"

/* Every function works on `width` consecutive words of one plane, mod one prime.
 * In, Out: residues < p. Alias: out may be a or b, else no overlap. */
struct rns_change;

/* Encoding: digits y_i mod t_i to round(sum y_i q / t_i) mod every prime of q, fractions in 64 bits. */
struct encode_change {
    uint32_t count, targets;                            /* primes of t, of q */
    uint64_t fraction[BFV_MAX_T_PRIMES];                /* floor(2^64 (q mod t_i) / t_i) */
    struct zq_mod mod[BFV_MAX_Q_PRIMES];                /* of q's primes */
    uint32_t scale[BFV_MAX_Q_PRIMES][BFV_MAX_T_PRIMES]; /* floor(q / t_i) mod p_j */
    bool narrow; /* the sum of 2 t_i is below 2^32: then sums of digits and their carry are */
    uint32_t neg_inv[BFV_MAX_Q_PRIMES];                  /* -1/p_j mod 2^32 */
    uint32_t lifted[BFV_MAX_Q_PRIMES][BFV_MAX_T_PRIMES]; /* scale times 2^32 mod p_j */
};

struct decode_target {
    struct zq_mod mod;
    uint32_t factor[BFV_MAX_Q_PRIMES]; /* -1/p_i mod t_k */
};

/* Decoding (secret.c derives it): digits y_i = [t x (q/p_i)^-1] mod p_i to m mod every prime of t. */
struct decode_change {
    uint32_t count, targets;                  /* primes of q, of t */
    uint32_t reciprocal[BFV_MAX_Q_PRIMES][3]; /* floor(2^96 / p_i), little-endian */
    uint64_t bound;                           /* in units of 2^-64 */
    uint64_t width[2];                        /* twice it less the sum's error: bits 32 to 95, 0 to 31 */
    struct decode_target target[BFV_MAX_T_PRIMES];
};

/* Products that a word holds beside what is carried: 15 (2^30 - 1)^2 + 2^35 < 2^64. */
enum { ENCODE_PRODUCTS = 15, DECODE_PRODUCTS = 15 };

struct cpu_kernels {
    const char *name;

    /* One residue polynomial of n words in place (dpu/core/ntt.h). */
    void (*ntt_forward)(uint32_t *x, uint32_t n, const struct bfv_prime *prime);
    void (*ntt_inverse)(uint32_t *x, uint32_t n, const struct bfv_prime *prime);
    /* From x to out. Alias: none. */
    void (*ntt_inverse_to)(uint32_t *out, const uint32_t *x, uint32_t n, const struct bfv_prime *prime);

    void (*add)(uint32_t *out, const uint32_t *a, const uint32_t *b, size_t width, uint32_t p);
    void (*sub)(uint32_t *out, const uint32_t *a, const uint32_t *b, size_t width, uint32_t p);
    void (*neg)(uint32_t *out, const uint32_t *a, size_t width, uint32_t p);
    void (*mul)(uint32_t *out, const uint32_t *a, const uint32_t *b, size_t width, const struct zq_mod *mod);
    void (*mul_scalar)(uint32_t *out, const uint32_t *a, uint32_t s, size_t width, uint32_t p);
    /* out0 = a0 b0, out1 = a0 b1 + a1 b0, out2 = a1 b1. Alias: none with the outputs. */
    void (*tensor)(uint32_t *const out[3], const uint32_t *const a[2], const uint32_t *const b[2],
                   size_t width, const struct zq_mod *mod);
    /* In: any int64_t. */
    void (*from_int64)(uint32_t *out, const int64_t *values, size_t width, const struct zq_mod *mod);

    /* Whether all words are < p. In: any words. copy_check also copies them, in any case. */
    bool (*check)(const uint32_t *x, size_t width, uint32_t p);
    bool (*copy_check)(uint32_t *out, const uint32_t *x, size_t width, uint32_t p);

    /* Accumulation over `count` terms, `stride` words apart; width <= ACC_BLOCK.
     * acc_sum: state += sum x. acc_mul: state[0..2] += the tensors of (a0, a1) and
     * (b0, b1). acc_square: the same for b = a. */
    void (*acc_sum)(uint32_t *state, const uint32_t *x, size_t stride, uint64_t count, size_t width,
                    const struct bfv_prime *prime);
    void (*acc_mul)(uint32_t *const state[3], const uint32_t *const a[2], const uint32_t *const b[2],
                    size_t stride, uint64_t count, size_t width, const struct bfv_prime *prime);
    void (*acc_square)(uint32_t *const state[3], const uint32_t *const a[2], size_t stride, uint64_t count,
                       size_t width, const struct bfv_prime *prime);
    /* As acc_square, divided by 2^32 mod p, for few terms: 1 <= count <= max_sums. */
    void (*acc_square_few)(uint32_t *const state[3], const uint32_t *const a[2], size_t stride,
                           uint64_t count, size_t width, const struct bfv_prime *prime);

    /* out = a b / 2^32, plus residues where plus isn't NULL. Alias: out may be plus. */
    void (*mul_lifted)(uint32_t *out, const uint32_t *a, const uint32_t *b, const uint32_t *plus,
                       size_t width, const struct bfv_prime *prime);
    /* out = x mod p, plus residues where plus isn't NULL. In: any int8_t. */
    void (*small)(uint32_t *out, const int8_t *x, const uint32_t *plus, size_t width,
                  const struct zq_mod *mod);
    /* out += sum over i < count of a_i b_i / 2^32, planes a_stride and b_stride words apart. Alias: none. */
    void (*dot)(uint32_t *out, const uint32_t *a, size_t a_stride, const uint32_t *b, size_t b_stride,
                uint32_t count, size_t width, const struct bfv_prime *prime);
    /* The samplers of bfv.h. ternary: false and out unchanged when the bytes don't suffice. uniform: words
     * below 2^bits that are below p to out[filled..n); gives the new `filled`. */
    bool (*ternary)(int8_t *out, uint32_t n, const uint8_t *rnd, size_t bytes);
    void (*error)(int8_t *out, size_t n, const uint8_t *rnd);
    uint32_t (*uniform)(uint32_t *out, uint32_t filled, uint32_t n, const uint8_t *rnd, size_t bytes,
                        uint32_t p, uint32_t mask);
    /* Integers in two's complement of one word mod p. */
    void (*reduce_words)(uint32_t *out, const uint64_t *values, size_t width, const struct zq_mod *mod);
    /* Planes y of digits, `stride` words apart, to planes of out. Alias: none. decode gives 1 when a residual
     * may lie outside the bound, else 0. */
    void (*encode)(uint32_t *out, size_t out_stride, const uint32_t *y, size_t stride, size_t width,
                   const struct encode_change *change);
    uint32_t (*decode)(uint32_t *out, size_t out_stride, const uint32_t *y, size_t stride, size_t width,
                       const struct decode_change *change);
    /* out = the centred x mod from, times 2^32 mod another prime. In: x < from. Alias: none. */
    void (*recentre)(uint32_t *out, const uint32_t *x, uint32_t from, size_t width, const struct zq_mod *mod);

    /* out = sum over i < count of y_i inverse[i], less the nearest integer; planes `stride` words apart. */
    void (*fractions)(double *out, const uint32_t *y, size_t stride, uint32_t count, size_t width,
                      const double *inverse);

    /* rns.h: the digits y[count][n] of centred integers to their residues out[targets][n]. In: y < p.
     * Nothing branches on them but the way to rns_round. Alias: none. */
    void (*rns_convert)(uint32_t *out, const uint32_t *y, size_t n, const struct rns_change *change);

    /* Ciphertexts as polynomials in their parts, at a point s of each coefficient: x(s) = x_0 + s x_1 + s^2
     * x_2 (x[2] NULL: two parts). state += the sum of x(s), or of a(s) b(s), over `count` terms, `stride`
     * words apart; width <= ACC_BLOCK. In: s <= POINT_MOST and (s + 1) (p - 1) < 2^32; limit: how many
     * ((s + 1) (p - 1))^2 a uint64_t holds. a and b may be the same. */
    void (*point_sum)(uint32_t *state, const uint32_t *const x[3], const uint32_t *s, size_t stride,
                      uint64_t count, size_t width, const struct bfv_prime *prime);
    void (*point_mul)(uint32_t *state, const uint32_t *const a[2], const uint32_t *const b[2],
                      const uint32_t *s, uint64_t limit, size_t stride, uint64_t count, size_t width,
                      const struct bfv_prime *prime);
};

/* The most words of a plane that one call accumulates: long runs of memory, and
 * accumulators (3 x 8 bytes a word) that stay in the second-level cache. Measured. */
enum { ACC_BLOCK = 2048 };
enum { RNS_BLOCK = 1024 };
/* The greatest point, and how many (1 + s + s^2) (p - 1) a uint64_t holds. */
enum { POINT_MOST = 255, POINT_SUMS = 1 << 16 };

extern const struct cpu_kernels cpu_portable;
#if defined(__x86_64__)
extern const struct cpu_kernels cpu_avx2;
extern const struct cpu_kernels cpu_avx512;
#endif

/* The bodies that this CPU can run, best first; NULL beyond the last. */
const struct cpu_kernels *cpu_body(uint32_t index);

#endif
