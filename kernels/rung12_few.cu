/* rung 12b, few - small live blocks: too few outputs to fill the device, so the taps are dealt to threads, warps and blocks.
 *
 *   a block: 64 outputs of one channel, `share` taps of its mask; all of its x and h is under way at once, then one barrier
 *
 *   x (shared) [====== share ======|== 64 ==]     h (shared) [ part 0 | part 1 | ... | part 31 ]
 *
 *   8 threads hold the 64 outputs, 8 each, for one part of the taps; 32 such groups take the parts. Going down 8 taps the
 *   window of 16 frames slides: 4 loads of 16 bytes feed 64 FMA.
 *   The parts are added up: 4 of a warp by shuffles, the 8 warps through shared memory, the blocks of one tile by the block that
 *   finishes last, all in a fixed order: same input, same bits.
 *
 *   fir_few of fir_tiled.cu keeps a private copy of x and h for each part (64 + 2 part floats); here both are staged once,
 *   so that far more taps fit: 3.1 us instead of 5.1 for 2 channels, 64 frames, 4096 taps; 18 instead of 145 for 1024 channels.
 *
 * cost     a block: 64 + 2 share loads from L2, 64 share FMA.  share = 256: 576 loads, 16384 FMA, 64 a thread
 * error    parts of at most SHARE_MOST / 32 taps: 2e-7 of the peak on noise
 * limits   2^20 taps, 4096 frames, 65535 channels; made for up to 512 frames. Taps are padded to a multiple of 256
 * ceiling  few channels: launch, latency of L2 and the last block's sum (1.1 us); many: 16-byte loads from shared memory,
 *          4 for 64 FMA: 52% of the FMA rate reached
 */
#include "ladder.h"

#include <new>
#include <stdint.h>

enum {
    V = 8,                         /* outputs a thread                                                                 */
    TILE = 64,
    GROUP = TILE / V,
    THREADS = 256,
    PARTS = THREADS / GROUP,
    GRAIN = PARTS * V,             /* a share is a multiple of this: a part is a multiple of V taps                    */
    SHARE_MOST = 4096,             /* taps staged at once                                                              */
    ALONE = 768                    /* up to here one block is done sooner than several and their last sum (1 us)       */
};

struct job {
    const float *x, *h;            /* h: [masks][h_pitch], padded with zeros to a multiple of GRAIN                    */
    float *y, *sums;               /* sums: [tile and out][share][TILE]                                                */
    unsigned *arrived;             /* [tile and out], 0 between launches                                               */
    long n_frames, x_step, h_step, y_pitch;
    int n_taps, share;             /* n_taps: padded                                                                   */
};

/* Quarter warps read 16 bytes at a stride of 32: 4 floats of padding a 32 spread them over all banks. */
__host__ __device__ static inline int padded(int i) { return i + i / 32 * 4; }

__device__ static inline void copy16(float *to, const float *from, int n)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(n)
                 : "memory");
#else
    const float4 v = *(const float4 *)from; /* rows are a multiple of 16 bytes long: reading on past n is safe */
    *(float4 *)to = make_float4(n > 0 ? v.x : 0.0f, n > 4 ? v.y : 0.0f, n > 8 ? v.z : 0.0f, n > 12 ? v.w : 0.0f);
#endif
}

__device__ static inline void load8(float (&to)[V], const float *from)
{
    const float4 a = *(const float4 *)from, b = *(const float4 *)(from + 4);
    to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w, to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}

/* V taps: sum[o] += sum_k h[k] x[o - k], x[0 ... 7] in high, x[-8 ... -1] in low. */
__device__ static inline void slide(float (&sum)[V], const float (&low)[V], const float (&high)[V], const float *h)
{
    float tap[V];
    load8(tap, h);
#pragma unroll
    for (int k = 0; k < V; k++)
#pragma unroll
        for (int o = 0; o < V; o++) sum[o] = fmaf(tap[k], o >= k ? high[o - k] : low[V + o - k], sum[o]);
}

/* grid: tiles x n_out x shares */
static __global__ void __launch_bounds__(THREADS) fir_few(const __grid_constant__ struct job job)
{
    extern __shared__ __align__(16) float shared[];
    __shared__ float warps[THREADS / 32][TILE];
    __shared__ bool last;
    const int out = blockIdx.y, k0 = blockIdx.z * job.share, share = min(job.share, job.n_taps - k0);
    const int lane = threadIdx.x % GROUP;
    const long first = (long)blockIdx.x * TILE;
    float *h = shared + padded(TILE + min(job.share, (int)SHARE_MOST));
    float sum[V] = {};

    for (int k = 0; k < share; k += SHARE_MOST) { /* more than once only for masks beyond shares * SHARE_MOST */
        const int n = min(SHARE_MOST, share - k), n_part = n / PARTS, at = threadIdx.x / GROUP * n_part;
        const float *from = job.h + out * job.h_step + k0 + k;
        for (int j = 4 * threadIdx.x; j < n; j += 4 * THREADS) copy16(h + j, from + j, 16);
        const float *x = job.x + out * job.x_step;
        for (int j = 4 * threadIdx.x; j < n + TILE; j += 4 * THREADS) {
            const long f = first - k0 - k - n + j, left = f < 0 ? 0 : job.n_frames - f;
            copy16(shared + padded(j), left > 0 ? x + f : x, left >= 4 ? 16 : left > 0 ? 4 * (int)left : 0);
        }
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.wait_all;" ::: "memory");
#endif
        __syncthreads();
        float low[V], high[V];
        int below = n + V * lane - at; /* x[0] of this thread */
        load8(high, shared + padded(below));
#pragma unroll 2
        for (int i = 0; i < n_part; i += V) {
            below -= V;
            load8(low, shared + padded(below));
            slide(sum, low, high, h + at + i);
#pragma unroll
            for (int o = 0; o < V; o++) high[o] = low[o];
        }
        __syncthreads();
    }

#pragma unroll
    for (int o = 0; o < V; o++) {
        sum[o] += __shfl_xor_sync(~0u, sum[o], GROUP);
        sum[o] += __shfl_xor_sync(~0u, sum[o], 2 * GROUP);
        if (threadIdx.x % 32 < GROUP) warps[threadIdx.x / 32][V * lane + o] = sum[o];
    }
    __syncthreads();
    const int o = threadIdx.x;
    float total = 0.0f;
    if (o < TILE)
#pragma unroll
        for (int w = 0; w < THREADS / 32; w++) total += warps[w][o];
    if (gridDim.z > 1) {
        const int tile = blockIdx.y * gridDim.x + blockIdx.x, n = gridDim.z;
        float *sums = job.sums + (long)tile * n * TILE;
        if (o < TILE) __stcg(sums + blockIdx.z * TILE + o, total);
        __threadfence();
        __syncthreads();
        if (o == 0) last = atomicInc(job.arrived + tile, n - 1) == (unsigned)n - 1;
        __syncthreads();
        if (!last) return;
        __threadfence();
        float quarter = 0.0f;
        for (int i = o / TILE; i < n; i += THREADS / TILE) quarter += __ldcg(sums + i * TILE + o % TILE);
        warps[o / TILE][o % TILE] = quarter;
        __syncthreads();
        if (o < TILE) total = (warps[0][o] + warps[1][o]) + (warps[2][o] + warps[3][o]);
    }
    if (o < TILE && first + o < job.n_frames) job.y[out * job.y_pitch + first + o] = total;
}

/* ---- the rung ----------------------------------------------------------------------------------------------------- */

struct prepared {
    float *h, *sums;
    unsigned *arrived;
    int n_taps, share, n_shares;
};

static bool accepts(const struct task *task)
{
    return task->n_taps >= 1 && task->n_frames >= 1 && task->n_frames <= 4096 && task->n_out <= 65535 && task->n_taps <= 1 << 20;
}

static void discard(void *opaque)
{
    struct prepared *p = (struct prepared *)opaque;
    if (!p) return;
    cudaFree(p->h);
    cudaFree(p->sums);
    cudaFree(p->arrived);
    delete p;
}

static size_t shared_bytes(int share)
{
    const int n = share < SHARE_MOST ? share : SHARE_MOST;
    return (padded(TILE + n) + n) * sizeof(float);
}

static cudaError_t prepare(const struct task *task, void **opaque)
{
    const int n_masks = task->sharing == SHARED ? 1 : task->n_out;
    struct prepared *p = new (std::nothrow) prepared();
    if (!p) return cudaErrorMemoryAllocation;
    int device = 0, n_sm = 0;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, device);
    p->n_taps = (task->n_taps + GRAIN - 1) / GRAIN * GRAIN;
    const long blocks = (task->n_frames + TILE - 1) / TILE * task->n_out; /* before the taps are dealt out */
    const int grains = p->n_taps / GRAIN, wanted = blocks < n_sm && p->n_taps > ALONE ? (int)(n_sm / blocks) : 1;
    p->share = (grains + wanted - 1) / wanted * GRAIN;
    p->n_shares = (p->n_taps + p->share - 1) / p->share;
    const size_t pitch = p->n_taps * sizeof(float), width = task->n_taps * sizeof(float);
    if (e == cudaSuccess)
        e = cudaFuncSetAttribute(fir_few, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes(p->share));
    if (e == cudaSuccess) e = cudaMalloc(&p->h, n_masks * pitch);
    if (e == cudaSuccess) e = cudaMalloc(&p->sums, blocks * p->n_shares * TILE * sizeof(float));
    if (e == cudaSuccess) e = cudaMalloc(&p->arrived, blocks * sizeof(unsigned));
    if (e == cudaSuccess) e = cudaMemset(p->arrived, 0, blocks * sizeof(unsigned));
    if (e == cudaSuccess) e = cudaMemset(p->h, 0, n_masks * pitch);
    if (e == cudaSuccess) e = cudaMemcpy2D(p->h, pitch, task->h_host, width, width, n_masks, cudaMemcpyHostToDevice);
    if (e == cudaSuccess) e = cudaDeviceSynchronize(); /* the launch may use any stream */
    if (e != cudaSuccess) {
        discard(p);
        return e;
    }
    *opaque = p;
    return cudaSuccess;
}

static cudaError_t launch(const struct task *task, void *opaque, cudaStream_t stream)
{
    const struct prepared *p = (const struct prepared *)opaque;
    struct job job = {};
    job.x = task->x, job.h = p->h, job.y = task->y;
    job.sums = p->sums, job.arrived = p->arrived;
    job.n_frames = task->n_frames, job.y_pitch = task->y_pitch;
    job.x_step = task->sharing == BANK ? 0 : task->x_pitch;
    job.h_step = task->sharing == SHARED ? 0 : p->n_taps;
    job.n_taps = p->n_taps, job.share = p->share;
    const dim3 grid((unsigned)((task->n_frames + TILE - 1) / TILE), task->n_out, p->n_shares);
    fir_few<<<grid, THREADS, shared_bytes(p->share), stream>>>(job);
    return cudaGetLastError();
}

extern "C" const struct rung rung_few;
const struct rung rung_few = {"few", "small blocks: the taps dealt to threads, warps and blocks", "ours", true,
                              accepts, prepare, launch, discard};
