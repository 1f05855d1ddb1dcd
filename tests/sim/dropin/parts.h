/* What host.c asks of device.c, one part of the run time a launch. */
#ifndef PARTS_H
#define PARTS_H

#include <stdint.h>

enum part {
    ALLOCATORS,
    SEQUENTIAL_READER,
    UNALIGNED,
    POOLS,
    SYNCHRONISATION,
    INSTRUCTIONS,
    POINTERS,
    GLOBALS,
    PRINTING,
    STACKS,
    SPINNING,
    PARTS
};

struct order {
    uint32_t part, launch;
};

/* Line and tasklet of the first check that failed; line 0: none. */
struct outcome {
    uint32_t line, tasklet;
};

#define WORDS 4096 /* of numbers[] in MRAM; the host writes number i at i */

#endif
