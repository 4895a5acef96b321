#include "bank_entries.h"

#include "bank_report.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/plot/directions_plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PRINTED_OUTPUTS = 4 };

/* Returns the onset of a response in milliseconds; NaN: silence, or no memory. */
static double onset_ms(const hc_bank_data *bank, int entry, int out)
{
    double frame = NAN;
    if (hc_bank_onset(bank, entry, out, &frame) != HC_OK) return NAN;
    return 1000 * frame / (bank->rate ? bank->rate : 48000);
}

/* Returns the energy of a response in dB; a single tap of 1 has 0 dB. */
static double level_db(const hc_bank_data *bank, int entry, int out)
{
    const float *taps = bank->taps[entry * bank->n_out + out];
    double energy = 0;
    for (int k = 0; k < bank->n_taps; k++) energy += (double)taps[k] * (double)taps[k];
    return energy > 0 ? 10 * log10(energy) : -INFINITY;
}

static void print_response(int indent, double onset, double db)
{
    char text[16] = "-";
    if (!isnan(onset)) snprintf(text, sizeof text, "%.3f", onset);
    printf("   %*s %8s %8s", indent, "", text, message_db(db, 2, "").text);
}

void bank_entries_print(const hc_bank_data *bank)
{
    int n_out = bank->n_out < PRINTED_OUTPUTS ? bank->n_out : PRINTED_OUTPUTS;
    printf("  %6s", "entry");
    if (bank->position) printf(" %10s %10s %10s", "azimuth", "elevation", "distance");
    for (int out = 0; out < n_out; out++) printf("   out %d: %8s %8s", out + 1, "onset ms", "dB");
    if (n_out < bank->n_out) printf("   (JSON has all %d outputs)", bank->n_out);
    printf("\n");
    for (int e = 0; e < bank->n_entries; e++) {
        double aed[3];
        printf("  %6d", e);
        if (bank->position) {
            bank_report_direction(bank->position[e], aed);
            printf(" %10.2f %10.2f %10.3f", aed[0], aed[1], aed[2]);
        }
        for (int out = 0; out < n_out; out++)
            print_response(out < 9 ? 6 : 7, onset_ms(bank, e, out), level_db(bank, e, out));
        printf("\n");
    }
}

static json_t *values_json(const hc_bank_data *bank, int entry, double value(const hc_bank_data *, int, int))
{
    json_t *values = json_array();
    for (int out = 0; values && out < bank->n_out; out++)
        json_array_append_new(values, json_number(value(bank, entry, out)));
    return values;
}

json_t *bank_entries_json(const hc_bank_data *bank)
{
    json_t *entries = json_array();
    for (int e = 0; entries && e < bank->n_entries; e++) {
        double aed[3] = {NAN, NAN, NAN}; /* null */
        if (bank->position) bank_report_direction(bank->position[e], aed);
        json_array_append_new(entries, json_pack("{s:o, s:o, s:o, s:o, s:o}", "azimuth_deg", json_number(aed[0]),
                                                 "elevation_deg", json_number(aed[1]), "distance_m",
                                                 json_number(aed[2]), "onset_ms", values_json(bank, e, onset_ms),
                                                 "level_db", values_json(bank, e, level_db)));
    }
    return entries;
}

bool bank_entries_plot(const char *path, const char *name, const hc_bank_data *bank, char *why, size_t cap)
{
    double(*aed)[3] = malloc((size_t)bank->n_entries * sizeof *aed);
    if (!aed) return message_write(why, cap, "%s: no memory; free some memory", path);
    for (int e = 0; e < bank->n_entries; e++) bank_report_direction(bank->position[e], aed[e]);
    bool good =
        directions_plot_write(path, name, (const double(*)[3])aed, bank->n_entries, bank->n_file_entries, why, cap);
    free(aed);
    return good;
}
