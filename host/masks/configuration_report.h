/* configuration_report - the matrix of a configuration, for `haloconv info`. */
#ifndef CONFIGURATION_REPORT_H
#define CONFIGURATION_REPORT_H

#include "headroom.h"
#include "dsp/haloconv_masks.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- banks and sources ------------------------------------------------------------------------ */

/* The banks and sources of a configuration: reads each bank, and prints its figures. */

struct bank_figures {
    int n_entries, n_out, n_taps, rate, file_rate;
    bool has_positions;
    double gain_db; /* gain as in hc_bank_data */
};

struct source_report {
    const hc_responses *mask;
    struct bank_figures *banks; /* [mask->n_banks] */
};

/* Reads the banks. rate: that of the session; 0: that of the configuration, else that of each file. false: a bank
 * cannot be played; `why` has the reason. */
bool source_report_make(struct source_report *report, const hc_responses *mask, int rate, char *why, size_t cap);
void source_report_free(struct source_report *report);

/* ---- the matrix ------------------------------------------------------------------------------- */

void configuration_report_print(const char *path, const hc_responses *mask, const struct headroom *headroom,
                                const struct source_report *banks);

/* Makes an object that the caller owns; NULL: no memory. */
json_t *configuration_report_json(const char *path, const hc_responses *mask, const struct headroom *headroom,
                                  const struct source_report *banks);

#endif
