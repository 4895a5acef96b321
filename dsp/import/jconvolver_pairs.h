/* jconvolver_pairs - the response of each pair of an input and an output, as the commands of jconvolver add to it.
 *
 *   pair   an input and an output; it plays the sum of its responses, or is linked to another pair (/impulse/copy)
 *
 * Responses point at shared taps: a million pairs may play the same excerpt of a file. Only a pair with several
 * responses gets separate memory, for their sum. At the end each output is the sum of its pairs.
 */
#ifndef HALOCONV_JCONVOLVER_PAIRS_H
#define HALOCONV_JCONVOLVER_PAIRS_H

#include "network.h"

struct pairs {
    struct network *net;
    struct pair *pairs;      /* [n_in][n_out]; NULL: none yet */
    int n_in, n_out;
};

/* Makes pairs without data. false: the arena is short. */
bool pairs_open(struct pairs *pairs, int n_in, int n_out);
void pairs_free(struct pairs *pairs);

/* Adds a response with the gain of `at` to a pair. If the pair is linked, adds a warning instead. */
void pairs_add(struct pairs *pairs, const struct excerpt *at, int in, int out, const float *taps, int n_taps, int delay);

/* Links a pair to another. is_complete: no line was dropped for an error, so that missing data deserve a warning. */
void pairs_link(struct pairs *pairs, const struct excerpt *at, int in, int out, int from_in, int from_out,
                bool is_complete);

/* Sets the outputs of the network. */
void pairs_play(struct pairs *pairs);

#endif
