/* fft_teams - the transform of fft_registers.cuh in kernels whose transforms have a size known at run time. Such a
 * kernel has code for every size.
 *
 *   block   [ team 0 | team 1 | ... ]     128 threads, 256 from 4096 points on; a team computes one transform
 *
 *   P       32   64  128  256  512 1024 2048 4096 8192     complex points of a transform; 2P real frames
 *   E        8    8    8    8    8   16   16   16   32     points of a thread, in registers
 *   T        4    8   16   32   64   64  128  256  256     threads of a team
 *
 * E is the fastest of those measured on an H100; P = 8192 permits only 32. The factors are read from a table in device
 * memory (fft_factors.h): a table in shared memory, copied or computed by each block, is slower up to 1024 channels.
 *
 *   frames    x[0] ... x[2P - 1] of a window are the points z[n] = x[n] - i x[P + n]
 *   spectrum  [P] float2, in an order that depends on P only. A product of two spectra multiplies equal positions as
 *             complex numbers. The inverse has a gain of P
 *   product   a convolution of 2P frames whose wrapped part has changed its sign. Overlap-save drops this part
 *
 * cost     a transform: 3 P log2(P) FMA
 * limits   at most 9 P bytes of shared memory from P = 64 on, 13 P at 32. P = 8192 needs 70 KiB, on sm_75 64 KiB
 *          (fft_is_padded)
 * error    about 2e-7 relative (rms) for forward, product and inverse
 */
#ifndef HALOCONV_FFT_TEAMS_CUH
#define HALOCONV_FFT_TEAMS_CUH

#include "fft_factors.h"
#include "fft_registers.cuh"

/* Launch bounds: 3 blocks on a multiprocessor allow 80 registers. Kernels for 2^FFT_LARGEST points need up to 165. */
enum { FFT_THREADS = 256, FFT_BLOCKS_A_SM = 3, FFT_LOG2_MIN = 5, FFT_LOG2_MAX = 12, FFT_LARGEST = 13 };
static constexpr int fft_blocks_a_sm(int last) { return last == FFT_LARGEST ? 1 : FFT_BLOCKS_A_SM; }

static constexpr int fft_log_e(int log_n) { return log_n <= 9 ? 3 : log_n <= 12 ? 4 : 5; }

/* A block of sm_75 has at most 64 KiB: 8192 points without padding. Code for an older GPU may be compiled for it by the
 * driver. */
static constexpr bool fft_is_padded(int log_n)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return log_n < FFT_LARGEST;
#else
    return log_n <= FFT_LARGEST;
#endif
}

template <int LOG_N> struct fft_size : fft_tree<LOG_N, fft_log_e(LOG_N), false, (LOG_N < 12), fft_is_padded(LOG_N)> {
    using tree = fft_tree<LOG_N, fft_log_e(LOG_N), false, (LOG_N < 12), fft_is_padded(LOG_N)>;
    /* The teams of a half warp use different banks. */
    static constexpr int PAD = tree::T < 16 ? ((tree::T - tree::POINTS) % 16 + 16) % 16 : 0;
    static_assert(tree::T <= FFT_THREADS, "a team is in one thread block");
    static constexpr size_t TEAM_BYTES = (tree::POINTS + PAD) * sizeof(float2);
};

/* Calls use(fft_size<log2_P>()), FIRST <= log2_P <= LAST. */
template <int FIRST = FFT_LOG2_MIN, int LAST = FFT_LOG2_MAX, class Use>
static __device__ __forceinline__ void fft_with_size(int log2_P, Use use)
{
    if constexpr (FIRST < LAST)
        if (log2_P != FIRST) return fft_with_size<FIRST + 1, LAST>(log2_P, use);
    use(fft_size<FIRST>());
}

/* A thread's part of a transform, in a launch of n transforms. */
template <class S> struct fft_team {
    int t;                 /* the thread's number in its team                                                      */
    int which;             /* the number of the team's transform; 0 if the team has none                           */
    bool active;           /* false: the team has no transform. It computes, but must not store                    */
    bool idle;             /* no team of this warp has a transform: its threads may return                         */
    float2 *s;             /* the team's shared memory                                                             */

    /* first_block: the thread block that has transform 0. */
    __device__ __forceinline__ fft_team(float4 *shared, int n, int first_block = 0)
    {
        const int team = (int)threadIdx.x / S::T, teams_of_warp = S::T < 32 ? 32 / S::T : 1;
        const int first = ((int)blockIdx.x - first_block) * ((int)blockDim.x / S::T);
        t = (int)threadIdx.x % S::T;
        active = first + team < n;
        idle = first + team / teams_of_warp * teams_of_warp >= n;
        which = active ? first + team : 0;
        s = shared_at<float2>(shared, team * S::TEAM_BYTES);
    }

    /* Loads the window whose frame i is frame(i). */
    template <class Frame> __device__ __forceinline__ void load(float2 *r, Frame frame) const
    {
#pragma unroll
        for (int j = 0; j < S::E; j++) r[j].y = -frame(t + S::T * j + S::N);
#pragma unroll
        for (int j = 0; j < S::E; j++) r[j].x = frame(t + S::T * j);
    }

    /* HALF: the second half of the window is 0, and r[j].y is not read. */
    template <bool HALF = false> __device__ __forceinline__ void forward(const float2 *tw, float2 *r) const
    {
        S::template forward<HALF>(s, (const typename S::factors *)tw, t, r);
    }

    __device__ __forceinline__ void store(float2 *X, const float2 *r) const
    {
#pragma unroll
        for (int m = 0; m < S::E; m++) X[t + S::T * m] = r[m];
    }

    __device__ __forceinline__ void load_spectrum(float2 *r, const float2 *X) const
    {
#pragma unroll
        for (int m = 0; m < S::E; m++) r[m] = X[t + S::T * m];
    }

    /* Between two calls of `inverse`, or of `forward`, the threads call S::team_sync(). */
    __device__ __forceinline__ void inverse(const float2 *tw, float2 *r) const
    {
        S::inverse(s, (const typename S::factors *)tw, t, r);
    }

    /* After `inverse`, calls each(j, i, x) for j = 0 ... E - 1: frame i of the window is x.x, frame P + i is x.y. */
    template <class Each> __device__ __forceinline__ void frames(const float2 *r, Each each) const
    {
        unrolled<S::E>([&](auto j) {
            const float2 z = S::template unshifted<j.value>(r[j.value]);
            each(j.value, t + S::T * j.value, make_float2(z.x, -z.y));
        });
    }
};

/* Launches a kernel of n transforms of one size. */
template <class Kernel, class Job>
static cudaError_t fft_launch(Kernel kernel, size_t n, int log2_P, const Job &job, cudaStream_t stream)
{
    const int threads = fft_threads(log2_P);
    if (n) kernel<<<fft_blocks(n, log2_P, threads), threads, fft_shared_bytes(log2_P, threads), stream>>>(job);
    return cudaGetLastError();
}

/* Loads kernels for transforms of 2^FFT_LARGEST points; before their first launch on a device. */
template <class... Kernel> static cudaError_t fft_largest_load(Kernel... kernels)
{
    const int bytes = (int)fft_shared_bytes(FFT_LARGEST, FFT_THREADS);
    cudaError_t e = cudaSuccess;
    ((e = e == cudaSuccess ? cudaFuncSetAttribute(kernels, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) : e),
     ...);
    return e;
}

#endif
