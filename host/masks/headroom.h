/* headroom - the largest gain that a mask gives to sines, and the --gain that keeps them below full scale. */
#ifndef HEADROOM_H
#define HEADROOM_H

#include "dsp/haloconv_masks.h"
#include "dsp/signal/sine_gain.h"

#include <jansson.h>

/* Computes gains[n_out]: for each output the largest sum, over its inputs, of the magnitudes of the responses; 0 for an
 * output without routes. false: no memory. */
bool headroom_find(const hc_route *routes, int n_routes, int n_out, struct sine_gain *gains);

/* The figures of a configuration. */
struct headroom {
    struct sine_gain *outputs;  /* [n_out] */
    int loudest;                /* output with the largest gain */
};

/* Computes the figures. false: no memory; free them then, too. */
bool headroom_make(struct headroom *headroom, const hc_responses *configuration);
void headroom_free(struct headroom *headroom);

/* Returns the suggested gain in whole dB: 0 or below. */
int headroom_gain_db(double largest_gain);

/* Prints "largest gain +7.9 dB (WHERE, 120 Hz): use --gain -8". rate: Hz, 0 = unknown. */
void headroom_print(const struct sine_gain *largest, int rate, const char *where);

/* Makes an object that the caller owns: response_peak_db, response_peak_hz, suggested_gain_db. */
json_t *headroom_json(const struct sine_gain *largest, int rate);

#endif
