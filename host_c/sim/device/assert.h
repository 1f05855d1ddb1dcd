/* assert ends the DPU's run in fault 3, with file and line. */
#include "defs.h"

#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition)                                                                                    \
    ((condition) ? (void)0                                                                                   \
                 : dpusim_fault_at(DPUSIM_FAULT_ASSERT, "assert(" #condition ")", __FILE__, __LINE__))
#endif

#ifndef static_assert
#define static_assert _Static_assert
#endif
