/* fir_design - linear-phase FIR filters by the window method, in double precision; the same numbers as
 * scipy.signal.firwin(..., scale=True). Oppenheim and Schafer, Discrete-Time Signal Processing, section 7.6.
 */
#ifndef FIR_DESIGN_H
#define FIR_DESIGN_H

#include "dsp/signal/transform.h"

enum fir_window { FIR_RECTANGULAR, FIR_HANN, FIR_HAMMING, FIR_BLACKMAN, FIR_BLACKMANHARRIS, FIR_KAISER, FIR_WINDOWS };
enum fir_band { FIR_LOWPASS, FIR_HIGHPASS, FIR_BANDPASS, FIR_BANDSTOP };

extern const char *const fir_window_names[FIR_WINDOWS];

/* Kaiser's formulas (1974): the shape of the window for an attenuation in dB, and the number of taps for it and a
 * transition width, given as a share of half the rate. The number is whole, and may be larger than an int. */
double fir_kaiser_beta(double attenuation_db);
double fir_kaiser_length(double attenuation_db, double transition);

/* Fills w[n]. beta: for the Kaiser window. */
void fir_window_fill(enum fir_window window, double beta, int n, double *w);

/* Fills h[n]. edges: shares of half the rate; one edge for lowpass and highpass. The gain is 1 in the middle of the
 * first pass band, or at 0 or half the rate if the band ends there. highpass and bandstop need an odd n. */
void fir_band_fill(enum fir_band band, const double *edges, const double *w, int n, double *h);

/* Fills h[n] with a Hilbert transformer of odd length n, type III: 90 degrees, zero at 0 and at half the rate. */
void fir_hilbert_fill(const double *w, int n, double *h);

/* ---- filters with given magnitudes ------------------------------------------------------------ */

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
