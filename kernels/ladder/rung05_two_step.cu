/* rung 5, two steps - tile and halo in shared memory by two loads: one by all threads, one by as many threads as there
 * are cells left.
 *
 *   x (global)   ..[==== halo, K-1 ====][======== tile, B ========]..
 *   s (shared)     0 ................................... B+K-2              thread t: sum_k h[k] s[K-1+t-k]
 *                  [ step 1: s[t], all threads ][ step 2: s[B+t], t < K-1 ]  the warp at the end of step 2 diverges
 *
 * cost     a tile and chunk: B + K - 1 loads, B K FMA; two loads where rung 3 has three
 * limits   masks of 16384 taps together; a halo no wider than the block, so chunks of B taps
 * ceiling  1 load and 1 tap an FMA: 1/8 of the FMA rate
 */
#include "mask_constant.cuh"

enum { B = 128 };

static __global__ void two_step(const float *__restrict__ x, int at, float *__restrict__ y, int n_taps, long n_frames)
{
    __shared__ float s[2 * B];
    const int t = threadIdx.x;
    const long tile = (long)blockIdx.x * B;
    float sum = 0.0f;
    for (int k0 = 0; k0 < n_taps; k0 += B) {
        const int width = min((int)B, n_taps - k0);
        const long first = tile - k0 - (width - 1);
        s[t] = frame_or_ghost(x, first + t, n_frames);
        if (t < width - 1) s[B + t] = frame_or_ghost(x, first + B + t, n_frames);
        __syncthreads();
        for (int k = 0; k < width; k++) sum += mask[at + k0 + k] * s[width - 1 + t - k];
        __syncthreads();
    }
    if (tile + t < n_frames) y[tile + t] = sum;
}

static cudaError_t launch(const struct task *t, void *, cudaStream_t stream)
{
    return each_channel(t, [&](struct row r) {
        two_step<<<tiles_of(t->n_frames, B), B, 0, stream>>>(r.x, r.mask * t->n_taps, r.y, t->n_taps, t->n_frames);
    });
}

extern "C" const struct rung rung_two_step = {
    5, "two-step", "the halo in one piece, by a second, partial load", "", false,
    mask_accepts<1>, mask_prepare<1>, launch, NULL};
