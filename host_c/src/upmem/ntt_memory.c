/* The NTT family's memory (ntt_family.h): transfers, room, residence. */
#include <stdlib.h>
#include <string.h>

#include "ntt_family.h"

/* A DPU's share of a chunk is at least this much, where the transfers' rate is good. */
enum { CHUNK_DPU_BYTES = 16 << 10 };

/* ---- host memory to slices and back -------------------------------------------------- */

struct move_job {
    struct upmem *upmem;
    const uint32_t *from;
    uint32_t *to;
    size_t step;    /* words from one ciphertext to the next on the host */
    uint64_t count; /* ciphertexts */
    uint32_t parts;
};

static void gather_dpu(void *argument, uint32_t dpu) {
    const struct move_job *job = argument;
    const struct slices *slices = &family_of(job->upmem)->slices;
    const size_t each = (size_t)slices->units * job->parts * BFV_UNIT;
    uint32_t *to = job->to + dpu * job->count * each;
    for (uint64_t k = 0; k < job->count; k++) {
        slices_gather(slices, ring_of(job->upmem), dpu, job->from + k * job->step, job->parts, to + k * each);
    }
}

static void scatter_dpu(void *argument, uint32_t dpu) {
    const struct move_job *job = argument;
    const struct slices *slices = &family_of(job->upmem)->slices;
    const size_t each = (size_t)slices->units * job->parts * BFV_UNIT;
    const uint32_t *from = job->from + dpu * job->count * each;
    for (uint64_t k = 0; k < job->count; k++) {
        slices_scatter(slices, ring_of(job->upmem), dpu, from + k * each, job->parts,
                       job->to + k * job->step);
    }
}

/* Ciphertexts that are gathered at a time. */
static uint64_t chunk_of(const struct upmem *upmem, uint32_t parts) {
    const uint64_t each = slice_bytes(upmem, parts);
    uint64_t bytes = NTT_CHUNK_BYTES / upmem->dpus;
    bytes = bytes > CHUNK_DPU_BYTES ? bytes : CHUNK_DPU_BYTES;
    return bytes > each ? bytes / each : 1;
}

/* Two buffers: one is filled while the other is on its way. */
int ntt_send(struct upmem *upmem, const uint32_t *x, size_t step, uint64_t count, uint32_t parts,
             uint32_t offset) {
    const uint64_t each = slice_bytes(upmem, parts), chunk = chunk_of(upmem, parts);
    int status = BFV_OK;
    for (uint64_t at = 0, turn = 0; at < count && status == BFV_OK; at += chunk, turn++) {
        const uint64_t now = count - at < chunk ? count - at : chunk;
        const uint64_t start = upmem_clock();
        struct move_job job = {
            .upmem = upmem, .from = x + at * step, .step = step, .count = now, .parts = parts};
        job.to = upmem_stage(upmem, turn & 1, now * each);
        if (job.to == NULL) {
            status = BFV_E_MEMORY;
            break;
        }
        upmem_parallel(upmem, upmem->dpus, gather_dpu, &job);
        upmem->backend->stats.host_to_dpu += upmem_clock() - start;
        status = upmem_settle(upmem);
        if (status == BFV_OK) {
            status = upmem_push_begin(upmem, offset + (uint32_t)(at * each), job.to, now * each);
        }
    }
    const int settled = upmem_settle(upmem);
    return status != BFV_OK ? status : settled;
}

int ntt_receive(struct upmem *upmem, uint32_t offset, uint64_t count, uint32_t parts, uint32_t *x) {
    const uint64_t each = slice_bytes(upmem, parts), chunk = chunk_of(upmem, parts);
    const size_t step = parts * ring_poly_words(ring_of(upmem));
    int status = BFV_OK;
    for (uint64_t at = 0; at < count && status == BFV_OK; at += chunk) {
        const uint64_t now = count - at < chunk ? count - at : chunk;
        uint32_t *stage = upmem_stage(upmem, 0, now * each);
        if (stage == NULL) {
            return BFV_E_MEMORY;
        }
        status = upmem_pull(upmem, offset + (uint32_t)(at * each), stage, now * each);
        if (status == BFV_OK) {
            const uint64_t start = upmem_clock();
            struct move_job job = {.upmem = upmem,
                                   .from = stage,
                                   .to = x + at * step,
                                   .step = step,
                                   .count = now,
                                   .parts = parts};
            upmem_parallel(upmem, upmem->dpus, scatter_dpu, &job);
            if (bfv_check_residues(ring_of(upmem), job.to, now * parts) != BFV_OK) {
                status = upmem_fail(upmem, BFV_E_BACKEND, NTT_NO_RESIDUE);
            }
            upmem->backend->stats.dpu_to_host += upmem_clock() - start;
        }
    }
    return status;
}

/* ---- room in MRAM ---------------------------------------------------------------------- */

void ntt_cache_drop(struct upmem *upmem, struct ntt_cache *cache) {
    struct ntt_cache **link = &family_of(upmem)->caches;
    while (*link != cache) {
        link = &(*link)->next;
    }
    *link = cache->next;
    cache->array->cache = NULL;
    mram_free(&upmem->mram, cache->region);
    free(cache);
}

static struct ntt_cache *oldest_cache(const struct ntt_family *family) {
    struct ntt_cache *oldest = NULL;
    for (struct ntt_cache *cache = family->caches; cache != NULL; cache = cache->next) {
        if (cache->used < family->now && (oldest == NULL || cache->used < oldest->used)) {
            oldest = cache;
        }
    }
    return oldest;
}

static struct ntt_acc *oldest_acc(const struct ntt_family *family) {
    struct ntt_acc *oldest = NULL;
    for (struct ntt_acc *acc = family->accs; acc != NULL; acc = acc->next) {
        if (acc->region != NULL && acc->used < family->now && (oldest == NULL || acc->used < oldest->used)) {
            oldest = acc;
        }
    }
    return oldest;
}

/* Moves an accumulator's value to host memory. */
static int acc_to_host(struct upmem *upmem, struct ntt_acc *acc) {
    if (!acc->fresh && !acc->damaged) {
        uint32_t *words = buffer_alloc(acc->parts * ring_poly_words(ring_of(upmem)) * sizeof *words);
        if (words == NULL) {
            return BFV_E_MEMORY;
        }
        const int status = ntt_receive(upmem, acc->region->offset, 1, acc->parts, words);
        if (status != BFV_OK) {
            buffer_free(words);
            return status;
        }
        acc->words = words;
    }
    mram_free(&upmem->mram, acc->region);
    acc->region = NULL;
    return BFV_OK;
}

int ntt_make_room(struct upmem *upmem, uint64_t bytes, bool accs, struct mram_region **out) {
    struct ntt_family *family = family_of(upmem);
    for (;;) {
        int status = mram_alloc(&upmem->mram, bytes, out);
        if (status != BFV_E_MEMORY) {
            return status;
        }
        struct ntt_cache *cache = oldest_cache(family);
        struct ntt_acc *acc = accs && cache == NULL ? oldest_acc(family) : NULL;
        if (cache != NULL) {
            ntt_cache_drop(upmem, cache);
        } else if (acc != NULL) {
            status = acc_to_host(upmem, acc);
            if (status != BFV_OK) {
                return status;
            }
        } else {
            return upmem_fail(upmem, BFV_E_MEMORY, "the MRAM of %u DPUs is too small for this job",
                              upmem->dpus);
        }
    }
}

int ntt_acc_check(struct upmem *upmem, const struct ntt_acc *acc) {
    return !acc->damaged ? BFV_OK : upmem_fail(upmem, BFV_E_BACKEND, UPMEM_DAMAGED);
}

int ntt_acc_to_dpus(struct upmem *upmem, struct ntt_acc *acc) {
    int status = ntt_acc_check(upmem, acc);
    if (status != BFV_OK) {
        return status;
    }
    acc->used = family_of(upmem)->now;
    if (acc->region != NULL) {
        return BFV_OK;
    }
    struct mram_region *region = NULL;
    status = ntt_make_room(upmem, slice_bytes(upmem, acc->parts), true, &region);
    if (status == BFV_OK && acc->words != NULL) {
        status = ntt_send(upmem, acc->words, 0, 1, acc->parts, region->offset);
    }
    if (status != BFV_OK) {
        mram_free(&upmem->mram, region);
        return status;
    }
    acc->region = region;
    acc->fresh = acc->words == NULL;
    buffer_free(acc->words);
    acc->words = NULL;
    return BFV_OK;
}

int ntt_array_to_dpus(struct upmem *upmem, const struct bfv_array *array, struct ntt_cache **out) {
    struct ntt_family *family = family_of(upmem);
    struct upmem_array *data = array->data;
    struct ntt_cache *cache = data->cache;
    if (cache == NULL) {
        const uint64_t each = slice_bytes(upmem, array->parts);
        if (array->count > upmem->mram.size / each) {
            return BFV_OK;
        }
        struct mram_region *region = NULL;
        int status = ntt_make_room(upmem, array->count * each, false, &region);
        if (status == BFV_E_MEMORY) {
            return BFV_OK;
        }
        cache = malloc(sizeof *cache);
        if (status == BFV_OK) {
            status = cache == NULL
                         ? BFV_E_MEMORY
                         : ntt_send(upmem, data->words, array->parts * ring_poly_words(ring_of(upmem)),
                                    array->count, array->parts, region->offset);
        }
        if (status != BFV_OK) {
            mram_free(&upmem->mram, region);
            free(cache);
            return status;
        }
        *cache = (struct ntt_cache){.next = family->caches, .array = data, .region = region};
        family->caches = cache;
        data->cache = cache;
    }
    cache->used = family->now;
    *out = cache;
    return BFV_OK;
}
