/* fir_few - the parts of a kernel for small live blocks: too few outputs to fill the device, so the taps are divided
 * among threads, warps and blocks. fir_few.cu has the kernel for a stream (fir.h).
 *
 *   A block computes 64 outputs of one channel from `share` taps of its mask. It loads all its frames and taps at once,
 *   followed by one barrier.
 *
 *   x (shared) [====== share ======|== 64 ==]     h (shared) [ group 0 | group 1 | ... | group 31 ]
 *
 *   A group is 8 threads, which hold the 64 outputs, 8 each. The 32 groups divide the taps of the share. Every 8 taps,
 *   a thread's window of 16 frames slides on: 4 loads of 16 bytes feed 64 FMA.
 *   The sums of the groups are added up in a fixed order (same input, same bits): the 4 groups of a warp by shuffles,
 *   the 8 warps through shared memory, the blocks of one tile by the block that finishes last.
 *
 *   x and h are staged once for all groups. A version with a copy for each group (64 + 2 group_taps floats) held fewer
 *   taps in shared memory: 5.1 us, now 3.1, for 2 channels, 64 frames, 4096 taps; 145, now 18, for 1024 channels.
 *
 * cost     a block: 64 + 2 share loads from L2, 64 share FMA.  share = 256: 576 loads, 16384 FMA, 64 a thread
 * error    LEAF taps in one sum, up to 4 of these sums in the next, these added with compensation (Kahan): below 1e-6
 *          of the peak, even if equal products accumulate roundings (a long average of a steady level); 2e-7 on noise
 * ceiling  few channels: launch, latency of L2 and the last block's sum (1.1 us); many: 16-byte loads from shared
 *          memory, 4 for 64 FMA: 52% of the FMA rate reached
 */
#ifndef HALOCONV_FIR_FEW_CUH
#define HALOCONV_FIR_FEW_CUH

#include "async_copy.cuh"

enum {
    V = 8,                         /* outputs a thread                                                                */
    TILE = 64,
    GROUP = TILE / V,              /* threads of a group                                                              */
    THREADS = 256,
    GROUPS = THREADS / GROUP,
    GRAIN = GROUPS * V,            /* a share is a multiple of this, so that a group has a multiple of V taps         */
    SHARE_MAX = 4096,              /* taps staged at once                                                             */
    LEAF = 32,                     /* taps in one plain sum                                                           */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    BLOCKS_AN_SM = 3,              /* sm_75 copies through registers, so needs more of them                           */
#else
    BLOCKS_AN_SM = 4,              /* 64 registers a thread                                                           */
#endif
    ALONE = 768                    /* max. taps for which one block is faster than several and their sum (1 us)       */
};

/* Quarter warps read 16 bytes at a stride of 32 floats: 4 floats of padding after 32 spread them over all banks. */
__host__ __device__ static inline int padded(int i) { return i + i / 32 * 4; }

__device__ static inline void load8(float (&to)[V], const float *from)
{
    const float4 a = *(const float4 *)from, b = *(const float4 *)(from + 4);
    to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w, to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}

/* Adds V taps: sum[o] += sum_k h[k] x[o - k], x[0 ... 7] in high, x[-8 ... -1] in low. */
__device__ static inline void few_slide(float (&sum)[V], const float (&low)[V], const float (&high)[V], const float *h)
{
    float tap[V];
    load8(tap, h);
#pragma unroll
    for (int k = 0; k < V; k++)
#pragma unroll
        for (int o = 0; o < V; o++) sum[o] = fmaf(tap[k], o >= k ? high[o - k] : low[V + o - k], sum[o]);
}

/* total += x. `lost` is the rounding error of the total (Kahan). */
__device__ static inline void add_compensated(float &total, float &lost, float x)
{
    const float y = x - lost, t = total + y;
    lost = (t - total) - y;
    total = t;
}

struct sums {
    float total[V], lost[V];
    bool any; /* false: the sums are still 0 */
};

/* Adds n taps of h, a multiple of V, to the sums of all threads. copy_x(to, j) copies x[j - n ... j - n + 3], counted
 * from the first frame of the tile, to shared memory. h is 16-byte aligned. `shared`, padded(TILE + n) floats, holds
 * the frames; shared_h holds the taps. All threads of the block call it. */
template <class Copy>
__device__ static inline void add_share(struct sums &sums, float *shared, float *shared_h, const float *h, int n,
                                        Copy copy_x)
{
    const int lane = threadIdx.x % GROUP, group_taps = (n + GRAIN - 1) / GRAIN * V;
    const int at = threadIdx.x / GROUP * group_taps; /* the group's first tap */
    for (int j = 4 * threadIdx.x; j < n; j += 4 * THREADS) copy16(shared_h + j, h + j, 16);
    for (int j = 4 * threadIdx.x; j < n + TILE; j += 4 * THREADS) copy_x(shared + padded(j), j);
    copies_wait();
    __syncthreads();
    if (at < n) {
        float low[V], high[V], leaf[V] = {}, sum[V] = {};
        int below = n + V * lane - at; /* x[0] of this thread */
        const int end = min(group_taps, n - at);
        load8(high, shared + padded(below));
#pragma unroll 2
        for (int i = 0; i < end; i += V) {
            below -= V;
            load8(low, shared + padded(below));
            few_slide(leaf, low, high, shared_h + at + i);
#pragma unroll
            for (int o = 0; o < V; o++) high[o] = low[o];
            if ((i + V) % LEAF == 0)
#pragma unroll
                for (int o = 0; o < V; o++) sum[o] += leaf[o], leaf[o] = 0.0f;
        }
        if (!sums.any)
#pragma unroll
            for (int o = 0; o < V; o++) sums.total[o] = sum[o] + leaf[o];
        else
#pragma unroll
            for (int o = 0; o < V; o++) add_compensated(sums.total[o], sums.lost[o], sum[o] + leaf[o]);
    }
    sums.any = true;
    __syncthreads();
}

/* Adds up the groups, warps and blocks of a tile. True in the block of the tile that finishes last: *total of thread
 * o < TILE is then output o. tile: its number among the tiles of all outputs. warps: shared memory. All threads of the
 * block call it. */
__device__ static inline bool add_up(const struct sums &sums, float (*warps)[TILE], float *device_sums,
                                     unsigned *arrived, int tile, float *total)
{
    __shared__ bool last;
    const int o = threadIdx.x, n = gridDim.z;
#pragma unroll
    for (int i = 0; i < V; i++) {
        float sum = sums.total[i];
        sum += __shfl_xor_sync(~0u, sum, GROUP);
        sum += __shfl_xor_sync(~0u, sum, 2 * GROUP);
        if (o % 32 < GROUP) warps[o / 32][V * (o % GROUP) + i] = sum;
    }
    __syncthreads();
    *total = 0.0f;
    if (o < TILE)
#pragma unroll
        for (int w = 0; w < THREADS / 32; w++) *total += warps[w][o];
    if (n == 1) return true;

    device_sums += (long)tile * n * TILE;
    if (o < TILE) __stcg(device_sums + blockIdx.z * TILE + o, *total);
    __threadfence();
    __syncthreads();
    if (o == 0) last = atomicInc(arrived + tile, n - 1) == (unsigned)n - 1;
    __syncthreads();
    if (!last) return false;
    __threadfence();
    float quarter[4] = {}; /* four sums: one long sum would be less exact and slower */
    for (int i = o / TILE; i < n; i += THREADS / TILE * 4)
#pragma unroll
        for (int r = 0; r < 4; r++)
            if (i + THREADS / TILE * r < n)
                quarter[r] += __ldcg(device_sums + (i + THREADS / TILE * r) * TILE + o % TILE);
    warps[o / TILE][o % TILE] = (quarter[0] + quarter[1]) + (quarter[2] + quarter[3]);
    __syncthreads();
    if (o < TILE) *total = (warps[0][o] + warps[1][o]) + (warps[2][o] + warps[3][o]);
    return true;
}

/* The dynamic shared memory of a block: at most 35 KiB. */
static size_t shared_bytes(int share)
{
    const int n = share < SHARE_MAX ? share : SHARE_MAX;
    return (padded(TILE + n) + n) * sizeof(float);
}

/* The number of blocks that divide the taps of a tile among themselves: as many as leave each block one multiprocessor.
 * blocks: the number of blocks without splits; n_taps: taps of an output. */
static int splits_of(long blocks, int n_taps, int n_sm)
{
    return blocks < n_sm && n_taps > ALONE ? (int)(n_sm / blocks) : 1;
}

#endif
