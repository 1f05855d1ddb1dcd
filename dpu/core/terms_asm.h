/* The DPU's bodies of terms.h, included by it alone; their twins in C stand there. tests/dpu runs the text of
 * these statements against the twins, and counts.
 *
 * Accumulated words sit in odd registers where there are enough, and the product that is added, r14, is even:
 * two sources of equal parity cost a cycle. d14 is r14 and r15, both free once the last term is added.
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
    "ld d14, %[s], " #at "\n\t" W3(add, "r15", "r15", t)                     \
    W3(addc, "r14", "r14", h) "sd %[s], " #at ", d14\n\t"
#define TERMS_NEXT(step) "add %[x], %[x], " step "\n\t" "sub r14, %[x], %[end], nz, 1b\n\t"
/* clang-format on */

/* The accumulated words; offsets of the three sums are BFV_UNIT words of 64 bits. */
#define TERMS_WORDS_HELD                                                                                     \
    register uint32_t t0 __asm__("r1"), m0 __asm__("r3"), h0 __asm__("r5");                                  \
    register uint32_t t1 __asm__("r7"), m1 __asm__("r9"), h1 __asm__("r11"), t2 __asm__("r13");              \
    uint32_t m2, h2
#define TERMS_OUT                                                                                            \
    [t0] "=&r"(t0), [m0] "=&r"(m0), [h0] "=&r"(h0), [t1] "=&r"(t1), [m1] "=&r"(m1), [h1] "=&r"(h1),          \
        [t2] "=&r"(t2), [m2] "=&r"(m2), [h2] "=&r"(h2)
#define TERMS_0 "%[t0]", "%[m0]", "%[h0]"
#define TERMS_1 "%[t1]", "%[m1]", "%[h1]"
#define TERMS_2 "%[t2]", "%[m2]", "%[h2]"
#define TERMS_APPLY(macro, ...) macro(__VA_ARGS__)

_Static_assert(BFV_UNIT == 16, "the offsets in the text: 64 and 128 bytes");

/* s0 += c0^2, s1 += (c0 + c1)^2, s2 += c1^2, as terms.h says. 68 instructions a term and 30. */
WIDE_INLINE void terms_square(uint64_t *s, const uint32_t *x, uint32_t terms) {
    for (const uint32_t *const last = x + BFV_UNIT; x != last; x++, s++) {
        TERMS_WORDS_HELD;
        const uint32_t *at = x;
        register uint32_t a __asm__("r12"), b __asm__("r10");
        __asm__ volatile(
            TERMS_APPLY(TERMS_CLEAR, TERMS_0) TERMS_APPLY(TERMS_CLEAR, TERMS_1) TERMS_APPLY(
                TERMS_CLEAR, TERMS_2) "1:\n\tlw %[a], %[x], 0\n\tlw %[b], %[x], 64\n\t" W_HALF("r15", "%[a]")
                TERMS_APPLY(TERMS_SQR, TERMS_0, "%[a]", "r15") W_HALF("r15", "%[b]")
                    TERMS_APPLY(TERMS_SQR, TERMS_2, "%[b]", "r15") W3(add, "%[a]", "%[a]", "%[b]")
                        W_HALF("r15", "%[a]") TERMS_APPLY(TERMS_SQR, TERMS_1, "%[a]", "r15") TERMS_NEXT("128")
                            TERMS_APPLY(TERMS_FOLD, 0, TERMS_0) TERMS_APPLY(TERMS_FOLD, 128, TERMS_1)
                                TERMS_APPLY(TERMS_FOLD, 256, TERMS_2)
            : [x] "+&r"(at), TERMS_OUT, [a] "=&r"(a), [b] "=&r"(b)
            : [s] "r"(s), [end] "r"(x + terms * TERMS_SQUARE)
            : "r14", "r15", "memory");
    }
}

/* s0 += a0 b0, s1 += (a0 + a1)(b0 + b1), s2 += a1 b1, as terms.h says. 110 instructions a term and 30. */
WIDE_INLINE void terms_product(uint64_t *s, const uint32_t *x, uint32_t terms) {
    for (const uint32_t *const last = x + BFV_UNIT; x != last; x++, s++) {
        TERMS_WORDS_HELD;
        const uint32_t *at = x;
        register uint32_t a0 __asm__("r12"), a1 __asm__("r10"), bh __asm__("r8");
        uint32_t b0, b1;
        __asm__ volatile(
            TERMS_APPLY(TERMS_CLEAR, TERMS_0) TERMS_APPLY(TERMS_CLEAR, TERMS_1)
                TERMS_APPLY(TERMS_CLEAR, TERMS_2) "1:\n\tlw %[a0], %[x], 0\n\tlw %[b0], %[x], 128\n\t" W_HALF(
                    "r15", "%[a0]") W_HALF("%[bh]", "%[b0]")
                    TERMS_APPLY(TERMS_MAC, TERMS_0, "%[a0]", "r15", "%[b0]",
                                "%[bh]") "lw %[a1], %[x], 64\n\tlw %[b1], %[x], 192\n\t" W_HALF("r15",
                                                                                                "%[a1]")
                        W_HALF("%[bh]", "%[b1]") TERMS_APPLY(TERMS_MAC, TERMS_2, "%[a1]", "r15", "%[b1]",
                                                             "%[bh]") W3(add, "%[a0]", "%[a0]", "%[a1]")
                            W3(add, "%[b0]", "%[b0]", "%[b1]") W_HALF("r15", "%[a0]") W_HALF("%[bh]", "%[b0]")
                                TERMS_APPLY(TERMS_MAC, TERMS_1, "%[a0]", "r15", "%[b0]", "%[bh]")
                                    TERMS_NEXT("256") TERMS_APPLY(TERMS_FOLD, 0, TERMS_0)
                                        TERMS_APPLY(TERMS_FOLD, 128, TERMS_1)
                                            TERMS_APPLY(TERMS_FOLD, 256, TERMS_2)
            : [x] "+&r"(at),
              TERMS_OUT, [a0] "=&r"(a0), [a1] "=&r"(a1), [b0] "=&r"(b0), [b1] "=&r"(b1), [bh] "=&r"(bh)
            : [s] "r"(s), [end] "r"(x + terms * TERMS_PRODUCT)
            : "r14", "r15", "memory");
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
/* clang-format on */

/* s[j] += the sum of x[j], as terms.h says. 14 instructions a term and 40, for eight words. */
WIDE_INLINE void terms_sum(uint64_t *s, const uint32_t *x, uint32_t next, uint32_t terms) {
    uint32_t s0, s1, s2, s3, s4, s5, s6, s7;
    const uint32_t *at = x;
    __asm__ volatile("move %[s0], 0\n\tmove %[s1], 0\n\tmove %[s2], 0\n\tmove %[s3], 0\n\t"
                     "move %[s4], 0\n\tmove %[s5], 0\n\tmove %[s6], 0\n\tmove %[s7], 0\n\t"
                     "1:\n\t" TERMS_PAIR(0, "%[s0]", "%[s1]") TERMS_PAIR(8, "%[s2]", "%[s3]")
                         TERMS_PAIR(16, "%[s4]", "%[s5]") TERMS_PAIR(24, "%[s6]", "%[s7]")
                             TERMS_NEXT("%[next]") TERMS_ONTO(0, "%[s0]") TERMS_ONTO(8, "%[s1]")
                                 TERMS_ONTO(16, "%[s2]") TERMS_ONTO(24, "%[s3]") TERMS_ONTO(32, "%[s4]")
                                     TERMS_ONTO(40, "%[s5]") TERMS_ONTO(48, "%[s6]") TERMS_ONTO(56, "%[s7]")
                     : [x] "+&r"(at), [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3),
                       [s4] "=&r"(s4), [s5] "=&r"(s5), [s6] "=&r"(s6), [s7] "=&r"(s7)
                     : [s] "r"(s), [next] "r"(next * 4), [end] "r"(x + next * terms)
                     : "r14", "r15", "memory");
}

#undef TERMS_SQR
#undef TERMS_MAC
#undef TERMS_CLEAR
#undef TERMS_FOLD
#undef TERMS_NEXT
#undef TERMS_WORDS_HELD
#undef TERMS_OUT
#undef TERMS_0
#undef TERMS_1
#undef TERMS_2
#undef TERMS_APPLY
#undef TERMS_PAIR
#undef TERMS_ONTO

#endif
