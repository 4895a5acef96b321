#include "harmonics.h"

#include <math.h>
#include <string.h>

/* Returns the powers [size / 2 + 1] of the spectrum of n frames of h from frame `first` on, which may be negative
 * because h is periodic. The first and the last tenth fade. The powers overwrite the bins. */
static const double *window_powers(const struct sweep_analysis *a, const double *h, int64_t first, int64_t n,
                                   double complex *bins)
{
    int64_t size = (int64_t)a->transform.size;
    double *real = (double *)bins, fade = 0.1 * (double)n;
    memset(bins, 0, (a->transform.size / 2 + 1) * sizeof *bins);
    for (int64_t i = 0; i < n; i++) {
        double edge = fmin((double)i, (double)(n - i)) / fade;
        double gain = edge < 1 ? 0.5 - 0.5 * cos(M_PI * edge) : 1;
        real[i] = gain * h[((first + i) % size + size) % size];
    }
    transform_forward(&a->transform, bins);
    for (size_t k = 0; k <= a->transform.size / 2; k++) real[k] = bin_power(bins[k]);
    return real;
}

/* Measures the distortion of one order. noise: noise of a frame. */
static void measure_order(const struct sweep_analysis *a, int order, const double *linear_powers,
                          const double *order_powers, const double *noise, struct harmonic *harmonic)
{
    const double edge = exp2(1.0 / 6), lowest = 1000.0 / 1024; /* Hz: octaves below 1000 */
    double linear_sum = 0, order_sum = 0, noise_sum = 0;
    *harmonic = (struct harmonic){0};
    for (int third = 0;; third++) {
        double hz = lowest * exp2(third / 3.0);
        if (hz * edge * order > a->sweep->to_hz) break;
        if (hz < a->sweep->from_hz * edge) continue;
        double linear = sweep_band_power(a, linear_powers, hz);
        double distorted = sweep_band_power(a, order_powers, order * hz);
        linear_sum += linear;
        order_sum += distorted;
        noise_sum += sweep_band_power(a, noise, order * hz);
        if (third % 3 != 0 || harmonic->n_octaves == MAX_OCTAVES) continue;
        harmonic->octave[harmonic->n_octaves].hz = hz;
        harmonic->octave[harmonic->n_octaves++].share = sqrt(distorted / linear);
    }
    harmonic->share = sqrt(order_sum / linear_sum); /* NAN: the band is too narrow for this order */
    harmonic->noise = sqrt(noise_sum / linear_sum);
}

void harmonics_measure(const struct sweep_analysis *a, const double *h, int64_t direct, const double *noise,
                       struct harmonics_scratch *scratch, struct harmonic *harmonics)
{
    double growth = sweep_growth_s(a->sweep) * a->rate * a->stretch;
    int64_t n_linear = (int64_t)(a->rate * a->sweep->silence_s);
    const double *linear = window_powers(a, h, direct - a->reach, a->reach + n_linear, scratch->linear);
    for (int order = HARMONIC_FIRST; order <= HARMONIC_LAST; order++) {
        double at = (double)direct - growth * log(order);
        int64_t before = (int64_t)(0.25 * growth * log((order + 1.0) / order));
        int64_t behind = (int64_t)(0.75 * growth * log(order / (order - 1.0)));
        const double *powers = window_powers(a, h, (int64_t)at - before, before + behind, scratch->order);
        struct harmonic *harmonic = &harmonics[order - HARMONIC_FIRST];
        measure_order(a, order, linear, powers, noise, harmonic);
        harmonic->noise *= sqrt((double)(before + behind)); /* the noise of a frame, in the window */
    }
}
