/* render_kernels - the kernels of hc_render: every window of every job of a batch at once. render_cuda.cu packs the
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
#include "render_kernels.h"

#include "dsp/device/backend.h"
#include "fft_block.cuh"
#include "kernels_load.h"
#include "spectrum.cuh"

enum { THREADS = 128, OUTS = 2, PARTS = 4 /* partitions loaded at once */ };

/* grid: the rows, several a thread block */
static __global__ void __launch_bounds__(512) render_forward(const __grid_constant__ struct render_batch job)
{
    extern __shared__ float2 shared[];
    const int skipped = (2 << job.log2_P) - 2 * job.step; /* first frames of the window, unused by outputs */
    const struct fft_lane lane = fft_lane_of(shared, job.log2_P);
    const bool active = lane.which < job.n_rows;
    const int row = active ? lane.which : 0;
    const float *in = job.in + job.rows[row];
    float2 r[8];
    fft_points(lane, [&](int m, int i) {
        r[m] = i >= skipped ? make_float2(in[i - skipped], in[i - skipped + 1]) : make_float2(0.0f, 0.0f);
    });
    fft_forward(lane, job.tw, r);
    if (active) fft_unpack(lane, job.tw, 1.0f, job.x + ((size_t)row << job.log2_P));
}

/* grid: (tiles of outputs, `from` and `to`) x windows, P / 2 threads each */
static __global__ void __launch_bounds__(THREADS) render_products(const __grid_constant__ struct render_batch job)
{
    const int log2_threads = job.log2_P - 1, out_tiles = (job.n_out + OUTS - 1) / OUTS;
    const size_t thread = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const int bin = 2 * (int)(thread & ((1u << log2_threads) - 1));
    const int unit = (int)(thread >> log2_threads), to = unit / out_tiles & 1, window = unit / out_tiles / 2;
    const int out0 = unit % out_tiles * OUTS;
    if (window >= job.n_spans) return;
    const struct render_span span = job.spans[window];
    if (!to && span.n_from < 0) return;
    const int first = span.line + (to ? max(span.n_from, 0) : 0), end = first + (to ? span.n_to : span.n_from);
    const bool bin0 = bin == 0, second = out0 + 1 < job.n_out;
    const size_t P = (size_t)1 << job.log2_P, part_step = job.n_out * P;
    float4 total[OUTS] = {};

    for (int i = first; i < end; i++) {
        const struct render_line line = job.lines[i];
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
                for (int o = 0; o < OUTS; o++) bin_multiply_add(sum[o], xs[u], hs[u][o], bin0);
        }
#pragma unroll
        for (int o = 0; o < OUTS; o++) bin_weigh_add(total[o], sum[o], line.weight);
    }
    float2 *sums = job.sums + (((size_t)(2 * window + to) * job.n_out + out0) << job.log2_P) + bin;
    *(float4 *)sums = total[0];
    if (second) *(float4 *)(sums + P) = total[1];
}

/* grid: windows x outputs, several a thread block */
static __global__ void __launch_bounds__(512) render_inverse(const __grid_constant__ struct render_batch job)
{
    extern __shared__ float2 shared[];
    const int skipped = (2 << job.log2_P) - job.step;
    const struct fft_lane lane = fft_lane_of(shared, job.log2_P);
    const bool active = lane.which < job.n_spans * job.n_out;
    const int window = active ? lane.which / job.n_out : 0, out = active ? lane.which % job.n_out : 0;
    const struct render_span span = job.spans[window];
    const bool fades = span.n_from >= 0;
    const float2 *to_sum = job.sums + (((size_t)(2 * window + 1) * job.n_out + out) << job.log2_P);
    const float2 *from_sum = fades ? job.sums + (((size_t)2 * window * job.n_out + out) << job.log2_P) : to_sum;
    float2 from[8], to[8];
    fft_inverse(lane, job.tw, [&](int k) { return from_sum[k]; }, from);
    __syncthreads(); /* the next transform uses the same shared memory; all windows of the block come here */
    fft_inverse(lane, job.tw, [&](int k) { return to_sum[k]; }, to);
    if (!active) return;
    float *y = job.out + span.out + (size_t)out * span.pitch;
    auto store = [&](int i, float a, float b) {
        if (i >= 0) y[i] = fades ? a + steer_gain(i, job.step) * (b - a) : b;
    };
    fft_points(lane, [&](int m, int i) {
        store(i - skipped, from[m].x, to[m].x);
        store(i + 1 - skipped, from[m].y, to[m].y);
    });
}

cudaError_t render_batch_launch(const struct render_batch *job, cudaStream_t stream)
{
    const int P = 1 << job->log2_P, threads = fft_threads(P), out_tiles = (job->n_out + OUTS - 1) / OUTS;
    const size_t shared = fft_shared_bytes(P), n_products = (size_t)job->n_spans * 2 * out_tiles * P / 2;
    if (job->n_rows) render_forward<<<fft_blocks(job->n_rows, P), threads, shared, stream>>>(*job);
    render_products<<<(unsigned)((n_products + THREADS - 1) / THREADS), THREADS, 0, stream>>>(*job);
    render_inverse<<<fft_blocks((size_t)job->n_spans * job->n_out, P), threads, shared, stream>>>(*job);
    return cudaGetLastError();
}

cudaError_t render_kernels_load(void) { return kernels_load(render_forward, render_products, render_inverse); }
