/* tail_transform - forward and inverse transforms of several sizes in one launch. The tail levels of a plan have
 * different sizes, and a launch for each level in each hop would cost more than the work.
 *
 *   blocks   [ level 0: S = 64, 32 transforms a block ][ level 1: S = 128, 16 ][ ... ][ S = 4096, one ]
 *
 * Every block can hold the largest transform of the launch; smaller transforms lie side by side in a block
 * (fft_teams.cuh). Levels of 8192 frames have a separate launch, because their transform needs twice as many registers:
 * in one kernel with the others, it would halve the threads that a multiprocessor holds.
 *
 * cost     a channel and window: 3 S log2(S) FMA; 8 S bytes read, 8 S written (forward), 8 S and 4 S (inverse)
 * limits   S <= 8192: 256 threads, 70 KiB of shared memory; 64 KiB on devices that have no more (sm_75)
 * ceiling  memory bandwidth
 */
#include "tail_transform.h"

#include "fft_teams.cuh"
#include "kernels_load.h"

static_assert((int)TAIL_SIZE_MAX == 1 << FFT_LARGEST && (int)TAIL_SIZE_MIN == FFT_MIN, "the sizes of the kernels");

/* The level of this thread block: the last level whose first block is not behind it. */
__device__ static inline int my_level(const int *first_block, int n)
{
    int l = 0;
    while (l + 1 < n && (int)blockIdx.x >= first_block[l + 1]) l++;
    return l;
}

/* grid: the channels of each level, several a thread block */
template <int FIRST, int LAST>
static __global__ void __launch_bounds__(FFT_THREADS, fft_blocks_a_sm(LAST))
    forward(const __grid_constant__ struct tail_forwards job)
{
    extern __shared__ float4 shared[];
    const int l = my_level(job.first_block, job.n);
    const struct tail_forward &level = job.level[l];
    fft_with_size<FIRST, LAST>(level.log2_size, [&](auto size) {
        using S = decltype(size);
        const fft_team<S> team(shared, level.n_ch, job.first_block[l]);
        if (team.idle) return;
        const size_t ch = level.first_ch + team.which;
        const float *x = job.x + ch * ((size_t)job.ring_mask + 1);
        float2 r[S::E];
        team.load(r, [&](int i) { return x[(level.from + i) & job.ring_mask]; });
        team.forward(level.tw, r);
        if (team.active) team.store(level.spectra + (ch * level.n_entries + level.entry) * S::N, r);
    });
}

/* grid: the outputs of each level, several a thread block. */
template <int FIRST, int LAST>
static __global__ void __launch_bounds__(FFT_THREADS, fft_blocks_a_sm(LAST))
    inverse(const __grid_constant__ struct tail_inverses job)
{
    extern __shared__ float4 shared[];
    const int l = my_level(job.first_block, job.n);
    const struct tail_inverse &level = job.level[l];
    fft_with_size<FIRST, LAST>(level.log2_size, [&](auto size) {
        using S = decltype(size);
        const fft_team<S> team(shared, level.n_out, job.first_block[l]);
        if (team.idle) return;
        const size_t out = level.first_out + team.which;
        const float2 *sums = level.sums + out * S::N;
        float2 r[S::E];
        team.load_spectrum(r, sums);
        team.inverse(level.tw, r);
        if (!team.active) return;
        float *due = level.due + out * 2 * S::N;
        team.frames(r, [&](int, int i, float2 x) { due[(level.at + i) & (2 * S::N - 1)] = x.y; });
    });
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static int transform_count_of(const struct tail_forward &level)
{
    return level.n_ch;
}
static int transform_count_of(const struct tail_inverse &level)
{
    return level.n_out;
}

/* Launches the kernel for the levels of FFT_LARGEST frames, or for all others. job: a copy. */
template <class Job, class Kernel> static cudaError_t launch(Job job, bool largest, Kernel kernel, cudaStream_t stream)
{
    const int n = job.n;
    int threads = 0, blocks = 0;
    size_t shared = 0;
    job.n = 0;
    for (int l = 0; l < n; l++) {
        const int log2_size = job.level[l].log2_size;
        if ((log2_size == FFT_LARGEST) != largest) continue;
        if (fft_threads(log2_size) > threads) threads = fft_threads(log2_size);
        job.level[job.n++] = job.level[l];
    }
    for (int l = 0; l < job.n; l++) {
        const int log2_size = job.level[l].log2_size;
        const size_t bytes = fft_shared_bytes(log2_size, threads);
        if (bytes > shared) shared = bytes;
        job.first_block[l] = blocks;
        blocks += (int)fft_blocks(transform_count_of(job.level[l]), log2_size, threads);
    }
    if (blocks) kernel<<<blocks, threads, shared, stream>>>(job);
    return cudaGetLastError();
}

cudaError_t tail_forward_launch(const struct tail_forwards *job, cudaStream_t stream)
{
    const cudaError_t e = launch(*job, true, forward<FFT_LARGEST, FFT_LARGEST>, stream);
    return e == cudaSuccess ? launch(*job, false, forward<FFT_LOG2_MIN, FFT_LOG2_MAX>, stream) : e;
}

cudaError_t tail_inverse_launch(const struct tail_inverses *job, cudaStream_t stream)
{
    const cudaError_t e = launch(*job, true, inverse<FFT_LARGEST, FFT_LARGEST>, stream);
    return e == cudaSuccess ? launch(*job, false, inverse<FFT_LOG2_MIN, FFT_LOG2_MAX>, stream) : e;
}

cudaError_t tail_transform_load(void)
{
    const cudaError_t e = kernels_load(forward<FFT_LOG2_MIN, FFT_LOG2_MAX>, inverse<FFT_LOG2_MIN, FFT_LOG2_MAX>);
    return e == cudaSuccess ? fft_largest_load(forward<FFT_LARGEST, FFT_LARGEST>, inverse<FFT_LARGEST, FFT_LARGEST>)
                            : e;
}
