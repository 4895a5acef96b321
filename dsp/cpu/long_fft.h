/* long_fft - the transform of a far partition, cut into pieces of about a microsecond, so that its work can be spread
 * evenly over the ticks in which it has to be done.
 *
 * Overlap-save by a negacyclic convolution (Nussbaumer's right-angle transform): of 2S real frames, the S before and the
 * S now, z[n] = (before[n] - i now[n]) e^(-i pi n / 2S), n < S, has a plain complex DFT whose bins multiply as they are:
 * no bin is a mirror of another, none is special, and any order will do. Back, minus the imaginary part of
 * z[n] e^(i pi n / 2S) is the frame `now` of the convolution, and the taps (at most S, in `before`) never wrap into it.
 *
 * The S points are rows x columns, n = n_cols * r + c; the transform runs down the columns and then along the rows:
 *
 *   columns piece   16 columns side by side, one a lane: load, n_rows-point transform, turn by e^(-2 pi i k c / S),
 *                   transpose to 16 rows side by side -> work
 *   rows piece      16 rows side by side: n_cols-point transform -> spectrum; long rows in several pieces
 *
 * and the same backwards. Lanes never talk to one another but in the transposition, so every vector is full whatever its
 * width. The transforms are in place and leave digit-reversed order, which the way back takes: nothing is reordered.
 *
 *   work       [n_rows / 16][n_cols][re 16, im 16]
 *   spectrum   [n_chunks][LONG_CHUNK floats], chunks `stride` floats apart, of 128 bins each, so that the partitions of one
 *              chunk lie side by side in memory: products read them in one stream
 */
#ifndef HALOCONV_LONG_FFT_H
#define HALOCONV_LONG_FFT_H

#include <stddef.h>

enum {
    LONG_LANES = 16,
    LONG_CHUNK = 256, /* floats: 8 columns of 16 rows */
    LONG_MIN = 256,   /* S */
    LONG_MAX = 65536,
};

struct long_fft {
    int size;              /* S */
    int n_rows, n_cols;    /* multiples of 16 */
    int column_pieces, row_pieces; /* of a transform */
    int row_parts;         /* pieces of 16 rows: 1, or the passes' first and what it leaves, one by one */
    int n_chunks;          /* S / 128 */
    float *weights;        /* [n_rows][2]: e^(-i pi r / 2 n_rows) */
    float *turns;          /* [n_cols / 16][n_rows][re 16, im 16]: e^(-2 pi i c (k + 1/4) / S); rows in their order */
    float *down, *along;   /* twiddles of the transforms of n_rows and n_cols points */
    int uses;
    struct long_fft *next;
};

/* The tables for a size, shared by all who ask: NULL when memory ran out. [setup] */
const struct long_fft *long_fft_get(int size);
void long_fft_put(const struct long_fft *fft);

#endif
