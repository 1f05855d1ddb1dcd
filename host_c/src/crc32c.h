/* The two halves of bfv_crc32c, for its tests. */
#ifndef PYBFV_CRC32C_H
#define PYBFV_CRC32C_H

#include "ring.h"

/* The oracle: tables, eight bytes a step. Arguments as bfv_crc32c. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t size);

/* Whether this CPU has instructions for it, and bfv_crc32c uses them. */
bool crc32c_has_hardware(void);

#endif
