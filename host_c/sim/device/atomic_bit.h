/* Bits that acquire and release work on; natively a byte each. All are clear at each boot. */
#ifndef DPUSIM_ATOMIC_BIT_H
#define DPUSIM_ATOMIC_BIT_H

#include "attributes.h"

#define ATOMIC_BIT_GET(name) dpusim_atomic_##name
#define ATOMIC_BIT_INIT(name) uint8_t __atomic_bit ATOMIC_BIT_GET(name)
#define ATOMIC_BIT_EXTERN(name) extern uint8_t ATOMIC_BIT_GET(name)

#endif
