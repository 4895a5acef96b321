/* denormals - makes a thread replace denormal numbers, which are slow, by 0. */
#ifndef HALOCONV_DENORMALS_H
#define HALOCONV_DENORMALS_H

#if defined __x86_64__
#include <immintrin.h>
#endif

/* Flushes denormals to zero on this thread. Returns the state for denormals_restore. [rt] */
static inline unsigned denormals_off(void)
{
#if defined __x86_64__
    unsigned state = _mm_getcsr();
    _mm_setcsr(state | 0x8040u); /* bits FTZ (flush to zero) and DAZ (denormals are zero) */
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

static inline void denormals_restore(unsigned state)
{
#if defined __x86_64__
    _mm_setcsr(state);
#elif defined __aarch64__
    __asm__ volatile("msr fpcr, %0" ::"r"((unsigned long)state));
#else
    (void)state;
#endif
}

#endif
