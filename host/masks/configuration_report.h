/* configuration_report - the matrix of a configuration, for `haloconv info`. */
#ifndef CONFIGURATION_REPORT_H
#define CONFIGURATION_REPORT_H

#include "source_report.h"
#include "dsp/haloconv_masks.h"
#include "headroom.h"

#include <jansson.h>

void configuration_report_print(const char *path, const hc_responses *mask, const struct headroom *headroom,
                                const struct source_report *banks);

/* Makes an object that the caller owns; NULL: no memory. */
json_t *configuration_report_json(const char *path, const hc_responses *mask, const struct headroom *headroom,
                                  const struct source_report *banks);

#endif
