/* The tasklet's number, and the end of it all. */
#ifndef DPUSIM_DEFS_H
#define DPUSIM_DEFS_H

#include "attributes.h"

typedef unsigned int thread_id_t;
typedef unsigned int sysname_t;

/* 0 .. tasklets of this launch - 1. Natively a launch may run fewer than NR_TASKLETS. */
static inline sysname_t me(void) {
    return dpusim_program.ops->me();
}

#define halt() dpusim_fault_at(DPUSIM_FAULT_HALT, "halt", __FILE__, __LINE__)

static inline __attribute__((noreturn)) void dpusim_fault_at(uint32_t fault, const char *what,
                                                             const char *file, uint32_t line) {
    dpusim_program.ops->fault(fault, what, file, line);
    __builtin_unreachable();
}

#endif
