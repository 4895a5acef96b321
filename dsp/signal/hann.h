/* hann - half a Hann window, the curve of fades; the function of a Kaiser window; the taps of a Hilbert transformer. */
#ifndef HALOCONV_HANN_H
#define HALOCONV_HANN_H

#include <math.h>

/* Returns a curve that rises from 0 at x <= 0 to 1 at x >= 1; hann_rise(1 - x) falls. */
static inline double hann_rise(double x)
{
    return 0.5 - 0.5 * cos(M_PI * fmin(fmax(x, 0), 1));
}

/* The modified Bessel function of the first kind and order 0, by its series; all terms are positive. */
static inline double bessel_i0(double x)
{
    double term = 1, sum = 1;
    for (int k = 1; term > sum * 1e-17; k++) {
        double factor = x / (2 * k);
        term *= factor * factor;
        sum += term;
    }
    return sum;
}

/* Returns a tap of a Hilbert transformer, as jconvolver and PipeWire window it: the tap k frames before the middle of
 * 2 * half frames, for odd k < half. The tap k frames behind the middle is its negative; taps at even k are 0. */
static inline double hilbert_tap(int k, int half)
{
    return 2 / (M_PI * k) * (0.43 + 0.57 * cos(k * M_PI / half));
}

#endif
