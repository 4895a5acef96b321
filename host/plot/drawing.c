#include "drawing.h"

#include "plain_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void drawing_free(struct drawing *d)
{
    for (size_t i = 0; i < d->n_shapes; i++) free(d->shapes[i].text);
    free(d->shapes);
    free(d->points);
    *d = (struct drawing){0};
}

/* Returns the list with capacity for `more` items. Without memory: the same list, and d->failed. */
static void *grown(struct drawing *d, void *list, size_t item_bytes, size_t n, size_t more, size_t *capacity)
{
    if (d->failed || n + more <= *capacity) return list;
    size_t wanted = 2 * (n + more);
    void *larger = realloc(list, wanted * item_bytes);
    d->failed = !larger;
    if (!larger) return list;
    *capacity = wanted;
    return larger;
}

static void shape_add(struct drawing *d, struct shape shape, const struct point *points, size_t n)
{
    d->shapes = grown(d, d->shapes, sizeof *d->shapes, d->n_shapes, 1, &d->shapes_cap);
    d->points = grown(d, d->points, sizeof *d->points, d->n_points, n, &d->points_cap);
    if (d->failed) {
        free(shape.text);
        return;
    }
    if (n > 0) memcpy(d->points + d->n_points, points, n * sizeof *points);
    shape.first = d->n_points;
    shape.n = n;
    d->n_points += n;
    d->shapes[d->n_shapes++] = shape;
}

static char *cleaned(struct drawing *d, const char *text, double max_cells)
{
    char *clean = text && !d->failed ? plain_text_make(text, max_cells) : NULL;
    if (text && !clean) d->failed = true;
    return clean;
}

void drawing_path(struct drawing *d, struct ink ink, const char *name, const struct point *points, size_t n)
{
    shape_add(d, (struct shape){.kind = SHAPE_PATH, .ink = ink, .text = cleaned(d, name, INFINITY)}, points, n);
}

void drawing_line(struct drawing *d, struct ink ink, double x0, double y0, double x1, double y1)
{
    drawing_path(d, ink, NULL, (const struct point[]){{x0, y0}, {x1, y1}}, 2);
}

void drawing_box(struct drawing *d, struct ink ink, double x, double y, double width, double height)
{
    const struct point corners[] = {{x, y}, {x + width, y}, {x + width, y + height}, {x, y + height}, {x, y}};
    drawing_path(d, ink, NULL, corners, 5);
}

static double add_text(struct drawing *d, struct shape shape, double max, const char *text, struct point at)
{
    const double cell = 0.63 * shape.size; /* the mean width of a letter or digit of DejaVu Sans, a wide font */
    shape.kind = SHAPE_TEXT;
    shape.text = cleaned(d, text, max / cell);
    double width = shape.text ? cell * plain_text_cells(shape.text) : 0;
    shape_add(d, shape, &at, 1);
    return width;
}

double drawing_text(struct drawing *d, double x, double y, double size, enum text_anchor anchor, double max,
                    const char *text)
{
    return add_text(d, (struct shape){.size = size, .anchor = anchor}, max, text, (struct point){x, y});
}

void drawing_heading(struct drawing *d, double x, double y, double size, double max, const char *text)
{
    add_text(d, (struct shape){.size = size, .is_bold = true}, max, text, (struct point){x, y});
}

void drawing_group(struct drawing *d, const char *name, const struct point corners[2])
{
    shape_add(d, (struct shape){.kind = SHAPE_GROUP, .text = cleaned(d, name, INFINITY)}, corners, corners ? 2 : 0);
}

void drawing_group_end(struct drawing *d)
{
    shape_add(d, (struct shape){.kind = SHAPE_GROUP_END}, NULL, 0);
}
