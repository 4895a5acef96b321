/* svg - writes a drawing as SVG 1.1. Texts stay texts, which can be found and read aloud, and the name of a curve
 * appears when a pointer rests on it. The same drawing gives the same bytes. */
#ifndef PLOT_SVG_H
#define PLOT_SVG_H

#include "drawing.h"

#include <stdio.h>

/* Writes the drawing; the caller checks ferror. */
void svg_write(const struct drawing *drawing, FILE *to);

#endif
