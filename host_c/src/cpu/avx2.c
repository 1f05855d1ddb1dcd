/* The avx2 body; rules.mk compiles this file with its instruction set. */
#if defined(__x86_64__)
#define BODY_NAME "avx2"
#define BODY_TABLE cpu_avx2
#include "kernels_body.h"
#else
extern int cpu_avx2_is_absent; /* a translation unit declares something */
#endif
