/* plot - draws impulse responses: panels one below the other, with the same colours and line styles in all of them. */
#ifndef PLOT_H
#define PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum plot_panel {           /* in the order in which they are drawn */
    PLOT_IMPULSE,           /* amplitude over time                                                   */
    PLOT_IMPULSE_DB,        /* level over time                                                       */
    PLOT_STEP,              /* the running sum of the response                                       */
    PLOT_MAGNITUDE,
    PLOT_PHASE,             /* wrapped, without the delay up to the largest sample; where the magnitude is within
                               60 dB of the largest                                                  */
    PLOT_GROUP_DELAY,       /* includes the delay that the phase lacks; shown where the phase is     */
    PLOT_DECAY,             /* backward integral of the energy, and the lines of EDT, T20 and T30    */
    PLOT_SPECTROGRAM,       /* a panel for each curve                                                */
    PLOT_WATERFALL,         /* a panel for each curve: cumulative spectral decay                     */
    PLOT_PANELS
};
extern const char *const plot_panel_names[PLOT_PANELS]; /* "impulse", "impulse-db", ... */

enum { PLOT_MAX_CURVES = 16 }; /* max. in a panel: so many differ by colour and line style */

struct plot_curve {
    const char *name;       /* name in the legend, any bytes                                         */
    int rate;               /* Hz, 1 or more                                                         */
    int n_frames;           /* 1 or more                                                             */
    const float *h;         /* [n_frames], finite                                                    */
    const double *power;    /* instead of h, at n_bins frequencies from 0 to half the rate, smoothed; 0: a gap.
                               For the panel PLOT_MAGNITUDE alone                                    */
    size_t n_bins;          /* 2 or more                                                             */
    const char *group;      /* "output 1": each group has separate panels. NULL: one panel for all */
    int ink;                /* colour and line style: 0 to PLOT_MAX_CURVES - 1. Curves of two groups that have one
                               ink have one name, too                                                */
};

struct plot_settings {
    unsigned panels;        /* bits 1 << PLOT_...; 0: the panels that suit a filter, or a room       */
    double octaves;         /* width of the smoothing of panels over frequency; 0: none              */
    double range_db[2];     /* range of magnitudes; equal: 50 dB around the mean of the values      */
    double range_hz[2];     /* range of frequencies, the upper at least twice the lower; equal: 20 to 20000,
                               and to half the rate in a spectrogram                                 */
    FILE *to;               /* gets the picture as SVG, and no file is made; NULL: a file            */
};

/* Draws n >= 1 curves. The file gets its name only when it is complete; the same curves give the same
 * bytes as SVG. false: why has the reason. */
bool plot_write(const char *path, const struct plot_curve *curves, int n, const struct plot_settings *settings,
                char *why, size_t cap);

struct plot_powers {        /* smoothed powers over frequency, as struct plot_curve has them                 */
    const char *const *names; /* [n_names], in the legend: "measured"                                */
    int n_names;
    const char *group;      /* name of a group: "loudspeaker"                                        */
    int n_groups;
    const double *power;    /* [n_groups][n_names][n_bins]                                           */
    size_t n_bins;
    int rate;               /* Hz                                                                    */
    double octaves;         /* width of the smoothing                                                */
};

/* Draws a panel of magnitudes for each group. settings: only the ranges are used. false: why has the reason. */
bool plot_powers(const char *path, const struct plot_powers *powers, const struct plot_settings *settings, char *why,
                 size_t cap);

#endif
