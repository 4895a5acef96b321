#include "excess_phase.h"

#include "dsp/signal/hann.h"
#include "dsp/signal/transform.h"
#include "fir_design.h"

#include <math.h>
#include <string.h>

#define FULL_HZ 300.0 /* reversed up to here; above, a small movement of the head changes the phase */
#define NONE_HZ 600.0
#define MIN_MAGNITUDE 1e-4 /* smallest magnitude, relative to the largest */

static double complex unit(double complex bin)
{
    double size = cabs(bin);
    return size > 0 ? bin / size : 1;
}

static double share_reversed(double hz)
{
    double x = log2(fmax(hz, FULL_HZ) / FULL_HZ) / log2(NONE_HZ / FULL_HZ);
    return hann_rise(1 - x);
}

static void cut_pre_ringing(double *real, size_t size, int max)
{
    for (size_t i = 0; i <= size / 2; i++) {
        double keep = hann_rise(2 - 2 * (double)i / (max + 1));
        real[i] *= keep;
        if (i > 0 && i < size / 2) real[size - i] *= keep;
    }
}

void excess_phase_reverse(const struct transform *t, double complex *bins, int max, int rate, double complex *scratch)
{
    size_t half = t->size / 2;
    memcpy(scratch, bins, (half + 1) * sizeof *scratch);
    magnitude_minimum_phase(t, MIN_MAGNITUDE, scratch);
    for (size_t k = 0; k <= half; k++) bins[k] = unit(conj(bins[k]) * scratch[k]);
    bins[0] = creal(bins[0]) < 0 ? -1 : 1;
    bins[half] = 1;
    transform_inverse(t, bins);
    cut_pre_ringing((double *)bins, t->size, max);
    transform_forward(t, bins);
    for (size_t k = 0; k <= half; k++) {
        double share = share_reversed((double)k * rate / (double)t->size);
        bins[k] = 1 + share * (bins[k] - 1);
    }
}

void excess_phase_apply(const struct transform *t, const double complex *reversed, int delay, double complex *bins)
{
    size_t half = t->size / 2;
    for (size_t k = 0; k <= half; k++) bins[k] /= fmax(cabs(reversed[k]), 0.5);
    magnitude_minimum_phase(t, MIN_MAGNITUDE, bins);
    for (size_t k = 0; k <= half; k++) bins[k] *= reversed[k];
    transform_delay(t, bins, delay);
}
