/* plot_masks - the responses of masks and configurations as curves of a plot. */
#ifndef PLOT_MASKS_H
#define PLOT_MASKS_H

#include "plot_option.h"

/* Is the picture none of the masks of n paths, nor a file that they name? false: why has the reason. */
bool plot_spares(const char *picture, char *const *paths, int n, char *why, size_t cap);

/* Draws the masks of n paths: each channel of a sound file or text, each pair of a configuration. The first
 * PLOT_MOST_CURVES are drawn, and a message says how many are left out. rate: to resample to, and of a text; 0: the
 * file's. false: why has the reason. */
bool plot_masks(char *const *paths, int n, int rate, const struct plot_choice *choice, char *why, size_t cap);

#endif
