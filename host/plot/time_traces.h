/* time_traces - a response, its level, its running sum and the decay of its energy over time. */
#ifndef PLOT_TIME_TRACES_H
#define PLOT_TIME_TRACES_H

#include "axis.h"
#include "plot.h"
#include "trace.h"

/* The frame of the largest sample. */
int largest_frame(const struct plot_curve *curve);

/* The frames from the first to the last sample within `db` (negative) of the largest -> first, end (one behind). Of
 * silence: the whole. */
void audible_frames(const struct plot_curve *curve, double db, int *first, int *end);

/* kind: PLOT_IMPULSE, PLOT_IMPULSE_DB, PLOT_STEP or PLOT_DECAY. x: seconds. The response is silent before its first and
 * behind its last frame. */
void time_trace(const struct plot_curve *curve, enum plot_panel kind, const struct axis *x, struct trace *trace);

#endif
