/* rung 12b, few - small live blocks: too few outputs to fill the device, so the taps are dealt to threads, warps and
 * blocks.
 *
 *   a block: 64 outputs of one channel, `share` taps of its mask; all of its x and h is under way at once, then one
 *   barrier
 *
 *   x (shared) [====== share ======|== 64 ==]     h (shared) [ part 0 | part 1 | ... | part 31 ]
 *
 *   8 threads hold the 64 outputs, 8 each, for one part of the taps; 32 such groups take the parts. Going down 8 taps
 *   the window of 16 frames slides: 4 loads of 16 bytes feed 64 FMA.
 *   The parts are added up: 4 of a warp by shuffles, the 8 warps through shared memory, the blocks of one tile by the
 *   block that finishes last, all in a fixed order: same input, same bits.
 *
 *   x and h are staged once for all parts. Its predecessor gave each part a copy of its own (64 + 2 part floats), so
 *   that fewer taps fitted: 5.1 us, now 3.1, for 2 channels, 64 frames, 4096 taps; 145, now 18, for 1024 channels.
 *
 *   A task has one mask an output. A stream (fir.h) has any number of cells an output: their shares are counted
 *   through, and blocks take turns. Its inputs are rings; its first frame may lie anywhere, so tiles start up to 3
 *   frames before it: copies of 16 bytes want frames in fours.
 *
 * cost     a block: 64 + 2 share loads from L2, 64 share FMA.  share = 256: 576 loads, 16384 FMA, 64 a thread
 * error    LEAF taps in one sum, up to 4 of those in the next, those compensated (Kahan): below 1e-6 of the peak also
 *          where equal products let roundings pile up (a long average of a steady level); 2e-7 on noise
 * limits   a task: 2^20 taps and frames, 65535 channels; made for up to 512 frames
 * ceiling  few channels: launch, latency of L2 and the last block's sum (1.1 us); many: 16-byte loads from shared
 *          memory, 4 for 64 FMA: 52% of the FMA rate reached
 */
#include "async_copy.cuh"
#include "fir.h"
#include "ladder.h"

#include <new>

enum {
    V = 8,                         /* outputs a thread                                                                */
    TILE = 64,
    GROUP = TILE / V,
    THREADS = 256,
    PARTS = THREADS / GROUP,
    GRAIN = PARTS * V,             /* a share is a multiple of this: a part is a multiple of V taps                   */
    SHARE_MOST = 4096,             /* taps staged at once                                                             */
    LEAF = 32,                     /* taps in one plain sum                                                           */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    BLOCKS_AN_SM = 3,              /* sm_75 has no copies past the registers                                          */
#else
    BLOCKS_AN_SM = 4,              /* 64 registers a thread                                                           */
#endif
    ALONE = 768                    /* up to here one block is done sooner than several and their last sum (1 us)      */
};

struct job {
    const float *x, *h;            /* h: [masks][h_pitch], padded with zeros to a multiple of GRAIN                   */
    float *y, *sums;               /* sums: [tile and out][share][TILE]                                               */
    unsigned *arrived;             /* [tile and out], 0 between launches                                              */
    long n_frames, x_step, h_step, y_pitch;
    int n_taps, share;             /* n_taps: padded                                                                  */
};

/* Quarter warps read 16 bytes at a stride of 32: 4 floats of padding a 32 spread them over all banks. */
__host__ __device__ static inline int padded(int i) { return i + i / 32 * 4; }

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

/* total += part, with what rounding takes from the total kept in lost (Kahan). */
__device__ static inline void add_kept(float &total, float &lost, float part)
{
    const float y = part - lost, t = total + y;
    lost = (t - total) - y;
    total = t;
}

struct sums {
    float total[V], lost[V];
    bool any; /* something is in them */
};

/* Adds n taps of h, a multiple of V, to the sums of all threads. copy_x(to, j): x[j - n ... j - n + 3], counted from
 * the first frame of the tile, to shared memory. h: 16-byte aligned. shared: padded(TILE + n) + n floats. All threads
 * of the block. */
template <class Copy>
__device__ static inline void add_share(struct sums &sums, float *shared, float *shared_h, const float *h, int n,
                                        Copy copy_x)
{
    const int lane = threadIdx.x % GROUP, n_part = (n + GRAIN - 1) / GRAIN * V, at = threadIdx.x / GROUP * n_part;
    for (int j = 4 * threadIdx.x; j < n; j += 4 * THREADS) copy16(shared_h + j, h + j, 16);
    for (int j = 4 * threadIdx.x; j < n + TILE; j += 4 * THREADS) copy_x(shared + padded(j), j);
    copies_wait();
    __syncthreads();
    if (at < n) {
        float low[V], high[V], leaf[V] = {}, part[V] = {};
        int below = n + V * lane - at; /* x[0] of this thread */
        const int end = min(n_part, n - at);
        load8(high, shared + padded(below));
#pragma unroll 2
        for (int i = 0; i < end; i += V) {
            below -= V;
            load8(low, shared + padded(below));
            slide(leaf, low, high, shared_h + at + i);
#pragma unroll
            for (int o = 0; o < V; o++) high[o] = low[o];
            if ((i + V) % LEAF == 0)
#pragma unroll
                for (int o = 0; o < V; o++) part[o] += leaf[o], leaf[o] = 0.0f;
        }
        if (!sums.any)
#pragma unroll
            for (int o = 0; o < V; o++) sums.total[o] = part[o] + leaf[o];
        else
#pragma unroll
            for (int o = 0; o < V; o++) add_kept(sums.total[o], sums.lost[o], part[o] + leaf[o]);
    }
    sums.any = true;
    __syncthreads();
}

/* The sum of output o of the tile, in thread o < TILE of the block that comes last to its tile; false in the others.
 * tile: of all tiles and outputs. warps: shared. All threads of the block. */
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
    float quarter[4] = {}; /* four sums: a long one would lose more, and wait longer */
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

/* grid: tiles x n_out x shares */
static __global__ void __launch_bounds__(THREADS, BLOCKS_AN_SM) fir_few(const __grid_constant__ struct job job)
{
    extern __shared__ __align__(16) float shared[];
    __shared__ float warps[THREADS / 32][TILE];
    const int out = blockIdx.y, k0 = blockIdx.z * job.share, share = min(job.share, job.n_taps - k0);
    const long first = (long)blockIdx.x * TILE;
    const float *x = job.x + out * job.x_step, *h = job.h + out * job.h_step + k0;
    struct sums sums = {};
    float total;

    for (int k = 0; k < share; k += SHARE_MOST) { /* more than once only for masks beyond shares * SHARE_MOST */
        const int n = min(SHARE_MOST, share - k);
        const long from = first - k0 - k - n;
        add_share(sums, shared, shared + padded(TILE + min(job.share, (int)SHARE_MOST)), h + k, n,
                  [&](float *to, int j) {
                      const long f = from + j, left = f < 0 ? 0 : job.n_frames - f;
                      copy16(to, left > 0 ? x + f : x, left >= 4 ? 16 : left > 0 ? 4 * (int)left : 0);
                  });
    }
    const bool done = add_up(sums, warps, job.sums, job.arrived, blockIdx.y * gridDim.x + blockIdx.x, &total);
    if (done && threadIdx.x < TILE && first + threadIdx.x < job.n_frames)
        job.y[out * job.y_pitch + first + threadIdx.x] = total;
}

/* grid: n_out x tiles x splits. Share i of an output goes to split i % splits; a cell starts a share of its own. */
static __global__ void __launch_bounds__(THREADS, BLOCKS_AN_SM)
    fir_few_stream(const __grid_constant__ struct fir_job job, int share)
{
    extern __shared__ __align__(16) float shared[];
    __shared__ float warps[THREADS / 32][TILE];
    const int out = blockIdx.x, early = (int)(job.pos % 4), c_end = __ldg(job.first + out + 1);
    const unsigned first = job.pos - early + blockIdx.y * TILE; /* a multiple of 4 */
    struct sums sums = {};
    float total;

    int skip = blockIdx.z; /* shares to pass over, counted from the first of cell c */
    for (int c = __ldg(job.first + out); c < c_end; c++) {
        const struct fir_cell cell = job.cells[c];
        const float *x = job.x + (size_t)cell.in * ((size_t)job.ring_mask + 1);
        const int n_taps = (cell.n_taps + V - 1) / V * V; /* the padding is zeros */
        int k0 = skip * share;
        for (; k0 < n_taps; k0 += (int)gridDim.z * share, skip += gridDim.z) {
            const int n = min(share, n_taps - k0);
            const unsigned from = first - k0 - n;
            add_share(sums, shared, shared + padded(TILE + share), cell.taps + k0, n,
                      [&](float *to, int j) { copy16(to, x + ((from + j) & job.ring_mask), 16); });
        }
        skip -= (n_taps + share - 1) / share;
    }
    float *device_sums = (float *)job.scratch;
    unsigned *arrived = (unsigned *)(device_sums + (size_t)job.n_sm * TILE);
    const bool done = add_up(sums, warps, device_sums, arrived, blockIdx.y * gridDim.x + blockIdx.x, &total);
    const int i = (int)(blockIdx.y * TILE + threadIdx.x) - early;
    if (done && threadIdx.x < TILE && i >= 0 && i < job.n)
        job.y[out * job.y_pitch + i] = total + (job.add ? job.add[out * job.add_pitch + i] : 0.0f);
}

/* At most 35 KiB. */
static size_t shared_bytes(int share)
{
    const int n = share < SHARE_MOST ? share : SHARE_MOST;
    return (padded(TILE + n) + n) * sizeof(float);
}

/* Blocks without splits, and the taps of an output: into how many splits, so that every block has a multiprocessor to
 * itself. */
static int splits_of(long blocks, int n_taps, int n_sm)
{
    return blocks < n_sm && n_taps > ALONE ? (int)(n_sm / blocks) : 1;
}

/* ---- a stream ---------------------------------------------------------------------------------------------------- */

extern "C" size_t fir_scratch_bytes(int n_sm) { return (size_t)n_sm * (TILE * sizeof(float) + sizeof(unsigned)); }

extern "C" cudaError_t fir_few_load(void)
{
    struct cudaFuncAttributes a;
    return cudaFuncGetAttributes(&a, fir_few_stream);
}

extern "C" cudaError_t fir_few_launch(const struct fir_job *job, cudaStream_t stream)
{
    const unsigned tiles = (unsigned)((job->n + (int)(job->pos % 4) + TILE - 1) / TILE);
    const int wanted = splits_of((long)tiles * job->n_out, job->most_taps, job->n_sm);
    int share = ((job->most_taps + wanted - 1) / wanted + GRAIN - 1) / GRAIN * GRAIN;
    if (share > SHARE_MOST) share = SHARE_MOST;
    if (share < GRAIN) share = GRAIN;
    const int shares = job->most_taps / share + job->most_cells; /* at least as many as there are */
    const int splits = shares < wanted ? shares : wanted;
    const dim3 grid(job->n_out, tiles, splits > 1 ? splits : 1); /* up to 65536 outputs */
    fir_few_stream<<<grid, THREADS, shared_bytes(share), stream>>>(*job, share);
    return cudaGetLastError();
}

/* ---- the rung ---------------------------------------------------------------------------------------------------- */

struct prepared {
    float *h, *sums;
    unsigned *arrived;
    int n_taps, share, n_shares;
};

static bool accepts(const struct task *task)
{
    return task->n_taps >= 1 && task->n_frames >= 1 && task->n_frames <= 1 << 20 && task->n_out <= 65535 &&
           task->n_taps <= 1 << 20;
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
    const int grains = p->n_taps / GRAIN, wanted = splits_of(blocks, p->n_taps, n_sm);
    p->share = (grains + wanted - 1) / wanted * GRAIN;
    p->n_shares = (p->n_taps + p->share - 1) / p->share;
    const size_t pitch = p->n_taps * sizeof(float), width = task->n_taps * sizeof(float);
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
