/* recursive_filter - recursive filters, and the FIR filters that they become: second-order sections of equalisers
 * (biquads), and filters that a difference equation of any order defines.
 *
 *   H(z) = (b0 + b1 z^-1 + b2 z^-2) / (1 + a1 z^-1 + a2 z^-2)
 *   y[n] = b[0] x[n] + ... + b[n_b - 1] x[n - n_b + 1] - a[1] y[n - 1] - ... - a[n_a - 1] y[n - n_a + 1]
 *
 * The formulas of sections are those of R. Bristow-Johnson's "Cookbook formulae for audio EQ biquad filter coefficients".
 */
#ifndef HALOCONV_RECURSIVE_FILTER_H
#define HALOCONV_RECURSIVE_FILTER_H

#include <complex.h>
#include <stdbool.h>

enum biquad_kind {
    BIQUAD_LOWPASS, BIQUAD_HIGHPASS, BIQUAD_BANDPASS, BIQUAD_NOTCH, BIQUAD_ALLPASS, /* bandpass: peak gain 0 dB */
    BIQUAD_PEAK, BIQUAD_LOWSHELF, BIQUAD_HIGHSHELF,
    /* These are of first order and do not use q: */
    BIQUAD_LOWPASS_1, BIQUAD_HIGHPASS_1, BIQUAD_ALLPASS_1, BIQUAD_LOWSHELF_1, BIQUAD_HIGHSHELF_1
};

struct biquad {
    double b0, b1, b2, a1, a2;
};

/* Makes a section. 0 < hz < rate / 2; q > 0; only a peak and shelves use gain_db. */
struct biquad biquad_make(enum biquad_kind kind, int rate, double hz, double gain_db, double q);

/* Returns the q of a shelf with slope 0 < s <= 1. */
double biquad_q_of_slope(double gain_db, double slope);
/* Returns the q of a bandwidth in octaves, as the bilinear transform warps it. The band of a peak ends at half its gain
 * in dB; the band of a bandpass or notch at -3 dB. */
double biquad_q_of_bandwidth(int rate, double hz, double octaves);

/* Returns the q of a pair of poles of a Butterworth filter: pair 0 to order / 2 - 1. An odd order also has a
 * first-order section. */
double biquad_butterworth_q(int order, int pair);

/* Makes a notch whose poles and zeros have different frequencies. The gain is 0 dB at 0 Hz, or at half the rate. */
struct biquad biquad_general_notch(int rate, double hz_zeros, double hz_poles, double q_poles, bool is_unity_at_dc);

/* Makes S. Linkwitz's transform, which changes the frequency and q of a closed loudspeaker, a second-order high pass.
 * The bilinear transform is warped such that the response is exact at the mean of the two frequencies. */
struct biquad biquad_linkwitz_transform(int rate, double hz_from, double q_from, double hz_to, double q_to);

bool biquad_is_stable(const struct biquad *biquad);

/* Returns the response at a frequency. */
double complex biquad_response(const struct biquad *biquad, int rate, double hz);

/* Filters x[n] in place, from rest. */
void biquad_run(const struct biquad *biquad, double *x, int n);

/* Computes the response of n_biquads stable sections in series, 1 to `max` taps, cut where the energy of the rest is
 * below error_db relative to the whole. *taps: [returned length], from malloc. *rest_db: the energy of the rest
 * relative to the whole, or -INFINITY. Returns the number of taps; 0: no memory. */
int biquad_taps(const struct biquad *biquads, int n_biquads, double error_db, int max, double **taps,
                double *rest_db);

/* Makes the filters of ITU-R BS.1770-4, by which loudness is measured: a shelf of +4 dB, then a high-pass. Below 4000 Hz
 * those for 4000 Hz: the shelf must lie below half the rate. */
void k_weighting(int rate, struct biquad filters[2]);

/* ---- any order ---- */

enum { RECURSION_ORDER = 256 }; /* max. order, n_a - 1, of a recursion: rounding spoils higher ones */

/* Are all poles inside the unit circle? Yes if all reflection coefficients of the step-down recursion are below 1. */
bool recursion_is_stable(const double *a, int n_a);

/* Computes the response of a stable recursion and cuts it as biquad_taps does; n_a >= 1, n_b >= 1. 0: no memory. */
int recursion_taps(const double *b, int n_b, const double *a, int n_a, double error_db, int max, double **taps,
                   double *rest_db);

/* ---- taps ---- */

/* Returns the smallest length, 1 to `max`, of h[n] such that the energy of the rest is at most rest_db below the whole.
 * *cut_db (cut_db may be NULL): the energy of the rest relative to the whole; -INFINITY: the rest is silent. */
int response_cut(const double *h, int n, double rest_db, int max, double *cut_db);

#endif
