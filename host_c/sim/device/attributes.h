/* Where data live. */
#ifndef DPUSIM_ATTRIBUTES_H
#define DPUSIM_ATTRIBUTES_H

#include "dpusim_device.h"

#define DPUSIM_SECTION(name) __attribute__((used, aligned(8), visibility("default"), section(name)))

#define __host DPUSIM_SECTION("dpu_host")
#define __mram DPUSIM_SECTION("dpu_mram")
#define __mram_keep __mram
/* The drop-in compiler's linker script puts it behind dpu_mram; its name keeps it out of the file. */
#if defined(DPUSIM_LINKED) && !DPUSIM_SANITIZED
#define __mram_noinit DPUSIM_SECTION(".bss.dpu_mram_noinit")
#else
#define __mram_noinit DPUSIM_SECTION("dpu_mram")
#endif
#define __mram_noinit_keep __mram_noinit
#define __dma_aligned __attribute__((aligned(8)))
#define __lower_data(name)
#define __atomic_bit __attribute__((used, section("dpu_atomic")))

#endif
