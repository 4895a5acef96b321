/* output_names - the names of a batch's outputs: below its folder, each only once. */
#ifndef OUTPUT_NAMES_H
#define OUTPUT_NAMES_H

#include "manifest.h"

/* Keeps the name without empty components and ".", so that two names of one file are equal. NULL = no memory. */
const char *output_keep(struct manifest *manifest, const char *output);

bool output_is_journal(const char *output);
bool output_stays_below(const char *output); /* is it below the folder of the outputs? */

/* Names the outputs of the rows without a name; a name that is not unique gets the number of the row. Two rows that
 * name the same output are an error. extension: NULL = the input's. false: why has the reason. */
bool name_outputs(struct manifest *manifest, const char *extension, char *why, size_t cap);

#endif
