/* near_sparse - near (near.h) for outputs that share no inputs: many channels, each with a response of its own.
 *
 *   warp    8 outputs; lane: one output, 16 frames of the tile's 64, all taps of its responses, 64 at a time
 *   stage   64 taps of all 8, and a block of 64 frames:   x [64 before][tile]   h [64 taps]
 *           stage 0 of a response is the tile alone; each later one brings the 64 frames before the last, so that a
 *           frame is loaded once, and 3 blocks of x and 2 of h are all that a warp holds
 *   thread  going down 8 taps, 2 loads of 16 bytes of x and 2 of h feed 128 FMA
 *
 * Rows are 17 times 16 bytes long: the 8 outputs of a quarter of a warp miss each other's banks. While a stage is
 * computed the next one is copied in the background. A warp waits for no other. Nothing is dealt out: there are enough
 * outputs.
 *
 * cost     a stage and output: 512 bytes, 4096 FMA
 * error    64 taps in one sum, then the stages one after another
 * limits   as near's
 * ceiling  the device's FP32 FMA rate: of a thread's instructions in a stage 1024 are FMA, 34 loads from shared memory
 */
#include "near_sparse.h"

#include "async_copy.cuh"

#include <stdint.h>

enum {
    TILE = 64,
    V = 16,                              /* frames a thread                                                      */
    OUTS = 8,                            /* outputs a warp                                                       */
    WARPS = 4,                           /* a block: 43.5 KB of shared memory                                    */
    STEP = 8,                            /* taps of a thread between loads                                       */
    ROW = TILE + 4,
    UNITS = TILE / 4,                    /* of 16 bytes a row                                                    */
    MINE = OUTS * UNITS / 32             /* of a block of rows, a lane's                                         */
};
static_assert(OUTS * TILE == 32 * V && (int)TILE == (int)NEAR_CHUNK, "a warp has whole tiles, a stage one chunk");

struct stages {                          /* of one warp                                                          */
    float x[3][OUTS][ROW], h[2][OUTS][ROW];
};

struct source {                          /* what a lane copies from: rows lane / UNITS + 32 / UNITS * u          */
    const float *x[MINE], *taps[MINE];   /* NULL = no response: zeros                                            */
};

__device__ static inline int row_of(int u) { return threadIdx.x % 32 / UNITS + 32 / UNITS * u; }

/* Response number `term` of the outputs from `out` on. */
__device__ static inline void source_find(struct source &source, const struct near_job &job, int out, int end, int term)
{
#pragma unroll
    for (int u = 0; u < MINE; u++) {
        const int mine = out + row_of(u);
        const struct near_route *route = mine < end ? job.routes + job.first_route[mine] + term : NULL;
        const bool is = route && route < job.routes + job.first_route[mine + 1];
        source.x[u] = is ? job.x + route->in * ((size_t)job.ring_mask + 1) : NULL;
        source.taps[u] = is ? route->taps : NULL;
    }
}

/* Frames from ... from + 63 of each row. */
template <bool ALIGNED>
__device__ static inline void frames_copy(float (&x)[OUTS][ROW], const struct source &source,
                                          const struct near_job &job, unsigned from)
{
    const int at = 4 * (threadIdx.x % UNITS);
#pragma unroll
    for (int u = 0; u < MINE; u++) {
        const float *row = source.x[u];
        float *to = &x[row_of(u)][at];
        if (ALIGNED) {
            copy16(to, row ? row + ((from + at) & job.ring_mask) : job.x, row ? 16 : 0);
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) to[i] = row ? row[(from + at + i) & job.ring_mask] : 0.0f;
        }
    }
}

__device__ static inline void taps_copy(float (&h)[OUTS][ROW], const struct source &source, const struct near_job &job,
                                        int tap)
{
    const int at = 4 * (threadIdx.x % UNITS);
#pragma unroll
    for (int u = 0; u < MINE; u++) {
        const float *taps = source.taps[u];
        copy16(&h[row_of(u)][at], taps ? taps + tap + at : job.x, taps ? 16 : 0);
    }
}

__device__ static inline void load8(float *to, const float *from)
{
    const float4 a = *(const float4 *)from, b = *(const float4 *)(from + 4);
    to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w, to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}

/* total[i] += sum over 64 taps k of h[k] x[first + i - k]; x: frames 0 ... of `tile`, frames -64 ... -1 in `before`. */
__device__ static inline void stage_compute(float (&total)[V], const float *tile, const float *before, const float *h,
                                            int first)
{
    float sum[V] = {}, window[V + STEP], taps[STEP]; /* window: x[first - step - 8 ... first - step + 15] */
    load8(window + STEP, tile + first);
    load8(window + 2 * STEP, tile + first + STEP);
#pragma unroll
    for (int step = 0; step < TILE; step += STEP) {
        const int at = first - step - STEP;
        load8(window, at >= 0 ? tile + at : before + TILE + at);
        load8(taps, h + step);
#pragma unroll
        for (int k = 0; k < STEP; k++)
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] = fmaf(taps[k], window[STEP + i - k], sum[i]);
#pragma unroll
        for (int i = V - 1; i >= 0; i--) window[STEP + i] = window[i];
    }
#pragma unroll
    for (int i = 0; i < V; i++) total[i] += sum[i];
}

/* The sums of all outputs, [OUTS][ROW] in shared memory, to y, with what the far levels hold for these frames. */
template <bool ALIGNED>
__device__ static inline void rows_write(const float (&sums)[OUTS][ROW], const struct near_job &job, int out, int end)
{
    const int at = 4 * (threadIdx.x % UNITS), frame = blockIdx.y * TILE + at;
    float4 sum[MINE];
#pragma unroll
    for (int u = 0; u < MINE; u++) sum[u] = *(const float4 *)&sums[row_of(u)][at];
    for (int d = 0; d < job.n_due; d++) {
        const struct near_due &due = job.due[d];
#pragma unroll
        for (int u = 0; u < MINE; u++) {
            const int mine = out + row_of(u) < end ? out + row_of(u) : end - 1;
            const float *row = due.frames + mine * ((size_t)due.mask + 1);
            const unsigned from = due.at + frame;
            const float4 add = ALIGNED ? *(const float4 *)(row + (from & due.mask))
                                       : make_float4(row[from & due.mask], row[(from + 1) & due.mask],
                                                     row[(from + 2) & due.mask], row[(from + 3) & due.mask]);
            sum[u].x += add.x, sum[u].y += add.y, sum[u].z += add.z, sum[u].w += add.w;
        }
    }
#pragma unroll
    for (int u = 0; u < MINE; u++) {
        const int left = out + row_of(u) < end ? job.n - frame : 0;
        float *y = job.y + (out + row_of(u)) * job.y_pitch + frame;
        if (ALIGNED && left > 0) {
            *(float4 *)y = sum[u];
        } else {
            const float four[4] = {sum[u].x, sum[u].y, sum[u].z, sum[u].w};
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (i < left) y[i] = four[i];
        }
    }
}

/* grid: outputs x tiles */
template <bool ALIGNED>
static __global__ void __launch_bounds__(32 * WARPS, 4) near_rows(const __grid_constant__ struct near_job job)
{
    __shared__ __align__(16) struct stages shared[WARPS];
    struct stages &mine = shared[threadIdx.x / 32];
    const int out = job.first_group * NEAR_OUTS + (blockIdx.x * WARPS + threadIdx.x / 32) * OUTS;
    const int end = min(job.n_out, (job.first_group + job.n_groups) * NEAR_OUTS);
    if (out >= end) return;
    const int row = threadIdx.x % OUTS, first = threadIdx.x % 32 / OUTS * V; /* what this lane computes */
    const unsigned tile = job.pos + blockIdx.y * TILE;
    int n_terms = out + row < end ? job.first_route[out + row + 1] - job.first_route[out + row] : 0;
#pragma unroll
    for (int bit = 1; bit < OUTS; bit *= 2) n_terms = max(n_terms, __shfl_xor_sync(~0u, n_terms, bit));
    float total[V] = {};
    struct source source;

    int x = 0, h = 0; /* the blocks that the next stage is copied to */
    if (n_terms) {
        source_find(source, job, out, end, 0);
        frames_copy<ALIGNED>(mine.x[0], source, job, tile);
    }
    for (int term = 0; term < n_terms; term++)
        for (int stage = 0; stage <= job.n_chunks; stage++) {
            const int now = x, before = x == 0 ? 2 : x - 1, taps = h;
            copies_wait();
            __syncwarp();
            x = x == 2 ? 0 : x + 1;
            h ^= 1;
            if (stage < job.n_chunks) {
                frames_copy<ALIGNED>(mine.x[x], source, job, tile - (stage + 1) * TILE);
                taps_copy(mine.h[h], source, job, stage * TILE);
            } else if (term + 1 < n_terms) {
                source_find(source, job, out, end, term + 1);
                frames_copy<ALIGNED>(mine.x[x], source, job, tile);
            }
            if (stage) stage_compute(total, mine.x[before][row], mine.x[now][row], mine.h[taps][row], first);
        }

    __syncwarp();
#pragma unroll
    for (int i = 0; i < V; i += 4)
        *(float4 *)&mine.x[0][row][first + i] = make_float4(total[i], total[i + 1], total[i + 2], total[i + 3]);
    __syncwarp();
    rows_write<ALIGNED>(mine.x[0], job, out, end);
}

cudaError_t near_sparse_launch(const struct near_job *job, cudaStream_t stream)
{
    const unsigned rows = (unsigned)job->n_groups * NEAR_OUTS, tiles = (unsigned)(job->n + TILE - 1) / TILE;
    const dim3 grid((rows + OUTS * WARPS - 1) / (OUTS * WARPS), tiles);
    /* Every row of 16 bytes starts at one; the rings of far levels lie as the stream does. */
    if (job->pos % 4 == 0 && job->n % 4 == 0 && job->y_pitch % 4 == 0 && (uintptr_t)job->y % 16 == 0)
        near_rows<true><<<grid, 32 * WARPS, 0, stream>>>(*job);
    else
        near_rows<false><<<grid, 32 * WARPS, 0, stream>>>(*job);
    return cudaGetLastError();
}

cudaError_t near_sparse_load(void)
{
    struct cudaFuncAttributes a;
    const cudaError_t e = cudaFuncGetAttributes(&a, near_rows<true>);
    return e == cudaSuccess ? cudaFuncGetAttributes(&a, near_rows<false>) : e;
}
