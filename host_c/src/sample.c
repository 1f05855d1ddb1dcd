/* Randomness into polynomials, and encryption under a public key. The random
 * bytes come from the caller; what they become is part of the file format.
 * Nothing here touches a secret key: the server re-randomises with it too. */
#include "declassify.h"
#include "ring.h"
#include "small.h"
#include "wipe.h"

enum {
    ERROR_BYTES = 6,     /* of one coefficient */
    TERNARY_REJECT = 255 /* the byte values below are 85 of each residue mod 3 */
};

static bool dimension_is_valid(uint32_t n) {
    return n >= BFV_MIN_N && n <= BFV_MAX_N;
}

int bfv_expand_uniform(const bfv_ring *ring, uint32_t index, const uint8_t *stream, size_t bytes,
                       uint32_t *out, uint32_t *filled) {
    if (!ring_is_open(ring) || index >= ring->count || (stream == NULL && bytes != 0) || bytes % 4 != 0 ||
        !is_aligned(out, _Alignof(uint32_t)) || !is_aligned(filled, _Alignof(uint32_t)) ||
        *filled > ring->n || overlaps(stream, bytes, out, ring->n * sizeof *out) ||
        overlaps(stream, bytes, filled, sizeof *filled) ||
        overlaps(out, ring->n * sizeof *out, filled, sizeof *filled)) {
        return BFV_E_ARGUMENT;
    }
    const uint32_t p = ring->prime[index].p;
    const uint32_t mask = (UINT32_C(1) << ring->prime[index].bits) - 1;
    uint32_t next = *filled;
    /* without a branch on the value, which half of the words may fail: a refused
     * one is overwritten by the next */
    for (size_t i = 0; i < bytes && next < ring->n; i += 4) {
        const uint32_t word = (uint32_t)stream[i] | (uint32_t)stream[i + 1] << 8 |
                              (uint32_t)stream[i + 2] << 16 | (uint32_t)stream[i + 3] << 24;
        const uint32_t value = word & mask;
        out[next] = value;
        next += value < p;
    }
    *filled = next;
    return BFV_OK;
}

size_t bfv_ternary_bytes(uint32_t n) {
    return (size_t)n + n / 8 + 64;
}

size_t bfv_error_bytes(uint32_t n) {
    return (size_t)n * ERROR_BYTES;
}

size_t bfv_encrypt_bytes(uint32_t n, uint32_t parts) {
    if (!dimension_is_valid(n) || (parts != 2 && parts != 3)) {
        return 0;
    }
    return (parts - 1) * bfv_ternary_bytes(n) + parts * bfv_error_bytes(n);
}

int bfv_sample_ternary(uint32_t n, const uint8_t *rnd, size_t bytes, int8_t *out) {
    if (!dimension_is_valid(n) || rnd == NULL || out == NULL || overlaps(rnd, bytes, out, n)) {
        return BFV_E_ARGUMENT;
    }
    size_t accepted = 0;
    for (size_t i = 0; i < bytes; i++) {
        accepted += declassify(rnd[i] != TERNARY_REJECT); /* which bytes are rejected */
    }
    if (accepted < n) {
        return BFV_E_RANDOM;
    }
    /* A rejected byte writes too and is overwritten: the addresses tell where
     * rejections are, never a value. */
    uint32_t next = 0;
    for (size_t i = 0; next < n; i++) {
        const uint32_t byte = rnd[i];
        const uint32_t third = (byte * 171) >> 9; /* floor(byte / 3) for byte < 256 */
        out[next] = (int8_t)((int32_t)(byte - 3 * third) - 1);
        next += (uint32_t)declassify(byte != TERNARY_REJECT);
    }
    return BFV_OK;
}

/* Bits set in the low half of x minus those in the high half, each half below 2^21, without tables: sums of
 * 2, 4 and 8 bits; then the product's top byte of a half is the sum of its bytes. */
static int8_t popcount_difference(uint64_t x) {
    x -= (x >> 1) & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + ((x >> 2) & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    const uint32_t low = (uint32_t)x * UINT32_C(0x01010101);
    const uint32_t high = (uint32_t)(x >> 32) * UINT32_C(0x01010101);
    return (int8_t)((int32_t)(low >> 24) - (int32_t)(high >> 24));
}

int bfv_sample_error(uint32_t n, const uint8_t *rnd, size_t bytes, int8_t *out) {
    if (!dimension_is_valid(n) || rnd == NULL || out == NULL || overlaps(rnd, bfv_error_bytes(n), out, n)) {
        return BFV_E_ARGUMENT;
    }
    if (bytes < bfv_error_bytes(n)) {
        return BFV_E_RANDOM;
    }
    const uint64_t mask = (UINT64_C(1) << 21) - 1;
    for (uint32_t k = 0; k < n; k++) {
        const uint8_t *b = rnd + (size_t)k * ERROR_BYTES;
        const uint32_t low =
            (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        const uint64_t word = low | (uint64_t)b[4] << 32 | (uint64_t)b[5] << 40;
        out[k] = popcount_difference((word & mask) | ((word >> 21) & mask) << 32);
    }
    return BFV_OK;
}

/* Work space of an encryption, wiped when it ends. */
struct scratch {
    uint32_t *polys; /* [parts][L][N]: the ternary polynomials, then one product */
    int8_t *ternary; /* [parts - 1][N] */
    int8_t *error;   /* [N] */
    size_t poly_bytes, ternary_bytes, error_bytes;
};

static void scratch_close(struct scratch *w) {
    wipe_and_free(w->polys, w->poly_bytes);
    wipe_and_free(w->ternary, w->ternary_bytes);
    wipe_and_free(w->error, w->error_bytes);
}

/* Takes memory and samples the ternary polynomials, NTT form. */
static int scratch_open(struct scratch *w, const bfv_ring *ring, uint32_t parts, const uint8_t *rnd) {
    const uint32_t n = ring->n;
    const size_t words = ring_poly_words(ring);
    w->poly_bytes = parts * words * sizeof *w->polys;
    w->ternary_bytes = (size_t)(parts - 1) * n;
    w->error_bytes = n;
    w->polys = buffer_alloc(w->poly_bytes);
    w->ternary = buffer_alloc(w->ternary_bytes);
    w->error = buffer_alloc(w->error_bytes);
    int status = w->polys == NULL || w->ternary == NULL || w->error == NULL ? BFV_E_MEMORY : BFV_OK;
    for (uint32_t part = 0; status == BFV_OK && part < parts - 1; part++) {
        int8_t *u = w->ternary + (size_t)part * n;
        status = bfv_sample_ternary(n, rnd + part * bfv_ternary_bytes(n), bfv_ternary_bytes(n), u);
        if (status == BFV_OK) {
            small_add(ring, u, NULL, w->polys + part * words);
        }
    }
    if (status == BFV_OK) {
        status = bfv_ntt_forward(ring, w->polys, parts - 1);
    }
    if (status != BFV_OK) {
        scratch_close(w);
    }
    return status;
}

/* out = NTT(m + e), e from its block of random bytes. */
static int error_poly(struct scratch *w, const bfv_ring *ring, const uint8_t *rnd, const uint32_t *m,
                      uint32_t *out) {
    int status = bfv_sample_error(ring->n, rnd, bfv_error_bytes(ring->n), w->error);
    if (status == BFV_OK) {
        small_add(ring, w->error, m, out);
        status = bfv_ntt_forward(ring, out, 1);
    }
    return status;
}

/* out += a u, NTT form; product: [L][N] work space. */
static int multiply_add(const bfv_ring *ring, const uint32_t *a, const uint32_t *u, uint32_t *product,
                        uint32_t *out) {
    const int status = bfv_poly_mul(ring, a, u, 1, product);
    return status != BFV_OK ? status : bfv_poly_add(ring, out, product, 1, out);
}

/* Both encryptions: part j is the sum of p_i u_k over i + k = j, plus e_j, plus m for j = 0. */
static int encrypt_parts(const bfv_ring *ring, const uint32_t *pk, const uint32_t *m, const uint8_t *rnd,
                         size_t bytes, uint32_t parts, uint32_t *out) {
    if (!ring_is_open(ring) || pk == NULL || rnd == NULL || !is_aligned(out, _Alignof(uint32_t))) {
        return BFV_E_ARGUMENT;
    }
    const size_t words = ring_poly_words(ring);
    const size_t poly_bytes = words * sizeof *out, out_bytes = parts * poly_bytes;
    if (overlaps(pk, 2 * poly_bytes, out, out_bytes) ||
        overlaps(rnd, bfv_encrypt_bytes(ring->n, parts), out, out_bytes) ||
        (m != NULL && overlaps(m, poly_bytes, out, out_bytes))) {
        return BFV_E_ARGUMENT;
    }
    if (bytes < bfv_encrypt_bytes(ring->n, parts)) {
        return BFV_E_RANDOM;
    }
    int status = bfv_check_residues(ring, pk, 2);
    if (status == BFV_OK && m != NULL) {
        status = bfv_check_residues(ring, m, 1);
    }
    struct scratch w = {0};
    if (status == BFV_OK) {
        status = scratch_open(&w, ring, parts, rnd);
    }
    if (status != BFV_OK) {
        return status;
    }
    uint32_t *product = w.polys + (parts - 1) * words;
    const uint8_t *errors = rnd + (parts - 1) * bfv_ternary_bytes(ring->n);
    for (uint32_t j = 0; status == BFV_OK && j < parts; j++) {
        uint32_t *part = out + j * words;
        status = error_poly(&w, ring, errors + j * bfv_error_bytes(ring->n), j == 0 ? m : NULL, part);
        for (uint32_t i = 0; status == BFV_OK && i < 2; i++) {
            if (i <= j && j - i < parts - 1) {
                status = multiply_add(ring, pk + i * words, w.polys + (j - i) * words, product, part);
            }
        }
    }
    scratch_close(&w);
    return status;
}

int bfv_encrypt_public(const bfv_ring *ring, const uint32_t *pk, const uint32_t *m, const uint8_t *rnd,
                       size_t bytes, uint32_t *out) {
    return encrypt_parts(ring, pk, m, rnd, bytes, 2, out);
}

int bfv_encrypt_zero3(const bfv_ring *ring, const uint32_t *pk, const uint8_t *rnd, size_t bytes,
                      uint32_t *out) {
    return encrypt_parts(ring, pk, NULL, rnd, bytes, 3, out);
}
