#include "panel.h"

#include "dsp/base/order.h"
#include "trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct ink frame_ink = {0x444444, 1.3, NULL}, zero_ink = {0x888888, 1.2, NULL},
                        grid_ink = {0xcccccc, 1, NULL}, fine_ink = {0xe6e6e6, 1, NULL};

/* The colours of Okabe and Ito (2008), which people with any colour vision distinguish; without yellow, which is too
 * light on paper. Neighbours also differ in brightness and in their dashes. */
struct ink panel_ink(int curve)
{
    static const uint32_t colours[] = {0x0072b2, 0xd55e00, 0x000000, 0x009e73, 0xcc79a7, 0xe69f00, 0x56b4e9};
    static const double dashes[][5] = {{0}, {9, 4}, {2.5, 3}, {10, 3, 2.5, 3}, {16, 5}};
    enum { N_COLOURS = sizeof colours / sizeof *colours, N_DASHES = sizeof dashes / sizeof *dashes };
    const double *dash = dashes[curve % N_DASHES];
    return (struct ink){colours[curve % N_COLOURS], 2.2, *dash > 0 ? dash : NULL};
}

void panel_put(struct diagram *p, double top)
{
    p->x.start = PANEL_LEFT;
    p->x.end = PANEL_RIGHT;
    p->y.start = top + PANEL_ABOVE + PANEL_HEIGHT;
    p->y.end = top + PANEL_ABOVE;
}

/* ---- the range of the values ---------------------------------------------------------------------------------- */

static bool is_in_range(const struct diagram *p, const struct point *point)
{
    return !isnan(point->y) && point->x >= p->x.start && point->x <= p->x.end;
}

/* Finds the range of the shown values of n traces, without a share at each end. If no value is shown, the range is
 * unchanged. false: no memory. */
static bool value_span(const struct diagram *p, const struct trace *traces, int n, double share, double *from,
                       double *to)
{
    size_t n_values = 0, all = 0;
    for (int i = 0; i < n; i++) all += traces[i].n;
    double *values = malloc((all + 1) * sizeof *values);
    for (int i = 0; values && i < n; i++)
        for (size_t k = 0; k < traces[i].n; k++)
            if (is_in_range(p, &traces[i].points[k])) values[n_values++] = traces[i].points[k].y;
    if (n_values > 0) {
        size_t off = (size_t)(share * (double)n_values);
        qsort(values, n_values, sizeof *values, order_of_doubles);
        *from = values[off];
        *to = values[n_values - 1 - off];
    }
    free(values);
    return values != NULL;
}

static void set_level_range(struct axis *y, double low, double high)
{
    const double min_db = 10, max_db = 100;
    y->to = high + 1;
    y->from = fmax(low - 1, y->to - max_db);
    double missing_db = fmax(min_db - (y->to - y->from), 0);
    y->from -= missing_db / 2;
    y->to += missing_db / 2;
}

/* Returns the mean of the shown values over the width of the panel. Values below `min` count as `min`: nulls have no
 * level. */
static double mean_level(const struct diagram *p, const struct trace *traces, int n, double min)
{
    double sum = 0, width = 0;
    for (int i = 0; i < n; i++)
        for (size_t k = 1; k < traces[i].n; k++) {
            const struct point *before = &traces[i].points[k - 1], *point = before + 1;
            if (!is_in_range(p, before) || !is_in_range(p, point)) continue;
            sum += (point->x - before->x) * (fmax(before->y, min) + fmax(point->y, min)) / 2;
            width += point->x - before->x;
        }
    return width > 0 ? sum / width : min;
}

/* Every plot spans 50 dB, so that curves of two plots can be compared: around the mean, or higher if the largest value
 * needs it. */
static void set_magnitudes(struct diagram *p, const struct trace *traces, int n, double high, const double range_db[2])
{
    const double span_db = 50, step_db = 10;
    double mean = mean_level(p, traces, n, high - span_db);
    bool is_given = range_db[0] < range_db[1];
    double to = step_db * fmax(round((mean + span_db / 2) / step_db), ceil((high + 1) / step_db));
    p->y.from = is_given ? range_db[0] : to - span_db;
    p->y.to = is_given ? range_db[1] : to;
    axis_choose_step(&p->y, 6);
}

bool panel_set_values(struct diagram *p, const struct trace *traces, int n, const double range_db[2])
{
    struct axis *y = &p->y;
    bool is_delay = p->kind == PLOT_GROUP_DELAY;
    double low = 0, high = 0;
    bool good = value_span(p, traces, n, is_delay ? 0.02 : 0, &low, &high);
    switch (p->kind) {
    case PLOT_MAGNITUDE:
        set_magnitudes(p, traces, n, high, range_db);
        return good;
    case PLOT_IMPULSE_DB:
        set_level_range(y, low, high);
        break;
    case PLOT_PHASE:
        y->from = -180, y->to = 180, y->step = 90;
        return good;
    case PLOT_DECAY:
        y->from = -80, y->to = 0;
        break;
    default: {
        double margin = is_delay ? fmax(0.1 * (high - low), fmax(0.05 * fabs(high), 0.01)) : 0.04 * (high - low);
        if (high - low <= 0 && !is_delay) margin = 1; /* silence */
        y->from = low - margin;
        y->to = high + margin;
    }
    }
    axis_choose_step(y, 6);
    axis_widen(y);
    return good;
}

/* ---- drawing -------------------------------------------------------------------------------------------------- */

void panel_draw_grid(struct drawing *d, const struct diagram *p)
{
    double marks[AXIS_MAX_MARKS];
    char text[32];
    int n = axis_marks(&p->x, marks);
    for (int i = 0; i < n; i++) {
        double x = axis_position(&p->x, marks[i]);
        axis_label(&p->x, marks[i], text, sizeof text);
        drawing_line(d, *text ? grid_ink : fine_ink, x, p->y.start, x, p->y.end);
    }
    n = axis_marks(&p->y, marks);
    for (int i = 0; i < n; i++) {
        double y = axis_position(&p->y, marks[i]);
        bool is_zero = fabs(marks[i]) < p->y.step / 1000;
        drawing_line(d, is_zero ? zero_ink : grid_ink, PANEL_LEFT, y, PANEL_RIGHT, y);
    }
}

void panel_draw_y_labels(struct drawing *d, const struct axis *y)
{
    double marks[AXIS_MAX_MARKS];
    char text[32];
    int n = axis_marks(y, marks);
    for (int i = 0; i < n; i++) {
        axis_label(y, marks[i], text, sizeof text);
        double at = axis_position(y, marks[i]) + 0.35 * TEXT_SIZE;
        if (*text) drawing_text(d, PANEL_LEFT - 8, at, TEXT_SIZE, TEXT_END, PANEL_LEFT - 8, text);
    }
}

static void draw_mark_labels(struct drawing *d, const struct diagram *p)
{
    double marks[AXIS_MAX_MARKS], middle = (PANEL_LEFT + PANEL_RIGHT) / 2.0;
    char text[32];
    int n = axis_marks(&p->x, marks);
    for (int i = 0; i < n; i++) {
        axis_label(&p->x, marks[i], text, sizeof text);
        double x = axis_position(&p->x, marks[i]);
        if (*text) drawing_text(d, x, p->y.start + 26, TEXT_SIZE, TEXT_MIDDLE, INFINITY, text);
    }
    drawing_text(d, middle, p->y.start + 52, TEXT_SIZE, TEXT_MIDDLE, INFINITY, p->x_label);
    panel_draw_y_labels(d, &p->y);
}

void panel_draw_frame(struct drawing *d, const struct diagram *p)
{
    const double width = PANEL_RIGHT - PANEL_LEFT;
    drawing_heading(d, PANEL_LEFT, p->y.end - 12, TITLE_SIZE, p->title_width > 0 ? p->title_width : width, p->title);
    draw_mark_labels(d, p);
    drawing_box(d, frame_ink, PANEL_LEFT, p->y.end, width, p->y.start - p->y.end);
}

void panel_clip(struct drawing *d, const struct diagram *p)
{
    drawing_group(d, NULL, (const struct point[2]){{PANEL_LEFT, p->y.end}, {PANEL_RIGHT, p->y.start}});
}

void panel_clip_end(struct drawing *d)
{
    drawing_group_end(d);
}

void panel_draw_trace(struct drawing *d, const struct diagram *p, struct ink ink, const char *name, struct trace *trace)
{
    for (size_t i = 0; i < trace->n; i++)
        if (!isnan(trace->points[i].y)) trace->points[i].y = axis_position(&p->y, trace->points[i].y);
    drawing_path(d, ink, name, trace->points, trace->n);
}

/* ---- decay ------------------------------------------------------------------------------------ */

bool decay_trace(const struct plot_curve *curve, const struct axis *x, struct trace *trace, struct decay_lines *lines)
{
    struct acoustics acoustics;
    struct decay decay;
    lines->ink = curve->ink;
    for (int i = 0; i < ACOUSTIC_TIMES; i++) lines->seconds[i] = NAN;
    if (curve->h[largest_frame(curve)] == 0) return true;
    if (!acoustics_find(&acoustics, curve->h, curve->n_frames, curve->rate, false) ||
        !acoustics_curve(&decay, curve->h, curve->n_frames, curve->rate))
        return false;
    lines->start_s = (double)acoustics.start / curve->rate;
    for (int i = 0; i < ACOUSTIC_TIMES; i++) {
        lines->fit[i] = acoustics.all.fit[i];
        lines->seconds[i] = acoustics.all.value[i];
    }
    for (int i = 0; i <= decay.n; i++)
        trace_add(trace, axis_position(x, lines->start_s + (double)i / curve->rate), decay_db(&decay, i));
    trace_finish(trace);
    decay_free(&decay);
    return true;
}

enum { MAX_LINES = 8 };

struct chosen_line {
    const struct decay_lines *lines; /* lines of the curve */
    enum acoustic_figure figure;
    struct ink ink;
    char name[32]; /* "T30 1.71 s" */
};

static int choose_lines(const struct decay_lines *const *lines, int n, struct chosen_line *chosen)
{
    static const char *const names[ACOUSTIC_TIMES] = {"EDT", "T20", "T30"};
    int n_chosen = 0;
    for (int i = 0; i < (n == 1 ? ACOUSTIC_TIMES : n) && n_chosen < MAX_LINES; i++) {
        const struct decay_lines *of = lines[n == 1 ? 0 : i];
        int figure = n == 1 ? i : isnan(of->seconds[ACOUSTIC_T30]) ? ACOUSTIC_T20 : ACOUSTIC_T30;
        if (isnan(of->seconds[figure])) continue;
        struct chosen_line *line = &chosen[n_chosen++];
        *line = (struct chosen_line){of, figure, panel_ink(n == 1 ? of->ink + i + 1 : of->ink), ""};
        line->ink.width = 1.5;
        snprintf(line->name, sizeof line->name, "%s %.2f s", names[figure], of->seconds[figure]);
    }
    return n_chosen;
}

/* Draws a line down to the bottom of the panel. */
static void draw_line(struct drawing *d, const struct diagram *p, const struct chosen_line *line)
{
    const struct decay_fit *fit = &line->lines->fit[line->figure];
    double start_s = line->lines->start_s, end_s = start_s + (p->y.from - fit->at_start_db) / fit->slope;
    const struct point ends[] = {{axis_position(&p->x, start_s), axis_position(&p->y, fit->at_start_db)},
                                 {axis_position(&p->x, end_s), p->y.start}};
    drawing_path(d, line->ink, line->name, ends, 2);
}

/* Draws the labels in the upper right corner, where the panel of a decay is empty as a rule. */
static void draw_labels(struct drawing *d, const struct diagram *p, const struct chosen_line *chosen, int n)
{
    const double row_height = 25, text_x = PANEL_RIGHT - 128, top = p->y.end + 5;
    drawing_box(d, (struct ink){.rgb = 0xffffff}, text_x - 54, top, PANEL_RIGHT - text_x + 52, n * row_height);
    for (int row = 0; row < n; row++) {
        double y = top + (row + 0.5) * row_height;
        drawing_line(d, chosen[row].ink, text_x - 50, y, text_x - 8, y);
        drawing_text(d, text_x, y + 0.35 * TEXT_SIZE, TEXT_SIZE, TEXT_START, INFINITY, chosen[row].name);
    }
}

void decay_draw_lines(struct drawing *d, const struct diagram *p, const struct decay_lines *const *lines, int n)
{
    struct chosen_line chosen[MAX_LINES];
    int n_chosen = choose_lines(lines, n, chosen);
    if (n_chosen == 0) return;
    panel_clip(d, p);
    for (int i = 0; i < n_chosen; i++) draw_line(d, p, &chosen[i]);
    panel_clip_end(d);
    draw_labels(d, p, chosen, n_chosen);
}
