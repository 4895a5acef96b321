/* drawing - the shapes of a picture, in the order in which they are painted. svg.c writes them.
 *
 * Lengths are in units of 1/800 of the width. On a page of 600 points, or 800 pixels of CSS, a unit is 3/4 point.
 */
#ifndef PLOT_DRAWING_H
#define PLOT_DRAWING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DRAWING_WIDTH = 800 };

struct point {
    double x, y;     /* y: NaN lifts the pen */
};

struct ink {
    uint32_t rgb;
    double width;    /* width of a line; 0: the shape is filled */
    const double *dashes; /* lengths of line, gap, line, ...; 0 ends the list. NULL: a line without gaps */
};

enum text_anchor { TEXT_START, TEXT_MIDDLE, TEXT_END };

struct shape {
    enum { SHAPE_PATH, SHAPE_TEXT, SHAPE_GROUP, SHAPE_GROUP_END } kind;
    struct ink ink;
    size_t first, n; /* points: of a path; position of a text; two corners of the visible area of a group, or none */
    char *text;      /* clean UTF-8: the text, or the name of a path or group, or NULL */
    double size;     /* height of a text */
    enum text_anchor anchor;
    bool is_bold;
};

struct drawing {     /* start with zeros */
    double height;
    struct shape *shapes;
    size_t n_shapes, shapes_cap;
    struct point *points;
    size_t n_points, points_cap;
    bool failed;     /* no memory; calls do nothing from then on */
};

void drawing_free(struct drawing *drawing);

/* The name is optional, and is cleaned as a text is. */
void drawing_path(struct drawing *drawing, struct ink ink, const char *name, const struct point *points, size_t n);
void drawing_line(struct drawing *drawing, struct ink ink, double x0, double y0, double x1, double y1);
void drawing_box(struct drawing *drawing, struct ink ink, double x, double y, double width, double height);

/* Bytes that are not UTF-8, control characters and marks that turn the direction of text become U+FFFD. A text wider
 * than `max` units loses its middle. Returns its width, an estimate that wide fonts do not exceed. */
double drawing_text(struct drawing *drawing, double x, double y, double size, enum text_anchor anchor, double max,
                    const char *text);
void drawing_heading(struct drawing *drawing, double x, double y, double size, double max, const char *text);

/* Begins a group of all shapes until drawing_group_end; with corners, only the area between them is shown. */
void drawing_group(struct drawing *drawing, const char *name, const struct point corners[2]);
void drawing_group_end(struct drawing *drawing);

/* ---- plain texts ------------------------------------------------------------------------------ */

/* Texts that a picture can show whatever bytes they come from: names of files, titles. */

/* Returns a copy, from malloc, in UTF-8 that XML 1.0 allows: U+FFFD replaces stray bytes, control characters and the
 * marks that turn the direction of the text. If it is wider than max_cells, "..." replaces its middle: the names of
 * files differ at both ends. NULL: no memory. */
char *plain_text_make(const char *text, double max_cells);

/* Returns the width in cells, one for a letter of the Latin alphabet, two for a sign of the East Asian scripts. */
int plain_text_cells(const char *text);

#endif
