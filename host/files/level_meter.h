/* level_meter - peak and power of a signal that comes in blocks. */
#ifndef LEVEL_METER_H
#define LEVEL_METER_H

#include <stdint.h>

/* A value of the option --level, or of the column `level` in the list of a batch. */
enum level { LEVEL_NONE, LEVEL_PEAK, LEVEL_RMS };

struct level_meter { /* start with zeros */
    double peak, sum; /* sum: sum of the squares of n samples */
    int64_t n;
};

/* Adds n samples. Samples that are not finite count as 0, as in an engine. */
void level_meter_add(struct level_meter *meter, const float *x, int64_t n);

/* The gain that gives the output the level of the input; 1 if either is silent. */
double level_meter_gain(const struct level_meter *in, const struct level_meter *out, enum level level);

#endif
