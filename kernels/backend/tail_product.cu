/* tail_product - multiplies, for each bin, a small matrix by a vector. Reads the spectra of the responses once, from
 * device memory.
 *
 *                 input 0             input 1            ...
 *   X   (L2)      [part 0][part 1]    [part 0][part 1]
 *   H   out 0     [      ][      ]    [      ][      ]         64 bins a warp, two a thread: 16-byte loads, 512 bytes
 *       out 1     [      ][      ]    [      ][      ]         a row. One load of X serves the four outputs of a group.
 *       out 2     [      ][      ]    [      ][      ]
 *       out 3     [      ][      ]    [      ][      ]
 *
 * Units run bins first, groups next: all groups work on the same bins of X at about the same time and find them in L2.
 * With few units, several warps ("ways") share a unit: they divide the inputs among themselves, then the parts; their
 * sums are added up in a fixed order (same input, same bits). Units are independent, so any units can run in any hop.
 *
 * cost     a unit: 512 bytes of H and 256 FMA an output, input and part; X adds a quarter of the bytes, from L2
 * error    the parts of an input in one sum, then the inputs of a warp, then the warps
 * ceiling  memory bandwidth over H: 3.97 of an H200's 4.13 TB/s for 512 x 512 responses of 1 s, 3.6 for 256 x 256
 */
#include "tail_product.h"

#include "kernels_load.h"
#include "spectrum.cuh"

enum { WARPS = 8, LEAF = 32 /* parts in one plain sum */ };

/* grid: the units of each level, WARPS >> log2_ways of them a block */
static __global__ void __launch_bounds__(32 * WARPS, 2) products(const __grid_constant__ struct tail_products job)
{
    __shared__ float4 sums[WARPS][TAIL_OUTS][32];
    int l = 0;
    while (l + 1 < job.n && (int)blockIdx.x >= job.first_block[l + 1]) l++;
    const struct tail_product &level = job.level[l];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, log2_ways = level.log2_in_ways + level.log2_part_ways;
    const int ways = 1 << log2_ways, way = warp & (ways - 1);
    const int in_ways = 1 << level.log2_in_ways, part_ways = 1 << level.log2_part_ways;
    const int mine = ((int)blockIdx.x - job.first_block[l]) * (WARPS >> log2_ways) + (warp >> log2_ways);
    const int unit = level.first_unit + mine, group = level.first_group + unit % level.n_groups;
    const int bin = unit / level.n_groups * TAIL_BINS + 2 * lane, size = 1 << level.log2_size;
    const bool active = mine < level.n_units && bin < size;
    float4 total[TAIL_OUTS] = {};

    if (active)
        for (int i = level.first_term[group] + (way >> level.log2_part_ways); i < level.first_term[group + 1];
             i += in_ways) {
            const struct tail_terms *terms = level.terms + i;
            const float2 *x = level.x + (((size_t)terms->in * level.n_entries) << level.log2_size) + bin;
            const int n = min(terms->max_parts, level.n_windows);
            const float2 *h[TAIL_OUTS];
            int n_parts[TAIL_OUTS];
#pragma unroll
            for (int o = 0; o < TAIL_OUTS; o++) h[o] = terms->h[o] + bin, n_parts[o] = terms->n_parts[o];
            for (int p = way & (part_ways - 1); p < n;) {
                const int end = min(n, p + LEAF * part_ways);
                float4 part[TAIL_OUTS] = {};
                for (; p < end; p += 2 * part_ways) {
                    float4 xs[2], hs[2][TAIL_OUTS];
#pragma unroll
                    for (int u = 0; u < 2; u++) {
                        const int q = p + u * part_ways;
                        int entry = level.entry - q;
                        if (entry < 0) entry += level.n_entries;
                        const bool inside = q < end;
                        xs[u] = inside ? *(const float4 *)(x + ((size_t)entry << level.log2_size))
                                       : make_float4(0, 0, 0, 0);
#pragma unroll
                        for (int o = 0; o < TAIL_OUTS; o++)
                            hs[u][o] = inside && q < n_parts[o]
                                           ? __ldcs((const float4 *)(h[o] + ((size_t)q << level.log2_size)))
                                           : make_float4(0, 0, 0, 0);
                    }
#pragma unroll
                    for (int u = 0; u < 2; u++)
#pragma unroll
                        for (int o = 0; o < TAIL_OUTS; o++) bin_multiply_add(part[o], xs[u], hs[u][o]);
                }
#pragma unroll
                for (int o = 0; o < TAIL_OUTS; o++) bin_add(total[o], part[o]);
            }
        }

    if (log2_ways) { /* the same for all warps of a block */
#pragma unroll
        for (int o = 0; o < TAIL_OUTS; o++) sums[warp][o][lane] = total[o];
        __syncthreads();
    }
    const int first_warp = warp - way;
#pragma unroll
    for (int o = 0; o < TAIL_OUTS; o++) {
        const int out = group * TAIL_OUTS + o;
        if (!active || out >= level.n_out || (o & (ways - 1)) != way) continue;
        float4 sum = total[o];
        if (log2_ways) {
            sum = sums[first_warp][o][lane];
            for (int w = 1; w < ways; w++) bin_add(sum, sums[first_warp + w][o][lane]);
        }
        *(float4 *)(level.sums + ((size_t)out << level.log2_size) + bin) = sum;
    }
}

/* The largest log2 with 1 << log2 <= n. */
static int log2_floor(int n)
{
    int log2 = 0;
    while (2 << log2 <= n) log2++;
    return log2;
}

cudaError_t tail_product_launch(struct tail_products *job, int n_sm, cudaStream_t stream)
{
    long units = 0;
    int blocks = 0, log2_max = 0;
    for (int l = 0; l < job->n; l++) units += job->level[l].n_units;
    if (!units) return cudaSuccess;
    /* 32 warps a multiprocessor, which runs 16 at a time */
    while (1 << log2_max < WARPS && units << log2_max < 32L * n_sm) log2_max++;
    for (int l = 0; l < job->n; l++) {
        struct tail_product *level = &job->level[l];
        const int in = log2_floor(level->max_terms > 1 ? level->max_terms : 1);
        const int parts = log2_floor(level->max_parts > 1 ? level->max_parts : 1);
        level->log2_in_ways = in < log2_max ? in : log2_max;
        level->log2_part_ways = parts < log2_max - level->log2_in_ways ? parts : log2_max - level->log2_in_ways;
        const int per_block = WARPS >> (level->log2_in_ways + level->log2_part_ways);
        job->first_block[l] = blocks;
        blocks += (level->n_units + per_block - 1) / per_block;
    }
    products<<<blocks, 32 * WARPS, 0, stream>>>(*job);
    return cudaGetLastError();
}

cudaError_t tail_product_load(void) { return kernels_load(products); }
