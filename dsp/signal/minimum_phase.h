/* minimum_phase - the response with the smallest delay among all with a given magnitude. Method: fold the cepstrum of
 * the magnitude to positive times (Oppenheim and Schafer, Discrete-Time Signal Processing, section 13.5).
 */
#ifndef HALOCONV_MINIMUM_PHASE_H
#define HALOCONV_MINIMUM_PHASE_H

#include "transform.h"

/* Turns magnitudes, positive, in the real parts of bins[size / 2 + 1], into the spectrum with minimum phase.
 * If the transform is not several times longer than the response, the cepstrum wraps around in time. */
void minimum_phase_bins(const struct transform *transform, double complex *bins);

#endif
