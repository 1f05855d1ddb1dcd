/* libdpu.so: the simulator for other people's host programs. They see what the hardware would do, and
 * why on stderr; UPMEM_PROFILE=strict=1 changes that. */
#include "../include/dpusim.h"

static void report(const char *line) {
    fprintf(stderr, "dpusim: %s\n", line);
}

__attribute__((constructor)) static void start(void) {
    dpusim_drop_in("strict=0", report);
}
