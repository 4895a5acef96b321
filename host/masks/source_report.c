#include "source_report.h"

#include "bank_report.h"
#include "dsp/haloconv_scenes.h"
#include "host/json_print.h"
#include "host/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SOURCES_SHOWN = 32 };

static bool figures_make(struct bank_figures *f, const char *path, int rate, int n_out, char *why, size_t cap)
{
    hc_bank_data bank = {.size = sizeof bank};
    if (hc_bank_load(path, rate, NULL, &bank, why, cap) != HC_OK) return false;
    *f = (struct bank_figures){.n_entries = bank.n_entries,
                               .n_out = bank.n_out,
                               .n_taps = bank.n_taps,
                               .rate = bank.rate,
                               .file_rate = bank.file_rate,
                               .has_positions = bank.position != NULL,
                               .gain_db = (double)bank.gain_db};
    hc_bank_data_free(&bank);
    return f->n_out <= n_out ||
           message_write(why, cap, "%s: is for %d output%s, but /convolver/new has %d; make both equal", path, f->n_out,
                         message_s(f->n_out), n_out);
}

bool source_report_make(struct source_report *report, const hc_responses *mask, int rate, char *why, size_t cap)
{
    *report = (struct source_report){.mask = mask};
    if (mask->n_banks == 0) return true;
    report->banks = calloc((size_t)mask->n_banks, sizeof *report->banks);
    if (!report->banks)
        return message_write(why, cap, "no memory for the figures of %d bank%s; free some memory", mask->n_banks,
                             message_s(mask->n_banks));
    for (int i = 0; i < mask->n_banks; i++)
        if (!figures_make(&report->banks[i], mask->banks[i], rate ? rate : mask->rate, mask->n_out, why, cap))
            return false;
    return true;
}

void source_report_free(struct source_report *report)
{
    free(report->banks);
    report->banks = NULL;
}

/* Rounds a coordinate: positions are floats, so more than four decimals are noise. */
static void source_direction_of(const hc_source *source, double aed[3])
{
    bank_report_direction(source->position, aed);
    for (int c = 0; c < 3; c++) aed[c] = round(1e4 * aed[c]) / 1e4;
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

void source_report_print(const struct source_report *report)
{
    const hc_responses *mask = report->mask;
    for (int i = 0; i < mask->n_banks; i++) {
        const struct bank_figures *f = &report->banks[i];
        printf("  %-16s %d: %s\n", i ? "" : "banks", i + 1, mask->banks[i]);
        printf("  %-16s    %d entr%s%s, %d output%s, %d frame%s", "", f->n_entries, f->n_entries == 1 ? "y" : "ies",
               f->has_positions ? "" : " without positions", f->n_out, message_s(f->n_out), f->n_taps,
               message_s(f->n_taps));
        if (f->rate) printf(" (%.2f ms at %d Hz)", 1000.0 * f->n_taps / f->rate, f->rate);
        printf(", largest gain %s\n", message_gain(f->gain_db, 2).text);
    }
    for (int i = 0; i < mask->n_sources && i < SOURCES_SHOWN; i++) {
        double aed[3];
        source_direction_of(&mask->sources[i], aed);
        printf("  %-16s input %d, bank %d, azimuth %.4g, elevation %.4g, distance %.4g m\n", i ? "" : "sources", i + 1,
               mask->sources[i].bank + 1, aed[0], aed[1], aed[2]);
    }
    if (mask->n_sources > SOURCES_SHOWN) printf("  %-16s ... (%d)\n", "", mask->n_sources);
}

json_t *source_report_banks_json(const struct source_report *report)
{
    json_t *all = json_array();
    for (int i = 0; i < report->mask->n_banks; i++) {
        const struct bank_figures *f = &report->banks[i];
        json_array_append_new(all, json_pack("{s:o, s:i, s:i, s:i, s:o, s:o, s:b, s:o}", "file",
                                             json_text(report->mask->banks[i]), "entries", f->n_entries, "outputs",
                                             f->n_out, "taps", f->n_taps, "rate", json_known(f->rate), "file_rate",
                                             json_known(f->file_rate), "positions", f->has_positions, "gain_db",
                                             isfinite(f->gain_db) ? json_real(f->gain_db) : json_null()));
    }
    return all;
}

json_t *source_report_sources_json(const struct source_report *report)
{
    json_t *all = json_array();
    for (int i = 0; i < report->mask->n_sources; i++) {
        const hc_source *source = &report->mask->sources[i];
        double aed[3];
        source_direction_of(source, aed);
        json_array_append_new(all, json_pack("{s:i, s:i, s:f, s:f, s:f}", "input", i + 1, "bank", source->bank + 1,
                                             "azimuth", aed[0], "elevation", aed[1], "distance", aed[2]));
    }
    return all;
}
