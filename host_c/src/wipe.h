/* Wiping memory that held secrets, randomness or messages. */
#ifndef PYBFV_WIPE_H
#define PYBFV_WIPE_H

#include <string.h>

#include "ring.h"

/* Overwrites with zeros; the empty assembly reads the memory, as far as the compiler knows. */
static inline void wipe(void *data, size_t size) {
    if (size != 0) {
        memset(data, 0, size);
        __asm__ __volatile__("" : : "r"(data) : "memory");
    }
}

/* Wipes and frees what buffer_alloc(size) gave; NULL is fine. */
static inline void wipe_and_free(void *data, size_t size) {
    if (data != NULL) {
        wipe(data, size);
        buffer_free(data);
    }
}

#endif
