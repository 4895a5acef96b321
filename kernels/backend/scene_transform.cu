/* scene_transform - the transforms of moving sources: overlap-save with windows of 2P frames.
 *
 *   forward   ring  ..[  old frames  ]            receive [new frames]
 *             window  [ 2P - n_new frames          | new frames | 0 ]  -> X; the new frames go into the ring
 *   window    the last hop + fade frames of the inverse                -> a window of a tail level
 *   output    the last `block` frames of the inverses `from` and `to`, faded:  (1 - g) from + g to,  g[i] = (i+1)/fade
 *             and two windows of each tail level, faded alike:
 *               before  ......[ hop      | fade ]
 *               now                      [ fade | hop         | fade ]
 *
 * If a call ends inside a block, the block's missing frames count as zeros. They do not change earlier frames, because
 * the filter is causal.
 *
 * cost     5 P log2(P) flop and 16 P bytes a transform (fft_block.cuh)
 * limits   P = 32 ... 4096
 * ceiling  forward: memory bandwidth over the window, the ring and X; output: latency, because outputs are few
 */
#include "scene_transform.h"

#include "dsp/device/backend.h"
#include "fft_block.cuh"
#include "kernels_load.h"

/* grid: the sources, several a thread block */
static __global__ void __launch_bounds__(512) forward(const __grid_constant__ struct scene_forward job)
{
    extern __shared__ float2 shared[];
    const struct fft_lane lane = fft_lane_of(shared, job.log2_P);
    const bool active = lane.which < job.n_sources;
    const int source = active ? lane.which : 0;
    float *ring = job.ring + (size_t)source * ((size_t)job.ring_mask + 1);
    const float *receive = job.receive + (size_t)source * job.n_new;
    auto frame = [&](int i) {
        const int fresh = i - job.new_at;
        if (fresh < 0) return ring[(job.from + (unsigned)i) & job.ring_mask];
        return fresh < job.n_new ? receive[fresh] : 0.0f;
    };
    float2 r[8];
    fft_points(lane, [&](int m, int i) { r[m] = make_float2(frame(i), frame(i + 1)); });
    if (active)
        for (int i = lane.t; i < job.n_new; i += 1 << (job.log2_P - 3))
            ring[(job.from + (unsigned)(job.new_at + i)) & job.ring_mask] = receive[i];
    fft_forward(lane, job.tw, r);
    if (active) fft_unpack(lane, job.tw, 1.0f, job.x + ((size_t)source << job.log2_P));
}

/* grid: (row, part), several a thread block */
static __global__ void __launch_bounds__(512) responses(const __grid_constant__ struct scene_responses job)
{
    extern __shared__ float2 shared[];
    const struct fft_lane lane = fft_lane_of(shared, job.log2_P);
    const bool active = lane.which < job.n_rows * job.n_parts;
    const int row = active ? lane.which / job.n_parts : 0, part = active ? lane.which % job.n_parts : 0;
    const int first = job.offset + part * job.hop, n = min(job.hop, job.n_taps - first);
    const float *taps = job.taps + (size_t)row * job.pitch + first;
    float2 r[8];
    fft_points(lane, [&](int m, int i) {
        r[m] = make_float2(i < n ? taps[i] : 0.0f, i + 1 < n ? taps[i + 1] : 0.0f);
    });
    fft_forward(lane, job.tw, r);
    const size_t at = ((size_t)(row / job.n_out) * job.n_parts + part) * job.n_out + row % job.n_out;
    if (active) fft_unpack(lane, job.tw, 0.5f / (float)(1 << job.log2_P), job.h + (at << job.log2_P));
}

/* grid: the outputs, several a thread block */
static __global__ void __launch_bounds__(512) window(const __grid_constant__ struct scene_window job)
{
    extern __shared__ float2 shared[];
    const int skipped = (2 << job.log2_P) - job.n;
    const struct fft_lane lane = fft_lane_of(shared, job.log2_P);
    const bool active = lane.which < job.n_out;
    const int out = active ? lane.which : 0;
    const float2 *sums = job.sums + ((size_t)out << job.log2_P);
    float2 r[8];
    fft_inverse(lane, job.tw, [&](int k) { return sums[k]; }, r);
    if (!active) return;
    float *y = job.y + (size_t)out * job.n - skipped;
    fft_points(lane, [&](int m, int i) {
        if (i >= skipped) y[i] = r[m].x;
        if (i + 1 >= skipped) y[i + 1] = r[m].y;
    });
}

__device__ static inline float tail_at(const struct scene_tail_windows &tail, int out, int i)
{
    const int length = tail.hop + tail.fade, at = tail.at + i;
    float y = 0.0f;
    if (out < tail.n_now) y = steer_gain(at, tail.fade) * tail.now[(size_t)out * length + at];
    if (at < tail.fade && out < tail.n_before)
        y += (1.0f - steer_gain(at, tail.fade)) * tail.before[(size_t)out * length + tail.hop + at];
    return y;
}

/* grid: the outputs, several a thread block */
static __global__ void __launch_bounds__(512) output(const __grid_constant__ struct scene_output job)
{
    extern __shared__ float2 shared[];
    const int skipped = (2 << job.log2_P) - job.block;
    const struct fft_lane lane = fft_lane_of(shared, job.log2_P);
    const bool active = lane.which < job.n_out;
    const int out = active ? lane.which : 0;
    const float2 *sums = job.sums + ((size_t)out << job.log2_P);
    float2 from[8] = {}, to[8];
    if (job.n_lists == 2) {
        fft_inverse(lane, job.tw, [&](int k) { return sums[k]; }, from);
        __syncthreads(); /* the next transform uses the same shared memory */
        sums += (size_t)job.n_out << job.log2_P;
    }
    fft_inverse(lane, job.tw, [&](int k) { return sums[k]; }, to);
    if (!active) return;
    float *y = job.out + (size_t)out * job.block;
    auto store = [&](int i, float a, float b) { /* i: frame of the block */
        if (i < job.at || i >= job.at + job.n) return;
        const float g = steer_gain(i, job.fade);
        float sum = job.n_lists == 2 ? (1.0f - g) * a + g * b : b;
        for (int l = 0; l < job.n_tails; l++) sum += tail_at(job.tails[l], out, i);
        y[i] = sum;
    };
    fft_points(lane, [&](int m, int i) {
        store(i - skipped, from[m].x, to[m].x);
        store(i + 1 - skipped, from[m].y, to[m].y);
    });
}

cudaError_t scene_forward_launch(const struct scene_forward *job, cudaStream_t stream)
{
    const int P = 1 << job->log2_P;
    forward<<<fft_blocks(job->n_sources, P), fft_threads(P), fft_shared_bytes(P), stream>>>(*job);
    return cudaGetLastError();
}

cudaError_t scene_responses_launch(const struct scene_responses *job, cudaStream_t stream)
{
    const int P = 1 << job->log2_P;
    const size_t n = (size_t)job->n_rows * job->n_parts;
    responses<<<fft_blocks(n, P), fft_threads(P), fft_shared_bytes(P), stream>>>(*job);
    return cudaGetLastError();
}

cudaError_t scene_window_launch(const struct scene_window *job, cudaStream_t stream)
{
    const int P = 1 << job->log2_P;
    window<<<fft_blocks(job->n_out, P), fft_threads(P), fft_shared_bytes(P), stream>>>(*job);
    return cudaGetLastError();
}

cudaError_t scene_output_launch(const struct scene_output *job, cudaStream_t stream)
{
    const int P = 1 << job->log2_P;
    output<<<fft_blocks(job->n_out, P), fft_threads(P), fft_shared_bytes(P), stream>>>(*job);
    return cudaGetLastError();
}

cudaError_t scene_transform_load(void) { return kernels_load(forward, responses, window, output); }
