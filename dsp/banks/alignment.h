/* alignment - the onset of a response, and its delay by any number of frames: responses are aligned with both. */
#ifndef HALOCONV_ALIGNMENT_H
#define HALOCONV_ALIGNMENT_H

#include <stddef.h>

/* Finds the frame at which a response begins, with a fraction; NaN for a response of zeros. rate 0 counts as 48000 Hz.
 * Returns HC_OK or HC_ENOMEM.
 *
 * The response is low-passed at 3 kHz and upsampled by 8; the onset is where it first comes within 20 dB of its peak.
 * A. Andreopoulou and B. Katz (JASA 142, 2017) found that of several methods a threshold on the response below 3 kHz
 * gives the interaural delays nearest to those that listeners hear. The low-pass is a Gaussian of zero phase, which
 * does not ring; it moves all onsets by the same time, which does not change their differences. */
int onset_find(const float *taps, int n_taps, int rate, double *onset);

enum { FRACTIONAL_DELAY_HALF = 32 }; /* frames of the sinc on each side           */

/* Adds gain * in[n_in], later by `frames` (earlier if negative), to out[n_out]. Frames outside of out are lost.
 *
 * The sinc has 64 taps in a Kaiser window (beta 10; T. Laakso et al., "Splitting the Unit Delay", IEEE Signal Processing
 * Magazine 13, 1996). Up to 0.85 of half the rate the error is below -90 dB. A whole number of frames is exact. */
void fractional_delay_add(const float *in, size_t n_in, double frames, double gain, float *out, size_t n_out);

#endif
