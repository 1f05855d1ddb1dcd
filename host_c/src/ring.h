/* A ring as the library keeps it, and the allocator of its big buffers.
 * Private: every translation unit of host_c/src may read a ring's fields, only
 * ring.c writes them. */
#ifndef PYBFV_RING_H
#define PYBFV_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#include "../include/bfv.h"
#pragma GCC visibility pop

#include "../../dpu/core/zq.h"

struct cpu_kernels;

/* One prime of the ring with all that depends on it alone and on N. */
struct bfv_prime {
    uint32_t p;
    uint32_t bits;     /* 2^(bits - 1) <= p < 2^bits */
    uint32_t root;     /* psi, the smallest primitive 2N-th root of unity */
    uint32_t n_inv;    /* N^-1 */
    uint32_t neg_inv;  /* -1/p mod 2^32 */
    struct zq_mod mod; /* the constants of zq.h; mod.p == p */
    /* Twiddles of dpu/core/ntt.h, N words each: forward[i] = psi^brv(i),
     * inverse[i] = psi^-brv(i) (brv over log2 N bits) and their Shoup quotients;
     * but inverse[0] = N^-1 and inverse[1] = psi^-brv(1) N^-1, as that file explains. */
    const uint32_t *forward, *forward_shoup;
    const uint32_t *inverse, *inverse_shoup;
    uint64_t max_products; /* products of residues that a uint64_t holds: floor((2^64 - 1)/(p - 1)^2) */
    uint64_t max_sums;     /* residues that a uint32_t holds: floor((2^32 - 1)/(p - 1)) */
};

struct bfv_ring {
    uint32_t magic; /* RING_MAGIC while open */
    uint32_t n, log_n;
    uint32_t count; /* primes */
    const struct cpu_kernels *body;
    struct bfv_prime prime[BFV_MAX_PRIMES];
    void *tables; /* what the twiddle pointers point into */
};

#define RING_MAGIC UINT32_C(0x52494e47)

/* Words of one residue polynomial, L N. */
static inline size_t ring_poly_words(const bfv_ring *ring) {
    return (size_t)ring->count * ring->n;
}

static inline bool ring_is_open(const bfv_ring *ring) {
    return ring != NULL && ring->magic == RING_MAGIC;
}

/* Memory aligned to a cache line, in huge pages where it is big and the system
 * gives them; NULL when there is none or size is 0. Contents are undefined. */
void *buffer_alloc(size_t size);
void buffer_free(void *data); /* NULL is fine */

static inline bool is_aligned(const void *data, size_t alignment) {
    return data != NULL && (uintptr_t)data % alignment == 0;
}

/* Whether two stretches of memory share a byte. */
static inline bool overlaps(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a_bytes != 0 && b_bytes != 0 && (x < y ? y - x < a_bytes : x - y < b_bytes);
}

/* out = a b in size_t; false on overflow (out is then unchanged). */
static inline bool size_mul(uint64_t a, uint64_t b, size_t *out) {
    size_t product = 0;
    if (a > SIZE_MAX || b > SIZE_MAX || __builtin_mul_overflow((size_t)a, (size_t)b, &product)) {
        return false;
    }
    *out = product;
    return true;
}

#endif
