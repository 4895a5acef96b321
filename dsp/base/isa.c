#include "isa.h"
#include "samples.h"

#include <stdlib.h>
#include <string.h>

enum isa isa_best(void)
{
#if defined __x86_64__
    const char *set = getenv("HALOCONV_SIMD");
    enum isa limit = set && !strcmp(set, "baseline") ? ISA_BASELINE
                     : set && !strcmp(set, "avx2")   ? ISA_AVX2
                                                     : ISA_AVX512;
    __builtin_cpu_init();
    /* Clang 14 does not know "x86-64-v3" and "x86-64-v4". A processor with these features has the rest of its level. */
    if (limit >= ISA_AVX512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return ISA_AVX512;
    if (limit >= ISA_AVX2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        return ISA_AVX2;
#endif
    return ISA_BASELINE;
}

extern const struct samples samples_base, samples_v3, samples_v4;

const struct samples *samples_choose(void)
{
    static const struct samples *const builds[] = ISA_BUILDS(samples);
    return builds[isa_best()];
}
