/* fir_register - convolves a stream (fir.h) by the sliding window of fir_register.cuh.
 *
 * The unit of work is one cell of one tile; the tile is stored after its last cell. Copies of 16 bytes need frames in
 * fours, so tiles start up to 3 frames before the job's first frame.
 *
 * error    sums of SLIDE taps, sums of 4 of these, then compensated sums (Kahan): below 1e-6 of the peak, also on a
 *          long average of a steady level
 */
#include "fir.h"
#include "fir_register.cuh"
#include "kernels_load.h"

#include <string.h>

struct cell_unit {
    int tile, out;
    int cell, end; /* index of the cell; one past the last cell of this output. Equal: the output has no cell */
};

__device__ static inline struct cell_unit cell_unit_of(const struct fir_job &job, int tile, int out)
{
    return {tile, out, __ldg(job.first_cell + out), __ldg(job.first_cell + out + 1)};
}

__device__ static inline struct cell_unit cell_unit_next(const struct fir_job &job, struct cell_unit u)
{
    if (u.cell + 1 < u.end) return {u.tile, u.out, u.cell + 1, u.end};
    u.tile += gridDim.x / job.n_out, u.out += gridDim.x % job.n_out;
    if (u.out >= job.n_out) u.tile++, u.out -= job.n_out;
    return cell_unit_of(job, u.tile, u.out);
}

__device__ static inline struct fir_cell cell_at(const struct fir_job &job, struct cell_unit u)
{
    struct fir_cell cell = {NULL, 0, 0};
    if (u.cell < u.end) {
        const int4 raw = __ldg((const int4 *)(job.cells + u.cell));
        memcpy(&cell, &raw, sizeof cell);
        cell.n_taps = (cell.n_taps + SLIDE - 1) / SLIDE * SLIDE; /* the padding is zeros */
    }
    return cell;
}
static_assert(sizeof(struct fir_cell) == sizeof(int4) && FIR_PAD % SLIDE == 0, "cell_at reads it in one load, padded");

using stream_staged = struct staged<false>;

/* Stages 128 taps from k0 on, and at ring[to ...] the frames that these taps need and the ring lacks: 128 frames, and
 * at k0 = 0 also the tile. at: the stream's frame for ring[to]. */
__device__ static inline void stage_stream(float *ring, int to, float *taps, const struct fir_job &job,
                                           struct fir_cell cell, unsigned at, int k0, int lane4)
{
    const float *x = job.x + (size_t)cell.in * ((size_t)job.ring_mask + 1);
    at += lane4;
    copy16(ring + to + lane4, x + (at & job.ring_mask));
    if (k0 == 0)
#pragma unroll
        for (int j = ROW; j < ROW + TILE; j += ROW) copy16(ring + j + lane4, x + ((at + j) & job.ring_mask));
    if (to == 0 && lane4 < SLIDE) copy16(ring + stream_staged::RING + lane4, x + (at & job.ring_mask));
    if (k0 + lane4 < cell.n_taps) copy16(taps + lane4, cell.taps + k0 + lane4);
}

__device__ static inline void store_stream(float *out, const float (&total)[V], const struct fir_job &job,
                                           struct cell_unit u, int early, int lane)
{
    __syncwarp();
#pragma unroll
    for (int q = 0; q < V; q += 4)
        *(float4 *)(out + V * lane + q) = make_float4(total[q], total[q + 1], total[q + 2], total[q + 3]);
    __syncwarp();
    const int first = u.tile * TILE - early;
    float *to = job.y + u.out * job.y_pitch;
    const float *add = job.add ? job.add + u.out * job.add_pitch : NULL;
#pragma unroll 4
    for (int j = lane; j < TILE; j += 32) {
        const int i = first + j;
        if (i >= 0 && i < job.n) to[i] = out[j] + (add ? add[i] : 0.0f);
    }
}

static __global__ void __maxnreg__(168) fir_register_stream(const __grid_constant__ struct fir_job job, int n_tiles)
{
    const int CHUNK = stream_staged::CHUNK, RING = stream_staged::RING;
    extern __shared__ __align__(16) unsigned char shared[];
    stream_staged &s = *(stream_staged *)shared;
    float *ring = s.ring[0], *next_ring = s.ring[1], *taps = s.taps[0], *next_taps = s.taps[1];
    const int lane4 = 4 * threadIdx.x, early = (int)(job.pos % 4);
    const unsigned start = job.pos - early - CHUNK; /* the first frame that is staged for tile 0 */
    float total[V] = {}, lost[V] = {};

    struct cell_unit at = cell_unit_of(job, blockIdx.x / job.n_out, blockIdx.x % job.n_out);
    struct fir_cell cell = cell_at(job, at);
    stage_stream(ring, 0, taps, job, cell, start + at.tile * TILE, 0, lane4);
    while (at.tile < n_tiles) {
        const struct cell_unit next = cell_unit_next(job, at);
        const struct fir_cell next_cell = cell_at(job, next);
        float chunk[V] = {}, sum[V] = {}, window[SLIDE / 4][4];
        int below = CHUNK + V * threadIdx.x; /* the index in the ring where the window ends */
        int oldest = 0;                      /* the index in the ring where the frames of this chunk begin */
        int k0 = 0;
        do {
            copies_wait();
            __syncwarp();
            if (k0 + CHUNK < cell.n_taps) {
                oldest = oldest == 0 ? RING - CHUNK : oldest - CHUNK;
                stage_stream(ring, oldest, next_taps, job, cell, start + at.tile * TILE - k0 - CHUNK, k0 + CHUNK,
                             lane4);
            } else if (next.tile < n_tiles) {
                stage_stream(next_ring, 0, next_taps, job, next_cell, start + next.tile * TILE, 0, lane4);
            }

            if (k0 == 0)
#pragma unroll
                for (int q = 0; q < V / 4; q++) load4(window[q + 1], ring + below + 4 * q);
            const int end = min(CHUNK, cell.n_taps - k0);
#pragma unroll 1
            for (int k = 0; k < end; k += SLIDE) {
                below -= SLIDE;
                if (below < 0) below += RING;
                register_slide(sum, window, ring + below, taps + k);
#pragma unroll
                for (int o = 0; o < V; o++) chunk[o] += sum[o], sum[o] = 0.0f;
            }
            float *t = taps;
            taps = next_taps, next_taps = t;
            k0 += CHUNK;
#pragma unroll
            for (int o = 0; o < V; o++) {
                const float y = chunk[o] - lost[o], sum_of_both = total[o] + y;
                lost[o] = (sum_of_both - total[o]) - y;
                total[o] = sum_of_both, chunk[o] = 0.0f;
            }
        } while (k0 < cell.n_taps);
        if (at.cell + 1 >= at.end) {
            store_stream(ring, total, job, at, early, threadIdx.x);
#pragma unroll
            for (int o = 0; o < V; o++) total[o] = lost[o] = 0.0f;
        }
        float *r = ring;
        ring = next_ring, next_ring = r;
        at = next, cell = next_cell;
    }
}

cudaError_t fir_register_load(void) { return kernels_load(fir_register_stream); }

cudaError_t fir_register_launch(const struct fir_job *job, cudaStream_t stream)
{
    enum { BLOCKS_AN_SM = 12 }; /* max. blocks by registers, a multiple of 4 */
    const int n_tiles = (job->n + (int)(job->pos % 4) + TILE - 1) / TILE;
    const long n_work = (long)n_tiles * job->n_out, capacity = (long)BLOCKS_AN_SM * job->n_sm;
    const unsigned n_blocks = (unsigned)(n_work < capacity ? n_work : capacity);
    fir_register_stream<<<n_blocks, THREADS, sizeof(stream_staged), stream>>>(*job, n_tiles);
    return cudaGetLastError();
}
