/* measure_report - the messages of `haloconv measure` about a measurement. */
#ifndef MEASURE_REPORT_H
#define MEASURE_REPORT_H

#include "measurement.h"

/* Prints the warnings on standard error: too loud, too quiet, clipped, not decayed. */
void measure_report_warn(const struct measurement_settings *settings, const struct measurement *m);

/* Prints the text or the JSON on standard output. path: the file that was written. Returns the exit status. */
int measure_report_json(const struct measurement_settings *settings, const struct measurement *m, const char *path);
void measure_report_print(const struct measurement_settings *settings, const struct measurement *m, const char *path);

#endif
