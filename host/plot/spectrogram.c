/* Each row of the map is a band with the shape of a bell (Gauss), a sixth of an octave wide: a wavelet transform. Low
 * frequencies, where the modes of a room lie close together, are resolved well, and high ones are sharp in time. A
 * band's envelope is that of its analytic signal, moved down to 0 Hz: the transform back is as short as the band is
 * narrow. The gain is such that white noise, and so the tail of a room that decays evenly, has the same level in all
 * bands. */
#include "spectrogram.h"

#include "dsp/signal/hann.h"
#include "dsp/signal/transform.h"
#include "trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CELL = 2, /* units of the drawing */
    ROWS = PANEL_HEIGHT / CELL,
    COLUMNS = (PANEL_RIGHT - PANEL_LEFT) / CELL,
    LEVELS = 20,
    DB_PER_LEVEL = 3
};

/* The colours go from light to dark, so that silence stays white on paper, and a print in grey keeps the order. */
static uint32_t colour_of(int level) /* 0: the loudest */
{
    static const double anchors[][3] = {{20, 11, 53}, {116, 28, 110}, {210, 66, 72}, {249, 142, 50}, {255, 235, 190}};
    double at = 4.0 * level / (LEVELS - 1);
    int below = at < 3 ? (int)at : 3;
    uint32_t rgb = 0;
    for (int i = 0; i < 3; i++) {
        double share = at - below, value = anchors[below][i] * (1 - share) + anchors[below + 1][i] * share;
        rgb = rgb << 8 | (uint32_t)lround(value);
    }
    return rgb;
}

struct map {
    const struct diagram *panel;
    struct transform whole; /* transform of the response */
    double complex *bins;   /* [whole.size / 2 + 1] */
    double seconds;         /* period of the transform */
    double end_s;           /* behind this time the response is silent in all bands */
    double bin_hz;
    float *power; /* [ROWS][COLUMNS] */
};

/* Writes the bins of a band around hz to band[n / 2 + 1], with the lowest as bin 1. The factor n undoes the scale of
 * the inverse transform, whose length depends on the row. */
static void band_bins(const struct map *map, double hz, double sigma_hz, size_t first, double complex *band, size_t n)
{
    memset(band, 0, (n / 2 + 1) * sizeof *band);
    for (size_t i = 1; i < n / 2 && first + i <= map->whole.size / 2; i++) {
        double distance = ((double)(first + i) * map->bin_hz - hz) / sigma_hz;
        if (distance > 4) break;
        band[i] = map->bins[first + i] * (exp(-distance * distance / 2) / sqrt(sigma_hz) * (double)n);
    }
}

/* Adds the squares of the signal with these bins to power[t->size]. */
static void add_squares(const struct transform *t, double complex *band, double *power)
{
    transform_inverse(t, band);
    const double *signal = (const double *)band;
    for (size_t i = 0; i < t->size; i++) power[i] += signal[i] * signal[i];
}

static void fill_row(struct map *map, int row, const double *power, size_t n)
{
    const struct axis *x = &map->panel->x;
    float *cells = map->power + (size_t)row * COLUMNS;
    for (int column = 0; column < COLUMNS; column++) {
        double from = x->from + (x->to - x->from) * column / COLUMNS, to = from + (x->to - x->from) / COLUMNS;
        if (from >= map->end_s) break;
        size_t first = (size_t)(fmax(from, 0) / map->seconds * (double)n),
               end = (size_t)(to / map->seconds * (double)n);
        for (size_t i = first; i < n && (i <= first || i < end); i++)
            cells[column] = fmaxf(cells[column], (float)power[i]);
    }
}

static bool compute_row(struct map *map, int row)
{
    const double half_width = 0.5 * (exp2(1 / 12.0) - exp2(-1 / 12.0)); /* share of the frequency of the band */
    const struct axis *y = &map->panel->y;
    double hz = y->from * pow(y->to / y->from, (row + 0.5) / ROWS), sigma_hz = hz * half_width;
    double low = fmax(floor((hz - 4 * sigma_hz) / map->bin_hz), 0), span = 8 * sigma_hz / map->bin_hz + 3;
    double steps = 2 * COLUMNS * map->seconds / (map->panel->x.to - map->panel->x.from);
    steps = fmin(steps, (double)map->whole.size); /* a step is a frame or more */
    struct transform t;
    if (!transform_open(&t, transform_size((size_t)fmax(2 * span + 4, steps)))) return false;
    double complex *band = malloc((t.size / 2 + 1) * sizeof *band);
    double *power = calloc(t.size, sizeof *power);
    bool good = band && power;
    for (int part = 0; good && part < 2; part++) { /* real and imaginary part of the analytic signal */
        band_bins(map, hz, sigma_hz, (size_t)low, band, t.size);
        for (size_t i = 0; part == 1 && i <= t.size / 2; i++) band[i] *= I;
        add_squares(&t, band, power);
    }
    if (good) fill_row(map, row, power, t.size);
    free(band);
    free(power);
    transform_close(&t);
    return good;
}

/* ---- painting ------------------------------------------------------------------------------------ */

static int cell_level(double power, double max)
{
    double below_db = -10 * log10(power / max);
    return below_db < LEVELS * DB_PER_LEVEL ? (int)(fmax(below_db, 0) / DB_PER_LEVEL) : LEVELS;
}

/* Appends a box and a gap -> points[6]. */
static void put_box(struct point *points, double x, double y, double width, double height)
{
    const struct point corners[] = {{x, y}, {x + width, y}, {x + width, y + height}, {x, y + height}, {x, y}, {x, NAN}};
    memcpy(points, corners, sizeof corners);
}

/* Draws the cells of one level: boxes over adjacent columns that have this level. points: scratch for all cells. */
static void draw_level(struct drawing *d, const struct map *map, int level, double max, struct point *points)
{
    size_t n = 0;
    for (int row = 0; row < ROWS; row++) {
        const float *cells = map->power + (size_t)row * COLUMNS;
        for (int from = 0, to; from < COLUMNS; from = to) {
            int here = cell_level((double)cells[from], max);
            for (to = from + 1; to < COLUMNS && cell_level((double)cells[to], max) == here;) to++;
            if (here != level) continue;
            double top = map->panel->y.start - (row + 1) * CELL;
            put_box(points + n, PANEL_LEFT + from * CELL, top, (to - from) * CELL, CELL);
            n += 6;
        }
    }
    if (n > 0) drawing_path(d, (struct ink){.rgb = colour_of(level)}, NULL, points, n);
}

static bool draw_map(struct drawing *d, const struct map *map)
{
    struct point *points = malloc(sizeof *points * 6 * ROWS * COLUMNS);
    float max = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++) max = fmaxf(max, map->power[i]);
    for (int level = LEVELS - 1; points && max > 0 && level >= 0; level--) draw_level(d, map, level, max, points);
    free(points);
    return points != NULL;
}

static bool compute(struct map *map, const struct plot_curve *curve)
{
    const double wrap_s = 0.6; /* the lowest band spreads a sample over less, one half to earlier times, which wraps */
    size_t n = (size_t)(curve->n_frames < SPECTROGRAM_MAX_FRAMES ? curve->n_frames : SPECTROGRAM_MAX_FRAMES);
    if (!transform_open(&map->whole, transform_size(n + (size_t)(wrap_s * curve->rate)))) return false;
    map->seconds = (double)map->whole.size / curve->rate;
    map->end_s = (double)n / curve->rate + wrap_s / 2;
    map->bin_hz = 1 / map->seconds;
    map->bins = malloc((map->whole.size / 2 + 1) * sizeof *map->bins);
    map->power = calloc((size_t)ROWS * COLUMNS, sizeof *map->power);
    bool good = map->bins && map->power;
    if (good) transform_response_float(&map->whole, curve->h, n, map->bins);
    for (int row = 0; good && row < ROWS; row++) good = compute_row(map, row);
    return good;
}

bool spectrogram_draw(struct drawing *d, const struct diagram *panel, const struct plot_curve *curve)
{
    struct map map = {.panel = panel};
    bool good = compute(&map, curve) && draw_map(d, &map);
    free(map.bins);
    free(map.power);
    transform_close(&map.whole);
    return good;
}

void spectrogram_draw_scale(struct drawing *d, const struct diagram *p)
{
    enum { WIDTH = 7, HEIGHT = 16 };
    double right = PANEL_RIGHT - 24, base = p->y.end - 12;
    drawing_text(d, PANEL_RIGHT, base, TEXT_SIZE, TEXT_END, INFINITY, "0");
    for (int level = 0; level < LEVELS; level++)
        drawing_box(d, (struct ink){.rgb = colour_of(level)}, right - (level + 1) * WIDTH, base - HEIGHT, WIDTH,
                    HEIGHT);
    drawing_text(d, right - LEVELS * WIDTH - 8, base, TEXT_SIZE, TEXT_END, INFINITY,
                 "\xe2\x88\x92"
                 "60 dB");
}

/* ---- a waterfall ------------------------------------------------------------------------------ */

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
