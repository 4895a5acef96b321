#include "design_report.h"

#include "dsp/haloconv_masks.h"
#include "dsp/signal/transform.h"
#include "host/json_print.h"
#include "host/message.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ripple and attenuation ------------------------------------------------------------------- */

/* Ripple and attenuation of a filter, measured on its taps.
 *
 * A band begins where the response has left the transition: a pass band at the first maximum beside a cutoff, a stop
 * band at the first minimum.
 */

enum { FILTER_MAX_EDGES = 2 };

struct filter_figures {
    int n_bands; /* 0: not measured                                          */
    struct filter_band {
        bool passes;
        bool is_transition; /* no extremum between the edges: the transition fills the band */
        double from_hz, to_hz;
    } band[FILTER_MAX_EDGES + 1];
    double ripple_db;      /* largest distance from a gain of 1 in the pass bands; NaN: no pass band  */
    double attenuation_db; /* smallest attenuation in the stop bands; NaN: no stop band */
};

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

/* Measures h[n]. edges_hz: the cutoffs, between which pass bands and stop bands alternate; the first band, from 0 Hz
 * on, passes or not. false: no memory. */
static bool filter_measure(struct filter_figures *f, const float *h, int n, int rate, const double *edges_hz,
                           int n_edges, bool first_passes)
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

/* Prints "PATH: ripple 0.02 dB from 0 to 7000 Hz; attenuation 60.1 dB from 9000 to 24000 Hz". */
static void filter_figures_print(const struct filter_figures *f, const char *path)
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

/* Adds ripple_db, attenuation_db, pass_hz, stop_hz and transition_hz (bands without ripple or attenuation); null: not
 * measured. */
static void filter_figures_json(const struct filter_figures *f, json_t *object)
{
    json_object_set_new(object, "ripple_db", json_number(f->ripple_db));
    json_object_set_new(object, "pass_hz", bands_json(f, true, false));
    json_object_set_new(object, "attenuation_db", json_number(f->attenuation_db));
    json_object_set_new(object, "stop_hz", bands_json(f, false, false));
    json_object_set_new(object, "transition_hz", bands_json(f, false, true));
}

/* ---- the report ------------------------------------------------------------------------------- */

const char *const design_kind_names[KINDS] = {"lowpass", "highpass", "bandpass", "bandstop", "hilbert", "room"};

int design_predelay(const struct design_settings *s)
{
    return (int)lrint(s->predelay_ms * 1e-3 * s->rate);
}

/* Measures the written file, whose format may have rounded the taps; or the taps, if the file cannot be read again. */
static bool mask_measure(const struct design_settings *s, const struct design *design, struct filter_figures *figures)
{
    bool is_hilbert = s->kind == KIND_HILBERT, first_passes = s->kind == KIND_LOWPASS || s->kind == KIND_BANDSTOP;
    const double ends[FILTER_MAX_EDGES] = {0, 0.5 * s->rate}, *edges = is_hilbert ? ends : s->cutoff_hz;
    int n_edges = is_hilbert ? FILTER_MAX_EDGES : s->n_cutoffs;
    hc_responses file = {0};
    bool is_file = strcmp(s->output, "-") != 0 && hc_responses_load(s->output, 0, 0, 0, &file, NULL, 0) == HC_OK;
    float *made = is_file ? NULL : malloc((size_t)design->n_frames * sizeof *made);
    for (int i = 0; made && i < design->n_frames; i++) made[i] = (float)design->h[i];
    const float *taps = is_file ? file.channel[0] : made;
    int n = is_file ? file.n_frames : design->n_frames;
    *figures = (struct filter_figures){.ripple_db = NAN, .attenuation_db = NAN};
    bool good = taps && filter_measure(figures, taps, n, s->rate, edges, n_edges, first_passes);
    free(made);
    hc_responses_free(&file);
    return good;
}

static double delay_frames(const struct design_settings *s, const struct design *design)
{
    return s->kind == KIND_ROOM ? design_predelay(s) : 0.5 * (design->n_frames - 1);
}

static void print_summary(const struct design_settings *s, const struct design *design,
                          const struct filter_figures *figures)
{
    char made[128] = "";
    double delay = delay_frames(s, design);
    if (s->kind == KIND_ROOM)
        snprintf(made, sizeof made, "%d channel%s, 60 dB in %g s; seed %d", s->channels, message_s(s->channels),
                 s->rt60_s, s->seed);
    else if (isnan(design->beta))
        snprintf(made, sizeof made, "window %s", fir_window_names[s->window]);
    else
        snprintf(made, sizeof made, "window kaiser, beta %.3g", design->beta);
    message_note("%s: %s, %d tap%s at %d Hz, delay %.10g frames (%.2f ms); %s", s->output, design_kind_names[s->kind],
                 design->n_frames, message_s(design->n_frames), s->rate, delay, 1e3 * delay / s->rate, made);
    filter_figures_print(figures, s->output);
}

static int design_print_json(const struct design_settings *s, const struct design *design,
                             const struct filter_figures *figures)
{
    json_t *all = json_pack("{s:s, s:i, s:i, s:i, s:f, s:o}", "kind", design_kind_names[s->kind], "rate", s->rate,
                            "channels", design->n_channels, "taps", design->n_frames, "delay", delay_frames(s, design),
                            "beta", isnan(design->beta) ? json_null() : json_real(design->beta));
    if (s->kind == KIND_ROOM) {
        json_object_set_new(all, "rt60", json_real(s->rt60_s));
        json_object_set_new(all, "predelay", json_integer(design_predelay(s)));
        json_object_set_new(all, "seed", json_integer(s->seed));
    } else {
        json_object_set_new(all, "window", json_string(fir_window_names[s->window]));
        filter_figures_json(figures, all);
    }
    if (s->n_cutoffs) {
        json_t *cutoffs = json_array();
        for (int i = 0; i < s->n_cutoffs; i++) json_array_append_new(cutoffs, json_real(s->cutoff_hz[i]));
        json_object_set_new(all, "cutoff", cutoffs);
    }
    return json_print(all, 12, s->output);
}

int design_report(const struct design_settings *s, const struct design *design)
{
    struct filter_figures figures = {0};
    if (s->kind != KIND_ROOM && (s->json || !message_is_quiet()) && !mask_measure(s, design, &figures))
        return message_error("%s: no memory to measure the filter, which is written; free some memory", s->output);
    print_summary(s, design, &figures);
    return s->json ? design_print_json(s, design, &figures) : 0;
}
