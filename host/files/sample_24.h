/* sample_24 - converts 24-bit samples, four at a time, with AVX2; the compiler does not vectorise three bytes a sample.
 *
 *   raw      [a0 a1 a2][b0 b1 b2][c0 c1 c2][d0 d1 d2] ..    bytes, the lowest first
 *   words    [ 0 a0 a1 a2][ 0 b0 b1 b2][ 0 c0 c1 c2][ 0 d0 d1 d2]    one shuffle, either way
 *
 * Only for one and two channels, on a processor with AVX2. sample.c converts the last frames and all other cases.
 */
#ifndef SAMPLE_24_H
#define SAMPLE_24_H

#include "sample.h"

/* Do the same as sample_split and sample_join with SAMPLE_S24 and 24 bits. Return how many frames they converted, from
 * the first on. */
size_t sample_24_split(const void *raw, int n_channels, size_t n_frames, float *planar, size_t stride);
size_t sample_24_join(const float *planar, size_t stride, int n_channels, size_t n_frames, void *raw,
                      struct sample_peak *seen);

#endif
