/* correction_report - says what a correction does: as lines for people, and as JSON. */
#ifndef CORRECTION_REPORT_H
#define CORRECTION_REPORT_H

#include "correction.h"

#include <jansson.h>

/* Prints lines about the filters, which are in the file `path`. */
void correction_print(const struct correction *correction, const struct correction_settings *settings,
                      const char *path);

/* An object that the caller owns. */
json_t *correction_json(const struct correction *correction, const struct correction_settings *settings);

#endif
