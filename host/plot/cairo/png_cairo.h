/* png_cairo - paints a drawing with Cairo, and writes it as PNG, PNG_WIDTH pixels wide.
 *
 * Cairo comes with fontconfig, X11 and 15 more libraries. A live session locks all of its libraries in memory, so these
 * are in a library of their own, haloconv_plot.so, which the program loads to write a PNG.
 */
#ifndef PLOT_PNG_CAIRO_H
#define PLOT_PNG_CAIRO_H

#include "host/plot/drawing.h"

#include <stdio.h>

struct png_painter {
    /* NULL: it is written; the caller looks at ferror. Else the reason. */
    const char *(*write)(const struct drawing *drawing, FILE *to);
};
extern const struct png_painter haloconv_png_painter; /* in haloconv_plot.so */

enum { PNG_WIDTH = 1600 };

#endif
