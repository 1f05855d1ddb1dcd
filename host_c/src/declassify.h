/* Where a documented fact about a secret becomes public. tests/ct marks all secrets as undefined memory, so
 * that valgrind reports every branch and index that depends on them; what passes through here is public from
 * then on. Every use says what is told. In all other builds this is nothing. */
#ifndef PYBFV_DECLASSIFY_H
#define PYBFV_DECLASSIFY_H

#include <stdint.h>

#ifdef PYBFV_CT
#include <valgrind/memcheck.h>
#endif

static inline uint64_t declassify(uint64_t fact) {
#ifdef PYBFV_CT
    (void)VALGRIND_MAKE_MEM_DEFINED(&fact, sizeof fact);
#endif
    return fact;
}

#endif
