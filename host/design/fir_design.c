#include "fir_design.h"

#include "dsp/signal/hann.h"

#include <math.h>
#include <string.h>

const char *const fir_window_names[FIR_WINDOWS] = {"rectangular", "hann",           "hamming",
                                                   "blackman",    "blackmanharris", "kaiser"};

double fir_kaiser_beta(double attenuation_db)
{
    if (attenuation_db > 50) return 0.1102 * (attenuation_db - 8.7);
    if (attenuation_db > 21) return 0.5842 * pow(attenuation_db - 21, 0.4) + 0.07886 * (attenuation_db - 21);
    return 0;
}

double fir_kaiser_length(double attenuation_db, double transition)
{
    return ceil((attenuation_db - 7.95) / 2.285 / (M_PI * transition) + 1);
}

static double cosine_sum(const double *a, int n_terms, double phase)
{
    double sum = 0;
    for (int k = 0; k < n_terms; k++) sum += a[k] * cos(k * phase);
    return sum;
}

void fir_window_fill(enum fir_window window, double beta, int n, double *w)
{
    static const double hann[] = {0.5, 0.5}, hamming[] = {0.54, 0.46}, blackman[] = {0.42, 0.5, 0.08},
                        blackmanharris[] = {0.35875, 0.48829, 0.14128, 0.01168};
    for (int i = 0; i < n; i++) {
        double phase =
            n > 1 ? M_PI * (2.0 * i / (n - 1) - 1) : 0; /* -pi to pi, so that all signs of the cosine sums are plus */
        double x = phase / M_PI;
        switch (window) {
        case FIR_HANN:
            w[i] = cosine_sum(hann, 2, phase);
            break;
        case FIR_HAMMING:
            w[i] = cosine_sum(hamming, 2, phase);
            break;
        case FIR_BLACKMAN:
            w[i] = cosine_sum(blackman, 3, phase);
            break;
        case FIR_BLACKMANHARRIS:
            w[i] = cosine_sum(blackmanharris, 4, phase);
            break;
        case FIR_KAISER:
            w[i] = bessel_i0(beta * sqrt(fmax(0, 1 - x * x))) / bessel_i0(beta);
            break;
        default:
            w[i] = 1;
        }
    }
}

static double sinc(double x)
{
    return x == 0 ? 1 : sin(M_PI * x) / (M_PI * x);
}

void fir_band_fill(enum fir_band band, const double *edges, const double *w, int n, double *h)
{
    double low[2] = {0, 0}, high[2] = {0, 0}; /* the pass bands */
    int n_bands = 1;
    if (band == FIR_LOWPASS) high[0] = edges[0];
    if (band == FIR_HIGHPASS) low[0] = edges[0], high[0] = 1;
    if (band == FIR_BANDPASS) low[0] = edges[0], high[0] = edges[1];
    if (band == FIR_BANDSTOP) high[0] = edges[0], low[1] = edges[1], high[1] = 1, n_bands = 2;
    double middle = low[0] == 0 ? 0 : high[0] == 1 ? 1 : (low[0] + high[0]) / 2, gain = 0;
    for (int i = 0; i < n; i++) {
        double at = i - 0.5 * (n - 1);
        h[i] = 0;
        for (int b = 0; b < n_bands; b++) h[i] += high[b] * sinc(high[b] * at) - low[b] * sinc(low[b] * at);
        h[i] *= w[i];
        gain += h[i] * cos(M_PI * at * middle);
    }
    for (int i = 0; i < n; i++) h[i] /= gain;
}

void fir_hilbert_fill(const double *w, int n, double *h)
{
    for (int i = 0; i < n; i++) {
        int at = i - n / 2;
        h[i] = at % 2 ? 2 / (M_PI * at) * w[i] : 0;
    }
}

/* ---- filters with given magnitudes ------------------------------------------------------------ */

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
