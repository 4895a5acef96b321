/* filter_figures - ripple and attenuation of a filter, measured on its taps.
 *
 * A band begins where the response has left the transition: a pass band at the first maximum beside a cutoff, a stop
 * band at the first minimum.
 */
#ifndef FILTER_FIGURES_H
#define FILTER_FIGURES_H

#include <jansson.h>
#include <stdbool.h>

enum { FILTER_MAX_EDGES = 2 };

struct filter_figures {
    int n_bands;             /* 0: not measured                                          */
    struct filter_band {
        bool passes;
        bool is_transition;  /* no extremum between the edges: the transition fills the band */
        double from_hz, to_hz;
    } band[FILTER_MAX_EDGES + 1];
    double ripple_db;        /* largest distance from a gain of 1 in the pass bands; NaN: no pass band  */
    double attenuation_db;   /* smallest attenuation in the stop bands; NaN: no stop band */
};

/* Measures h[n]. edges_hz: the cutoffs, between which pass bands and stop bands alternate; the first band, from 0 Hz
 * on, passes or not. false: no memory. */
bool filter_measure(struct filter_figures *figures, const float *h, int n, int rate, const double *edges_hz,
                    int n_edges, bool first_passes);

/* Prints "PATH: ripple 0.02 dB from 0 to 7000 Hz; attenuation 60.1 dB from 9000 to 24000 Hz". */
void filter_figures_print(const struct filter_figures *figures, const char *path);

/* Adds ripple_db, attenuation_db, pass_hz, stop_hz and transition_hz (bands without ripple or attenuation); null: not
 * measured. */
void filter_figures_json(const struct filter_figures *figures, json_t *object);

#endif
