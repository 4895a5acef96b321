/* design_report - reports the result of `haloconv design`, as lines for people and as JSON. */
#ifndef DESIGN_REPORT_H
#define DESIGN_REPORT_H

#include "fir_design.h"
#include "host/plot/plot_masks.h"

enum design_kind { KIND_LOWPASS, KIND_HIGHPASS, KIND_BANDPASS, KIND_BANDSTOP, KIND_HILBERT, KIND_ROOM, KINDS };
extern const char *const design_kind_names[KINDS];

struct design_settings {
    struct option_names names; /* KIND */
    enum design_kind kind;
    const char *output;
    int format, rate;
    bool json;
    int n_cutoffs, taps; /* 0: not given */
    double cutoff_hz[2];
    double transition_hz, attenuation_db; /* 0: not given */
    double beta;                          /* NaN: not given */
    int window;                           /* enum fir_window; -1: not given */
    double rt60_s, length_s, predelay_ms;
    int channels;
    int seed;
    struct plot_choice plot;
};

struct design {
    int n_channels, n_frames;
    double *h;   /* [n_channels][n_frames] */
    double beta; /* beta of the Kaiser window; NaN for other windows */
};

/* The predelay of a room in frames. */
int design_predelay(const struct design_settings *settings);

/* Reports a mask that was written to settings->output. Returns the exit status. */
int design_report(const struct design_settings *settings, const struct design *design);

#endif
