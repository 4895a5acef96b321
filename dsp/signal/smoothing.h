/* smoothing - means of a power spectrum over a bandwidth that is constant in octaves.
 *
 * Bin k stands for the band from k - 1/2 to k + 1/2. The mean around it goes from k / 2^(octaves / 2) to
 * k * 2^(octaves / 2), up to half the rate; bins at both ends count by their part inside the band. The mean is
 * therefore continuous in `octaves`, and a band within one bin has this bin's power. A mean of powers keeps the energy
 * of noise; a narrow null would lower a mean of levels in dB.
 */
#ifndef HALOCONV_SMOOTHING_H
#define HALOCONV_SMOOTHING_H

#include <stddef.h>

/* Smooths power[n_bins] into another array, out[n_bins]. Bin 0 is 0 Hz. Takes 2 n_bins steps for any width. */
void smooth_octaves(const double *power, double *out, size_t n_bins, double octaves);

/* Does smooth_octaves with a width for each bin, octaves[n_bins]. The width must grow by less than 2 octaves from one
 * octave of frequency to the next. */
void smooth_octaves_varying(const double *power, double *out, size_t n_bins, const double *octaves);

#endif
