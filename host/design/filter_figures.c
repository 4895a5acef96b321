#include "filter_figures.h"

#include "dsp/signal/transform.h"
#include "host/json_print.h"
#include "host/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the measurement ---------------------------------------------------------------------------- */

/* Steps from one bin towards another while the response rises, or falls. Returns the last bin. */
static size_t find_extremum(const double complex *bins, size_t from, size_t to, bool rises)
{
    while (from != to) {
        size_t next = from < to ? from + 1 : from - 1;
        double step = bin_power(bins[next]) - bin_power(bins[from]);
        if (rises ? step <= 0 : step >= 0) break;
        from = next;
    }
    return from;
}

static void measure_band(struct filter_figures *f, const double complex *bins, size_t from, size_t to, bool passes)
{
    double min = INFINITY, max = 0;
    for (size_t bin = from; bin <= to; bin++) {
        double power = bin_power(bins[bin]);
        min = fmin(min, power);
        max = fmax(max, power);
    }
    if (passes)
        f->ripple_db = fmax(f->ripple_db, fmax(fabs(10 * log10(min)), fabs(10 * log10(max))));
    else
        f->attenuation_db = fmin(f->attenuation_db, 0 - 10 * log10(max));
}

static void measure_bands(struct filter_figures *f, const double complex *bins, size_t last_bin, double hz,
                          const double *edges_hz, int n_edges, bool first_passes)
{
    size_t last = 0;
    for (int i = 0; i <= n_edges; i++) {
        size_t from = last, to = i < n_edges ? (size_t)lrint(edges_hz[i] / hz) : last_bin;
        bool passes = first_passes == (i % 2 == 0);
        last = to;
        if (from == to) continue; /* a Hilbert transformer's edges are 0 and half the rate */
        size_t start = i > 0 ? find_extremum(bins, from, to, passes) : from,
               end = i < n_edges ? find_extremum(bins, to, from, passes) : to;
        bool is_transition = start >= end;
        struct filter_band *band = &f->band[f->n_bands++];
        *band = (struct filter_band){passes, is_transition, (double)start * hz, (double)end * hz};
        if (is_transition) {
            band->from_hz = i > 0 ? edges_hz[i - 1] : 0;
            band->to_hz = i < n_edges ? edges_hz[i] : (double)last_bin * hz;
        } else {
            measure_band(f, bins, start, end, passes);
        }
    }
}

bool filter_measure(struct filter_figures *f, const float *h, int n, int rate, const double *edges_hz, int n_edges,
                    bool first_passes)
{
    struct transform t;
    *f = (struct filter_figures){.ripple_db = NAN, .attenuation_db = NAN};
    /* With 32 bins for each lobe of the response, the narrowest lobe is at most 0.03 dB above its highest bin. */
    if (!transform_open(&t, transform_size((size_t)n * (n <= 1 << 16 ? 32 : n <= 1 << 20 ? 8 : 2)))) return false;
    double complex *bins = malloc((t.size / 2 + 1) * sizeof *bins);
    if (bins) {
        transform_response_float(&t, h, (size_t)n, bins);
        measure_bands(f, bins, t.size / 2, (double)rate / (double)t.size, edges_hz, n_edges, first_passes);
    }
    bool good = bins != NULL;
    free(bins);
    transform_close(&t);
    return good;
}

/* ---- the report --------------------------------------------------------------------------------- */

/* Writes "0.01 dB from 0 to 800 Hz and from 4200 to 24000 Hz" */
static void write_bands(const struct filter_figures *f, bool passes, char *text, size_t cap)
{
    const char *between = "";
    size_t used = strlen(text);
    for (int i = 0; i < f->n_bands; i++) {
        if (f->band[i].passes != passes || f->band[i].is_transition) continue;
        used += (size_t)snprintf(text + used, cap - used, "%s from %.0f to %.0f Hz", between, f->band[i].from_hz,
                                 f->band[i].to_hz);
        between = " and";
    }
}

void filter_figures_print(const struct filter_figures *f, const char *path)
{
    char ripple[256] = "", attenuation[256] = "";
    if (!isnan(f->ripple_db)) {
        snprintf(ripple, sizeof ripple, "ripple %.2g dB", f->ripple_db);
        write_bands(f, true, ripple, sizeof ripple);
    }
    if (!isnan(f->attenuation_db)) {
        snprintf(attenuation, sizeof attenuation, "%sattenuation %.1f dB", *ripple ? "; " : "", f->attenuation_db);
        write_bands(f, false, attenuation, sizeof attenuation);
    }
    if (f->n_bands && (*ripple || *attenuation)) message_note("%s: %s%s", path, ripple, attenuation);
    for (int i = 0; i < f->n_bands; i++)
        if (f->band[i].is_transition)
            message_note("%s: the %s band from %.0f to %.0f Hz is all transition; use more taps", path,
                         f->band[i].passes ? "pass" : "stop", f->band[i].from_hz, f->band[i].to_hz);
}

/* Makes a list of the measured pass or stop bands, or of all bands that were not measured. */
static json_t *bands_json(const struct filter_figures *f, bool passes, bool is_transition)
{
    json_t *all = json_array();
    for (int i = 0; i < f->n_bands; i++)
        if (f->band[i].is_transition == is_transition && (is_transition || f->band[i].passes == passes))
            json_array_append_new(all, json_pack("[f, f]", f->band[i].from_hz, f->band[i].to_hz));
    return all;
}

void filter_figures_json(const struct filter_figures *f, json_t *object)
{
    json_object_set_new(object, "ripple_db", json_number(f->ripple_db));
    json_object_set_new(object, "pass_hz", bands_json(f, true, false));
    json_object_set_new(object, "attenuation_db", json_number(f->attenuation_db));
    json_object_set_new(object, "stop_hz", bands_json(f, false, false));
    json_object_set_new(object, "transition_hz", bands_json(f, false, true));
}
