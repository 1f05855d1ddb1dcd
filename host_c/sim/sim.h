/* Inside the simulator. One `struct sim` is what one dpu_alloc made; nothing is shared
 * between two of them but the process's signal handlers (signals.c).
 *
 *   api.c       sets, memory of DPUs, queries          transfer.c  copies and pushes
 *   program.c   loading, symbols                        pool.c      workers and their queues
 *   tasklet.c   the scheduler of one DPU's tasklets     runtime.c   what programs call
 *   fibre.c     switching stacks                        error.c     texts
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
#define SIM_DEFAULT_RANKS 64 /* what DPU_ALLOCATE_ALL gives */
#define SIM_LOG_BYTES (UINT32_C(1) << 20)
#define SIM_TEXT 512
#define SIM_NULL_WORD 8       /* WRAM's first word is reserved */
#define SIM_JOB_LAUNCH_RANK 1 /* job types in asynchronous errors */
#define SIM_JOB_COPY 5
#define SIM_DMA_MAX UINT32_C(2048)
/* No access on both sides of MRAM, WRAM and each stack: a stray pointer of up to that distance
 * is a fault of the DPU and touches nothing of the host. */
#define SIM_GUARD_BYTES (UINT32_C(16) << 20)

struct sim_profile {
    bool strict;
    bool threads;         /* tasklets as threads, for any program */
    uint32_t rank_size;   /* DPUs of a rank */
    uint64_t disabled;    /* DPUs missing in the first rank */
    uint32_t tasklets;    /* 0: the program's NR_TASKLETS */
    uint32_t workers;     /* 0: one for each CPU */
    uint32_t time_out_ms; /* of one DPU's run; 0: none */
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
    uint8_t *mapping; /* guard, MRAM, guard, WRAM, guard */
    uint8_t *mram;
    uint8_t *wram; /* only the heap part is used */
    uint32_t heap; /* WRAM offset of the next mem_alloc */
    uint8_t *host_image, *wram_image;
    char *log;
    size_t log_bytes; /* printed in the last run, kept or not */
    uint64_t counter_base;
    uint64_t launches;
    void *buffer;            /* dpu_prepare_xfer's */
    dpu_error_t fault;       /* sticky until the next load */
    dpu_error_t async_error; /* of the first asynchronous job that failed since dpu_sync */
    uint32_t pending;        /* jobs queued */
};

/* One worker's copy of a program. */
struct instance {
    void *handle;
    int fd;     /* of the memory file: stays open, as dlopen knows files by name */
    char *path; /* of the temporary file, for sanitized programs */
    struct dpusim_program *program;
    int (*main)(void);
    uintptr_t low, high; /* the writable image */
};

struct dpu_program_t {
    struct dpu_program_t *next;
    struct sim *sim;
    uint32_t users; /* DPUs */
    uint32_t count;
    bool stdio;
    uint8_t *file;
    size_t file_bytes;
    struct instance instances[];
};

struct sim_link {
    struct sim_link *next;
    struct job *job;
};

struct job {
    enum job_kind { JOB_LAUNCH, JOB_TO_DPU, JOB_FROM_DPU } kind;
    bool asynchronous;
    bool in_mram;
    uint32_t offset;
    size_t length;
    const void *source; /* broadcast: the same for all DPUs */
    void **buffers;     /* or one a DPU; NULL: skip it */
    struct dpu_t **dpus;
    uint32_t count;
    uint32_t remaining; /* workers */
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
    int poison; /* a memory file that fresh MRAM shows in strict mode, or -1 */
    char error[SIM_TEXT];
};

/* error.c */
#define SIM_PRINTF(at, first) __attribute__((format(printf, at, first)))
dpu_error_t sim_fail(struct sim *sim, dpu_error_t error, const char *format, ...) SIM_PRINTF(3, 4);
/* Under sim->lock. */
void sim_note(struct sim *sim, const char *text);
/* For calls without a set. */
dpu_error_t sim_fail_no_set(dpu_error_t error, const char *format, ...) SIM_PRINTF(2, 3);

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

/* program.c */
void sim_program_release(struct dpu_t *dpu);
dpu_error_t sim_symbol(struct dpu_program_t *program, const char *name, struct dpu_symbol_t *symbol);
uint32_t sim_section_bytes(struct dpusim_range range);
/* Where the heap starts with that many tasklets, and where MRAM's. */
uint32_t sim_heap_start(const struct instance *instance, uint32_t tasklets, bool strict);
uint32_t sim_mram_start(const struct instance *instance);
uint32_t sim_tasklets(const struct dpu_t *dpu);

/* pool.c */
dpu_error_t sim_pool_start(struct sim *sim);
void sim_pool_stop(struct sim *sim);
/* A job over the DPUs of a set, or NULL where memory is short. */
struct job *sim_job_new(const struct dpu_set_t *set, enum job_kind kind, bool with_buffers);
void sim_job_free(struct job *job);
/* Takes the job. Synchronous ones return its error. */
dpu_error_t sim_job_submit(struct sim *sim, struct job *job);
/* Until no job of the set is pending. */
void sim_wait(struct sim *sim, const struct dpu_set_t *set);
void sim_transfer_one(const struct job *job, struct dpu_t *dpu, void *buffer);

/* tasklet.c. Boots and runs one DPU on the calling worker. */
struct run *sim_run_new(void);
void sim_run_free(struct run *run);
dpu_error_t sim_run(struct run *run, struct dpu_t *dpu);

/* runtime.c */
extern const struct dpusim_ops sim_ops;

#endif
