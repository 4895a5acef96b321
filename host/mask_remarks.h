/* mask_remarks - what a configuration's reader has to say. */
#ifndef MASK_REMARKS_H
#define MASK_REMARKS_H

#include "dsp/haloconv.h"

#include <jansson.h>

/* All of it on standard error, a line each. */
void mask_remarks_print(const hc_responses *mask);
json_t *mask_remarks_json(const hc_responses *mask);

/* A text that need not be UTF-8, NULL is null. */
json_t *mask_text_json(const char *text);

#endif
