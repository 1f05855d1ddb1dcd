/* AES-256 in counter mode by the CPU's own instructions, whose time does not depend on keys or data. */
#ifndef PYBFV_AES_H
#define PYBFV_AES_H

#include <stdbool.h>
#include <stdint.h>

enum { AES_BLOCK = 16, AES_ROUNDS = 14, AES_KEY_BYTES = 32 };

struct aes_key {
    _Alignas(16) uint8_t round[AES_ROUNDS + 1][AES_BLOCK];
};

/* Whether this CPU has such instructions; without them nothing else here may be called. */
bool aes_has_hardware(void);

/* The round keys of a key of AES_KEY_BYTES: secret, the caller's to wipe. */
void aes_key_init(struct aes_key *key, const uint8_t *seed);

/* FORMAT.md's key stream of counter block (index, 0, 0, 0): `blocks` blocks from block `first` on. */
void aes_stream(const struct aes_key *key, uint32_t index, uint64_t first, uint64_t blocks, uint8_t *out);

#endif
