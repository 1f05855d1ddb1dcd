/* Part of kernels_body.h: ciphertexts at points (kernels.h). As there, several terms in one pass. */

/* wide += x_0 + s x_1 + s^2 x_2 over `terms` (1 or 4) terms; x_2 may be NULL. */
static inline void point_sum_terms(uint64_t *restrict wide, const uint32_t *restrict x0,
                                   const uint32_t *restrict x1, const uint32_t *restrict x2,
                                   const uint32_t *restrict s, size_t stride, size_t terms, size_t width) {
    if (x2 == NULL) {
        for (size_t c = 0; c < width; c++) {
            uint64_t sum0 = 0, sum1 = 0;
            for (size_t k = 0; k < terms; k++) {
                sum0 += x0[k * stride + c];
                sum1 += x1[k * stride + c];
            }
            wide[c] += sum0 + s[c] * sum1;
        }
        return;
    }
    for (size_t c = 0; c < width; c++) {
        uint64_t sum = 0;
        for (size_t k = 0; k < terms; k++) {
            sum += x0[k * stride + c] + s[c] * (x1[k * stride + c] + (uint64_t)s[c] * x2[k * stride + c]);
        }
        wide[c] += sum;
    }
}

static void body_point_sum(uint32_t *state, const uint32_t *const x[3], const uint32_t *s, size_t stride,
                           uint64_t count, size_t width, const struct bfv_prime *prime) {
    _Alignas(64) uint64_t wide[ACC_BLOCK];
    memset(wide, 0, width * sizeof wide[0]);
    for (uint64_t k = 0, held = 0; k < count;) {
        const size_t terms = count - k >= 4 ? 4 : 1, at = (size_t)k * stride;
        const uint32_t *const x2 = x[2] == NULL ? NULL : x[2] + at;
        if (terms == 4) {
            point_sum_terms(wide, x[0] + at, x[1] + at, x2, s, stride, 4, width);
        } else {
            point_sum_terms(wide, x[0] + at, x[1] + at, x2, s, stride, 1, width);
        }
        k += terms;
        held += terms;
        if (held >= POINT_SUMS) {
            settle(state, wide, width, &prime->mod);
            held = 0;
        }
    }
    settle(state, wide, width, &prime->mod);
}

/* wide += a(s) b(s) over `terms` (1 or 4) terms. */
static inline void point_mul_terms(uint64_t *restrict wide, const uint32_t *restrict a0,
                                   const uint32_t *restrict a1, const uint32_t *restrict b0,
                                   const uint32_t *restrict b1, const uint32_t *restrict s, size_t stride,
                                   size_t terms, size_t width) {
    for (size_t c = 0; c < width; c++) {
        uint64_t sum = wide[c];
        for (size_t k = 0; k < terms; k++) {
            const uint32_t x = a0[k * stride + c] + s[c] * a1[k * stride + c];
            const uint32_t y = b0[k * stride + c] + s[c] * b1[k * stride + c];
            sum += (uint64_t)x * y;
        }
        wide[c] = sum;
    }
}

static inline void point_square_terms(uint64_t *restrict wide, const uint32_t *restrict a0,
                                      const uint32_t *restrict a1, const uint32_t *restrict s, size_t stride,
                                      size_t terms, size_t width) {
    for (size_t c = 0; c < width; c++) {
        uint64_t sum = wide[c];
        for (size_t k = 0; k < terms; k++) {
            const uint32_t x = a0[k * stride + c] + s[c] * a1[k * stride + c];
            sum += (uint64_t)x * x;
        }
        wide[c] = sum;
    }
}

static void body_point_mul(uint32_t *state, const uint32_t *const a[2], const uint32_t *const b[2],
                           const uint32_t *s, uint64_t limit, size_t stride, uint64_t count, size_t width,
                           const struct bfv_prime *prime) {
    _Alignas(64) uint64_t wide[ACC_BLOCK];
    const bool square = a[0] == b[0] && a[1] == b[1];
    memset(wide, 0, width * sizeof wide[0]);
    for (uint64_t k = 0, held = 0; k < count;) {
        const size_t terms = limit >= 4 && count - k >= 4 ? 4 : 1, at = (size_t)k * stride;
        if (held + terms > limit) {
            settle(state, wide, width, &prime->mod);
            held = 0;
        }
        if (square && terms == 4) {
            point_square_terms(wide, a[0] + at, a[1] + at, s, stride, 4, width);
        } else if (square) {
            point_square_terms(wide, a[0] + at, a[1] + at, s, stride, 1, width);
        } else if (terms == 4) {
            point_mul_terms(wide, a[0] + at, a[1] + at, b[0] + at, b[1] + at, s, stride, 4, width);
        } else {
            point_mul_terms(wide, a[0] + at, a[1] + at, b[0] + at, b[1] + at, s, stride, 1, width);
        }
        k += terms;
        held += terms;
    }
    settle(state, wide, width, &prime->mod);
}
