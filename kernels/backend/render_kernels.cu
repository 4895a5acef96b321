/* render_kernels - whole signals of moving sources: every window of every job of a batch at once.
 *
 *   forward    2 step frames up to the end of a window                          -> X[row]
 *   products   a thread: 2 bins and 2 outputs of `from` or of `to` of a window; all its entries, all their parts
 *                X[x - p]  *  H[entry][p]    H of an entry is read by the windows on both sides of a fade: from L2
 *   inverse    from, to -> last `step` frames -> (1 - g) from + g to,  g[i] = (i + 1) / step  -> out
 *
 * The sum of a window has one order, whichever batch it is in: entries as in its list, then parts. Parts that meet only
 * silence are left out.
 *
 * cost     a window with one entry before and one behind its fade: 2 n_parts (1 + n_out) 8 P bytes, mostly of L2, and
 *          8 n_parts n_out P FMA. 1 s at 16 kHz, step 256, 2 outputs: 0.77 MB and 0.26 MFMA
 * limits   step 16 ... 4096
 * ceiling  the bandwidth of L2; the CPU comes first: one thread copies the caller's samples and resolves the steps. On an
 *          H200 25,000 to 42,000 hours an hour of the case above, memory to memory
 */
#include "render_kernels.h"

#include "fft_block.cuh"
#include "kernels_load.h"

enum { THREADS = 128, OUTS = 2, PARTS = 4 /* whose loads are under way at once */ };

struct place { int t, which; float2 *s; }; /* thread of a transform, its number in the grid, its shared memory */

__device__ static inline struct place place_of(float2 *shared, int log2_P)
{
    const int per_transform = 1 << (log2_P - 3), mine = threadIdx.x >> (log2_P - 3);
    struct place place;
    place.t = threadIdx.x & (per_transform - 1);
    place.which = blockIdx.x * (blockDim.x >> (log2_P - 3)) + mine;
    place.s = shared + mine * fft_skew(1 << log2_P);
    return place;
}

/* grid: the rows, several a thread block */
static __global__ void __launch_bounds__(512) render_forward(const __grid_constant__ struct render_batch job)
{
    extern __shared__ float2 shared[];
    const int P = 1 << job.log2_P, skipped = 2 * (P - job.step); /* frames in front, which no output needs */
    const struct place place = place_of(shared, job.log2_P);
    const bool active = place.which < job.n_rows;
    const int row = active ? place.which : 0;
    const float *in = job.in + job.rows[row];
    float2 r[8];
#pragma unroll
    for (int m = 0; m < 8; m++) {
        const int i = 2 * (place.t + m * (P / 8)) - skipped;
        r[m] = i >= 0 ? make_float2(in[i], in[i + 1]) : make_float2(0.0f, 0.0f);
    }
    fft_forward(place.s, job.log2_P, place.t, job.tw, r);
    if (active) fft_unpack(place.s, job.log2_P, place.t, job.tw, 1.0f, job.x + ((size_t)row << job.log2_P));
}

__device__ static inline void multiply_add(float4 &sum, float4 x, float4 h, bool bin0)
{
    const float hb = bin0 ? 0.0f : h.y, hc = bin0 ? h.y : h.x; /* bin 0 holds two real bins (fft_block.cuh) */
    sum.x = fmaf(x.x, h.x, fmaf(-x.y, hb, sum.x));
    sum.y = fmaf(x.y, hc, fmaf(x.x, hb, sum.y));
    sum.z = fmaf(x.z, h.z, fmaf(-x.w, h.w, sum.z));
    sum.w = fmaf(x.w, h.z, fmaf(x.z, h.w, sum.w));
}

__device__ static inline void weigh_add(float4 &sum, float4 x, float w)
{
    sum.x = fmaf(w, x.x, sum.x), sum.y = fmaf(w, x.y, sum.y);
    sum.z = fmaf(w, x.z, sum.z), sum.w = fmaf(w, x.w, sum.w);
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
                for (int o = 0; o < OUTS; o++) multiply_add(sum[o], xs[u], hs[u][o], bin0);
        }
#pragma unroll
        for (int o = 0; o < OUTS; o++) weigh_add(total[o], sum[o], line.weight);
    }
    float2 *sums = job.sums + (((size_t)(2 * window + to) * job.n_out + out0) << job.log2_P) + bin;
    *(float4 *)sums = total[0];
    if (second) *(float4 *)(sums + P) = total[1];
}

/* All threads of the block call it. */
__device__ static inline void inverse(const float2 *Y, const struct place place, int log2_P, const float2 *tw,
                                      float2 r[8])
{
    fft_pack(place.s, log2_P, place.t, tw, [&](int k) { return Y[k]; });
    fft_inverse(place.s, log2_P, place.t, tw, r);
    __syncthreads(); /* the next transform uses the same shared memory */
}

/* grid: windows x outputs, several a thread block */
static __global__ void __launch_bounds__(512) render_inverse(const __grid_constant__ struct render_batch job)
{
    extern __shared__ float2 shared[];
    const int P = 1 << job.log2_P, skipped = 2 * P - job.step;
    const struct place place = place_of(shared, job.log2_P);
    const bool active = place.which < job.n_spans * job.n_out;
    const int window = active ? place.which / job.n_out : 0, out = active ? place.which % job.n_out : 0;
    const struct render_span span = job.spans[window];
    const bool fades = span.n_from >= 0;
    const float2 *to_sum = job.sums + (((size_t)(2 * window + 1) * job.n_out + out) << job.log2_P);
    const float2 *from_sum = fades ? job.sums + (((size_t)2 * window * job.n_out + out) << job.log2_P) : to_sum;
    float2 from[8], to[8];
    inverse(from_sum, place, job.log2_P, job.tw, from); /* its barriers are for all windows of the block */
    inverse(to_sum, place, job.log2_P, job.tw, to);
    if (!active) return;
    float *y = job.out + span.out + (size_t)out * span.pitch;
    auto store = [&](int i, float a, float b) {
        if (i >= 0) y[i] = fades ? a + (float)(i + 1) / (float)job.step * (b - a) : b;
    };
#pragma unroll
    for (int m = 0; m < 8; m++) {
        const int i = 2 * (place.t + m * (P / 8)) - skipped;
        store(i, from[m].x, to[m].x);
        store(i + 1, from[m].y, to[m].y);
    }
}

static unsigned blocks_of(size_t n, size_t per_block) { return (unsigned)((n + per_block - 1) / per_block); }

cudaError_t render_batch_launch(const struct render_batch *job, cudaStream_t stream)
{
    const int P = 1 << job->log2_P, threads = fft_threads(P), out_tiles = (job->n_out + OUTS - 1) / OUTS;
    const size_t shared = fft_shared_bytes(P), per_block = fft_per_block(P);
    if (job->n_rows) render_forward<<<blocks_of(job->n_rows, per_block), threads, shared, stream>>>(*job);
    render_products<<<blocks_of((size_t)job->n_spans * 2 * out_tiles * P / 2, THREADS), THREADS, 0, stream>>>(*job);
    render_inverse<<<blocks_of((size_t)job->n_spans * job->n_out, per_block), threads, shared, stream>>>(*job);
    return cudaGetLastError();
}

cudaError_t render_kernels_load(void) { return kernels_load(render_forward, render_products, render_inverse); }
