/* What programs call: the functions behind host_c/sim/device. */
#define _GNU_SOURCE
#include "run.h"

#include <string.h>

#define EALREADY_ON_DPU 114

/* Faithful, other people's programs: where the hardware has all tasklets advance together, or one of them
 * wait, all others get their turn. Programs rely on it, knowingly or not. */
static void take_turns(struct tasklet *self) {
    if (self->run->in_step)
        sim_yield(self);
}

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
    return (uintptr_t)run->mram + run->dpu->program->mram_bytes;
}

/* -- DMA ------------------------------------------------------------------------------ */

static bool inside(uintptr_t at, uint32_t n, uintptr_t low, uintptr_t bytes) {
    return at >= low && at - low <= bytes && n <= bytes - (at - low);
}

static bool in_wram(const struct tasklet *self, uintptr_t at, uint32_t n) {
    const struct run *run = self->run;
    uintptr_t wram = (uintptr_t)run->wram;
    if (inside(at, n, wram + run->heap_start, run->wram_bytes - run->heap_start) ||
        inside(at, n, run->instance->low, run->instance->high - run->instance->low))
        return true;
    if (run->threads) /* stacks are the system's: a sanitizer knows them better */
        return !(at + n > wram && at <= wram + SIM_WRAM_BYTES) &&
               !inside(at, n, (uintptr_t)run->mram, SIM_MRAM_BYTES);
    const struct fibre *stack = &self->fibre;
    return inside(at, n, (uintptr_t)stack->low + stack->guarded, stack->bytes - stack->guarded);
}

/* Where the program means that address. On the DPU MRAM starts at 0, and a program may say so; one that
 * dlopen loaded has its __mram variables above 4 GB, and may have lost the upper half. */
static uintptr_t mram_of(const struct run *run, uintptr_t at) {
    if (run->instance->window == NULL)
        return at;
    if (at < SIM_MRAM_BYTES)
        return (uintptr_t)run->mram + at;
    if (run->instance->handle != NULL && at <= UINT32_MAX &&
        !inside(at, 0, (uintptr_t)run->mram, SIM_MRAM_BYTES)) {
        const struct dpusim_range own = run->instance->program->mram;
        uint32_t offset = (uint32_t)at - (uint32_t)(uintptr_t)own.start;
        if (offset < sim_section_bytes(own))
            return (uintptr_t)own.start + offset;
    }
    return at;
}

static bool in_mram(const struct run *run, uintptr_t at, uint32_t n) {
    const struct dpusim_range own = run->instance->program->mram;
    return inside(at, n, (uintptr_t)run->mram, SIM_MRAM_BYTES) ||
           inside(at, n, (uintptr_t)own.start, sim_section_bytes(own));
}

/* "buffer": a variable, whose declaration is all there is to its alignment. */
static bool is_name(const char *text) {
    for (; *text != '\0'; text++)
        if (!(*text == '_' || (*text >= '0' && *text <= '9') ||
              ((*text | 0x20) >= 'a' && (*text | 0x20) <= 'z')))
            return false;
    return true;
}

static void check_dma(struct tasklet *self, uintptr_t mram, uintptr_t wram, uint32_t n,
                      const struct dpusim_dma *dma) {
    const dpu_error_t error = DPU_ERR_DPU_FAULT;
    if (n == 0 || n > SIM_DMA_MAX || n % 8 != 0)
        sim_fault(self, error, dma->file, dma->line, "%s of %u bytes: not a multiple of 8 from 8 to 2048",
                  dma->what, n);
    if (wram % 8 != 0)
        sim_fault(self, error, dma->file, dma->line, "%s: the WRAM address is not a multiple of 8",
                  dma->what);
    if (dma->unaligned != NULL && is_name(dma->unaligned))
        sim_fault(self, error, dma->file, dma->line, "%s: '%s' is not __dma_aligned", dma->what,
                  dma->unaligned);
    if (mram % 8 != 0)
        sim_fault(self, error, dma->file, dma->line, "%s: the MRAM address is not a multiple of 8",
                  dma->what);
    if (!in_wram(self, wram, n))
        sim_fault(self, error, dma->file, dma->line, "%s of %u bytes: the buffer is not all in WRAM",
                  dma->what, n);
}

static uint32_t rt_dma(uintptr_t *mram, uintptr_t *wram, uint32_t n, const struct dpusim_dma *dma) {
    struct tasklet *self = sim_self;
    struct run *run = self->run;
    *mram = mram_of(run, *mram);
    if (run->strict) {
        check_dma(self, *mram, *wram, n, dma);
        perhaps_switch(self);
    }
    take_turns(self);
    *mram &= ~(uintptr_t)7;
    *wram &= ~(uintptr_t)7;
    n = (((n >> 3) - 1) & 0xff) * 8 + 8;
    if (!in_mram(run, *mram, n)) {
        intptr_t offset = (intptr_t)(*mram - (uintptr_t)run->mram);
        sim_fault(self, DPU_ERR_DPU_FAULT, dma->file, dma->line,
                  "%s of %u bytes at MRAM offset %lld: outside MRAM", dma->what, n, (long long)offset);
    }
    struct dpusim_launch_record *record = &self->run->record; /* each tasklet its own place in it */
    sim_record_dma(&(dma->direction == DPUSIM_WRITE ? record->write : record->read)[self->id], n);
    if (run->watched && dma->direction == DPUSIM_WRITE)
        sim_inject_write(run, *mram, n);
    return n;
}

static void rt_unwritten(const void *wram, uint32_t n, const struct dpusim_dma *dma) {
    struct tasklet *self = sim_self;
    bool all = self->run->strict && dma->direction == DPUSIM_READ;
    for (uint32_t i = 0; i < n && all; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const uint8_t *)wram + i, sizeof word);
        all = word == DPUSIM_UNWRITTEN;
    }
    if (all)
        sim_fault(self, DPU_ERR_DPU_FAULT, dma->file, dma->line, "%s of %u bytes of MRAM that nobody wrote",
                  dma->what, n);
}

/* -- WRAM ----------------------------------------------------------------------------- */

static void *rt_mem_alloc(size_t n, const char *file, uint32_t line) {
    struct tasklet *self = sim_self;
    struct dpu_t *dpu = self->run->dpu;
    uint32_t old = __atomic_load_n(&dpu->heap, __ATOMIC_RELAXED), at, end;
    do {
        at = (old + 7) & ~UINT32_C(7);
        if (n > self->run->wram_bytes - at)
            sim_fault(self, DPU_ERR_DPU_FAULT, file, line, "mem_alloc of %zu bytes: %u of WRAM are left", n,
                      self->run->wram_bytes - at);
        end = n == 0 ? old : at + (uint32_t)n;
    } while (!__atomic_compare_exchange_n(&dpu->heap, &old, end, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return self->run->wram + at;
}

static void *rt_mem_reset(void) {
    const struct run *run = sim_self->run;
    __atomic_store_n(&run->dpu->heap, run->heap_start, __ATOMIC_RELAXED);
    return run->wram + run->heap_start;
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
        take_turns(self);
    } else {
        sync_wait(self, barrier, WAIT_BARRIER, file, line);
    }
    perhaps_switch(self);
}

/* A small address is one of the hardware's mutexes by its number. */
static uint8_t *mutex_of(struct run *run, uint8_t *mutex) {
    uintptr_t number = (uintptr_t)mutex;
    return number < 4096 ? &run->raw_mutexes[number % SIM_RAW_MUTEXES] : mutex;
}

static void rt_mutex_lock(uint8_t *mutex, const char *file, uint32_t line) {
    struct tasklet *self = sim_self;
    mutex = mutex_of(self->run, mutex);
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
    mutex = mutex_of(self->run, mutex);
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
    mutex = mutex_of(self->run, mutex);
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
        sync_leave(run, other);
        take_turns(self); /* the notifier has less to do before it goes on */
        return 0;
    }
    if (other->waiter != NULL) {
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
    size_t most = dpu->program->log_bytes, used = dpu->log_bytes;
    (void)run;
    if (dpu->log == NULL)
        dpu->log = malloc(most + 1);
    size_t room = used < most ? most - used + 1 : 0;
    print->length = dpu->log == NULL
                        ? -1
                        : sim_format(dpu->log + (room == 0 ? 0 : used), room, print->format, print->args);
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
    if (print.length < 0 || (uint32_t)print.length > print.dpu->program->log_bytes)
        sim_fault(self, DPU_ERR_DPU_FAULT, file, line, "printf: more than the log holds (fault %u)",
                  DPUSIM_FAULT_PRINTF);
    perhaps_switch(self);
}

static void rt_fault(uint32_t fault, const char *what, const char *file, uint32_t line) {
    sim_fault(sim_self, DPU_ERR_DPU_FAULT, file, line, "%s (fault %u)", what, fault);
}

static uint32_t rt_tick(const void *pc) {
    struct tasklet *self = sim_self;
    struct run *run = self->run;
    self->pc = (uintptr_t)pc - 1;
    sim_yield(self);
    return sim_next_fuel(run);
}

static void rt_overflow(const void *pc) {
    struct tasklet *self = sim_self;
    sim_fault_pc(self, DPU_ERR_DPU_FAULT, (uintptr_t)pc - 1, "stack overflow: a tasklet's stack has %u bytes",
                 self->run->instance->program->stack_size[self->id]);
}

static uint32_t rt_stack_left(const void *frame) {
    const struct tasklet *self = sim_self;
    uintptr_t used = self->stack_top - (uintptr_t)frame,
              all = self->run->instance->program->stack_size[self->id];
    return self->run->threads ? (uint32_t)all : used > all ? 0 : (uint32_t)(all - used);
}

const struct dpusim_ops sim_ops = {
    .me = rt_me,
    .mram_heap = rt_mram_heap,
    .dma = rt_dma,
    .unwritten = rt_unwritten,
    .alloc = rt_mem_alloc,
    .reset = rt_mem_reset,
    .wait = rt_barrier_wait,
    .lock = rt_mutex_lock,
    .trylock = rt_mutex_trylock,
    .unlock = rt_mutex_unlock,
    .take = rt_sem_take,
    .give = rt_sem_give,
    .notify = rt_handshake_notify,
    .wait_for = rt_handshake_wait_for,
    .perfcounter = rt_perfcounter,
    .print = rt_print,
    .fault = rt_fault,
    .tick = rt_tick,
    .overflow = rt_overflow,
    .stack_left = rt_stack_left,
};
