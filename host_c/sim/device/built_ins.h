/* Single instructions in C: __builtin_<instruction>_<operands>(result, first, second[, third]), where r
 * is a register and i an immediate, which comes as a text ("4"), as in the SDK. Those with a condition or a
 * jump, and those that carry a flag from one to the next (addc, subc), are not here. */
#ifndef DPUSIM_BUILT_INS_H
#define DPUSIM_BUILT_INS_H

#include "defs.h"

/* "4", "-1", "0x1f" */
static inline uint32_t dpusim_number(const char *text) {
    bool negative = *text == '-';
    uint32_t base = 10, value = 0;
    text += negative;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        base = 16;
        text += 2;
    }
    for (; *text != '\0'; text++)
        value = value * base + (uint32_t)(*text <= '9' ? *text - '0' : (*text | 0x20) - 'a' + 10);
    return negative ? -value : value;
}

static inline uint32_t dpusim_byte(uint32_t value, uint32_t high) {
    return high ? value >> 8 & 0xff : value & 0xff;
}

/* Leading bits that equal the sign. */
static inline uint32_t dpusim_cls(uint32_t a) {
    uint32_t changes = a ^ (a >> 31 ? UINT32_MAX : 0);
    return changes == 0 ? 32 : (uint32_t)__builtin_clz(changes);
}

/* A byte is 1 where those of the operands are equal. */
static inline uint32_t dpusim_cmpb4(uint32_t a, uint32_t b) {
    uint32_t result = 0;
    for (uint32_t i = 0; i < 32; i += 8)
        result |= (uint32_t)((a >> i & 0xff) == (b >> i & 0xff)) << i;
    return result;
}

#define __builtin_nop_() __asm__ volatile("")

#define DPUSIM_UNARY(name, expression)                                                                       \
    static inline uint32_t dpusim_##name(uint32_t a) {                                                       \
        return expression;                                                                                   \
    }
#define DPUSIM_BINARY(name, expression)                                                                      \
    static inline uint32_t dpusim_##name(uint32_t a, uint32_t b) {                                           \
        return expression;                                                                                   \
    }
#define DPUSIM_TERNARY(name, expression)                                                                     \
    static inline uint32_t dpusim_##name(uint32_t a, uint32_t b, uint32_t n) {                               \
        return expression;                                                                                   \
    }

DPUSIM_UNARY(i_cao, (uint32_t)__builtin_popcount(a))
DPUSIM_UNARY(i_clz, a == 0 ? 32 : (uint32_t)__builtin_clz(a))
DPUSIM_UNARY(i_clo, ~a == 0 ? 32 : (uint32_t)__builtin_clz(~a))
DPUSIM_UNARY(i_cls, dpusim_cls(a))
DPUSIM_UNARY(i_extub, a & 0xff)
DPUSIM_UNARY(i_extuh, a & 0xffff)
DPUSIM_UNARY(i_extsb, (uint32_t)(int8_t)a)
DPUSIM_UNARY(i_extsh, (uint32_t)(int16_t)a)
DPUSIM_BINARY(i_add, a + b)
DPUSIM_BINARY(i_sub, a - b)
DPUSIM_BINARY(i_rsub, b - a)
DPUSIM_BINARY(i_and, a &b)
DPUSIM_BINARY(i_andn, ~a &b)
DPUSIM_BINARY(i_nand, ~(a &b))
DPUSIM_BINARY(i_or, a | b)
DPUSIM_BINARY(i_orn, ~a | b)
DPUSIM_BINARY(i_nor, ~(a | b))
DPUSIM_BINARY(i_xor, a ^ b)
DPUSIM_BINARY(i_nxor, ~(a ^ b))
DPUSIM_BINARY(i_lsl, a << (b & 31))
DPUSIM_BINARY(i_lsr, a >> (b & 31))
DPUSIM_BINARY(i_asr, (uint32_t)((int32_t)a >> (b & 31)))
DPUSIM_BINARY(i_lsl1, ~(~a << (b & 31)))
DPUSIM_BINARY(i_lsr1, ~(~a >> (b & 31)))
DPUSIM_BINARY(i_lslx, (uint32_t)(((uint64_t)a << (b & 31)) >> 32))
DPUSIM_BINARY(i_lsrx, (uint32_t)(((uint64_t)a << 32) >> (b & 31)))
DPUSIM_BINARY(i_rol, a << (b & 31) | a >> (-b & 31))
DPUSIM_BINARY(i_ror, a >> (b & 31) | a << (-b & 31))
DPUSIM_BINARY(i_cmpb4, dpusim_cmpb4(a, b))
DPUSIM_BINARY(i_mul_ul_ul, dpusim_byte(a, 0) * dpusim_byte(b, 0))
DPUSIM_BINARY(i_mul_ul_uh, dpusim_byte(a, 0) * dpusim_byte(b, 1))
DPUSIM_BINARY(i_mul_uh_ul, dpusim_byte(a, 1) * dpusim_byte(b, 0))
DPUSIM_BINARY(i_mul_uh_uh, dpusim_byte(a, 1) * dpusim_byte(b, 1))
DPUSIM_BINARY(i_mul_sl_ul, (uint32_t)((int8_t)dpusim_byte(a, 0) * (int32_t)dpusim_byte(b, 0)))
DPUSIM_BINARY(i_mul_sl_uh, (uint32_t)((int8_t)dpusim_byte(a, 0) * (int32_t)dpusim_byte(b, 1)))
DPUSIM_BINARY(i_mul_sl_sl, (uint32_t)((int8_t)dpusim_byte(a, 0) * (int8_t)dpusim_byte(b, 0)))
DPUSIM_BINARY(i_mul_sl_sh, (uint32_t)((int8_t)dpusim_byte(a, 0) * (int8_t)dpusim_byte(b, 1)))
DPUSIM_BINARY(i_mul_sh_ul, (uint32_t)((int8_t)dpusim_byte(a, 1) * (int32_t)dpusim_byte(b, 0)))
DPUSIM_BINARY(i_mul_sh_uh, (uint32_t)((int8_t)dpusim_byte(a, 1) * (int32_t)dpusim_byte(b, 1)))
DPUSIM_BINARY(i_mul_sh_sl, (uint32_t)((int8_t)dpusim_byte(a, 1) * (int8_t)dpusim_byte(b, 0)))
DPUSIM_BINARY(i_mul_sh_sh, (uint32_t)((int8_t)dpusim_byte(a, 1) * (int8_t)dpusim_byte(b, 1)))
DPUSIM_TERNARY(i_lsl_add, a + (b << (n & 31)))
DPUSIM_TERNARY(i_lsl_sub, a - (b << (n & 31)))
DPUSIM_TERNARY(i_lsr_add, a + (b >> (n & 31)))
DPUSIM_TERNARY(i_rol_add, a + (b << (n & 31) | b >> (-n & 31)))

#define DPUSIM_SET(rc, value) ((rc) = (__typeof__(rc))(value))
#define __builtin_cao_rr(rc, ra) DPUSIM_SET(rc, dpusim_i_cao((uint32_t)(ra)))
#define __builtin_clz_rr(rc, ra) DPUSIM_SET(rc, dpusim_i_clz((uint32_t)(ra)))
#define __builtin_clo_rr(rc, ra) DPUSIM_SET(rc, dpusim_i_clo((uint32_t)(ra)))
#define __builtin_cls_rr(rc, ra) DPUSIM_SET(rc, dpusim_i_cls((uint32_t)(ra)))
#define __builtin_extub_rr(rc, ra) DPUSIM_SET(rc, dpusim_i_extub((uint32_t)(ra)))
#define __builtin_extuh_rr(rc, ra) DPUSIM_SET(rc, dpusim_i_extuh((uint32_t)(ra)))
#define __builtin_extsb_rr(rc, ra) DPUSIM_SET(rc, dpusim_i_extsb((uint32_t)(ra)))
#define __builtin_extsh_rr(rc, ra) DPUSIM_SET(rc, dpusim_i_extsh((uint32_t)(ra)))
#define __builtin_add_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_add((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_add_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_add((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_sub_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_sub((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_sub_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_sub((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_rsub_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_rsub((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_rsub_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_rsub((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_and_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_and((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_and_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_and((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_andn_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_andn((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_andn_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_andn((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_nand_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_nand((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_nand_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_nand((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_or_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_or((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_or_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_or((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_orn_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_orn((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_orn_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_orn((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_nor_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_nor((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_nor_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_nor((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_xor_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_xor((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_xor_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_xor((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_nxor_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_nxor((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_nxor_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_nxor((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_lsl_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_lsl((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_lsl_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_lsl((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_lsr_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_lsr((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_lsr_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_lsr((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_asr_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_asr((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_asr_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_asr((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_lsl1_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_lsl1((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_lsl1_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_lsl1((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_lsr1_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_lsr1((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_lsr1_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_lsr1((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_lslx_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_lslx((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_lslx_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_lslx((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_lsrx_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_lsrx((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_lsrx_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_lsrx((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_rol_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_rol((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_rol_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_rol((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_ror_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_ror((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_ror_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_ror((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_cmpb4_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_cmpb4((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_cmpb4_rri(rc, ra, imm) DPUSIM_SET(rc, dpusim_i_cmpb4((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_mul_ul_ul_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_mul_ul_ul((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_mul_ul_ul_rri(rc, ra, imm)                                                                 \
    DPUSIM_SET(rc, dpusim_i_mul_ul_ul((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_mul_ul_uh_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_mul_ul_uh((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_mul_ul_uh_rri(rc, ra, imm)                                                                 \
    DPUSIM_SET(rc, dpusim_i_mul_ul_uh((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_mul_uh_ul_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_mul_uh_ul((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_mul_uh_ul_rri(rc, ra, imm)                                                                 \
    DPUSIM_SET(rc, dpusim_i_mul_uh_ul((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_mul_uh_uh_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_mul_uh_uh((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_mul_uh_uh_rri(rc, ra, imm)                                                                 \
    DPUSIM_SET(rc, dpusim_i_mul_uh_uh((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_mul_sl_ul_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_mul_sl_ul((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_mul_sl_ul_rri(rc, ra, imm)                                                                 \
    DPUSIM_SET(rc, dpusim_i_mul_sl_ul((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_mul_sl_uh_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_mul_sl_uh((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_mul_sl_uh_rri(rc, ra, imm)                                                                 \
    DPUSIM_SET(rc, dpusim_i_mul_sl_uh((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_mul_sl_sl_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_mul_sl_sl((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_mul_sl_sl_rri(rc, ra, imm)                                                                 \
    DPUSIM_SET(rc, dpusim_i_mul_sl_sl((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_mul_sl_sh_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_mul_sl_sh((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_mul_sl_sh_rri(rc, ra, imm)                                                                 \
    DPUSIM_SET(rc, dpusim_i_mul_sl_sh((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_mul_sh_ul_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_mul_sh_ul((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_mul_sh_ul_rri(rc, ra, imm)                                                                 \
    DPUSIM_SET(rc, dpusim_i_mul_sh_ul((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_mul_sh_uh_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_mul_sh_uh((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_mul_sh_uh_rri(rc, ra, imm)                                                                 \
    DPUSIM_SET(rc, dpusim_i_mul_sh_uh((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_mul_sh_sl_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_mul_sh_sl((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_mul_sh_sl_rri(rc, ra, imm)                                                                 \
    DPUSIM_SET(rc, dpusim_i_mul_sh_sl((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_mul_sh_sh_rrr(rc, ra, rb) DPUSIM_SET(rc, dpusim_i_mul_sh_sh((uint32_t)(ra), (uint32_t)(rb)))
#define __builtin_mul_sh_sh_rri(rc, ra, imm)                                                                 \
    DPUSIM_SET(rc, dpusim_i_mul_sh_sh((uint32_t)(ra), dpusim_number(imm)))
#define __builtin_lsl_add_rrri(rc, rb, ra, imm)                                                              \
    DPUSIM_SET(rc, dpusim_i_lsl_add((uint32_t)(rb), (uint32_t)(ra), dpusim_number(imm)))
#define __builtin_lsl_sub_rrri(rc, rb, ra, imm)                                                              \
    DPUSIM_SET(rc, dpusim_i_lsl_sub((uint32_t)(rb), (uint32_t)(ra), dpusim_number(imm)))
#define __builtin_lsr_add_rrri(rc, rb, ra, imm)                                                              \
    DPUSIM_SET(rc, dpusim_i_lsr_add((uint32_t)(rb), (uint32_t)(ra), dpusim_number(imm)))
#define __builtin_rol_add_rrri(rc, rb, ra, imm)                                                              \
    DPUSIM_SET(rc, dpusim_i_rol_add((uint32_t)(rb), (uint32_t)(ra), dpusim_number(imm)))

#endif
