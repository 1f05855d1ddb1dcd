/* What the files of encryption and decryption share. */
#ifndef PYBFV_CLIENT_H
#define PYBFV_CLIENT_H

#include "cpu/kernels.h"
#include "ring.h"
#include "wide.h"

/* Batches of values for ciphertexts: [count][width][words], ciphertext k at place k stride of the output. */
struct client_values {
    const bfv_encoder *encoder;
    const uint64_t *values;
    uint32_t words, width;
    uint64_t count, stride;
};

static inline const uint64_t *client_values_at(const struct client_values *values, uint64_t k) {
    return values->values + k * values->width * values->words;
}

/* Whether they fit a ring and an output of `parts` polynomials each; its bytes. */
bool client_values_are_valid(const struct client_values *values, const bfv_ring *ring, uint32_t parts,
                             const uint32_t *out, size_t *out_bytes);

/* Buffers of one thread that encodes, and their end: they are wiped. */
struct encoder_work {
    uint32_t *y; /* [primes of t][N] */
    size_t bytes;
};
bool encoder_work_open(struct encoder_work *work, const bfv_encoder *encoder);
void encoder_work_close(struct encoder_work *work);

/* bfv_encode of valid arguments. */
void encoder_encode(const bfv_encoder *encoder, const uint64_t *values, uint32_t words, uint32_t count,
                    struct encoder_work *work, uint32_t *out);

/* Slots of a phase's digits for secret.c: the ring of t's primes and the places of the slots; NULL without
 * slots. */
const bfv_ring *encoder_slots(const bfv_encoder *encoder);
const uint32_t *encoder_map(const bfv_encoder *encoder);
bool encoder_fits(const bfv_encoder *encoder, const bfv_ring *ring);
/* t in WIDE_T_WORDS words. */
const uint64_t *encoder_modulus(const bfv_encoder *encoder);

/* Calls run on ranges of [0, count) in up to `threads` threads (0: as many as there are cores), in one where
 * the bytes of output are few. */
void client_in_parallel(uint32_t threads, uint64_t count, size_t bytes,
                        void (*run)(void *, uint64_t, uint64_t), void *job);

#endif
