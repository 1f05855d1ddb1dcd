/* The DPU's bodies of wide.h, included by it alone: one asm statement each, whose twin in C stands there.
 *
 * tests/dpu runs the text of these statements, instruction by instruction, against the twins, and counts.
 * What that cannot see: operands that the compiler places. "=&r" for all that is written before the last
 * input is read; a pair d2k is r(2k), the high word, and r(2k + 1); a pair whose words are named must be
 * pinned.
 */
#ifndef PYBFV_CORE_WIDE_ASM_H
#define PYBFV_CORE_WIDE_ASM_H

/* One instruction per macro: W3 "op c, a, b", W4 "op c, b, a, shift" for c = b + (a << shift). */
/* clang-format off */
#define W3(op, c, a, b) #op " " c ", " a ", " b "\n\t"
#define W4(op, c, b, a, shift) #op " " c ", " b ", " a ", " #shift "\n\t"
#define W_HALF(ah, a) W3(lsr, ah, a, "16")
#define W_T(t, x, a, b)                                      \
    W3(mul_ul_ul, t, a, b)                                   \
    W3(mul_ul_uh, x, a, b)   W4(lsl_add, t, t, x, 8)         \
    W3(mul_uh_ul, x, a, b)   W4(lsl_add, t, t, x, 8)
#define W_COLUMN3(m, x, a, ah, b, bh)                        \
    W3(mul_ul_uh, m, a, bh)                                  \
    W3(mul_uh_ul, x, a, bh)  W3(add, m, m, x)                \
    W3(mul_ul_uh, x, ah, b)  W3(add, m, m, x)                \
    W3(mul_uh_ul, x, ah, b)  W3(add, m, m, x)
#define W_M(m, x, a, ah, b, bh)                              \
    W_COLUMN3(m, x, a, ah, b, bh)                            \
    W3(mul_ul_ul, x, a, bh)  W4(lsl_add, m, x, m, 8)         \
    W3(mul_uh_uh, x, a, b)   W3(add, m, m, x)                \
    W3(mul_ul_ul, x, ah, b)  W3(add, m, m, x)
#define W_H(h, x, a, ah, b, bh)                              \
    W3(mul_uh_uh, h, ah, bh)                                 \
    W3(mul_ul_uh, x, ah, bh) W4(lsl_add, h, x, h, 8)         \
    W3(mul_uh_ul, x, ah, bh) W3(add, h, h, x)                \
    W3(mul_ul_ul, x, ah, bh) W4(lsl_add, h, x, h, 8)         \
    W3(mul_uh_uh, x, a, bh)  W3(add, h, h, x)                \
    W3(mul_uh_uh, x, ah, b)  W3(add, h, h, x)
#define W_JOIN(h, l, m, x)                                   \
    W4(lsr_add, x, m, l, 16)                                 \
    W4(lsl_add, l, l, m, 16)                                 \
    W4(lsr_add, h, h, x, 16)
#define W_T_SQR(t, x, a)                                     \
    W3(mul_ul_ul, t, a, a)                                   \
    W3(mul_ul_uh, x, a, a)   W4(lsl_add, t, t, x, 9)
#define W_M_SQR(m, x, a, ah)                                 \
    W3(mul_ul_uh, m, a, ah)                                  \
    W3(mul_uh_ul, x, a, ah)  W3(add, m, m, x)                \
    W3(mul_ul_ul, x, a, ah)  W4(lsl_add, m, x, m, 8)         \
    W3(mul_uh_uh, x, a, a)   W4(lsl_add, m, x, m, 1)
#define W_H_SQR(h, x, a, ah)                                 \
    W3(mul_uh_uh, h, ah, ah)                                 \
    W3(mul_ul_uh, x, ah, ah) W4(lsl_add, h, x, h, 7)         \
    W3(mul_uh_uh, x, a, ah)  W4(lsl_add, h, x, h, 8)         \
    W3(mul_ul_ul, x, ah, ah) W4(lsl_add, h, x, h, 1)
#define W_HIGH(q, m, xe, xo, a, ah, b, bh)                   \
    W_COLUMN3(m, xe, a, ah, b, bh)                           \
    W_H(q, xo, a, ah, b, bh) W4(lsr_add, q, q, m, 8)
#define W_LOW(r, x, a, ah, b, bh)                            \
    W_M(r, x, a, ah, b, bh)                                  \
    W3(mul_ul_uh, x, a, b)   W4(lsl_add, r, x, r, 8)         \
    W3(mul_uh_ul, x, a, b)   W3(add, r, r, x)                \
    W3(mul_ul_ul, x, a, b)   W4(lsl_add, r, x, r, 8)
#define W_MINUS(r, t, x, q, c)                               \
    W3(mul_ul_uh, t, q, c)                                   \
    W3(mul_uh_ul, x, q, c)   W3(add, t, t, x)                \
    "mul_ul_ul " x ", " c ", " q ", spl, 1f\n\t"             \
    W4(lsl_sub, r, r, q, 15)                                 \
    "1:\n\t"                                                 \
    W4(lsl_add, t, x, t, 8)  W4(lsl_sub, r, r, t, 16)        \
    W3(sub, r, r, q)
#define W_SHOUP(r, q, y, yh, w, wh, v, vh, c, xe, xo)        \
    W_HALF(yh, y)                                            \
    W_HIGH(q, r, xe, xo, y, yh, v, vh)                       \
    W_LOW(r, xe, y, yh, w, wh)                               \
    W_MINUS(r, yh, xo, q, c)
/* clang-format on */

/* a b. In, Out: any words. The pair d2 is r2 (high), r3 (low); a and its half sit in even registers,
 * b and its half in odd ones, because two sources of equal parity cost a cycle. */
WIDE_INLINE uint64_t wide_mul(uint32_t a_, uint32_t b_) {
    register uint64_t r __asm__("d2");
    register uint32_t a __asm__("r4") = a_, ah __asm__("r6"), even __asm__("r8"), m __asm__("r10");
    register uint32_t b __asm__("r5") = b_, bh __asm__("r7"), odd __asm__("r9");
    __asm__(W_HALF("%[ah]", "%[a]") W_HALF("%[bh]", "%[b]") W_T("r3", "%[e]", "%[a]", "%[b]")
                W_M("%[m]", "%[o]", "%[a]", "%[ah]", "%[b]", "%[bh]")
                    W_H("r2", "%[o]", "%[a]", "%[ah]", "%[b]", "%[bh]") W_JOIN("r2", "r3", "%[m]", "%[o]")
            : "=&r"(r), [ah] "=&r"(ah), [bh] "=&r"(bh), [m] "=&r"(m), [e] "=&r"(even), [o] "=&r"(odd)
            : [a] "r"(a), [b] "r"(b));
    return r;
}

/* a^2. In, Out: any words. */
WIDE_INLINE uint64_t wide_sqr(uint32_t a) {
    register uint64_t r __asm__("d2");
    uint32_t ah, m, x;
    __asm__(W_HALF("%[ah]", "%[a]") W_T_SQR("r3", "%[x]", "%[a]") W_M_SQR("%[m]", "%[x]", "%[a]", "%[ah]")
                W_H_SQR("r2", "%[x]", "%[a]", "%[ah]") W_JOIN("r2", "r3", "%[m]", "%[x]")
            : "=&r"(r), [ah] "=&r"(ah), [m] "=&r"(m), [x] "=&r"(x)
            : [a] "r"(a));
    return r;
}

/* sum + a b. In: sum + a b < 2^64. */
WIDE_INLINE uint64_t wide_mac(uint64_t sum, uint32_t a, uint32_t b) {
    register uint64_t r __asm__("d2") = sum;
    uint32_t ah, bh, m, x, h, l;
    __asm__(W_HALF("%[ah]", "%[a]") W_HALF("%[bh]", "%[b]") W_T("%[l]", "%[x]", "%[a]", "%[b]")
                W_M("%[m]", "%[x]", "%[a]", "%[ah]", "%[b]", "%[bh]")
                    W_H("%[h]", "%[x]", "%[a]", "%[ah]", "%[b]", "%[bh]")
                        W_JOIN("%[h]", "%[l]", "%[m]", "%[x]") W3(add, "r3", "r3", "%[l]")
                            W3(addc, "r2", "r2", "%[h]")
            : "+&r"(r), [ah] "=&r"(ah), [bh] "=&r"(bh), [m] "=&r"(m), [x] "=&r"(x), [h] "=&r"(h), [l] "=&r"(l)
            : [a] "r"(a), [b] "r"(b));
    return r;
}

/* sum + a^2. In: sum + a^2 < 2^64. */
WIDE_INLINE uint64_t wide_sqr_mac(uint64_t sum, uint32_t a) {
    register uint64_t r __asm__("d2") = sum;
    uint32_t ah, m, x, h, l;
    __asm__(W_HALF("%[ah]", "%[a]") W_T_SQR("%[l]", "%[x]", "%[a]") W_M_SQR("%[m]", "%[x]", "%[a]", "%[ah]")
                W_H_SQR("%[h]", "%[x]", "%[a]", "%[ah]") W_JOIN("%[h]", "%[l]", "%[m]", "%[x]")
                    W3(add, "r3", "r3", "%[l]") W3(addc, "r2", "r2", "%[h]")
            : "+&r"(r), [ah] "=&r"(ah), [m] "=&r"(m), [x] "=&r"(x), [h] "=&r"(h), [l] "=&r"(l)
            : [a] "r"(a));
    return r;
}

/* The value of s. In: t, m, h of at most WIDE_LAZY_TERMS terms: then m + (t >> 16) < 2^32. */
WIDE_INLINE uint64_t wide_lazy_fold(struct wide_lazy s) {
    register uint64_t r __asm__("d2");
    uint32_t x;
    __asm__(W4(lsr_add, "%[x]", "%[m]", "%[t]", 16) W4(lsl_add, "r3", "%[t]", "%[m]", 16)
                W4(lsr_add, "r2", "%[h]", "%[x]", 16)
            : "=&r"(r), [x] "=&r"(x)
            : [t] "r"(s.t), [m] "r"(s.m), [h] "r"(s.h));
    return r;
}

/* y w mod p: see wide.h. p = 1 + 2^15 b + 2^16 c, so that only q c, 16 bits of it, is a product: q p takes 7
 * instructions in place of the 21 of wide_lo, or 8 where b = 1. b is the sign of the register that holds c:
 * the last multiplication tests it, and a product of bytes does not read it.
 * 46 or 47 instructions. One code for all primes: with the shifts of one prime in the text it would be 42. */
WIDE_INLINE uint32_t wide_shoup_lazy(uint32_t y_, uint32_t w_, uint32_t w_shoup, uint32_t p) {
    register uint32_t y __asm__("r4") = y_, yh __asm__("r6"), q __asm__("r8"), even __asm__("r10");
    register uint32_t v __asm__("r1") = w_shoup, vh __asm__("r3") = w_shoup >> 16;
    register uint32_t w __asm__("r5") = w_, wh __asm__("r7") = w_ >> 16;
    register uint32_t r __asm__("r9"), odd __asm__("r11");
    __asm__(W_SHOUP("%[r]", "%[q]", "%[y]", "%[yh]", "%[w]", "%[wh]", "%[v]", "%[vh]", "%[c]", "%[e]", "%[o]")
            : [r] "=&r"(r), [q] "=&r"(q), [yh] "=&r"(yh), [e] "=&r"(even), [o] "=&r"(odd)
            : [y] "r"(y), [w] "r"(w), [wh] "r"(wh), [v] "r"(v), [vh] "r"(vh), [c] "r"(wide_proth(p)));
    return r;
}

#endif
