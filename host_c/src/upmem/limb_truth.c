/* The truth about a task's results, share by share: who is asked for it knows that some share is wrong. */
#include <string.h>

#include "check.h"
#include "limb_family.h"

uint32_t *limb_truth_alloc(const struct upmem *upmem) {
    return buffer_alloc(BFV_MAX_PARTS * ring_poly_words(upmem->backend->ring) * sizeof(uint32_t));
}

/* h J in NTT form, by which the operands of integer tasks are shifted (limb_scaled.c). */
static int shift_of(const struct upmem *upmem, uint32_t *out) {
    const struct limb_family *family = limb_family_of(upmem);
    const bfv_ring *ring = family->form.ring;
    for (size_t k = 0; k < ring_poly_words(ring); k++) {
        out[k] = limb_residue(family->half, family->form.limbs, &ring->prime[k / ring->n].mod);
    }
    return bfv_ntt_forward(ring, out, 1);
}

int limb_truth(struct upmem *upmem, const struct limb_task *task, uint64_t first, uint64_t count,
               uint32_t *out) {
    const bfv_ring *ring = upmem->backend->ring;
    const struct limb_origin *origin = &task->origin;
    const struct check exact = {.full = true};
    const size_t poly = ring_poly_words(ring), skip = (size_t)first * origin->stride;
    const uint32_t polys = origin->b == NULL ? origin->parts : 3;
    struct check_terms terms = {.ring = ring,
                                .a = origin->a + skip,
                                .b = origin->b == NULL ? NULL : origin->b + skip,
                                .parts = origin->parts,
                                .words = count > 1 ? origin->stride : 0,
                                .count = count};
    int status = BFV_OK;
    memset(out, 0, polys * poly * sizeof *out);
    if (!task->integer) {
        check_add(upmem, &exact, out, &terms);
        return bfv_ntt_inverse(ring, out, polys);
    }
    uint32_t *space = buffer_alloc(5 * poly * sizeof *space), *shift = space + 4 * poly;
    status = space == NULL ? BFV_E_MEMORY : shift_of(upmem, shift);
    for (uint64_t k = 0; status == BFV_OK && k < count; k++) {
        for (uint32_t p = 0; p < 2; p++) {
            (void)bfv_poly_add(ring, origin->a + skip + k * origin->stride + p * poly, shift, 1,
                               space + p * poly);
            (void)bfv_poly_add(ring, origin->b + skip + k * origin->stride + p * poly, shift, 1,
                               space + (2 + p) * poly);
        }
        terms.a = space;
        terms.b = space + 2 * poly;
        terms.words = 0;
        terms.count = 1;
        check_add(upmem, &exact, out, &terms);
    }
    buffer_free(space);
    return status == BFV_OK ? bfv_ntt_inverse(ring, out, polys) : status;
}

bool limb_is_true(const struct upmem *upmem, const struct limb_task *task, const uint32_t *truth,
                  uint32_t first, uint32_t length, const uint32_t *x) {
    const bfv_ring *ring = upmem->backend->ring;
    const uint32_t words = limb_result_words(upmem, task);
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct zq_mod *mod = &ring->prime[i].mod;
        uint32_t top = zq_reduce64(1, mod); /* 2^(32 words) */
        for (uint32_t k = 0; k < words; k++) {
            top = zq_reduce64((uint64_t)top << 32, mod);
        }
        for (uint32_t c = 0; c < length; c++) {
            const uint32_t *value = x + (size_t)c * words;
            uint32_t r = limb_residue(value, words, mod);
            if (task->integer && value[words - 1] >> 31 != 0) {
                r = zq_sub(r, top, mod->p);
            }
            if (r != truth[(size_t)i * ring->n + first + c]) {
                return false;
            }
        }
    }
    return true;
}
