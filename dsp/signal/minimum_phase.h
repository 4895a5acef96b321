/* minimum_phase - the response with the least delay of all that have a given magnitude. Oppenheim and Schafer,
 * Discrete-Time Signal Processing, section 13.5: the cepstrum of the magnitude, folded to positive times.
 */
#ifndef HALOCONV_MINIMUM_PHASE_H
#define HALOCONV_MINIMUM_PHASE_H

#include "transform.h"

/* bins[size / 2 + 1]: the magnitudes, positive, in the real parts, -> their spectrum with minimum phase. The transform
 * must be several times longer than the response, or its cepstrum wraps around in time. */
void minimum_phase_bins(const struct transform *transform, double complex *bins);

#endif
