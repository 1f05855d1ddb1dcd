/* The NTT family's memory: what lies where, and how it gets there.
 *
 * MRAM holds, besides tables: accumulators, resident from first use; arrays, resident while
 * there is room (they are copies of host memory and are simply forgotten when room is
 * needed); one staging region for what comes in batches, lifted operands of scaled products among it.
 * Accumulators give way last: to host memory, and come back when used. `used` orders both by the call that
 * used them last; what the current call needs is never moved.
 */
#ifndef PYBFV_NTT_FAMILY_H
#define PYBFV_NTT_FAMILY_H

#include "upmem.h"

/* Host bytes that move at a time, over all DPUs: they stay in cache. */
enum { NTT_CHUNK_BYTES = 8 << 20 };

/* What is said of a DPU whose word no computation gives. */
#define NTT_NO_RESIDUE "returned a word that is not below its prime"

/* Primes, and how their planes lie on the DPUs: those of q, or with the wide ones after them. */
struct ntt_base {
    const bfv_ring *ring;
    struct slices slices;
};

/* An accumulator: on the DPUs (region), else on the host (words), else zero. */
struct ntt_acc {
    struct ntt_acc *next;
    const struct ntt_base *base; /* full for a scaled product */
    uint32_t parts;
    uint64_t used;
    struct mram_region *region; /* a slice of each DPU */
    bool fresh;                 /* region's contents are still to be written: the value is zero */
    uint32_t *words;            /* [parts][L][N], or [3][L + K][N] */
    bool damaged; /* some DPUs may have added what others have not; until the next load. While a launch that
                   * was left runs this is what is known so far. */
};

/* What is kept of an array: its ciphertexts on the DPUs, slices one after the other; its lifted ciphertexts
 * on the host. */
struct ntt_cache {
    struct ntt_cache *next;
    struct upmem_array *array;
    uint64_t used;
    struct mram_region *region; /* NULL: not on the DPUs */
    uint32_t *lifted;           /* [count][2][L + K][N], those that is_lifted says; NULL until needed */
    bool *is_lifted;            /* [count] */
};

struct ntt_family {
    struct ntt_base q, full;
    uint64_t now; /* number of the current call */
    struct ntt_acc *accs;
    struct ntt_cache *caches;
    struct mram_region *tables;
    struct mram_region *twiddles[2]; /* forward, inverse; NULL until needed */
};

static inline struct ntt_family *family_of(const struct upmem *upmem) {
    return upmem->family;
}

/* The DPU that has coefficient c of plane i. */
static inline uint32_t ntt_base_owner(const struct ntt_base *base, uint32_t i, uint32_t c) {
    return slices_owner(&base->slices, i * base->slices.per_plane + c / BFV_UNIT);
}

/* MRAM bytes of a ciphertext of `parts` parts. */
static inline uint64_t slice_bytes(const struct ntt_base *base, uint32_t parts) {
    return (uint64_t)parts * base->slices.units * BFV_UNIT_BYTES;
}

/* Words of a ciphertext of `parts` parts. */
static inline size_t base_words(const struct ntt_base *base, uint32_t parts) {
    return parts * ring_poly_words(base->ring);
}

/* `count` ciphertexts at x, `step` words apart, to MRAM at offset, slice after slice. */
int ntt_send(struct upmem *upmem, const struct ntt_base *base, const uint32_t *x, size_t step, uint64_t count,
             uint32_t parts, uint32_t offset);
/* The way back, for consecutive ciphertexts. BFV_E_BACKEND, and x undefined, when a word that came back is
 * no residue. */
int ntt_receive(struct upmem *upmem, const struct ntt_base *base, uint32_t offset, uint64_t count,
                uint32_t parts, uint32_t *x);

/* A region, with what the current call does not need moved away: arrays first, then, if accs is set,
 * accumulators. BFV_E_MEMORY when that is not enough. */
int ntt_make_room(struct upmem *upmem, uint64_t bytes, bool accs, struct mram_region **out);

/* BFV_E_BACKEND when an error has left the accumulator without a value. */
int ntt_acc_check(struct upmem *upmem, const struct ntt_acc *acc);

/* Brings an accumulator to the DPUs, for the current call. BFV_E_BACKEND as ntt_acc_check. */
int ntt_acc_to_dpus(struct upmem *upmem, struct ntt_acc *acc);

/* Tries to have a whole array on the DPUs for the current call: *out is where, unchanged when there is no
 * room for it. */
int ntt_array_to_dpus(struct upmem *upmem, const struct bfv_array *array, struct mram_region **out);
/* Takes it away from there. */
void ntt_array_leave(struct upmem *upmem, const struct bfv_array *array);
/* Frees all that is kept of an array. */
void ntt_cache_drop(struct upmem *upmem, struct ntt_cache *cache);

/* Has ciphertexts first, first + stride, .. (count of them) of an array of two parts lifted to the wide
 * primes: *out is [array->count][2][L + K][N]. */
int ntt_lift(struct upmem *upmem, const struct bfv_array *array, uint64_t first, uint64_t stride,
             uint64_t count, const uint32_t **out);

#endif
