/* axis - values along one side of a panel, and the round values that are marked there. */
#ifndef PLOT_AXIS_H
#define PLOT_AXIS_H

#include <stdbool.h>
#include <stddef.h>

struct axis {
    double from, to;      /* values */
    double start, end;    /* their positions in the drawing */
    double step;          /* between two marks, 0: none; of an axis that is_log not used */
    bool is_log;
    bool in_ms;           /* the labels are in ms, the values in seconds */
};

enum { AXIS_MAX_MARKS = 64 };

double axis_position(const struct axis *axis, double value);

/* Chooses the step: 1, 2 or 5 times a power of ten, with at most `max` of them in the range. */
void axis_choose_step(struct axis *axis, int max);

/* Widens the range to whole steps. */
void axis_widen(struct axis *axis);

/* The values to mark -> marks[AXIS_MAX_MARKS]; returns their number. */
int axis_marks(const struct axis *axis, double *marks);

/* "100", "-0.5", "2k" on a logarithmic axis. A mark that gets no text, such as 30 Hz on a long axis, has "". */
void axis_label(const struct axis *axis, double mark, char *text, size_t cap);

#endif
