#include "fractional_delay.h"

#include "dsp/signal/hann.h"

#include <math.h>
#include <stdint.h>

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
