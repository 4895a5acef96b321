/* delay - delays a response by its spectrum. */
#ifndef HALOCONV_DELAY_H
#define HALOCONV_DELAY_H

#include "transform.h"

/* bins[size / 2 + 1], later by any number of frames. At half the rate, where a real signal has no phase, the real part
 * remains. */
void delay_bins(const struct transform *transform, double complex *bins, double frames);

#endif
