#include "svg.h"

#include "host/files/text_out.h"
#include "host/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Prints a length, rounded to 1/100 unit: less than a printer's dot. The locale has no effect. */
static void print_hundredths(FILE *to, long hundredths)
{
    long size = labs(hundredths);
    fprintf(to, "%s%ld", hundredths < 0 ? "-" : "", size / 100);
    if (size % 100 == 0) return;
    if (size % 10 == 0)
        fprintf(to, ".%ld", size % 100 / 10);
    else
        fprintf(to, ".%02ld", size % 100);
}

static void print_length(FILE *to, double length)
{
    print_hundredths(to, lround(length * 100));
}

static void print_attribute(FILE *to, const char *name, double length)
{
    fprintf(to, " %s=\"", name);
    print_length(to, length);
    putc('"', to);
}

static void print_escaped(FILE *to, const char *text)
{
    for (; *text; text++) {
        const char *entity = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : NULL;
        if (entity)
            fputs(entity, to);
        else
            putc(*text, to);
    }
}

static void print_title(FILE *to, const char *name)
{
    fputs("<title>", to);
    print_escaped(to, name);
    fputs("</title>", to);
}

static void print_points(FILE *to, const struct point *points, size_t n)
{
    long x = 0, y = 0; /* position of the pen */
    bool is_down = false;
    for (size_t i = 0; i < n; i++) {
        bool lifts = isnan(points[i].y);
        long next_x = lround(points[i].x * 100), next_y = lifts ? 0 : lround(points[i].y * 100);
        int command = lifts ? 0 : !is_down ? 'M' : next_y == y ? 'H' : next_x == x ? 'V' : 'L';
        if (command) putc(command, to);
        if (command && command != 'V') print_hundredths(to, next_x);
        if (command == 'M' || command == 'L') putc(' ', to);
        if (command && command != 'H') print_hundredths(to, next_y);
        is_down = !lifts;
        x = next_x;
        y = next_y;
        if (i % 16 == 15) putc('\n', to); /* no editor has to show a line of 100 KB */
    }
}

static void print_dashes(FILE *to, const double *dashes)
{
    if (!dashes) return;
    fputs(" stroke-dasharray=\"", to);
    for (int i = 0; dashes[i] > 0; i++) {
        if (i > 0) putc(' ', to);
        print_length(to, dashes[i]);
    }
    putc('"', to);
}

static void svg_print_path(FILE *to, const struct shape *shape, const struct point *points)
{
    fputs("<path d=\"", to);
    print_points(to, points, shape->n);
    if (shape->ink.width > 0) {
        fprintf(to, "\" fill=\"none\" stroke=\"#%06x\"", (unsigned)shape->ink.rgb);
        print_attribute(to, "stroke-width", shape->ink.width);
        print_dashes(to, shape->ink.dashes);
    } else {
        fprintf(to, "\" fill=\"#%06x\" shape-rendering=\"crispEdges\"", (unsigned)shape->ink.rgb);
    }
    if (!shape->text) {
        fputs("/>\n", to);
        return;
    }
    putc('>', to);
    print_title(to, shape->text);
    fputs("</path>\n", to);
}

static void svg_print_text(FILE *to, const struct shape *shape, struct point at)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    fputs("<text", to);
    print_attribute(to, "x", at.x);
    print_attribute(to, "y", at.y);
    print_attribute(to, "font-size", shape->size);
    if (shape->anchor != TEXT_START) fprintf(to, " text-anchor=\"%s\"", anchors[shape->anchor]);
    if (shape->is_bold) fputs(" font-weight=\"bold\"", to);
    putc('>', to);
    print_escaped(to, shape->text);
    fputs("</text>\n", to);
}

static void print_group(FILE *to, const struct shape *shape, const struct point *corners, int number)
{
    if (shape->n == 2) {
        fprintf(to, "<clipPath id=\"clip%d\"><rect", number);
        print_attribute(to, "x", corners[0].x);
        print_attribute(to, "y", corners[0].y);
        print_attribute(to, "width", corners[1].x - corners[0].x);
        print_attribute(to, "height", corners[1].y - corners[0].y);
        fprintf(to, "/></clipPath>\n<g clip-path=\"url(#clip%d)\">", number);
    } else {
        fputs("<g>", to);
    }
    if (shape->text) print_title(to, shape->text);
    putc('\n', to);
}

void svg_write(const struct drawing *d, FILE *to)
{
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"", to);
    fprintf(to, " width=\"%d\"", DRAWING_WIDTH);
    print_attribute(to, "height", d->height);
    fprintf(to, " viewBox=\"0 0 %d ", DRAWING_WIDTH);
    print_length(to, d->height);
    fputs("\" font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\" fill=\"#222222\""
          " stroke-linejoin=\"round\">\n",
          to);
    for (size_t i = 0; i < d->n_shapes; i++) {
        const struct shape *shape = &d->shapes[i];
        const struct point *points = d->points + shape->first;
        if (shape->kind == SHAPE_PATH) svg_print_path(to, shape, points);
        if (shape->kind == SHAPE_TEXT) svg_print_text(to, shape, *points);
        if (shape->kind == SHAPE_GROUP) print_group(to, shape, points, (int)i);
        if (shape->kind == SHAPE_GROUP_END) fputs("</g>\n", to);
    }
    fputs("</svg>\n", to);
}

/* ---- files ------------------------------------------------------------------------------------ */

bool picture_check(const char *path, char *why, size_t cap)
{
    const char *dot = strrchr(path, '.');
    if (dot && strcasecmp(dot, ".svg") == 0) return true;
    if (dot && strcasecmp(dot, ".png") == 0)
        return message_write(why, cap, "%s: plots are SVG; name it .svg (rsvg-convert makes a PNG of it)", path);
    return message_write(why, cap, "%s: is not the name of a picture; name it .svg", path);
}

static void write_svg(FILE *file, const void *drawing)
{
    svg_write(drawing, file);
}

bool picture_write(const char *path, FILE *to, const struct drawing *drawing, char *why, size_t cap)
{
    if (!to) return text_out(path, write_svg, drawing, why, cap);
    svg_write(drawing, to);
    return !ferror(to) || message_write(why, cap, "%s: no memory for the plot; free some memory", path);
}
