/* loudness - peak and power of a signal that comes in blocks. */
#ifndef LOUDNESS_H
#define LOUDNESS_H

#include <stdint.h>

enum level { LEVEL_NONE, LEVEL_PEAK, LEVEL_RMS }; /* the option --level, and the column of a batch */

struct loudness { /* start with zeros */
    double peak, sum; /* sum: of the squares of n samples */
    int64_t n;
};

/* Samples that are not finite count as 0, as in an engine. */
void loudness_add(struct loudness *loudness, const float *x, int64_t n);

double loudness_level(const struct loudness *loudness, enum level level); /* not for LEVEL_NONE; linear */

/* The gain that gives the output the level of the input; silence stays as it is. */
double loudness_gain(const struct loudness *in, const struct loudness *out, enum level level);

#endif
