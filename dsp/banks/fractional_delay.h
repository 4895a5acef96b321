/* fractional_delay - delays a response by any number of frames, with a sinc of 64 taps in a Kaiser window (beta 10; T.
 * Laakso et al., "Splitting the Unit Delay", IEEE Signal Processing Magazine 13, 1996). Up to 0.85 of half the rate the
 * error is below -90 dB. A whole number of frames is exact.
 */
#ifndef HALOCONV_FRACTIONAL_DELAY_H
#define HALOCONV_FRACTIONAL_DELAY_H

#include <stddef.h>

enum { FRACTIONAL_DELAY_HALF = 32 }; /* frames of the sinc on each side           */

/* Adds gain * in[n_in], later by `frames` (earlier if negative), to out[n_out]. Frames outside of out are lost. */
void fractional_delay_add(const float *in, size_t n_in, double frames, double gain, float *out, size_t n_out);

#endif
