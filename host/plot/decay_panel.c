#include "decay_panel.h"

#include "time_traces.h"

#include <math.h>
#include <stdio.h>

bool decay_trace(const struct plot_curve *curve, const struct axis *x, struct trace *trace, struct decay_lines *lines)
{
    struct acoustics acoustics;
    struct decay decay;
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
        trace_add(trace, axis_place(x, lines->start_s + (double)i / curve->rate), decay_db(&decay, i));
    trace_finish(trace);
    decay_free(&decay);
    return true;
}

/* Draws a line down to the bottom of the panel, and its time in the row of that number. */
static void draw_line(struct drawing *d, const struct panel *p, const struct decay_lines *lines, int figure,
                      struct ink ink, int row)
{
    static const char *const names[ACOUSTIC_TIMES] = {"EDT", "T20", "T30"};
    const double row_height = 25, text_x = PANEL_RIGHT - 128;
    const struct decay_fit *fit = &lines->fit[figure];
    double end_s = (p->y.from - fit->at_start_db) / fit->slope, y = p->y.end + row_height * (row + 0.7);
    char text[64];
    ink.width = 1.5;
    panel_clip(d, p);
    snprintf(text, sizeof text, "%s %.2f s", names[figure], lines->seconds[figure]);
    drawing_path(d, ink, text,
                 (const struct point[]){{axis_place(&p->x, lines->start_s), axis_place(&p->y, fit->at_start_db)},
                                        {axis_place(&p->x, (lines->start_s + end_s)), p->y.start}},
                 2);
    panel_clip_end(d);
    drawing_box(d, (struct ink){.rgb = 0xffffff}, text_x - 54, y - row_height / 2, PANEL_RIGHT - text_x + 52,
                row_height);
    drawing_line(d, ink, text_x - 50, y, text_x - 8, y);
    drawing_text(d, text_x, y + 0.35 * TEXT_SIZE, TEXT_SIZE, TEXT_START, INFINITY, text);
}

void decay_draw_lines(struct drawing *d, const struct panel *p, const struct decay_lines *lines, int n)
{
    enum { MOST_ROWS = 8 };
    for (int i = 0; n == 1 && i < ACOUSTIC_TIMES; i++)
        if (!isnan(lines->seconds[i])) draw_line(d, p, lines, i, panel_ink(i + 1), i);
    for (int i = 0, row = 0; n > 1 && i < n && row < MOST_ROWS; i++) {
        int figure = isnan(lines[i].seconds[ACOUSTIC_T30]) ? ACOUSTIC_T20 : ACOUSTIC_T30;
        if (!isnan(lines[i].seconds[figure])) draw_line(d, p, &lines[i], figure, panel_ink(i), row++);
    }
}
