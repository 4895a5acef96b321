#include "decay_panel.h"

#include "time_traces.h"

#include <math.h>
#include <stdio.h>

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
