/* rung 9, coarsened - rung 6 with EACH outputs a thread, B frames apart in the tile, and tiles by a grid stride.
 *
 *   x (global)   ..[==== halo, CHUNK ====][=========== tile, EACH B ===========]..   block b: tiles b, b + grid, ...
 *   s (shared)     0 ....................................... EACH B + CHUNK - 1    thread t: outputs t, t+B, t+2B, t+3B
 *
 * cost     a tile and chunk: EACH B + K - 1 loads, EACH B K FMA; a tap is read once for EACH FMA
 * limits   masks of 16384 taps together
 * ceiling  1 load of x an FMA: 1/4 of the FMA rate
 */
#include "mask_constant.cuh"

enum { B = 128, EACH = 4, TILE = EACH * B, CHUNK = 512, UNIT = 4 };
enum { BLOCKS = 16 * 132 }; /* blocks that run at once on an H200 */

static __global__ void coarsened(const float *__restrict__ x, int at, float *__restrict__ y, int n_taps, long n_frames)
{
    __shared__ float s[TILE + CHUNK];
    const int t = threadIdx.x;
    for (long tile = (long)blockIdx.x * TILE; tile < n_frames; tile += (long)gridDim.x * TILE) {
        float sum[EACH] = {};
        for (int k0 = 0; k0 < n_taps; k0 += CHUNK) {
            const int width = min((int)CHUNK, n_taps - k0);
            const int none = CHUNK - (width + UNIT - 1) / UNIT * UNIT; /* cells at the far end that no tap reaches */
#pragma unroll
            for (int j = 0; j < TILE + CHUNK; j += B)
                if (j + t >= none) s[j + t] = frame_or_ghost(x, tile - k0 - CHUNK + j + t, n_frames);
            __syncthreads();
            for (int k = 0; k < width; k += UNIT) { /* the mask is padded with zeros to a multiple of UNIT */
                const float4 h = *(const float4 *)(mask + at + k0 + k);
#pragma unroll
                for (int e = 0; e < EACH; e++) {
                    const float *now = s + CHUNK + t + e * B - k;
                    sum[e] += h.x * now[0], sum[e] += h.y * now[-1], sum[e] += h.z * now[-2], sum[e] += h.w * now[-3];
                }
            }
            __syncthreads();
        }
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if (tile + t + e * B < n_frames) y[tile + t + e * B] = sum[e];
    }
}

static cudaError_t launch(const struct task *t, void *, cudaStream_t stream)
{
    return each_channel(t, [&](struct row r) {
        const unsigned blocks = min(tiles_of(t->n_frames, TILE), (unsigned)BLOCKS);
        coarsened<<<blocks, B, 0, stream>>>(r.x, r.mask * mask_pitch(t, UNIT), r.y, t->n_taps, t->n_frames);
    });
}

extern "C" const struct rung rung_coarsened = {
    9, "coarsened", "several outputs a thread, tiles by a grid stride", "6.3", false,
    mask_accepts<UNIT>, mask_prepare<UNIT>, launch, NULL};
