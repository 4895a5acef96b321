/* cpuid - chooses the build of simd.c that this processor runs, and sets its mode for denormals. */
#include "simd.h"

#include "dsp/fft/cpu_level.h"

extern const struct simd simd_base;
#if defined __x86_64__
#include <immintrin.h>
extern const struct simd simd_v3, simd_v4;
#endif

const struct simd *simd_choose(void)
{
    switch (cpu_level()) {
#if defined __x86_64__
    case CPU_AVX512:
        return &simd_v4;
    case CPU_AVX2:
        return &simd_v3;
#endif
    default:
        return &simd_base;
    }
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
