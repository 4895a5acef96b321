/* recursive_filter - filters given by a difference equation of any order: are they stable, and their taps.
 *
 *   y[n] = b[0] x[n] + ... + b[n_b - 1] x[n - n_b + 1] - a[1] y[n - 1] - ... - a[n_a - 1] y[n - n_a + 1]
 */
#ifndef HALOCONV_RECURSIVE_FILTER_H
#define HALOCONV_RECURSIVE_FILTER_H

#include <stdbool.h>

enum { RECURSION_ORDER = 256 }; /* highest of a stable recursion, n_a - 1: rounding makes higher ones useless */

/* Are all poles inside the unit circle? By the step-down recursion: all reflection coefficients are below 1. */
bool recursion_is_stable(const double *a, int n_a);

/* The response, cut as biquad_taps does. It must be stable; n_a >= 1, n_b >= 1. 0: no memory. */
int recursion_taps(const double *b, int n_b, const double *a, int n_a, double error_db, int max, double **taps,
                   double *rest_db);

#endif
