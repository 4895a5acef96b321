/* trace - the points of one curve, as many as a picture can show.
 *
 * A response of millions of taps has thousands of points in a unit of the picture's width. The first, the lowest,
 * the highest and the last of them are kept, each at its position (the method "M4": Jugel et al., VLDB 2014): the line
 * through them covers the same area, and no peak is lost. Points farther apart all stay.
 */
#ifndef PLOT_TRACE_H
#define PLOT_TRACE_H

#include "drawing.h"

struct trace {              /* start with zeros */
    struct point *points;   /* [n]: x in the drawing, y a value; y NaN: a gap */
    size_t n, capacity;
    bool failed;            /* no memory */
    struct point kept[4];   /* points of this unit of width: first, lowest, highest, last */
    bool has_kept;
    double column;          /* the unit of width of `kept` */
    double gap_column;      /* unit of the last gap: a unit has one gap at most */
    bool has_gap;
};

/* Adds a point. x must not fall. A y that is not finite is a gap. */
void trace_add(struct trace *trace, double x, double y);
void trace_gap(struct trace *trace);

/* Call it after the last point. */
void trace_finish(struct trace *trace);
void trace_free(struct trace *trace);

#endif
