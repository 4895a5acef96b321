/* png_cairo - paints a drawing with Cairo, and writes it as PNG.
 *
 * Cairo comes with fontconfig, X11 and others: 19 libraries in all. A live session would lock them in memory (7.6 MB of
 * addresses, 1.7 MB resident), so haloconv_plot.so, which uses them, is loaded to write a PNG only.
 */
#ifndef PLOT_PNG_CAIRO_H
#define PLOT_PNG_CAIRO_H

#include "host/plot/drawing.h"

#include <stdio.h>

struct png_painter {
    /* Returns NULL, and the caller checks ferror; or the reason of a failure. */
    const char *(*write)(const struct drawing *drawing, FILE *to);
};
extern const struct png_painter haloconv_png_painter; /* in haloconv_plot.so */

#endif
