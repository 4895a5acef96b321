/* harmonics - the distortion of a system, from the responses of higher order before its linear response. */
#ifndef HARMONICS_H
#define HARMONICS_H

#include "measurement.h"

struct harmonics_scratch {
    double complex *linear, *order; /* [size / 2 + 1] each */
};

/* Fills in harmonics[N_HARMONICS]. h: [size] of the transform, as sweep_section_bins lays it out; direct: the frame of
 * its direct sound; noise: power of the noise, as sweep_noise_power gives it, over the number of sections. */
void harmonics_measure(const struct sweep_analysis *a, const double *h, int64_t direct, const double *noise,
                       struct harmonics_scratch *scratch, struct harmonic *harmonics);

#endif
