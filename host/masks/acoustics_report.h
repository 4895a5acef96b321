/* acoustics_report - the acoustics of a response, as text and as JSON. */
#ifndef ACOUSTICS_REPORT_H
#define ACOUSTICS_REPORT_H

#include "dsp/signal/acoustics.h"

#include <jansson.h>

/* Prints T30 or why it is absent; for a room also the other figures, and a table by octave. */
void acoustics_report_print(const struct acoustics *acoustics);

/* Makes an object that the caller owns; NULL: no memory. rate: Hz, 0 = unknown. */
json_t *acoustics_report_json(const struct acoustics *acoustics, int rate);

#endif
