/* trace - the points of one curve, as many as a picture can show.
 *
 * A response of millions of taps has thousands of points in a unit of the picture's width. The first, the lowest,
 * the highest and the last of them are kept, each at its position (the method "M4": Jugel et al., VLDB 2014): the line
 * through them covers the same area, and no peak is lost. Points farther apart all stay.
 */
#ifndef PLOT_TRACE_H
#define PLOT_TRACE_H

#include "axis.h"
#include "drawing.h"
#include "plot.h"

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

/* ---- a response, its level and its running sum over time -------------------------------------- */

/* Returns the frame of the largest sample. */
int largest_frame(const struct plot_curve *curve);

/* Finds the first and the last sample within `db` (negative) of the largest: *first, and *end, one behind the last. A
 * silent curve is whole. */
void audible_frames(const struct plot_curve *curve, double db, int *first, int *end);

/* Traces a curve. kind: PLOT_IMPULSE, PLOT_IMPULSE_DB or PLOT_STEP. x: seconds. The response is silent before its first
 * and behind its last frame. */
void time_trace(const struct plot_curve *curve, enum plot_panel kind, const struct axis *x, struct trace *trace);

/* ---- magnitude, phase and group delay --------------------------------------------------------- */

/* Adds the points (dB, degrees, ms) to those of the three traces that are not NULL; a power has only a magnitude. x:
 * Hz. false: no memory. */
bool frequency_traces(const struct plot_curve *curve, const struct axis *x, double octaves, struct trace *magnitude,
                      struct trace *phase, struct trace *group_delay);

#endif
