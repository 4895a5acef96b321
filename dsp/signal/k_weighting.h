/* k_weighting - the filters of ITU-R BS.1770-4, by which loudness is measured: a shelf of +4 dB, then a high-pass. */
#ifndef HALOCONV_K_WEIGHTING_H
#define HALOCONV_K_WEIGHTING_H

#include "biquad.h"

/* Makes the filters for a rate in Hz; below 4000 Hz those for 4000 Hz: the shelf must lie below half the rate. */
void k_weighting(int rate, struct biquad filters[2]);

#endif
