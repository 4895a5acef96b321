/* rung 4, cached halo - only the tile's own cells in shared memory; halo cells from global memory, mostly still in a
 * cache (book, section 7.5).
 *
 *   x (global)   ..[  halo: read where it lies  ][====== tile, B ======]..
 *   s (shared)                                    0 ............... B-1      thread t: s[t-k] while k <= t, then x[i-k]
 *
 * cost     B loads into shared memory; then 1 load an FMA, from shared memory or, for the K(K-1)/2 products that reach
 *          over the tile's edge (all but B(B+1)/2 when K >= B), from L1
 * limits   masks of 16384 taps together
 * ceiling  1/8 of the FMA rate, less the divergent warp at the seam, which takes both branches one after the other
 */
#include "mask_constant.cuh"

enum { B = 128 };

static __global__ void cached_halo(const float *__restrict__ x, int at, float *__restrict__ y, int n_taps,
                                   long n_frames)
{
    __shared__ float s[B];
    const int t = threadIdx.x;
    const long i = (long)blockIdx.x * B + t;
    s[t] = frame_or_ghost(x, i, n_frames);
    __syncthreads();
    if (i >= n_frames) return;
    const int past = (int)min(i, (long)n_taps);
    float sum = 0.0f;
    for (int k = 0; k < n_taps; k++)
        if (k <= past) {
            if (k <= t) sum += mask[at + k] * s[t - k];
            else sum += mask[at + k] * x[i - k];
        }
    y[i] = sum;
}

static cudaError_t launch(const struct task *t, void *, cudaStream_t stream)
{
    return each_channel(t, [&](struct row r) {
        cached_halo<<<tiles_of(t->n_frames, B), B, 0, stream>>>(r.x, r.mask * t->n_taps, r.y, t->n_taps, t->n_frames);
    });
}

extern "C" const struct rung rung_cached_halo = {
    4, "cached-halo", "internal cells only in shared memory", "7.5", false,
    mask_accepts<1>, mask_prepare<1>, launch, NULL};
