/* The tasklets of one DPU while they run: shared by the scheduler (tasklet.c), the run time
 * (runtime.c) and the signal handlers (signals.c).
 *
 * Fibres: all tasklets of a DPU are stacks of one worker thread, one runs at a time, and
 * sync_enter / sync_leave cost nothing. Threads (sanitized programs): each is a thread; an
 * object's state is guarded by the lock that its address hashes to, so that no order is
 * made between tasklets that use different objects. */
#ifndef DPUSIM_RUN_H
#define DPUSIM_RUN_H

#include "fibre.h"
#include "sim.h"

#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>

enum tasklet_state { TASKLET_READY, TASKLET_BLOCKED, TASKLET_DONE };
enum wait_kind { WAIT_BARRIER, WAIT_MUTEX, WAIT_SEMAPHORE, WAIT_HANDSHAKE };

struct tasklet {
    struct run *run;
    uint32_t id;
    enum tasklet_state state;
    /* where it waits */
    const void *object;
    enum wait_kind wait;
    struct tasklet *next; /* that waits in the same bucket, longest first */
    const char *file;
    uint32_t line;
    uintptr_t pc; /* of its last tick */
    /* handshakes: others that wait for it; it waits for one */
    bool notifying;
    struct tasklet *waiter;
    struct fibre fibre;
    uintptr_t stack_top, stack_limit;
    /* threads only */
    pthread_t thread;
    sem_t woken;
    jmp_buf end;
};

#define SIM_BUCKETS 64
/* The most basic blocks between two switches: of our own programs, where a switch costs what caches hold, and
 * of those of the drop-in compiler. */
#define SIM_STRICT_FUEL 2047
#define SIM_STRICT_LINKED_FUEL 255
#define SIM_FAITHFUL_FUEL (UINT32_C(1) << 20) /* between two looks at the clock */
#define SIM_IN_STEP_FUEL 256
#define SIM_RAW_MUTEXES 256

struct bucket {
    pthread_mutex_t mutex;
    struct tasklet *waiting;
};

struct run {
    struct dpu_t *dpu;
    const struct instance *instance;
    struct tasklet tasklets[SIM_MAX_TASKLETS];
    uint32_t count;
    bool strict, threads, in_step;
    struct dpusim_launch_record record;
    uint32_t fuel;  /* basic blocks between two switches; strict: at most */
    uint32_t ready; /* fibres: bit i for tasklet i */
    uint64_t random;
    uint64_t deadline; /* nanoseconds, or 0 */
    uint32_t heap_start, wram_bytes;
    uint8_t *mram, *wram;                 /* as the program sees them */
    uint8_t raw_mutexes[SIM_RAW_MUTEXES]; /* a program may name the hardware's by number */
    struct fibre scheduler;

    /* A tasklet asks the scheduler to call this on the host's stack. */
    void (*request)(struct run *run, void *argument);
    void *request_argument;

    /* A signal stopped the running tasklet. */
    int signal;
    uintptr_t signal_address, signal_pc, signal_caller;

    /* inject.c: of the writes to MRAM, how many there were, and one of them (offset << 32 | bytes) */
    bool watched;
    atomic_uint_fast64_t writes, written;

    atomic_int error; /* the first fault's dpu_error_t; DPU_OK while all is well */
    atomic_uint idle; /* threads: tasklets blocked or done */
    atomic_bool stuck;
    char text[SIM_TEXT]; /* of the first fault */
    struct bucket buckets[SIM_BUCKETS];
};

/* The calling tasklet. */
extern _Thread_local struct tasklet *sim_self;

uint64_t sim_now(void); /* nanoseconds */
uint64_t sim_random(struct run *run);

/* Basic blocks until the next tick. */
uint32_t sim_next_fuel(struct run *run);

/* Perhaps lets another tasklet run. */
void sim_yield(struct tasklet *self);

void sync_enter(struct run *run, const void *object);
void sync_leave(struct run *run, const void *object);
/* In the place of leave; returns when another tasklet woke this one, without the object's lock. */
void sync_wait(struct tasklet *self, const void *object, enum wait_kind wait, const char *file,
               uint32_t line);
/* The tasklet that waits longest, or NULL. */
struct tasklet *sync_first(struct run *run, const void *object);
/* Wakes that one, or for NULL all. */
void sync_wake(struct run *run, const void *object, const struct tasklet *only);

/* Ends the run. text: what, without place. */
_Noreturn void sim_fault(struct tasklet *self, dpu_error_t error, const char *file, uint32_t line,
                         const char *format, ...) SIM_PRINTF(5, 6);
/* The same for a place that is an address of the program. */
_Noreturn void sim_fault_pc(struct tasklet *self, dpu_error_t error, uintptr_t pc, const char *format, ...)
    SIM_PRINTF(4, 5);
void sim_on_host_stack(struct run *run, void (*call)(struct run *, void *), void *argument);
/* Leaves the tasklet for good. */
_Noreturn void sim_tasklet_end(struct tasklet *self);

/* inject.c, in a run's order. hang: true where the run shall never have ended, once its time is over; fault:
 * where it shall end in a fault. */
void sim_inject_boot(struct run *run);
bool sim_inject_hang(struct run *run);
void sim_inject_write(struct run *run, uintptr_t mram, uint32_t bytes); /* where run->watched */
void sim_inject_end(struct run *run);
bool sim_inject_fault(const struct run *run);

/* print.c: a DPU's printf. Out: the length, or -1. */
int sim_format(char *out, size_t room, const char *format, va_list args);

/* signals.c: handlers are installed while any run is under way. */
void sim_signals_hold(void);
void sim_signals_release(void);
/* Around a fork. */
void sim_signals_lock(void);
void sim_signals_unlock(void);
/* An alternate stack for the calling thread, which ends without giving it up; NULL: none. */
void *sim_signals_stack(void);
void sim_signals_stack_free(void *stack);

#endif
