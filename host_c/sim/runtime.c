/* What programs call: the functions behind host_c/sim/device. */
#define _GNU_SOURCE
#include "run.h"

#include <string.h>

#define EALREADY_ON_DPU 114

/* Strict: at every call of the run time another tasklet may be next. */
static void perhaps_switch(struct tasklet *self) {
    struct run *run = self->run;
    if (run->strict && (run->threads || sim_random(run) >> 63))
        sim_yield(self);
}

static uint32_t rt_me(void) {
    return sim_self->id;
}

static uintptr_t rt_mram_heap(void) {
    const struct run *run = sim_self->run;
    return (uintptr_t)run->dpu->mram + sim_mram_start(run->instance);
}

/* -- DMA ------------------------------------------------------------------------------ */

static bool inside(uintptr_t at, uint32_t n, uintptr_t low, uintptr_t bytes) {
    return at >= low && at - low <= bytes && n <= bytes - (at - low);
}

static bool in_wram(const struct tasklet *self, uintptr_t at, uint32_t n) {
    const struct run *run = self->run;
    uintptr_t wram = (uintptr_t)run->dpu->wram;
    if (inside(at, n, wram + run->heap_start, SIM_WRAM_BYTES - run->heap_start) ||
        inside(at, n, run->instance->low, run->instance->high - run->instance->low))
        return true;
    if (run->threads) /* stacks are the system's: a sanitizer knows them better */
        return !(at + n > wram && at <= wram + SIM_WRAM_BYTES) &&
               !inside(at, n, (uintptr_t)run->dpu->mram, SIM_MRAM_BYTES);
    const struct fibre *stack = &self->fibre;
    return inside(at, n, (uintptr_t)stack->low + stack->guarded, stack->bytes - stack->guarded);
}

static void check_dma(struct tasklet *self, uintptr_t mram, uintptr_t wram, uint32_t n, const char *what,
                      const char *file, uint32_t line) {
    if (n == 0 || n > SIM_DMA_MAX || n % 8 != 0)
        sim_fault(self, DPU_ERR_DPU_FAULT, file, line, "%s of %u bytes: not a multiple of 8 from 8 to 2048",
                  what, n);
    if (wram % 8 != 0)
        sim_fault(self, DPU_ERR_DPU_FAULT, file, line, "%s: the WRAM address is not a multiple of 8", what);
    if (mram % 8 != 0)
        sim_fault(self, DPU_ERR_DPU_FAULT, file, line, "%s: the MRAM address is not a multiple of 8", what);
    if (!in_wram(self, wram, n))
        sim_fault(self, DPU_ERR_DPU_FAULT, file, line, "%s of %u bytes: the buffer is not all in WRAM", what,
                  n);
}

static uint32_t rt_dma(uintptr_t *mram, uintptr_t *wram, uint32_t n, const char *what, const char *file,
                       uint32_t line) {
    struct tasklet *self = sim_self;
    const struct run *run = self->run;
    if (run->strict) {
        check_dma(self, *mram, *wram, n, what, file, line);
        perhaps_switch(self);
    }
    *mram &= ~(uintptr_t)7;
    *wram &= ~(uintptr_t)7;
    n = (((n >> 3) - 1) & 0xff) * 8 + 8;
    const struct dpusim_range own = run->instance->program->mram;
    if (!inside(*mram, n, (uintptr_t)run->dpu->mram, SIM_MRAM_BYTES) &&
        !inside(*mram, n, (uintptr_t)own.start, sim_section_bytes(own))) {
        intptr_t offset = (intptr_t)(*mram - (uintptr_t)run->dpu->mram);
        sim_fault(self, DPU_ERR_DPU_FAULT, file, line, "%s of %u bytes at MRAM offset %lld: outside MRAM",
                  what, n, (long long)offset);
    }
    return n;
}

/* -- WRAM ----------------------------------------------------------------------------- */

static void *rt_mem_alloc(size_t n, const char *file, uint32_t line) {
    struct tasklet *self = sim_self;
    struct dpu_t *dpu = self->run->dpu;
    uint32_t old = __atomic_load_n(&dpu->heap, __ATOMIC_RELAXED), at, end;
    do {
        at = (old + 7) & ~UINT32_C(7);
        if (n > SIM_WRAM_BYTES - at)
            sim_fault(self, DPU_ERR_DPU_FAULT, file, line, "mem_alloc of %zu bytes: %u of WRAM are left", n,
                      SIM_WRAM_BYTES - at);
        end = n == 0 ? old : at + (uint32_t)n;
    } while (!__atomic_compare_exchange_n(&dpu->heap, &old, end, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return dpu->wram + at;
}

static void *rt_mem_reset(void) {
    const struct run *run = sim_self->run;
    __atomic_store_n(&run->dpu->heap, run->heap_start, __ATOMIC_RELAXED);
    return run->dpu->wram + run->heap_start;
}

/* -- synchronisation ------------------------------------------------------------------- */

static void rt_barrier_wait(struct dpusim_barrier *barrier, const char *file, uint32_t line) {
    struct tasklet *self = sim_self;
    struct run *run = self->run;
    perhaps_switch(self);
    sync_enter(run, barrier);
    /* one for all of NR_TASKLETS is one for all that run */
    int spared = barrier->initial_count == (int8_t)run->instance->program->nr_tasklets
                     ? barrier->initial_count - (int)run->count
                     : 0;
    barrier->count--;
    if (barrier->count == spared) {
        barrier->count = barrier->initial_count;
        sync_wake(run, barrier, NULL);
        sync_leave(run, barrier);
    } else {
        sync_wait(self, barrier, WAIT_BARRIER, file, line);
    }
    perhaps_switch(self);
}

static void rt_mutex_lock(uint8_t *mutex, const char *file, uint32_t line) {
    struct tasklet *self = sim_self;
    perhaps_switch(self);
    sync_enter(self->run, mutex);
    while (*mutex != 0) {
        sync_wait(self, mutex, WAIT_MUTEX, file, line);
        sync_enter(self->run, mutex);
    }
    *mutex = 1;
    sync_leave(self->run, mutex);
}

static bool rt_mutex_trylock(uint8_t *mutex, const char *file, uint32_t line) {
    struct tasklet *self = sim_self;
    (void)file;
    (void)line;
    /* a loop around it must let the owner run */
    if (self->run->strict)
        perhaps_switch(self);
    else
        sim_yield(self);
    sync_enter(self->run, mutex);
    bool got = *mutex == 0;
    *mutex = 1;
    sync_leave(self->run, mutex);
    return got;
}

static void rt_mutex_unlock(uint8_t *mutex, const char *file, uint32_t line) {
    struct tasklet *self = sim_self;
    (void)file;
    (void)line;
    sync_enter(self->run, mutex);
    *mutex = 0;
    sync_wake(self->run, mutex, NULL);
    sync_leave(self->run, mutex);
    perhaps_switch(self);
}

static void rt_sem_take(struct dpusim_semaphore *semaphore, const char *file, uint32_t line) {
    struct tasklet *self = sim_self;
    perhaps_switch(self);
    sync_enter(self->run, semaphore);
    if (--semaphore->count < 0)
        sync_wait(self, semaphore, WAIT_SEMAPHORE, file, line);
    else
        sync_leave(self->run, semaphore);
}

static void rt_sem_give(struct dpusim_semaphore *semaphore, const char *file, uint32_t line) {
    struct tasklet *self = sim_self;
    (void)file;
    (void)line;
    sync_enter(self->run, semaphore);
    semaphore->count++;
    const struct tasklet *first = sync_first(self->run, semaphore);
    if (first != NULL)
        sync_wake(self->run, semaphore, first);
    sync_leave(self->run, semaphore);
    perhaps_switch(self);
}

/* Both sides of a handshake wait for the notifier. */
static void rt_handshake_notify(const char *file, uint32_t line) {
    struct tasklet *self = sim_self;
    perhaps_switch(self);
    sync_enter(self->run, self);
    if (self->waiter != NULL) {
        sync_wake(self->run, self, self->waiter);
        self->waiter = NULL;
        sync_leave(self->run, self);
    } else {
        self->notifying = true;
        sync_wait(self, self, WAIT_HANDSHAKE, file, line);
    }
}

static int rt_handshake_wait_for(uint32_t notifier, const char *file, uint32_t line) {
    struct tasklet *self = sim_self;
    struct run *run = self->run;
    perhaps_switch(self);
    if (notifier >= run->count)
        sim_fault(self, DPU_ERR_DPU_FAULT, file, line, "handshake_wait_for: tasklet %u does not run",
                  notifier);
    struct tasklet *other = &run->tasklets[notifier];
    int result = 0;
    sync_enter(run, other);
    if (other->notifying) {
        other->notifying = false;
        sync_wake(run, other, other);
    } else if (other->waiter != NULL) {
        result = EALREADY_ON_DPU;
    } else {
        other->waiter = self;
        sync_wait(self, other, WAIT_HANDSHAKE, file, line);
        return 0;
    }
    sync_leave(run, other);
    return result;
}

/* -- the rest --------------------------------------------------------------------------- */

static uint64_t rt_perfcounter(bool reset) {
    struct dpu_t *dpu = sim_self->run->dpu;
    uint64_t now = sim_now();
    if (reset)
        __atomic_store_n(&dpu->counter_base, now, __ATOMIC_RELAXED);
    return (now - __atomic_load_n(&dpu->counter_base, __ATOMIC_RELAXED)) & ~UINT64_C(15);
}

struct print {
    struct dpu_t *dpu;
    const char *format;
    va_list args;
    int length;
};

static void print_on_host(struct run *run, void *argument) {
    struct print *print = argument;
    struct dpu_t *dpu = print->dpu;
    (void)run;
    if (dpu->log == NULL)
        dpu->log = malloc(SIM_LOG_BYTES + 1);
    size_t used = dpu->log_bytes, room = used < SIM_LOG_BYTES ? SIM_LOG_BYTES - used + 1 : 0;
    print->length = dpu->log == NULL
                        ? -1
                        : vsnprintf(room == 0 ? NULL : dpu->log + used, room, print->format, print->args);
    if (print->length > 0)
        dpu->log_bytes += (size_t)print->length;
}

static void rt_print(const char *format, va_list args, const char *file, uint32_t line) {
    struct tasklet *self = sim_self;
    struct print print = {.dpu = self->run->dpu, .format = format};
    va_copy(print.args, args);
    sync_enter(self->run, &print.dpu->log);
    sim_on_host_stack(self->run, print_on_host, &print);
    sync_leave(self->run, &print.dpu->log);
    va_end(print.args);
    if (print.length < 0 || (uint32_t)print.length > SIM_LOG_BYTES)
        sim_fault(self, DPU_ERR_DPU_FAULT, file, line, "printf: more than the log holds");
    perhaps_switch(self);
}

static void rt_fault(uint32_t fault, const char *what, const char *file, uint32_t line) {
    sim_fault(sim_self, DPU_ERR_DPU_FAULT, file, line, "%s (fault %u)", what, fault);
}

static uint32_t rt_tick(void) {
    struct tasklet *self = sim_self;
    struct run *run = self->run;
    sim_yield(self);
    return run->strict ? 1 + (uint32_t)(sim_random(run) >> 32) % SIM_STRICT_FUEL : SIM_FAITHFUL_FUEL;
}

const struct dpusim_ops sim_ops = {
    .me = rt_me,
    .mram_heap = rt_mram_heap,
    .dma = rt_dma,
    .mem_alloc = rt_mem_alloc,
    .mem_reset = rt_mem_reset,
    .barrier_wait = rt_barrier_wait,
    .mutex_lock = rt_mutex_lock,
    .mutex_trylock = rt_mutex_trylock,
    .mutex_unlock = rt_mutex_unlock,
    .sem_take = rt_sem_take,
    .sem_give = rt_sem_give,
    .handshake_notify = rt_handshake_notify,
    .handshake_wait_for = rt_handshake_wait_for,
    .perfcounter = rt_perfcounter,
    .print = rt_print,
    .fault = rt_fault,
    .tick = rt_tick,
};
