/* picture - writes a drawing as a file, in SVG. */
#ifndef PLOT_PICTURE_H
#define PLOT_PICTURE_H

#include "drawing.h"

#include <stdio.h>

/* Is this the name of an SVG? false: why has the reason. */
bool picture_check(const char *path, char *why, size_t cap);

/* Writes the picture into the file, or as SVG into a stream (to NULL: the file). false: why has the reason. */
bool picture_write(const char *path, FILE *to, const struct drawing *drawing, char *why, size_t cap);

#endif
