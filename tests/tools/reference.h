/* reference - the definition of a right output: linear convolution in float64, one output frame at a time. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "haloconv.h"

/* sum_k h[k] x[frame - k], x = 0 outside 0...n_x - 1. */
double reference_sum(const float *h, int n_taps, const float *x, int64_t n_x, int64_t frame);

/* Frame `frame` of output channel `out` of a mask of n routes. in[n_in][n_x]; NaN and Inf in it count as 0 already. */
double reference_frame(const hc_route *routes, int n, const float *const *in, int64_t n_x, int out, int64_t frame);

/* The textbook's convolution (section 7.1): mask not flipped, centred, ghost cells 0. P[width] */
void reference_textbook(const double *N, int width, const double *M, int mask_width, double *P);

#endif
