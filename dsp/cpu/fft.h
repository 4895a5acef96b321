/* fft - real transforms of n floats, by FFTW in single precision. Without FFTW in the build there are none. */
#ifndef HALOCONV_FFT_H
#define HALOCONV_FFT_H

#include <stdbool.h>
#include <stddef.h>

struct fft; /* a plan; any number of threads may execute it on their own buffers */

/* "fftw-3.3.10-sse2-avx", or NULL: this build has no FFT. */
const char *fft_library(void);

/* measured: try variants for up to a few tenths of a second instead of guessing. NULL when memory ran out. [setup] */
struct fft *fft_open(int n, bool measured);
void fft_close(struct fft *fft);

/* real[n] -> spectrum[n/2 + 1] interleaved re im; not scaled, real is kept. Both aligned to 64 bytes. [rt] */
void fft_forward(const struct fft *fft, const float *real, float *spectrum);
/* The way back, times n; spectrum is destroyed. [rt] */
void fft_inverse(const struct fft *fft, float *spectrum, float *real);

#endif
