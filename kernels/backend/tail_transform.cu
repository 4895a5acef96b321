/* tail_transform - forward and inverse transforms of several sizes in one launch. The tail levels of a plan have
 * different sizes, and a launch for each level in each hop would cost more than the work.
 *
 *   blocks   [ level 0: S = 64, 128 transforms a block ][ level 1: S = 128, 64 ][ ... ][ S = 8192, one ]
 *
 * Every block can hold the largest transform of the launch; smaller transforms lie side by side in a block. A level
 * with enough channels to fill the device has a separate launch: tail_transform_many.cu. fft_block.cuh has the
 * transform: S/8 threads with 8 points each in registers, 2S real points as S complex points.
 *
 * cost     a channel and window: 5 S log2(S) flop; 8 S bytes read, 8 S written (forward), 8 S and 4 S (inverse)
 * limits   S <= 8192: 1024 threads, 68.3 KiB of shared memory; 64 KiB without the skew, for devices that have no more
 *          (sm_75)
 * ceiling  memory bandwidth
 */
#include "tail_transform.h"

#include "tail_transform_many.h"
#include "fft_block.cuh"

#include <atomic>

enum { MAX_THREADS = TAIL_SIZE_MAX / 8, MAX_DEVICES = 64 };

/* For each device, written by each tail_transform_load, with the same value, while other engines play: */
static std::atomic<bool> no_skew[MAX_DEVICES]; /* the skew at TAIL_SIZE_MAX does not fit on the device */
static std::atomic<int> n_sm[MAX_DEVICES];     /* multiprocessors; 0 = not loaded */

/* The level of this thread block: the last level whose first block is not behind it. */
__device__ static inline int my_level(const int *first_block, int n)
{
    int l = 0;
    while (l + 1 < n && (int)blockIdx.x >= first_block[l + 1]) l++;
    return l;
}

template <bool SKEWED>
static __global__ void __launch_bounds__(MAX_THREADS) forward(const __grid_constant__ struct tail_forwards job)
{
    extern __shared__ float2 shared[];
    const int l = my_level(job.first_block, job.n);
    const struct tail_forward &level = job.level[l];
    const struct fft_lane lane = fft_lane_of<SKEWED>(shared, level.log2_size, job.first_block[l]);
    const bool active = lane.which < level.n_ch;
    const size_t ch = level.first_ch + (active ? lane.which : 0);
    const float *x = job.x + ch * ((size_t)job.ring_mask + 1);
    float2 r[8];
    fft_points(lane, [&](int m, int i) { r[m] = *(const float2 *)(x + ((level.from + i) & job.ring_mask)); });
    fft_forward<SKEWED>(lane, level.tw, r);
    if (!active) return;
    const size_t at = (ch * level.n_entries + level.entry) << level.log2_size;
    fft_unpack<SKEWED>(lane, level.tw, 1.0f, level.spectra + at);
}

template <bool SKEWED>
static __global__ void __launch_bounds__(MAX_THREADS) inverse(const __grid_constant__ struct tail_inverses job)
{
    extern __shared__ float2 shared[];
    const int l = my_level(job.first_block, job.n);
    const struct tail_inverse &level = job.level[l];
    const int size = 1 << level.log2_size;
    const struct fft_lane lane = fft_lane_of<SKEWED>(shared, level.log2_size, job.first_block[l]);
    const bool active = lane.which < level.n_out;
    const size_t out = level.first_out + (active ? lane.which : 0);
    const float2 *sums = level.sums + (out << level.log2_size);
    float2 r[8];
    fft_inverse<SKEWED>(lane, level.tw, [&](int k) { return sums[k]; }, r);
    if (!active) return;
    float *due = level.due + (out << (level.log2_size + 1));
    fft_points<4>(lane, [&](int m, int i) { /* `at` is even: every hop is even */
        *(float2 *)(due + ((level.at + i - size) & (2 * size - 1))) = r[m];
    });
}

/* grid: the transforms (row, part), several a thread block */
template <bool SKEWED>
static __global__ void __launch_bounds__(MAX_THREADS) responses(const __grid_constant__ struct tail_responses job)
{
    extern __shared__ float2 shared[];
    const int size = 1 << job.log2_size;
    const struct fft_lane lane = fft_lane_of<SKEWED>(shared, job.log2_size);
    const int row = lane.which / job.max_parts, part = lane.which % job.max_parts;
    const bool active = row < job.n_rows && part < job.n_parts[row];
    const size_t first = (size_t)job.offset + ((size_t)part << job.log2_size);
    const float *taps = job.taps + (active ? row : 0) * job.pitch + first;
    float2 r[8];
    fft_points(lane, [&](int m, int i) {
        const bool inside = active && i < size && first + i < job.pitch;
        r[m] = inside ? *(const float2 *)(taps + i) : make_float2(0.0f, 0.0f);
    });
    fft_forward<SKEWED>(lane, job.tw, r);
    if (active) /* the scale cancels the gain of the inverse */
        fft_unpack<SKEWED>(lane, job.tw, 0.5f / (float)size,
                           job.spectra + ((size_t)(job.part_at[row] + part) << job.log2_size));
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static int launch_threads(int log2_size) { return log2_size > 9 ? 1 << (log2_size - 3) : 64; }
static int blocks_for(int n, int log2_size, int threads)
{
    const int per_block = threads >> (log2_size - 3);
    return (n + per_block - 1) / per_block;
}

static size_t shared_for(bool skewed, int log2_size, int threads)
{
    const int size = 1 << log2_size;
    return (size_t)(threads / (size / 8)) * (skewed ? fft_skew(size) : size) * sizeof(float2);
}

static bool is_skewed(void)
{
    int device = 0;
    return cudaGetDevice(&device) != cudaSuccess || device >= MAX_DEVICES || !no_skew[device];
}

static int multiprocessors(void)
{
    int device = 0;
    return cudaGetDevice(&device) != cudaSuccess || device >= MAX_DEVICES ? 0 : (int)n_sm[device];
}

/* Do n transforms of one level fill the device? The level then has a separate launch, of the kernel for its size. */
static bool goes_alone(int n, int log2_size, int sms) { return sms > 0 && tail_are_many(n, log2_size, sms); }

#define LAUNCH(kernel, blocks, threads, shared, stream, job)                         \
    do {                                                                             \
        if (skewed) kernel<true><<<blocks, threads, shared, stream>>>(job);          \
        else kernel<false><<<blocks, threads, shared, stream>>>(job);                \
    } while (0)

/* Declares the variables `threads`, `blocks`, `shared` and `skewed` of a launch, and sets first_block. count: n_ch or
 * n_out of a level. */
#define LAY_OUT(job, count)                                                                                            \
    int threads = 64, blocks = 0;                                                                                      \
    size_t shared = 0;                                                                                                 \
    const bool skewed = is_skewed();                                                                                   \
    for (int l = 0; l < (job)->n; l++)                                                                                 \
        if (launch_threads((job)->level[l].log2_size) > threads) threads = launch_threads((job)->level[l].log2_size);  \
    for (int l = 0; l < (job)->n; l++) {                                                                               \
        const size_t bytes = shared_for(skewed, (job)->level[l].log2_size, threads);                                   \
        if (bytes > shared) shared = bytes;                                                                            \
        (job)->first_block[l] = blocks;                                                                                \
        blocks += blocks_for((job)->level[l].count, (job)->level[l].log2_size, threads);                               \
    }

cudaError_t tail_forward_launch(struct tail_forwards *job, cudaStream_t stream)
{
    const int sms = multiprocessors();
    int n = 0;
    for (int l = 0; l < job->n; l++) {
        const struct tail_forward level = job->level[l];
        const bool alone = goes_alone(level.n_ch, level.log2_size, sms);
        const cudaError_t e = alone ? tail_forward_many_launch(&level, job->x, job->ring_mask, stream) : cudaSuccess;
        if (e != cudaSuccess) return e;
        if (!alone) job->level[n++] = level;
    }
    job->n = n;
    LAY_OUT(job, n_ch)
    if (blocks) LAUNCH(forward, blocks, threads, shared, stream, *job);
    return cudaGetLastError();
}

cudaError_t tail_inverse_launch(struct tail_inverses *job, cudaStream_t stream)
{
    const int sms = multiprocessors();
    int n = 0;
    for (int l = 0; l < job->n; l++) {
        const struct tail_inverse level = job->level[l];
        const bool alone = goes_alone(level.n_out, level.log2_size, sms);
        const cudaError_t e = alone ? tail_inverse_many_launch(&level, stream) : cudaSuccess;
        if (e != cudaSuccess) return e;
        if (!alone) job->level[n++] = level;
    }
    job->n = n;
    LAY_OUT(job, n_out)
    if (blocks) LAUNCH(inverse, blocks, threads, shared, stream, *job);
    return cudaGetLastError();
}

cudaError_t tail_responses_launch(const struct tail_responses *job, cudaStream_t stream)
{
    const bool skewed = is_skewed();
    const int threads = launch_threads(job->log2_size), n = job->n_rows * job->max_parts;
    if (n)
        LAUNCH(responses, blocks_for(n, job->log2_size, threads), threads, shared_for(skewed, job->log2_size, threads),
               stream, *job);
    return cudaGetLastError();
}

template <bool SKEWED> static cudaError_t load(size_t shared)
{
    const void *kernels[] = {(const void *)forward<SKEWED>, (const void *)inverse<SKEWED>,
                             (const void *)responses<SKEWED>};
    for (int i = 0; i < 3; i++) {
        cudaError_t e = cudaFuncSetAttribute(kernels[i], cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
        if (e != cudaSuccess) return e;
    }
    return cudaSuccess;
}

cudaError_t tail_transform_load(int device)
{
    const size_t skewed = shared_for(true, 13, MAX_THREADS), plain = shared_for(false, 13, MAX_THREADS);
    int max_bytes = 0, n = 0;
    cudaError_t e = cudaDeviceGetAttribute(&max_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device);
    if (e == cudaSuccess) e = tail_transform_many_load();
    if (e != cudaSuccess) return e;
    if (device < MAX_DEVICES) n_sm[device] = n;
    if ((size_t)max_bytes >= skewed) return load<true>(skewed);
    if (device < MAX_DEVICES) no_skew[device] = true;
    return load<false>(plain);
}
