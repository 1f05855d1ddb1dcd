/* Stacks that one thread switches between. */
#ifndef DPUSIM_FIBRE_H
#define DPUSIM_FIBRE_H

#include <stddef.h>
#include <stdint.h>

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(DPUSIM_UCONTEXT)
#define FIBRE_ASSEMBLY 1
#else
#define FIBRE_ASSEMBLY 0
#include <ucontext.h>
#endif

struct fibre {
    void *sp;       /* of a stack that isn't running */
    uint8_t *low;   /* the mapping: the lower guard first */
    size_t bytes;   /* up to the stack's top, where the upper guard starts */
    size_t guarded; /* bytes from low that a stack must not reach */
#if !FIBRE_ASSEMBLY
    ucontext_t context;
#endif
};

/* Maps a stack of that many usable bytes between two guards (multiples of a page); 0 or -1. */
int fibre_map(struct fibre *fibre, size_t usable, size_t guard);
void fibre_unmap(struct fibre *fibre, size_t guard);
/* Only the upper `usable` bytes may be touched from now on; 0 or -1. */
int fibre_limit(struct fibre *fibre, size_t usable);

/* The next switch to it calls entry(), which never returns. */
void fibre_start(struct fibre *fibre, void (*entry)(void));

/* Saves the running stack in *from, continues `to`. */
void fibre_switch(struct fibre *from, struct fibre *to);

#endif
