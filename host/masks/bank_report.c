#include "bank_report.h"

#include "host/json_print.h"
#include "host/message.h"
#include "host/plot/plot_masks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct distance_range {
    double low, high;
};

struct ranges {
    struct distance_range azimuth, elevation, distance; /* degrees, degrees, metres */
};

static void range_extend(struct distance_range *range, double value)
{
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
}

void bank_report_direction(const float position[3], double aed[3])
{
    double x = (double)position[0], y = (double)position[1], z = (double)position[2], across = hypot(x, y);
    aed[0] = atan2(y, x) * (180 / M_PI);
    aed[1] = atan2(z, across) * (180 / M_PI);
    aed[2] = hypot(across, z);
}

static struct ranges find_ranges(const hc_bank_data *bank)
{
    const struct distance_range none = {INFINITY, -INFINITY};
    struct ranges ranges = {none, none, none};
    for (int e = 0; e < bank->n_entries; e++) {
        double aed[3];
        bank_report_direction(bank->position[e], aed);
        range_extend(&ranges.azimuth, aed[0]);
        range_extend(&ranges.elevation, aed[1]);
        range_extend(&ranges.distance, aed[2]);
    }
    return ranges;
}

static double bank_megabytes(const hc_bank_data *bank)
{
    return (double)bank->n_entries * bank->n_out * bank->n_taps * sizeof(float) / 1e6;
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void print_range(const char *name, const struct distance_range *range, const char *unit)
{
    printf("  %-16s %.2f to %.2f %s\n", name, range->low, range->high, unit);
}

void bank_report_print(const char *path, const hc_bank_data *bank)
{
    printf("%s: bank of %d entr%s, to %d output%s, %d tap%s", path, bank->n_entries, bank->n_entries == 1 ? "y" : "ies",
           bank->n_out, message_s(bank->n_out), bank->n_taps, message_s(bank->n_taps));
    if (bank->rate) printf(" (%.2f ms at %d Hz)", 1000.0 * bank->n_taps / bank->rate, bank->rate);
    printf(", %.1f MB\n", bank_megabytes(bank));
    for (const char *line = bank->notes; *line;) {
        int length = 0;
        while (line[length] && line[length] != '\n') length++;
        printf("  %.*s\n", length, line);
        line += length + (line[length] == '\n');
    }
    if (bank->position) {
        struct ranges ranges = find_ranges(bank);
        print_range("azimuth", &ranges.azimuth, "degrees");
        print_range("elevation", &ranges.elevation, "degrees");
        print_range("distance", &ranges.distance, "m");
    } else {
        printf("  no positions: sources play entries by number\n");
    }
    printf("  %-16s %s for a sine, over all entries and outputs\n", "largest gain",
           message_gain((double)bank->gain_db, 2).text);
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */

static json_t *range_json(const struct distance_range *range)
{
    return json_pack("[o, o]", json_number(range->low), json_number(range->high));
}

static json_t *positions_json(const hc_bank_data *bank)
{
    if (!bank->position) return json_null();
    struct ranges ranges = find_ranges(bank);
    return json_pack("{s:o, s:o, s:o}", "azimuth_deg", range_json(&ranges.azimuth), "elevation_deg",
                     range_json(&ranges.elevation), "distance_m", range_json(&ranges.distance));
}

json_t *bank_report_json(const char *path, const hc_bank_data *bank)
{
    return json_pack("{s:o, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "file", json_text(path), "entries",
                     bank->n_entries, "file_entries", bank->n_file_entries, "outputs", bank->n_out, "taps",
                     bank->n_taps, "rate", json_known(bank->rate), "file_rate", json_known(bank->file_rate), "seconds",
                     json_number(bank->rate ? (double)bank->n_taps / bank->rate : NAN), "positions",
                     positions_json(bank), "largest_response_db", json_number((double)bank->gain_db), "notes",
                     json_text(bank->notes));
}

/* ---- entries ---------------------------------------------------------------------------------- */

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
