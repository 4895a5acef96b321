/* crossover - filters that cut a signal into bands which add up to it again.
 *
 *   types    Linkwitz-Riley   each filter is the square of a Butterworth filter (S. H. Linkwitz, J. Audio Eng. Soc.
 *                             24(1), 1976). Low-pass and high-pass add up to an all-pass; every band runs through the
 *                             all-passes of the cutoffs that do not cut it, so that all bands add up to one, too
 *            linear           the same magnitudes with linear phase; the bands add up to a delay
 *            steep            linear-phase low-passes by a Kaiser window; the bands add up to a delay
 *
 *   linear phase: rest = delay; for each cutoff: band = low-pass * rest, rest = rest - band; the last band is the rest
 */
#ifndef CROSSOVER_H
#define CROSSOVER_H

#include <complex.h>
#include <stdbool.h>

enum { CROSSOVER_MAX_CUTOFFS = 15 };
enum crossover_type { CROSSOVER_LINKWITZ_RILEY, CROSSOVER_LINEAR, CROSSOVER_STEEP };

struct crossover {
    enum crossover_type type;
    int rate, order;               /* order: 2, 4 or 8, times 6 dB an octave; not for steep                 */
    int n_cutoffs;
    double cutoff_hz[CROSSOVER_MAX_CUTOFFS]; /* rising                                                      */
    double error_db;               /* energy cut off a filter, relative to the whole; not for steep        */
    double attenuation_db;         /* only for steep: attenuation of the stop bands                         */
    double transition_hz;          /* only for steep; 0: half of each cutoff                                */

    int n_ways, n_frames;          /* made: the filters h[n_ways][n_frames], from malloc                    */
    double *h;
    int delay;                     /* delay of linear phase, frames                                         */
};

struct crossover_figures {         /* measured on the taps as floats                                        */
    double error;                  /* largest distance from the exact response, at any frequency; of steep: the
                                      largest gain in a stop band                                           */
    double sum_db;                 /* largest distance of the sum's magnitude from 0 dB                     */
};

/* For steep, two functions return the width in Hz from pass band to stop band, and the taps of the low-pass, at most
 * INT_MAX. */
double crossover_transition(const struct crossover *crossover, int cutoff);
int crossover_steep_taps(const struct crossover *crossover, int cutoff);

/* Makes the filters. false: no memory; h is NULL then. */
bool crossover_make(struct crossover *crossover);

/* Measures the filters. false: no memory. */
bool crossover_measure(const struct crossover *crossover, struct crossover_figures *figures);

#endif
