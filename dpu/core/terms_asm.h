/* The DPU's bodies of terms.h, included by it alone; their twins in C stand there. tests/dpu runs the text of
 * these statements against the twins, and counts.
 *
 * Accumulated words sit in odd registers, all but one, and factors, their halves and the product that is
 * added, r14, in even ones: two sources of equal parity may cost a cycle, and so may a source and what the
 * instruction before wrote.
 *
 *     t0 m0 h0  t1 m1 h1  t2 m2 h2      a0 or c0   a1 or c1   b0   b1   halves
 *     r1 r3 r5  r7 r9 r11 r13 r15 r12   r2         r4         r6   r8   r10, r0
 *
 * The pair d2 is r2 and r3, free once the last term is added and the first sum put together.
 */
#ifndef PYBFV_TERMS_ASM_H
#define PYBFV_TERMS_ASM_H

/* clang-format off */
/* (t, m, h) += a^2; ah: a >> 16. 20 instructions. */
#define TERMS_SQR(t, m, h, a, ah)                                            \
    W3(mul_ul_ul, "r14", a, a)    W3(add, t, t, "r14")                       \
    W3(mul_ul_uh, "r14", a, a)    W4(lsl_add, t, t, "r14", 9)                \
    W3(mul_uh_uh, "r14", a, a)    W3(add, m, m, "r14")                       \
    W3(mul_ul_ul, "r14", a, ah)   W4(lsl_add, m, m, "r14", 1)                \
    W3(mul_ul_uh, "r14", a, ah)   W4(lsl_add, m, m, "r14", 9)                \
    W3(mul_uh_ul, "r14", a, ah)   W4(lsl_add, m, m, "r14", 9)                \
    W3(mul_ul_ul, "r14", ah, ah)  W3(add, h, h, "r14")                       \
    W3(mul_uh_uh, "r14", a, ah)   W4(lsl_add, h, h, "r14", 1)                \
    W3(mul_ul_uh, "r14", ah, ah)  W4(lsl_add, h, h, "r14", 9)                \
    W3(mul_uh_uh, "r14", ah, ah)  W4(lsl_add, h, h, "r14", 16)
/* (t, m, h) += a b; ah, bh: their upper halves. 32 instructions. */
#define TERMS_MAC(t, m, h, a, ah, b, bh)                                     \
    W3(mul_ul_ul, "r14", a, b)    W3(add, t, t, "r14")                       \
    W3(mul_ul_uh, "r14", a, b)    W4(lsl_add, t, t, "r14", 8)                \
    W3(mul_uh_ul, "r14", a, b)    W4(lsl_add, t, t, "r14", 8)                \
    W3(mul_uh_uh, "r14", a, b)    W3(add, m, m, "r14")                       \
    W3(mul_ul_ul, "r14", a, bh)   W3(add, m, m, "r14")                       \
    W3(mul_ul_ul, "r14", ah, b)   W3(add, m, m, "r14")                       \
    W3(mul_ul_uh, "r14", a, bh)   W4(lsl_add, m, m, "r14", 8)                \
    W3(mul_uh_ul, "r14", a, bh)   W4(lsl_add, m, m, "r14", 8)                \
    W3(mul_ul_uh, "r14", ah, b)   W4(lsl_add, m, m, "r14", 8)                \
    W3(mul_uh_ul, "r14", ah, b)   W4(lsl_add, m, m, "r14", 8)                \
    W3(mul_ul_ul, "r14", ah, bh)  W3(add, h, h, "r14")                       \
    W3(mul_uh_uh, "r14", a, bh)   W3(add, h, h, "r14")                       \
    W3(mul_uh_uh, "r14", ah, b)   W3(add, h, h, "r14")                       \
    W3(mul_ul_uh, "r14", ah, bh)  W4(lsl_add, h, h, "r14", 8)                \
    W3(mul_uh_ul, "r14", ah, bh)  W4(lsl_add, h, h, "r14", 8)                \
    W3(mul_uh_uh, "r14", ah, bh)  W4(lsl_add, h, h, "r14", 16)
#define TERMS_CLEAR(t, m, h) "move " t ", 0\n\t" "move " m ", 0\n\t" "move " h ", 0\n\t"
/* The 64-bit word at s + `at` += (t, m, h). 7 instructions. */
#define TERMS_FOLD(at, t, m, h)                                              \
    W_JOIN(h, t, m, "r14")                                                   \
    "ld d2, %[s], " #at "\n\t" W3(add, "r3", "r3", t)                        \
    W3(addc, "r2", "r2", h) "sd %[s], " #at ", d2\n\t"
#define TERMS_NEXT "add %[x], %[x], %[next]\n\t" "sub r14, %[x], %[end], nz, 1b\n\t"
#define TERMS_0 "r1", "r3", "r5"
#define TERMS_1 "r7", "r9", "r11"
#define TERMS_2 "r13", "r15", "r12"
#define TERMS_APPLY(macro, ...) macro(__VA_ARGS__)
#define TERMS_BEGIN                                                          \
    TERMS_APPLY(TERMS_CLEAR, TERMS_0) TERMS_APPLY(TERMS_CLEAR, TERMS_1)      \
    TERMS_APPLY(TERMS_CLEAR, TERMS_2) "1:\n\t"
#define TERMS_END                                                            \
    TERMS_APPLY(TERMS_FOLD, 0, TERMS_0) TERMS_APPLY(TERMS_FOLD, 64, TERMS_1) \
    TERMS_APPLY(TERMS_FOLD, 128, TERMS_2)
#define TERMS_SQUARES                                                        \
    TERMS_BEGIN "lw r2, %[x], 0\n\t" "lw r4, %[x], 32\n\t"                   \
    W_HALF("r10", "r2") TERMS_APPLY(TERMS_SQR, TERMS_0, "r2", "r10")         \
    W_HALF("r10", "r4") TERMS_APPLY(TERMS_SQR, TERMS_2, "r4", "r10")         \
    W3(add, "r2", "r2", "r4")                                                \
    W_HALF("r10", "r2") TERMS_APPLY(TERMS_SQR, TERMS_1, "r2", "r10")         \
    TERMS_NEXT TERMS_END
#define TERMS_PRODUCTS                                                       \
    TERMS_BEGIN "lw r2, %[x], 0\n\t" "lw r6, %[y], 0\n\t"                  \
    W_HALF("r10", "r2") W_HALF("r0", "r6")                                   \
    TERMS_APPLY(TERMS_MAC, TERMS_0, "r2", "r10", "r6", "r0")                 \
    "lw r4, %[x], 32\n\t" "lw r8, %[y], 32\n\t"                             \
    W_HALF("r10", "r4") W_HALF("r0", "r8")                                   \
    TERMS_APPLY(TERMS_MAC, TERMS_2, "r4", "r10", "r8", "r0")                 \
    W3(add, "r2", "r2", "r4") W3(add, "r6", "r6", "r8")                      \
    W_HALF("r10", "r2") W_HALF("r0", "r6")                                   \
    TERMS_APPLY(TERMS_MAC, TERMS_1, "r2", "r10", "r6", "r0")                 \
    "add %[y], %[y], %[next]\n\t" TERMS_NEXT TERMS_END
/* clang-format on */

_Static_assert(BFV_UNIT == 8, "the offsets in the text: a unit is 32 bytes, its sums are 64");

/* s0 += c0^2, s1 += (c0 + c1)^2, s2 += c1^2, as terms.h says. 68 instructions a term and 30. */
WIDE_INLINE void terms_square(uint64_t *s, const uint32_t *x, uint32_t next, uint32_t terms) {
    for (const uint32_t *const last = x + BFV_UNIT; x != last; x++, s++) {
        const uint32_t *at = x;
        __asm__ volatile(TERMS_SQUARES
                         : [x] "+&r"(at)
                         : [s] "r"(s), [next] "r"(next * 4), [end] "r"(x + next * terms)
                         : "r1", "r2", "r3", "r4", "r5", "r7", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
                           "memory");
    }
}

/* s0 += a0 b0, s1 += (a0 + a1)(b0 + b1), s2 += a1 b1, as terms.h says. 111 instructions a term and 30. */
WIDE_INLINE void terms_product(uint64_t *s, const uint32_t *x, const uint32_t *y, uint32_t next,
                               uint32_t terms) {
    for (const uint32_t *const last = x + BFV_UNIT; x != last; x++, y++, s++) {
        const uint32_t *at = x, *of = y;
        __asm__ volatile(TERMS_PRODUCTS
                         : [x] "+&r"(at), [y] "+&r"(of)
                         : [s] "r"(s), [next] "r"(next * 4), [end] "r"(x + next * terms)
                         : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12",
                           "r13", "r14", "r15", "memory");
    }
}

/* clang-format off */
/* Two words of a term onto two sums. 3 instructions. */
#define TERMS_PAIR(at, low, high)                                            \
    "ld d14, %[x], " #at "\n\t" W3(add, low, low, "r15") W3(add, high, high, "r14")
/* A sum onto the 64-bit word at s + `at`. 4 instructions. */
#define TERMS_ONTO(at, sum)                                                  \
    "ld d14, %[s], " #at "\n\t" W3(add, "r15", "r15", sum) W3(addc, "r14", "r14", "0") \
    "sd %[s], " #at ", d14\n\t"
#define TERMS_ZERO(x) "move " x ", 0\n\t"
/* Low words are r15 when they are added, high ones r14: their sums have the other parity. */
#define TERMS_SUMS                                                           \
    TERMS_ZERO("r0") TERMS_ZERO("r1") TERMS_ZERO("r2") TERMS_ZERO("r3")      \
    TERMS_ZERO("r4") TERMS_ZERO("r5") TERMS_ZERO("r6") TERMS_ZERO("r7") "1:\n\t" \
    TERMS_PAIR(0, "r0", "r1") TERMS_PAIR(8, "r2", "r3")                      \
    TERMS_PAIR(16, "r4", "r5") TERMS_PAIR(24, "r6", "r7") TERMS_NEXT \
    TERMS_ONTO(0, "r0") TERMS_ONTO(8, "r1") TERMS_ONTO(16, "r2") TERMS_ONTO(24, "r3") \
    TERMS_ONTO(32, "r4") TERMS_ONTO(40, "r5") TERMS_ONTO(48, "r6") TERMS_ONTO(56, "r7")
/* clang-format on */

/* s[j] += the sum of x[j], as terms.h says. 14 instructions a term and 40, for eight words. */
WIDE_INLINE void terms_sum(uint64_t *s, const uint32_t *x, uint32_t next, uint32_t terms) {
    const uint32_t *at = x;
    __asm__ volatile(TERMS_SUMS
                     : [x] "+&r"(at)
                     : [s] "r"(s), [next] "r"(next * 4), [end] "r"(x + next * terms)
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r14", "r15", "memory");
}

#undef TERMS_SQR
#undef TERMS_MAC
#undef TERMS_CLEAR
#undef TERMS_FOLD
#undef TERMS_NEXT
#undef TERMS_0
#undef TERMS_1
#undef TERMS_2
#undef TERMS_APPLY
#undef TERMS_BEGIN
#undef TERMS_END
#undef TERMS_SQUARES
#undef TERMS_PRODUCTS
#undef TERMS_PAIR
#undef TERMS_ONTO
#undef TERMS_ZERO
#undef TERMS_SUMS

#endif
