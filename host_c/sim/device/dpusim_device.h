/* What a DPU program and the simulator agree on. Every header of this folder
 * includes it; a program includes the SDK's names (defs.h, mram.h, ...) only.
 *
 * A program built natively is a shared object. Its writable data are one image a DPU, in which
 * dpu_host holds the __host variables and dpu_atomic the mutexes, zeroed at each boot; dpu_mram
 * (__mram) is the start of each DPU's MRAM. The simulator finds them through dpusim_program and
 * hands in its functions there. */
#ifndef DPUSIM_DEVICE_H
#define DPUSIM_DEVICE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DPUSIM_ABI UINT32_C(0x44530002)
#define DPUSIM_THREADS 24 /* of a DPU */

/* The build's choice, as the SDK's driver has it. Natively it is the most a launch may run. */
#ifndef NR_TASKLETS
#define NR_TASKLETS 1
#endif
#ifndef STACK_SIZE_DEFAULT
#define STACK_SIZE_DEFAULT 1024
#endif
#include "dpusim_stacks.h"

#ifdef __dpu_v1B__
#define DPUSIM_WRAM_BYTES 63488
#else
#define DPUSIM_WRAM_BYTES 65536
#endif

/* A type-only build gives MRAM its own address space, so that mixing it with WRAM is an error. */
#ifdef DPUSIM_TYPECHECK
#define __mram_ptr __attribute__((address_space(255)))
#else
#define __mram_ptr
#endif

#define DPUSIM_UNWRITTEN UINT64_C(0xa5a5a5a5a5a5a5a5) /* strict: in fresh memory */

#define DPUSIM_FAULT_HEAP_FULL 1
#define DPUSIM_FAULT_DIVISION 2
#define DPUSIM_FAULT_ASSERT 3
#define DPUSIM_FAULT_HALT 4
#define DPUSIM_FAULT_PRINTF 5
#define DPUSIM_FAULT_UNALIGNED 8
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

enum dpusim_direction { DPUSIM_READ, DPUSIM_WRITE, DPUSIM_PREFETCH /* may read what nobody wrote */ };

/* Where a DMA stands in the program. */
struct dpusim_dma {
    const char *what, *file;
    uint32_t line;
    enum dpusim_direction direction;
    const char *unaligned; /* the WRAM buffer's name, if its declaration doesn't align it to 8 */
};

/* The run time, called from tasklets only. file and line: the program's, for reports.
 * A function that faults doesn't return. */
struct dpusim_ops {
    uint32_t (*me)(void);
    uintptr_t (*mram_heap)(void);
    /* Checks a DMA of n bytes and makes the two addresses and the returned count what the
     * hardware would move. */
    uint32_t (*dma)(uintptr_t *mram, uintptr_t *wram, uint32_t n, const struct dpusim_dma *dma);
    /* What was read begins with DPUSIM_UNWRITTEN: is it all memory that nobody wrote? */
    void (*unwritten)(const void *wram, uint32_t n, const struct dpusim_dma *dma);
    void *(*alloc)(size_t n, const char *file, uint32_t line);
    void *(*reset)(void);
    void (*wait)(struct dpusim_barrier *barrier, const char *file, uint32_t line);
    void (*lock)(uint8_t *mutex, const char *file, uint32_t line);
    bool (*trylock)(uint8_t *mutex, const char *file, uint32_t line);
    void (*unlock)(uint8_t *mutex, const char *file, uint32_t line);
    void (*take)(struct dpusim_semaphore *semaphore, const char *file, uint32_t line);
    void (*give)(struct dpusim_semaphore *semaphore, const char *file, uint32_t line);
    void (*notify)(const char *file, uint32_t line);
    int (*wait_for)(uint32_t notifier, const char *file, uint32_t line);
    uint64_t (*perfcounter)(bool reset);
    void (*print)(const char *format, va_list args, const char *file, uint32_t line);
    void (*fault)(uint32_t fault, const char *what, const char *file, uint32_t line);
    /* dpusim_program.fuel ran out; returns the next. */
    uint32_t (*tick)(const void *pc);
    /* The stack is deeper than dpusim_program.stack_limit. */
    void (*overflow)(const void *pc);
    uint32_t (*stack_left)(const void *frame);
};

struct dpusim_range {
    char *start, *stop; /* both NULL where the program has no such section */
};

struct dpusim_program {
    uint32_t abi;
    uint32_t nr_tasklets;
    uint32_t sanitized;           /* tasklets must be threads */
    uint32_t linked;              /* by the drop-in compiler: pointers fit in 32 bits, if not sanitized */
    uint32_t wram_bytes;          /* the chip's */
    uint32_t fuel;                /* basic blocks until tick, where the build counts them */
    uintptr_t stack_limit;        /* the lowest frame that is all right there; 0: any */
    const struct dpusim_ops *ops; /* the simulator's, from dpu_load on */
    struct dpusim_range host, mram, atomic;
    uint32_t stack_size[DPUSIM_THREADS];
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
extern char __start_dpu_mram[] DPUSIM_HIDDEN, __stop_dpu_mram[] DPUSIM_HIDDEN;
extern char __start_dpu_atomic[] DPUSIM_HIDDEN, __stop_dpu_atomic[] DPUSIM_HIDDEN;

/* Each source of a program holds one; the linker keeps the first, or the drop-in compiler's own
 * (DPUSIM_START), as on the DPU the link's macros count. */
#ifdef DPUSIM_START
#define DPUSIM_DESCRIPTOR __attribute__((visibility("hidden"), section("dpusim")))
#else
#define DPUSIM_DESCRIPTOR __attribute__((weak, visibility("hidden"), section("dpusim")))
#endif
#ifdef DPUSIM_LINKED
#define DPUSIM_IS_LINKED 1
#else
#define DPUSIM_IS_LINKED 0
#endif
extern struct dpusim_program dpusim_program;
DPUSIM_DESCRIPTOR struct dpusim_program dpusim_program = {
    .abi = DPUSIM_ABI,
    .nr_tasklets = NR_TASKLETS,
    .sanitized = DPUSIM_SANITIZED,
    .linked = DPUSIM_IS_LINKED,
    .wram_bytes = DPUSIM_WRAM_BYTES,
    .fuel = UINT32_MAX,
    .host = {__start_dpu_host, __stop_dpu_host},
    .mram = {__start_dpu_mram, __stop_dpu_mram},
    .atomic = {__start_dpu_atomic, __stop_dpu_atomic},
    .stack_size = DPUSIM_STACK_SIZES,
};

/* The one name that dlsym needs besides main and the __host variables. */
__attribute__((weak, visibility("default"))) struct dpusim_program *dpusim_descriptor(void);
__attribute__((weak, visibility("default"))) struct dpusim_program *dpusim_descriptor(void) {
    return &dpusim_program;
}

/* A build with -fsanitize-coverage=trace-pc calls this at every basic block: tasklets may be
 * switched there, an endless loop ends, and (drop-in) a stack that outgrows its size is seen. */
#ifdef __clang__
#define DPUSIM_NO_COVERAGE __attribute__((no_sanitize("coverage")))
#else
#define DPUSIM_NO_COVERAGE __attribute__((no_sanitize_coverage))
#endif
DPUSIM_HIDDEN DPUSIM_NO_COVERAGE void __sanitizer_cov_trace_pc(void);
DPUSIM_HIDDEN DPUSIM_NO_COVERAGE void __sanitizer_cov_trace_pc(void) {
#ifdef DPUSIM_LINKED /* a third of the time */
    if ((uintptr_t)__builtin_frame_address(0) < dpusim_program.stack_limit)
        dpusim_program.ops->overflow(__builtin_return_address(0));
#endif
    if (--dpusim_program.fuel == 0)
        dpusim_program.fuel = dpusim_program.ops->tick(__builtin_return_address(0));
}

#endif
