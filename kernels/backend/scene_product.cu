/* scene_product - adds the sources that play the same entry of a bank, then multiplies their sum by the entry once.
 *
 *               sources of the piece (up to 16)
 *   X[entry - p]   w0 [64 bins]  w1 [64 bins]  ...     Z = w0 X0 + w1 X1 + ...            2 FMA a bin and source
 *   H[p]          out 0 [64 bins]  out 1 [64 bins]    sum[out] += Z H[p][out]            4 FMA a bin and output
 *
 * A warp computes 64 bins, two a lane: loads of 16 bytes, 512 bytes a row. The warps of a block ("ways"; 16 half
 * warps if P is 32) compute the items (piece, part) of the block in turn, then add up in shared memory. Blocks divide
 * the pieces ("chunks") and the parts; one block's sum is a split, and `reduce` adds up the splits. The order of all
 * sums is fixed: same input, same bits. An entry with more than 16 sources has several pieces, so that all warps have
 * similar work. Blocks are short, so that a stream of a higher priority soon runs.
 *
 * cost     a piece and part: 8 P bytes for each output, and 8 P bytes for each source and tile of 8 outputs
 * limits   P = 32 ... 4096
 * ceiling  memory bandwidth over X: 8,192 sources of 0.5 s read 1.8 GB a hop, 0.45 ms of 9.3 on an H200
 */
#include "scene_product.h"

#include "kernels_load.h"
#include "spectrum.cuh"

enum {
    THREADS = 256,
    MANY_OUTS = 8,          /* outputs of a block, if there are more than 2                                           */
    TERMS = 4,              /* sources whose loads are under way at once                                              */
    CHUNK_PIECES = 32,      /* pieces of a chunk, if the mix has few pieces                                           */
    CHUNKS_MAX = 64,
    PARTIAL_BYTES = 64 << 20, /* max. size of `partial`                                                               */
    REDUCE_ROWS = 16
};

/* grid: (splits, tiles of outputs, tiles of bins) x lists */
template <int OUTS>
static __global__ void __launch_bounds__(THREADS, OUTS <= 2 ? 4 : 2)
    products(const __grid_constant__ struct scene_product job)
{
    __shared__ float4 shared[OUTS][THREADS];
    const int P = 1 << job.log2_P, log2_lanes = min(job.log2_P - 1, 5), lanes = 1 << log2_lanes;
    const int ways = THREADS >> log2_lanes, way = threadIdx.x >> log2_lanes, lane = threadIdx.x & (lanes - 1);
    const int tiles = P / 2 / lanes, out_tiles = (job.n_out + OUTS - 1) / OUTS;
    const int tile = blockIdx.x % tiles, rest = blockIdx.x / tiles;
    const int out0 = rest % out_tiles * OUTS, split = rest / out_tiles;
    const int chunk = split % job.n_chunks, part0 = split / job.n_chunks * job.part_step;
    const int n_parts = min(job.part_step, job.n_parts - part0);
    const int bin = 2 * (tile * lanes + lane);
    const struct scene_list list = job.lists[blockIdx.y];
    const int piece0 = (int)((long long)list.n * chunk / job.n_chunks);
    const int n_items = ((int)((long long)list.n * (chunk + 1) / job.n_chunks) - piece0) * n_parts;
    float4 sum[OUTS] = {};

    for (int i = way; i < n_items; i += ways) {
        const struct scene_piece piece = list.pieces[piece0 + i / n_parts];
        const int p = part0 + i % n_parts;
        if (p >= piece.n_partitions) continue;
        float4 h[OUTS];
        const float2 *row = (const float2 *)piece.h + (((size_t)p * piece.n_out + out0) << job.log2_P) + bin;
#pragma unroll
        for (int o = 0; o < OUTS; o++)
            h[o] = out0 + o < piece.n_out ? *(const float4 *)(row + ((size_t)o << job.log2_P)) : make_float4(0, 0, 0, 0);
        int entry = job.entry - p;
        if (entry < 0) entry += job.n_entries;
        const float2 *x = job.x + (((size_t)entry * job.n_sources) << job.log2_P) + bin;
        float4 z = make_float4(0, 0, 0, 0);
        for (int t = 0; t < piece.n; t += TERMS) {
            float4 xs[TERMS];
            float w[TERMS];
#pragma unroll
            for (int u = 0; u < TERMS; u++) {
                const bool inside = t + u < piece.n;
                const struct scene_source s = list.sources[piece.first + (inside ? t + u : t)];
                w[u] = inside ? s.weight : 0.0f;
                xs[u] = inside ? *(const float4 *)(x + ((size_t)s.source << job.log2_P)) : make_float4(0, 0, 0, 0);
            }
#pragma unroll
            for (int u = 0; u < TERMS; u++) bin_weigh_add(z, xs[u], w[u]);
        }
#pragma unroll
        for (int o = 0; o < OUTS; o++) bin_multiply_add(sum[o], z, h[o]);
    }

#pragma unroll
    for (int o = 0; o < OUTS; o++) shared[o][threadIdx.x] = sum[o];
    __syncthreads();
    for (int o = way; o < OUTS; o += ways) {
        if (out0 + o >= job.n_out) continue;
        float4 total = shared[o][lane];
        for (int i = 1; i < ways; i++) bin_add(total, shared[o][i * lanes + lane]);
        float2 *to = job.partial + ((((size_t)blockIdx.y * job.n_splits + split) * job.n_out + out0 + o) << job.log2_P);
        *(float4 *)(to + bin) = total;
    }
}

/* grid: (32 bins, outputs) x lists; 32 x REDUCE_ROWS threads. There may be 65536 outputs, but y ends at 65535. */
static __global__ void __launch_bounds__(32 * REDUCE_ROWS) reduce(const __grid_constant__ struct scene_product job)
{
    __shared__ float2 sums[REDUCE_ROWS][32];
    const int at = blockIdx.x * 32 + threadIdx.x, row = threadIdx.y; /* at: output * P + bin */
    const size_t step = (size_t)job.n_out << job.log2_P;
    const float2 *from = job.partial + blockIdx.y * job.n_splits * step + at;
    float2 total = make_float2(0.0f, 0.0f);
#pragma unroll 8
    for (int split = row; split < job.n_splits; split += REDUCE_ROWS) {
        const float2 x = from[split * step];
        total.x += x.x, total.y += x.y;
    }
    sums[row][threadIdx.x] = total;
    __syncthreads();
    if (row) return;
#pragma unroll
    for (int i = 1; i < REDUCE_ROWS; i++) total.x += sums[i][threadIdx.x].x, total.y += sums[i][threadIdx.x].y;
    job.sums[blockIdx.y * step + at] = total;
}

size_t scene_product_capacity(int P, int n_parts, int n_out)
{
    const size_t min = 2 * (size_t)n_out, max = min * n_parts * CHUNKS_MAX, wanted = PARTIAL_BYTES / (8 * (size_t)P);
    return wanted < min ? min : wanted > max ? max : wanted;
}

cudaError_t scene_product_launch(struct scene_product *job, cudaStream_t stream)
{
    const int P = 1 << job->log2_P, tiles = P / 2 < 32 ? 1 : P / 64;
    const int max_pieces = job->n_lists == 2 && job->lists[1].n > job->lists[0].n ? job->lists[1].n : job->lists[0].n;
    const size_t splits = job->capacity / ((size_t)job->n_lists * job->n_out); /* max. splits that fit into `partial` */
    int chunks = max_pieces / CHUNK_PIECES, step = 1;
    chunks = chunks < 1 ? 1 : chunks > CHUNKS_MAX ? CHUNKS_MAX : chunks;
    while ((size_t)chunks * ((job->n_parts + step - 1) / step) > splits) {
        if (chunks > 4) chunks /= 2;
        else if (step < job->n_parts) step++;
        else chunks--;
    }
    const int items = (max_pieces + chunks - 1) / chunks; /* if there are few items, the ways divide the parts */
    while (items * step < THREADS / 32 && step < job->n_parts) step++;
    job->n_chunks = chunks;
    job->part_step = step;
    job->n_splits = chunks * ((job->n_parts + step - 1) / step);
    if (job->n_out <= 2)
        products<2><<<dim3((unsigned)(job->n_splits * tiles), job->n_lists), THREADS, 0, stream>>>(*job);
    else {
        const int out_tiles = (job->n_out + MANY_OUTS - 1) / MANY_OUTS;
        products<MANY_OUTS>
            <<<dim3((unsigned)(job->n_splits * out_tiles * tiles), job->n_lists), THREADS, 0, stream>>>(*job);
    }
    reduce<<<dim3((unsigned)(P / 32) * job->n_out, job->n_lists), dim3(32, REDUCE_ROWS), 0, stream>>>(*job);
    return cudaGetLastError();
}

cudaError_t scene_product_load(void) { return kernels_load(products<2>, products<MANY_OUTS>, reduce); }
