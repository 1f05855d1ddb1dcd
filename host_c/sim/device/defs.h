/* The tasklet's number, and the end of it all. */
#ifndef DPUSIM_DEFS_H
#define DPUSIM_DEFS_H

#include "attributes.h"

typedef unsigned int thread_id_t;
typedef unsigned int sysname_t;

#define __builtin_dpu_tid() me()

/* 0 .. tasklets of this launch - 1. Natively a launch may run fewer than NR_TASKLETS. */
static inline sysname_t me(void) {
    return dpusim_program.ops->me();
}

static inline __attribute__((noreturn)) void dpusim_fault_at(uint32_t fault, const char *what,
                                                             const char *file, uint32_t line) {
    dpusim_program.ops->fault(fault, what, file, line);
    __builtin_unreachable();
}

/* Bytes that are left of this tasklet's stack, as far as native frames tell. */
static inline unsigned int check_stack(void) {
    return dpusim_program.ops->stack_left(__builtin_frame_address(0));
}

static inline __attribute__((noreturn)) void halt(void) {
    dpusim_fault_at(DPUSIM_FAULT_HALT, "halt", "", 0);
}

#define halt() dpusim_fault_at(DPUSIM_FAULT_HALT, "halt", __FILE__, __LINE__)

#endif
