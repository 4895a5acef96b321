/* transform - Fourier transforms of real signals in double precision, for the analysis and the design of responses.
 *
 * The engine's transform (dsp/fft/fft.h) is in single precision, which loses bins 120 dB below the largest bin. The
 * inverse and the logarithm of a spectrum need these bins.
 */
#ifndef HALOCONV_TRANSFORM_H
#define HALOCONV_TRANSFORM_H

#include <complex.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef CMPLX /* some releases of glibc define it for gcc alone */
#define CMPLX(x, y) __builtin_complex((double)(x), (double)(y))
#endif

struct transform {
    size_t size;            /* real values: a power of two, at least 4             */
    double complex *roots;  /* [size / 2]: e^(-2 pi i k / (size / 2))              */
    double complex *scratch; /* [size / 2]; one thread at a time uses the struct    */
};

/* Returns the smallest possible size that is at least n. */
size_t transform_size(size_t n);

/* Makes the tables for a size. false: no memory; nothing has to be closed then. */
bool transform_open(struct transform *transform, size_t size);
void transform_close(struct transform *transform);

/* Transforms real[size], at the address of `bins`, to bins[size / 2 + 1], in place and not scaled. */
void transform_forward(const struct transform *transform, double complex *bins);

/* Inverts transform_forward, in place: bins[size / 2 + 1] becomes real[size] at the same address. */
void transform_inverse(const struct transform *transform, double complex *bins);

/* Computes the spectrum, bins[size / 2 + 1], of h[n], n <= size, padded with zeros. */
void transform_response(const struct transform *transform, const double *h, size_t n, double complex *bins);
void transform_response_float(const struct transform *transform, const float *h, size_t n, double complex *bins);

/* Computes the whole convolution y[n_a + n_b - 1] of a[n_a] and b[n_b]. y may be a or b. false: no memory. */
bool transform_convolve(const double *a, size_t n_a, const double *b, size_t n_b, double *y);

/* Delays the signal of bins[size / 2 + 1] by any number of frames. At half the rate, where a real signal has no phase,
 * only the real part remains. */
void transform_delay(const struct transform *transform, double complex *bins, double frames);

/* Turns magnitudes, positive, in the real parts of bins[size / 2 + 1], into the spectrum of these magnitudes with the
 * smallest delay: folds the cepstrum to positive times (Oppenheim and Schafer, Discrete-Time Signal Processing, section
 * 13.5). If the transform is not several times longer than the response, the cepstrum wraps around in time. */
void transform_minimum_phase(const struct transform *transform, double complex *bins);

/* Returns the squared magnitude of a bin. */
static inline double bin_power(double complex bin)
{
    return creal(bin) * creal(bin) + cimag(bin) * cimag(bin);
}

#endif
