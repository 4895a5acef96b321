/* sample - converts between the samples of sound files (interleaved; integers or floats) and planar floats.
 *
 * Integers are those of libsndfile: in the upper bits of 16 or 32, full scale 2^15 or 2^31. The exception is 24 bits:
 * three bytes a sample as in a file, the lowest first, because libsndfile converts those one by one. The loops are
 * plain so that the compiler vectorises them: ten minutes of stereo are 57 million samples.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sample_kind { SAMPLE_S16, SAMPLE_S24, SAMPLE_S32, SAMPLE_FLOAT };

struct sample_peak {    /* peak of a signal; start with zeros */
    uint64_t clipped;   /* samples beyond full scale */
    uint32_t peak_bits; /* largest magnitude, as the bits of a float: they sort like the numbers */
};

size_t sample_bytes(enum sample_kind kind);

/* raw[n_frames][n_channels] -> planar: channel ch starts at planar + ch * stride. */
void sample_split(enum sample_kind kind, const void *raw, int n_channels, size_t n_frames, float *planar,
                  size_t stride);

/* planar -> raw, rounded to `bits` (SAMPLE_FLOAT: as they are) and limited to full scale; adds to *seen. dither_from:
 * SAMPLE_UNDITHERED, or, for SAMPLE_S16, the number of planar's first frame in the file. Triangular noise of less than
 * one step either way is then added before the rounding (TPDF dither): mean and variance of the error do not depend on
 * the signal (Lipshitz, Wannamaker and Vanderkooy, 1992). The noise depends on channel and frame alone, and repeats
 * after 2^32 frames. *seen counts the samples without the noise. */
enum { SAMPLE_UNDITHERED = -1 };
void sample_join(enum sample_kind kind, int bits, const float *planar, size_t stride, int n_channels, size_t n_frames,
                 void *raw, int64_t dither_from, struct sample_peak *seen);

float sample_peak_value(const struct sample_peak *seen);

/* Was a sample infinite or NaN? A sum with infinite samples becomes NaN. */
bool sample_peak_overflows(const struct sample_peak *seen);

#endif
