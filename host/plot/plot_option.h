/* plot_option - the options of a command that draws: --plot, --panels, --smooth. */
#ifndef PLOT_OPTION_H
#define PLOT_OPTION_H

#include "host/option.h"
#include "plot.h"

struct plot_choice {
    const char *path;       /* NULL: no plot                 */
    unsigned panels;        /* as in plot_settings           */
    double octaves;
};
#define PLOT_CHOICE_USUAL {.octaves = 1 / 24.0}

option_take plot_option_path;   /* const char * */
option_take plot_option_panels; /* unsigned     */
option_take plot_option_smooth; /* double       */

/* The rows, for a struct plot_choice in the command's settings. */
#define PLOT_OPTIONS(type, field)                                                                                      \
    {"plot", 0, "FILE", "Draw the responses: FILE.svg, or FILE.png if the build has Cairo", plot_option_path,          \
     OPTION_TO(type, field.path)},                                                                                     \
    {"panels", 0, "NAME,...",                                                                                          \
     "Panels of the plot: impulse, impulse-db, step, magnitude, phase, group-delay, decay, spectrogram, or all "       \
     "[impulse, step, magnitude, phase and group-delay for filters; impulse-db, magnitude, decay and spectrogram for " \
     "rooms]",                                                                                                         \
     plot_option_panels, OPTION_TO(type, field.panels)},                                                               \
    {"smooth", 0, "1/N|off",                                                                                           \
     "Smooth magnitude, phase and group delay over this part of an octave, N from 1 to 48 [1/24]",                     \
     plot_option_smooth, OPTION_TO(type, field.octaves)}

#endif
