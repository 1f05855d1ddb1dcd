/* One DPU program for the simulator's tests: does what args.command says. */
#include <alloc.h>
#include <assert.h>
#include <barrier.h>
#include <defs.h>
#include <handshake.h>
#include <mram.h>
#include <mutex.h>
#include <perfcounter.h>
#include <sem.h>
#include <stdio.h>

#include "calls.h"

int usleep(unsigned int);

__host struct args args;
__host uint64_t result;
__host uint64_t launches;
__host uint8_t tiny;
__mram uint64_t table[4] = {10, 20, 30, 40};
int plain_global;

BARRIER_INIT(all, NR_TASKLETS)
BARRIER_INIT(two, 2)
MUTEX_INIT(lock)
SEMAPHORE_INIT(items, 0)
SEMAPHORE_INIT(one, 1)

struct shared {
    uint64_t *cell;
    uint64_t seen, arrived;
    volatile uint32_t flag;
    uint32_t depth;
};
struct shared shared __attribute__((section("dpu_wram"), used));

static __mram_ptr uint8_t *heap(uint64_t offset) {
    return (__mram_ptr uint8_t *)DPU_MRAM_HEAP_POINTER + (int64_t)offset;
}

static void add_to_counter(uint64_t *buffer) {
    mram_read(heap(0), buffer, 8);
    *buffer += 1;
    mram_write(buffer, heap(0), 8);
}

static void count(bool locked) {
    uint64_t *buffer = mem_alloc(8);
    for (uint64_t i = 0; i < args.a; i++) {
        if (locked)
            mutex_lock(lock);
        add_to_counter(buffer);
        if (locked)
            mutex_unlock(lock);
    }
}

static void try_count(void) {
    uint64_t *buffer = mem_alloc(8);
    for (uint64_t i = 0; i < args.a; i++) {
        while (!mutex_trylock(lock)) {
        }
        add_to_counter(buffer);
        mutex_unlock(lock);
    }
}

static void hand_over(bool synchronised) {
    if (me() == 0)
        for (uint64_t i = 0; i < 100; i++)
            shared.cell[i % 4] = i + args.a; /* RACE: the writer */
    if (synchronised)
        barrier_wait(&all);
    if (me() != 0 && shared.cell[3] == 99 + args.a) { /* RACE: the reader */
        mutex_lock(lock);
        shared.seen++;
        mutex_unlock(lock);
    }
}

/* Tasklet 0 makes, the others take; `one` guards the sum. */
static void semaphores(void) {
    if (me() == 0) {
        for (uint64_t i = 0; i < args.a; i++)
            sem_give(&items);
        return;
    }
    sem_take(&items);
    sem_take(&one);
    shared.seen++;
    sem_give(&one);
}

/* A chain: each waits for the one before it, so the numbers come in order. */
static void handshakes(void) {
    if (me() != 0)
        (void)handshake_wait_for(me() - 1);
    assert(shared.arrived == me());
    shared.arrived++;
    if (me() + 1 < args.a)
        handshake_notify();
}

static void handshake_twice(void) {
    if (me() == 1 || me() == 2) {
        int status = handshake_wait_for(0);
        mutex_lock(lock);
        shared.seen += status == EALREADY ? 100 : 1;
        mutex_unlock(lock);
        if (status == EALREADY)
            sem_give(&items);
    } else if (me() == 0) {
        sem_take(&items); /* the second one is refused before anybody notifies */
        handshake_notify();
    }
}

static uint32_t recurse(volatile uint32_t *depth, uint32_t limit) {
    volatile uint32_t frame[64] = {0};
    frame[*depth % 64] = ++*depth;
    return *depth < limit ? recurse(depth, limit) + frame[0] : frame[1];
}

static void dma(bool read) {
    uint8_t *buffer = mem_alloc(4096);
    for (uint32_t i = 0; i < 4096; i++)
        buffer[i] = (uint8_t)i;
    if (read) {
        mram_read(heap(args.a), buffer + args.b, (uint32_t)args.c);
        __builtin_memcpy(&result, buffer + (args.b & ~7ull), 8);
    } else {
        mram_write(buffer + args.b, heap(args.a), (uint32_t)args.c);
    }
}

static void who(void) {
    uint64_t *buffer = mem_alloc(16);
    mutex_lock(lock);
    shared.arrived++;
    mutex_unlock(lock);
    barrier_wait(&all);
    buffer[0] = me();
    buffer[1] = shared.arrived;
    mram_write(buffer, heap(16 * (uint64_t)me()), 16);
}

static void clocks(void) {
    if (me() != 0)
        return;
    uint64_t first = perfcounter_config(COUNT_CYCLES, true), before = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        uint64_t now = perfcounter_get();
        if (now < before)
            halt();
        before = now;
    }
    result = first < 16 && before % 16 == 0;
}

static void own_mram(void) {
    if (me() == 0) {
        uint64_t *buffer = mem_alloc(32);
        mram_read(table, buffer, 32);
        for (uint32_t i = 0; i < 4; i++)
            buffer[i] += 1;
        mram_write(buffer, table, 32);
        result = table[3]; /* dereferenced, without DMA of our own */
    }
}

static void single(void) {
    volatile uint32_t zero = 0;
    volatile uint8_t *pointer;
    switch (args.command) {
    case DMA_READ:
        dma(true);
        break;
    case DMA_WRITE:
        dma(false);
        break;
    case DMA_NOWHERE:
        mram_read(heap(0), (void *)heap(4096), 8);
        break;
    case ALLOCATE_KEEP:
    case ALLOCATE:
        result = (uint64_t)(uintptr_t)mem_alloc(args.a);
        break;
    case DIVIDE:
        result = (args.a + 10) / zero; /* of 1 a compiler makes a comparison */
        break;
    case HALT:
        halt();
    case ASSERT:
        assert(args.a == 12345);
        break;
    case RECURSE:
        result = recurse(&shared.depth, (uint32_t)args.a);
        break;
    case ENDLESS:
        while (shared.flag == 0) {
        }
        break;
    case BEYOND_WRAM:
        pointer = (volatile uint8_t *)mem_alloc(8);
        for (uint32_t i = 0; i < 65536; i++)
            pointer[i] = 1;
        break;
    case NULL_POINTER:
        pointer = (volatile uint8_t *)(uintptr_t)zero;
        result = *pointer;
        break;
    case STRAY_HEAP:
        pointer = (volatile uint8_t *)mem_alloc(8);
        pointer[(int64_t)args.a] = 1;
        break;
    case STRAY_STACK:
        pointer = (volatile uint8_t *)&zero;
        pointer[(int64_t)args.a] = 1;
        break;
    case STRAY_MRAM:
        *(volatile uint8_t *)heap(args.a) = 1;
        break;
    case TRAP:
        __builtin_trap();
    case BREAKPOINT:
#if defined(__x86_64__)
        __asm__ volatile("int3");
#endif
        break;
    case SLEEP:
        usleep((unsigned int)args.a);
        break;
    case FLOOD:
        for (uint64_t i = 0; i < args.a; i++)
            printf("%1023u\n", (unsigned)i);
        break;
    default:
        break;
    }
}

int main(void) {
    if (me() == 0) {
        if (args.command != ALLOCATE_KEEP)
            (void)mem_reset();
        launches++;
        shared = (struct shared){.cell = args.command == ALLOCATE_KEEP ? NULL : mem_alloc(32)};
    }
    barrier_wait(&all);
    switch (args.command) {
    case WHO:
        who();
        break;
    case TOO_FEW:
        if (me() != 1)
            barrier_wait(&all); /* BARRIER */
        break;
    case COUNT:
        count(true);
        break;
    case COUNT_RACE:
        count(false);
        break;
    case TRY_COUNT:
        try_count();
        break;
    case HAND_OVER:
        hand_over(true);
        break;
    case HAND_OVER_RACE:
        hand_over(false);
        break;
    case SEMAPHORE:
        semaphores();
        break;
    case HANDSHAKE:
        handshakes();
        break;
    case HANDSHAKE_TWICE:
        handshake_twice();
        break;
    case DEADLOCK:
        mutex_lock(lock);
        break;
    case SPIN:
        if (me() == 1)
            while (shared.flag == 0) {
            }
        if (me() == 2)
            shared.flag = 1;
        break;
    case PRINT:
        if (me() < 2) {
            mutex_lock(lock);
            printf("tasklet %u of %d: %llu\n", me(), NR_TASKLETS, (unsigned long long)args.a);
            mutex_unlock(lock);
        }
        break;
    case CLOCK:
        clocks();
        break;
    case OWN_MRAM:
        own_mram();
        break;
    case FAULT_AND_WAIT:
        if (me() == 0)
            halt();
        barrier_wait(&two);
        break;
    default:
        if (me() == 0)
            single();
    }
    if (args.command == HAND_OVER || args.command == HAND_OVER_RACE || args.command == SEMAPHORE ||
        args.command == HANDSHAKE_TWICE) {
        barrier_wait(&all);
        if (me() == 0)
            result = shared.seen;
    }
    return 0;
}
