/* correction_report - reports the effect of a correction, as lines for people and as JSON. */
#ifndef CORRECTION_REPORT_H
#define CORRECTION_REPORT_H

#include "correction.h"

#include <jansson.h>

/* Rows that several commands have; to is OPTION_TO(...): with option_word of a const char *, with option_choice of an
 * enum of correction.h. */
#define CORRECTION_LEVELS_OPTION(read, to, default_text)                                                               \
    {"levels", 0, "each|keep|align",                                                                                   \
     "Levels of several channels: each: every filter has a mean gain of 0 dB; keep: the differences in the band that " \
     "all channels share stay as measured; align: all are as loud there as the quietest [" default_text "]", read, to}
#define CORRECTION_DELAYS_OPTION(read, to)                                                                             \
    {"delays", 0, "keep|align",                                                                                        \
     "Arrivals of several channels: keep them, or delay the filters such that all direct sounds arrive with the last " \
     "one [keep]", read, to}

/* Prints lines about the filters, which are in the file `path`. */
void correction_print(const struct correction *correction, const struct correction_settings *settings,
                      const char *path);

/* An object that the caller owns. */
json_t *correction_json(const struct correction *correction, const struct correction_settings *settings);

#endif
