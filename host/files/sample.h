/* sample - between the numbers of sound files (frame by frame, 16 or 32-bit integers or floats) and planar floats.
 *
 * Integers are taken and given as libsndfile has them: at the top of 16 or 32 bits, full scale 2^15 or 2^31; but 24
 * bits as they are in a file, three bytes a sample, the lowest first, where libsndfile would handle them one by one.
 * The loops are plain so that the compiler vectorises them: at 57 million samples for ten minutes of stereo they are a
 * good part of what a file costs beside the convolution.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sample_kind { SAMPLE_S16, SAMPLE_S24, SAMPLE_S32, SAMPLE_FLOAT };

struct sample_peak {    /* what was seen of a signal; start with zeros */
    uint64_t clipped;   /* samples beyond full scale */
    uint32_t peak_bits; /* largest magnitude, as the bits of a float: they sort like the numbers */
};

size_t sample_bytes(enum sample_kind kind);

/* raw[n_frames][n_channels] -> planar: channel ch starts at planar + ch * stride. */
void sample_split(enum sample_kind kind, const void *raw, int n_channels, size_t n_frames, float *planar,
                  size_t stride);

/* planar -> raw, rounded to `bits` (SAMPLE_FLOAT: as they are) and limited to full scale; adds to *seen. */
void sample_join(enum sample_kind kind, int bits, const float *planar, size_t stride, int n_channels, size_t n_frames,
                 void *raw, struct sample_peak *seen);

float sample_peak_value(const struct sample_peak *seen);

/* Was one beyond the range of a float, or NaN, as what is infinite becomes in a sum? */
bool sample_peak_overflows(const struct sample_peak *seen);

#endif
