/* team_barrier - a barrier for some warps of a block (PTX: bar.sync with a number and a count). */
#ifndef HALOCONV_TEAM_BARRIER_CUH
#define HALOCONV_TEAM_BARRIER_CUH

#include <cuda_runtime.h>

/* Waits for the `threads` threads of team `number` (0 to 14). A team is whole warps. */
static __device__ __forceinline__ void team_barrier(unsigned number, unsigned threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(number + 1), "r"(threads) : "memory");
}

#endif
