#include "magnitude_fir.h"

#include "dsp/signal/minimum_phase.h"

#include <math.h>
#include <string.h>

size_t magnitude_fir_size(int taps, int rate)
{
    size_t size = transform_size((size_t)taps * 4), least = transform_size((size_t)rate);
    return size > least ? size : least;
}

void magnitude_minimum_phase(const struct transform *t, const double *gain, double least, double complex *bins)
{
    double most = 0;
    for (size_t k = 0; k <= t->size / 2; k++) most = fmax(most, gain[k]);
    for (size_t k = 0; k <= t->size / 2; k++) bins[k] = fmax(gain[k], most * least);
    minimum_phase_bins(t, bins);
}

void magnitude_linear_phase(const struct transform *t, const double *gain, int taps, double complex *bins)
{
    for (size_t k = 0; k <= t->size / 2; k++)
        bins[k] = gain[k] * cexp(-I * M_PI * (double)k * (taps - 1) / (double)t->size);
    bins[t->size / 2] = creal(bins[t->size / 2]);
}

void magnitude_taps(const struct transform *t, double complex *bins, int taps, double *h)
{
    transform_inverse(t, bins);
    memcpy(h, bins, (size_t)taps * sizeof *h);
}

static double fall(int i, int n) /* from nearly 1 at 0 to nearly 0 at n - 1 */
{
    return 0.5 + 0.5 * cos(M_PI * (i + 1) / (n + 1));
}

void taps_fade_in(double *h, int n)
{
    for (int i = 0; i < n; i++) h[n - 1 - i] *= fall(i, n);
}

void taps_fade_out(double *h, int n)
{
    for (int i = 0; i < n; i++) h[i] *= fall(i, n);
}
