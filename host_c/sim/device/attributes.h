/* Where data live. */
#ifndef DPUSIM_ATTRIBUTES_H
#define DPUSIM_ATTRIBUTES_H

#include "dpusim_device.h"

#define DPUSIM_SECTION(name) __attribute__((used, aligned(8), visibility("default"), section(name)))

#define __host DPUSIM_SECTION("dpu_host")
#define __mram DPUSIM_SECTION("dpu_mram")
#define __mram_noinit DPUSIM_SECTION("dpu_mram")
#define __mram_keep DPUSIM_SECTION("dpu_mram")
#define __mram_noinit_keep DPUSIM_SECTION("dpu_mram")
#define __dma_aligned __attribute__((aligned(8)))
#define __lower_data(name)

#endif
