/* What the host program and calls.c, the DPU program, agree on. */
#ifndef CALLS_H
#define CALLS_H

enum command {
    NOTHING,
    WHO,           /* each tasklet writes its number and the tasklets it saw to MRAM */
    DMA_READ,      /* one mram_read of c bytes from MRAM a into WRAM + b */
    DMA_WRITE,     /* the same the other way */
    DMA_NOWHERE,   /* a buffer that isn't in WRAM */
    ALLOCATE,      /* mem_alloc(a) */
    ALLOCATE_KEEP, /* the same without mem_reset before */
    TOO_FEW,       /* tasklet 1 misses a barrier */
    COUNT,         /* every tasklet adds to one MRAM counter, a times, under a mutex */
    COUNT_RACE,    /* the same without it */
    HAND_OVER,     /* tasklet 0 writes, a barrier, the others read */
    HAND_OVER_RACE,
    TRY_COUNT, /* with mutex_trylock */
    SEMAPHORE,
    HANDSHAKE,
    HANDSHAKE_TWICE,
    DEADLOCK, /* a mutex that nobody gives back */
    DIVIDE,
    HALT,
    ASSERT,
    RECURSE,
    ENDLESS,
    SPIN, /* tasklet 1 waits for tasklet 0 by looking */
    BEYOND_WRAM,
    NULL_POINTER,
    STRAY_HEAP, /* a write a bytes from a block of mem_alloc */
    STRAY_STACK,
    STRAY_MRAM,
    TRAP,
    BREAKPOINT,
    PRINT,
    FLOOD,
    CLOCK,
    OWN_MRAM,
    FAULT_AND_WAIT, /* tasklet 0 halts, the others wait in a barrier */
    SLEEP,
};

struct args {
    unsigned long long command, a, b, c;
};

#define COUNTERS 4 /* in MRAM's heap, 8 bytes each */

#endif
