/* The portable body: the build's base instruction set (SSE2 on x86-64, NEON on
 * aarch64, through the compiler); the oracle of the other bodies. */
#define BODY_NAME "portable"
#define BODY_TABLE cpu_portable
#include "kernels_body.h"
