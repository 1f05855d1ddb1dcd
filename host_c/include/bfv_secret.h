/* The part of the C interface that touches a secret key: one translation unit
 * (secret.c), one binding. No server code may reach it (tests/test_layers.py).
 * Everything here is free of branches and memory indices that depend on the
 * secret, on errors or on messages. */
#ifndef PYBFV_BFV_SECRET_H
#define PYBFV_BFV_SECRET_H

#include "bfv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cdef begin */

typedef struct bfv_secret bfv_secret;

/* s: N coefficients in {-1, 0, 1} (checked, constant time). Keeps s in NTT form in
 * memory that is locked where the system allows and wiped on close. */
int bfv_secret_open(const bfv_ring *ring, const int8_t *s, bfv_secret **out);
void bfv_secret_close(bfv_secret *secret);

/* p0 = -(a s + e) in NTT form: a [L][N] uniform in NTT form; e: N coefficients, |e| <= 21. */
int bfv_secret_public(const bfv_secret *secret, const uint32_t *a, const int8_t *e, uint32_t *p0);

/* c0 = -a s + e + m in NTT form: symmetric encryption whose part 1 is a. m [L][N]
 * coefficient form, scaled, or NULL; rnd: bfv_error_bytes(n) bytes. */
int bfv_secret_encrypt(const bfv_secret *secret, const uint32_t *a, const uint32_t *m, const uint8_t *rnd,
                       size_t bytes, uint32_t *c0);

/* bfv_encode and bfv_secret_encrypt of `count` vectors, values [count][width][words], under a [count][L][N]:
 * part 0 of ciphertext k at out + k stride L N, with the k-th bfv_error_bytes(n) of rnd. The encoder is one
 * for the ring's primes. threads: at most BFV_MAX_THREADS, 0 for all cores. After BFV_E_MEMORY out is
 * undefined. */
int bfv_secret_encrypt_many(const bfv_secret *secret, const uint32_t *a, const bfv_encoder *encoder,
                            const uint64_t *values, uint32_t words, uint32_t width, uint64_t count,
                            const uint8_t *rnd, size_t bytes, uint32_t threads, uint32_t *out,
                            uint64_t stride);

/* out = c0 + c1 s (+ c2 s^2) in coefficient form, [L][N]; ct [parts][L][N] in NTT form. */
int bfv_secret_phase(const bfv_secret *secret, const uint32_t *ct, uint32_t parts, uint32_t *out);

/* Rounds `count` coefficients from `first` of a phase to m = round(t x / q) mod t,
 * `words` little-endian 64-bit words each, and checks |t x / q - round(t x / q)| <=
 * bound / 2^64 for all of them: else BFV_E_NOISE and out is zeroed. 2 <= t < q,
 * `words` words. bound < 2^63. */
int bfv_secret_round(const bfv_ring *ring, const uint32_t *phase, const uint64_t *t, uint32_t words,
                     uint32_t first, uint32_t count, uint64_t bound, uint64_t *out);

/* bfv_secret_round of all coefficients of a phase [L][N] for the t of a batched encoder, and their slots,
 * residues [primes of t][N] in vector order, as bfv_decode_slots gives them; the same check of the same
 * bound. */
int bfv_secret_slots(const bfv_ring *ring, const bfv_encoder *encoder, const uint32_t *phase, uint64_t bound,
                     uint32_t *out);

/* Overwrites memory in a way that compilers keep. */
void bfv_wipe(void *data, size_t size);

/* cdef end */

#ifdef __cplusplus
}
#endif
#endif
