#include "png_cairo.h"

#include <cairo.h>
#include <math.h>

enum { PNG_WIDTH = 1600 }; /* pixels */

static void use_ink(cairo_t *cairo, const struct ink *ink)
{
    cairo_set_source_rgb(cairo, (ink->rgb >> 16) / 255.0, (ink->rgb >> 8 & 255) / 255.0, (ink->rgb & 255) / 255.0);
    if (ink->width <= 0) return;
    int n = 0;
    while (ink->dashes && ink->dashes[n] > 0) n++;
    cairo_set_dash(cairo, ink->dashes, n, 0);
    cairo_set_line_width(cairo, ink->width);
}

static void paint_path(cairo_t *cairo, const struct shape *shape, const struct point *points)
{
    bool is_down = false;
    for (size_t i = 0; i < shape->n; i++) {
        bool lifts = isnan(points[i].y);
        if (is_down && !lifts)
            cairo_line_to(cairo, points[i].x, points[i].y);
        else if (!lifts)
            cairo_move_to(cairo, points[i].x, points[i].y);
        is_down = !lifts;
    }
    use_ink(cairo, &shape->ink);
    cairo_set_antialias(cairo, shape->ink.width > 0 ? CAIRO_ANTIALIAS_DEFAULT : CAIRO_ANTIALIAS_NONE);
    if (shape->ink.width > 0)
        cairo_stroke(cairo);
    else
        cairo_fill(cairo);
}

static void paint_text(cairo_t *cairo, const struct shape *shape, struct point at)
{
    static const double shares[] = {[TEXT_START] = 0, [TEXT_MIDDLE] = 0.5, [TEXT_END] = 1};
    cairo_text_extents_t extents;
    cairo_select_font_face(cairo, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                           shape->is_bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, shape->size);
    cairo_text_extents(cairo, shape->text, &extents);
    cairo_set_source_rgb(cairo, 0.13, 0.13, 0.13);
    cairo_move_to(cairo, at.x - shares[shape->anchor] * extents.x_advance, at.y);
    cairo_show_text(cairo, shape->text);
}

static void open_group(cairo_t *cairo, const struct shape *shape, const struct point *corners)
{
    cairo_save(cairo);
    if (shape->n < 2) return;
    cairo_rectangle(cairo, corners[0].x, corners[0].y, corners[1].x - corners[0].x, corners[1].y - corners[0].y);
    cairo_clip(cairo);
}

static void paint(cairo_t *cairo, const struct drawing *d)
{
    cairo_set_source_rgb(cairo, 1, 1, 1);
    cairo_paint(cairo);
    cairo_set_line_join(cairo, CAIRO_LINE_JOIN_ROUND);
    for (size_t i = 0; i < d->n_shapes; i++) {
        const struct shape *shape = &d->shapes[i];
        const struct point *points = d->points + shape->first;
        switch (shape->kind) {
        case SHAPE_PATH:
            paint_path(cairo, shape, points);
            break;
        case SHAPE_TEXT:
            paint_text(cairo, shape, *points);
            break;
        case SHAPE_GROUP:
            open_group(cairo, shape, points);
            break;
        case SHAPE_GROUP_END:
            cairo_restore(cairo);
            break;
        }
    }
}

static cairo_status_t put(void *to, const unsigned char *bytes, unsigned n)
{
    return fwrite(bytes, 1, n, to) == n ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

static const char *write_png(const struct drawing *d, FILE *to)
{
    const double scale = PNG_WIDTH / (double)DRAWING_WIDTH;
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, PNG_WIDTH, (int)ceil(d->height * scale));
    cairo_t *cairo = cairo_create(surface);
    cairo_scale(cairo, scale, scale);
    paint(cairo, d);
    cairo_status_t status = cairo_status(cairo);
    if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_write_to_png_stream(surface, put, to);
    cairo_destroy(cairo);
    cairo_surface_destroy(surface);
    return status == CAIRO_STATUS_SUCCESS || status == CAIRO_STATUS_WRITE_ERROR ? NULL : cairo_status_to_string(status);
}

const struct png_painter haloconv_png_painter = {.write = write_png};
