/* The DPU's bodies of limb.h, included by it alone; their twins in C stand there. tests/dpu runs the text of
 * these statements against the twins, and counts.
 */
#ifndef PYBFV_LIMB_ASM_H
#define PYBFV_LIMB_ASM_H

/* ---- chains --------------------------------------------------------------------------------- */

/* d2k is the pair r(2k) (high word), r(2k+1) (low word). */
/* clang-format off */
#define LIMB_PAIR(first, next, at)                                    \
    "ld d4, %[a], " #at "\n\t" "ld d8, %[b], " #at "\n\t"             \
    #first " r5, r5, r9\n\t" #next " r4, r4, r8\n\t"                  \
    "sd %[r], " #at ", d4\n\t"
#define LIMB_CHAIN1(op, opc)                                          \
    "lw r5, %[a], 0\n\t" "lw r9, %[b], 0\n\t"                         \
    #op " r5, r5, r9\n\t" "sw %[r], 0, r5\n\t"
#define LIMB_CHAIN2(op, opc) LIMB_PAIR(op, opc, 0)
#define LIMB_CHAIN4(op, opc) LIMB_CHAIN2(op, opc) LIMB_PAIR(opc, opc, 8)
#define LIMB_CHAIN8(op, opc) LIMB_CHAIN4(op, opc) LIMB_PAIR(opc, opc, 16) LIMB_PAIR(opc, opc, 24)
#define LIMB_CHAIN16(op, opc)                                         \
    LIMB_CHAIN8(op, opc) LIMB_PAIR(opc, opc, 32) LIMB_PAIR(opc, opc, 40) \
    LIMB_PAIR(opc, opc, 48) LIMB_PAIR(opc, opc, 56)
/* clang-format on */

/* The carry of an addition: c is 0 before the chain, and loads, stores and moves keep the flag. */
#define LIMB_ASM_ADD(chain, end)                                                                             \
    __asm__ volatile("move %[c], 0\n\t" chain(add, addc) "addc %[c], %[c], 0"                                \
                     : [c] "=&r"(c)                                                                          \
                     : [r] "r"(r), [a] "r"(a), [b] "r"(b)                                                    \
                     : "r4", "r5", "r8", "r9", "memory")
/* After a subtraction the flag is set when nothing was borrowed: c - c - 1 + flag. */
#define LIMB_ASM_SUB(chain, end)                                                                             \
    __asm__ volatile("move %[c], 0\n\t" chain(sub, subc) "subc %[c], %[c], %[c]"                             \
                     : [c] "=&r"(c)                                                                          \
                     : [r] "r"(r), [a] "r"(a), [b] "r"(b)                                                    \
                     : "r4", "r5", "r8", "r9", "memory")
#define LIMB_ASM(what)                                                                                       \
    switch (limbs) {                                                                                         \
    case 1:                                                                                                  \
        what(LIMB_CHAIN1, 4);                                                                                \
        break;                                                                                               \
    case 2:                                                                                                  \
        what(LIMB_CHAIN2, 8);                                                                                \
        break;                                                                                               \
    case 4:                                                                                                  \
        what(LIMB_CHAIN4, 16);                                                                               \
        break;                                                                                               \
    case 8:                                                                                                  \
        what(LIMB_CHAIN8, 32);                                                                               \
        break;                                                                                               \
    default:                                                                                                 \
        what(LIMB_CHAIN16, 64);                                                                              \
        break;                                                                                               \
    }

/* r = a + b; returns the carry, 0 or 1.
 * In: any words; limbs 1, 2, 4, 8 or 16. Alias: r may be a or b. 6, 7, 12, 22 or 42 instructions. */
WIDE_INLINE uint32_t limb_add(uint32_t *r, const uint32_t *a, const uint32_t *b, uint32_t limbs) {
    uint32_t c;
    LIMB_ASM(LIMB_ASM_ADD)
    return c;
}

/* r = a - b; returns the borrow as a mask, 0 or all ones. In, Alias, count: as limb_add. */
WIDE_INLINE uint32_t limb_sub(uint32_t *r, const uint32_t *a, const uint32_t *b, uint32_t limbs) {
    uint32_t c;
    LIMB_ASM(LIMB_ASM_SUB)
    return c;
}

/* clang-format off */
/* Two words of a term onto the pair d = (dh, dl); loads keep the flag. 3 instructions. */
#define LIMB_TERM(at, first, d, dh, dl)                                      \
    "ld d8, %[a], " #at "\n\t" #first " " dl ", " dl ", r9\n\t" "addc " dh ", " dh ", r8\n\t"
#define LIMB_SUM(load, term, store)                                          \
    __asm__ volatile(load "1:\n\t" term "addc %[c], %[c], 0\n\t"            \
                     "add %[a], %[a], %[next]\n\t" "sub r9, %[a], %[end], nz, 1b\n\t" store \
                     : [a] "+&r"(a), [c] "=&r"(c)                            \
                     : [s] "r"(sum), [next] "r"(next * 4), [end] "r"(end)    \
                     : "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13", "memory")
#define LIMB_LOAD2 "ld d4, %[s], 0\n\t"
#define LIMB_LOAD4 LIMB_LOAD2 "ld d6, %[s], 8\n\t"
#define LIMB_TERM2 LIMB_TERM(0, add, "d4", "r4", "r5")
#define LIMB_TERM4 LIMB_TERM2 LIMB_TERM(8, addc, "d6", "r6", "r7")
#define LIMB_STORE2 "sd %[s], 0, d4\n\t"
#define LIMB_STORE4 LIMB_STORE2 "sd %[s], 8, d6\n\t"

/* sum += the terms, carries onto one limb more, as limb.h says; the sum is in registers over the terms.
 * 5, 6, 9 or 15 instructions a term for 1, 2, 4 or 8 limbs; and 4, 4, 6 or 10 once. */
WIDE_INLINE void limb_sum_lazy(uint32_t *sum, const uint32_t *a, uint32_t next, uint32_t terms, uint32_t limbs) {
    const uint32_t *const end = a + next * terms;
    uint32_t c;
    switch (limbs) {
    case 1:
        LIMB_SUM("lw r5, %[s], 0\n\t" "lw %[c], %[s], 4\n\t",
                 "lw r9, %[a], 0\n\t" "add r5, r5, r9\n\t",
                 "sw %[s], 0, r5\n\t" "sw %[s], 4, %[c]");
        break;
    case 2:
        LIMB_SUM(LIMB_LOAD2 "lw %[c], %[s], 8\n\t", LIMB_TERM2, LIMB_STORE2 "sw %[s], 8, %[c]");
        break;
    case 4:
        LIMB_SUM(LIMB_LOAD4 "lw %[c], %[s], 16\n\t", LIMB_TERM4, LIMB_STORE4 "sw %[s], 16, %[c]");
        break;
    default:
        LIMB_SUM(LIMB_LOAD4 "ld d10, %[s], 16\n\t" "ld d12, %[s], 24\n\t" "lw %[c], %[s], 32\n\t",
                 LIMB_TERM4 LIMB_TERM(16, addc, "d10", "r10", "r11") LIMB_TERM(24, addc, "d12", "r12", "r13"),
                 LIMB_STORE4 "sd %[s], 16, d10\n\t" "sd %[s], 24, d12\n\t" "sw %[s], 32, %[c]");
        break;
    }
}
/* clang-format on */

#undef LIMB_TERM
#undef LIMB_SUM
#undef LIMB_LOAD2
#undef LIMB_LOAD4
#undef LIMB_TERM2
#undef LIMB_TERM4
#undef LIMB_STORE2
#undef LIMB_STORE4

/* ---- Karatsuba ------------------------------------------------------------------------------ */

/* The product of (r4, r5) and (r7, r6), high words first, into d14, d12: limb_mul_2's formula.
 *     z0 = r5 r6 -> d12,  z2 = r4 r7 -> d14,  |r5 - r4| |r6 - r7| -> xh, xl,  middle -> r6, r4, r5.
 * A borrow b leaves c - c - 1 + flag = -b: jump over the second subtraction where there was none. The signs
 * differ where r3 ^ sa is not 0: then the cross product is added. Factors of a product sit in registers of
 * unequal parity, as do nearly all sums. Writes r3 to r15 and the temporaries. 116 to 118 instructions. */
/* clang-format off */
#define LIMB_MUL(h, l, a, ah, b, bh)                                                                         \
    W_HALF(ah, a) W_HALF(bh, b) W_T(l, "%[xe]", a, b) W_M("r10", "r11", a, ah, b, bh)                        \
    W_H(h, "r11", a, ah, b, bh) W_JOIN(h, l, "r10", "r11")
#define LIMB_KARATSUBA                                                                                       \
    "sub %[da], r5, r4\n\t" "subc %[sa], r4, r4, z, 1f\n\t" "sub %[da], r4, r5\n\t" "1:\n\t"                 \
    "sub %[db], r6, r7\n\t" "subc r3, r4, r4, z, 2f\n\t" "sub %[db], r7, r6\n\t" "2:\n\t"                    \
    LIMB_MUL("r12", "r13", "r5", "r9", "r6", "r8")                                                           \
    LIMB_MUL("r14", "r15", "r4", "r8", "r7", "r9")                                                           \
    LIMB_MUL("%[xh]", "%[xl]", "%[da]", "r9", "%[db]", "r8")                                                 \
    "add r5, r13, r15\n\t" "addc r4, r12, r14\n\t" "addc r6, zero, 0\n\t"                                    \
    "xor r3, r3, %[sa], nz, 3f\n\t"                                                                          \
    "sub r5, r5, %[xl]\n\t" "subc r4, r4, %[xh]\n\t" "subc r6, r6, 0, true, 4f\n\t"                          \
    "3:\n\t" "add r5, r5, %[xl]\n\t" "addc r4, r4, %[xh]\n\t" "addc r6, r6, 0\n\t"                           \
    "4:\n\t" "add r12, r12, r5\n\t" "addc r15, r15, r4\n\t" "addc r14, r14, r6\n\t"

/* The product of four limbs at r1 and at r2, its low half in d4, d6, its high half in d8, d10; r0 points at
 * 32 bytes, of which the first 8 get the two lowest words. The same step on halves: z0, z2 wait in memory,
 * the distances are pairs, the middle is r3, db, da, xh, xl. */
#define LIMB_KARATSUBA_4                                                                                     \
    "ld d4, r1, 0\n\t" "lw r6, r2, 0\n\t" "lw r7, r2, 4\n\t"                                                 \
    LIMB_KARATSUBA "sd r0, 0, d12\n\t" "sd r0, 8, d14\n\t"                                                   \
    "ld d4, r1, 8\n\t" "lw r6, r2, 8\n\t" "lw r7, r2, 12\n\t"                                                \
    LIMB_KARATSUBA "sd r0, 16, d12\n\t" "sd r0, 24, d14\n\t"                                                 \
    "ld d8, r1, 0\n\t" "ld d10, r1, 8\n\t"                                                                   \
    "sub r5, r9, r11\n\t" "subc r4, r8, r10\n\t" "subc r1, r8, r8, z, 5f\n\t"                                \
    "sub r5, r11, r9\n\t" "subc r4, r10, r8\n\t" "5:\n\t"                                                    \
    "ld d8, r2, 0\n\t" "ld d10, r2, 8\n\t"                                                                   \
    "sub r6, r9, r11\n\t" "subc r7, r8, r10\n\t" "subc r2, r8, r8, z, 6f\n\t"                                \
    "sub r6, r11, r9\n\t" "subc r7, r10, r8\n\t" "6:\n\t"                                                    \
    LIMB_KARATSUBA                                                                                           \
    "ld d4, r0, 0\n\t" "ld d6, r0, 8\n\t" "ld d8, r0, 16\n\t" "ld d10, r0, 24\n\t"                           \
    "add %[xl], r5, r9\n\t" "addc %[xh], r4, r8\n\t" "addc %[da], r7, r11\n\t" "addc %[db], r6, r10\n\t"     \
    "addc r3, zero, 0\n\t"                                                                                   \
    "xor r1, r1, r2, nz, 7f\n\t"                                                                             \
    "sub %[xl], %[xl], r13\n\t" "subc %[xh], %[xh], r12\n\t" "subc %[da], %[da], r15\n\t"                    \
    "subc %[db], %[db], r14\n\t" "subc r3, r3, 0, true, 8f\n\t"                                              \
    "7:\n\t" "add %[xl], %[xl], r13\n\t" "addc %[xh], %[xh], r12\n\t" "addc %[da], %[da], r15\n\t"           \
    "addc %[db], %[db], r14\n\t" "addc r3, r3, 0\n\t"                                                        \
    "8:\n\t" "add r7, r7, %[xl]\n\t" "addc r6, r6, %[xh]\n\t" "addc r9, r9, %[da]\n\t"                       \
    "addc r8, r8, %[db]\n\t" "addc r11, r11, r3\n\t" "addc r10, r10, 0\n\t"

/* (high, low) onto two words of the accumulator at r1, by way of the pair d = (dh, dl); a carry onto one. */
#define LIMB_ONTO(at, first, high, low, d, dh, dl)                                                           \
    "ld " d ", r1, " #at "\n\t" #first " " dl ", " dl ", " low "\n\t" "addc " dh ", " dh ", " high "\n\t"    \
    "sd r1, " #at ", " d "\n\t"
#define LIMB_TOP(at, x) "lw " x ", r1, " #at "\n\t" "addc " x ", " x ", 0\n\t" "sw r1, " #at ", " x
/* clang-format on */

#define LIMB_TEMPORARIES uint32_t xl, xh, xe, sa, da, db
#define LIMB_OUT                                                                                             \
    [xl] "=&r"(xl), [xh] "=&r"(xh), [xe] "=&r"(xe), [sa] "=&r"(sa), [da] "=&r"(da), [db] "=&r"(db)
#define LIMB_CLOBBERS "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory"

/* limb.h's. In: any words. Out: two pairs. */
WIDE_INLINE void limb_mul_2(limb_pair *r, uint64_t a, uint64_t b) {
    LIMB_TEMPORARIES;
    register uint32_t a1 __asm__("r4") = (uint32_t)(a >> 32), a0 __asm__("r5") = (uint32_t)a;
    register uint32_t b1 __asm__("r7") = (uint32_t)(b >> 32), b0 __asm__("r6") = (uint32_t)b;
    __asm__ volatile(LIMB_KARATSUBA "sd %[r], 0, d12\n\tsd %[r], 8, d14"
                     : [a1] "+&r"(a1), [a0] "+&r"(a0), [b1] "+&r"(b1), [b0] "+&r"(b0), LIMB_OUT
                     : [r] "r"(r)
                     : "r3", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory");
}

/* r = a b for four limbs. In, Out: as limb.h says. */
WIDE_INLINE void limb_mul_4(limb_pair *r, const limb_pair *a, const limb_pair *b) {
    LIMB_TEMPORARIES;
    register limb_pair *to __asm__("r0") = r;
    register const limb_pair *x __asm__("r1") = a, *y __asm__("r2") = b;
    __asm__ volatile(LIMB_KARATSUBA_4 "sd r0, 8, d6\n\tsd r0, 16, d8\n\tsd r0, 24, d10"
                     : [x] "+&r"(x), [y] "+&r"(y), LIMB_OUT
                     : [to] "r"(to)
                     : "r3", LIMB_CLOBBERS);
}

/* acc += a b for two limbs, 5 words. In, Out: limb_mac of limb.h. Alias: none. */
WIDE_INLINE void limb_mac_2(uint32_t *acc, const uint32_t *a, const uint32_t *b) {
    LIMB_TEMPORARIES;
    register uint32_t *at __asm__("r1") = acc;
    __asm__ volatile("ld d4, %[a], 0\n\tlw r6, %[b], 0\n\tlw r7, %[b], 4\n\t" LIMB_KARATSUBA LIMB_ONTO(
                         0, add, "r12", "r13", "d4", "r4", "r5")
                         LIMB_ONTO(8, addc, "r14", "r15", "d4", "r4", "r5") LIMB_TOP(16, "r5")
                     : LIMB_OUT
                     : [at] "r"(at), [a] "r"(a), [b] "r"(b)
                     : "r3", LIMB_CLOBBERS);
}

/* acc += a b for four limbs, 9 words. In, Out: limb_mac of limb.h. Alias: none. */
WIDE_INLINE void limb_mac_4(uint32_t *acc, const uint32_t *a, const uint32_t *b) {
    LIMB_TEMPORARIES;
    LIMB_LOCAL(spare, 10); /* z0, z2, and where acc waits: there is no register left */
    register uint32_t *own __asm__("r0") = spare, *at __asm__("r3") = acc;
    register const uint32_t *x __asm__("r1") = a, *y __asm__("r2") = b;
    __asm__ volatile("sw r0, 32, r3\n\t" LIMB_KARATSUBA_4
                     "lw r1, r0, 32\n\t" LIMB_ONTO(0, add, "r4", "r5", "d12", "r12", "r13")
                         LIMB_ONTO(8, addc, "r6", "r7", "d12", "r12", "r13")
                             LIMB_ONTO(16, addc, "r8", "r9", "d12", "r12", "r13")
                                 LIMB_ONTO(24, addc, "r10", "r11", "d12", "r12", "r13") LIMB_TOP(32, "r13")
                     : [x] "+&r"(x), [y] "+&r"(y), [at] "+&r"(at), LIMB_OUT
                     : [own] "r"(own)
                     : LIMB_CLOBBERS);
}

#undef LIMB_MUL
#undef LIMB_KARATSUBA
#undef LIMB_KARATSUBA_4
#undef LIMB_ONTO
#undef LIMB_TOP
#undef LIMB_TEMPORARIES
#undef LIMB_OUT
#undef LIMB_CLOBBERS

#endif
