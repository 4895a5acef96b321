/* fft_factors - the sizes of the transforms of backend/ and files/, and tables of their twiddle factors. A transform of
 * size P has P complex or 2P real points; log2_P is 5 to 13. fft_teams.cuh has the transform. */
#ifndef HALOCONV_FFT_FACTORS_H
#define HALOCONV_FFT_FACTORS_H

#include <cuda_runtime.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FFT_MIN = 32, FFT_MAX = 4096 };    /* P; tail levels also have 8192 */

/* The smallest log2 with n <= 1 << log2. */
static inline int log2_of(int n)
{
    int log2 = 0;
    while (1 << log2 < n) log2++;
    return log2;
}

/* The bytes of a table. Its owner allocates it in device memory, aligned for float2. */
size_t fft_factors_bytes(int log2_P);
/* Fills the table tw, which all transforms of this size on the device can read. [setup] */
cudaError_t fft_factors_make(float2 *tw, int log2_P, cudaStream_t stream);

/* A thread block of `threads` threads, at least fft_threads(log2_P): its number of transforms, and the bytes of their
 * shared memory. */
int fft_threads(int log2_P);
int fft_teams(int log2_P, int threads);
size_t fft_shared_bytes(int log2_P, int threads);
/* Returns the number of these thread blocks that n transforms need. */
unsigned fft_blocks(size_t n, int log2_P, int threads);

#ifdef __cplusplus
}
#endif

#endif
