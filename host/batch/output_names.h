/* output_names - the names of a batch's outputs: below its folder, each only once. */
#ifndef OUTPUT_NAMES_H
#define OUTPUT_NAMES_H

#include "manifest.h"

/* Keeps the name without empty components and ".", so that two names of one file are equal. NULL = no memory. */
const char *output_keep(struct manifest *manifest, const char *output);

bool output_is_journal(const char *output);
bool output_stays_below(const char *output); /* the folder of the outputs */

/* Gives the rows without an output name one, with the row's number in it if it would not be unique. Two rows that name
 * the same output are an error. extension: NULL = the input's. false: why has the reason. */
bool name_outputs(struct manifest *manifest, const char *extension, char *why, size_t cap);

#endif
