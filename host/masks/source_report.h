/* source_report - the banks and sources of a configuration: reads each bank, and prints its figures. */
#ifndef SOURCE_REPORT_H
#define SOURCE_REPORT_H

#include "dsp/haloconv_masks.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

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

/* Prints lines of `info`; none without sources. */
void source_report_print(const struct source_report *report);
/* The two functions make the arrays "banks" and "sources"; empty without sources. */
json_t *source_report_banks_json(const struct source_report *report);
json_t *source_report_sources_json(const struct source_report *report);

#endif
