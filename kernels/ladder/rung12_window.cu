/* rung 12, window - each thread computes V outputs side by side, from V frames that it keeps in registers.
 *
 *   s (shared)          row t-1 [ x(-8) ...... x(-1) pad ]      row t [ x(0) ...... x(7) pad ]      x(0): of thread t
 *   window (registers)  tap 0   [ x(0) x(1) ...  x(6) x(7)  ]   y(o) += h(0) window[o]
 *                       tap 1   [ x(0) x(1) ...  x(6) x(-1) ]   y(o) += h(1) window[(o - 1) mod 8]
 *                       tap 7   [ x(0) x(-7) ... x(-2) x(-1) ]  x(-8) replaces x(0): the window is row t-1
 *
 * A tap needs one new frame, which replaces the newest: a load feeds V FMA. A turn of V taps is unrolled, so that each
 * index of the window is a constant; an array with a variable index is not kept in registers. Threads read V frames
 * apart: without the float of padding in each row, 8 threads would hit the same bank.
 *
 * cost     a tile and chunk: TILE + CHUNK loads of x. A turn: V V FMA, V loads of frames and V / 4 of taps from shared
 *          memory: 1/8 load of a frame an FMA, where rung 11 has 1/4
 * limits   none on taps and frames; 65535 channels
 * ceiling  the FMA rate, less the other instructions: 64 of the 74 FMA and loads of a turn are FMA, 86%. Measured: 60%
 */
#include "rung.cuh"

enum { B = 128, V = 8, TILE = V * B, CHUNK = 256 };

/* grid: tiles x channels */
static __global__ void __launch_bounds__(B) sliding_window(struct task job)
{
    __shared__ float s[(CHUNK + TILE) / V][V + 1];
    __shared__ __align__(16) float taps[CHUNK];
    float(*const rows)[V + 1] = s + CHUNK / V; /* of the tile: row t is the row of thread t */
    const int t = threadIdx.x, out = blockIdx.y;
    const long tile = (long)blockIdx.x * TILE;
    const float *x = job.x + (job.sharing == BANK ? 0 : out) * job.x_pitch;
    const float *h = job.h + (job.sharing == SHARED ? 0 : (long)out * job.n_taps);
    float sum[V] = {};
    for (int k0 = 0; k0 < job.n_taps; k0 += CHUNK) {
        const int turns = (min((int)CHUNK, job.n_taps - k0) + V - 1) / V;
        for (int j = t; j < V * turns; j += B) taps[j] = k0 + j < job.n_taps ? h[k0 + j] : 0.0f;
        for (int j = CHUNK - V * turns + t; j < CHUNK + TILE; j += B)
            s[j / V][j % V] = frame_or_ghost(x, tile - k0 - CHUNK + j, job.n_frames);
        __syncthreads();
        float window[V];
#pragma unroll
        for (int o = 0; o < V; o++) window[o] = rows[t][o];
        for (int turn = 0; turn < turns; turn++) {
            const float *older = rows[t - turn - 1];
#pragma unroll
            for (int k = 0; k < V; k++) {
                const float tap = taps[V * turn + k];
#pragma unroll
                for (int o = 0; o < V; o++) sum[o] += tap * window[(o - k + V) % V];
                window[V - 1 - k] = older[V - 1 - k];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int o = 0; o < V; o++) rows[t][o] = sum[o]; /* through shared memory, so that a warp writes whole lines */
    __syncthreads();
    float *y = job.y + out * job.y_pitch + tile;
    for (int j = t; j < TILE && tile + j < job.n_frames; j += B) y[j] = rows[j / V][j % V];
}

static bool accepts(const struct task *t) { return t->n_out <= 65535; }

static cudaError_t launch(const struct task *t, void *, cudaStream_t stream)
{
    sliding_window<<<dim3(tiles_of(t->n_frames, TILE), t->n_out), B, 0, stream>>>(*t);
    return cudaGetLastError();
}

extern "C" const struct rung rung_window = {
    12, "window", "a sliding window of inputs in registers", "", false,
    accepts, NULL, launch, NULL};
