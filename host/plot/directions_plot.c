#include "directions_plot.h"

#include "host/message.h"
#include "panel.h"
#include "picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CORNERS = 4, POINTS = CORNERS + 1 };    /* corners of a mark; a point with y = NAN ends it */
static const double mark_size[2] = {4.5, 2.2}; /* from middle to corner: a mark of the file, an interpolated one */

static void mark_put(struct point *points, double x, double y, double size)
{
    static const double corner[CORNERS][2] = {{0, -1}, {1, 0}, {0, 1}, {-1, 0}};
    for (int i = 0; i < CORNERS; i++) points[i] = (struct point){x + size * corner[i][0], y + size * corner[i][1]};
    points[CORNERS] = (struct point){x, NAN};
}

static struct ink mark_ink(int kind)
{
    return (struct ink){.rgb = panel_ink(kind).rgb};
}

/* Draws a line of the legend. */
static void draw_name(struct drawing *d, double *top, int kind, const char *name)
{
    const double line = 30;
    struct point mark[POINTS];
    mark_put(mark, PANEL_LEFT + 8, *top + line / 2, 1.4 * mark_size[kind]);
    drawing_path(d, mark_ink(kind), NULL, mark, CORNERS);
    drawing_text(d, PANEL_LEFT + 24, *top + line / 2 + 0.35 * TEXT_SIZE, TEXT_SIZE, TEXT_START,
                 PANEL_RIGHT - PANEL_LEFT - 24, name);
    *top += line;
}

static void draw_marks(struct drawing *d, const struct diagram *p, int kind, const double (*aed)[3], int n)
{
    struct point *points = malloc(((size_t)n * POINTS + 1) * sizeof *points);
    if (!points) {
        d->failed = true;
        return;
    }
    for (int i = 0; i < n; i++)
        mark_put(points + (size_t)i * POINTS, axis_position(&p->x, aed[i][0]), axis_position(&p->y, aed[i][1]),
                 mark_size[kind]);
    if (n > 0) drawing_path(d, mark_ink(kind), kind ? "interpolated" : "entries", points, (size_t)n * POINTS);
    free(points);
}

bool directions_plot_write(const char *path, const char *name, const double (*aed)[3], int n, int n_of_file, char *why,
                           size_t cap)
{
    struct drawing drawing = {0};
    struct diagram panel = {.title = "Elevation (degrees)",
                            .x_label = "Azimuth (degrees, counter-clockwise)",
                            .x = {.from = -180, .to = 180, .step = 60},
                            .y = {.from = -90, .to = 90, .step = 30}};
    double top = 14;
    char text[64];
    draw_name(&drawing, &top, 0, name);
    if (n > n_of_file) {
        snprintf(text, sizeof text, "%d interpolated", n - n_of_file);
        draw_name(&drawing, &top, 1, text);
    }
    panel_put(&panel, top);
    drawing_group(&drawing, "directions", NULL);
    panel_draw_grid(&drawing, &panel);
    panel_draw_frame(&drawing, &panel);
    draw_marks(&drawing, &panel, 1, aed + n_of_file, n - n_of_file);
    draw_marks(&drawing, &panel, 0, aed, n_of_file);
    drawing_group_end(&drawing);
    drawing.height = top + PANEL_ABOVE + PANEL_HEIGHT + PANEL_BELOW;
    bool good = drawing.failed ? message_write(why, cap, "%s: no memory; free some memory", path)
                               : picture_write(path, NULL, &drawing, why, cap);
    drawing_free(&drawing);
    return good;
}
