/* Generated from pybfv/params/sets.toml by `python -m pybfv.params.gen`. Do not edit. */
#ifndef BFV_PARAMS_GEN_H
#define BFV_PARAMS_GEN_H

#include <stdint.h>

#define BFV_MIN_N 8u
#define BFV_MAX_N 16384u
#define BFV_MAX_PRIMES 16u

/* X(p, log2ceil, neg_inv32, max_products, max_sums): log2ceil = ceil(log2 p);
 * neg_inv32 = -1/p mod 2^32; max_products = floor((2^64 - 1) / (p - 1)^2), the products of
 * two residues that 64 bits hold; max_sums = floor((2^32 - 1) / (p - 1)), the residues that
 * 32 bits hold. */
#define BFV_PRIMES(X) \
    X(67043329u, 26u, UINT32_C(67043327), UINT64_C(4104), 64u) \
    X(134348801u, 28u, UINT32_C(134348799), UINT64_C(1022), 31u) \
    X(132120577u, 27u, UINT32_C(132120575), UINT64_C(1056), 32u) \
    X(67239937u, 27u, UINT32_C(67239935), UINT64_C(4080), 63u) \
    X(134250497u, 28u, UINT32_C(3355475967), UINT64_C(1023), 31u) \
    X(268369921u, 28u, UINT32_C(268369919), UINT64_C(256), 16u) \
    X(66813953u, 26u, UINT32_C(3288039423), UINT64_C(4132), 64u) \
    X(136314881u, 28u, UINT32_C(136314879), UINT64_C(992), 31u) \
    X(41680897u, 26u, UINT32_C(41680895), UINT64_C(10618), 103u) \
    X(83361793u, 27u, UINT32_C(83361791), UINT64_C(2654), 51u) \
    X(135135233u, 28u, UINT32_C(135135231), UINT64_C(1010), 31u) \
    X(141557761u, 28u, UINT32_C(141557759), UINT64_C(920), 30u) \
    X(150863873u, 28u, UINT32_C(150863871), UINT64_C(810), 28u) \
    X(167510017u, 28u, UINT32_C(167510015), UINT64_C(657), 25u) \
    X(234356737u, 28u, UINT32_C(234356735), UINT64_C(335), 18u) \
    X(268238849u, 28u, UINT32_C(268238847), UINT64_C(256), 16u)

/* The primes of a set, in order: BFV_SET_PRIMES_<name>. */
#define BFV_SET_PRIMES_n1024_q26 \
    67043329u
#define BFV_SET_PRIMES_n2048_q53 \
    67043329u, 134348801u
#define BFV_SET_PRIMES_n4096_q80 \
    67043329u, 134348801u, 132120577u
#define BFV_SET_PRIMES_n4096_q106 \
    67043329u, 134348801u, 132120577u, 67239937u
#define BFV_SET_PRIMES_n8192_q133 \
    67043329u, 134348801u, 132120577u, 67239937u, 134250497u
#define BFV_SET_PRIMES_n8192_q161 \
    67043329u, 134348801u, 132120577u, 67239937u, 134250497u, 268369921u
#define BFV_SET_PRIMES_n8192_q187 \
    67043329u, 134348801u, 132120577u, 67239937u, 134250497u, 268369921u, 66813953u
#define BFV_SET_PRIMES_n8192_q214 \
    67043329u, 134348801u, 132120577u, 67239937u, 134250497u, 268369921u, 66813953u, 136314881u
#define BFV_SET_PRIMES_n16384_q430 \
    67043329u, 134348801u, 132120577u, 67239937u, 134250497u, 268369921u, 66813953u, 136314881u, \
    41680897u, 83361793u, 135135233u, 141557761u, 150863873u, 167510017u, 234356737u, 268238849u
#define BFV_SET_PRIMES_n1024_q27 \
    132120577u
#define BFV_SET_PRIMES_n2048_q54 \
    132120577u, 134250497u
#define BFV_SET_PRIMES_n4096_q109 \
    132120577u, 134250497u, 134348801u, 268369921u
#define BFV_SET_PRIMES_insecure_n16_q53 \
    67043329u, 134348801u
#define BFV_SET_PRIMES_insecure_n64_q106 \
    67043329u, 134348801u, 132120577u, 67239937u
#define BFV_SET_PRIMES_insecure_n64_q214 \
    67043329u, 134348801u, 132120577u, 67239937u, 134250497u, 268369921u, 66813953u, 136314881u
#define BFV_SET_PRIMES_insecure_n256_q133 \
    67043329u, 134348801u, 132120577u, 67239937u, 134250497u
#define BFV_SET_PRIMES_insecure_n1024_q133 \
    67043329u, 134348801u, 132120577u, 67239937u, 134250497u

/* X(name, n, number of primes, insecure), in the planner's order. */
#define BFV_SETS(X) \
    X(n1024_q26, 1024u, 1u, 0) \
    X(n2048_q53, 2048u, 2u, 0) \
    X(n4096_q80, 4096u, 3u, 0) \
    X(n4096_q106, 4096u, 4u, 0) \
    X(n8192_q133, 8192u, 5u, 0) \
    X(n8192_q161, 8192u, 6u, 0) \
    X(n8192_q187, 8192u, 7u, 0) \
    X(n8192_q214, 8192u, 8u, 0) \
    X(n16384_q430, 16384u, 16u, 0) \
    X(n1024_q27, 1024u, 1u, 0) \
    X(n2048_q54, 2048u, 2u, 0) \
    X(n4096_q109, 4096u, 4u, 0) \
    X(insecure_n16_q53, 16u, 2u, 1) \
    X(insecure_n64_q106, 64u, 4u, 1) \
    X(insecure_n64_q214, 64u, 8u, 1) \
    X(insecure_n256_q133, 256u, 5u, 1) \
    X(insecure_n1024_q133, 1024u, 5u, 1)

#endif /* BFV_PARAMS_GEN_H */
