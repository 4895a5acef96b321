/* cpuid - chooses the build of simd.c that this processor runs, and sets its mode for denormals. */
#include "simd.h"

#include <stdlib.h>
#include <string.h>

extern const struct simd simd_base;
#if defined __x86_64__
#include <immintrin.h>
extern const struct simd simd_v3, simd_v4;
#endif

const struct simd *simd_choose(void)
{
#if defined __x86_64__
    /* HALOCONV_SIMD=baseline|avx2|avx512 limits the choice, so that every level can be tested on one machine. */
    const char *most = getenv("HALOCONV_SIMD");
    int level = !most || !strcmp(most, "avx512") ? 2 : !strcmp(most, "avx2") ? 1 : 0;
    __builtin_cpu_init();
    if (level >= 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return &simd_v4;
    if (level >= 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        return &simd_v3;
#endif
    return &simd_base;
}

unsigned simd_denormals_off(void)
{
#if defined __x86_64__
    unsigned state = _mm_getcsr();
    _mm_setcsr(state | 0x8040u); /* flush to zero, denormals are zero */
    return state;
#elif defined __aarch64__
    unsigned long state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    __asm__ volatile("msr fpcr, %0" ::"r"(state | 1ul << 24));
    return (unsigned)state;
#else
    return 0;
#endif
}

void simd_denormals_restore(unsigned state)
{
#if defined __x86_64__
    _mm_setcsr(state);
#elif defined __aarch64__
    __asm__ volatile("msr fpcr, %0" ::"r"((unsigned long)state));
#else
    (void)state;
#endif
}
