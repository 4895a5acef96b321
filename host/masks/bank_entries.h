/* bank_entries - the entries of a bank one by one, for `haloconv info`: position, onset and level; and their
 * picture. */
#ifndef BANK_ENTRIES_H
#define BANK_ENTRIES_H

#include "dsp/haloconv_scenes.h"

#include <jansson.h>
#include <stdbool.h>

/* A line for each entry, with the onset and level of the first outputs. */
void bank_entries_print(const hc_bank_data *bank);

/* An array that the caller owns, with all outputs; NULL: no memory. */
json_t *bank_entries_json(const hc_bank_data *bank);

/* Draws the directions of the entries. false: why has the reason. */
bool bank_entries_plot(const char *path, const char *name, const hc_bank_data *bank, char *why, size_t cap);

#endif
