/* rung 10, unrolled - rung 9 with the mask width known to the compiler: no loop over taps, addresses in the
 * instructions.
 *
 *   x (global)   ..[===== halo, W-1 =====][=========== tile, EACH B ===========]..     W = K for the textbook's widths;
 *   s (shared)     0 ..................................... EACH B + W - 2              else W = 16 or 64, in chunks
 *
 * cost     as rung 9, without the loop: 1 load an FMA and no other instruction; the tap is an operand in constant
 * memory
 * limits   masks of 16384 taps together, each padded with zeros to whole chunks: of 16 taps (up to 32 taps) or 64 if
 *          the width is not 3, 5, 7, 9 or 11
 * ceiling  1 load an FMA: 1/4 of the FMA rate
 */
#include "mask_constant.cuh"

enum { B = 128, EACH = 4, TILE = EACH * B, BLOCKS = 16 * 132 };

template <int W>
static __global__ void unrolled(const float *__restrict__ x, int at, float *__restrict__ y, int n_chunks, long n_frames)
{
    __shared__ float s[TILE + W];
    const int t = threadIdx.x;
    for (long tile = (long)blockIdx.x * TILE; tile < n_frames; tile += (long)gridDim.x * TILE) {
        float sum[EACH] = {};
        for (int c = 0; c < n_chunks; c++) {
            const long first = tile - c * W - (W - 1);
#pragma unroll
            for (int j = 0; j < TILE + W - 1; j += B)
                if (j + t < TILE + W - 1) s[j + t] = frame_or_ghost(x, first + j + t, n_frames);
            __syncthreads();
#pragma unroll
            for (int k = 0; k < W; k++)
#pragma unroll
                for (int e = 0; e < EACH; e++) sum[e] += mask[at + c * W + k] * s[W - 1 - k + t + e * B];
            __syncthreads();
        }
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if (tile + t + e * B < n_frames) y[tile + t + e * B] = sum[e];
    }
}

static int width_of(int n_taps)
{
    return n_taps <= 11 && n_taps >= 3 && n_taps % 2 ? n_taps : n_taps <= 32 ? 16 : 64;
}

static bool accepts(const struct task *t) { return mask_fits(t, width_of(t->n_taps)); }

static cudaError_t prepare(const struct task *t, void **) { return mask_write(t, width_of(t->n_taps)); }

static cudaError_t launch(const struct task *t, void *, cudaStream_t stream)
{
    const int W = width_of(t->n_taps), pitch = mask_pitch(t, W);
    auto kernel = W == 3    ? unrolled<3>
                  : W == 5  ? unrolled<5>
                  : W == 7  ? unrolled<7>
                  : W == 9  ? unrolled<9>
                  : W == 11 ? unrolled<11>
                  : W == 16 ? unrolled<16>
                            : unrolled<64>;
    return each_channel(t, [&](struct row r) {
        const unsigned blocks = min(tiles_of(t->n_frames, TILE), (unsigned)BLOCKS);
        kernel<<<blocks, B, 0, stream>>>(r.x, r.mask * pitch, r.y, pitch / W, t->n_frames);
    });
}

extern "C" const struct rung rung_unrolled = {
    10, "unrolled", "mask widths known to the compiler, taps unrolled", "", false,
    accepts, prepare, launch, NULL};
