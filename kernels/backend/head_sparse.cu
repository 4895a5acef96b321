/* head_sparse - the head (head.h) for outputs that share no inputs: many channels, each with its own response.
 *
 *   warp    8 outputs. A lane computes 16 of the tile's 64 frames of one output, with all taps of its responses
 *   stage   64 taps of each of the 8 outputs, and 64 frames of each input:   x [64 before][tile]   h [64 taps]
 *           Stage 0 of a response copies the tile. Each later stage copies the 64 frames before the previous stage's
 *           frames, so that a frame is copied once; a warp holds 3 blocks of 64 frames and 2 of 64 taps of each output
 *   lane    every 8 taps, 2 loads of 16 bytes of x and 2 of h feed 128 FMA
 *
 * Rows are 17 times 16 bytes long, so that the 8 outputs of a quarter of a warp use different banks. While a stage is
 * computed, the next one is copied in the background. Warps do not wait for each other. The taps are not divided among
 * warps: there are enough outputs.
 *
 * cost     a stage and output: 512 bytes, 4096 FMA
 * error    64 taps in one sum, then the stages one after another
 * limits   none
 * ceiling  the device's FP32 FMA rate: of a thread's instructions in a stage 1024 are FMA, 34 loads from shared memory
 */
#include "head_sparse.h"

#include "async_copy.cuh"
#include "kernels_load.h"

#include <stdint.h>

enum {
    TILE = 64,
    V = 16,                              /* frames a thread                                                      */
    OUTS = 8,                            /* outputs a warp                                                       */
    WARPS = 4,                           /* a block: 43.5 KB of shared memory                                    */
    STEP = 8,                            /* taps of a thread between loads                                       */
    ROW = TILE + 4,
    UNITS = TILE / 4,                    /* 16-byte units of a row                                               */
    MINE = OUTS * UNITS / 32             /* units of OUTS rows that one lane copies                              */
};
static_assert(OUTS * TILE == 32 * V && (int)TILE == (int)HEAD_CHUNK, "a warp has whole tiles, a stage one chunk");

struct stages {                          /* the shared memory of one warp                                        */
    float x[3][OUTS][ROW], h[2][OUTS][ROW];
};

struct source {                          /* the rows that a lane copies from: row_of(u)                          */
    const float *x[MINE], *taps[MINE];   /* NULL = no response: zeros                                            */
};

__device__ static inline int row_of(int u) { return threadIdx.x % 32 / UNITS + 32 / UNITS * u; }

/* Finds response number `term` of each of the outputs from `out` on. */
__device__ static inline void source_find(struct source &source, const struct head_job &job, int out, int end, int term)
{
#pragma unroll
    for (int u = 0; u < MINE; u++) {
        const int mine = out + row_of(u);
        const struct fir_cell *cell = mine < end ? job.cells + job.first_cell[mine] + term : NULL;
        const bool has_cell = cell && cell < job.cells + job.first_cell[mine + 1];
        source.x[u] = has_cell ? job.x + cell->in * ((size_t)job.ring_mask + 1) : NULL;
        source.taps[u] = has_cell ? cell->taps : NULL;
    }
}

/* Copies frames from ... from + 63 of each input. */
template <bool ALIGNED>
__device__ static inline void chunk_frames_copy(float (&x)[OUTS][ROW], const struct source &source,
                                                const struct head_job &job, unsigned from)
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

/* Copies taps tap ... tap + 63 of each response. */
__device__ static inline void chunk_taps_copy(float (&h)[OUTS][ROW], const struct source &source,
                                              const struct head_job &job, int tap)
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

/* total[i] += sum over 64 taps k of h[k] x[first + i - k]. x[0 ... 63] is `tile`, x[-64 ... -1] is `before`. */
__device__ static inline void sparse_stage_compute(float (&total)[V], const float *tile, const float *before,
                                                   const float *h, int first)
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

/* Adds the output of the tail levels for these frames to the sums of all outputs, and writes the result to y. */
template <bool ALIGNED>
__device__ static inline void rows_write(const float (&sums)[OUTS][ROW], const struct head_job &job, int out, int end)
{
    const int at = 4 * (threadIdx.x % UNITS), frame = blockIdx.y * TILE + at;
    float4 sum[MINE];
#pragma unroll
    for (int u = 0; u < MINE; u++) sum[u] = *(const float4 *)&sums[row_of(u)][at];
    for (int d = 0; d < job.n_due; d++) {
        const struct head_due &due = job.due[d];
#pragma unroll
        for (int u = 0; u < MINE; u++) {
            const int mine = out + row_of(u) < end ? out + row_of(u) : end - 1;
            const float *row = due.frames + mine * ((size_t)due.ring_mask + 1);
            const unsigned from = due.at + frame;
            const float4 add = ALIGNED ? *(const float4 *)(row + (from & due.ring_mask))
                                       : make_float4(row[from & due.ring_mask], row[(from + 1) & due.ring_mask],
                                                     row[(from + 2) & due.ring_mask], row[(from + 3) & due.ring_mask]);
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
static __global__ void __launch_bounds__(32 * WARPS, 4) head_rows(const __grid_constant__ struct head_job job)
{
    __shared__ __align__(16) struct stages shared[WARPS];
    struct stages &mine = shared[threadIdx.x / 32];
    const int out = job.first_group * HEAD_OUTS + (blockIdx.x * WARPS + threadIdx.x / 32) * OUTS;
    const int end = min(job.n_out, (job.first_group + job.n_groups) * HEAD_OUTS);
    if (out >= end) return;
    /* This lane computes frames first ... first + V - 1 of output `row`. */
    const int row = threadIdx.x % OUTS, first = threadIdx.x % 32 / OUTS * V;
    const unsigned tile = job.pos + blockIdx.y * TILE;
    int n_terms = out + row < end ? job.first_cell[out + row + 1] - job.first_cell[out + row] : 0;
#pragma unroll
    for (int bit = 1; bit < OUTS; bit *= 2) n_terms = max(n_terms, __shfl_xor_sync(~0u, n_terms, bit));
    float total[V] = {};
    struct source source;

    int x = 0, h = 0; /* indices of the x and h blocks to which the next stage is copied */
    if (n_terms) {
        source_find(source, job, out, end, 0);
        chunk_frames_copy<ALIGNED>(mine.x[0], source, job, tile);
    }
    for (int term = 0; term < n_terms; term++)
        for (int stage = 0; stage <= job.n_chunks; stage++) {
            const int now = x, before = x == 0 ? 2 : x - 1, taps = h;
            copies_wait();
            __syncwarp();
            x = x == 2 ? 0 : x + 1;
            h ^= 1;
            if (stage < job.n_chunks) {
                chunk_frames_copy<ALIGNED>(mine.x[x], source, job, tile - (stage + 1) * TILE);
                chunk_taps_copy(mine.h[h], source, job, stage * TILE);
            } else if (term + 1 < n_terms) {
                source_find(source, job, out, end, term + 1);
                chunk_frames_copy<ALIGNED>(mine.x[x], source, job, tile);
            }
            if (stage) sparse_stage_compute(total, mine.x[before][row], mine.x[now][row], mine.h[taps][row], first);
        }

    __syncwarp();
#pragma unroll
    for (int i = 0; i < V; i += 4)
        *(float4 *)&mine.x[0][row][first + i] = make_float4(total[i], total[i + 1], total[i + 2], total[i + 3]);
    __syncwarp();
    rows_write<ALIGNED>(mine.x[0], job, out, end);
}

cudaError_t head_sparse_launch(const struct head_job *job, cudaStream_t stream)
{
    const unsigned rows = (unsigned)job->n_groups * HEAD_OUTS, tiles = (unsigned)(job->n + TILE - 1) / TILE;
    const dim3 grid((rows + OUTS * WARPS - 1) / (OUTS * WARPS), tiles);
    /* ALIGNED: no unit of 16 bytes wraps or is cut. The rings of tail levels are aligned as the stream is. */
    if (job->pos % 4 == 0 && job->n % 4 == 0 && job->y_pitch % 4 == 0 && (uintptr_t)job->y % 16 == 0)
        head_rows<true><<<grid, 32 * WARPS, 0, stream>>>(*job);
    else
        head_rows<false><<<grid, 32 * WARPS, 0, stream>>>(*job);
    return cudaGetLastError();
}

cudaError_t head_sparse_load(void) { return kernels_load(head_rows<true>, head_rows<false>); }
