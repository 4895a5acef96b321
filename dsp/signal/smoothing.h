/* smoothing - means of a power spectrum over a bandwidth that is constant in octaves.
 *
 * Bin k stands for the band from k - 1/2 to k + 1/2. The mean around it goes from k / 2^(octaves / 2) to
 * k * 2^(octaves / 2), with the parts of the bins at both ends, and not beyond half the rate. So it is continuous in
 * `octaves`, and a band within one bin is that bin. A mean of powers keeps the energy of noise; a mean of levels in dB
 * would let a narrow null pull it down.
 */
#ifndef HALOCONV_SMOOTHING_H
#define HALOCONV_SMOOTHING_H

#include <stddef.h>

/* power[n_bins] -> out[n_bins], another array. Bin 0 is 0 Hz. The time is that of 2 n_bins steps for any width. */
void smooth_octaves(const double *power, double *out, size_t n_bins, double octaves);

/* The same with a width for each bin: octaves[n_bins]. It must not grow faster than the frequency: by less than 2
 * octaves from one octave to the next. */
void smooth_octaves_varying(const double *power, double *out, size_t n_bins, const double *octaves);

#endif
