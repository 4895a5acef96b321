/* fft - real transforms of n floats, by FFTW in single precision. A build without FFTW has none. */
#ifndef HALOCONV_PLANNED_FFT_H
#define HALOCONV_PLANNED_FFT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct planned_fft; /* a plan; any number of threads may execute it on their own buffers */

/* "fftw-3.3.10-sse2-avx", or NULL: this build has no FFT. */
const char *fft_library(void);

/* Tries variants for up to a few tenths of a second, unless HALOCONV_FFT=guess is in the environment: the tests open
 * engines of many sizes. NULL: no memory. It is called while hc_open runs or costs are measured, never later.
 * [setup] */
struct planned_fft *planned_fft_open(int n);
/* The same without trying: transforms have the same bits in every run of a program. If a build shares the host's FFTW,
 * this holds only as long as nobody has measured a plan of this size in the process. [setup] */
struct planned_fft *planned_fft_open_repeatable(int n);
void planned_fft_close(struct planned_fft *fft);

/* real[n] -> spectrum[n/2 + 1], interleaved re im; not scaled; keeps real. Both aligned to 64 bytes (planned_fft_aligned).
 * [rt] */
void planned_fft_forward(const struct planned_fft *fft, const float *real, float *spectrum);
/* The inverse, times n; destroys spectrum. [rt] */
void planned_fft_inverse(const struct planned_fft *fft, float *spectrum, float *real);

/* real[n], or its copy in scratch if real is not aligned: a caller's frames may begin anywhere. [rt] */
static inline const float *planned_fft_aligned(const float *real, size_t n, float *scratch)
{
    return (uintptr_t)real % 64 ? memcpy(scratch, real, n * sizeof(float)) : real;
}

#endif
