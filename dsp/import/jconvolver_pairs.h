/* configuration_pairs - the response of each pair of an input and an output, as the commands of a configuration build
 * it up.
 *
 *   pair   an input and an output; it plays the sum of its terms, or it is linked to another pair (/impulse/copy)
 *   term   taps, a gain and a delay
 *
 * Terms point at shared taps: a million pairs may play the same segment of a file. Only a pair with several terms gets
 * memory of its own, for their sum. At the end every pair with data becomes one route.
 */
#ifndef HALOCONV_CONFIGURATION_PAIRS_H
#define HALOCONV_CONFIGURATION_PAIRS_H

#include "configuration.h"

struct pairs {
    struct configuration *c;
    struct pair *pairs;      /* [c->n_in][c->n_out]                        */
    struct term *terms;      /* [n_terms], a linked list for each pair     */
    int n_terms;
    size_t terms_cap;
    int64_t n_added;         /* frames of all terms that are added to a pair with data */
};

/* false: no memory. */
bool pairs_open(struct pairs *pairs, struct configuration *c);
void pairs_free(struct pairs *pairs);

/* Adds a term with the gain of `impulse` to a pair. If the pair is linked, adds a warning instead. */
void pairs_add(struct pairs *pairs, const struct impulse *impulse, int in, int out, const float *taps, int n_taps,
               int delay);

/* Links a pair to another, as an /impulse/copy says. is_complete: no data is missing because of an error. */
void pairs_link(struct pairs *pairs, const struct impulse *copy, bool is_complete);

/* Makes the routes in the arena, and fills in n_frames, n_distinct and distinct_frames. */
void pairs_routes(struct pairs *pairs, hc_responses *responses);

#endif
