/* Sums and sums of products over the terms of a slice (abi.h), lazily in 64 bits.
 *
 * A tasklet takes a block of units and runs over terms, a group of them in WRAM at a time. Its
 * accumulators pass through registers once a group, and are reduced mod p only when the next
 * group might exceed 64 bits (struct bfv_prime_row says when). Where there are fewer blocks than
 * tasklets, several tasklets share a block, each with a run of the terms; the first of them adds
 * the others' residues at the end.
 */
#include "stream.h"

/* Units of memory that a tasklet holds for each unit of its block. */
enum {
    LINES_IN = 8,                     /* words of a group: 4 terms of 2 parts, ... */
    LINES_SUMS = 3 * 2,               /* up to three accumulators of 64 bits */
    LINES = 1 + LINES_SUMS + LINES_IN /* and the rows of primes */
};

/* How a command takes its terms. */
struct plan {
    uint32_t operand; /* parts of an operand */
    uint32_t parts;   /* of the accumulator */
    uint32_t group;   /* terms in WRAM at a time */
    uint32_t blocks;
    uint32_t team; /* tasklets that share a block */
};

static struct plan plan_of(const struct bfv_args *args) {
    struct plan plan = {.operand = 2, .parts = 3, .blocks = slice_blocks(args), .team = 1};
    switch (args->command) {
    case BFV_CMD_NTT_SUM:
        plan.operand = args->parts;
        plan.parts = args->parts;
        plan.group = args->parts == 3 ? 2 : 4;
        break;
    case BFV_CMD_NTT_SQUARE:
        plan.group = 4;
        break;
    default: /* two operands */
        plan.group = 2;
        break;
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
    uint32_t *in;               /* the group's operands, each [units][operand][BFV_UNIT] */
    uint32_t at;                /* bytes before the block, for one part */
    uint32_t units;             /* of the block */
    uint32_t capacity;          /* terms that may follow a reduction */
};

/* ---- the arithmetic: `terms` terms, `next` words apart, onto one unit of the accumulators ------- */

/* Whether s + a b stays below 2^64; for assertions. */
static inline __attribute__((always_inline, unused)) bool fits(uint64_t s, uint32_t a, uint32_t b) {
    return s <= UINT64_MAX - wide_mul(a, b);
}

/* s += the terms' words. In: residues, at most 4 terms, whose sum fits 32 bits as p < 2^30; s < 2^63. Out: no
 * wrap. */
static inline __attribute__((always_inline)) void unit_sum(uint64_t *restrict s, const uint32_t *restrict x,
                                                           uint32_t next, uint32_t terms, uint32_t words) {
    ZQ_ASSERT(terms <= 4);
    for (uint32_t j = 0; j < words; j++) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < terms; k++) {
            ZQ_ASSERT(x[k * next + j] < ZQ_PRIME_LIMIT);
            sum += x[k * next + j];
        }
        ZQ_ASSERT(s[j] >> 63 == 0);
        s[j] += sum;
    }
}

/* s0 += c0^2, s1 += (c0 + c1)^2, s2 += c1^2: three squares (21 DPU instructions each) are cheaper than
 * two squares and a product (34); 2 c0 c1 = s1 - s0 - s2 is taken at the end. In: residues; sums that
 * still fit 64 bits. */
static inline __attribute__((always_inline)) void
unit_square(uint64_t *restrict s, const uint32_t *restrict x, uint32_t next, uint32_t terms) {
    for (uint32_t j = 0; j < BFV_UNIT; j++) {
        uint64_t t0 = s[j], t1 = s[BFV_UNIT + j], t2 = s[2 * BFV_UNIT + j];
        for (uint32_t k = 0; k < terms; k++) {
            const uint32_t c0 = x[k * next + j], c1 = x[k * next + BFV_UNIT + j];
            ZQ_ASSERT(c0 < ZQ_PRIME_LIMIT && c1 < ZQ_PRIME_LIMIT);
            ZQ_ASSERT(fits(t0, c0, c0) && fits(t1, c0 + c1, c0 + c1) && fits(t2, c1, c1));
            t0 = wide_sqr_mac(t0, c0);
            t1 = wide_sqr_mac(t1, c0 + c1);
            t2 = wide_sqr_mac(t2, c1);
        }
        s[j] = t0;
        s[BFV_UNIT + j] = t1;
        s[2 * BFV_UNIT + j] = t2;
    }
}

/* s0 += a0 b0, s1 += a0 b1 + a1 b0, s2 += a1 b1. In: residues; sums that still fit 64 bits. */
static inline __attribute__((always_inline)) void unit_product(uint64_t *restrict s,
                                                               const uint32_t *restrict a,
                                                               const uint32_t *restrict b, uint32_t next,
                                                               uint32_t terms) {
    for (uint32_t j = 0; j < BFV_UNIT; j++) {
        uint64_t t0 = s[j], t1 = s[BFV_UNIT + j], t2 = s[2 * BFV_UNIT + j];
        for (uint32_t k = 0; k < terms; k++) {
            const uint32_t a0 = a[k * next + j], a1 = a[k * next + BFV_UNIT + j];
            const uint32_t b0 = b[k * next + j], b1 = b[k * next + BFV_UNIT + j];
            ZQ_ASSERT(a0 < ZQ_PRIME_LIMIT && a1 < ZQ_PRIME_LIMIT);
            ZQ_ASSERT(b0 < ZQ_PRIME_LIMIT && b1 < ZQ_PRIME_LIMIT);
            ZQ_ASSERT(fits(t0, a0, b0) && fits(t1, a0, b1) && fits(t2, a1, b1));
            t0 = wide_mac(t0, a0, b0);
            t1 = wide_mac(t1, a0, b1);
            ZQ_ASSERT(fits(t1, a1, b0));
            t1 = wide_mac(t1, a1, b0);
            t2 = wide_mac(t2, a1, b1);
        }
        s[j] = t0;
        s[BFV_UNIT + j] = t1;
        s[2 * BFV_UNIT + j] = t2;
    }
}

/* Words from one operand to the next in WRAM. */
static uint32_t operand_words(const struct work *w) {
    return w->units * w->plan.operand * BFV_UNIT;
}

/* `terms` terms that are in WRAM onto all units; a full group is compiled with its constant count. */
static void add_terms(const struct work *w, uint32_t terms) {
    const uint32_t next = operand_words(w);
    if (w->args->command == BFV_CMD_NTT_SUM) {
        if (terms == 4) {
            unit_sum(w->sums, w->in, next, 4, next);
        } else {
            unit_sum(w->sums, w->in, next, terms, next);
        }
        return;
    }
    for (uint32_t u = 0; u < w->units; u++) {
        uint64_t *s = w->sums + u * 3 * BFV_UNIT;
        const uint32_t *x = w->in + u * 2 * BFV_UNIT;
        if (w->args->command == BFV_CMD_NTT_PRODUCT) {
            unit_product(s, x, x + w->plan.group * next, next, terms);
        } else if (terms == 4) {
            unit_square(s, x, next, 4);
        } else {
            unit_square(s, x, next, terms);
        }
    }
}

/* ---- one block ------------------------------------------------------------------- */

static void read_terms(const struct work *w, uint32_t first, uint32_t terms) {
    const struct bfv_args *args = w->args;
    const uint32_t next = operand_words(w), at = w->at * w->plan.operand;
    for (uint32_t k = 0; k < terms; k++) {
        stream_read(args->a + (first + k) * args->stride_a + at, w->in + k * next, next * 4);
        if (args->command == BFV_CMD_NTT_PRODUCT) {
            stream_read(args->b + (first + k) * args->stride_b + at, w->in + (w->plan.group + k) * next,
                        next * 4);
        }
    }
}

/* The terms that 64 bits hold beside one residue, the result of a reduction: 4 (p - 1)^2 the square of
 * a sum, 2 (p - 1)^2 the cross products. At least 3 for p < 2^30. */
static uint32_t capacity_of(const struct bfv_args *args, const struct bfv_prime_row *rows, uint32_t units) {
    uint32_t capacity = UINT32_MAX; /* sums: 2^32 residues stay below 2^62 */
    for (uint32_t u = 0; u < units && args->command != BFV_CMD_NTT_SUM; u++) {
        const uint32_t max = (rows[u].max_products - 1) / (args->command == BFV_CMD_NTT_SQUARE ? 4 : 2);
        capacity = max < capacity ? max : capacity;
    }
    return capacity;
}

static void reduce_sums(const struct work *w) {
    const uint32_t words = w->plan.parts * BFV_UNIT;
    for (uint32_t u = 0; u < w->units; u++) {
        for (uint32_t j = u * words; j < (u + 1) * words; j++) {
            w->sums[j] = zq_reduce64(w->sums[j], &w->rows[u].mod);
        }
    }
}

/* Terms first .. last - 1 to residues in `in`, [units][parts][BFV_UNIT]. */
static void block_terms(const struct work *w, uint32_t first, uint32_t last) {
    const uint32_t words = w->units * w->plan.parts * BFV_UNIT;
    for (uint32_t j = 0; j < words; j++) {
        w->sums[j] = 0;
    }
    uint32_t room = w->capacity;
    while (first < last) {
        uint32_t terms = last - first < w->plan.group ? last - first : w->plan.group;
        terms = terms < w->capacity ? terms : w->capacity;
        if (room < terms) {
            reduce_sums(w);
            room = w->capacity;
        }
        read_terms(w, first, terms);
        add_terms(w, terms);
        room -= terms;
        first += terms;
    }
    reduce_sums(w);
    for (uint32_t j = 0; j < words; j++) {
        w->in[j] = (uint32_t)w->sums[j];
    }
    for (uint32_t u = 0; u < w->units && w->args->command == BFV_CMD_NTT_SQUARE; u++) {
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
    const uint32_t line = args->block * BFV_UNIT_BYTES;
    uint8_t *own = (uint8_t *)heap + tasklet * LINES * line;
    const struct work work = {
        .args = args,
        .plan = plan_of(args),
        .rows = (struct bfv_prime_row *)(void *)own,
        .sums = (uint64_t *)(void *)(own + line),
        .in = (uint32_t *)(void *)(own + (1 + LINES_SUMS) * line),
    };
    return work;
}

/* Sets a tasklet's place to a block. */
static void work_start(struct work *w, uint32_t index) {
    w->at = index * w->args->block * BFV_UNIT_BYTES;
    w->units = slice_units(w->args, index);
    slice_rows(w->args, index, w->units, w->rows);
    w->capacity = capacity_of(w->args, w->rows, w->units);
}

uint32_t ntt_accumulate_heap(const struct bfv_args *args) {
    if (!slice_valid(args) || (args->command != BFV_CMD_NTT_SUM && args->parts != 3)) {
        return 0;
    }
    return (uint32_t)args->tasklets * LINES * args->block * BFV_UNIT_BYTES;
}

void ntt_accumulate(const struct bfv_args *args, void *heap) {
    struct work w = work_of(args, heap, (uint32_t)me());
    const uint32_t first = kernel_first(args), blocks = w.plan.blocks, team = w.plan.team;

    if (team == 1) {
        for (uint32_t index = first; index < blocks; index += args->tasklets) {
            work_start(&w, index);
            block_terms(&w, 0, args->count);
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
    if (member == 0) {
        for (uint32_t other = 1; other < team; other++) {
            block_add(&w, w.in, work_of(args, heap, index + other * blocks).in);
        }
        block_deliver(&w);
    }
}
