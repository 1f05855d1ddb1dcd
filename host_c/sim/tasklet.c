/* One DPU's run: its sections in, its tasklets scheduled, its sections out. */
#define _GNU_SOURCE
#include "run.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define FAITHFUL_STACK (size_t)(256 << 10)
/* A native frame is larger than the DPU's; a strict stack has that many times the DPU's bytes. */
#define STRICT_STACK_FACTOR 4
#define STRICT_STACK_LEAST (size_t)8192
/* Where basic blocks are counted, a frame is seen: twice the DPU's bytes is more than its frames would take.
 */
#define STRICT_FRAME_FACTOR 2
#define CLOCK_EVERY 64 /* switches */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

_Thread_local struct tasklet *sim_self;

uint64_t sim_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* xorshift64* (Vigna): schedules need no more. In threads every tasklet draws from its own clock. */
uint64_t sim_random(struct run *run) {
    uint64_t x = run->threads ? sim_now() | 1 : run->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    if (!run->threads)
        run->random = x;
    return x * UINT64_C(0x2545F4914F6CDD1D);
}

uint32_t sim_next_fuel(struct run *run) {
    return run->strict ? 1 + (uint32_t)(sim_random(run) >> 32) % run->fuel : run->fuel;
}

struct run *sim_run_new(void) {
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return NULL;
    for (uint32_t i = 0; i < SIM_BUCKETS; i++)
        pthread_mutex_init(&run->buckets[i].mutex, NULL);
    for (uint32_t i = 0; i < SIM_MAX_TASKLETS; i++) {
        run->tasklets[i] = (struct tasklet){.run = run, .id = i};
        if (fibre_map(&run->tasklets[i].fibre, FAITHFUL_STACK, SIM_GUARD_BYTES) != 0) {
            sim_run_free(run);
            return NULL;
        }
    }
    return run;
}

void sim_run_free(struct run *run) {
    if (run == NULL)
        return;
    for (uint32_t i = 0; i < SIM_BUCKETS; i++)
        pthread_mutex_destroy(&run->buckets[i].mutex);
    for (uint32_t i = 0; i < SIM_MAX_TASKLETS; i++)
        fibre_unmap(&run->tasklets[i].fibre, SIM_GUARD_BYTES);
    free(run);
}

/* -- objects that tasklets wait for ------------------------------------------------- */

static struct bucket *bucket_of(struct run *run, const void *object) {
    return &run->buckets[((uintptr_t)object >> 2) * UINT32_C(2654435761) >> 7 & (SIM_BUCKETS - 1)];
}

void sync_enter(struct run *run, const void *object) {
    if (run->threads)
        pthread_mutex_lock(&bucket_of(run, object)->mutex);
}

void sync_leave(struct run *run, const void *object) {
    if (run->threads)
        pthread_mutex_unlock(&bucket_of(run, object)->mutex);
}

/* Threads: nothing can run any more, or shall. */
static void release_all(struct run *run) {
    for (uint32_t i = 0; i < run->count; i++)
        sem_post(&run->tasklets[i].woken);
}

static bool given_up(struct run *run) {
    return atomic_load_explicit(&run->stuck, memory_order_relaxed) ||
           atomic_load_explicit(&run->error, memory_order_relaxed) != DPU_OK;
}

/* Threads: one tasklet less runs. True where it was the last. */
static bool last_to_rest(struct run *run) {
    if (atomic_fetch_add_explicit(&run->idle, 1, memory_order_relaxed) + 1 != run->count)
        return false;
    atomic_store_explicit(&run->stuck, true, memory_order_relaxed);
    return true;
}

static void to_scheduler(struct tasklet *self) {
    fibre_switch(&self->fibre, &self->run->scheduler);
}

void sync_wait(struct tasklet *self, const void *object, enum wait_kind wait, const char *file,
               uint32_t line) {
    struct run *run = self->run;
    struct bucket *bucket = bucket_of(run, object);
    struct tasklet **at = &bucket->waiting;
    while (*at != NULL)
        at = &(*at)->next;
    *at = self;
    self->next = NULL;
    self->state = TASKLET_BLOCKED;
    self->object = object;
    self->wait = wait;
    self->file = file;
    self->line = line;
    if (!run->threads) {
        run->ready &= ~(UINT32_C(1) << self->id);
        to_scheduler(self);
        return;
    }
    /* Its own semaphore, and not the bucket's lock again: that would order it after whatever
     * other tasklets did before they came back to this object. */
    bool last = last_to_rest(run);
    pthread_mutex_unlock(&bucket->mutex);
    if (last)
        release_all(run);
    do {
        while (sem_wait(&self->woken) != 0) {
        }
        if (given_up(run))
            sim_tasklet_end(self);
    } while (self->state == TASKLET_BLOCKED);
}

struct tasklet *sync_first(struct run *run, const void *object) {
    struct tasklet *tasklet = bucket_of(run, object)->waiting;
    while (tasklet != NULL && tasklet->object != object)
        tasklet = tasklet->next;
    return tasklet;
}

void sync_wake(struct run *run, const void *object, const struct tasklet *only) {
    struct bucket *bucket = bucket_of(run, object);
    for (struct tasklet **at = &bucket->waiting; *at != NULL;) {
        struct tasklet *tasklet = *at;
        if (tasklet->object != object || (only != NULL && tasklet != only)) {
            at = &tasklet->next;
            continue;
        }
        *at = tasklet->next;
        tasklet->state = TASKLET_READY;
        if (run->threads) {
            atomic_fetch_sub_explicit(&run->idle, 1, memory_order_relaxed);
            sem_post(&tasklet->woken);
        } else {
            run->ready |= UINT32_C(1) << tasklet->id;
        }
    }
}

/* -- a tasklet's way out ------------------------------------------------------------- */

void sim_tasklet_end(struct tasklet *self) {
    if (self->run->threads)
        longjmp(self->end, 1);
    self->run->ready &= ~(UINT32_C(1) << self->id);
    for (;;)
        to_scheduler(self);
}

void sim_yield(struct tasklet *self) {
    struct run *run = self->run;
    if (run->threads) {
        if (given_up(run))
            sim_tasklet_end(self);
        if (run->deadline != 0 && sim_now() > run->deadline)
            sim_fault_pc(self, DPU_ERR_TIMEOUT, self->pc, "no end after %u ms",
                         run->dpu->sim->profile.time_out_ms);
        if (run->strict && (sim_random(run) >> 60) == 0)
            sched_yield();
        return;
    }
    to_scheduler(self);
}

void sim_on_host_stack(struct run *run, void (*call)(struct run *, void *), void *argument) {
    if (run->threads) {
        call(run, argument);
        return;
    }
    run->request = call;
    run->request_argument = argument;
    to_scheduler(sim_self);
}

/* Keeps the run's first fault. */
static void fail_run(struct run *run, dpu_error_t error, const struct tasklet *tasklet, const char *file,
                     uint32_t line, const char *what) {
    int none = DPU_OK;
    if (!atomic_compare_exchange_strong(&run->error, &none, (int)error))
        return;
    char place[160] = "", by[32] = "", seed[40] = "";
    if (file != NULL && *file != '\0')
        snprintf(place, sizeof place, "%s:%u: ", file, line);
    if (tasklet != NULL)
        snprintf(by, sizeof by, " tasklet %u", tasklet->id);
    if (run->strict)
        snprintf(seed, sizeof seed, " (seed %llu)", (unsigned long long)run->dpu->sim->profile.seed);
    snprintf(run->text, sizeof run->text, "%sDPU %u%s: %s%s", place, run->dpu->index, by, what, seed);
}

/* The same for an address of the program. */
static void fail_run_at(struct run *run, dpu_error_t error, const struct tasklet *tasklet, uintptr_t pc,
                        const char *what) {
    struct sim_place place;
    char text[400];
    if (atomic_load(&run->error) != DPU_OK)
        return;
    sim_where(run->dpu->program, run->instance, pc, &place);
    if (place.function[0] != '\0')
        snprintf(text, sizeof text, "%s, in %s", what, place.function);
    else
        snprintf(text, sizeof text, "%s", what);
    fail_run(run, error, tasklet, place.file, place.line, text);
}

struct fault {
    struct tasklet *tasklet;
    dpu_error_t error;
    const char *file;
    uint32_t line;
    uintptr_t pc;
    const char *format;
    va_list args;
};

static void record_fault(struct run *run, void *argument) {
    struct fault *fault = argument;
    char what[256];
    vsnprintf(what, sizeof what, fault->format, fault->args);
    if (fault->pc != 0)
        fail_run_at(run, fault->error, fault->tasklet, fault->pc, what);
    else
        fail_run(run, fault->error, fault->tasklet, fault->file, fault->line, what);
}

static _Noreturn void raise_fault(struct fault *fault) {
    struct tasklet *self = fault->tasklet;
    sim_on_host_stack(self->run, record_fault, fault);
    if (self->run->threads)
        release_all(self->run);
    sim_tasklet_end(self);
}

void sim_fault(struct tasklet *self, dpu_error_t error, const char *file, uint32_t line, const char *format,
               ...) {
    struct fault fault = {.tasklet = self, .error = error, .file = file, .line = line, .format = format};
    va_start(fault.args, format);
    raise_fault(&fault);
}

void sim_fault_pc(struct tasklet *self, dpu_error_t error, uintptr_t pc, const char *format, ...) {
    struct fault fault = {.tasklet = self, .error = error, .pc = pc, .format = format};
    va_start(fault.args, format);
    raise_fault(&fault);
}

/* -- fibres --------------------------------------------------------------------------- */

static void fibre_main(void) {
    struct tasklet *self = sim_self;
    self->run->instance->main();
    self->state = TASKLET_DONE;
    sim_tasklet_end(self);
}

static struct tasklet *pick(struct run *run, uint32_t last) {
    uint32_t ready = run->ready;
    if (run->strict) {
        uint32_t skip = (uint32_t)((sim_random(run) >> 32) * (uint32_t)__builtin_popcount(ready) >> 32);
        while (skip-- != 0)
            ready &= ready - 1;
    } else if ((ready & ~(((UINT32_C(1) << last) << 1) - 1)) != 0) {
        ready &= ~(((UINT32_C(1) << last) << 1) - 1); /* the next one after the last, round and round */
    }
    return &run->tasklets[__builtin_ctz(ready)];
}

static void record_signal(struct run *run, const struct tasklet *tasklet) {
    const char *what = "access to an address outside its memories";
    uintptr_t at = run->signal_address;
    dpu_error_t error = DPU_ERR_DPU_FAULT;
    if (run->signal == SIGFPE)
        what = "division by zero";
    else if (run->signal == SIGILL || run->signal == SIGTRAP)
        what = "trap (a check of the program failed)";
    else if (at >= (uintptr_t)tasklet->fibre.low &&
             at < (uintptr_t)tasklet->fibre.low + tasklet->fibre.guarded)
        what = "stack overflow";
    else if (at >= (uintptr_t)run->wram + SIM_WRAM_BYTES &&
             at < (uintptr_t)run->wram + SIM_WRAM_BYTES + SIM_GUARD_BYTES)
        what = "access beyond WRAM";
    else if (at < 4096)
        what = "access through a null pointer";
    const struct instance *instance = run->instance;
    Dl_info info;
    char text[256];
    if (run->signal_pc >= instance->low && run->signal_pc < instance->high)
        snprintf(text, sizeof text, "%s, at program+0x%zx", what, (size_t)(run->signal_pc - instance->bias));
    else if (dladdr((void *)run->signal_pc, &info) != 0 && info.dli_sname != NULL)
        snprintf(text, sizeof text, "%s, in %s", what, info.dli_sname);
    else
        snprintf(text, sizeof text, "%s", what);
    fail_run_at(run, error, tasklet,
                run->signal_pc >= instance->low && run->signal_pc < instance->high ? run->signal_pc
                                                                                   : run->signal_caller,
                text);
    run->signal = 0;
}

/* The stacks' guards, and how deep a frame may lie. */
static bool limit_stacks(struct run *run) {
    const struct dpusim_program *program = run->instance->program;
    for (uint32_t i = 0; i < run->count; i++) {
        struct tasklet *tasklet = &run->tasklets[i];
        size_t stack = FAITHFUL_STACK, own = program->stack_size[i];
        if (run->strict) {
            stack = own * STRICT_STACK_FACTOR;
            stack = stack < STRICT_STACK_LEAST ? STRICT_STACK_LEAST
                    : stack > FAITHFUL_STACK   ? FAITHFUL_STACK
                                               : stack;
        }
        if (fibre_limit(&tasklet->fibre, stack) != 0)
            return false;
        tasklet->stack_top = (uintptr_t)tasklet->fibre.low + tasklet->fibre.bytes;
        tasklet->stack_limit = run->strict ? tasklet->stack_top - own * STRICT_FRAME_FACTOR : 0;
        fibre_start(&tasklet->fibre, fibre_main);
    }
    return true;
}

static void run_fibres(struct run *run) {
    struct dpusim_program *program = run->instance->program;
    uint32_t last = run->count - 1, switches = 0;
    if (!limit_stacks(run)) {
        fail_run(run, DPU_ERR_SYSTEM, NULL, NULL, 0, "cannot guard the stacks");
        return;
    }
    run->ready = (UINT32_C(1) << run->count) - 1;
    while (run->ready != 0) {
        struct tasklet *tasklet = pick(run, last);
        last = tasklet->id;
        for (;;) {
            sim_self = tasklet;
            program->stack_limit = tasklet->stack_limit;
            if (program->fuel == 0) /* the last one stopped in its tick, this one perhaps not */
                program->fuel = sim_next_fuel(run);
            fibre_switch(&run->scheduler, &tasklet->fibre);
            sim_self = NULL;
            if (run->signal != 0)
                record_signal(run, tasklet);
            if (run->request == NULL)
                break;
            void (*call)(struct run *, void *) = run->request;
            run->request = NULL;
            call(run, run->request_argument);
            if (atomic_load(&run->error) != DPU_OK)
                break;
        }
        if (atomic_load(&run->error) != DPU_OK)
            return;
        if (run->deadline != 0 && ++switches % CLOCK_EVERY == 0 && sim_now() > run->deadline) {
            char what[64];
            snprintf(what, sizeof what, "no end after %u ms", run->dpu->sim->profile.time_out_ms);
            fail_run_at(run, DPU_ERR_TIMEOUT, tasklet, tasklet->pc, what);
        }
    }
}

/* -- threads -------------------------------------------------------------------------- */

static void *thread_main(void *argument) {
    struct tasklet *self = argument;
    struct run *run = self->run;
    sim_self = self;
    if (setjmp(self->end) == 0) {
        run->instance->main();
        self->state = TASKLET_DONE;
    }
    if (last_to_rest(run))
        release_all(run);
    return NULL;
}

static void run_threads(struct run *run) {
    uint32_t started = 0;
    for (uint32_t i = 0; i < run->count; i++)
        sem_init(&run->tasklets[i].woken, 0, 0);
    atomic_store(&run->idle, 0);
    atomic_store(&run->stuck, false);
    while (started < run->count &&
           pthread_create(&run->tasklets[started].thread, NULL, thread_main, &run->tasklets[started]) == 0)
        started++;
    if (started < run->count) {
        fail_run(run, DPU_ERR_SYSTEM, NULL, NULL, 0, "no threads for the tasklets");
        release_all(run);
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(run->tasklets[i].thread, NULL);
    for (uint32_t i = 0; i < run->count; i++)
        sem_destroy(&run->tasklets[i].woken);
}

/* -- a DPU ---------------------------------------------------------------------------- */

/* Tasklets that still wait when all others ended. The hardware calls that the end; a mutex
 * would spin for ever there. */
static void check_blocked(struct run *run) {
    char names[128] = "";
    const struct tasklet *first = NULL;
    bool spins = false;
    size_t length = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        const struct tasklet *tasklet = &run->tasklets[i];
        if (tasklet->state != TASKLET_BLOCKED)
            continue;
        spins |= tasklet->wait == WAIT_MUTEX;
        if (first == NULL || (first->wait != WAIT_MUTEX && tasklet->wait == WAIT_MUTEX))
            first = tasklet;
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%u", length == 0 ? "" : ", ", i);
    }
    if (first == NULL || (!spins && !run->strict))
        return;
    static const char *const kinds[] = {
        [WAIT_BARRIER] = "a barrier",
        [WAIT_MUTEX] = "a mutex",
        [WAIT_SEMAPHORE] = "a semaphore",
        [WAIT_HANDSHAKE] = "a handshake",
    };
    char what[256];
    snprintf(what, sizeof what, "tasklets %s are still blocked at the end, this one by %s", names,
             kinds[first->wait]);
    fail_run(run, spins ? DPU_ERR_TIMEOUT : DPU_ERR_DPU_FAULT, first, first->file, first->line, what);
}

static void copy_section(struct dpusim_range range, void *image, bool in) {
    size_t bytes = sim_section_bytes(range);
    if (bytes != 0)
        memcpy(in ? range.start : image, in ? image : range.start, bytes);
}

static bool move_pages(const struct sim *sim, uint8_t *from, uint8_t *to) {
    uint32_t step = sim_mram_step(sim);
    for (uint32_t at = 0; at < SIM_MRAM_BYTES; at += step)
        if (mremap(from + at, step, step, MREMAP_MAYMOVE | MREMAP_FIXED, to + at) == MAP_FAILED)
            return false;
    return true;
}

/* The DPU's memories to where the program sees them: MRAM's pages move to the window, a reservation takes
 * their place. */
static bool show_memories(struct run *run, struct dpu_t *dpu) {
    const struct instance *instance = run->instance;
    run->mram = instance->window == NULL ? dpu->mram : instance->window;
    run->wram = instance->wram == NULL ? dpu->wram : instance->wram;
    if (instance->window == NULL)
        return true;
    memcpy(run->wram, dpu->wram, SIM_WRAM_BYTES);
    if (!move_pages(dpu->sim, dpu->mram, run->mram))
        return false;
    /* Another thread may just have mapped something there; then the DPU gets another place. */
    if (sim_reserve(dpu->mram, SIM_MRAM_BYTES) == NULL)
        dpu->mram = NULL;
    return true;
}

static bool hide_memories(struct run *run, struct dpu_t *dpu) {
    if (run->instance->window == NULL)
        return true;
    memcpy(dpu->wram, run->wram, SIM_WRAM_BYTES);
    if (dpu->mram == NULL)
        dpu->mram = dpu->parking = sim_reserve(NULL, SIM_MRAM_BYTES);
    return dpu->mram != NULL && move_pages(dpu->sim, run->mram, dpu->mram) &&
           sim_reserve(run->mram, SIM_MRAM_BYTES) != NULL;
}

static bool swap_in(struct run *run, struct dpu_t *dpu) {
    const struct dpusim_program *program = run->instance->program;
    sim_data_copy(run->instance, dpu->image, true);
    uint32_t atomic_bytes = sim_section_bytes(program->atomic);
    if (atomic_bytes != 0)
        memset(program->atomic.start, 0, atomic_bytes);
    if (!show_memories(run, dpu))
        return false;
    if (run->instance->handle != NULL)
        copy_section(program->mram, run->mram, true);
    return true;
}

static bool swap_out(struct run *run, struct dpu_t *dpu) {
    sim_data_copy(run->instance, dpu->image, false);
    if (run->instance->handle != NULL)
        copy_section(run->instance->program->mram, run->mram, false);
    return hide_memories(run, dpu);
}

static void boot(struct run *run, struct dpu_t *dpu) {
    const struct sim_profile *profile = &dpu->sim->profile;
    run->dpu = dpu;
    run->instance = &dpu->program->instances[dpu->worker];
    run->count = sim_tasklets(dpu);
    run->strict = profile->strict;
    run->threads = profile->threads || SANITIZED || run->instance->program->sanitized;
    run->deadline = profile->time_out_ms == 0 ? 0 : sim_now() + (uint64_t)profile->time_out_ms * 1000000;
    run->in_step = run->instance->program->linked && !run->strict && !run->threads;
    if (run->strict)
        run->fuel = run->instance->program->linked ? SIM_STRICT_LINKED_FUEL : SIM_STRICT_FUEL;
    else
        run->fuel = run->in_step ? SIM_IN_STEP_FUEL : SIM_FAITHFUL_FUEL;
    run->heap_start = sim_heap_start(dpu->program, run->count);
    run->wram_bytes = sim_wram_bytes(dpu->program);
    memset(run->raw_mutexes, 0, sizeof run->raw_mutexes);
    run->random = (profile->seed + 1) * UINT64_C(0x9E3779B97F4A7C15) ^
                  ((uint64_t)dpu->index << 32 | (dpu->launches & UINT32_MAX));
    run->random += run->random == 0;
    run->request = NULL;
    run->signal = 0;
    run->record = (struct dpusim_launch_record){.launches = dpu->launches + 1, .tasklets = run->count};
    atomic_store(&run->error, DPU_OK);
    for (uint32_t i = 0; i < SIM_BUCKETS; i++)
        run->buckets[i].waiting = NULL;
    for (uint32_t i = 0; i < run->count; i++) {
        struct tasklet *tasklet = &run->tasklets[i];
        tasklet->state = TASKLET_READY;
        tasklet->notifying = false;
        tasklet->waiter = NULL;
        tasklet->pc = 0;
    }
    if (dpu->heap < run->heap_start)
        dpu->heap = run->heap_start;
    dpu->launches++;
    dpu->log_bytes = 0;
    sim_inject_boot(run);
}

/* The run's error, which stays with its DPU. */
static dpu_error_t keep_fault(const struct run *run, struct dpu_t *dpu) {
    dpu_error_t error = (dpu_error_t)atomic_load(&run->error);
    if (error != DPU_OK) {
        pthread_mutex_lock(&dpu->sim->lock);
        dpu->fault = error;
        sim_note(dpu->sim, run->text);
        pthread_mutex_unlock(&dpu->sim->lock);
    }
    return error;
}

dpu_error_t sim_run(struct run *run, struct dpu_t *dpu) {
    if (dpu->fault != DPU_OK)
        return dpu->fault;
    boot(run, dpu);
    if (sim_inject_hang(run)) {
        fail_run(run, DPU_ERR_TIMEOUT, NULL, NULL, 0, "no end in time (injected)");
        return keep_fault(run, dpu);
    }
    struct dpusim_program *program = run->instance->program;
    bool whole = swap_in(run, dpu);
    program->fuel = sim_next_fuel(run);
    program->stack_limit = 0;
    if (whole && run->threads) {
        run_threads(run);
    } else if (whole) {
        sim_signals_hold();
        run_fibres(run);
        sim_signals_release();
    }
    whole = whole && swap_out(run, dpu);
    dpu->record = run->record;
    if (!whole)
        fail_run(run, DPU_ERR_SYSTEM, NULL, NULL, 0, "cannot map the memories");
    else
        sim_inject_end(run);
    if (atomic_load(&run->error) == DPU_OK)
        check_blocked(run);
    if (sim_inject_fault(run))
        fail_run(run, DPU_ERR_DPU_FAULT, NULL, NULL, 0, "fault (injected)");
    return keep_fault(run, dpu);
}
