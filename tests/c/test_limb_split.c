/* test_limb.c on the DPU's wide product in C: its columns and carries, as a program for a DPU has them. */
#define BFV_WIDE_SPLIT
#define LIMB_TEST(name) test_limb_split_##name
#include "test_limb.c"
