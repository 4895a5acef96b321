/* reference - the definition of a right output: linear convolution in float64, one output frame at a time. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "haloconv.h"

#include <stdbool.h>

/* sum_k h[k] x[frame - k], x = 0 outside 0...n_x - 1. */
double reference_sum(const float *h, int n_taps, const float *x, int64_t n_x, int64_t frame);

/* Frame `frame` of output channel `out` of a mask of n routes. in[n_in][n_x]; NaN and Inf in it count as 0 already. */
double reference_frame(const hc_route *routes, int n, const float *const *in, int64_t n_x, int out, int64_t frame);

/* sum[m] += sum_n b[n] a[m + from - n], m < n_y; reversed: of b[n] a[n + m - from] instead. a = 0 outside 0...n_a - 1.
 * squares[m]: the same of the squared products. */
void reference_add(const float *a, int64_t n_a, const float *b, int64_t n_b, int64_t from, bool reversed, int64_t n_y,
                   double *sum, double *squares);

/* The textbook's convolution (section 7.1): mask not flipped, centred, ghost cells 0. P[width] */
void reference_textbook(const double *N, int width, const double *M, int mask_width, double *P);

#endif
