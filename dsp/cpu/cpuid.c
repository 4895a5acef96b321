/* cpuid - chooses the build of simd.c that this processor runs. */
#include "simd.h"

#include "dsp/base/isa.h"

extern const struct simd simd_base, simd_v3, simd_v4;

const struct simd *simd_choose(void)
{
    static const struct simd *const builds[] = ISA_BUILDS(simd);
    return builds[isa_best()];
}
