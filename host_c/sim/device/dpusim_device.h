/* What a DPU program and the simulator agree on. Every header of this folder
 * includes it; a program includes the SDK's names (defs.h, mram.h, ...) only.
 *
 * A program built natively is a shared object. It keeps its state in named
 * sections, one image a DPU: dpu_host (__host), dpu_wram (barriers, semaphores),
 * dpu_mram (__mram); dpu_atomic (mutexes) is zeroed at each boot. The simulator
 * finds them through dpusim_program and hands in its functions there. */
#ifndef DPUSIM_DEVICE_H
#define DPUSIM_DEVICE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DPUSIM_ABI UINT32_C(0x44530001)

/* The build's choice, as the SDK's driver has it. Natively it is the most a launch may run. */
#ifndef NR_TASKLETS
#define NR_TASKLETS 1
#endif
#ifndef STACK_SIZE_DEFAULT
#define STACK_SIZE_DEFAULT 1024
#endif

/* A type-only build gives MRAM its own address space, so that mixing it with WRAM is an error. */
#ifdef DPUSIM_TYPECHECK
#define __mram_ptr __attribute__((address_space(255)))
#else
#define __mram_ptr
#endif

#define DPUSIM_FAULT_HEAP_FULL 1
#define DPUSIM_FAULT_DIVISION 2
#define DPUSIM_FAULT_ASSERT 3
#define DPUSIM_FAULT_HALT 4
#define DPUSIM_FAULT_PRINTF 5
#define DPUSIM_FAULT_ACCESS 100 /* memory and DMA faults carry no number on the DPU */

struct dpusim_barrier {
    uint8_t wait_queue;
    int8_t count;
    int8_t initial_count;
    uint8_t lock;
};

struct dpusim_semaphore {
    uint8_t wait_queue;
    uint8_t lock;
    int16_t count;
};

/* The run time, called from tasklets only. file and line: the program's, for reports.
 * A function that faults doesn't return. */
struct dpusim_ops {
    uint32_t (*me)(void);
    uintptr_t (*mram_heap)(void);
    /* Checks a DMA of n bytes and makes the two addresses and the returned count what the
     * hardware would move. */
    uint32_t (*dma)(uintptr_t *mram, uintptr_t *wram, uint32_t n, const char *what, const char *file,
                    uint32_t line);
    void *(*mem_alloc)(size_t n, const char *file, uint32_t line);
    void *(*mem_reset)(void);
    void (*barrier_wait)(struct dpusim_barrier *barrier, const char *file, uint32_t line);
    void (*mutex_lock)(uint8_t *mutex, const char *file, uint32_t line);
    bool (*mutex_trylock)(uint8_t *mutex, const char *file, uint32_t line);
    void (*mutex_unlock)(uint8_t *mutex, const char *file, uint32_t line);
    void (*sem_take)(struct dpusim_semaphore *semaphore, const char *file, uint32_t line);
    void (*sem_give)(struct dpusim_semaphore *semaphore, const char *file, uint32_t line);
    void (*handshake_notify)(const char *file, uint32_t line);
    int (*handshake_wait_for)(uint32_t notifier, const char *file, uint32_t line);
    uint64_t (*perfcounter)(bool reset);
    void (*print)(const char *format, va_list args, const char *file, uint32_t line);
    void (*fault)(uint32_t fault, const char *what, const char *file, uint32_t line);
    /* dpusim_program.fuel ran out; returns the next. */
    uint32_t (*tick)(void);
};

struct dpusim_range {
    char *start, *stop; /* both NULL where the program has no such section */
};

struct dpusim_program {
    uint32_t abi;
    uint32_t nr_tasklets;
    uint32_t stack_size;
    uint32_t sanitized; /* tasklets must be threads */
    struct dpusim_range host, wram, mram, atomic;
    const struct dpusim_ops *ops; /* the simulator's, from dpu_load on */
    uint32_t fuel;                /* basic blocks until tick, where the build counts them */
};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define DPUSIM_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define DPUSIM_SANITIZED 1
#endif
#endif
#ifndef DPUSIM_SANITIZED
#define DPUSIM_SANITIZED 0
#endif

#define DPUSIM_HIDDEN __attribute__((weak, visibility("hidden")))

extern char __start_dpu_host[] DPUSIM_HIDDEN, __stop_dpu_host[] DPUSIM_HIDDEN;
extern char __start_dpu_wram[] DPUSIM_HIDDEN, __stop_dpu_wram[] DPUSIM_HIDDEN;
extern char __start_dpu_mram[] DPUSIM_HIDDEN, __stop_dpu_mram[] DPUSIM_HIDDEN;
extern char __start_dpu_atomic[] DPUSIM_HIDDEN, __stop_dpu_atomic[] DPUSIM_HIDDEN;

/* Each source of a program holds one; the linker keeps the first. */
extern struct dpusim_program dpusim_program;
DPUSIM_HIDDEN __attribute__((section("dpusim"))) struct dpusim_program dpusim_program = {
    .abi = DPUSIM_ABI,
    .nr_tasklets = NR_TASKLETS,
    .stack_size = STACK_SIZE_DEFAULT,
    .sanitized = DPUSIM_SANITIZED,
    .host = {__start_dpu_host, __stop_dpu_host},
    .wram = {__start_dpu_wram, __stop_dpu_wram},
    .mram = {__start_dpu_mram, __stop_dpu_mram},
    .atomic = {__start_dpu_atomic, __stop_dpu_atomic},
    .fuel = UINT32_MAX,
};

/* The one name that dlsym needs besides main and the __host variables. */
__attribute__((weak, visibility("default"))) struct dpusim_program *dpusim_descriptor(void);
__attribute__((weak, visibility("default"))) struct dpusim_program *dpusim_descriptor(void) {
    return &dpusim_program;
}

/* A build with -fsanitize-coverage=trace-pc calls this at every basic block: tasklets may be
 * switched there, and an endless loop ends. */
#ifdef __clang__
#define DPUSIM_NO_COVERAGE __attribute__((no_sanitize("coverage")))
#else
#define DPUSIM_NO_COVERAGE __attribute__((no_sanitize_coverage))
#endif
DPUSIM_HIDDEN DPUSIM_NO_COVERAGE void __sanitizer_cov_trace_pc(void);
DPUSIM_HIDDEN DPUSIM_NO_COVERAGE void __sanitizer_cov_trace_pc(void) {
    if (--dpusim_program.fuel == 0)
        dpusim_program.fuel = dpusim_program.ops->tick();
}

#endif
