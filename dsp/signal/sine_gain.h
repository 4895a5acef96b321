/* sine_gain - the largest gain that responses give to a sine, over all frequencies.
 *
 * The responses of several inputs to one output add up. In the worst case each input has a sine with the phase at which
 * all add in phase: the gain at a frequency is the sum of the magnitudes |H|.
 *
 *   bins        a transform of at least twice the length n of the longest response
 *   intervals   8 points between two bins, if the sum there could exceed the sums at all bins
 *   parts       8 more points between two of these points, if the sum there could exceed the sums at all points
 *
 * The bound: at its maximum M the sum equals the real part of sum H e^(i phase), with constant phases and each response
 * shifted to its middle. This real part is a function of exponential type n / 2 and nowhere above M. It therefore
 * falls no faster than a cosine (M. Riesz, Jahresber. DMV 23, 1914; the lemma behind Bernstein's inequality): at a
 * distance d from the maximum the sum is at least M cos(d n / 2). All points together are 128 n or more a period, so
 * the largest is at most 0.0007 dB below M.
 *
 * The values between bins are interpolated with a windowed sinc over 20 bins; its error is below 1e-6 M (J. Knab, IEEE
 * Trans. Inf. Theory 25, 1979).
 */
#ifndef HALOCONV_SINE_GAIN_H
#define HALOCONV_SINE_GAIN_H

#include <stdbool.h>

struct sine_gain_part {
    const float *taps;    /* [n_taps], finite                                     */
    int n_taps;           /* at least 1                                           */
    double gain;          /* linear; its sign makes no difference                 */
};

struct sine_gain {
    double gain;          /* linear, exact to 0.001 dB; 0: all taps are 0         */
    double frequency;     /* where `gain` is reached: a share of the rate, 0-0.5  */
};

/* Returns false if there is no memory. */
bool sine_gain_find(const struct sine_gain_part *parts, int n_parts, struct sine_gain *result);

#endif
