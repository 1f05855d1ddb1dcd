/* guard.h's journal: the calls that would have to be made again, and how that is done. */
#ifndef PYBFV_UPMEM_JOURNAL_H
#define PYBFV_UPMEM_JOURNAL_H

#include <string.h>

#include "check.h"
#include "guard.h"

/* A call: terms of arrays, or, when a is NULL, a merge of `words`. */
struct guard_entry {
    struct guard_entry *next;
    struct bfv_acc *acc;
    const struct bfv_array *a, *b; /* b NULL: sums */
    uint64_t first_a, first_b, stride, count;
    uint32_t *words; /* another accumulator's value, owned */
};

/* A dropped array that entries need. */
struct guard_kept {
    struct guard_kept *next;
    struct bfv_array array;
    uint64_t bytes;
};

enum { GUARD_SPARES = 8 };
struct guard_spare {
    uint32_t *words;
    uint64_t bytes;
};

struct guard_acc {
    struct guard_acc *next;
    struct bfv_acc *acc;
    const bfv_ring *ring; /* of what is expected: the state's, or its first primes */
    uint32_t *expected;   /* check_words */
    uint32_t *saved;      /* the value that was found right last; NULL: zero */
    uint32_t entries;     /* in the journal */
};

struct guard {
    struct check check;
    struct guard_acc *accs;
    struct guard_entry *first, **last;
    uint32_t entries;
    struct guard_kept *kept;
    uint64_t kept_bytes, most_kept;
    struct guard_spare spare[GUARD_SPARES]; /* memory of arrays that were kept: fresh memory costs more */
    uint32_t restarts;                      /* since the journal was empty */
    bool left_out;                          /* one of them left a DPU out */
    bool dead;
    uint32_t *space; /* N words */
    char told[512];  /* what the first of them, or the last error of all, was about */
};

/* Words of an accumulator's state. */
static inline size_t state_words(const struct upmem *upmem, const struct bfv_acc *acc) {
    return backend_acc_words(upmem->backend, acc);
}

static inline uint32_t *copy_words(const uint32_t *words, size_t count) {
    uint32_t *copy = buffer_alloc(count * sizeof *copy);
    if (copy != NULL) {
        memcpy(copy, words, count * sizeof *copy);
    }
    return copy;
}

struct guard_acc *journal_find(const struct guard *guard, const struct bfv_acc *acc);
bool journal_needs(const struct guard *guard, const struct bfv_array *array);
/* Adds an entry; NULL where memory is short. */
struct guard_entry *journal_note(struct guard *guard, struct guard_entry values);
/* Takes the last entry out again. */
void journal_unnote(struct guard *guard, struct guard_entry *entry);
/* Takes an accumulator's entries out, or all (NULL). */
void journal_forget(struct upmem *upmem, const struct guard_acc *acc);
/* Frees the kept arrays that no entry needs any more. */
void journal_sweep(struct upmem *upmem);
void journal_free_spares(struct guard *guard);
/* What was computed again has been found right: DPUs may err again. */
void journal_forgive(struct guard *guard);
/* A dropped array for the journal; false where memory is short. */
bool journal_keep(struct upmem *upmem, struct bfv_array *array);
/* Has the DPUs do what an entry says. */
int journal_perform(struct upmem *upmem, const struct guard_entry *entry);
/* After BFV_E_BACKEND: BFV_OK once the DPUs are where they would be had it not happened. */
int journal_again(struct upmem *upmem);
/* BFV_E_BACKEND when the DPUs have been given up. */
int journal_alive(struct upmem *upmem);

#endif
