/* recursive_filter - stability and taps of filters that a difference equation of any order defines.
 *
 *   y[n] = b[0] x[n] + ... + b[n_b - 1] x[n - n_b + 1] - a[1] y[n - 1] - ... - a[n_a - 1] y[n - n_a + 1]
 */
#ifndef HALOCONV_RECURSIVE_FILTER_H
#define HALOCONV_RECURSIVE_FILTER_H

#include <stdbool.h>

enum { RECURSION_ORDER = 256 }; /* max. order, n_a - 1, of a recursion: rounding spoils higher ones */

/* Are all poles inside the unit circle? Yes if all reflection coefficients of the step-down recursion are below 1. */
bool recursion_is_stable(const double *a, int n_a);

/* Computes the response of a stable recursion and cuts it as biquad_taps does; n_a >= 1, n_b >= 1. 0: no memory. */
int recursion_taps(const double *b, int n_b, const double *a, int n_a, double error_db, int max, double **taps,
                   double *rest_db);

#endif
