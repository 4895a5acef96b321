#include "waterfall.h"

#include "dsp/signal/hann.h"
#include "frequency_traces.h"
#include "time_traces.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLICES = 31, PEAK_HEIGHT = 140 }; /* PEAK_HEIGHT: units from the base to the top of a slice */

struct waterfall {
    const struct diagram *panel;
    const struct plot_curve *curve;
    double octaves, low_db, high_db;
    struct axis times; /* seconds after the largest sample, at the bases of the slices */
    int largest;       /* frame of the largest sample */
    int n_frames;
    float *left; /* [n_frames]: the response without the sound before a slice */
};

/* Sets the times up to the end of the decay, at 50 dB below the energy at the start. */
static void set_slice_times(struct waterfall *w)
{
    const double share = 1e-5, min_frames = 16;
    double all = 0, left = 0;
    int end = w->n_frames;
    for (int i = 0; i < w->n_frames; i++) all += (double)w->curve->h[i] * (double)w->curve->h[i];
    while (end > w->largest && left <= share * all) {
        end--;
        left += (double)w->curve->h[end] * (double)w->curve->h[end];
    }
    double seconds = fmax(end + 1 - w->largest, min_frames) / w->curve->rate;
    w->times = (struct axis){
        .from = 0, .to = seconds, .start = w->panel->y.end + PEAK_HEIGHT, .end = w->panel->y.start, .in_ms = true};
    axis_choose_step(&w->times, 5);
}

/* Traces the magnitude of the rest of the response after a time. false: no memory. */
static bool trace_slice(struct waterfall *w, double seconds, struct trace *trace)
{
    double fade = w->times.to / 10 * w->curve->rate, from = w->largest + seconds * w->curve->rate - fade;
    for (int i = 0; i < w->n_frames; i++)
        w->left[i] = seconds > 0 ? w->curve->h[i] * (float)hann_rise((i - from) / fade) : w->curve->h[i];
    struct plot_curve left = {.rate = w->curve->rate, .n_frames = w->n_frames, .h = w->left};
    return frequency_traces(&left, &w->panel->x, w->octaves, trace, NULL, NULL) && !trace->failed;
}

/* Sets the levels; without a given range, the top is the highest value of the first slice. */
static void set_slice_levels(struct waterfall *w, const struct trace *trace, const double range_db[2])
{
    const double span_db = 50;
    bool is_given = range_db[0] < range_db[1];
    double highest = -INFINITY;
    for (size_t i = 0; i < trace->n; i++)
        if (trace->points[i].x >= w->panel->x.start && trace->points[i].x <= w->panel->x.end)
            highest = fmax(highest, trace->points[i].y); /* fmax ignores NAN */
    if (!isfinite(highest)) highest = 0;                 /* silence */
    w->high_db = is_given ? range_db[1] : highest;
    w->low_db = is_given ? range_db[0] : highest - span_db;
}

/* Paints a slice over the slices behind it. */
static bool draw_slice(struct drawing *d, const struct waterfall *w, double seconds, const struct trace *trace)
{
    const uint32_t light = 0xf2f6fa;
    double base = axis_position(&w->times, seconds), unit = PEAK_HEIGHT / (w->high_db - w->low_db);
    struct point *points = malloc((trace->n + 2) * sizeof *points);
    char name[32];
    if (!points) return false;
    for (size_t i = 0; i < trace->n; i++) {
        points[i] = trace->points[i];
        points[i].y = base - unit * (fmax(points[i].y, w->low_db) - w->low_db); /* a gap, NAN, is at the base */
    }
    size_t n = trace->n;
    if (n > 0) {
        points[n] = (struct point){points[n - 1].x, base};
        points[n + 1] = (struct point){points[0].x, base};
        snprintf(name, sizeof name, "%.4g ms", 1000 * seconds);
        drawing_path(d, (struct ink){.rgb = light}, NULL, points, n + 2);
        drawing_path(d, (struct ink){.rgb = panel_ink(w->curve->ink).rgb, .width = 1.1}, name, points, n);
    }
    free(points);
    return true;
}

static bool draw_slices(struct drawing *d, struct waterfall *w, const double range_db[2])
{
    bool good = true;
    for (int i = 0; good && i < SLICES; i++) {
        struct trace trace = {0};
        double seconds = w->times.to * i / (SLICES - 1);
        good = trace_slice(w, seconds, &trace);
        if (good && i == 0) set_slice_levels(w, &trace, range_db);
        good = good && draw_slice(d, w, seconds, &trace);
        trace_free(&trace);
    }
    return good;
}

bool waterfall_draw(struct drawing *d, struct diagram *p, const struct plot_curve *curve,
                    const struct plot_settings *settings)
{
    struct waterfall w = {.panel = p, .curve = curve, .octaves = settings->octaves, .largest = largest_frame(curve)};
    char scale[48];
    w.n_frames = curve->n_frames < WATERFALL_MAX_FRAMES ? curve->n_frames : WATERFALL_MAX_FRAMES;
    if (w.largest >= w.n_frames) w.largest = w.n_frames - 1;
    w.left = malloc((size_t)w.n_frames * sizeof *w.left);
    if (!w.left) return false;
    set_slice_times(&w);
    panel_draw_grid(d, p);
    panel_clip(d, p);
    bool good = draw_slices(d, &w, settings->range_db);
    panel_clip_end(d);
    panel_draw_frame(d, p);
    panel_draw_y_labels(d, &w.times);
    snprintf(scale, sizeof scale, "height %g dB", w.high_db - w.low_db);
    drawing_text(d, PANEL_RIGHT, p->y.start + 52, TEXT_SIZE, TEXT_END, INFINITY, scale);
    free(w.left);
    return good;
}
