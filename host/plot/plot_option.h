/* plot_option - the options of a command that draws: --plot, --range and others. */
#ifndef PLOT_OPTION_H
#define PLOT_OPTION_H

#include "host/option.h"
#include "plot.h"

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

#endif
