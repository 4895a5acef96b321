/* words - loads and stores of words {value, number} that the host or another multiprocessor writes meanwhile, and the
 * time, in PTX; and seats, by CUDA's atomics. */
#ifndef HALOCONV_WORDS_CUH
#define HALOCONV_WORDS_CUH

#include "resident.h"

__device__ static inline struct resident_word word_load(const struct resident_word *p)
{
    uint64_t word; /* one access: value and number belong together */
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(word) : "l"(p) : "memory");
    return {(uint32_t)word, (uint32_t)(word >> 32)};
}

__device__ static inline void word_store(struct resident_word *p, struct resident_word w)
{
    const uint64_t word = w.value | (uint64_t)w.number << 32;
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(word) : "memory");
}

/* Acquires a seat, with all that its last worker has written. false: another worker holds it. */
__device__ static inline bool seat_try_acquire(struct resident_seat *seat)
{
    const bool is_free = atomicCAS(&seat->is_held, 0u, 1u) == 0;
    if (is_free) __threadfence();
    return is_free;
}

/* Frees a seat. A barrier has ordered the other threads' writes before this thread's fence: with a fence of each of 512
 * threads, whose answers are still on their way to the host, this took up to 0.5 ms. */
__device__ static inline void seat_release(struct resident_seat *seat)
{
    __threadfence();
    atomicExch(&seat->is_held, 0u);
}

/* Nanoseconds of the GPU's clock. */
__device__ static inline uint64_t time_ns(void)
{
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

#endif
