/* response_spectra - transforms the partitions of responses.
 *
 *   row       | .. offset .. | partition 0 | partition 1 | .. | last, with zeros behind its taps |
 *   window    [ partition: hop taps | zeros, 2P frames in all ]  ->  one team, one spectrum
 *
 * cost     a partition: about 3 P log2(P) FMA; 4 hop bytes read, 8 P written
 * limits   P = 32 ... 8192
 * ceiling  memory bandwidth
 */
#include "response_spectra.h"

#include "fft_teams.cuh"
#include "kernels_load.h"

/* grid: the transforms (row, partition), several a thread block */
template <int FIRST, int LAST>
static __global__ void __launch_bounds__(FFT_THREADS, fft_blocks_a_sm(LAST))
    responses(const __grid_constant__ struct response_spectra job)
{
    extern __shared__ float4 shared[];
    fft_with_size<FIRST, LAST>(job.log2_P, [&](auto size) {
        using S = decltype(size);
        const fft_team<S> team(shared, job.n_rows * job.n_parts);
        if (team.idle) return;
        const int row = team.which / job.n_parts, part = team.which % job.n_parts;
        const bool active = team.active && (!job.parts_of_row || part < job.parts_of_row[row]);
        const size_t first = (size_t)job.offset + (size_t)part * job.hop;
        const int left = first < (size_t)job.n_taps ? job.n_taps - (int)first : 0, n = min(left, job.hop);
        const float *taps = job.taps + row * job.pitch + first;
        float2 r[S::E];
#pragma unroll
        for (int j = 0; j < S::E; j++) {
            const int i = team.t + S::T * j;
            r[j].x = active && i < n ? taps[i] : 0.0f;
        }
        team.template forward<true>(job.tw, r);
#pragma unroll
        for (int m = 0; m < S::E; m++) r[m] = make_float2(r[m].x * (1.0f / S::N), r[m].y * (1.0f / S::N));
        const size_t at = job.part_at ? (size_t)job.part_at[row] + part
                                      : ((size_t)(row / job.n_out) * job.n_parts + part) * job.n_out + row % job.n_out;
        if (active) team.store(job.spectra + at * S::N, r);
    });
}

cudaError_t response_spectra_launch(const struct response_spectra *job, cudaStream_t stream)
{
    const size_t n = (size_t)job->n_rows * job->n_parts;
    return job->log2_P == FFT_LARGEST ? fft_launch(responses<FFT_LARGEST, FFT_LARGEST>, n, job->log2_P, *job, stream)
                                      : fft_launch(responses<FFT_LOG2_MIN, FFT_LOG2_MAX>, n, job->log2_P, *job, stream);
}

cudaError_t response_spectra_load(void)
{
    const cudaError_t e = kernels_load(responses<FFT_LOG2_MIN, FFT_LOG2_MAX>);
    return e == cudaSuccess ? fft_largest_load(responses<FFT_LARGEST, FFT_LARGEST>) : e;
}
