/* plot_masks - the responses of masks and configurations as curves of a plot. */
#ifndef PLOT_MASKS_H
#define PLOT_MASKS_H

#include "plot_option.h"

#include <stdbool.h>
#include <stddef.h>

/* Checks the option --plot of a command that reads the files (or masks) of n paths and writes a mask. -1: the option
 * fits, or is absent; else a message was printed, and this is the exit status. */
int plot_check(const char *command, const struct plot_choice *choice, const char *output, char *const *inputs, int n);

/* Draws the mask that a command wrote if `status` is 0 and --plot was given. Returns the exit status. */
int plot_written(int status, const char *path, int rate, const struct plot_choice *choice);

/* Draws the masks of n paths: each channel of a sound file or text, each pair of a configuration. The first
 * PLOT_MAX_CURVES (by channel: 64) are drawn, and a message counts the others. rate: to resample to, and of a
 * text; 0: the file's. false: why has the reason. */
bool plot_masks(char *const *paths, int n, int rate, const struct plot_choice *choice, char *why, size_t cap);

/* ---- directions of a bank --------------------------------------------------------------------- */

/* aed[n]: azimuth (-180 to 180) and elevation in degrees, and distance; entries from n_of_file on were interpolated.
 * name: name of the bank, any bytes. The file gets its name only when it is complete. false: why has the reason. */
bool directions_plot_write(const char *path, const char *name, const double (*aed)[3], int n, int n_of_file, char *why,
                           size_t cap);

#endif
