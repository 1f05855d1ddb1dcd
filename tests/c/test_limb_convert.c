/* host_c/src/upmem/limb_convert.c, which belongs to a plug-in: compiled in here, against division and bits.
 */
#include "test.h"

#include "../../host_c/src/upmem/limb_convert.c"

/* x mod p of `limbs` words, bit by bit. */
static uint32_t slow_mod(const uint32_t *x, uint32_t limbs, uint32_t p) {
    uint32_t r = 0;
    for (uint32_t bit = 32 * limbs; bit-- > 0;) {
        r = (2 * r + (x[bit / 32] >> (bit % 32) & 1)) % p;
    }
    return r;
}

static void check_ring(uint32_t n, const uint32_t *primes, uint32_t count, uint32_t limbs) {
    bfv_ring *ring = test_ring(n, primes, count, NULL);
    struct limb_form form;
    CHECK(limb_count(ring) == limbs);
    CHECK(limb_form_open(ring, &form) == BFV_OK && form.limbs == limbs);
    const size_t words = ring_poly_words(ring);
    uint32_t *x = test_words(words), *space = test_words(words), *back = test_words(words);
    uint32_t *y = test_alloc(limb_poly_words(&form) * sizeof *y);
    uint32_t bad = 0;
    for (uint32_t round = 0; round < 4; round++) {
        random_residues(ring, x, 1);
        limb_from_ntt(&form, x, space, y);
        /* space holds the residues of the coefficients */
        for (uint32_t k = 0; k < n; k++) {
            bad += limb_less(y + k * limbs, form.modulus.q, limbs) == 0;
            for (uint32_t i = 0; i < count; i++) {
                bad += slow_mod(y + k * limbs, limbs, primes[i]) != space[i * n + k];
            }
        }
        bad += limb_to_ntt(&form, y, back) != BFV_OK || memcmp(back, x, words * sizeof *x) != 0;
    }
    /* q - 1 is the greatest that is taken; q changes nothing */
    memset(y, 0, limb_poly_words(&form) * sizeof *y);
    memcpy(y + (n - 1) * limbs, form.modulus.q, limbs * sizeof *y);
    bad += limb_to_ntt(&form, y, back) != BFV_E_RESIDUE || memcmp(back, x, words * sizeof *x) != 0;
    y[(n - 1) * limbs]--;
    bad += limb_to_ntt(&form, y, back) != BFV_OK;
    CHECK(bad == 0);
    free(x);
    free(space);
    free(back);
    free(y);
    bfv_ring_close(ring);
}

void test_limb_conversion(void) {
    static const uint32_t toy[] = {17, 97, 113, 193, 241, 257};
    static const uint32_t full[] = {97, 113, 337, 1009}; /* 32 bits: the sum of two residues needs 33 */
    static const uint32_t limbs[] = {1, 2, 4, 4, 8, 8, 8, 8, 8};
    check_ring(2, toy, 6, 2);
    check_ring(8, toy, 1, 1);
    check_ring(8, toy, 3, 1);
    check_ring(8, full, 4, 2);
    for (uint32_t count = 1; count <= 9; count++) {
        check_ring(16, chain, count, limbs[count - 1]);
    }
    bfv_ring *ring = test_ring(16, chain, 10, NULL);
    struct limb_form form;
    CHECK(limb_count(ring) == 0 && limb_form_open(ring, &form) == BFV_E_UNSUPPORTED);
    bfv_ring_close(ring);
}
