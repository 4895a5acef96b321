/* magnitude_fir - an FIR filter with given magnitudes. */
#ifndef MAGNITUDE_FIR_H
#define MAGNITUDE_FIR_H

#include "dsp/signal/transform.h"

/* Returns the size of the transform for filters of that many taps: long enough for the cepstrum, and for a bin each
 * hertz. */
size_t magnitude_fir_size(int taps, int rate);

/* bins[size / 2 + 1] -> the spectrum of the same magnitudes with minimum phase. Magnitudes below `min`, relative to
 * the largest, are raised to `min`: no filter of minimum phase has a gain of 0. */
void magnitude_minimum_phase(const struct transform *transform, double min, double complex *bins);

/* The first taps of the inverse transform of bins -> h[taps]; bins are overwritten. */
void magnitude_taps(const struct transform *transform, double complex *bins, int taps, double *h);

/* Fades n taps in or out with half a Hann window. */
void taps_fade_in(double *h, int n);
void taps_fade_out(double *h, int n);

#endif
