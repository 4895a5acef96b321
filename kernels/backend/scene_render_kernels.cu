/* scene_render_kernels - the kernels of hc_render: every window of every job of a batch at once. scene_render_cuda.cu packs the
 * batch.
 *
 *   forward    2 step frames up to the end of a window                          -> X[row]
 *   products   a thread: 2 bins and 2 outputs of `from` or of `to` of a window; all its entries, all their parts
 *                X[x - p]  *  H[entry][p]    H of an entry is read by the windows on both sides of a fade: from L2
 *   inverse    from, to -> last `step` frames -> (1 - g) from + g to,  g[i] = (i + 1) / step  -> out
 *
 * The order of a window's sum does not depend on its batch: entries as in its list, then parts. Parts that meet only
 * silence are left out.
 *
 * cost     a window with one entry before and one behind its fade: 2 n_parts (1 + n_out) 8 P bytes, mostly of L2, and
 *          8 n_parts n_out P FMA. 1 s at 16 kHz, step 256, 2 outputs: 0.77 MB and 0.26 MFMA
 * limits   step 16 ... 4096
 * ceiling  the bandwidth of L2, but the CPU limits first: one thread copies the caller's samples and resolves the
 *          steps. On an H200, the case above renders 25,000 to 42,000 times as fast as real time, memory to memory
 */
#include "scene_render_kernels.h"

#include "dsp/device/backend.h"
#include "fft_teams.cuh"
#include "kernels_load.h"
#include "spectrum.cuh"

enum { THREADS = 128, OUTS = 2, PARTS = 4 /* partitions loaded at once */ };

/* grid: the rows, several a thread block */
static __global__ void __launch_bounds__(FFT_THREADS, FFT_BLOCKS_A_SM)
    scene_render_forward(const __grid_constant__ struct scene_render_batch job)
{
    extern __shared__ float4 shared[];
    fft_with_size(job.log2_P, [&](auto size) {
        using S = decltype(size);
        const fft_team<S> team(shared, job.n_rows);
        if (team.idle) return;
        const int skipped = 2 * S::N - 2 * job.step; /* first frames of the window, unused by outputs; at most P */
        const float *in = job.in + job.rows[team.which] - skipped + team.t;
        float2 r[S::E];
#pragma unroll
        for (int j = 0; j < S::E; j++) r[j].y = -in[S::N + S::T * j];
#pragma unroll
        for (int j = 0; j < S::E; j++) r[j].x = S::T * j >= skipped - team.t ? in[S::T * j] : 0.0f;
        team.forward(job.tw, r);
        if (team.active) team.store(job.x + (size_t)team.which * S::N, r);
    });
}

/* grid: (tiles of outputs, `from` and `to`) x windows, P / 2 threads each */
static __global__ void __launch_bounds__(THREADS) scene_render_products(const __grid_constant__ struct scene_render_batch job)
{
    const int log2_threads = job.log2_P - 1, out_tiles = (job.n_out + OUTS - 1) / OUTS;
    const size_t thread = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const int bin = 2 * (int)(thread & ((1u << log2_threads) - 1));
    const int unit = (int)(thread >> log2_threads), to = unit / out_tiles & 1, window = unit / out_tiles / 2;
    const int out0 = unit % out_tiles * OUTS;
    if (window >= job.n_spans) return;
    const struct scene_render_span span = job.spans[window];
    if (!to && span.n_from < 0) return;
    const int first = span.line + (to ? max(span.n_from, 0) : 0), end = first + (to ? span.n_to : span.n_from);
    const bool second = out0 + 1 < job.n_out;
    const size_t P = (size_t)1 << job.log2_P, part_step = job.n_out * P;
    float4 total[OUTS] = {};

    for (int i = first; i < end; i++) {
        const struct scene_render_line line = job.lines[i];
        const float2 *h = job.h + (((size_t)line.entry * job.n_parts * job.n_out + out0) << job.log2_P) + bin;
        float4 sum[OUTS] = {};
        for (int p = line.first; p < line.end; p += PARTS) {
            float4 xs[PARTS], hs[PARTS][OUTS];
#pragma unroll
            for (int u = 0; u < PARTS; u++) {
                const bool inside = p + u < line.end;
                const float2 *at = h + (size_t)(p + u) * part_step;
                const float4 zero = make_float4(0, 0, 0, 0);
                xs[u] = inside ? *(const float4 *)(job.x + ((size_t)(line.x - p - u) << job.log2_P) + bin) : zero;
                hs[u][0] = inside ? *(const float4 *)at : zero;
                hs[u][1] = inside && second ? *(const float4 *)(at + P) : zero;
            }
#pragma unroll
            for (int u = 0; u < PARTS; u++)
#pragma unroll
                for (int o = 0; o < OUTS; o++) bin_multiply_add(sum[o], xs[u], hs[u][o]);
        }
#pragma unroll
        for (int o = 0; o < OUTS; o++) bin_weigh_add(total[o], sum[o], line.weight);
    }
    float2 *sums = job.sums + (((size_t)(2 * window + to) * job.n_out + out0) << job.log2_P) + bin;
    *(float4 *)sums = total[0];
    if (second) *(float4 *)(sums + P) = total[1];
}

/* grid: windows x outputs, several a thread block */
static __global__ void __launch_bounds__(FFT_THREADS, FFT_BLOCKS_A_SM)
    scene_render_inverse(const __grid_constant__ struct scene_render_batch job)
{
    extern __shared__ float4 shared[];
    fft_with_size(job.log2_P, [&](auto size) {
        using S = decltype(size);
        const int skipped = S::N - job.step; /* frames of the window's second half */
        const fft_team<S> team(shared, job.n_spans * job.n_out);
        if (team.idle) return;
        const int window = team.which / job.n_out, out = team.which % job.n_out;
        const struct scene_render_span span = job.spans[window];
        const bool fades = span.n_from >= 0;
        float from[S::E], to[S::E];
#pragma unroll
        for (int j = 0; j < S::E; j++) to[j] = 0.0f;
#pragma unroll 1
        for (int side = 0; side < 2; side++) { /* the same for all teams of a block */
            const int list = 2 * window + (fades ? side : 1);
            const float2 *sums = job.sums + ((size_t)list * job.n_out + out) * S::N;
            float2 r[S::E];
            if (side) S::team_sync(); /* this transform uses the same shared memory as the previous one */
            team.load_spectrum(r, sums);
            team.inverse(job.tw, r);
            team.frames(r, [&](int j, int, float2 x) { from[j] = to[j], to[j] = x.y; });
        }
        if (!team.active) return;
        float *y = job.out + span.out + (size_t)out * span.pitch;
#pragma unroll
        for (int j = 0; j < S::E; j++) {
            const int i = team.t + S::T * j - skipped;
            if (i >= 0) y[i] = fades ? from[j] + steer_gain(i, job.step) * (to[j] - from[j]) : to[j];
        }
    });
}

cudaError_t scene_render_batch_launch(const struct scene_render_batch *job, cudaStream_t stream)
{
    const int out_tiles = (job->n_out + OUTS - 1) / OUTS;
    const size_t n_products = ((size_t)job->n_spans * 2 * out_tiles << job->log2_P) / 2;
    cudaError_t e = fft_launch(scene_render_forward, (size_t)job->n_rows, job->log2_P, *job, stream);
    if (e != cudaSuccess) return e;
    scene_render_products<<<(unsigned)((n_products + THREADS - 1) / THREADS), THREADS, 0, stream>>>(*job);
    return fft_launch(scene_render_inverse, (size_t)job->n_spans * job->n_out, job->log2_P, *job, stream);
}

cudaError_t scene_render_kernels_load(void) { return kernels_load(scene_render_forward, scene_render_products, scene_render_inverse); }
