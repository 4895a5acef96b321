/* loudness - peak and power of a signal that comes in blocks. */
#ifndef LOUDNESS_H
#define LOUDNESS_H

#include "manifest.h"

struct loudness { /* start with zeros */
    double peak, sum; /* sum: of the squares of n samples */
    int64_t n;
};

void loudness_add(struct loudness *loudness, const float *x, int64_t n);

double loudness_level(const struct loudness *loudness, enum level level); /* not for LEVEL_NONE; linear */

#endif
