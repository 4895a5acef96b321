/* plot_masks - the responses of masks and configurations as curves of a plot. */
#ifndef PLOT_MASKS_H
#define PLOT_MASKS_H

#include "plot.h"
#include "host/option.h"

#include <stdbool.h>
#include <stddef.h>

/* ---- options ---------------------------------------------------------------------------------- */

struct plot_pairs {         /* responses of a configuration, chosen by channel pairs, from 0 */
    int n;                  /* 0: all of them, up to PLOT_MAX_CURVES */
    struct plot_pair {
        int in, out;
    } pair[PLOT_MAX_CURVES];
};

struct plot_choice {
    const char *path;       /* NULL: no plot */
    struct plot_settings settings;
    struct plot_pairs pairs;
    bool by_channel;        /* panels for each channel or pair, with the curves of all masks */
};
#define PLOT_CHOICE_USUAL {.settings.octaves = 1 / 24.0}

option_read plot_option_path;   /* const char *                      */
option_read plot_option_panels; /* unsigned                          */
option_read plot_option_smooth; /* double                            */
option_read plot_option_pairs;  /* struct plot_pairs, from "1:1,1:2" */
option_read plot_option_range;  /* double[2], LOW,HIGH in dB         */
option_read plot_option_frequencies; /* double[2], LOW,HIGH in Hz    */

/* Rows for a struct plot_choice in the command's settings; text: what is drawn. */
#define PLOT_FILE_OPTIONS(type, field, text)                                                                           \
    {"plot", 0, "FILE", "Draw " text ", as SVG", plot_option_path, OPTION_TO(type, field.path)},                                 \
    {"range", 0, "LOW,HIGH", "Levels of the plot's magnitude in dB [50 dB around the mean]", plot_option_range,        \
     OPTION_TO(type, field.settings.range_db)},                                                                        \
    {"frequencies", 0, "LOW,HIGH", "Frequencies of the plot in Hz [20,20000]", plot_option_frequencies,                \
     OPTION_TO(type, field.settings.range_hz)}
#define PLOT_OPTIONS(type, field)                                                                                      \
    PLOT_FILE_OPTIONS(type, field, "the responses"),                                                                   \
    {"by-channel", 0, NULL, "Draw panels for each channel, with the curves of all masks", option_flag,                 \
     OPTION_TO(type, field.by_channel)},                                                                               \
    {"panels", 0, "NAME,...",                                                                                          \
     "Panels of the plot: impulse, impulse-db, step, magnitude, phase, group-delay, decay, spectrogram, "              \
     "waterfall, or all (without waterfall) "                                                                          \
     "[impulse, step, magnitude, phase and group-delay for filters; impulse-db, magnitude, decay and spectrogram for " \
     "rooms]",                                                                                                         \
     plot_option_panels, OPTION_TO(type, field.settings.panels)},                                                      \
    {"smooth", 0, "1/N|off",                                                                                           \
     "Smooth magnitude, phase and group delay over this fraction of an octave, N from 1 to 48 [1/24]",                 \
     plot_option_smooth, OPTION_TO(type, field.settings.octaves)}

/* ---- masks ------------------------------------------------------------------------------------ */

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
