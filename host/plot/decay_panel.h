/* decay_panel - the decay of a response's energy, and the lines whose slopes are EDT, T20 and T30. */
#ifndef PLOT_DECAY_PANEL_H
#define PLOT_DECAY_PANEL_H

#include "dsp/signal/acoustics.h"
#include "panel.h"

struct decay_lines {                            /* the lines of one curve */
    int ink;                                    /* ink of the curve */
    double start_s;                             /* where the response starts; the lines count from there */
    struct decay_fit fit[ACOUSTIC_TIMES];
    double seconds[ACOUSTIC_TIMES];             /* EDT, T20, T30; NaN: absent */
};

/* Adds the points in dB, and finds the lines. Silence has neither. x: seconds. false: no memory. */
bool decay_trace(const struct plot_curve *curve, const struct axis *x, struct trace *trace, struct decay_lines *lines);

/* Draws the lines of n curves with their times: EDT, T20 and T30 of one curve; T30, or
 * else T20, of the first eight of several curves that have one. */
void decay_draw_lines(struct drawing *drawing, const struct diagram *panel, const struct decay_lines *const *lines,
                      int n);

#endif
