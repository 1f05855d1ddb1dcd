/* Forward and inverse negacyclic transforms of whole residue polynomials, all stages in
 * one launch. The tables are those of dpu/core/ntt.h, the butterflies those of ntt_fast.h where the
 * prime allows; here the words lie in MRAM, up to SPAN of them in WRAM at a time, and all tasklets
 * share each stage.
 *
 *     N <= SPAN        load, log2 N stages with a barrier after each, store
 *     N  = 2 SPAN      the stage that joins the halves streams through WRAM, MRAM to MRAM;
 *                      then each half as above, its blocks being N/2 apart in the tables
 *
 * Twiddles do not fit beside the words: each tasklet streams those of its butterflies.
 */
#include "stream.h"

#include "ntt_fast.h"

enum {
    SPAN_LOG = 13,
    SPAN = 1 << SPAN_LOG,     /* words of a polynomial that WRAM holds */
    TWIDDLES = 16,            /* pairs that a tasklet holds */
    OWN_BYTES = TWIDDLES * 8, /* of a tasklet beside the words; not less than a row of a prime */
    CHUNK = 128               /* words of the streamed stage, for each of the two sides */
};

_Static_assert(OWN_BYTES >= (int)sizeof(struct bfv_prime_row),
               "the row passes through the tasklet's own bytes");

struct transform {
    const struct bfv_args *args;
    uint32_t *words;           /* [min(N, SPAN)], shared */
    struct bfv_twiddle *pairs; /* [TWIDDLES], the tasklet's */
    uint32_t p;
    uint32_t row;       /* MRAM offset of the prime's twiddles */
    bool inverse, fast; /* fast: ntt_fast.h, whose words have other ranges between the stages */
};

/* [*first, *last): the tasklet's share of `units`; empty when it is idle. */
static void share_of(const struct bfv_args *args, uint32_t units, uint32_t *first, uint32_t *last) {
    const uint32_t id = (uint32_t)me();
    *first = 0;
    *last = 0;
    if (id < args->tasklets) {
        const uint32_t each = units / args->tasklets, more = units % args->tasklets;
        *first = id * each + (id < more ? id : more);
        *last = *first + each + (id < more ? 1 : 0);
    }
}

static inline void read_pairs(const struct transform *t, uint32_t index, uint32_t count) {
    stream_read(t->row + index * (uint32_t)sizeof *t->pairs, t->pairs, count * (uint32_t)sizeof *t->pairs);
}

/* One stage in WRAM: `words` = 2^log words in blocks of 2^(log_gap + 1); the first block's twiddle is
 * number `base` of the table. */
static void stage(const struct transform *t, uint32_t log, uint32_t log_gap, uint32_t base) {
    const uint32_t gap = UINT32_C(1) << log_gap, p = t->p;
    const bool fast = t->fast, inverse = t->inverse; /* not read again for every block */
    uint32_t first = 0, last = 0;
    share_of(t->args, UINT32_C(1) << (log - 1), &first, &last);
    const uint32_t block = first >> log_gap, from = first & (gap - 1);
    uint32_t left = last - first, run = gap - from, index = base + block;
    uint32_t *x = t->words + (block << (log_gap + 1)) + from;
    const struct bfv_twiddle *const end = t->pairs + TWIDDLES, *w = end;
    while (left != 0) {
        run = left < run ? left : run;
        if (w == end) {
            const uint32_t blocks = ((left - run + gap - 1) >> log_gap) + 1;
            read_pairs(t, index, blocks < TWIDDLES ? blocks : (uint32_t)TWIDDLES);
            index += TWIDDLES;
            w = t->pairs;
        }
        if (fast) {
            const struct ntt_fast twiddle = ntt_fast_twiddle(w->w, w->shoup, p);
            if (inverse) {
                ntt_fast_inverse(x, x + gap, run, &twiddle);
            } else {
                ntt_fast_forward(x, x + gap, run, &twiddle);
            }
        } else {
            for (uint32_t j = 0; j < run; j++) {
                if (inverse) {
                    ntt_butterfly_inverse(x + j, x + gap + j, w->w, w->shoup, p);
                } else {
                    ntt_butterfly_forward(x + j, x + gap + j, w->w, w->shoup, p);
                }
            }
        }
        w++;
        x += run + gap;
        left -= run;
        run = gap;
    }
    kernel_sync();
}

/* One butterfly of the inverse's last stage. */
KERNEL_ONCE void butterfly_last(const struct transform *t, uint32_t *x, uint32_t *y) {
    const struct bfv_twiddle v0 = t->pairs[0], v1 = t->pairs[1];
    if (t->fast) {
        ntt_fast_last(x, y, v0.w, v0.shoup, v1.w, v1.shoup, t->p);
    } else {
        ntt_butterfly_last(x, y, v0.w, v0.shoup, v1.w, v1.shoup, t->p);
    }
}

/* The inverse's last stage in WRAM, for N <= SPAN. */
static void stage_last(const struct transform *t, uint32_t log) {
    const uint32_t gap = UINT32_C(1) << (log - 1);
    uint32_t first = 0, last = 0;
    share_of(t->args, gap, &first, &last);
    if (first < last) {
        read_pairs(t, 0, 2);
        for (uint32_t j = first; j < last; j++) {
            butterfly_last(t, t->words + j, t->words + j + gap);
        }
    }
    kernel_sync();
}

/* The stage that joins the two halves of N = 2 SPAN words at MRAM offset `at`. */
static void stage_streamed(const struct transform *t, uint32_t at) {
    uint32_t first = 0, last = 0;
    share_of(t->args, SPAN / CHUNK, &first, &last);
    if (first < last) {
        uint32_t *x = t->words + (uint32_t)me() * 2 * CHUNK, *y = x + CHUNK;
        read_pairs(t, 0, 2);
        const struct bfv_twiddle v = t->pairs[1];
        for (uint32_t chunk = first; chunk < last; chunk++) {
            const uint32_t left = at + chunk * CHUNK * 4, right = left + SPAN * 4;
            stream_read(left, x, CHUNK * 4);
            stream_read(right, y, CHUNK * 4);
            for (uint32_t j = 0; j < CHUNK; j++) {
                if (t->inverse) {
                    butterfly_last(t, x + j, y + j);
                } else { /* residues: words below 4p fit either range */
                    ntt_butterfly_forward(x + j, y + j, v.w, v.shoup, t->p);
                }
            }
            stream_write(x, left, CHUNK * 4);
            stream_write(y, right, CHUNK * 4);
        }
    }
    kernel_sync();
}

/* Moves the tasklet's share of 2^log words between MRAM at `at` and WRAM. A share is whole pairs. */
static void move(const struct transform *t, uint32_t at, uint32_t log, bool store) {
    uint32_t first = 0, last = 0;
    share_of(t->args, UINT32_C(1) << (log - 1), &first, &last);
    if (first < last) {
        uint32_t *words = t->words + 2 * first;
        if (!store) {
            stream_read(at + 8 * first, words, 8 * (last - first));
        } else {
            if (!t->inverse) {
                for (uint32_t j = 0; j < 2 * (last - first); j++) {
                    words[j] =
                        t->fast ? ntt_fast_reduce_word(words[j], t->p) : ntt_reduce_word(words[j], t->p);
                }
            }
            stream_write(words, at + 8 * first, 8 * (last - first));
        }
    }
    kernel_sync();
}

/* Part `half` of `parts` of a polynomial: the stages that stay inside it. */
static void inner(const struct transform *t, uint32_t at, uint32_t log, uint32_t half, uint32_t parts) {
    move(t, at, log, false);
    if (!t->inverse) {
        for (uint32_t k = 0; k < log; k++) { /* 2^k blocks here, 2^k parts in all */
            stage(t, log, log - 1 - k, (parts + half) << k);
        }
    } else {
        for (uint32_t k = log; k-- > (parts == 1 ? 1u : 0u);) {
            stage(t, log, log - 1 - k, (parts + half) << k);
        }
        if (parts == 1) {
            stage_last(t, log);
        }
    }
    move(t, at, log, true);
}

static uint32_t log_of(const struct bfv_args *args) {
    return args->log_n < SPAN_LOG ? args->log_n : (uint32_t)SPAN_LOG;
}

uint32_t ntt_transform_heap(const struct bfv_args *args) {
    if (args->log_n < 1 || args->log_n > SPAN_LOG + 1 || args->primes == 0) {
        return 0;
    }
    return (4u << log_of(args)) + args->tasklets * OWN_BYTES;
}

void ntt_transform(const struct bfv_args *args, void *heap) {
    const uint32_t log = log_of(args);
    const uint32_t table = (uint32_t)sizeof(struct bfv_twiddle) << args->log_n;
    uint8_t *own = (uint8_t *)heap + (4u << log) + (uint32_t)me() * OWN_BYTES;
    struct transform t = {
        .args = args,
        .words = heap,
        .pairs = (struct bfv_twiddle *)(void *)own,
        .p = 0,
        .row = 0,
        .inverse = args->command == BFV_CMD_NTT_INVERSE,
        .fast = false,
    };
    uint32_t prime = args->first;
    for (uint32_t k = 0; k < args->count; k++) {
        const uint32_t at = args->a + k * args->stride_a;
        if (kernel_first(args) != UINT32_MAX) {
            /* The row of the prime passes through the tasklet's own bytes. */
            struct bfv_prime_row *row = (struct bfv_prime_row *)(void *)own;
            stream_read(args->tables + prime * (uint32_t)sizeof *row, row, sizeof *row);
            t.p = row->mod.p;
            t.fast = ntt_fast_prime(t.p);
        }
        t.row = args->b + prime * table;
        if (args->log_n <= SPAN_LOG) {
            inner(&t, at, log, 0, 1);
        } else {
            if (!t.inverse) {
                stage_streamed(&t, at);
            }
            inner(&t, at, log, 0, 2);
            inner(&t, at + SPAN * 4, log, 1, 2);
            if (t.inverse) {
                stage_streamed(&t, at);
            }
        }
        prime = prime + 1 < args->primes ? prime + 1 : 0;
    }
}
