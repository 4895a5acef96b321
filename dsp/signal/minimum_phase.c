#include "minimum_phase.h"

#include <math.h>

void minimum_phase_bins(const struct transform *t, double complex *bins)
{
    size_t half = t->size / 2;
    double *cepstrum = (double *)bins;
    for (size_t k = 0; k <= half; k++) bins[k] = log(creal(bins[k]));
    transform_inverse(t, bins);
    for (size_t i = 1; i < half; i++) cepstrum[i] *= 2;
    for (size_t i = half + 1; i < t->size; i++) cepstrum[i] = 0;
    transform_forward(t, bins);
    for (size_t k = 0; k <= half; k++) bins[k] = cexp(bins[k]);
}
