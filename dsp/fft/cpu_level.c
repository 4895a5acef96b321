#include "cpu_level.h"

#include <stdlib.h>
#include <string.h>

enum cpu_level cpu_level(void)
{
#if defined __x86_64__
    const char *set = getenv("HALOCONV_SIMD");
    enum cpu_level limit = !set || !strcmp(set, "avx512") ? CPU_AVX512 : !strcmp(set, "avx2") ? CPU_AVX2 : CPU_BASELINE;
    __builtin_cpu_init();
    /* Clang 14 does not know "x86-64-v3" and "x86-64-v4". No processor has these without the rest of its level. */
    if (limit >= CPU_AVX512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return CPU_AVX512;
    if (limit >= CPU_AVX2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        return CPU_AVX2;
#endif
    return CPU_BASELINE;
}
