/* team_barrier - replaces kernels/fft/team_barrier.cuh: all teams of a block pass the same barriers, so that a
 * barrier of the block serves. */
#ifndef CUDA_ON_CPU_TEAM_BARRIER_CUH
#define CUDA_ON_CPU_TEAM_BARRIER_CUH

#include <cuda_runtime.h>

static inline void team_barrier(unsigned, unsigned) { __syncthreads(); }

#endif
