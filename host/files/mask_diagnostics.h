/* mask_diagnostics - prints the errors and warnings of the reader of configurations, or makes JSON of them. */
#ifndef MASK_DIAGNOSTICS_H
#define MASK_DIAGNOSTICS_H

#include "dsp/haloconv_masks.h"

#include <jansson.h>

/* Prints the first ten, a line each, and points to `haloconv check` for the others. */
void mask_diagnostics_print(const hc_responses *mask, const char *path);

/* Prints all that the reader kept. */
void mask_diagnostics_print_all(const hc_responses *mask);

/* Prints all, then the error line of a mask that cannot be loaded; returns EXIT_FAILED. */
int mask_diagnostics_fail(const hc_responses *mask, const char *path, const char *why);

/* Returns an array that the caller owns. */
json_t *mask_diagnostics_json(const hc_responses *mask);

#endif
