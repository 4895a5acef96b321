/* spectrum - sums and products of bins of spectra in the layout of fft_block.cuh, one bin (float2) or two neighbours
 * (float4) a thread. Bin 0 holds two real bins. */
#ifndef HALOCONV_SPECTRUM_CUH
#define HALOCONV_SPECTRUM_CUH

#include <cuda_runtime.h>

/* sum += x h. bin0: x and h are bin 0, or bins 0 and 1 (float4). */
__device__ static inline void bin_multiply_add(float2 &sum, float2 x, float2 h, bool bin0)
{
    const float hb = bin0 ? 0.0f : h.y, hc = bin0 ? h.y : h.x; /* computed once for each h */
    sum.x = fmaf(x.x, h.x, fmaf(-x.y, hb, sum.x));
    sum.y = fmaf(x.y, hc, fmaf(x.x, hb, sum.y));
}

__device__ static inline void bin_multiply_add(float4 &sum, float4 x, float4 h, bool bin0)
{
    const float hb = bin0 ? 0.0f : h.y, hc = bin0 ? h.y : h.x;
    sum.x = fmaf(x.x, h.x, fmaf(-x.y, hb, sum.x));
    sum.y = fmaf(x.y, hc, fmaf(x.x, hb, sum.y));
    sum.z = fmaf(x.z, h.z, fmaf(-x.w, h.w, sum.z));
    sum.w = fmaf(x.w, h.z, fmaf(x.z, h.w, sum.w));
}

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
