/* stretch - resamples a response to the frames of another clock; sweep_clock.h measures the ratio. */
#ifndef STRETCH_H
#define STRETCH_H

#include <stddef.h>

/* Fills y[n]: frame i is the value of x[n_x] at first + i * ratio, by a windowed sinc; x counts as 0 beyond its ends. x
 * must have little above 0.49 of its rate; then the error is below -110 dB. */
void stretch(const double *x, size_t n_x, double first, double ratio, double *y, size_t n);

#endif
