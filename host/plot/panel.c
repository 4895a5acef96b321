#include "panel.h"

#include <math.h>

static const struct ink frame_ink = {0x444444, 1.3, NULL}, zero_ink = {0x888888, 1.2, NULL},
                        grid_ink = {0xcccccc, 1, NULL}, fine_ink = {0xe6e6e6, 1, NULL};

/* The colours of Okabe and Ito (2008), which people with any colour vision can tell apart; without yellow, which is too
 * light on paper. Neighbours also differ in brightness and in their dashes. */
struct ink panel_ink(int curve)
{
    static const uint32_t colours[] = {0x0072b2, 0xd55e00, 0x000000, 0x009e73, 0xcc79a7, 0xe69f00, 0x56b4e9};
    static const double dashes[][5] = {{0}, {9, 4}, {2.5, 3}, {10, 3, 2.5, 3}, {16, 5}};
    enum { N_COLOURS = sizeof colours / sizeof *colours, N_DASHES = sizeof dashes / sizeof *dashes };
    const double *dash = dashes[curve % N_DASHES];
    return (struct ink){colours[curve % N_COLOURS], 2.2, *dash > 0 ? dash : NULL};
}

void panel_put(struct panel *p, double top)
{
    p->x.start = PANEL_LEFT;
    p->x.end = PANEL_RIGHT;
    p->y.start = top + PANEL_ABOVE + PANEL_HEIGHT;
    p->y.end = top + PANEL_ABOVE;
    p->title_width = PANEL_RIGHT - PANEL_LEFT;
}

static void draw_x_marks(struct drawing *d, const struct panel *p)
{
    double marks[AXIS_MOST_MARKS];
    char text[32];
    int n = axis_marks(&p->x, marks);
    for (int i = 0; i < n; i++) {
        double x = axis_place(&p->x, marks[i]);
        axis_label(&p->x, marks[i], text, sizeof text);
        drawing_line(d, *text ? grid_ink : fine_ink, x, p->y.start, x, p->y.end);
        if (*text) drawing_text(d, x, p->y.start + 24, TEXT_SIZE, TEXT_MIDDLE, INFINITY, text);
    }
    drawing_text(d, (PANEL_LEFT + PANEL_RIGHT) / 2.0, p->y.start + 50, TEXT_SIZE, TEXT_MIDDLE, INFINITY, p->x_label);
}

static void draw_y_marks(struct drawing *d, const struct panel *p)
{
    double marks[AXIS_MOST_MARKS];
    char text[32];
    int n = axis_marks(&p->y, marks);
    for (int i = 0; i < n; i++) {
        double y = axis_place(&p->y, marks[i]);
        axis_label(&p->y, marks[i], text, sizeof text);
        bool is_zero = !p->y.is_log && fabs(marks[i]) < p->y.step / 1000;
        drawing_line(d, is_zero ? zero_ink : *text ? grid_ink : fine_ink, PANEL_LEFT, y, PANEL_RIGHT, y);
        if (*text) drawing_text(d, PANEL_LEFT - 8, y + 0.35 * TEXT_SIZE, TEXT_SIZE, TEXT_END, PANEL_LEFT - 8, text);
    }
}

void panel_draw_grid(struct drawing *d, const struct panel *p)
{
    drawing_heading(d, PANEL_LEFT, p->y.end - 12, TITLE_SIZE, p->title_width, p->title);
    draw_x_marks(d, p);
    draw_y_marks(d, p);
    drawing_box(d, frame_ink, PANEL_LEFT, p->y.end, PANEL_RIGHT - PANEL_LEFT, PANEL_HEIGHT);
}

void panel_clip(struct drawing *d, const struct panel *p)
{
    drawing_group(d, NULL, (const struct point[2]){{PANEL_LEFT, p->y.end}, {PANEL_RIGHT, p->y.start}});
}

void panel_clip_end(struct drawing *d)
{
    drawing_group_end(d);
}

void panel_draw_trace(struct drawing *d, const struct panel *p, struct ink ink, const char *name, struct trace *trace)
{
    for (size_t i = 0; i < trace->n; i++)
        if (!isnan(trace->points[i].y)) trace->points[i].y = axis_place(&p->y, trace->points[i].y);
    drawing_path(d, ink, name, trace->points, trace->n);
}
