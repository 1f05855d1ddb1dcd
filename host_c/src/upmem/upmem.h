/* The UPMEM backend inside: one source for the simulator and for the hardware, over
 * <dpu.h> alone. Two layers:
 *
 *   device   dpuset.c, device.c, layout.c, record.c: the set of DPUs, regions of MRAM, transfers, launches,
 *            statistics and the SDK's errors. Knows nothing of arithmetic.
 *   family   ops_ntt.c with ntt_memory.c, ops_limb.c with its helpers: struct family_ops,
 *            how arrays and accumulators of one kernel family lie on the DPUs and which
 *            commands compute on them.
 *
 * guard.c with check.c stands above both: it checks what DPUs return and has a share that was lost computed
 * again (guard.h). backend_upmem.c is the table that bfv.c calls, on top of all.
 *
 * Every int is a BFV_* status. A call that fails on the device leaves a sentence in
 * backend->detail (bfv_backend_error). BFV_E_BACKEND: what the DPUs hold is void, as far as the call used it.
 */
#ifndef PYBFV_UPMEM_H
#define PYBFV_UPMEM_H

#include "../backend.h"

#include <dpu.h>

#include "../../../dpu/core/abi.h"

/* ---- regions of MRAM (layout.c) --------------------------------------------- */

/* The same bytes of every DPU's MRAM, from the heap's start; a list in order of offsets. */
struct mram_region {
    struct mram_region *next;
    uint32_t offset, bytes; /* multiples of BFV_ALIGN */
};

struct mram {
    struct mram_region *used; /* in ascending order, disjoint */
    uint32_t size;            /* bytes that may be given out */
};

/* The lowest gap of `bytes` (rounded up to BFV_ALIGN): BFV_E_MEMORY when there is none. */
int mram_alloc(struct mram *mram, uint64_t bytes, struct mram_region **out);
void mram_free(struct mram *mram, struct mram_region *region); /* NULL is fine */
void mram_close(struct mram *mram);
/* Bytes of the widest gap. */
uint32_t mram_widest(const struct mram *mram);

/* ---- slices of the NTT family (layout.c) -------------------------------------- */

/* How units (abi.h) lie on DPUs: the first `wide` DPUs hold `units` each, the others one less. */
struct slices {
    uint32_t per_plane; /* units of a plane */
    uint32_t total;     /* units of a residue polynomial */
    uint32_t dpus;
    uint32_t units; /* of the widest slice, >= 1 */
    uint32_t wide;  /* DPUs that hold that many */
};

struct slices slices_of(const bfv_ring *ring, uint32_t dpus);
uint32_t slices_first(const struct slices *slices, uint32_t dpu);  /* unit */
uint32_t slices_count(const struct slices *slices, uint32_t dpu);  /* units, maybe 0 */
uint32_t slices_owner(const struct slices *slices, uint32_t unit); /* DPU */
/* DPU `dpu`'s slice of the ciphertext x[parts][L][N], to out[units][parts][BFV_UNIT], padding zero. */
void slices_gather(const struct slices *slices, const bfv_ring *ring, uint32_t dpu, const uint32_t *x,
                   uint32_t parts, uint32_t *out);
/* The way back; words of other DPUs are left alone. */
void slices_scatter(const struct slices *slices, const bfv_ring *ring, uint32_t dpu, const uint32_t *in,
                    uint32_t parts, uint32_t *x);

/* ---- the device (device.c) --------------------------------------------- */

struct upmem;

struct upmem_array {
    const uint32_t *words; /* [count][parts][L][N] on the host: owned, or the caller's (borrowed) */
    uint32_t *owned;       /* NULL when borrowed */
    void *cache;           /* the family's, NULL at first */
};

enum family_op { FAMILY_ADD, FAMILY_SUB, FAMILY_SCALE, FAMILY_TENSOR };

/* Which kernels compute, and how. */
struct family_ops {
    const char *name; /* "ntt" or "limb" */

    /* After backend->ring is open and before the DPUs are: the program's base name such as
     * "bfv_ntt"; NULL when this ring can't be served (BFV_E_UNSUPPORTED). */
    const char *(*program)(const bfv_ring *ring);
    /* The DPUs are there and the program is loaded: tables to MRAM, upmem->family. */
    int (*open)(struct upmem *upmem);
    void (*close)(struct upmem *upmem);

    /* Frees array->cache, which is not NULL. */
    void (*array_drop)(struct upmem *upmem, struct upmem_array *array);

    /* What checks of an accumulator go by: a ring of the primes of its state, or of the first of them; and an
     * array's ciphertexts in NTT form mod these, after a call on acc that took them. */
    const bfv_ring *(*check_ring)(const struct upmem *upmem, const struct bfv_acc *acc);
    const uint32_t *(*terms)(const struct upmem *upmem, const struct bfv_acc *acc, const struct bfv_array *a);
    /* The DPU at work that has coefficient c of plane i of `ring` in all it computes; NULL: no one has. */
    uint32_t (*owner)(const struct upmem *upmem, const bfv_ring *ring, uint32_t i, uint32_t c);

    /* Accumulators as in backend_ops; acc->data is the family's. */
    int (*acc_new)(struct upmem *upmem, struct bfv_acc *acc);
    void (*acc_drop)(struct upmem *upmem, struct bfv_acc *acc);
    int (*acc_add)(struct upmem *upmem, struct bfv_acc *acc, const struct bfv_array *a, uint64_t first,
                   uint64_t stride, uint64_t count);
    int (*acc_mul)(struct upmem *upmem, struct bfv_acc *acc, const struct bfv_array *a, uint64_t first_a,
                   const struct bfv_array *b, uint64_t first_b, uint64_t stride, uint64_t count);
    int (*acc_merge)(struct upmem *upmem, struct bfv_acc *acc, const struct bfv_acc *other);
    /* dst: [parts][L][N], canonical residues in NTT form. */
    int (*acc_save)(struct upmem *upmem, const struct bfv_acc *acc, uint32_t *dst);
    int (*acc_load)(struct upmem *upmem, struct bfv_acc *acc, const uint32_t *src);

    /* out[k] = a[k sa] op b[k sb] for k < count, all ciphertexts on the host; sa, sb: 0 (the same one for
     * every k) or 1. ADD, SUB: `parts` parts, any form. SCALE: part p of a times part p of b, NTT form
     * (b: a plaintext, repeated in each part). TENSOR: NTT form, 2 parts and 2 to 3. */
    int (*pointwise)(struct upmem *upmem, enum family_op op, uint32_t parts, const uint32_t *a, uint32_t sa,
                     const uint32_t *b, uint32_t sb, uint64_t count, uint32_t *out);
    /* polys residue polynomials [L][N] from NTT form to coefficients (inverse) or back; NULL: the host
     * does it. */
    int (*convert)(struct upmem *upmem, const uint32_t *a, uint64_t polys, bool inverse, uint32_t *out);
};

extern const struct family_ops family_ntt, family_limb;

/* Host memory of transfers: two for what goes to the DPUs, one for what a finish (below) fetches. */
enum { UPMEM_STAGE_BACK = 2, UPMEM_STAGES = 3 };

/* A call on an accumulator that returned while its last launch runs: what remains to be done once that
 * has ended, by whatever call ends it. */
struct upmem_left {
    int (*finish)(struct upmem *upmem, void *acc, int status); /* of the launch; returns the call's */
    void *acc; /* as the family says; NULL: nothing is left, or nobody wants it any more */
};

/* Launches, for a time model: nothing on hardware. */
struct upmem_record {
    bfv_event *events; /* of launches, equal ones once */
    uint32_t count, room;
    uint32_t busiest; /* the DPU with the most work in the launch under way */
    bfv_event now;    /* what it was asked for */
};

/* One DPU of the set. */
struct upmem_place {
    uint32_t rank, index; /* in that rank, among those that are there */
    uint32_t number;      /* among those at work, or UPMEM_OUT: it gets no data and is not launched */
    bool bad;             /* it was at fault since the last upmem_device_again */
};

#define UPMEM_OUT UINT32_MAX

struct guard;

struct upmem {
    struct bfv_backend *backend;
    const struct family_ops *ops;
    void *family; /* the family's */
    struct guard *guard;
    struct dpu_set_t set;
    bool allocated;
    uint32_t all;               /* DPUs of the set */
    uint32_t dpus;              /* of them at work: all that others number and count */
    struct upmem_place *places; /* [all] */
    char *path;                 /* of the program */
    uint32_t tasklets;          /* that work */
    uint32_t serial;            /* of the last launch */
    uint32_t command;           /* its command */
    bool suspicious;            /* every share of a result is to be looked at, as one was wrong */
    bool running;               /* it is under way, as far as anybody asked */
    uint64_t launched;          /* when it began */
    uint64_t ended;             /* when it was seen to have ended, 0 until then */
    struct upmem_left left;
    struct mram mram;
    struct bfv_args *args;         /* [dpus], for upmem_launch */
    struct bfv_report *reports;    /* [dpus] */
    uint32_t *stage[UPMEM_STAGES]; /* host memory of transfers, grown as needed */
    size_t stage_bytes[UPMEM_STAGES];
    struct upmem_record record;
};

static inline struct upmem *upmem_of(const struct bfv_backend *backend) {
    return (struct upmem *)backend->data;
}

static inline const uint32_t *upmem_words(const struct bfv_array *array) {
    return ((const struct upmem_array *)array->data)->words;
}

/* The DPUs with `program` loaded, room for arguments, MRAM's size. Needs ops and tasklets; what it got
 * before an error, close frees. */
int upmem_device_open(struct upmem *upmem, const bfv_options *options, const char *program);
void upmem_device_close(struct upmem *upmem);

/* The DPUs as after open, all that they held forgotten, without those that were blamed since the last time;
 * but when there would be no other left, with them. *out: the DPUs that were left out now. The family must be
 * closed. */
int upmem_device_again(struct upmem *upmem, uint32_t *out);

/* Launches all DPUs at work, asynchronously. */
dpu_error_t upmem_device_start(struct upmem *upmem);

/* "rank 1 DPU 3 (number 11 of 64)" for one at work. */
struct upmem_name {
    char text[64];
};
struct upmem_name upmem_name_of(const struct upmem *upmem, uint32_t dpu);
/* BFV_E_BACKEND with the SDK's words, or BFV_OK. */
int upmem_device_status(struct upmem *upmem, dpu_error_t error, const char *what);
/* Blames a DPU at work: its name and a sentence to backend->detail; returns BFV_E_BACKEND. */
int upmem_blame(struct upmem *upmem, uint32_t dpu, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Blames the DPUs at work that the SDK says are in fault, and adds the first one's name to the detail. */
void upmem_blame_faulty(struct upmem *upmem);

/* Host memory for dpus * bytes; contents undefined. NULL when there is none. which: < UPMEM_STAGES. */
uint32_t *upmem_stage(struct upmem *upmem, uint32_t which, uint64_t bytes);

/* To and from MRAM at `offset` from the heap; DPU d's bytes are at src + d * bytes. bytes: a
 * multiple of 8. push_begin returns at once: src stays borrowed until upmem_settle or any other
 * transfer or launch has returned. */
int upmem_push(struct upmem *upmem, uint32_t offset, const void *src, uint64_t bytes);
int upmem_push_begin(struct upmem *upmem, uint32_t offset, const void *src, uint64_t bytes);
int upmem_settle(struct upmem *upmem);
int upmem_pull(struct upmem *upmem, uint32_t offset, void *dst, uint64_t bytes);
int upmem_broadcast(struct upmem *upmem, uint32_t offset, const void *src, uint64_t bytes);

/* Launches with upmem->args[0 .. dpus), in which it sets tasklets and serial; waits and checks every
 * report. */
int upmem_launch(struct upmem *upmem);

/* The same in two halves, between which the host may work on its own memory. Every transfer, settle
 * and launch ends a launch under way first, and returns its error. So MRAM that a launch under way uses
 * may be given out again: nothing is written to it before. */
int upmem_launch_begin(struct upmem *upmem);
int upmem_launch_end(struct upmem *upmem);

/* Leaves the launch under way to whatever call ends it, which then calls finish(upmem, acc, status) and
 * returns its status. finish may transfer; of the stages it uses UPMEM_STAGE_BACK alone, as that other call
 * may have gathered its operands in the others. */
void upmem_leave(struct upmem *upmem, int (*finish)(struct upmem *upmem, void *acc, int status), void *acc);
/* acc is dropped or gets another value: nothing is to be finished for it. An error of the launch is still
 * reported. */
void upmem_forget(struct upmem *upmem, const void *acc);

/* record.c: a launch with upmem->args begins; it has ended. On the simulator; elsewhere they do nothing. A
 * record that finds no memory is left out. */
void upmem_record_begin(struct upmem *upmem);
void upmem_record_end(struct upmem *upmem);
/* As bfv_get_events. */
int upmem_recorded(const struct upmem *upmem, bfv_event *out, uint32_t room, uint32_t *count);

/* Calls run(job, k) for every k < count, on all cores; calls for different k touch different data. */
void upmem_parallel(struct upmem *upmem, uint32_t count, void (*run)(void *job, uint32_t k), void *job);

/* Monotone clock, ns. Host conversions add to backend->stats.convert themselves. */
uint64_t upmem_clock(void);

/* The seed of the simulator's schedules; 0 where there is none: on hardware, in faithful mode, before the
 * DPUs are allocated. */
uint64_t upmem_seed(const struct upmem *upmem);

/* What is said of an accumulator that an error has left without a value. */
#define UPMEM_DAMAGED "an earlier device error left this accumulator undefined; compute again"

/* Writes backend->detail (printf style), with the seed that repeats it, and returns `status`. */
int upmem_fail(struct upmem *upmem, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
