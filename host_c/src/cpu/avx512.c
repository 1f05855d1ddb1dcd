/* The avx512 body; rules.mk compiles this file with its instruction set. */
#if defined(__x86_64__)
#define BODY_NAME "avx512"
#define BODY_TABLE cpu_avx512
#include "kernels_body.h"
#else
extern int cpu_avx512_is_absent; /* a translation unit declares something */
#endif
