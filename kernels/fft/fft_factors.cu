/* fft_factors - tables of twiddle factors, one for each size: fft_tree::factors, computed on the device. */
#include "fft_teams.cuh"

struct fft_shape {
    size_t factors_bytes, team_bytes;
    int team_threads;
};

template <int LOG_N> static constexpr struct fft_shape shape()
{
    using S = fft_size<LOG_N>;
    return {sizeof(typename S::factors), S::TEAM_BYTES, S::T};
}

static constexpr struct fft_shape shapes[] = {shape<5>(),  shape<6>(),  shape<7>(),  shape<8>(),          shape<9>(),
                                              shape<10>(), shape<11>(), shape<12>(), shape<FFT_LARGEST>()};

static const struct fft_shape *shape_of(int log2_P)
{
    return &shapes[log2_P - FFT_LOG2_MIN];
}

static __global__ void __launch_bounds__(FFT_THREADS) factors_fill(float2 *tw, int log2_P)
{
    fft_with_size<FFT_LOG2_MIN, FFT_LARGEST>(log2_P, [&](auto size) {
        using S = decltype(size);
        S::factors_make((typename S::factors *)tw);
    });
}

size_t fft_factors_bytes(int log2_P)
{
    return shape_of(log2_P)->factors_bytes;
}

cudaError_t fft_factors_make(float2 *tw, int log2_P, cudaStream_t stream)
{
    factors_fill<<<1, FFT_THREADS, 0, stream>>>(tw, log2_P);
    return cudaGetLastError();
}

int fft_threads(int log2_P)
{
    return shape_of(log2_P)->team_threads > 128 ? FFT_THREADS : 128;
}

int fft_teams(int log2_P, int threads)
{
    return threads / shape_of(log2_P)->team_threads;
}

size_t fft_shared_bytes(int log2_P, int threads)
{
    const size_t bytes = fft_teams(log2_P, threads) * shape_of(log2_P)->team_bytes;
    int device = 0, max_bytes = 0;
    if (log2_P < FFT_LARGEST || cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&max_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
        return bytes;
    return bytes < (size_t)max_bytes ? bytes : (size_t)max_bytes; /* sm_75: fft_is_padded */
}

unsigned fft_blocks(size_t n, int log2_P, int threads)
{
    const size_t teams = (size_t)fft_teams(log2_P, threads);
    return (unsigned)((n + teams - 1) / teams);
}
