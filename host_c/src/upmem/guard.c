/* guard.h: the calls of a backend, each with its place in the journal and its check. */
#include <stdlib.h>

#include "journal.h"

enum {
    MOST_ENTRIES = 4096,   /* of the journal */
    KEPT_BYTES = 128 << 20 /* of dropped arrays, before it begins anew */
};

/* ---- accumulators ------------------------------------------------------------------------ */

int guard_acc_new(struct upmem *upmem, struct bfv_acc *acc) {
    struct guard *guard = upmem->guard;
    if (guard == NULL) {
        return upmem->ops->acc_new(upmem, acc);
    }
    int status = journal_alive(upmem);
    struct guard_acc *mine = status == BFV_OK ? calloc(1, sizeof *mine) : NULL;
    if (mine == NULL) {
        return status == BFV_OK ? BFV_E_MEMORY : status;
    }
    mine->acc = acc;
    mine->ring = upmem->ops->check_ring(upmem, acc);
    const size_t bytes = check_words(&guard->check, mine->ring, acc->parts) * sizeof(uint32_t);
    mine->expected = buffer_alloc(bytes);
    status = mine->expected == NULL ? BFV_E_MEMORY : upmem->ops->acc_new(upmem, acc);
    if (status != BFV_OK) {
        buffer_free(mine->expected);
        free(mine);
        return status;
    }
    memset(mine->expected, 0, bytes);
    mine->next = guard->accs;
    guard->accs = mine;
    return BFV_OK;
}

void guard_acc_drop(struct upmem *upmem, struct bfv_acc *acc) {
    struct guard *guard = upmem->guard;
    if (guard != NULL) {
        struct guard_acc *mine = journal_find(guard, acc), **link = &guard->accs;
        journal_forget(upmem, mine);
        while (*link != mine) {
            link = &(*link)->next;
        }
        *link = mine->next;
        buffer_free(mine->expected);
        buffer_free(mine->saved);
        free(mine);
    }
    if (acc->data != NULL) {
        upmem->ops->acc_drop(upmem, acc);
    }
}

/* Adds a call's terms to what is expected. */
static void expect_terms(struct upmem *upmem, struct guard_acc *mine, const struct guard_entry *entry) {
    const uint64_t start = upmem_clock();
    const struct family_ops *ops = upmem->ops;
    const uint32_t *a = ops->terms(upmem, mine->acc, entry->a);
    const uint32_t *b = entry->b == NULL ? NULL : ops->terms(upmem, mine->acc, entry->b);
    const size_t words = entry->a->parts * ring_poly_words(mine->ring);
    const struct check_terms terms = {
        .ring = mine->ring,
        .a = a + entry->first_a * words,
        .b = b == NULL ? NULL : b + entry->first_b * words,
        .parts = entry->a->parts,
        .words = entry->count > 1 ? (size_t)entry->stride * words : 0,
        .count = entry->count,
    };
    check_add(upmem, &upmem->guard->check, mine->expected, &terms);
    upmem->backend->stats.check += upmem_clock() - start;
}

/* Coefficient `at` of a result, as check.h counts them, is wrong. */
static int blame_coefficient(struct upmem *upmem, const bfv_ring *ring, size_t at) {
    const uint32_t i = (uint32_t)(at / ring->n), c = (uint32_t)(at % ring->n);
    if (upmem->ops->owner == NULL) {
        return upmem_fail(upmem, BFV_E_BACKEND, "a DPU gave a wrong result, and which one is not known");
    }
    return upmem_blame(upmem, upmem->ops->owner(upmem, ring, i, c),
                       "gave a wrong result, in coefficient %u mod %u", c, ring->prime[i].p);
}

/* Whether `value` is what is expected: BFV_E_BACKEND, and the DPU blamed, when not. */
static int examine(struct upmem *upmem, const struct guard_acc *mine, const uint32_t *value) {
    const uint64_t start = upmem_clock();
    const bfv_ring *ring = mine->ring;
    const size_t poly = ring_poly_words(ring), step = state_words(upmem, mine->acc) / mine->acc->parts;
    uint32_t *wrong = buffer_alloc(check_words(&upmem->guard->check, ring, mine->acc->parts) * sizeof *wrong);
    if (wrong == NULL) {
        return BFV_E_MEMORY;
    }
    int status = BFV_OK;
    if (!check_compare(&upmem->guard->check, ring, mine->expected, value, step, mine->acc->parts, wrong)) {
        for (size_t at = poly; at-- > 0;) { /* whoever is at fault; the first is named last */
            status = wrong[at] != 0 ? blame_coefficient(upmem, ring, at) : status;
        }
    }
    buffer_free(wrong);
    upmem->backend->stats.check += upmem_clock() - start;
    return status;
}

int guard_acc_save(struct upmem *upmem, const struct bfv_acc *acc, uint32_t *dst) {
    struct guard *guard = upmem->guard;
    if (guard == NULL) {
        return upmem->ops->acc_save(upmem, acc, dst);
    }
    struct guard_acc *mine = journal_find(guard, acc);
    int status = journal_alive(upmem);
    while (status == BFV_OK) {
        status = upmem->ops->acc_save(upmem, acc, dst);
        if (status == BFV_OK) {
            status = examine(upmem, mine, dst);
        }
        if (status != BFV_E_BACKEND) {
            break;
        }
        status = journal_again(upmem);
    }
    uint32_t *copy = status == BFV_OK && mine->entries != 0 ? copy_words(dst, state_words(upmem, acc)) : NULL;
    if (copy != NULL) { /* else the journal keeps what there is */
        buffer_free(mine->saved);
        mine->saved = copy;
        journal_forget(upmem, mine);
    }
    return status;
}

/* Reads and checks all accumulators: the journal is empty afterwards, memory permitting. */
static int settle_all(struct upmem *upmem) {
    struct guard *guard = upmem->guard;
    int status = BFV_OK;
    for (struct guard_acc *acc = guard->accs; acc != NULL && status == BFV_OK; acc = acc->next) {
        if (acc->entries != 0) {
            uint32_t *words = buffer_alloc(state_words(upmem, acc->acc) * sizeof *words);
            status = words == NULL ? BFV_E_MEMORY : guard_acc_save(upmem, acc->acc, words);
            buffer_free(words);
        }
    }
    return status;
}

/* Performs the last entry of the journal; on an error it is taken out. */
static int act(struct upmem *upmem, struct guard_entry *entry) {
    int status = journal_perform(upmem, entry);
    if (status == BFV_E_BACKEND) {
        status = journal_again(upmem); /* the entry too */
    }
    if (status != BFV_OK) {
        journal_unnote(upmem->guard, entry);
    }
    return status;
}

int guard_acc_terms(struct upmem *upmem, struct bfv_acc *acc, const struct bfv_array *a, uint64_t first_a,
                    const struct bfv_array *b, uint64_t first_b, uint64_t stride, uint64_t count) {
    struct guard *guard = upmem->guard;
    const struct guard_entry call = {
        .acc = acc, .a = a, .b = b, .first_a = first_a, .first_b = first_b, .stride = stride, .count = count};
    if (guard == NULL) {
        return journal_perform(upmem, &call);
    }
    int status = journal_alive(upmem);
    if (status == BFV_OK && (guard->entries >= MOST_ENTRIES || guard->kept_bytes > guard->most_kept)) {
        status = settle_all(upmem);
    }
    struct guard_entry *entry = status == BFV_OK ? journal_note(guard, call) : NULL;
    if (entry == NULL) {
        return status == BFV_OK ? BFV_E_MEMORY : status;
    }
    status = act(upmem, entry);
    if (status == BFV_OK) {
        expect_terms(upmem, journal_find(guard, acc), entry); /* while the DPUs run */
    }
    return status;
}

int guard_acc_merge(struct upmem *upmem, struct bfv_acc *acc, const struct bfv_acc *other) {
    struct guard *guard = upmem->guard;
    if (guard == NULL) {
        return upmem->ops->acc_merge(upmem, acc, other);
    }
    const size_t words = state_words(upmem, other);
    struct guard_entry call = {.acc = acc, .words = buffer_alloc(words * sizeof(uint32_t))};
    int status = call.words == NULL ? BFV_E_MEMORY : guard_acc_save(upmem, other, call.words);
    struct guard_entry *entry = status == BFV_OK ? journal_note(guard, call) : NULL;
    if (entry == NULL) {
        buffer_free(call.words);
        return status == BFV_OK ? BFV_E_MEMORY : status;
    }
    struct guard_acc *mine = journal_find(guard, acc);
    status = act(upmem, entry);
    if (status == BFV_OK) {
        status = bfv_poly_add(
            mine->ring, mine->expected, journal_find(guard, other)->expected,
            check_words(&guard->check, mine->ring, acc->parts) / ring_poly_words(mine->ring), mine->expected);
    }
    return status;
}

int guard_acc_load(struct upmem *upmem, struct bfv_acc *acc, const uint32_t *src) {
    struct guard *guard = upmem->guard;
    if (guard == NULL) {
        return upmem->ops->acc_load(upmem, acc, src);
    }
    struct guard_acc *mine = journal_find(guard, acc);
    uint32_t *copy = copy_words(src, state_words(upmem, acc));
    int status = copy == NULL ? BFV_E_MEMORY : journal_alive(upmem);
    if (status == BFV_OK) {
        status = upmem->ops->acc_load(upmem, acc, src);
    }
    if (status != BFV_OK) {
        buffer_free(copy);
        return status;
    }
    buffer_free(mine->saved);
    mine->saved = copy;
    journal_forget(upmem, mine);
    check_value(&guard->check, mine->ring, copy, state_words(upmem, acc) / acc->parts, acc->parts,
                mine->expected);
    return BFV_OK;
}

int guard_sync(struct upmem *upmem) {
    if (upmem->guard == NULL) {
        return upmem_settle(upmem);
    }
    int status = journal_alive(upmem);
    if (status == BFV_OK) {
        status = upmem_settle(upmem);
    }
    return status == BFV_E_BACKEND ? journal_again(upmem) : status;
}

/* ---- arrays -------------------------------------------------------------------------------- */

void guard_array_drop(struct upmem *upmem, struct bfv_array *array) {
    struct guard *guard = upmem->guard;
    bool kept = false;
    if (guard != NULL && journal_needs(guard, array)) {
        kept = !guard->dead && journal_keep(upmem, array);
        if (!kept && (guard->dead || settle_all(upmem) != BFV_OK || journal_needs(guard, array))) {
            guard->dead = true; /* the entries can't be played any more */
            journal_forget(upmem, NULL);
        }
    }
    if (!kept) {
        upmem_array_free(upmem, array->data);
    }
    array->data = NULL;
}

int guard_pointwise(struct upmem *upmem, enum family_op op, uint32_t parts, const uint32_t *a, uint32_t sa,
                    const uint32_t *b, uint32_t sb, uint64_t count, uint32_t *out) {
    struct guard *guard = upmem->guard;
    const bfv_ring *ring = upmem->backend->ring;
    const struct check_results results = {op, parts, sa, sb, a, b, out, count};
    if (guard == NULL) {
        return upmem->ops->pointwise(upmem, op, parts, a, sa, b, sb, count, out);
    }
    int status = journal_alive(upmem);
    while (status == BFV_OK) {
        status = upmem->ops->pointwise(upmem, op, parts, a, sa, b, sb, count, out);
        if (status == BFV_OK) {
            const uint64_t start = upmem_clock();
            size_t found = 0;
            status = check_results(upmem, &guard->check, &results, &found);
            if (status == BFV_OK && found != ring_poly_words(ring)) {
                status = blame_coefficient(upmem, ring, found);
            }
            upmem->backend->stats.check += upmem_clock() - start;
        }
        if (status != BFV_E_BACKEND) {
            break;
        }
        status = journal_again(upmem);
    }
    journal_forgive(guard);
    return status;
}

bool guard_transform_is_right(struct upmem *upmem, uint32_t i, bool inverse, const uint32_t *x,
                              const uint32_t *out) {
    const uint64_t start = upmem_clock();
    const bool right = check_transform(&upmem->guard->check, upmem->backend->ring, i, inverse ? x : out,
                                       inverse ? out : x, upmem->guard->space);
    upmem->backend->stats.check += upmem_clock() - start;
    return right;
}

int guard_convert(struct upmem *upmem, const uint32_t *a, uint64_t polys, bool inverse, uint32_t *out) {
    struct guard *guard = upmem->guard;
    int status = guard == NULL ? BFV_OK : journal_alive(upmem);
    if (status == BFV_OK && guard != NULL) {
        status = check_transforms_open(&guard->check, upmem->backend->ring);
    }
    while (status == BFV_OK) {
        status = upmem->ops->convert(upmem, a, polys, inverse, out);
        if (status != BFV_E_BACKEND || guard == NULL) {
            break;
        }
        status = journal_again(upmem);
    }
    journal_forgive(guard);
    return status;
}

/* ---- open and close ------------------------------------------------------------------------ */

int guard_open(struct upmem *upmem, uint32_t check) {
    if (check == BFV_CHECK_NONE) {
        return BFV_OK;
    }
    struct guard *guard = calloc(1, sizeof *guard);
    if (guard == NULL) {
        return BFV_E_MEMORY;
    }
    const bfv_lifter *lifter = upmem->backend->lifter;
    const int status = check_open(&guard->check, lifter == NULL ? upmem->backend->ring : lifter->full,
                                  check == BFV_CHECK_FULL);
    guard->space = status == BFV_OK ? malloc(upmem->backend->ring->n * sizeof *guard->space) : NULL;
    if (guard->space == NULL) {
        check_close(&guard->check);
        free(guard);
        return status == BFV_OK ? BFV_E_MEMORY : status;
    }
    guard->last = &guard->first;
    guard->most_kept = KEPT_BYTES;
    const char *limit = getenv("PYBFV_JOURNAL_LIMIT"); /* tests make it small */
    if (limit != NULL) {
        guard->most_kept = strtoull(limit, NULL, 10);
    }
    upmem->guard = guard;
    return BFV_OK;
}

void guard_close(struct upmem *upmem) {
    struct guard *guard = upmem->guard;
    if (guard != NULL) {
        journal_sweep(upmem); /* accumulators, and so their entries, are gone */
        check_close(&guard->check);
        journal_free_spares(guard);
        free(guard->space);
        free(guard);
        upmem->guard = NULL;
    }
}
