#define _GNU_SOURCE
#include "fibre.h"

#include <sys/mman.h>
#include <unistd.h>

static size_t round_to_pages(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

int fibre_map(struct fibre *fibre, size_t usable, size_t guard) {
    size_t bytes = guard + round_to_pages(usable);
    void *low = mmap(NULL, bytes + guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (low == MAP_FAILED)
        return -1;
    *fibre = (struct fibre){.low = low, .bytes = bytes, .guarded = bytes};
    if (fibre_limit(fibre, usable) != 0) {
        fibre_unmap(fibre, guard);
        return -1;
    }
    return 0;
}

void fibre_unmap(struct fibre *fibre, size_t guard) {
    if (fibre->low != NULL)
        munmap(fibre->low, fibre->bytes + guard);
    fibre->low = NULL;
}

int fibre_limit(struct fibre *fibre, size_t usable) {
    size_t guarded = fibre->bytes - round_to_pages(usable), old = fibre->guarded;
    if (guarded < old && mprotect(fibre->low + guarded, old - guarded, PROT_READ | PROT_WRITE) != 0)
        return -1;
    if (guarded > old && mprotect(fibre->low + old, guarded - old, PROT_NONE) != 0)
        return -1;
    fibre->guarded = guarded;
    return 0;
}

#if FIBRE_ASSEMBLY

/* dpusim_switch(void **save, void *load): pushes what the caller's callee must keep, saves
 * the stack pointer, pops the same from the other stack. */
void dpusim_switch(void **save, void *load);

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dpusim_switch\n"
        ".hidden dpusim_switch\n"
        ".type dpusim_switch, @function\n"
        "dpusim_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size dpusim_switch, .-dpusim_switch\n");
#define RETURN_WORD 6 /* of the words above the saved stack pointer */
#define FRAME_WORDS 8 /* entry sees a stack 8 below a multiple of 16, as after a call */
#else
__asm__(".text\n"
        ".globl dpusim_switch\n"
        ".hidden dpusim_switch\n"
        ".type dpusim_switch, %function\n"
        "dpusim_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n    stp x21, x22, [sp, #16]\n    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n    stp x27, x28, [sp, #64]\n    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n    stp d10, d11, [sp, #112]\n    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n    ldp x21, x22, [sp, #16]\n    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n    ldp x27, x28, [sp, #64]\n    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n    ldp d10, d11, [sp, #112]\n    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size dpusim_switch, .-dpusim_switch\n");
#define RETURN_WORD 11
#define FRAME_WORDS 20
#endif

void fibre_start(struct fibre *fibre, void (*entry)(void)) {
    uintptr_t top = (uintptr_t)(fibre->low + fibre->bytes) & ~(uintptr_t)15;
    uintptr_t *frame = (uintptr_t *)top - FRAME_WORDS;
    for (unsigned i = 0; i < FRAME_WORDS; i++)
        frame[i] = 0;
    frame[RETURN_WORD] = (uintptr_t)entry;
    fibre->sp = frame;
}

void fibre_switch(struct fibre *from, struct fibre *to) {
    dpusim_switch(&from->sp, to->sp);
}

#else

void fibre_start(struct fibre *fibre, void (*entry)(void)) {
    getcontext(&fibre->context);
    fibre->context.uc_stack.ss_sp = fibre->low + fibre->guarded;
    fibre->context.uc_stack.ss_size = fibre->bytes - fibre->guarded;
    fibre->context.uc_link = NULL;
    makecontext(&fibre->context, entry, 0);
}

void fibre_switch(struct fibre *from, struct fibre *to) {
    swapcontext(&from->context, &to->context);
}

#endif
