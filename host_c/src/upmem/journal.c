/* journal.h: entries, what they need, and the DPUs anew when they err. */
#include <stdio.h>
#include <stdlib.h>

#include "journal.h"

enum { MOST_RESTARTS = 2 }; /* of one journal: the second only when the first one's failure named nobody */

/* ---- the journal ------------------------------------------------------------------------- */

struct guard_acc *journal_find(const struct guard *guard, const struct bfv_acc *acc) {
    struct guard_acc *found = guard->accs;
    while (found->acc != acc) {
        found = found->next;
    }
    return found;
}

bool journal_needs(const struct guard *guard, const struct bfv_array *array) {
    const struct guard_entry *entry = guard->first;
    while (entry != NULL && entry->a != array && entry->b != array) {
        entry = entry->next;
    }
    return entry != NULL;
}

/* A kept array's memory to the spares, where one has none. */
static void give_spare(struct guard *guard, const struct guard_kept *kept) {
    struct upmem_array *data = kept->array.data;
    for (uint32_t i = 0; i < GUARD_SPARES && data->owned != NULL; i++) {
        if (guard->spare[i].words == NULL) {
            guard->spare[i] = (struct guard_spare){data->owned, kept->bytes};
            data->owned = NULL;
        }
    }
}

/* Memory for an array: a spare of its size, or fresh. */
static uint32_t *take_spare(struct guard *guard, uint64_t bytes) {
    for (uint32_t i = 0; i < GUARD_SPARES; i++) {
        if (guard->spare[i].words != NULL && guard->spare[i].bytes == bytes) {
            uint32_t *words = guard->spare[i].words;
            guard->spare[i].words = NULL;
            return words;
        }
    }
    journal_free_spares(guard);
    return buffer_alloc((size_t)bytes);
}

void journal_free_spares(struct guard *guard) {
    for (uint32_t i = 0; i < GUARD_SPARES; i++) {
        buffer_free(guard->spare[i].words);
        guard->spare[i].words = NULL;
    }
}

void journal_sweep(struct upmem *upmem) {
    struct guard *guard = upmem->guard;
    for (struct guard_kept **link = &guard->kept; *link != NULL;) {
        struct guard_kept *kept = *link;
        if (journal_needs(guard, &kept->array)) {
            link = &kept->next;
            continue;
        }
        *link = kept->next;
        guard->kept_bytes -= kept->bytes;
        give_spare(guard, kept);
        upmem_array_free(upmem, kept->array.data);
        free(kept);
    }
}

void journal_forgive(struct guard *guard) {
    if (guard != NULL && guard->entries == 0) {
        guard->restarts = 0;
        guard->left_out = false;
    }
}

void journal_forget(struct upmem *upmem, const struct guard_acc *acc) {
    struct guard *guard = upmem->guard;
    guard->last = &guard->first;
    while (*guard->last != NULL) {
        struct guard_entry *entry = *guard->last;
        if (acc != NULL && entry->acc != acc->acc) {
            guard->last = &entry->next;
            continue;
        }
        *guard->last = entry->next;
        journal_find(guard, entry->acc)->entries--;
        guard->entries--;
        buffer_free(entry->words);
        free(entry);
    }
    journal_sweep(upmem);
    journal_forgive(guard);
}

struct guard_entry *journal_note(struct guard *guard, struct guard_entry values) {
    struct guard_entry *entry = malloc(sizeof *entry);
    if (entry != NULL) {
        *entry = values;
        *guard->last = entry;
        guard->last = &entry->next;
        guard->entries++;
        journal_find(guard, entry->acc)->entries++;
    }
    return entry;
}

void journal_unnote(struct guard *guard, struct guard_entry *entry) {
    guard->last = &guard->first;
    while (*guard->last != entry) {
        guard->last = &(*guard->last)->next;
    }
    *guard->last = NULL;
    guard->entries--;
    journal_find(guard, entry->acc)->entries--;
    buffer_free(entry->words);
    free(entry);
}

int journal_perform(struct upmem *upmem, const struct guard_entry *entry) {
    const struct family_ops *ops = upmem->ops;
    if (entry->b != NULL) {
        return ops->acc_mul(upmem, entry->acc, entry->a, entry->first_a, entry->b, entry->first_b,
                            entry->stride, entry->count);
    }
    if (entry->a != NULL) {
        return ops->acc_add(upmem, entry->acc, entry->a, entry->first_a, entry->stride, entry->count);
    }
    struct bfv_acc other = {.kind = entry->acc->kind, .parts = entry->acc->parts};
    int status = ops->acc_new(upmem, &other);
    if (status != BFV_OK) {
        return status;
    }
    status = ops->acc_load(upmem, &other, entry->words);
    if (status == BFV_OK) {
        status = ops->acc_merge(upmem, entry->acc, &other);
    }
    ops->acc_drop(upmem, &other);
    return status;
}

/* ---- when DPUs err -------------------------------------------------------------------------- */

/* All that lies on the DPUs goes, and the accumulators' data with it. */
static void clear(struct upmem *upmem) {
    const struct family_ops *ops = upmem->ops;
    struct bfv_backend *backend = upmem->backend;
    upmem->running = false; /* nobody waits for it, or finishes its work */
    upmem->left = (struct upmem_left){0};
    for (struct backend_item *item = backend->accs; item != NULL; item = item->next) {
        ops->acc_drop(upmem, (struct bfv_acc *)item);
    }
    for (struct backend_item *item = backend->arrays; item != NULL; item = item->next) {
        struct upmem_array *data = ((struct bfv_array *)item)->data;
        if (data->cache != NULL) {
            ops->array_drop(upmem, data);
        }
    }
    for (struct guard_kept *kept = upmem->guard->kept; kept != NULL; kept = kept->next) {
        struct upmem_array *data = kept->array.data;
        if (data->cache != NULL) {
            ops->array_drop(upmem, data);
        }
    }
    ops->close(upmem);
}

/* The DPUs anew, accumulators at what was found right, the journal played. */
static int restart(struct upmem *upmem) {
    struct guard *guard = upmem->guard;
    uint32_t out = 0;
    clear(upmem);
    int status = upmem_device_again(upmem, &out);
    guard->left_out = guard->left_out || out != 0;
    upmem->backend->stats.left_out += out;
    if (status == BFV_OK) {
        status = upmem->ops->open(upmem);
    }
    for (struct guard_acc *acc = guard->accs; acc != NULL && status == BFV_OK; acc = acc->next) {
        status = upmem->ops->acc_new(upmem, acc->acc);
        if (status == BFV_OK && acc->saved != NULL) {
            status = upmem->ops->acc_load(upmem, acc->acc, acc->saved);
        }
    }
    upmem->suspicious = true;
    for (const struct guard_entry *entry = guard->first; entry != NULL && status == BFV_OK;
         entry = entry->next) {
        status = journal_perform(upmem, entry);
    }
    if (status == BFV_OK) {
        status = upmem_settle(upmem);
    }
    upmem->suspicious = false;
    return status;
}

int journal_again(struct upmem *upmem) {
    struct guard *guard = upmem->guard;
    char *detail = upmem->backend->detail;
    int status = BFV_E_BACKEND;
    while (status == BFV_E_BACKEND && !guard->dead) {
        if (guard->restarts == MOST_RESTARTS || (guard->restarts != 0 && guard->left_out)) {
            char said[512];
            (void)snprintf(said, sizeof said, "%s", detail);
            (void)upmem_fail(
                upmem, status,
                "%.190s; and when that was computed again: %.190s; compute on the cpu, or without these DPUs",
                guard->told, said);
            break;
        }
        if (guard->restarts == 0) {
            (void)snprintf(guard->told, sizeof guard->told, "%s", detail);
        }
        guard->restarts++;
        upmem->backend->stats.redone++;
        status = restart(upmem);
    }
    if (status != BFV_OK && !guard->dead) {
        guard->dead = true;
        (void)snprintf(guard->told, sizeof guard->told, "%s", detail);
    } else if (status == BFV_OK) {
        (void)snprintf(detail, sizeof upmem->backend->detail, "%s", guard->told);
    }
    return status;
}

int journal_alive(struct upmem *upmem) {
    return !upmem->guard->dead
               ? BFV_OK
               : upmem_fail(upmem, BFV_E_BACKEND, "the DPUs were given up: %.400s", upmem->guard->told);
}

/* ---- dropped arrays ---- */

void upmem_array_free(struct upmem *upmem, struct upmem_array *data) {
    if (data->cache != NULL) {
        upmem->ops->array_drop(upmem, data);
    }
    buffer_free(data->owned);
    free(data);
}

struct copy_job {
    const uint8_t *from;
    uint8_t *to;
    uint64_t bytes;
};

enum { COPY_BYTES = 1 << 20 };

static void copy_chunk(void *argument, uint32_t k) {
    const struct copy_job *job = argument;
    const uint64_t at = (uint64_t)k * COPY_BYTES, rest = job->bytes - at;
    memcpy(job->to + at, job->from + at, (size_t)(rest < COPY_BYTES ? rest : (uint64_t)COPY_BYTES));
}

bool journal_keep(struct upmem *upmem, struct bfv_array *array) {
    struct guard *guard = upmem->guard;
    struct upmem_array *data = array->data;
    const uint64_t bytes = array->count * backend_words(upmem->backend, array->parts) * sizeof(uint32_t);
    struct guard_kept *kept = malloc(sizeof *kept);
    if (kept == NULL) {
        return false;
    }
    if (data->owned == NULL) {
        data->owned = take_spare(guard, bytes);
        if (data->owned == NULL) {
            free(kept);
            return false;
        }
        struct copy_job job = {(const uint8_t *)data->words, (uint8_t *)data->owned, bytes};
        upmem_parallel(upmem, (uint32_t)((bytes + COPY_BYTES - 1) / COPY_BYTES), copy_chunk, &job);
        data->words = data->owned;
    }
    if (data->cache != NULL) { /* what it has in MRAM is worth more to others */
        upmem->ops->array_drop(upmem, data);
    }
    *kept = (struct guard_kept){.next = guard->kept, .array = *array, .bytes = bytes};
    guard->kept = kept;
    guard->kept_bytes += bytes;
    for (struct guard_entry *entry = guard->first; entry != NULL; entry = entry->next) {
        entry->a = entry->a == array ? &kept->array : entry->a;
        entry->b = entry->b == array ? &kept->array : entry->b;
    }
    return true;
}
