/* Inside the simulator. One `struct sim` is what one dpu_alloc made; nothing is shared
 * between two of them but the process's signal handlers (signals.c).
 *
 *   api.c       sets, memory of DPUs, queries          transfer.c  copies and pushes
 *   program.c   loading, symbols                        pool.c      workers and their queues
 *   tasklet.c   the scheduler of one DPU's tasklets     runtime.c   what programs call
 *   fibre.c     switching stacks                        error.c     texts
 *   record.c    what was done, for a time model
 *
 * Lifetime of a launch: dpu_launch queues a job; each worker runs the DPUs that are its own,
 * one after the other, through its own copy of the program: swap the DPU's sections in, run
 * the tasklets, swap them out. A DPU belongs to the same worker for ever, so that its images
 * hold addresses of one copy only. */
#ifndef DPUSIM_SIM_H
#define DPUSIM_SIM_H

#include "device/dpusim_device.h"
#include "include/dpusim.h"

#include <pthread.h>
#include <setjmp.h>
#include <sys/types.h>

#define SIM_MRAM_BYTES (UINT32_C(64) << 20)
#define SIM_WRAM_BYTES UINT32_C(65536)
#define SIM_MRAM_ADDRESS UINT32_C(0x08000000)
#define SIM_MAX_TASKLETS 24
#define SIM_MAX_DPUS 4096
#define SIM_DEFAULT_RANKS 64                 /* what DPU_ALLOCATE_ALL gives */
#define SIM_ANY_RANKS UINT32_MAX             /* as many as are asked for */
#define SIM_POISON (DPUSIM_UNWRITTEN & 0xff) /* each byte of memory that nobody wrote, in strict mode */
#define SIM_LOG_BYTES (UINT32_C(1) << 20)
#define SIM_TEXT 512
#define SIM_NULL_WORD 8       /* WRAM's first word is reserved */
#define SIM_JOB_LAUNCH_RANK 1 /* job types in asynchronous errors */
#define SIM_JOB_COPY 5
#define SIM_DMA_MAX UINT32_C(2048)
#define SIM_LARGE_PAGE (UINT32_C(2) << 20)
/* No access on both sides of MRAM, WRAM and each stack: a stray pointer of up to that distance
 * is a fault of the DPU and touches nothing of the host. */
#define SIM_GUARD_BYTES (UINT32_C(16) << 20)

/* Faults on purpose (inject.c). */
#define SIM_INJECTIONS 8
enum sim_injection_kind { SIM_FAULT, SIM_HANG, SIM_FLIP, SIM_WRONG };
struct sim_injection {
    enum sim_injection_kind kind;
    uint32_t dpu;
    uint64_t launch;   /* of that DPU since it was allocated, from 1 */
    bool always;       /* and in every later one */
    uint32_t from, to; /* SIM_FLIP: bytes of MRAM from the heap on; to 0: what the host has written */
};
struct sim_injections {
    uint32_t count;
    struct sim_injection one[SIM_INJECTIONS];
};

struct sim_profile {
    bool strict;
    bool threads;          /* tasklets as threads, for any program */
    uint32_t rank_size;    /* DPUs of a rank */
    uint64_t disabled;     /* DPUs missing in the first rank */
    uint32_t tasklets;     /* 0: the program's NR_TASKLETS */
    uint32_t chip_threads; /* tasklets that a DPU has */
    uint32_t chip_wram;    /* bytes */
    uint32_t sg_blocks;    /* of a DPU in one scatter/gather transfer; 0: not activated */
    uint32_t workers;      /* 0: one for each CPU */
    uint32_t time_out_ms;  /* of one DPU's run; 0: none */
    uint32_t ranks;        /* of the machine, or SIM_ANY_RANKS */
    struct sim_injections injections;
    uint64_t seed;
};

struct dpu_rank_t {
    struct sim *sim;
    uint32_t first, count; /* DPUs */
};

struct dpu_t {
    struct sim *sim;
    struct dpu_rank_t *rank;
    uint32_t index;  /* in the set */
    uint32_t worker; /* that runs it */
    struct dpu_program_t *program;
    struct dpusim_launch_record record; /* of its last launch */
    uint8_t *mapping;                   /* guard, MRAM, guard, WRAM, guard */
    uint8_t *mram;                      /* while a job of the DPU runs, perhaps elsewhere: run->mram */
    uint8_t *parking;                   /* or MRAM has moved to a mapping of its own */
    uint8_t *wram;                      /* only the heap part is used */
    uint32_t heap;                      /* WRAM offset of the next mem_alloc */
    uint8_t *image; /* its variables: the instance's writable parts, one after the other */
    char *log;
    size_t log_bytes; /* printed in the last run, kept or not */
    uint64_t counter_base;
    uint64_t launches;
    uint32_t mram_used;      /* the end of what the host has written to MRAM */
    void *buffer;            /* dpu_prepare_xfer's */
    dpu_error_t fault;       /* sticky until the next load */
    dpu_error_t async_error; /* of the first asynchronous job that failed since dpu_sync */
    uint32_t pending;        /* jobs queued */
};

/* One worker's copy of a program. Those of the drop-in compiler lie below 4 GB, with a window where
 * the MRAM of the running DPU is, and a WRAM: programs keep pointers in 32 bits. */
struct instance {
    void *handle; /* of dlopen; NULL: image.c loaded it */
    int fd;       /* of the memory file: stays open, as dlopen knows files by name */
    char *path;   /* of the temporary file, for sanitized programs */
    struct dpusim_program *program;
    int (*main)(void);
    uintptr_t bias;      /* address in memory less address in the file */
    uintptr_t low, high; /* all of it */
    struct {
        uint8_t *start;
        size_t bytes;
    } data[3];         /* the writable parts that a DPU has its own of */
    uint8_t *reserved; /* what is below 4 GB */
    size_t reserved_bytes;
    uint8_t *window, *wram; /* NULL: the program sees the DPU's own mappings */
};

struct dpu_program_t {
    struct dpu_program_t *next;
    struct sim *sim;
    uint32_t users; /* DPUs */
    uint32_t count;
    /* what it was built for; not read from a copy, which a worker may be about to change */
    uint32_t nr_tasklets, wram_bytes, stack_size[DPUSIM_THREADS];
    bool linked, stdio;
    uint32_t log_bytes;    /* what its log holds */
    uint32_t static_bytes; /* of WRAM */
    uint32_t mram_bytes;   /* of __mram variables, and the log's buffer */
    uint32_t mram_initial; /* of these, from the file, at mram_offset */
    uint64_t mram_offset;
    uint64_t host_offset; /* of __host variables in a DPU's image */
    uint8_t *file;
    size_t file_bytes;
    struct instance instances[];
};

struct sim_link {
    struct sim_link *next;
    struct job *job;
};

struct job {
    enum job_kind { JOB_LAUNCH, JOB_TO_DPU, JOB_FROM_DPU, JOB_CALLBACK } kind;
    bool asynchronous;
    bool detached; /* a callback that later jobs don't wait for */
    bool in_mram;
    uint32_t offset;
    size_t length;
    const void *source;    /* broadcast: the same for all DPUs */
    void **buffers;        /* or one a DPU; NULL: skip it */
    struct gather *gather; /* or blocks */
    struct call_back *call_back;
    struct dpu_t **dpus;
    uint32_t count;
    uint32_t remaining;         /* workers */
    uint32_t involved, arrived; /* workers of a callback, and those that got there */
    bool called;
    bool done;
    dpu_error_t error; /* the first */
    struct sim_link links[];
};

struct worker {
    struct sim *sim;
    uint32_t index;
    pthread_t thread;
    struct sim_link *first, **last;
    struct run *run;
};

struct sim {
    struct sim *next;
    pid_t owner; /* a fork has its memory, but not its workers */
    struct dpu_set_t set;
    struct sim_profile profile;
    struct dpu_rank_t *ranks;
    struct dpu_rank_t **rank_list;
    struct dpu_t *dpus;
    uint32_t nr_ranks, nr_dpus;
    struct dpu_program_t *programs;
    pthread_mutex_t lock; /* queues, jobs, pending, error text */
    pthread_cond_t wake, finished;
    bool stop;
    uint32_t nr_workers;
    struct worker *workers;
    uint32_t detached; /* callbacks under way */
    int poison;        /* a memory file that fresh MRAM shows in strict mode, or -1 */
    char error[SIM_TEXT];
    struct dpusim_transfer_record *transfers; /* under the lock */
    uint32_t transfer_count, transfer_room;
};

/* error.c */
#define SIM_PRINTF(at, first) __attribute__((format(printf, at, first)))
dpu_error_t sim_fail(struct sim *sim, dpu_error_t error, const char *format, ...) SIM_PRINTF(3, 4);
/* Under sim->lock. */
void sim_note(struct sim *sim, const char *text);
/* For calls without a set. */
dpu_error_t sim_fail_no_set(dpu_error_t error, const char *format, ...) SIM_PRINTF(2, 3);

/* Who is told of each error as it happens. */
void sim_tell(void (*report)(const char *line));

/* inject.c. False: not understood. */
bool sim_inject_read(const char *text, struct sim_injections *out);

/* profile.c. Out: INVALID_PROFILE or ALLOCATION with a text, *out unchanged. */
dpu_error_t sim_profile_read(const char *profile, struct sim_profile *out);

/* api.c: the set's simulator, if it can take part in a call: else INVALID_DPU_SET, or SYSTEM in
 * another process than the one that opened it. Nobody takes the locks of a fork's set. */
dpu_error_t sim_enter(const struct dpu_set_t *set, const char *call, struct sim **sim);
bool sim_is_foreign(const struct sim *sim);
dpu_error_t sim_fail_foreign(const char *call);
/* The set's simulator, or NULL; its DPUs. */
struct sim *sim_of_set(const struct dpu_set_t *set);
uint32_t sim_count_dpus(const struct dpu_set_t *set);
struct dpu_t *sim_dpu_of_set(const struct dpu_set_t *set, uint32_t i);

/* The pieces that MRAM is mapped in. */
uint32_t sim_mram_step(const struct sim *sim);
/* A reservation without access; NULL: none. */
uint8_t *sim_reserve(void *at, size_t bytes);

/* program.c */
void sim_program_release(struct dpu_t *dpu);
dpu_error_t sim_symbol(struct dpu_program_t *program, const char *name, struct dpu_symbol_t *symbol);
uint32_t sim_section_bytes(struct dpusim_range range);
/* Where the heap starts with that many tasklets, and where WRAM ends. */
uint32_t sim_heap_start(const struct dpu_program_t *program, uint32_t tasklets);
uint32_t sim_wram_bytes(const struct dpu_program_t *program);
uint32_t sim_tasklets(const struct dpu_t *dpu);
/* The instance's writable parts from, or to, a DPU's image. */
size_t sim_data_bytes(const struct instance *instance);
void sim_data_copy(const struct instance *instance, uint8_t *image, bool in);

/* where.c: the line of an address, "file.c:12", and its function; "" where they are unknown. */
struct sim_place {
    char file[160], function[96];
    uint32_t line;
};
void sim_where(const struct dpu_program_t *program, const struct instance *instance, uintptr_t pc,
               struct sim_place *place);

/* pool.c */
dpu_error_t sim_pool_start(struct sim *sim);
void sim_pool_stop(struct sim *sim);
/* A job over the DPUs of a set, or NULL where memory is short. */
struct job *sim_job_new(const struct dpu_set_t *set, enum job_kind kind, bool with_buffers);
void sim_job_free(struct job *job);
/* Until no job of the set is pending, nor any callback that others don't wait for. */
void sim_wait_all(struct sim *sim, const struct dpu_set_t *set);
/* Takes the job of that set. Synchronous ones return its error. */
dpu_error_t sim_job_submit(struct sim *sim, struct job *job, const struct dpu_set_t *set);
/* Until no job of the set is pending. */
void sim_wait(struct sim *sim, const struct dpu_set_t *set);

/* transfer.c: one DPU's share of a job. */
dpu_error_t sim_transfer_one(const struct job *job, uint32_t i);
/* record.c: under sim->lock. Out: SYSTEM where memory is short. */
dpu_error_t sim_record_transfer(struct sim *sim, struct dpusim_transfer_record transfer);
/* Adds a DMA of n bytes, 8 to 2048. */
void sim_record_dma(struct dpusim_dma_record *record, uint32_t n);

/* The same where blocks are gathered. */
dpu_error_t sim_gather_one(const struct job *job, uint32_t i);
struct gather {
    get_block_t block;
    dpu_sg_xfer_flags_t flags;
    _Alignas(max_align_t) uint8_t args[];
};

/* callback.c */
struct call_back {
    dpu_error_t (*function)(struct dpu_set_t, uint32_t, void *);
    void *args;
    struct dpu_set_t set;
    uint32_t index;
};
dpu_error_t sim_call_back(const struct job *job);
/* On a thread of its own, which takes the job. False: there is none. */
bool sim_call_back_detached(struct sim *sim, struct job *job);
/* Is the calling thread in a callback that holds all DPUs of the set? */
bool sim_holds(const struct dpu_set_t *set);

/* tasklet.c. Boots and runs one DPU on the calling worker. */
struct run *sim_run_new(void);
void sim_run_free(struct run *run);
dpu_error_t sim_run(struct run *run, struct dpu_t *dpu);

/* runtime.c */
extern const struct dpusim_ops sim_ops;

#endif
