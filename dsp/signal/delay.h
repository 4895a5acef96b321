/* delay - delays a response by rotating the phases of its spectrum. */
#ifndef HALOCONV_DELAY_H
#define HALOCONV_DELAY_H

#include "transform.h"

/* Delays the signal of bins[size / 2 + 1] by any number of frames. At half the rate, where a real signal has no phase,
 * only the real part remains. */
void delay_bins(const struct transform *transform, double complex *bins, double frames);

#endif
