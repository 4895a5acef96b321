/* axis - values along one side of a panel, and the round values that are marked there. */
#ifndef PLOT_AXIS_H
#define PLOT_AXIS_H

#include <stdbool.h>
#include <stddef.h>

struct axis {
    double from, to;      /* values */
    double start, end;    /* positions of the range's ends in the drawing */
    double step;          /* distance between two marks, 0: no marks; not used if is_log */
    bool is_log;
    bool in_ms;           /* the labels are in ms, the values in seconds */
};

enum { AXIS_MAX_MARKS = 64 };

double axis_position(const struct axis *axis, double value);

/* Chooses the step: 1, 2 or 5 times a power of ten, with at most `max` steps in the range. */
void axis_choose_step(struct axis *axis, int max);

/* Widens the range to whole steps. */
void axis_widen(struct axis *axis);

/* Writes the values to mark to marks[AXIS_MAX_MARKS]; returns their number. */
int axis_marks(const struct axis *axis, double *marks);

/* Writes a label: "100", "-0.5", "2k" on a logarithmic axis. A mark that gets no text, such as 30 Hz on a long axis,
 * has "". */
void axis_label(const struct axis *axis, double mark, char *text, size_t cap);

#endif
