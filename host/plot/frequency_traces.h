/* frequency_traces - magnitude, phase and group delay of a response. */
#ifndef PLOT_FREQUENCY_TRACES_H
#define PLOT_FREQUENCY_TRACES_H

#include "axis.h"
#include "plot.h"
#include "trace.h"

/* Adds the points (dB, degrees, ms) to those of the three traces that are not NULL; a power has only a magnitude. x:
 * Hz. false: no memory. */
bool frequency_traces(const struct plot_curve *curve, const struct axis *x, double octaves, struct trace *magnitude,
                      struct trace *phase, struct trace *group_delay);

#endif
