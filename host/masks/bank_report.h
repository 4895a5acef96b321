/* bank_report - the figures of a bank of responses, for `haloconv info` and `haloconv check`. */
#ifndef BANK_REPORT_H
#define BANK_REPORT_H

#include "dsp/haloconv_scenes.h"

#include <jansson.h>
#include <stdbool.h>

void bank_report_print(const char *path, const hc_bank_data *bank);

/* Makes an object that the caller owns; NULL: no memory. */
json_t *bank_report_json(const char *path, const hc_bank_data *bank);

/* Converts x, y, z to azimuth and elevation in degrees, and distance. */
void bank_report_direction(const float position[3], double aed[3]);

/* ---- entries ---------------------------------------------------------------------------------- */

/* Prints a line for each entry, with the onset and level of the first outputs. */
void bank_entries_print(const hc_bank_data *bank);

/* Makes an array that the caller owns, with all outputs; NULL: no memory. */
json_t *bank_entries_json(const hc_bank_data *bank);

/* Draws the directions of the entries. false: why has the reason. */
bool bank_entries_plot(const char *path, const char *name, const hc_bank_data *bank, char *why, size_t cap);

#endif
