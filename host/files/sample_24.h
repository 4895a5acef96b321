/* sample_24 - three bytes a sample, four samples at a time: no loop that a compiler vectorises by itself.
 *
 *   raw      [a0 a1 a2][b0 b1 b2][c0 c1 c2][d0 d1 d2] ..    bytes, the lowest first
 *   words    [ 0 a0 a1 a2][ 0 b0 b1 b2][ 0 c0 c1 c2][ 0 d0 d1 d2]    one shuffle, either way
 *
 * One and two channels, where the processor has AVX2; sample.c does the rest of the frames, and all of others.
 */
#ifndef SAMPLE_24_H
#define SAMPLE_24_H

#include "sample.h"

/* As sample_split and sample_join with SAMPLE_S24 and 24 bits. Return how many frames are done, from the first on. */
size_t sample_24_split(const void *raw, int n_channels, size_t n_frames, float *planar, size_t stride);
size_t sample_24_join(const float *planar, size_t stride, int n_channels, size_t n_frames, void *raw,
                      struct sample_peak *seen);

#endif
