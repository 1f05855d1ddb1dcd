/* Faults of native code that a DPU would report: a bad address, a division by zero, a stack
 * that ran into its guard, a check that ended in __builtin_trap. The handlers are in place only while fibres
 * run, and pass on what doesn't come from one. */
#define _GNU_SOURCE
#include "run.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#define HANDLER_STACK (size_t)(64 << 10)

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
#define SIGNALS (sizeof signals / sizeof *signals)

static pthread_mutex_t hold_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t holders;
static struct sigaction before[SIGNALS];

static uintptr_t program_counter(const ucontext_t *context) {
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.pc;
#else
    (void)context;
    return 0;
#endif
}

/* Where a function without a frame (memcpy) returns to. */
static uintptr_t caller(const struct tasklet *self, const ucontext_t *context) {
#if defined(__x86_64__)
    uintptr_t sp = (uintptr_t)context->uc_mcontext.gregs[REG_RSP], low = (uintptr_t)self->fibre.low;
    if (sp < low + self->fibre.guarded || sp + sizeof sp > low + self->fibre.bytes || sp % sizeof sp != 0)
        return 0;
    return *(const uintptr_t *)sp - 1;
#elif defined(__aarch64__)
    (void)self;
    return (uintptr_t)context->uc_mcontext.regs[30] - 4;
#else
    (void)self;
    (void)context;
    return 0;
#endif
}

static void handle(int number, siginfo_t *info, void *context) {
    struct tasklet *self = sim_self;
    if (self == NULL || self->run->threads) {
        for (size_t i = 0; i < SIGNALS; i++)
            if (signals[i] == number)
                sigaction(number, &before[i], NULL);
        if (number == SIGTRAP)
            raise(number); /* x86's breakpoint is behind us */
        return;            /* others run again, into the handler that was there before */
    }
    self->run->signal = number;
    self->run->signal_address = (uintptr_t)info->si_addr;
    self->run->signal_pc = program_counter(context);
    self->run->signal_caller = caller(self, context);
    sim_tasklet_end(self);
}

void sim_signals_hold(void) {
    pthread_mutex_lock(&hold_lock);
    if (holders++ == 0) {
        struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
        sigemptyset(&action.sa_mask);
        for (size_t i = 0; i < SIGNALS; i++)
            sigaction(signals[i], &action, &before[i]);
    }
    pthread_mutex_unlock(&hold_lock);
}

void sim_signals_release(void) {
    pthread_mutex_lock(&hold_lock);
    if (--holders == 0)
        for (size_t i = 0; i < SIGNALS; i++)
            sigaction(signals[i], &before[i], NULL);
    pthread_mutex_unlock(&hold_lock);
}

void sim_signals_lock(void) {
    pthread_mutex_lock(&hold_lock);
}

void sim_signals_unlock(void) {
    pthread_mutex_unlock(&hold_lock);
}

void *sim_signals_stack(void) {
    void *stack = mmap(NULL, HANDLER_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        return NULL;
    stack_t alternate = {.ss_sp = stack, .ss_size = HANDLER_STACK};
    sigaltstack(&alternate, NULL);
    return stack;
}

void sim_signals_stack_free(void *stack) {
    if (stack == NULL)
        return;
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    munmap(stack, HANDLER_STACK);
}
