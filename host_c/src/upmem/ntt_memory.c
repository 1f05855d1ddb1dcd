/* The NTT family's memory (ntt_family.h): transfers, room, residence. */
#include <stdlib.h>
#include <string.h>

#include "ntt_family.h"

/* A DPU's share of a chunk is at least this much, where the transfers' rate is good. */
enum { CHUNK_DPU_BYTES = 16 << 10 };

enum { LIFT_WORKERS = 64 };

/* ---- host memory to slices and back -------------------------------------------------- */

struct move_job {
    const struct ntt_base *base;
    const uint32_t *from;
    uint32_t *to;
    size_t step;    /* words from one ciphertext to the next on the host */
    uint64_t count; /* ciphertexts */
    uint32_t parts;
};

static void gather_dpu(void *argument, uint32_t dpu) {
    const struct move_job *job = argument;
    const struct slices *slices = &job->base->slices;
    const size_t each = (size_t)slices->units * job->parts * BFV_UNIT;
    uint32_t *to = job->to + dpu * job->count * each;
    for (uint64_t k = 0; k < job->count; k++) {
        slices_gather(slices, job->base->ring, dpu, job->from + k * job->step, job->parts, to + k * each);
    }
}

static void scatter_dpu(void *argument, uint32_t dpu) {
    const struct move_job *job = argument;
    const struct slices *slices = &job->base->slices;
    const size_t each = (size_t)slices->units * job->parts * BFV_UNIT;
    const uint32_t *from = job->from + dpu * job->count * each;
    for (uint64_t k = 0; k < job->count; k++) {
        slices_scatter(slices, job->base->ring, dpu, from + k * each, job->parts, job->to + k * job->step);
    }
}

/* Ciphertexts that are gathered at a time. */
static uint64_t chunk_of(const struct upmem *upmem, const struct ntt_base *base, uint32_t parts) {
    const uint64_t each = slice_bytes(base, parts);
    uint64_t bytes = NTT_CHUNK_BYTES / upmem->dpus;
    bytes = bytes > CHUNK_DPU_BYTES ? bytes : CHUNK_DPU_BYTES;
    return bytes > each ? bytes / each : 1;
}

/* Two buffers: one is filled while the other is on its way. */
int ntt_send(struct upmem *upmem, const struct ntt_base *base, const uint32_t *x, size_t step, uint64_t count,
             uint32_t parts, uint32_t offset) {
    const uint64_t each = slice_bytes(base, parts), chunk = chunk_of(upmem, base, parts);
    int status = BFV_OK;
    for (uint64_t at = 0, turn = 0; at < count && status == BFV_OK; at += chunk, turn++) {
        const uint64_t now = count - at < chunk ? count - at : chunk;
        const uint64_t start = upmem_clock();
        struct move_job job = {
            .base = base, .from = x + at * step, .step = step, .count = now, .parts = parts};
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

/* Of words that the DPUs returned one is no residue. */
static int blame_residue(struct upmem *upmem, const struct ntt_base *base, const uint32_t *x) {
    const bfv_ring *ring = base->ring;
    size_t at = 0;
    while (x[at] < ring->prime[at / ring->n % ring->count].p) {
        at++;
    }
    const uint32_t dpu =
        ntt_base_owner(base, (uint32_t)(at / ring->n % ring->count), (uint32_t)(at % ring->n));
    return upmem_blame(upmem, dpu, NTT_NO_RESIDUE);
}

int ntt_receive(struct upmem *upmem, const struct ntt_base *base, uint32_t offset, uint64_t count,
                uint32_t parts, uint32_t *x) {
    const uint64_t each = slice_bytes(base, parts), chunk = chunk_of(upmem, base, parts);
    const size_t step = base_words(base, parts);
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
            struct move_job job = {
                .base = base, .from = stage, .to = x + at * step, .step = step, .count = now, .parts = parts};
            upmem_parallel(upmem, upmem->dpus, scatter_dpu, &job);
            if (bfv_check_residues(base->ring, job.to, now * parts) != BFV_OK) {
                status = blame_residue(upmem, base, job.to);
            }
            upmem->backend->stats.dpu_to_host += upmem_clock() - start;
        }
    }
    return status;
}

/* ---- room in MRAM ---------------------------------------------------------------------- */

static void cache_leave(struct upmem *upmem, struct ntt_cache *cache) {
    mram_free(&upmem->mram, cache->region);
    cache->region = NULL;
}

void ntt_cache_drop(struct upmem *upmem, struct ntt_cache *cache) {
    struct ntt_cache **link = &family_of(upmem)->caches;
    while (*link != cache) {
        link = &(*link)->next;
    }
    *link = cache->next;
    cache->array->cache = NULL;
    cache_leave(upmem, cache);
    buffer_free(cache->lifted);
    free(cache->is_lifted);
    free(cache);
}

/* What is kept of an array, NULL when there is no memory for it. */
static struct ntt_cache *cache_of(struct upmem *upmem, const struct bfv_array *array) {
    struct ntt_family *family = family_of(upmem);
    struct upmem_array *data = array->data;
    if (data->cache == NULL) {
        struct ntt_cache *cache = calloc(1, sizeof *cache);
        if (cache != NULL) {
            *cache = (struct ntt_cache){.next = family->caches, .array = data};
            family->caches = cache;
            data->cache = cache;
        }
    }
    return data->cache;
}

static struct ntt_cache *oldest_cache(const struct ntt_family *family) {
    struct ntt_cache *oldest = NULL;
    for (struct ntt_cache *cache = family->caches; cache != NULL; cache = cache->next) {
        if (cache->region != NULL && cache->used < family->now &&
            (oldest == NULL || cache->used < oldest->used)) {
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
        uint32_t *words = buffer_alloc(base_words(acc->base, acc->parts) * sizeof *words);
        if (words == NULL) {
            return BFV_E_MEMORY;
        }
        const int status = ntt_receive(upmem, acc->base, acc->region->offset, 1, acc->parts, words);
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
            cache_leave(upmem, cache);
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
    status = ntt_make_room(upmem, slice_bytes(acc->base, acc->parts), true, &region);
    if (status == BFV_OK && acc->words != NULL) {
        status = ntt_send(upmem, acc->base, acc->words, 0, 1, acc->parts, region->offset);
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

int ntt_array_to_dpus(struct upmem *upmem, const struct bfv_array *array, struct mram_region **out) {
    struct ntt_family *family = family_of(upmem);
    struct ntt_cache *cache = cache_of(upmem, array);
    if (cache == NULL) {
        return BFV_E_MEMORY;
    }
    cache->used = family->now;
    if (cache->region == NULL) {
        const struct ntt_base *base = &family->q;
        const uint64_t each = slice_bytes(base, array->parts);
        if (array->count > upmem->mram.size / each) {
            return BFV_OK;
        }
        struct mram_region *region = NULL;
        int status = ntt_make_room(upmem, array->count * each, false, &region);
        if (status == BFV_E_MEMORY) {
            return BFV_OK;
        }
        if (status == BFV_OK) {
            status = ntt_send(upmem, base, cache->array->words, base_words(base, array->parts), array->count,
                              array->parts, region->offset);
        }
        if (status != BFV_OK) {
            mram_free(&upmem->mram, region);
            return status;
        }
        cache->region = region;
    }
    *out = cache->region;
    return BFV_OK;
}

void ntt_array_leave(struct upmem *upmem, const struct bfv_array *array) {
    struct ntt_cache *cache = ((struct upmem_array *)array->data)->cache;
    if (cache != NULL) {
        cache_leave(upmem, cache);
    }
}

/* ---- lifted ciphertexts ------------------------------------------------------------------ */

struct lift_job {
    const bfv_lifter *lifter;
    const struct ntt_cache *cache;
    uint64_t first, stride, count;
    uint32_t workers;
    uint32_t *scratch; /* [workers][lifter_scratch] */
};

/* Every workers-th of the ciphertexts: the planes of q are copied, the others lifted behind them. */
static void lift_share(void *argument, uint32_t worker) {
    const struct lift_job *job = argument;
    const bfv_lifter *lifter = job->lifter;
    const size_t q = (size_t)lifter->count * lifter->n, full = q + (size_t)lifter->wide * lifter->n;
    uint32_t *scratch = job->scratch + worker * lifter_scratch(lifter);
    for (uint64_t k = worker; k < job->count; k += job->workers) {
        const uint64_t at = job->first + k * job->stride;
        if (!job->cache->is_lifted[at]) {
            for (uint64_t part = 2 * at; part < 2 * at + 2; part++) {
                const uint32_t *x = job->cache->array->words + part * q;
                uint32_t *out = job->cache->lifted + part * full;
                memcpy(out, x, q * sizeof *out);
                lifter_lift(lifter, x, out + q, scratch);
            }
            job->cache->is_lifted[at] = true;
        }
    }
}

int ntt_lift(struct upmem *upmem, const struct bfv_array *array, uint64_t first, uint64_t stride,
             uint64_t count, const uint32_t **out) {
    const uint64_t start = upmem_clock();
    const bfv_lifter *lifter = upmem->backend->lifter;
    struct ntt_cache *cache = cache_of(upmem, array);
    if (cache == NULL) {
        return BFV_E_MEMORY;
    }
    if (cache->lifted == NULL) {
        size_t bytes = 0;
        bool *is_lifted = calloc((size_t)array->count, sizeof *is_lifted);
        if (size_mul(array->count, base_words(&family_of(upmem)->full, 2) * sizeof(uint32_t), &bytes)) {
            cache->lifted = buffer_alloc(bytes);
        }
        if (is_lifted == NULL || cache->lifted == NULL) {
            free(is_lifted);
            buffer_free(cache->lifted);
            cache->lifted = NULL;
            return BFV_E_MEMORY;
        }
        cache->is_lifted = is_lifted;
    }
    struct lift_job job = {
        .lifter = lifter, .cache = cache, .first = first, .stride = stride, .count = count};
    job.workers = count < LIFT_WORKERS ? (uint32_t)count : (uint32_t)LIFT_WORKERS;
    job.scratch = buffer_alloc(job.workers * lifter_scratch(lifter) * sizeof *job.scratch);
    if (job.scratch == NULL) {
        return BFV_E_MEMORY;
    }
    upmem_parallel(upmem, job.workers, lift_share, &job);
    buffer_free(job.scratch);
    upmem->backend->stats.convert += upmem_clock() - start;
    *out = cache->lifted;
    return BFV_OK;
}
