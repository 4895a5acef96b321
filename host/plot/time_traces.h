/* time_traces - a response, its level and its running sum over time. */
#ifndef PLOT_TIME_TRACES_H
#define PLOT_TIME_TRACES_H

#include "axis.h"
#include "plot.h"
#include "trace.h"

/* Returns the frame of the largest sample. */
int largest_frame(const struct plot_curve *curve);

/* Finds the first and the last sample within `db` (negative) of the largest: *first, and *end, one behind the last. A
 * silent curve is whole. */
void audible_frames(const struct plot_curve *curve, double db, int *first, int *end);

/* Traces a curve. kind: PLOT_IMPULSE, PLOT_IMPULSE_DB or PLOT_STEP. x: seconds. The response is silent before its first
 * and behind its last frame. */
void time_trace(const struct plot_curve *curve, enum plot_panel kind, const struct axis *x, struct trace *trace);

#endif
