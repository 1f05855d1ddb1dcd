/* Sums and sums of products over the terms of a slice (abi.h), lazily in 64 bits.
 *
 * A tasklet takes a block of units and runs over terms, a group of them in WRAM at a time. Within a group the
 * sums are in registers (terms.h); they are made smaller mod p only when the next group might exceed 64 bits
 * (struct bfv_prime_row says when). Where there are fewer blocks than tasklets, several tasklets share a
 * block, each with a run of the terms; at the end each adds up some words of all, and the first delivers.
 */
#include "stream.h"

#include "ntt_fast.h"
#include "terms.h"

/* How a command takes its terms. */
struct plan {
    uint32_t operand; /* parts of an operand */
    uint32_t parts;   /* of the accumulator */
    uint32_t group;   /* terms in WRAM at a time */
    uint32_t blocks;
    uint32_t team;  /* tasklets that share a block */
    uint32_t words; /* of WRAM from one tasklet's to the next one's */
};

static struct plan plan_of(const struct bfv_args *args) {
    struct plan plan = {
        .operand = 2,
        .parts = 3,
        .group = bfv_reduce_group(args->command, args->tasklets, args->parts, args->block),
        .blocks = slice_blocks(args),
        .team = 1,
        .words = bfv_reduce_lines(args->tasklets) * BFV_UNIT,
    };
    if (args->command == BFV_CMD_NTT_SUM) {
        plan.operand = args->parts;
        plan.parts = args->parts;
    }
    if (plan.blocks != 0 && plan.blocks < args->tasklets) {
        plan.team = args->tasklets / plan.blocks;
    }
    return plan;
}

/* What a tasklet holds, and where it is. */
struct work {
    const struct bfv_args *args;
    struct plan plan;
    struct bfv_prime_row *rows; /* [units] */
    uint64_t *sums;             /* [units][parts][BFV_UNIT] */
    uint32_t *in;               /* [group][units][operand][BFV_UNIT], of two operands one after the other */
    uint32_t at;                /* bytes before the block, for one part */
    uint32_t units;             /* of the block */
    uint32_t have;              /* the prime of all rows, or UINT32_MAX */
    uint32_t group;             /* terms at a time, as the primes allow */
    uint32_t capacity;          /* terms that 64 bits hold beside a sum that was made smaller */
};

/* Words of a term of an operand in WRAM. */
static uint32_t operand_words(const struct work *w) {
    return w->units * w->plan.operand * BFV_UNIT;
}

/* `terms` terms that are in WRAM onto the sums of all units. */
static void add_terms(const struct work *w, uint32_t terms) {
    const uint32_t next = operand_words(w);
    uint64_t *s = w->sums;
    const uint32_t *x = w->in, *y = x + w->plan.group * next;
    const uint32_t step = w->args->command == BFV_CMD_NTT_SUM ? BFV_UNIT : 2 * BFV_UNIT;
    for (const uint32_t *const end = x + next; x != end; x += step, y += step) {
        if (w->args->command == BFV_CMD_NTT_SUM) {
            terms_sum(s, x, next, terms);
            s += BFV_UNIT;
        } else {
            if (w->args->command == BFV_CMD_NTT_PRODUCT) {
                terms_product(s, x, y, next, terms);
            } else {
                terms_square(s, x, next, terms);
            }
            s += 3 * BFV_UNIT;
        }
    }
}

/* ---- one block ------------------------------------------------------------------- */

/* Terms first .. first + terms - 1 of the operand at `base`, to x. */
static void read_terms(const struct work *w, uint32_t base, uint32_t stride, uint32_t first, uint32_t terms,
                       uint32_t *x) {
    const uint32_t words = operand_words(w);
    uint32_t from = base + first * stride + w->at * w->plan.operand;
    if (stride == words * 4) { /* they lie one after the other */
        stream_read(from, x, terms * words * 4);
        return;
    }
    for (const uint32_t *const end = x + terms * words; x != end; x += words, from += stride) {
        stream_read_short(from, x, words * 4);
    }
}

/* A sum to one that is the same mod p and below 2^33. */
static inline __attribute__((always_inline)) uint64_t smaller(uint64_t s, const struct zq_mod *mod) {
    const uint32_t high = (uint32_t)(s >> 32);
    const uint32_t rest = ntt_fast_prime(mod->p) ? wide_shoup_lazy(high, mod->r32, mod->r32_shoup, mod->p)
                                                 : zq_mul_shoup_lazy(high, mod->r32, mod->r32_shoup, mod->p);
    return (uint64_t)rest + (uint32_t)s;
}

/* Sets the terms that sums and WRAM hold. 64 bits hold a sum that was made smaller, below 2^33, and 4 (p -
 * 1)^2 a term, the product of two sums: at least 3 terms for p < 2^30. Where (p - 1)^2 < 2^34, 2^27 terms are
 * below 2^63. 32 bits hold at least 4 residues. */
static void limit_terms(struct work *w) {
    w->capacity = UINT32_MAX; /* sums: 2^32 residues stay below 2^62 */
    w->group = w->plan.group;
    for (uint32_t u = 0; u < w->units; u++) {
        const struct bfv_prime_row *row = w->rows + u;
        if (w->args->command == BFV_CMD_NTT_SUM) {
            w->group = row->max_sums < w->group ? row->max_sums : w->group;
        } else {
            const uint32_t most = UINT32_C(1) << 27, max = (row->max_products - 1) / 4;
            w->capacity = max < w->capacity ? max : w->capacity;
            w->capacity = most < w->capacity ? most : w->capacity;
        }
    }
    w->group = w->capacity < w->group ? w->capacity : w->group;
}

static void make_smaller(const struct work *w) {
    const uint32_t words = w->plan.parts * BFV_UNIT;
    for (uint32_t u = 0; u < w->units; u++) {
        for (uint32_t j = u * words; j < (u + 1) * words; j++) {
            w->sums[j] = smaller(w->sums[j], &w->rows[u].mod);
        }
    }
}

/* Sums of terms first .. last - 1. Out: below 2^33, or all that the terms may come to where they are no more
 * than `capacity`. */
static void block_terms(const struct work *w, uint32_t first, uint32_t last) {
    const struct bfv_args *args = w->args;
    const uint32_t words = w->units * w->plan.parts * BFV_UNIT;
    for (uint32_t j = 0; j < words; j++) {
        w->sums[j] = 0;
    }
    uint32_t room = w->capacity;
    while (first < last) {
        const uint32_t terms = last - first < w->group ? last - first : w->group;
        if (room < terms) {
            make_smaller(w);
            room = w->capacity;
        }
        read_terms(w, args->a, args->stride_a, first, terms, w->in);
        if (args->command == BFV_CMD_NTT_PRODUCT) {
            read_terms(w, args->b, args->stride_b, first, terms, w->in + w->plan.group * operand_words(w));
        }
        add_terms(w, terms);
        room -= terms;
        first += terms;
    }
    if (args->count > w->capacity) {
        make_smaller(w);
    }
}

/* Words of WRAM from a tasklet's sums to those of the next one of its team. */
static uint32_t team_words(const struct work *w) {
    return w->plan.blocks * w->plan.words;
}

/* The team's sums to residues in `in` of its first tasklet, [units][parts][BFV_UNIT]: of each `team` words,
 * word `member`. In: all terms together are no more than `capacity`, or all sums are below 2^33. */
static void block_reduce(const struct work *w, uint32_t member) {
    const uint32_t words = w->plan.parts * BFV_UNIT, all = w->units * words, next = team_words(w);
    const uint64_t *const first = w->sums - member * next / 2;
    uint32_t *const out = w->in - member * next;
    const struct bfv_prime_row *row = w->rows;
    uint32_t end = words; /* of the row's unit */
    for (uint32_t j = member; j < all; j += w->plan.team) {
        const uint64_t *x = first + j;
        uint64_t sum = *x;
        for (uint32_t other = 1; other < w->plan.team; other++) {
            x += next / 2;
            sum += *x;
        }
        for (; j >= end; end += words) {
            row++;
        }
        out[j] = zq_reduce64(sum, &row->mod);
    }
}

/* r1 - r0 - r2, the mixed part of products. */
static void block_mix(const struct work *w) {
    for (uint32_t u = 0; u < w->units; u++) {
        const uint32_t p = w->rows[u].mod.p;
        uint32_t *r0 = w->in + u * 3 * BFV_UNIT, *r1 = r0 + BFV_UNIT, *r2 = r1 + BFV_UNIT;
        for (uint32_t j = 0; j < BFV_UNIT; j++) {
            r1[j] = zq_sub(zq_sub(r1[j], r0[j], p), r2[j], p);
        }
    }
}

/* x += y, residues of the block. */
static void block_add(const struct work *w, uint32_t *x, const uint32_t *y) {
    const uint32_t words = w->plan.parts * BFV_UNIT;
    for (uint32_t u = 0; u < w->units; u++) {
        const uint32_t p = w->rows[u].mod.p;
        for (uint32_t j = u * words; j < (u + 1) * words; j++) {
            x[j] = zq_add(x[j], y[j], p);
        }
    }
}

/* Residues in `in` onto the accumulator in MRAM. */
static void block_deliver(const struct work *w) {
    if (w->args->command != BFV_CMD_NTT_SUM) {
        block_mix(w);
    }
    const uint32_t words = w->units * w->plan.parts * BFV_UNIT;
    const uint32_t out = w->args->out + w->at * w->plan.parts;
    if ((w->args->flags & BFV_FLAG_FRESH) == 0) {
        uint32_t *state = w->in + words; /* 2 * 3 of its 8 lines */
        stream_read(out, state, words * 4);
        block_add(w, w->in, state);
    }
    stream_write(w->in, out, words * 4);
}

static struct work work_of(const struct bfv_args *args, void *heap, uint32_t tasklet) {
    const uint32_t line = args->block * BFV_UNIT; /* in words */
    struct work work = {.args = args, .plan = plan_of(args), .have = UINT32_MAX};
    uint32_t *const own = (uint32_t *)heap + tasklet * work.plan.words;
    work.rows = (struct bfv_prime_row *)(void *)own;
    work.sums = (uint64_t *)(void *)(own + BFV_ROW_LINES * line);
    work.in = own + (BFV_ROW_LINES + 2 * work.plan.parts) * line;
    return work;
}

/* Sets a tasklet's place to a block. */
static void work_start(struct work *w, uint32_t index) {
    w->at = index * w->args->block * BFV_UNIT_BYTES;
    w->units = slice_units(w->args, index);
    slice_rows(w->args, index, w->units, w->rows, &w->have);
    limit_terms(w);
}

uint32_t ntt_accumulate_heap(const struct bfv_args *args) {
    const bool valid = slice_valid(args) && (args->command == BFV_CMD_NTT_SUM || args->parts == 3);
    if (!valid || args->tasklets == 0) {
        return 0;
    }
    const bool fits = bfv_reduce_group(args->command, args->tasklets, args->parts, args->block) != 0;
    return fits ? args->tasklets * bfv_reduce_lines(args->tasklets) * BFV_UNIT_BYTES : UINT32_MAX;
}

void ntt_accumulate(const struct bfv_args *args, void *heap) {
    struct work w = work_of(args, heap, (uint32_t)me());
    const uint32_t first = kernel_first(args), blocks = w.plan.blocks, team = w.plan.team;

    if (team == 1) {
        for (uint32_t index = first; index < blocks; index += args->tasklets) {
            work_start(&w, index);
            block_terms(&w, 0, args->count);
            block_reduce(&w, 0);
            block_deliver(&w);
        }
        return;
    }
    /* Tasklet = member of the team * blocks + block. */
    const uint32_t index = first % blocks, member = first / blocks;
    if (member < team) {
        const uint32_t each = args->count / team, more = args->count % team;
        const uint32_t from = member * each + (member < more ? member : more);
        work_start(&w, index);
        block_terms(&w, from, from + each + (member < more ? 1 : 0));
    }
    kernel_sync();
    if (member < team) {
        block_reduce(&w, member);
    }
    kernel_sync();
    if (member == 0) {
        block_deliver(&w);
    }
}
