/* design_files - reads the files of the `haloconv design` commands: curves over frequency, the responses of a mask. */
#ifndef DESIGN_FILES_H
#define DESIGN_FILES_H

#include "dsp/haloconv_masks.h"
#include "dsp/signal/frequency_curve.h"
#include "host/masks/mask_write.h"
#include "host/option.h"
#include "host/plot/plot_masks.h"

#include <stdbool.h>

/* Reads a curve; path "-" is standard input. false: why has the reason, and nothing has to be freed. */
bool design_curve_read(struct frequency_curve *curve, const char *path, char *why, size_t cap);

/* Reads the responses of a sound file or a text, resampled to *rate. *rate 0: keeps the rate, 48000 Hz for a text, and
 * writes it to *rate. Prints warnings. false: why has the reason, and nothing has to be freed. */
bool design_mask_read(hc_responses *mask, const char *path, int *rate, char *why, size_t cap);

/* Checks that no channel of the mask is silent. Returns 0; after the error that the mask has no `what`, the exit
 * status. */
int design_silence_check(const hc_responses *mask, const char *path, const char *what);

/* The settings of a command that makes a mask of each response of a MASK, and their options. */
struct design_mask_settings {
    struct option_names names; /* MASK */
    const char *output;
    int format, rate;          /* rate 0: that of MASK */
    bool json;
    struct plot_choice plot;
};
extern const struct option_row design_mask_options[];

/* Runs such a command: options, the mask, make(), the plot. *settings begins with a struct design_mask_settings. make
 * writes the new mask; rate: that of the mask. Returns the exit status, as make does. */
int design_mask_run(const struct command_line *line, int argc, char **argv, void *settings,
                    int (*make)(void *settings, const hc_responses *mask, int rate));

/* Reads LOW,HIGH in Hz into a double[2]; HIGH >= 1. */
option_read option_band;

/* Is the band of an option below half the rate? -1: yes; else the exit status after a usage error. 0 is not a limit. */
int design_band_check(const char *command, const double *band_hz, int rate);

#endif
