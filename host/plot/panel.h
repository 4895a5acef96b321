/* panel - one diagram of a plot: frame, grid, marks, and the curves in it. */
#ifndef PLOT_PANEL_H
#define PLOT_PANEL_H

#include "axis.h"
#include "plot.h"
#include "trace.h"

/* Sizes in units of the drawing. On a phone that shows the page 390 pixels wide the smallest text is 10 pixels high. */
enum {
    PANEL_LEFT = 100, PANEL_RIGHT = DRAWING_WIDTH - 24, /* of the frame */
    PANEL_ABOVE = 36, PANEL_HEIGHT = 240, PANEL_BELOW = 74, /* title; frame; labels of the time or frequency */
    TEXT_SIZE = 20, TITLE_SIZE = 21
};

struct panel {
    enum plot_panel kind;
    char title[512];
    double title_width;    /* its place */
    const char *x_label;
    struct axis x, y;      /* y.start is the bottom */
};

/* Sets the places of the axes of a panel whose upper edge is at `top`; the values are the caller's. */
void panel_put(struct panel *panel, double top);

void panel_draw_grid(struct drawing *drawing, const struct panel *panel);

/* Between these two calls everything that lies outside the frame is not shown. */
void panel_clip(struct drawing *drawing, const struct panel *panel);
void panel_clip_end(struct drawing *drawing);

/* The values of the trace become places. */
void panel_draw_trace(struct drawing *drawing, const struct panel *panel, struct ink ink, const char *name,
                      struct trace *trace);

/* The ink of a curve: a colour and a line style that no other has. */
struct ink panel_ink(int curve);

#endif
