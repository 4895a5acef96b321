/* measure_run - measures through a sound card: opens it, checks the levels by a short and quiet sweep, then plays the
 * sweep on one output after the other. */
#ifndef MEASURE_RUN_H
#define MEASURE_RUN_H

#include "measurement.h"
#include "take.h"

/* Measures all pairs. filter: a mask that the sweep is played through, with a channel for each output or one for all;
 * NULL: none. take: outputs and inputs are those of sweep and settings. Completes `sweep` once the rate is known, and
 * sets the sweep and rate of `settings`. Shows the progress on the status line. false: why has the reason, also after
 * SIGINT. Free *m in either case. */
bool measure_run(struct take_settings take, struct sweep *sweep, const char *filter,
                 struct measurement_settings *settings, struct measurement *m, char *why, size_t cap);

#endif
