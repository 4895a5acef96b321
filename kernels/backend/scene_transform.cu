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
 * cost     3 P log2(P) FMA and 16 P bytes a transform (fft_teams.cuh)
 * limits   P = 32 ... 4096
 * ceiling  forward: memory bandwidth over the window, the ring and X; output: latency, because outputs are few
 */
#include "scene_transform.h"

#include "dsp/device/backend.h"
#include "fft_teams.cuh"
#include "kernels_load.h"

/* grid: the sources, several a thread block. The choice between ring and `receive` needs over 80 registers. */
static __global__ void __launch_bounds__(FFT_THREADS, 2) forward(const __grid_constant__ struct scene_forward job)
{
    extern __shared__ float4 shared[];
    fft_with_size(job.log2_P, [&](auto size) {
        using S = decltype(size);
        const fft_team<S> team(shared, job.n_sources);
        if (team.idle) return;
        float *ring = job.ring + (size_t)team.which * ((size_t)job.ring_mask + 1);
        const float *receive = job.receive + (size_t)team.which * job.n_new;
        float2 r[S::E];
        team.load(r, [&](int i) {
            const int fresh = i - job.new_at;
            const float *at = fresh < 0 ? ring + ((job.from + (unsigned)i) & job.ring_mask) : receive + fresh;
            return fresh < job.n_new ? *at : 0.0f;
        });
        if (team.active)
            for (int i = team.t; i < job.n_new; i += S::T)
                ring[(job.from + (unsigned)(job.new_at + i)) & job.ring_mask] = receive[i];
        team.forward(job.tw, r);
        if (team.active) team.store(job.x + (size_t)team.which * S::N, r);
    });
}

/* grid: the outputs, several a thread block */
static __global__ void __launch_bounds__(FFT_THREADS, FFT_BLOCKS_A_SM)
    window(const __grid_constant__ struct scene_window job)
{
    extern __shared__ float4 shared[];
    fft_with_size(job.log2_P, [&](auto size) {
        using S = decltype(size);
        const int skipped = 2 * S::N - job.n;
        const fft_team<S> team(shared, job.n_out);
        if (team.idle) return;
        const float2 *sums = job.sums + (size_t)team.which * S::N;
        float2 r[S::E];
        team.load_spectrum(r, sums);
        team.inverse(job.tw, r);
        S::team_sync();
        float *frames = (float *)team.s; /* for a loop that is not unrolled */
        team.frames(r, [&](int, int i, float2 x) { frames[i] = x.x, frames[S::N + i] = x.y; });
        S::team_sync();
        if (!team.active) return;
        float *y = job.y + (size_t)team.which * job.n;
#pragma unroll 1
        for (int i = team.t; i < job.n; i += S::T) y[i] = frames[skipped + i];
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
static __global__ void __launch_bounds__(FFT_THREADS, FFT_BLOCKS_A_SM)
    output(const __grid_constant__ struct scene_output job)
{
    extern __shared__ float4 shared[];
    fft_with_size(job.log2_P, [&](auto size) {
        using S = decltype(size);
        const int skipped = S::N - job.block; /* frames of the window's second half */
        const fft_team<S> team(shared, job.n_out);
        if (team.idle) return;
        float from[S::E], to[S::E];
#pragma unroll
        for (int j = 0; j < S::E; j++) from[j] = to[j] = 0.0f;
#pragma unroll 1
        for (int list = 0; list < job.n_lists; list++) {
            const float2 *sums = job.sums + ((size_t)list * job.n_out + team.which) * S::N;
            float2 r[S::E];
            if (list) S::team_sync(); /* this transform uses the same shared memory as the previous one */
            team.load_spectrum(r, sums);
            team.inverse(job.tw, r);
            team.frames(r, [&](int j, int, float2 x) { from[j] = to[j], to[j] = x.y; });
        }
        S::team_sync();
        float *faded = (float *)team.s; /* the head of the second half, for a loop that is not unrolled */
#pragma unroll
        for (int j = 0; j < S::E; j++) {
            const int i = team.t + S::T * j;
            const float g = job.n_lists == 2 ? steer_gain(i - skipped, job.fade) : 1.0f;
            faded[i] = (1.0f - g) * from[j] + g * to[j];
        }
        S::team_sync();
        if (!team.active) return;
        float *y = job.out + (size_t)team.which * job.block;
#pragma unroll 1
        for (int i = job.at + team.t; i < job.at + job.n; i += S::T) {
            float sum = faded[skipped + i];
            for (int l = 0; l < job.n_tails; l++) sum += tail_at(job.tails[l], team.which, i);
            y[i] = sum;
        }
    });
}

cudaError_t scene_forward_launch(const struct scene_forward *job, cudaStream_t stream)
{
    return fft_launch(forward, (size_t)job->n_sources, job->log2_P, *job, stream);
}

cudaError_t scene_window_launch(const struct scene_window *job, cudaStream_t stream)
{
    return fft_launch(window, (size_t)job->n_out, job->log2_P, *job, stream);
}

cudaError_t scene_output_launch(const struct scene_output *job, cudaStream_t stream)
{
    return fft_launch(output, (size_t)job->n_out, job->log2_P, *job, stream);
}

cudaError_t scene_transform_load(void)
{
    return kernels_load(forward, window, output);
}
