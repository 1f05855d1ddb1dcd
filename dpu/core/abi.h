/* What the host and a DPU program say to each other: the `__host` structures, the
 * command codes, and what lies where in MRAM. Both sides compile this file.
 *
 * One launch = one command. The host writes `struct bfv_args` to the symbol
 * `bfv_args` of every DPU (they may differ from DPU to DPU), launches, and reads
 * `struct bfv_report` from the symbol `bfv_report`. A launch succeeded only when
 * the report carries the serial number of the arguments: a run that ended in a
 * barrier too few tasklets reached is reported by the SDK as a success, but it has
 * written no report.
 *
 * MRAM. Offsets in the arguments are bytes from DPU_MRAM_HEAP_POINTER, multiples of
 * BFV_ALIGN; the host alone gives out regions, and every DPU has the same ones:
 *
 *     tables        constants of the primes (or of q), read by every command
 *     twiddles      NTT family, only once a transform is asked for
 *     accumulators  one region each, resident until dropped
 *     arrays        slices of ciphertexts, resident while there is room
 *     staging       operands and results of a batch
 *
 * NTT family, slices. The planes of a residue polynomial [L][N] are cut into units of
 * BFV_UNIT words (a plane shorter than that is one unit, padded with zeros), numbered
 * 0 .. L ceil(N / BFV_UNIT) - 1 through all planes; unit u belongs to prime
 * u / ceil(N / BFV_UNIT). A DPU holds a run of units, the same of every ciphertext and
 * of each of its parts: a ciphertext's slice is [units][parts][BFV_UNIT] words, `units`
 * the longest run of any DPU. Reductions then never cross DPUs, and a block of units
 * with all its parts is one transfer.
 */
#ifndef PYBFV_ABI_H
#define PYBFV_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "zq.h"

enum {
    BFV_ALIGN = 64,           /* every region begins at a multiple of this */
    BFV_UNIT = 8,             /* words of a unit: 2,048 DPUs share the 4 primes of N = 4096 */
    BFV_UNIT_BYTES = 32,      /* bytes of a unit */
    BFV_RUN = 16,             /* coefficients that a DPU of the limb family takes at least */
    BFV_MRAM_BYTES = 1 << 26, /* of a DPU, less what its program takes */
    BFV_WRAM_BYTES = 1 << 16, /* of a DPU */
    BFV_DMA_BYTES = 2048,     /* the longest transfer between MRAM and WRAM */
    /* Each of 24 tasklets has a stack; so programs are built. Heap: what the stacks, constants, arguments and
     * run-time data leave of WRAM. */
    BFV_NTT_STACK_BYTES = 1024,
    BFV_LIMB_STACK_BYTES = 1280,
    BFV_NTT_HEAP_BYTES = (1 << 16) - 2048 - 24 * BFV_NTT_STACK_BYTES,
    BFV_LIMB_HEAP_BYTES = (1 << 16) - 2048 - 24 * BFV_LIMB_STACK_BYTES,
    BFV_BLOCK_UNITS = 8 /* the most units that a tasklet works on at a time */
};

/* NTT family: 0x1.., limb family: 0x2... */
enum bfv_command {
    BFV_CMD_NONE = 0, /* writes its report, does nothing */

    /* Slices; first, positions: the DPU's run of units.
     * SUM: out[p] = start[p] + sum over k < count of a[k][p], p < parts.
     * PRODUCT: out[0..2] = start + sum of (a0 b0, a0 b1 + a1 b0, a1 b1).
     * SQUARE: the same for b = a (b, stride_b unused).
     * start is out itself, or 0 with BFV_FLAG_FRESH. In, Out: residues. */
    BFV_CMD_NTT_SUM = 0x101,
    BFV_CMD_NTT_PRODUCT = 0x102,
    BFV_CMD_NTT_SQUARE = 0x103,
    /* out[k] = a[k] op b[k] in every part, k < count, results stride_part apart. In, Out: residues.
     * Alias: out may be a or b. */
    BFV_CMD_NTT_ADD = 0x111,
    BFV_CMD_NTT_SUB = 0x112,
    BFV_CMD_NTT_MUL = 0x113,
    /* out[k] = (a0 b0, a0 b1 + a1 b0, a1 b1)[k], 2 parts and 2 to 3. Alias: none. */
    BFV_CMD_NTT_TENSOR = 0x114,
    /* Whole residue polynomials of N words in place at a, stride_a apart, count of them; the first
     * is mod prime `first`, the next ones mod the following primes, cyclically. b: the twiddles. */
    BFV_CMD_NTT_FORWARD = 0x121,
    BFV_CMD_NTT_INVERSE = 0x122,

    /* Limb family (limb.h): a coefficient is `primes` = BFV_LIMBS words; tables: one struct limb_modulus.
     *
     * Slices: a term is `positions` coefficients at a + k stride_a; both a multiple of 8 bytes long.
     * ADD, SUB: out[k] = a[k] op b[k] mod q, k < count, results stride_part apart. Alias: out may be a or b.
     * SUM: out = start + sum over k < count of a[k], reduced after every term; SUM_LAZY: reduced once. */
    BFV_CMD_LIMB_ADD = 0x201,
    BFV_CMD_LIMB_SUB = 0x202,
    BFV_CMD_LIMB_SUM = 0x203,
    BFV_CMD_LIMB_SUM_LAZY = 0x204,
    /* Whole polynomials of N coefficients; the output coefficients first .. first + positions - 1, both
     * multiples of min(N, BFV_RUN), are computed; count pairs are accumulated, at most BFV_LIMB_PAIRS.
     * PRODUCT: out = start + sum of a[k] b[k]. TENSOR: operands of two polynomials, (c0, c1) and (d0, d1);
     * out = start + sum of (c0 d0, c0 d1 + c1 d0, c1 d1), stride_part apart.
     * start is out itself, or 0 with BFV_FLAG_FRESH. In, Out: [0, q); but with BFV_FLAG_INTEGER the output
     * is the sum over the integers, LIMB_ACC(BFV_LIMBS) words a coefficient, two's complement. */
    BFV_CMD_LIMB_PRODUCT = 0x211,
    BFV_CMD_LIMB_TENSOR = 0x212,
    BFV_CMD_LIMB_FIRST = BFV_CMD_LIMB_ADD,
    BFV_CMD_LIMB_LAST = BFV_CMD_LIMB_TENSOR
};

enum {
    BFV_FLAG_FRESH = 1 << 0,  /* the accumulator starts at 0: `out` is not read */
    BFV_FLAG_INTEGER = 1 << 1 /* limb family: accumulators are not reduced */
};

/* Symbol `bfv_args`. */
struct bfv_args {
    uint32_t serial;      /* of the launch, never 0; the report repeats it */
    uint16_t command;     /* enum bfv_command */
    uint8_t tasklets;     /* that work, 1 .. NR_TASKLETS; the others only wait */
    uint8_t parts;        /* of a ciphertext */
    uint8_t flags;        /* BFV_FLAG_* */
    uint8_t log_n;        /* log2 N */
    uint8_t primes;       /* L; limb: limbs of a coefficient */
    uint8_t block;        /* slices: units that a tasklet works on at a time, 1 .. BFV_BLOCK_UNITS */
    uint32_t count;       /* terms, pairs or polynomials; 0: nothing to do */
    uint32_t first;       /* slices: first unit; transforms: first prime; limb: first output coefficient */
    uint32_t positions;   /* slices: units of this DPU; limb: output coefficients */
    uint32_t a, b, out;   /* MRAM offsets */
    uint32_t stride_a;    /* bytes from one term to the next, multiples of 8 */
    uint32_t stride_b;    /* 0: the same operand for every term */
    uint32_t stride_part; /* bytes from one result to the next; limb: as its commands say */
    uint32_t tables;      /* MRAM offset of the constants */
    uint32_t reserved;    /* 0; makes the size a multiple of 8 */
};

/* Symbol `bfv_report`. */
struct bfv_report {
    uint32_t serial; /* of the arguments, written last */
    uint32_t status; /* enum bfv_dpu_status */
    uint64_t cycles; /* perfcounter of the run, 0 where there is none */
};

/* Pairs of one limb product: N (2q)^2 BFV_LIMB_PAIRS <= 2^(64 limbs + 30) for q < 2^(32 limbs - 1), N <=
 * 2^14. */
enum { BFV_LIMB_PAIRS = 1 << 16 };

enum bfv_dpu_status {
    BFV_DPU_OK = 0,
    BFV_DPU_COMMAND = 1,  /* a command of another family */
    BFV_DPU_ARGUMENT = 2, /* arguments out of range */
    BFV_DPU_MEMORY = 3    /* they need more WRAM than there is */
};

/* One prime, as the tables of the NTT family hold it: `primes` of these, one after the other. */
struct bfv_prime_row {
    struct zq_mod mod;
    uint32_t max_products; /* min(floor((2^64 - 1) / (p - 1)^2), 2^32 - 1) */
    uint32_t max_sums;     /* floor((2^32 - 1) / (p - 1)) */
    uint32_t reserved[8];
};

/* WRAM of a tasklet in SUM, PRODUCT and SQUARE: BFV_NTT_HEAP_BYTES shared out evenly, in lines of
 * BFV_UNIT_BYTES, at most BFV_REDUCE_LINES. For each unit of its block it holds the row of the prime and
 * `parts` sums of two lines; the rest takes terms, or twice the result. */
enum { BFV_REDUCE_LINES = 128, BFV_REDUCE_GROUP = 32, BFV_ROW_LINES = 2 };

static inline uint32_t bfv_reduce_lines(uint32_t tasklets) {
    const uint32_t lines = (uint32_t)BFV_NTT_HEAP_BYTES / BFV_UNIT_BYTES / tasklets;
    return lines < BFV_REDUCE_LINES ? lines : (uint32_t)BFV_REDUCE_LINES;
}

/* Terms that a tasklet takes at a time, at most BFV_REDUCE_GROUP; 0: the block does not fit.
 * In: tasklets, parts of the accumulator and block >= 1. */
static inline uint32_t bfv_reduce_group(uint32_t command, uint32_t tasklets, uint32_t parts, uint32_t block) {
    const uint32_t lines = bfv_reduce_lines(tasklets), held = block * (BFV_ROW_LINES + 2 * parts);
    const uint32_t operand = command == BFV_CMD_NTT_SUM ? parts : command == BFV_CMD_NTT_SQUARE ? 2 : 4;
    if (lines < held + 2 * parts * block) {
        return 0;
    }
    const uint32_t group = (lines - held) / (operand * block);
    return group < BFV_REDUCE_GROUP ? group : (uint32_t)BFV_REDUCE_GROUP;
}

/* Twiddles of a transform: for each prime one row of N pairs {w, floor(w 2^32 / p)}, the tables
 * "forward" of ntt.h with BFV_CMD_NTT_FORWARD and "inverse" with BFV_CMD_NTT_INVERSE. */
struct bfv_twiddle {
    uint32_t w, shoup;
};

_Static_assert(sizeof(struct bfv_args) == 56 && __builtin_offsetof(struct bfv_args, count) == 12 &&
                   __builtin_offsetof(struct bfv_args, a) == 24 &&
                   __builtin_offsetof(struct bfv_args, tables) == 48,
               "bfv_args is 56 bytes on both sides");
_Static_assert(sizeof(struct bfv_report) == 16 && __builtin_offsetof(struct bfv_report, cycles) == 8,
               "bfv_report is 16 bytes on both sides");
_Static_assert(sizeof(struct bfv_prime_row) == BFV_ROW_LINES * BFV_UNIT_BYTES &&
                   __builtin_offsetof(struct bfv_prime_row, max_products) == 24,
               "a row of a prime is two units");
_Static_assert(sizeof(struct bfv_twiddle) == 8, "a twiddle is one MRAM word");

#endif
