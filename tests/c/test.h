/* A test program in one binary: main.c runs every function that TESTS lists. */
#ifndef PYBFV_TEST_H
#define PYBFV_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../host_c/src/cpu/kernels.h"
#include "../../host_c/src/ring.h"

/* Counts a failure and says where; the test goes on. */
#define CHECK(condition) test_check((condition), __FILE__, __LINE__, #condition)
void test_check(bool ok, const char *file, int line, const char *text);

#define TESTS(X)                                                                                             \
    X(zq_all_pairs)                                                                                          \
    X(zq_reduce64_edges)                                                                                     \
    X(zq_chain_primes)                                                                                       \
    X(generated_limits)                                                                                      \
    X(ntt_definition)                                                                                        \
    X(ntt_schoolbook)                                                                                        \
    X(ntt_round_trip)                                                                                        \
    X(ring_refuses)                                                                                          \
    X(bodies_agree)                                                                                          \
    X(bodies_by_name)                                                                                        \
    X(from_int64)                                                                                            \
    X(acc_at_the_limit)                                                                                      \
    X(acc_splits)                                                                                            \
    X(acc_strides)                                                                                           \
    X(acc_threads)                                                                                           \
    X(many_threads)                                                                                          \
    X(arithmetic)                                                                                            \
    X(put_checks_residues)                                                                                   \
    X(arguments)                                                                                             \
    X(arguments_texts)                                                                                       \
    X(arguments_decimals)                                                                                    \
    X(decimals)                                                                                              \
    X(arguments_ring)                                                                                        \
    X(arguments_random)                                                                                      \
    X(arguments_encrypt)                                                                                     \
    X(arguments_encoder)                                                                                     \
    X(arguments_secret)                                                                                      \
    X(arguments_lift)                                                                                        \
    X(arguments_lift64)                                                                                      \
    X(handles)                                                                                               \
    X(out_of_memory)                                                                                         \
    X(crc_vectors)                                                                                           \
    X(crc_bodies)                                                                                            \
    X(limb_wide)                                                                                             \
    X(limb_pairs)                                                                                            \
    X(limb_chains)                                                                                           \
    X(limb_products)                                                                                         \
    X(limb_reductions)                                                                                       \
    X(limb_split_wide)                                                                                       \
    X(limb_split_pairs)                                                                                      \
    X(limb_split_chains)                                                                                     \
    X(limb_split_products)                                                                                   \
    X(limb_split_reductions)                                                                                 \
    X(limb_conversion)                                                                                       \
    X(lift)                                                                                                  \
    X(scale_round)                                                                                           \
    X(lift64)                                                                                                \
    X(square_few)                                                                                            \
    X(points)                                                                                                \
    X(acc_scaled)                                                                                            \
    X(scaled_out_of_memory)                                                                                  \
    X(lift_arguments)                                                                                        \
    X(arguments_many)                                                                                        \
    X(arguments_switching)                                                                                   \
    X(sampler_bodies)                                                                                        \
    X(uniform_bodies)                                                                                        \
    X(product_bodies)                                                                                        \
    X(code_bodies)                                                                                           \
    X(batches)                                                                                               \
    X(switching)

#define DECLARE(name) void test_##name(void);
TESTS(DECLARE)
#undef DECLARE

/* xorshift128+ from a fixed seed: the same numbers in every run. */
uint64_t random64(void);
/* Words whose bits come in runs, so that long carries and extreme values are common. */
uint64_t random_runs(void);
/* Fills polys x [L][N] with residues: uniform, from runs, zeros and p - 1 mixed. */
void random_residues(const bfv_ring *ring, uint32_t *x, uint64_t polys);

/* malloc that ends the program when there is no memory. */
void *test_alloc(size_t size);
uint32_t *test_words(size_t count);

bfv_ring *test_ring(uint32_t n, const uint32_t *primes, uint32_t count, const char *body);
bfv_backend *test_backend(uint32_t n, const uint32_t *primes, uint32_t count, uint32_t threads,
                          const char *body);
/* An NTT-form array of `count` ciphertexts of `parts`, copied. */
bfv_array *test_put(bfv_backend *backend, uint32_t parts, const uint32_t *src, uint64_t count);

/* The 16 primes of the chain. */
enum { CHAIN = 16 };
extern const uint32_t chain[CHAIN];

/* Faults that the link-time wrappers inject: calls to go until one fails, and how
 * many fail then; 0 fail: never. */
struct fault {
    uint32_t wait, fail;
};
extern struct fault fault_thread, fault_memory;

#endif
