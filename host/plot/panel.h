/* panel - one diagram of a plot: frame, grid, marks, and the curves in it. */
#ifndef PLOT_PANEL_H
#define PLOT_PANEL_H

#include "axis.h"
#include "plot.h"
#include "trace.h"
#include "dsp/signal/acoustics.h"

/* Sizes in units of the drawing. On a phone that shows the page 390 pixels wide the smallest text is 10 pixels high. */
enum {
    PANEL_LEFT = 100, PANEL_RIGHT = DRAWING_WIDTH - 24, /* edges of the frame */
    PANEL_ABOVE = 36, PANEL_HEIGHT = 240, PANEL_BELOW = 74, /* heights: title; frame; labels of the time or frequency */
    TEXT_SIZE = 20, TITLE_SIZE = 21
};

struct diagram {
    enum plot_panel kind;
    char title[160];
    const char *x_label;
    struct axis x, y;      /* x: Hz or seconds; y.start is the bottom */
    double title_width;    /* max. width of the title; 0: the panel's width */
};

/* Sets the positions of the axes of a panel whose upper edge is at `top`; the values are the caller's. */
void panel_put(struct diagram *panel, double top);

/* Chooses the range of panel->y for those values of n traces that lie between the ends of panel->x. range_db: that of
 * struct plot_settings. false: no memory. */
bool panel_set_values(struct diagram *panel, const struct trace *traces, int n, const double range_db[2]);

/* y.step 0: an axis without marks. */
void panel_draw_grid(struct drawing *drawing, const struct diagram *panel); /* lines through the panel */
void panel_draw_frame(struct drawing *drawing, const struct diagram *panel); /* frame, title, and labels of the marks */
void panel_draw_y_labels(struct drawing *drawing, const struct axis *y);  /* labels to the left of the panel */

/* Between panel_clip and panel_clip_end only the area inside the frame is shown. */
void panel_clip(struct drawing *drawing, const struct diagram *panel);
void panel_clip_end(struct drawing *drawing);

/* Draws a trace, and replaces its values by positions. */
void panel_draw_trace(struct drawing *drawing, const struct diagram *panel, struct ink ink, const char *name,
                      struct trace *trace);

/* The ink of a curve: a colour and a line style that no other has. */
struct ink panel_ink(int curve);

/* ---- decay ------------------------------------------------------------------------------------ */

/* The decay of a response's energy, and the lines whose slopes are EDT, T20 and T30. */

struct decay_lines {                            /* the lines of one curve */
    int ink;                                    /* ink of the curve */
    double start_s;                             /* where the response starts; the lines count from there */
    struct decay_fit fit[ACOUSTIC_TIMES];
    double seconds[ACOUSTIC_TIMES];             /* EDT, T20, T30; NaN: absent */
};

/* Adds the points in dB, and finds the lines. Silence has neither. x: seconds. false: no memory. */
bool decay_trace(const struct plot_curve *curve, const struct axis *x, struct trace *trace, struct decay_lines *lines);

/* Draws the lines of n curves with their times: EDT, T20 and T30 of one curve; T30, or
 * else T20, of the first eight of several curves that have one. */
void decay_draw_lines(struct drawing *drawing, const struct diagram *panel, const struct decay_lines *const *lines,
                      int n);

#endif
