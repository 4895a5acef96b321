/* bank_entries - lists and draws the entries of a bank for `haloconv info`: position, onset and level. */
#ifndef BANK_ENTRIES_H
#define BANK_ENTRIES_H

#include "dsp/haloconv_scenes.h"

#include <jansson.h>
#include <stdbool.h>

/* Prints a line for each entry, with the onset and level of the first outputs. */
void bank_entries_print(const hc_bank_data *bank);

/* Makes an array that the caller owns, with all outputs; NULL: no memory. */
json_t *bank_entries_json(const hc_bank_data *bank);

/* Draws the directions of the entries. false: why has the reason. */
bool bank_entries_plot(const char *path, const char *name, const hc_bank_data *bank, char *why, size_t cap);

#endif
