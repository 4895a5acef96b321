#include "onset.h"

#include "dsp/base/error.h"
#include "dsp/signal/transform.h"

#include <math.h>
#include <stdlib.h>

enum {
    UPSAMPLING = 8,
    BEHIND_PEAK = 128, /* so many frames behind the largest sample affect the low-passed peak */
    AROUND = 128,      /* frames of silence into which the low-pass spreads                         */
};
static const double low_pass_hz = 3000, threshold = 0.1;

/* Computes the low-passed, upsampled section x[size * UPSAMPLING]. Only the ratios of the values count. */
static void low_pass(const struct transform *fine, double complex *bins, size_t size, double cutoff)
{
    for (size_t k = 0; k <= size / 2; k++) {
        double f = (double)k / (double)size / cutoff;
        bins[k] *= exp(-0.5 * M_LN2 * f * f);
    }
    for (size_t k = size / 2 + 1; k <= fine->size / 2; k++) bins[k] = 0;
    transform_inverse(fine, bins);
}

static double first_above(const double *x, size_t size, size_t n)
{
    double peak = 0, before = 0;
    for (size_t i = 0; i < size; i++) peak = fmax(peak, fabs(x[i]));
    size_t around = (size_t)AROUND * UPSAMPLING;
    for (size_t i = 0; i < n + around; i++) { /* frames before the response are at the end of x */
        double now = fabs(x[(i + size - around) % size]), limit = threshold * peak;
        if (now >= limit) {
            double share = now > before ? (limit - before) / (now - before) : 0;
            return ((double)i - (double)around - 1 + share) / UPSAMPLING;
        }
        before = now;
    }
    return NAN;
}

int onset_find(const float *taps, int n_taps, int rate, double *onset)
{
    int peak = 0;
    for (int i = 1; i < n_taps; i++)
        if (fabsf(taps[i]) > fabsf(taps[peak])) peak = i;
    *onset = NAN;
    if (!(fabsf(taps[peak]) > 0)) return HC_OK;
    int n = n_taps - peak > BEHIND_PEAK ? peak + BEHIND_PEAK : n_taps;
    struct transform coarse, fine;
    size_t size = transform_size((size_t)n + (size_t)2 * AROUND);
    if (!transform_open(&coarse, size)) return HC_ENOMEM;
    if (!transform_open(&fine, size * UPSAMPLING)) {
        transform_close(&coarse);
        return HC_ENOMEM;
    }
    double complex *bins = malloc((fine.size / 2 + 1) * sizeof *bins);
    if (bins) {
        transform_response_float(&coarse, taps, (size_t)n, bins);
        low_pass(&fine, bins, size, low_pass_hz / (rate ? rate : 48000));
        *onset = first_above((const double *)bins, fine.size, (size_t)n * UPSAMPLING);
    }
    free(bins);
    transform_close(&fine);
    transform_close(&coarse);
    return bins ? HC_OK : HC_ENOMEM;
}
