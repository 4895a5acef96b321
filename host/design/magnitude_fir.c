#include "magnitude_fir.h"

#include "dsp/signal/hann.h"

#include <math.h>
#include <string.h>

size_t magnitude_fir_size(int taps, int rate)
{
    size_t size = transform_size((size_t)taps * 4), min = transform_size((size_t)rate);
    return size > min ? size : min;
}

void magnitude_minimum_phase(const struct transform *t, double min, double complex *bins)
{
    double max = 0;
    for (size_t k = 0; k <= t->size / 2; k++) max = fmax(max, cabs(bins[k]));
    for (size_t k = 0; k <= t->size / 2; k++) bins[k] = fmax(cabs(bins[k]), max * min);
    transform_minimum_phase(t, bins);
}

void magnitude_taps(const struct transform *t, double complex *bins, int taps, double *h)
{
    transform_inverse(t, bins);
    memcpy(h, bins, (size_t)taps * sizeof *h);
}

void taps_fade_in(double *h, int n)
{
    for (int i = 0; i < n; i++) h[i] *= hann_rise((i + 1.0) / (n + 1));
}

void taps_fade_out(double *h, int n)
{
    for (int i = 0; i < n; i++) h[i] *= hann_rise((double)(n - i) / (n + 1));
}
