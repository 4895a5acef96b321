/* rung 6, cooperative - all threads load tile and halo in one strided loop, unrolled and predicated: no branch.
 *
 *   x (global)   ..[======= halo, K-1 =======][======== tile, B ========]..
 *   s (shared)     0 ....................................... B+K-2            thread t: sum_k h[k] s[K-1+t-k]
 *                  [ t + 0 B ][ t + 1 B ] ...... [ t + 4 B ]                step m: every thread, if its cell is wanted
 *
 * cost     a tile and chunk: B + K - 1 loads, several in flight at once; B K FMA. Chunks of 512 taps: a quarter of rung
 *          5's barriers
 * limits   masks of 16384 taps together
 * ceiling  1 load and 1 tap an FMA: 1/8 of the FMA rate
 */
#include "mask_constant.cuh"

enum { B = 128, CHUNK = 512 };

static __global__ void cooperative(const float *__restrict__ x, int at, float *__restrict__ y, int n_taps,
                                   long n_frames)
{
    __shared__ float s[B + CHUNK];
    const int t = threadIdx.x;
    const long tile = (long)blockIdx.x * B;
    float sum = 0.0f;
    for (int k0 = 0; k0 < n_taps; k0 += CHUNK) {
        const int width = min((int)CHUNK, n_taps - k0);
        const long first = tile - k0 - (width - 1);
#pragma unroll
        for (int j = 0; j < B + CHUNK; j += B)
            if (j + t < B + width - 1) s[j + t] = frame_or_ghost(x, first + j + t, n_frames);
        __syncthreads();
        for (int k = 0; k < width; k++) sum += mask[at + k0 + k] * s[width - 1 + t - k];
        __syncthreads();
    }
    if (tile + t < n_frames) y[tile + t] = sum;
}

static cudaError_t launch(const struct task *t, void *, cudaStream_t stream)
{
    return each_channel(t, [&](struct row r) {
        cooperative<<<tiles_of(t->n_frames, B), B, 0, stream>>>(r.x, r.mask * t->n_taps, r.y, t->n_taps, t->n_frames);
    });
}

extern "C" const struct rung rung_cooperative = {
    6, "cooperative", "one strided load by all, unrolled and predicated", "", false,
    mask_accepts<1>, mask_prepare<1>, launch, NULL};
