/* Which bodies this CPU can run. */
#include "kernels.h"

/* The features that rules.mk compiles the bodies with. */
static bool body_runs_here(const struct cpu_kernels *body) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (body == &cpu_avx512) {
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    }
    if (body == &cpu_avx2) {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    }
#endif
    return body == &cpu_portable;
}

const struct cpu_kernels *cpu_body(uint32_t index) {
    static const struct cpu_kernels *const bodies[] = {
#if defined(__x86_64__)
        &cpu_avx512,
        &cpu_avx2,
#endif
        &cpu_portable,
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        if (body_runs_here(bodies[i]) && index-- == 0) {
            return bodies[i];
        }
    }
    return NULL;
}
