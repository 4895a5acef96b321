/* rung 11, grid 2-D - channels and tiles as the two dimensions of one grid; four channels a block, side by side in
 * shared memory.
 *
 *   x (global)   row 0  ..[==== halo ====][==== tile ====]..    s (shared)  [ frame 0: row 0 1 2 3 ][ frame 1: .. ]
 *                row 1  ..[==== halo ====][==== tile ====]..    one 16-byte load: 4 rows of a frame for 4 FMA;
 *                row 2, 3                                       neighbours 16 bytes apart: no bank is hit twice
 *
 * A thread loads its frame of all four rows and stores the four as one: with a thread for each row, the stores would
 * have a stride of 4 and use a quarter of the banks. If the number of channels is not a multiple of 4, a row is a
 * quarter of a channel, so that all rows have work.
 *
 * cost     4 (TILE + CHUNK) loads, 4 TILE CHUNK FMA; 1 launch for all channels where rungs 1 to 10 make one each
 * limits   one mask for all channels (SHARED), of up to 16384 taps; for others see rung 15
 * ceiling  4 bytes from shared memory an FMA: 1/4 of the FMA rate, at a quarter of the load instructions
 */
#include "mask_constant.cuh"

enum { B = 128, EACH = 4, TILE = EACH * B, CHUNK = 256, ROWS = 4, UNIT = 8 };

/* grid: tiles x rows / 4. Row r is `length` frames of channel r / splits, from frame r % splits * length on. */
static __global__ void __launch_bounds__(B) grid_2d(struct task job, int splits, long length)
{
    __shared__ __align__(16) float4 s[TILE + CHUNK];
    const int t = threadIdx.x;
    const long tile = (long)blockIdx.x * TILE; /* in the row */
    const float *x[ROWS];
    long begin[ROWS];
#pragma unroll
    for (int q = 0; q < ROWS; q++) {
        const int r = blockIdx.y * ROWS + q;
        begin[q] = r % splits * length;
        x[q] = job.x + r / splits * job.x_pitch;
    }
    float sum[EACH][ROWS] = {};
    for (int k0 = 0; k0 < job.n_taps; k0 += CHUNK) {
        for (int j = t; j < TILE + CHUNK; j += B) {
            const long i = tile - k0 - CHUNK + j;
            float4 v;
            v.x = frame_or_ghost(x[0], begin[0] + i, job.n_frames);
            v.y = frame_or_ghost(x[1], begin[1] + i, job.n_frames);
            v.z = frame_or_ghost(x[2], begin[2] + i, job.n_frames);
            v.w = frame_or_ghost(x[3], begin[3] + i, job.n_frames);
            s[j] = v;
        }
        __syncthreads();
        const int width = min((int)CHUNK, job.n_taps - k0);
        for (int k8 = 0; k8 < width; k8 += UNIT)
#pragma unroll
            for (int k = k8; k < k8 + UNIT; k++) {
                const float h = mask[k0 + k];
#pragma unroll
                for (int e = 0; e < EACH; e++) {
                    const float4 v = s[CHUNK + t + e * B - k];
                    sum[e][0] += h * v.x, sum[e][1] += h * v.y, sum[e][2] += h * v.z, sum[e][3] += h * v.w;
                }
            }
        __syncthreads();
    }
#pragma unroll
    for (int q = 0; q < ROWS; q++) {
        float *y = job.y + (blockIdx.y * ROWS + q) / splits * job.y_pitch;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const long i = tile + t + e * B;
            if (i < length && begin[q] + i < job.n_frames) y[begin[q] + i] = sum[e][q];
        }
    }
}

static bool accepts(const struct task *t)
{
    return t->sharing == SHARED && mask_fits(t, UNIT) && t->n_out <= 65535;
}

static cudaError_t launch(const struct task *t, void *, cudaStream_t stream)
{
    const int splits = t->n_out % ROWS ? ROWS : 1;
    const long length = (t->n_frames + splits - 1) / splits;
    grid_2d<<<dim3(tiles_of(length, TILE), t->n_out * splits / ROWS), B, 0, stream>>>(*t, splits, length);
    return cudaGetLastError();
}

extern "C" const struct rung rung_grid_2d = {
    11, "grid-2d", "channels x tiles in one grid, channels side by side in shared memory", "", false,
    accepts, mask_prepare<UNIT>, launch, NULL};
