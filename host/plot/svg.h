/* svg - writes a drawing as SVG 1.1. Texts stay texts, which can be found and read aloud, and the name of a curve
 * appears when a pointer rests on it. The same drawing gives the same bytes. */
#ifndef PLOT_SVG_H
#define PLOT_SVG_H

#include "drawing.h"

#include <stdio.h>

/* Writes the drawing; the caller checks ferror. */
void svg_write(const struct drawing *drawing, FILE *to);

/* ---- files ------------------------------------------------------------------------------------ */

/* Is this the name of an SVG? false: why has the reason. */
bool picture_check(const char *path, char *why, size_t cap);

/* Writes the picture into the file, or as SVG into a stream (to NULL: the file). false: why has the reason. */
bool picture_write(const char *path, FILE *to, const struct drawing *drawing, char *why, size_t cap);

#endif
