/* spectrum - sums and products of the values of spectra (fft_teams.cuh), one value (float2) or two neighbours (float4) a
 * thread. */
#ifndef HALOCONV_SPECTRUM_CUH
#define HALOCONV_SPECTRUM_CUH

#include <cuda_runtime.h>

/* sum += x h */
__device__ static inline void bin_multiply_add(float2 &sum, float2 x, float2 h)
{
    sum.x = fmaf(x.x, h.x, fmaf(-x.y, h.y, sum.x));
    sum.y = fmaf(x.y, h.x, fmaf(x.x, h.y, sum.y));
}

__device__ static inline void bin_multiply_add(float4 &sum, float4 x, float4 h)
{
    sum.x = fmaf(x.x, h.x, fmaf(-x.y, h.y, sum.x));
    sum.y = fmaf(x.y, h.x, fmaf(x.x, h.y, sum.y));
    sum.z = fmaf(x.z, h.z, fmaf(-x.w, h.w, sum.z));
    sum.w = fmaf(x.w, h.z, fmaf(x.z, h.w, sum.w));
}

__device__ static inline void bin_add(float2 &sum, float2 x) { sum.x += x.x, sum.y += x.y; }
__device__ static inline void bin_add(float4 &sum, float4 x)
{
    sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
}

/* sum += w x */
__device__ static inline void bin_weigh_add(float4 &sum, float4 x, float w)
{
    sum.x = fmaf(w, x.x, sum.x), sum.y = fmaf(w, x.y, sum.y);
    sum.z = fmaf(w, x.z, sum.z), sum.w = fmaf(w, x.w, sum.w);
}

#endif
