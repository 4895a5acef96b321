#include "design_report.h"

#include "dsp/haloconv_masks.h"
#include "filter_figures.h"
#include "host/json_print.h"
#include "host/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
