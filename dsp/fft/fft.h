/* long_fft - the transform of a tail level's partition, cut into steps of about a microsecond, so that its work can be
 * spread evenly over hops.
 *
 * Overlap-save by a negacyclic convolution (Nussbaumer's right-angle transform). The input is 2S real frames: `before`
 * and `now`, S each. The sequence z[n] = (before[n] - i now[n]) e^(-i pi n / 2S), n < S, has a plain complex DFT, whose
 * bins multiply as they are: no bin mirrors another, none is special, and any order will do. On the way back, minus the
 * imaginary part of z[n] e^(i pi n / 2S) is the frame `now` of the convolution. The taps (at most S, in `before`) never
 * wrap into it.
 *
 * The S points are rows x columns, n = n_cols * r + c. The transform runs down the columns and then along the rows:
 *
 *   columns step    16 columns, one in each lane of a vector: load, n_rows-point transform, times
 *                   e^(-2 pi i k c / S), transpose to 16 rows, one in each lane -> work
 *   rows step       16 rows, one in each lane: n_cols-point transform -> spectrum; long rows take several stages, each
 *                   of them a step
 *
 * The way back takes the same steps in reverse. Lanes exchange data only in the transposition, so every vector is full
 * whatever its width. The transforms are in place and leave digit-reversed order, with which the way back begins:
 * nothing is reordered.
 *
 *   work       [n_rows / 16][n_cols][re 16, im 16]
 *   spectrum   [n_chunks][LONG_CHUNK floats] of 128 bins each, chunks `stride` floats apart, so that the partitions of
 *              one chunk are contiguous in memory: products read them in one stream
 */
#ifndef HALOCONV_LONG_FFT_H
#define HALOCONV_LONG_FFT_H

#include "dsp/cpu/simd.h"

#include <stddef.h>

enum {
    LONG_LANES = 16,
    LONG_CHUNK = 256, /* floats: 8 columns of 16 rows */
    LONG_LEAST = 256, /* S; its rows and columns are 16 at least */
    LONG_MOST_ROWS = 256, /* a column step's 16 columns, 32 KiB, stay in the L1 cache */
};

struct long_fft {
    int size;              /* S */
    int n_rows, n_cols;    /* multiples of 16 */
    int column_steps, row_steps; /* of a transform */
    int row_stages;        /* steps of 16 rows: 1; or 1 + radix: the first pass, then each transform that it leaves */
    int n_chunks;          /* S / 128 */
    float *weights;        /* [n_rows][2]: e^(-i pi r / 2 n_rows) */
    float *step_twiddles;  /* [n_cols / 16][n_rows][re 16, im 16]: e^(-2 pi i c (k + 1/4) / S); in the rows' order */
    float *column_twiddles, *row_twiddles; /* of the transforms of n_rows and n_cols points */
    int uses;
    struct long_fft *next;
};

/* The tables for a size, shared by all engines. NULL: no memory. [setup] */
const struct long_fft *long_fft_get(int size);
void long_fft_put(const struct long_fft *fft);

/* All steps of a transform. work: [2S]; it may be `spectrum` if `stride` is LONG_CHUNK. [rt] */
void long_fft_forward(const struct long_fft *fft, const struct simd_long *steps, const float *before, const float *now,
                      float *work, float *spectrum, size_t stride);
/* All steps of the way back: S frames, times S; destroys the spectrum, whose chunks are contiguous. [rt] */
void long_fft_inverse(const struct long_fft *fft, const struct simd_long *steps, float *spectrum, float *out);

#endif
