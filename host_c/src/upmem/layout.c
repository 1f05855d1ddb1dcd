/* Regions of MRAM, and which units of a residue polynomial lie on which DPU. */
#include <stdlib.h>
#include <string.h>

#include "upmem.h"

/* ---- regions -------------------------------------------------------------------- */

int mram_alloc(struct mram *mram, uint64_t bytes, struct mram_region **out) {
    bytes = (bytes + BFV_ALIGN - 1) / BFV_ALIGN * BFV_ALIGN;
    uint32_t end = 0; /* of the region before */
    struct mram_region **link = &mram->used;
    for (; *link != NULL && (*link)->offset - end < bytes; link = &(*link)->next) {
        end = (*link)->offset + (*link)->bytes;
    }
    if (*link == NULL && mram->size - end < bytes) {
        return BFV_E_MEMORY;
    }
    struct mram_region *region = malloc(sizeof *region);
    if (region == NULL) {
        return BFV_E_MEMORY;
    }
    *region = (struct mram_region){.next = *link, .offset = end, .bytes = (uint32_t)bytes};
    *link = region;
    *out = region;
    return BFV_OK;
}

void mram_free(struct mram *mram, struct mram_region *region) {
    if (region == NULL) {
        return;
    }
    struct mram_region **link = &mram->used;
    while (*link != region) {
        link = &(*link)->next;
    }
    *link = region->next;
    free(region);
}

void mram_close(struct mram *mram) {
    while (mram->used != NULL) {
        mram_free(mram, mram->used);
    }
}

uint32_t mram_widest(const struct mram *mram) {
    uint32_t end = 0, widest = 0;
    for (const struct mram_region *region = mram->used; region != NULL; region = region->next) {
        widest = region->offset - end > widest ? region->offset - end : widest;
        end = region->offset + region->bytes;
    }
    return mram->size - end > widest ? mram->size - end : widest;
}

/* ---- slices --------------------------------------------------------------------- */

struct slices slices_of(const bfv_ring *ring, uint32_t dpus) {
    struct slices slices = {.dpus = dpus};
    slices.per_plane = (ring->n + BFV_UNIT - 1) / BFV_UNIT;
    slices.total = ring->count * slices.per_plane;
    slices.units = (slices.total + dpus - 1) / dpus;
    slices.wide = slices.total - dpus * (slices.units - 1);
    return slices;
}

uint32_t slices_first(const struct slices *slices, uint32_t dpu) {
    const uint32_t narrow = dpu < slices->wide ? 0 : dpu - slices->wide;
    return dpu * slices->units - narrow;
}

uint32_t slices_count(const struct slices *slices, uint32_t dpu) {
    return dpu < slices->wide ? slices->units : slices->units - 1;
}

uint32_t slices_owner(const struct slices *slices, uint32_t unit) {
    const uint32_t wide = slices->wide * slices->units;
    return unit < wide ? unit / slices->units : slices->wide + (unit - wide) / (slices->units - 1);
}

void slices_gather(const struct slices *slices, const bfv_ring *ring, uint32_t dpu, const uint32_t *x,
                   uint32_t parts, uint32_t *out) {
    const uint32_t first = slices_first(slices, dpu), count = slices_count(slices, dpu);
    const size_t poly = ring_poly_words(ring), unit = ring->n < BFV_UNIT ? ring->n : (size_t)BFV_UNIT;
    for (uint32_t p = 0; p < parts; p++) {
        const uint32_t *from = x + p * poly + first * unit;
        uint32_t *to = out + (size_t)p * BFV_UNIT;
        if (unit == BFV_UNIT) {
            for (uint32_t u = 0; u < count; u++, from += BFV_UNIT, to += (size_t)parts * BFV_UNIT) {
                memcpy(to, from, BFV_UNIT_BYTES);
            }
        } else {
            for (uint32_t u = 0; u < count; u++, from += unit, to += (size_t)parts * BFV_UNIT) {
                memset(to, 0, BFV_UNIT_BYTES);
                memcpy(to, from, unit * sizeof *to);
            }
        }
    }
    const size_t used = (size_t)count * parts * BFV_UNIT;
    memset(out + used, 0, (slices->units - count) * (size_t)parts * BFV_UNIT_BYTES);
}

void slices_scatter(const struct slices *slices, const bfv_ring *ring, uint32_t dpu, const uint32_t *in,
                    uint32_t parts, uint32_t *x) {
    const uint32_t first = slices_first(slices, dpu), count = slices_count(slices, dpu);
    const size_t poly = ring_poly_words(ring), unit = ring->n < BFV_UNIT ? ring->n : (size_t)BFV_UNIT;
    for (uint32_t p = 0; p < parts; p++) {
        for (uint32_t u = 0; u < count; u++) {
            memcpy(x + p * poly + (first + u) * unit, in + ((size_t)u * parts + p) * BFV_UNIT,
                   unit * sizeof *x);
        }
    }
}
