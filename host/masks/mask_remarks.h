/* mask_remarks - what a configuration's reader has to say. */
#ifndef MASK_REMARKS_H
#define MASK_REMARKS_H

#include "dsp/haloconv_masks.h"

#include <jansson.h>

/* On standard error, a line each. A session says the first few and where the others are; all of them are `check`'s. */
void mask_remarks_print(const hc_responses *mask, const char *path);
void mask_remarks_print_all(const hc_responses *mask);
json_t *mask_remarks_json(const hc_responses *mask);

/* A text that need not be UTF-8, NULL is null. */
json_t *mask_text_json(const char *text);

#endif
