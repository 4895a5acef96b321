#include "alignment.h"

#include "dsp/base/error.h"
#include "dsp/signal/hann.h"
#include "dsp/signal/transform.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* ---- the onset --------------------------------------------------------------------------------------------------- */

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

/* ---- a delay ----------------------------------------------------------------------------------------------------- */

enum { TILE = 256 };

/* Computes taps[64] for a delay of HALF - 1 + fraction frames, 0 < fraction < 1. */
static void sinc_make(double fraction, double *taps)
{
    const double beta = 10, half = FRACTIONAL_DELAY_HALF, peak = bessel_i0(beta);
    double sum = 0;
    for (int k = 0; k < 2 * FRACTIONAL_DELAY_HALF; k++) {
        double t = k - (half - 1) - fraction;
        double edge = 1 - (t / half) * (t / half);
        taps[k] = sin(M_PI * t) / (M_PI * t) * bessel_i0(beta * sqrt(edge > 0 ? edge : 0)) / peak;
        sum += taps[k];
    }
    for (int k = 0; k < 2 * FRACTIONAL_DELAY_HALF; k++) taps[k] /= sum; /* for a gain of 1 at 0 Hz */
}

/* Adds gain * in[i] to out[i + shift]. */
static void add_shifted(const float *in, size_t n_in, int64_t shift, double gain, float *out, size_t n_out)
{
    int64_t from = shift < 0 ? -shift : 0, to = (int64_t)n_in;
    if (to + shift > (int64_t)n_out) to = (int64_t)n_out - shift;
    for (int64_t i = from; i < to; i++) out[i + shift] += (float)(gain * (double)in[i]);
}

/* Adds gain * in[n] to sums[n]. */
static void add_product(double gain, const float *restrict in, int64_t n, double *restrict sums)
{
    for (int64_t i = 0; i < n; i++) sums[i] += gain * (double)in[i];
}

void fractional_delay_add(const float *in, size_t n_in, double frames, double gain, float *out, size_t n_out)
{
    double whole = floor(frames), fraction = frames - whole, sinc[2 * FRACTIONAL_DELAY_HALF];
    if (!(fraction > 1e-9)) {
        add_shifted(in, n_in, (int64_t)whole, gain, out, n_out);
        return;
    }
    if (!(fraction < 1 - 1e-9)) {
        add_shifted(in, n_in, (int64_t)whole + 1, gain, out, n_out);
        return;
    }
    sinc_make(fraction, sinc);
    int64_t first = (int64_t)whole - (FRACTIONAL_DELAY_HALF - 1), n = (int64_t)n_in;
    for (int64_t at = 0; at < (int64_t)n_out; at += TILE) {
        double sums[TILE] = {0}; /* in double, so that each frame is rounded once */
        int64_t end = at + TILE < (int64_t)n_out ? at + TILE : (int64_t)n_out;
        for (int64_t k = 0; k < (int64_t)2 * FRACTIONAL_DELAY_HALF; k++) {
            int64_t from = first + k > at ? first + k : at, to = first + k + n < end ? first + k + n : end;
            if (to > from) add_product(sinc[k], in + (from - first - k), to - from, sums + (from - at));
        }
        for (int64_t i = at; i < end; i++) out[i] += (float)(gain * sums[i - at]);
    }
}
