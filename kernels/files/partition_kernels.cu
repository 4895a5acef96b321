/* partition_kernels - overlap-save in uniform partitions of P frames.
 *
 *   x        ..[ block b-1 ][ block b ]..      forward: X_b = transform of both, 2P frames
 *   h          [ part 0 | 0 ][ part 1 | 0 ]..  forward: H_p = transform of P taps and P zeros, once a mask
 *   y(block b) = last P frames of the inverse of sum_p H_p X_(b-p): the first P are wrapped round and dropped
 *
 *   mac_many: the products for many blocks of audio at once. A thread computes one bin of 8 adjacent blocks. From part
 *   p to p + 1 the 8 spectra move back by one block, so a window in registers loads one X and one H (16 bytes) for 8
 *   complex products (32 FMA).
 *   mac_one: the products for one block. The parts are divided among the threads of a thread block and among thread
 *   blocks ("splits"). The inverse adds the splits up, in a fixed order, as it loads them. No atomics: same input, same
 *   bits.
 *
 * cost     a block of audio and a cell: n_parts * P * 4 FMA; 16 P n_parts bytes for one block, 16 P (n_parts + 7) / 8
 *          for many
 * limits   P = 32 ... 4096 (fft_teams.cuh)
 * ceiling  one block: memory bandwidth over the spectra; many: 32 FMA to 16 bytes. In a file's block on an H200 the
 *          three kernels need 26 of 219 us (2 channels, 144000 taps) and 171 of 1865 (16 channels, 480000 taps); the
 *          copies need the rest. Overlap-save in one kernel (kernels/ladder) is faster, but would gain at most 9% here,
 *          and needs separate spectra for each mask
 */
#include "partition_kernels.h"

#include "fft_teams.cuh"
#include "kernels_load.h"
#include "spectrum.cuh"

enum {
    MAC_BLOCKS = 8,    /* blocks of audio that a thread computes                                             */
    MAC_THREADS = 128,
    ONE_THREADS = 512, /* threads of mac_one                                                                 */
    LEAF = 32,         /* products in one plain sum, so that the error does not grow with the number of parts */
    MAX_SPLITS = 16   /* the inverse reads the splits one after another                                     */
};

/* grid: the transforms (channel, block of audio), several a thread block */
static __global__ void __launch_bounds__(FFT_THREADS, FFT_BLOCKS_A_SM)
    forward(const __grid_constant__ struct part_forward job)
{
    extern __shared__ float4 shared[];
    fft_with_size(job.log2_P, [&](auto size) {
        using S = decltype(size);
        const fft_team<S> team(shared, job.n_ch * job.n_blocks);
        if (team.idle) return;
        const int ch = team.which / job.n_blocks, b = team.which % job.n_blocks;
        const float *x = job.x + ch * job.x_pitch;
        const unsigned from = job.from + (unsigned)b * job.hop;
        float2 r[S::E];
        team.load(r, [&](int i) { return x[(from + i) & job.ring_mask]; });
        team.forward(job.tw, r);
        const int entry = (job.entry + b) % job.n_entries;
        if (team.active) team.store(job.spectra + ((size_t)ch * job.n_entries + entry) * S::N, r);
    });
}

/* grid: the transforms (output, block of audio), several a thread block. Gain: P. */
static __global__ void __launch_bounds__(FFT_THREADS, FFT_BLOCKS_A_SM)
    inverse(const __grid_constant__ struct part_inverse job)
{
    extern __shared__ float4 shared[];
    fft_with_size(job.log2_P, [&](auto size) {
        using S = decltype(size);
        const int n = job.n_out * job.n_blocks;
        const fft_team<S> team(shared, n);
        if (team.idle) return;
        const float2 *sums = job.sums + (size_t)team.which * S::N + team.t;
        float2 r[S::E];
#pragma unroll
        for (int m = 0; m < S::E; m++) r[m] = sums[S::T * m];
#pragma unroll 1
        for (int split = 1; split < job.n_splits; split++) {
            sums += (size_t)n * S::N;
#pragma unroll
            for (int m = 0; m < S::E; m++) bin_add(r[m], sums[S::T * m]);
        }
        team.inverse(job.tw, r);
        if (!team.active) return;
        float *y = job.y + team.which / job.n_blocks * job.y_pitch + (size_t)(team.which % job.n_blocks) * S::N;
        team.frames(r, [&](int, int i, float2 x) { y[i] = x.y; });
    });
}

/* The parts [from, to) of split i of n. */
__device__ static inline void my_parts(int first, int end, int i, int n, int *from, int *to)
{
    int share = (end - first + n - 1) / n;
    *from = first + i * share;
    *to = min(end, *from + share);
}

/* grid.x: outputs, up to 65,536 (y and z hold 65,535); grid.y: tiles of bins; grid.z: groups of 8 blocks of audio x
 * splits */
static __global__ void __launch_bounds__(MAC_THREADS, 4) mac_many(struct part_mac job, int P, int n_splits)
{
    const int bin = blockIdx.y * blockDim.x + threadIdx.x, out = blockIdx.x;
    const int group = blockIdx.z / n_splits, split = blockIdx.z % n_splits, b0 = group * MAC_BLOCKS;
    float2 total[MAC_BLOCKS] = {};
    int from, to;
    my_parts(job.first_part, job.max_parts, split, n_splits, &from, &to);

    for (int c = job.first_cell[out]; c < job.first_cell[out + 1]; c++) {
        const struct part_cell cell = job.cells[c];
        const int end = min(to, cell.n_parts);
        const float2 *x = job.x + (size_t)cell.in * job.n_entries * P + bin, *h = cell.spectra + bin;
        int entry = (job.entry + b0 - from) % job.n_entries; /* FDL entry for block b0, part `from` */
        if (entry < 0) entry += job.n_entries;
        float2 window[MAC_BLOCKS];
#pragma unroll
        for (int j = 0; j < MAC_BLOCKS; j++) window[j] = x[(size_t)((entry + j) % job.n_entries) * P];
        for (int p = from; p < end;) {
            float2 sum[MAC_BLOCKS] = {};
            for (int stop = min(end, p + LEAF); p < stop; p += MAC_BLOCKS) {
                float2 hs[MAC_BLOCKS], next[MAC_BLOCKS]; /* all loads first */
#pragma unroll
                for (int u = 0; u < MAC_BLOCKS; u++) {
                    if (--entry < 0) entry += job.n_entries;
                    hs[u] = p + u < end ? h[(size_t)(p + u) * P] : make_float2(0.0f, 0.0f);
                    next[u] = x[(size_t)entry * P];
                }
#pragma unroll
                for (int u = 0; u < MAC_BLOCKS; u++) { /* block j meets window[j - u]; then the oldest is replaced */
#pragma unroll
                    for (int j = 0; j < MAC_BLOCKS; j++)
                        bin_multiply_add(sum[j], window[(j - u) & (MAC_BLOCKS - 1)], hs[u]);
                    window[(MAC_BLOCKS - 1 - u)] = next[u];
                }
            }
#pragma unroll
            for (int j = 0; j < MAC_BLOCKS; j++) bin_add(total[j], sum[j]);
        }
    }
#pragma unroll
    for (int j = 0; j < MAC_BLOCKS; j++)
        if (b0 + j < job.n_blocks)
            job.sums[(((size_t)split * job.n_out + out) * job.n_blocks + b0 + j) * P + bin] = total[j];
}

/* grid: outputs x bins x splits; one block of audio. If P is small, several threads of a bin (helpers) divide the parts
 * of the split. */
static __global__ void __launch_bounds__(ONE_THREADS) mac_one(struct part_mac job, int P)
{
    __shared__ float2 sums[ONE_THREADS];
    const int bins = min(P, ONE_THREADS), helpers = ONE_THREADS / bins, helper = threadIdx.x / bins;
    const int bin = blockIdx.y * bins + threadIdx.x % bins, out = blockIdx.x, split = blockIdx.z;
    float2 total = make_float2(0.0f, 0.0f);
    int from, to;
    my_parts(job.first_part, job.max_parts, split * helpers + helper, gridDim.z * helpers, &from, &to);

    for (int c = job.first_cell[out]; c < job.first_cell[out + 1]; c++) {
        const struct part_cell cell = job.cells[c];
        const int end = min(to, cell.n_parts);
        const float2 *x = job.x + (size_t)cell.in * job.n_entries * P + bin, *h = cell.spectra + bin;
        int entry = (job.entry - from) % job.n_entries;
        if (entry < 0) entry += job.n_entries;
        for (int p = from; p < end;) {
            float2 sum = make_float2(0.0f, 0.0f);
            int stop = min(end, p + LEAF);
#pragma unroll 8
            for (; p < stop; p++) {
                bin_multiply_add(sum, x[(size_t)entry * P], h[(size_t)p * P]);
                entry = entry ? entry - 1 : job.n_entries - 1;
            }
            bin_add(total, sum);
        }
    }
    sums[threadIdx.x] = total;
    __syncthreads();
    if (helper) return;
    for (int i = 1; i < helpers; i++) bin_add(total, sums[i * bins + threadIdx.x]);
    job.sums[((size_t)split * job.n_out + out) * P + bin] = total;
}

cudaError_t part_forward_launch(const struct part_forward *job, cudaStream_t stream)
{
    return fft_launch(forward, (size_t)job->n_ch * job->n_blocks, job->log2_P, *job, stream);
}

cudaError_t part_inverse_launch(const struct part_inverse *job, cudaStream_t stream)
{
    return fft_launch(inverse, (size_t)job->n_out * job->n_blocks, job->log2_P, *job, stream);
}

cudaError_t part_mac_launch(const struct part_mac *job, int P, int *n_splits, cudaStream_t stream)
{
    const bool one = job->n_blocks == 1;
    const int threads = one ? ONE_THREADS : P < MAC_THREADS ? P : MAC_THREADS;
    const int bins = P < threads ? P : threads, groups = one ? 1 : (job->n_blocks + MAC_BLOCKS - 1) / MAC_BLOCKS;
    const int parts = job->max_parts - job->first_part;
    const int min_parts = one ? 4 * (threads / bins) : 16; /* parts of a split */
    const long blocks = (long)(P / bins) * job->n_out * groups;
    /* As many splits as give two thread blocks a multiprocessor, if the parts and `sums` suffice. */
    long splits = 2L * job->n_sm / blocks, max_splits = job->sums_capacity / ((size_t)job->n_out * job->n_blocks);
    if (splits > parts / min_parts) splits = parts / min_parts;
    if (splits > MAX_SPLITS) splits = MAX_SPLITS;
    if (splits > max_splits) splits = max_splits;
    if (splits < 1) splits = 1;
    *n_splits = (int)splits;
    dim3 grid(job->n_out, P / bins, (unsigned)(groups * splits));
    if (one) mac_one<<<grid, threads, 0, stream>>>(*job, P);
    else mac_many<<<grid, threads, 0, stream>>>(*job, P, (int)splits);
    return cudaGetLastError();
}

cudaError_t part_load(void) { return kernels_load(forward, inverse, mac_many, mac_one); }
