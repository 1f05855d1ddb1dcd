/* The NTT family on the DPUs: slices of coefficients for reductions and pointwise work, so
 * that nothing crosses DPUs, and whole residue polynomials for transforms. */
#include <stdlib.h>
#include <string.h>

#include "../cpu/kernels.h"
#include "guard.h"
#include "ntt_family.h"

/* Ciphertexts of a round, where MRAM has room. */
enum { BATCH_TERMS = 4096 };

/* ---- launches ------------------------------------------------------------------------- */

/* What `block` units at a time cost, comparable: the longest tasklet's units, in 64ths as a team shares them.
 * In: how many times a DPU goes over its slice, whether tasklets may share a block. */
static uint64_t block_cost(const struct upmem *upmem, const struct ntt_base *base, uint32_t block,
                           uint64_t passes, bool teams) {
    const uint64_t units = base->slices.units, tasklets = upmem->tasklets;
    const uint64_t items = (units + block - 1) / block * passes;
    const uint64_t shared = teams && items < tasklets ? tasklets / items : 1;
    return (items + tasklets - 1) / tasklets * block * 64 / shared;
}

/* Units that a tasklet takes at a time in pointwise work: what ends first, then what moves longer runs. In:
 * lines of a unit in WRAM. */
static uint32_t pointwise_block(const struct upmem *upmem, const struct ntt_base *base, uint32_t lines,
                                uint64_t passes) {
    uint32_t best = 1;
    for (uint32_t block = 2; block <= BFV_BLOCK_UNITS; block++) {
        const bool fits = upmem->tasklets * lines * block * BFV_UNIT_BYTES <= (uint32_t)BFV_NTT_HEAP_BYTES;
        if (fits &&
            block_cost(upmem, base, block, passes, false) <= block_cost(upmem, base, best, passes, false)) {
            best = block;
        }
    }
    return best;
}

/* The same for a reduction: what ends first, then what moves longer runs, as long as enough terms go through
 * registers at a time. */
static uint32_t reduction_block(const struct upmem *upmem, const struct ntt_base *base, uint32_t command,
                                uint32_t parts) {
    const uint32_t enough = command == BFV_CMD_NTT_SUM ? 6 : 15;
    uint32_t best = 1;
    for (uint32_t block = 2; block <= BFV_BLOCK_UNITS; block++) {
        const uint64_t cost = block_cost(upmem, base, block, 1, true);
        if (bfv_reduce_group(command, upmem->tasklets, parts, block) >= enough &&
            cost <= block_cost(upmem, base, best, 1, true)) {
            best = block;
        }
    }
    return best;
}

/* Begins a command on slices: `common` with each DPU's run of units. */
static int begin_slices(struct upmem *upmem, const struct ntt_base *base, const struct bfv_args *common) {
    const struct ntt_family *family = family_of(upmem);
    for (uint32_t d = 0; d < upmem->dpus; d++) {
        struct bfv_args *args = &upmem->args[d];
        *args = *common;
        args->first = slices_first(&base->slices, d);
        args->positions = slices_count(&base->slices, d);
        args->tables = family->tables->offset;
        args->log_n = (uint8_t)base->ring->log_n;
        args->primes = (uint8_t)base->ring->count;
    }
    return upmem_launch_begin(upmem);
}

/* Terms of one operand: ciphertexts on the host, `words` words each, `first` of them being before the first
 * term. words 0: there is no such operand. */
struct terms {
    const uint32_t *from;
    size_t words;
    uint64_t first;
};

static const struct terms no_terms = {NULL, 0, 0};

/* One launch onto an accumulator that is on the DPUs; a and b in MRAM. Once it is tried the accumulator
 * is damaged, until all its launches have ended well. */
static int begin_terms(struct upmem *upmem, struct ntt_acc *acc, uint32_t command, uint64_t a, uint64_t b,
                       uint64_t stride, uint64_t count) {
    int status = upmem_launch_end(upmem);
    if (status != BFV_OK) {
        return status; /* an earlier launch's: this accumulator has not changed, unless that was its own */
    }
    const struct bfv_args args = {
        .command = (uint16_t)command,
        .flags = acc->fresh ? BFV_FLAG_FRESH : 0,
        .count = (uint32_t)count,
        .parts = (uint8_t)acc->parts,
        .a = (uint32_t)a,
        .b = (uint32_t)b,
        .out = acc->region->offset,
        .stride_a = count > 1 ? (uint32_t)stride : 0,
        .stride_b = count > 1 ? (uint32_t)stride : 0,
        .block = (uint8_t)reduction_block(upmem, acc->base, command, acc->parts),
    };
    status = begin_slices(upmem, acc->base, &args);
    acc->fresh = false;
    acc->damaged = true;
    return status;
}

static int finish_terms(struct upmem *upmem, void *acc, int status) {
    (void)upmem;
    ((struct ntt_acc *)acc)->damaged = status != BFV_OK;
    return status;
}

/* Leaves the last launch on an accumulator under way. status: of all before it. */
static int leave_terms(struct upmem *upmem, struct ntt_acc *acc, int status) {
    if (status == BFV_OK) {
        acc->damaged = false; /* as far as anybody can tell before it ends */
        upmem_leave(upmem, finish_terms, acc);
    }
    return status;
}

/* acc += the terms of `parts` parts, in rounds: as many as fit are sent, one launch adds them, and so on. */
static int accumulate_rounds(struct upmem *upmem, struct ntt_acc *acc, uint32_t command, uint32_t parts,
                             struct terms a, struct terms b, uint64_t stride, uint64_t count) {
    const uint32_t operands = b.words == 0 ? 1 : 2;
    const uint64_t each = slice_bytes(acc->base, parts);
    uint64_t batch = count < BATCH_TERMS ? count : BATCH_TERMS;
    while (batch > 1 && batch * each * operands > upmem->mram.size) {
        batch = (batch + 1) / 2;
    }
    struct mram_region *region = NULL;
    int status = ntt_make_room(upmem, batch * each * operands, batch == 1, &region);
    while (status == BFV_E_MEMORY && batch > 1) {
        batch = (batch + 1) / 2;
        status = ntt_make_room(upmem, batch * each * operands, batch == 1, &region);
    }
    for (uint64_t at = 0; at < count && status == BFV_OK; at += batch) {
        const uint64_t now = count - at < batch ? count - at : batch;
        const uint64_t second = region->offset + batch * each, skip = at * stride;
        status = ntt_send(upmem, acc->base, a.from + (a.first + skip) * a.words,
                          now > 1 ? stride * a.words : 0, now, parts, region->offset);
        if (status == BFV_OK && b.words != 0) {
            status = ntt_send(upmem, acc->base, b.from + (b.first + skip) * b.words,
                              now > 1 ? stride * b.words : 0, now, parts, (uint32_t)second);
        }
        if (status == BFV_OK) {
            /* While the DPUs run, ntt_send gathers the next round; it waits before it sends. */
            status = begin_terms(upmem, acc, command, region->offset, second, each, now);
        }
    }
    mram_free(&upmem->mram, region);
    return leave_terms(upmem, acc, status);
}

/* acc += terms of arrays, b NULL for sums and squares; on the DPUs as a whole where there is room. */
static int accumulate(struct upmem *upmem, struct ntt_acc *acc, uint32_t command, const struct bfv_array *a,
                      uint64_t first_a, const struct bfv_array *b, uint64_t first_b, uint64_t stride,
                      uint64_t count) {
    family_of(upmem)->now++;
    struct mram_region *on_a = NULL, *on_b = NULL;
    int status = ntt_acc_to_dpus(upmem, acc);
    if (status == BFV_OK) {
        status = ntt_array_to_dpus(upmem, a, &on_a);
    }
    if (status == BFV_OK && b != NULL && on_a != NULL) {
        status = ntt_array_to_dpus(upmem, b, &on_b);
    }
    if (status != BFV_OK) {
        return status;
    }
    if (on_a == NULL || (b != NULL && on_b == NULL)) {
        ntt_array_leave(upmem, a); /* the rounds need its room */
        const size_t words = base_words(acc->base, a->parts);
        const struct terms left = {upmem_words(a), words, first_a};
        const struct terms right = b == NULL ? no_terms : (struct terms){upmem_words(b), words, first_b};
        return accumulate_rounds(upmem, acc, command, a->parts, left, right, stride, count);
    }
    const uint64_t each = slice_bytes(acc->base, a->parts);
    status = begin_terms(upmem, acc, command, on_a->offset + first_a * each,
                         on_b == NULL ? 0 : on_b->offset + first_b * each, stride * each, count);
    return leave_terms(upmem, acc, status);
}

/* acc += products of lifted ciphertexts, which the host lifts and keeps. */
static int accumulate_lifted(struct upmem *upmem, struct ntt_acc *acc, const struct bfv_array *a,
                             uint64_t first_a, const struct bfv_array *b, uint64_t first_b, uint64_t stride,
                             uint64_t count) {
    const bool square = a == b && first_a == first_b;
    const size_t words = base_words(acc->base, 2);
    struct terms left = {NULL, words, first_a}, right = {NULL, words, first_b};
    int status = ntt_acc_check(upmem, acc);
    if (status == BFV_OK) {
        status = ntt_lift(upmem, a, first_a, stride, count, &left.from);
    }
    if (status == BFV_OK && !square) {
        status = ntt_lift(upmem, b, first_b, stride, count, &right.from);
    }
    if (status == BFV_OK) {
        family_of(upmem)->now++;
        status = ntt_acc_to_dpus(upmem, acc);
    }
    if (status != BFV_OK) {
        return status;
    }
    return accumulate_rounds(upmem, acc, square ? BFV_CMD_NTT_SQUARE : BFV_CMD_NTT_PRODUCT, 2, left,
                             square ? no_terms : right, stride, count);
}

/* ---- the family's functions --------------------------------------------------------------- */

static const char *ntt_program(const bfv_ring *ring) {
    (void)ring; /* every ring of 32-bit primes below 2^30 */
    return "bfv_ntt";
}

static int ntt_open(struct upmem *upmem) {
    const bfv_ring *ring = upmem->backend->ring;
    const bfv_lifter *lifter = upmem->backend->lifter;
    struct ntt_family *family = calloc(1, sizeof *family);
    if (family == NULL) {
        return BFV_E_MEMORY;
    }
    upmem->family = family;
    family->q = (struct ntt_base){ring, slices_of(ring, upmem->dpus)};
    if (lifter != NULL) {
        family->full = (struct ntt_base){lifter->full, slices_of(lifter->full, upmem->dpus)};
        ring = lifter->full;
    }

    struct bfv_prime_row rows[BFV_MAX_PRIMES];
    memset(rows, 0, sizeof rows);
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct bfv_prime *prime = &ring->prime[i];
        rows[i].mod = prime->mod;
        rows[i].max_products = prime->max_products < UINT32_MAX ? (uint32_t)prime->max_products : UINT32_MAX;
        rows[i].max_sums = (uint32_t)prime->max_sums;
    }
    const uint64_t bytes = ring->count * sizeof rows[0];
    const int status = ntt_make_room(upmem, bytes, false, &family->tables);
    return status == BFV_OK ? upmem_broadcast(upmem, family->tables->offset, rows, bytes) : status;
}

static void ntt_close(struct upmem *upmem) {
    free(upmem->family); /* arrays and accumulators are gone; the regions go with the MRAM's list */
    upmem->family = NULL;
}

static void ntt_array_drop(struct upmem *upmem, struct upmem_array *array) {
    ntt_cache_drop(upmem, array->cache);
}

static const bfv_ring *ntt_check_ring(const struct upmem *upmem, const struct bfv_acc *acc) {
    const struct ntt_family *family = family_of(upmem);
    return acc->kind == BFV_ACC_SCALED ? family->full.ring : family->q.ring;
}

static const uint32_t *ntt_terms(const struct upmem *upmem, const struct bfv_acc *acc,
                                 const struct bfv_array *a) {
    const struct ntt_cache *cache = ((const struct upmem_array *)a->data)->cache;
    (void)upmem;
    return acc->kind == BFV_ACC_SCALED ? cache->lifted : upmem_words(a);
}

static uint32_t ntt_owner(const struct upmem *upmem, const bfv_ring *ring, uint32_t i, uint32_t c) {
    const struct ntt_family *family = family_of(upmem);
    return ntt_base_owner(ring == family->full.ring ? &family->full : &family->q, i, c);
}

static int ntt_acc_new(struct upmem *upmem, struct bfv_acc *acc) {
    struct ntt_acc *data = calloc(1, sizeof *data);
    if (data == NULL) {
        return BFV_E_MEMORY;
    }
    data->base = acc->kind == BFV_ACC_SCALED ? &family_of(upmem)->full : &family_of(upmem)->q;
    data->parts = acc->parts;
    data->next = family_of(upmem)->accs;
    family_of(upmem)->accs = data;
    acc->data = data;
    return BFV_OK;
}

static void ntt_acc_drop(struct upmem *upmem, struct bfv_acc *acc) {
    struct ntt_acc *data = acc->data;
    struct ntt_acc **link = &family_of(upmem)->accs;
    upmem_forget(upmem, data);
    while (*link != data) {
        link = &(*link)->next;
    }
    *link = data->next;
    mram_free(&upmem->mram, data->region);
    buffer_free(data->words);
    free(data);
    acc->data = NULL;
}

static int ntt_acc_add(struct upmem *upmem, struct bfv_acc *acc, const struct bfv_array *a, uint64_t first,
                       uint64_t stride, uint64_t count) {
    return accumulate(upmem, acc->data, BFV_CMD_NTT_SUM, a, first, NULL, 0, stride, count);
}

static int ntt_acc_mul(struct upmem *upmem, struct bfv_acc *acc, const struct bfv_array *a, uint64_t first_a,
                       const struct bfv_array *b, uint64_t first_b, uint64_t stride, uint64_t count) {
    if (acc->kind == BFV_ACC_SCALED) {
        return accumulate_lifted(upmem, acc->data, a, first_a, b, first_b, stride, count);
    }
    if (a == b && first_a == first_b) {
        return accumulate(upmem, acc->data, BFV_CMD_NTT_SQUARE, a, first_a, NULL, 0, stride, count);
    }
    return accumulate(upmem, acc->data, BFV_CMD_NTT_PRODUCT, a, first_a, b, first_b, stride, count);
}

/* A merge is a sum of one term, which lies where the other accumulator lies. */
static int ntt_acc_merge(struct upmem *upmem, struct bfv_acc *acc, const struct bfv_acc *other) {
    struct ntt_acc *to = acc->data, *from = other->data;
    family_of(upmem)->now++;
    int status = ntt_acc_to_dpus(upmem, to);
    if (status == BFV_OK) {
        status = ntt_acc_to_dpus(upmem, from);
    }
    if (status != BFV_OK || from->fresh) {
        return status;
    }
    return leave_terms(upmem, to, begin_terms(upmem, to, BFV_CMD_NTT_SUM, from->region->offset, 0, 0, 1));
}

static int ntt_acc_save(struct upmem *upmem, const struct bfv_acc *acc, uint32_t *dst) {
    const struct ntt_acc *data = acc->data;
    const size_t bytes = base_words(data->base, data->parts) * sizeof *dst;
    const int status = ntt_acc_check(upmem, data);
    if (status != BFV_OK) {
        return status;
    }
    if (data->region != NULL && !data->fresh) {
        return ntt_receive(upmem, data->base, data->region->offset, 1, data->parts, dst);
    }
    if (data->words != NULL) {
        memcpy(dst, data->words, bytes);
    } else {
        memset(dst, 0, bytes);
    }
    return BFV_OK;
}

static int ntt_acc_load(struct upmem *upmem, struct bfv_acc *acc, const uint32_t *src) {
    struct ntt_acc *data = acc->data;
    const size_t bytes = base_words(data->base, data->parts) * sizeof *src;
    uint32_t *words = buffer_alloc(bytes);
    if (words == NULL) {
        return BFV_E_MEMORY;
    }
    memcpy(words, src, bytes);
    upmem_forget(upmem, data);
    buffer_free(data->words);
    data->words = words; /* the next use takes it to the DPUs */
    data->damaged = false;
    mram_free(&upmem->mram, data->region);
    data->region = NULL;
    return BFV_OK;
}

/* Batches of both operands and of results; an operand with step 0 is sent once. */
static int ntt_pointwise(struct upmem *upmem, enum family_op op, uint32_t parts, const uint32_t *a,
                         uint32_t sa, const uint32_t *b, uint32_t sb, uint64_t count, uint32_t *out) {
    static const uint16_t commands[] = {BFV_CMD_NTT_ADD, BFV_CMD_NTT_SUB, BFV_CMD_NTT_MUL,
                                        BFV_CMD_NTT_TENSOR};
    const uint32_t parts_out = op == FAMILY_TENSOR ? 3 : parts;
    const struct ntt_base *base = &family_of(upmem)->q;
    const uint64_t in = slice_bytes(base, parts), result = slice_bytes(base, parts_out);
    const size_t words = base_words(base, parts), words_out = base_words(base, parts_out);
    family_of(upmem)->now++;

    uint64_t batch = count < BATCH_TERMS ? count : BATCH_TERMS;
    struct mram_region *region = NULL;
    int status = BFV_E_MEMORY;
    for (;;) {
        const uint64_t bytes = ((sa == 0 ? 1 : batch) + (sb == 0 ? 1 : batch)) * in + batch * result;
        if (bytes <= upmem->mram.size) {
            status = ntt_make_room(upmem, bytes, batch == 1, &region);
        }
        if (status != BFV_E_MEMORY || batch == 1) {
            break;
        }
        batch = (batch + 1) / 2;
    }
    if (status != BFV_OK) {
        return status;
    }
    const uint64_t at_a = region->offset, at_b = at_a + (sa == 0 ? 1 : batch) * in;
    const uint64_t at_out = at_b + (sb == 0 ? 1 : batch) * in;
    for (uint64_t at = 0; at < count && status == BFV_OK; at += batch) {
        const uint64_t now = count - at < batch ? count - at : batch;
        if (sa != 0 || at == 0) {
            status = ntt_send(upmem, base, a + (sa == 0 ? 0 : at * words), words, sa == 0 ? 1 : now, parts,
                              (uint32_t)at_a);
        }
        if (status == BFV_OK && (sb != 0 || at == 0)) {
            status = ntt_send(upmem, base, b + (sb == 0 ? 0 : at * words), words, sb == 0 ? 1 : now, parts,
                              (uint32_t)at_b);
        }
        const uint32_t lines = BFV_ROW_LINES + 2 * parts + parts_out; /* of stream.h */
        const struct bfv_args args = {
            .command = commands[op],
            .count = (uint32_t)now,
            .parts = (uint8_t)parts,
            .a = (uint32_t)at_a,
            .b = (uint32_t)at_b,
            .out = (uint32_t)at_out,
            .stride_a = sa == 0 ? 0 : (uint32_t)in,
            .stride_b = sb == 0 ? 0 : (uint32_t)in,
            .stride_part = (uint32_t)result,
            .block = (uint8_t)pointwise_block(upmem, base, lines, now),
        };
        if (status == BFV_OK) {
            status = begin_slices(upmem, base, &args);
        }
        if (status == BFV_OK) {
            status = ntt_receive(upmem, base, (uint32_t)at_out, now, parts_out, out + at * words_out);
        }
    }
    mram_free(&upmem->mram, region);
    return status;
}

/* ---- transforms: whole residue polynomials, spread over the DPUs --------------------------- */

/* The twiddles of one direction, in MRAM from first use on. */
static int twiddles_to_dpus(struct upmem *upmem, bool inverse) {
    struct ntt_family *family = family_of(upmem);
    const bfv_ring *ring = family_of(upmem)->q.ring;
    if (family->twiddles[inverse] != NULL) {
        return BFV_OK;
    }
    const size_t bytes = ring_poly_words(ring) * sizeof(struct bfv_twiddle);
    struct bfv_twiddle *pairs = malloc(bytes);
    struct mram_region *region = NULL;
    int status = pairs == NULL ? BFV_E_MEMORY : ntt_make_room(upmem, bytes, true, &region);
    if (status == BFV_OK) {
        for (uint32_t i = 0; i < ring->count; i++) {
            const struct bfv_prime *prime = &ring->prime[i];
            const uint32_t *w = inverse ? prime->inverse : prime->forward;
            const uint32_t *shoup = inverse ? prime->inverse_shoup : prime->forward_shoup;
            for (uint32_t k = 0; k < ring->n; k++) {
                pairs[(size_t)i * ring->n + k] = (struct bfv_twiddle){w[k], shoup[k]};
            }
        }
        status = upmem_broadcast(upmem, region->offset, pairs, bytes);
    }
    free(pairs);
    if (status != BFV_OK) {
        mram_free(&upmem->mram, region);
        return status;
    }
    family->twiddles[inverse] = region;
    return BFV_OK;
}

/* One round: planes [first, first + count) of x, `each` of them on every DPU but the last ones. */
static int transform_round(struct upmem *upmem, bool inverse, uint32_t offset, const uint32_t *x,
                           uint64_t first, uint64_t count, uint64_t each, uint32_t *out) {
    const bfv_ring *ring = family_of(upmem)->q.ring;
    const struct ntt_family *family = family_of(upmem);
    const size_t plane = ring->n * sizeof *x;
    uint32_t *stage = upmem_stage(upmem, 0, each * plane);
    if (stage == NULL) {
        return BFV_E_MEMORY;
    }
    memcpy(stage, x + first * ring->n, count * plane);
    for (uint32_t d = 0; d < upmem->dpus; d++) {
        const uint64_t before = d * each < count ? d * each : count;
        upmem->args[d] = (struct bfv_args){
            .command = inverse ? BFV_CMD_NTT_INVERSE : BFV_CMD_NTT_FORWARD,
            .count = (uint32_t)(count - before < each ? count - before : each),
            .first = (uint32_t)((first + before) % ring->count),
            .a = offset,
            .b = family->twiddles[inverse]->offset,
            .stride_a = (uint32_t)plane,
            .tables = family->tables->offset,
            .log_n = (uint8_t)ring->log_n,
            .primes = (uint8_t)ring->count,
        };
    }
    int status = upmem_push(upmem, offset, stage, each * plane);
    if (status == BFV_OK) {
        status = upmem_launch(upmem);
    }
    if (status == BFV_OK) {
        status = upmem_pull(upmem, offset, stage, each * plane);
    }
    for (uint64_t k = 0; k < count && status == BFV_OK; k++) {
        if (!ring->body->check(stage + k * ring->n, ring->n, ring->prime[(first + k) % ring->count].p)) {
            status = upmem_blame(upmem, (uint32_t)(k / each), NTT_NO_RESIDUE);
        } else if (upmem->guard != NULL &&
                   !guard_transform_is_right(upmem, (uint32_t)((first + k) % ring->count), inverse,
                                             x + (first + k) * ring->n, stage + k * ring->n)) {
            status = upmem_blame(upmem, (uint32_t)(k / each), "gave a wrong transform");
        }
    }
    if (status == BFV_OK) {
        memcpy(out + first * ring->n, stage, count * plane);
    }
    return status;
}

static int ntt_convert(struct upmem *upmem, const uint32_t *a, uint64_t polys, bool inverse, uint32_t *out) {
    const bfv_ring *ring = family_of(upmem)->q.ring;
    const uint64_t planes = polys * ring->count, plane = ring->n * sizeof *a;
    family_of(upmem)->now++;
    int status = twiddles_to_dpus(upmem, inverse);
    if (status != BFV_OK) {
        return status;
    }
    uint64_t each = (planes + upmem->dpus - 1) / upmem->dpus;
    const uint64_t most = NTT_CHUNK_BYTES / plane;
    each = each < most ? each : most;
    struct mram_region *region = NULL;
    status = ntt_make_room(upmem, each * plane, each == 1, &region);
    while (status == BFV_E_MEMORY && each > 1) {
        each = (each + 1) / 2;
        status = ntt_make_room(upmem, each * plane, each == 1, &region);
    }
    const uint64_t round = each * upmem->dpus;
    for (uint64_t first = 0; first < planes && status == BFV_OK; first += round) {
        const uint64_t count = planes - first < round ? planes - first : round;
        status = transform_round(upmem, inverse, region->offset, a, first, count, each, out);
    }
    mram_free(&upmem->mram, region);
    return status;
}

const struct family_ops family_ntt = {
    .name = "ntt",
    .program = ntt_program,
    .open = ntt_open,
    .close = ntt_close,
    .array_drop = ntt_array_drop,
    .check_ring = ntt_check_ring,
    .terms = ntt_terms,
    .owner = ntt_owner,
    .acc_new = ntt_acc_new,
    .acc_drop = ntt_acc_drop,
    .acc_add = ntt_acc_add,
    .acc_mul = ntt_acc_mul,
    .acc_merge = ntt_acc_merge,
    .acc_save = ntt_acc_save,
    .acc_load = ntt_acc_load,
    .pointwise = ntt_pointwise,
    .convert = ntt_convert,
};
