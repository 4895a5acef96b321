/* plot_masks - the responses of masks and configurations as curves of a plot. */
#ifndef PLOT_MASKS_H
#define PLOT_MASKS_H

#include "plot_option.h"

struct plot_pairs {         /* responses of a configuration, chosen by their channels, from 0 */
    int n;                  /* 0: all of them, as far as there is place */
    struct plot_pair {
        int in, out;
    } pair[PLOT_MOST_CURVES];
};

option_take plot_option_pairs; /* struct plot_pairs: "1:1,1:2" */

#define PLOT_PAIRS_OPTION(to)                                                                                          \
    {"pair", 0, "IN:OUT,...", "Responses of a configuration to plot, by input and output [the first 16]",              \
     plot_option_pairs, to}

/* Draws the masks of n paths: each channel of a sound file or text, each pair of a configuration. The first
 * PLOT_MOST_CURVES are drawn, and a message says how many are left out. rate: to resample to, and of a text; 0: the
 * file's. false: why has the reason. */
bool plot_masks(char *const *paths, int n, int rate, const struct plot_choice *choice, const struct plot_pairs *pairs,
                char *why, size_t cap);

#endif
