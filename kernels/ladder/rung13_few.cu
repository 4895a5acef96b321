/* rung 13b, few - small live blocks: the taps are divided among threads, warps and blocks (backend/fir_few.cuh).
 *
 * Unlike the backend's kernel (fir_few.cu), an output has one mask, its input is a row of frames, not a ring, and the
 * scratch memory is as large as the task needs.
 *
 * cost, error, ceiling: fir_few.cuh
 * limits   2^20 taps and frames, 65535 channels; made for up to 512 frames
 */
#include "fir_few.cuh"
#include "rung.cuh"

#include <new>

struct few_job {
    const float *x, *h;            /* h: [masks][h_pitch], padded with zeros to a multiple of GRAIN                   */
    float *y, *sums;               /* sums: [tile and out][share][TILE]                                               */
    unsigned *arrived;             /* [tile and out], 0 between launches                                              */
    long n_frames, x_step, h_step, y_pitch;
    int n_taps, share;             /* n_taps: padded                                                                  */
};

/* grid: tiles x n_out x shares */
static __global__ void __launch_bounds__(THREADS, BLOCKS_AN_SM) fir_few(const __grid_constant__ struct few_job job)
{
    extern __shared__ __align__(16) float shared[];
    __shared__ float warps[THREADS / 32][TILE];
    const int out = blockIdx.y, k0 = blockIdx.z * job.share, share = min(job.share, job.n_taps - k0);
    const long first = (long)blockIdx.x * TILE;
    const float *x = job.x + out * job.x_step, *h = job.h + out * job.h_step + k0;
    struct sums sums = {};
    float total;

    for (int k = 0; k < share; k += SHARE_MAX) {  /* one turn, unless n_taps > gridDim.z * SHARE_MAX */
        const int n = min(SHARE_MAX, share - k);
        const long from = first - k0 - k - n;
        add_share(sums, shared, shared + padded(TILE + min(job.share, (int)SHARE_MAX)), h + k, n,
                  [&](float *to, int j) {
                      const long f = from + j, left = f < 0 ? 0 : job.n_frames - f;
                      copy16(to, left > 0 ? x + f : x, left >= 4 ? 16 : left > 0 ? 4 * (int)left : 0);
                  });
    }
    const bool done = add_up(sums, warps, job.sums, job.arrived, blockIdx.y * gridDim.x + blockIdx.x, &total);
    if (done && threadIdx.x < TILE && first + threadIdx.x < job.n_frames)
        job.y[out * job.y_pitch + first + threadIdx.x] = total;
}

struct few_prepared {
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
    struct few_prepared *p = (struct few_prepared *)opaque;
    if (!p) return;
    cudaFree(p->h);
    cudaFree(p->sums);
    cudaFree(p->arrived);
    delete p;
}

static cudaError_t prepare(const struct task *task, void **opaque)
{
    struct few_prepared *p = new (std::nothrow) few_prepared();
    if (!p) return cudaErrorMemoryAllocation;
    int device = 0, n_sm = 0;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, device);
    p->n_taps = (task->n_taps + GRAIN - 1) / GRAIN * GRAIN;
    const long blocks = (task->n_frames + TILE - 1) / TILE * task->n_out; /* without splits */
    const int grains = p->n_taps / GRAIN, wanted = splits_of(blocks, p->n_taps, n_sm);
    p->share = (grains + wanted - 1) / wanted * GRAIN;
    p->n_shares = (p->n_taps + p->share - 1) / p->share;
    if (e == cudaSuccess) e = cudaMalloc(&p->sums, blocks * p->n_shares * TILE * sizeof(float));
    if (e == cudaSuccess) e = cudaMalloc(&p->arrived, blocks * sizeof(unsigned));
    if (e == cudaSuccess) e = cudaMemset(p->arrived, 0, blocks * sizeof(unsigned));
    if (e == cudaSuccess) e = masks_upload(task, p->n_taps, &p->h);
    if (e != cudaSuccess) {
        discard(p);
        return e;
    }
    *opaque = p;
    return cudaSuccess;
}

static cudaError_t launch(const struct task *task, void *opaque, cudaStream_t stream)
{
    const struct few_prepared *p = (const struct few_prepared *)opaque;
    struct few_job job = {};
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
const struct rung rung_few = {13, "few", "small blocks: the taps divided among threads, warps and blocks", "", true,
                              accepts, prepare, launch, discard};
