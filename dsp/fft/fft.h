/* fft - the real transform of the library: fast convolution of 2S real frames by S complex bins.
 *
 * Method. A negacyclic convolution by Nussbaumer's right-angle transform (Nussbaumer, "Fast Fourier Transform and
 * Convolution Algorithms", 2nd ed., section 8.3). The input is 2S real frames: `before` and `now`, S each. The sequence
 * z[n] = (before[n] - i now[n]) e^(-i pi n / 2S), n < S, gets a plain complex DFT of S points. Bins multiply as they
 * are: no bin mirrors another, no bin is special, and any order will do. The inverse gives z; `now` is minus the
 * imaginary part of z[n] e^(i pi n / 2S). Overlap-save: a product of the spectra of 2S frames and of T taps followed by
 * zeros is the linear convolution in its last 2S - T + 1 frames; the inverse gives the last S.
 *
 * Spectrum. It has groups of FFT_LANES bins, [S / 16][re 16, im 16]. The passes leave the bins in an order that depends
 * on the size and the instruction set: multiply only spectra of the same struct fft. Groups lie in chunks of
 * fft->chunk floats (at most FFT_CHUNK), `stride` floats apart, so that the partitions of one chunk can lie in one
 * stream.
 *
 * Scaling. The forward transform does not scale; the inverse multiplies by S.
 * Alignment. `before`, `now` and `out` may have any; align `work` and spectra to 64 bytes, for speed.
 * Threads. Tables are constant; any number of threads may use one struct fft.
 * Error. Forward and inverse together have an rms error of at most 3e-7 of the signal's (tests/fft/fft_test.c checks).
 *
 * Sizes below FFT_LONG are one function without steps. Longer sizes are rows x columns, n = n_cols * r + c, and are cut
 * into steps, of about a microsecond up to S = 65536, so that the work can be spread evenly over hops:
 *
 *   columns step    16 columns, one in each lane of a vector: load, n_rows-point transform, times
 *                   e^(-2 pi i (k + 1/4) c / S), transpose to 16 rows, one in each lane -> work
 *   rows step       16 rows, one in each lane: n_cols-point transform -> spectrum; long rows have several stages, each
 *                   of them a step
 *
 * The inverse does the same steps in reverse. Lanes exchange data only in the transposition. The transforms are in
 * place and leave digit-reversed order, with which the inverse begins: nothing is reordered.
 *
 *   work       [n_rows / 16][n_cols][re 16, im 16]
 */
#ifndef HALOCONV_FFT_H
#define HALOCONV_FFT_H

#include "dsp/base/isa.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    FFT_LANES = 16,
    FFT_GROUP = 2 * FFT_LANES, /* floats of FFT_LANES bins */
    FFT_CHUNK = 256,           /* floats: 8 groups of bins */
    FFT_MIN = 16,              /* smallest S */
    FFT_MAX = 1 << 22,
    FFT_LONG = 256,     /* smallest S whose transform has steps, with at least 16 rows and 16 columns */
    FFT_MAX_ROWS = 256, /* a column step's 16 columns, 32 KiB, stay in the L1 cache */
};

struct fft_steps;
struct fft_short;
struct fft_products;

struct fft {
    int size;                    /* S */
    int chunk, n_chunks;         /* floats in a chunk, 2S or FFT_CHUNK; chunks in a spectrum */
    int n_rows, n_cols;          /* multiples of 16; short: n_rows * n_cols == S, n_cols lanes */
    int column_steps, row_steps; /* number of steps of a transform; short: 0 and 1 */
    int row_stages;       /* steps for 16 rows: 1, or 1 + radix: the first pass, then each sub-transform */
    float *weights;       /* [n_rows][2]: e^(-i pi r / 2 n_rows) */
    float *step_twiddles; /* long: [n_cols / 16][n_rows][re 16, im 16]: e^(-2 pi i c (k + 1/4) / S); k in the passes'
                              order. short: [n_rows][re n_cols, im n_cols] */
    float *column_twiddles, *row_twiddles;  /* twiddles of the transforms of n_rows and n_cols points */
    const struct fft_steps *steps;          /* NULL if S < FFT_LONG */
    const struct fft_short *single, *batch; /* NULL if S >= FFT_LONG */
    const struct fft_products *products;
    enum isa isa;
    int uses;
    struct fft *next;
};

struct fft_steps { /* the steps of a transform with S >= FFT_LONG */
    void (*columns_in)(const struct fft *fft, float *work, const float *before, const float *now, int step);
    void (*rows_in)(const struct fft *fft, float *work, float *spectrum, size_t stride, int step);
    void (*rows_out)(const struct fft *fft, float *work, int step);
    void (*columns_out)(const struct fft *fft, const float *work, float *out, int step);
};
struct fft_short { /* transforms `channels` signals at once; rows have `sub` points */
    int channels, sub;
    void (*in)(const struct fft *fft, const float *const *before, const float *const *now, float *const *spectrum);
    void (*out)(const struct fft *fft, const float *const *spectrum, float *const *out);
};

enum { FFT_BLOCKS = 4 }; /* time blocks that are multiplied at once: each value of h is loaded once for all blocks */

struct fft_ring {   /* one input's FDL times one response's partitions, for one chunk of bins */
    const float *x; /* [n_entries][chunk]: a ring; `entry` meets the first partition, entry - 1 the second */
    const float *h; /* [n_partitions][chunk] */
    int entry, n_entries, n_partitions;
};
struct fft_blocks { /* one partition times FFT_BLOCKS spectra of its input */
    const float *h;
    const float *x[FFT_BLOCKS];
};
struct fft_products { /* `floats` is the size of a chunk, fft->chunk. [rt] */
    /* Writes the sum of n products to y[floats], or adds it if `add`. */
    void (*rings)(float *y, const struct fft_ring *list, int n, bool add, int floats);
    /* Does the same for n_t time blocks t at once, 1, 2 or FFT_BLOCKS, whose spectra may lie anywhere:
     *   y[t][i] = or += sum_k list[k].x[t][x_at + i] * list[k].h[h_at + i],   i < floats */
    void (*blocks)(float *const *y, int n_t, bool add, const struct fft_blocks *list, int n, size_t x_at, size_t h_at,
                   int floats);
};

/* Returns the radix of the first pass of a transform of n points; each later pass has radix 8. */
static inline int fft_first_radix(int n)
{
    int rest = __builtin_ctz((unsigned)n) % 3;
    return rest == 0 ? 8 : 1 << rest;
}

/* Returns the tables of a size, a power of 2, FFT_MIN to FFT_MAX; all callers share them. NULL: no memory. [setup] */
const struct fft *fft_get(int size);
/* Releases the tables; NULL is allowed. [setup] */
void fft_put(const struct fft *fft);

/* Does all steps of a transform. work: [2S]; it may be `spectrum` if the chunks are contiguous. [rt] */
void fft_forward(const struct fft *fft, const float *before, const float *now, float *work, float *spectrum,
                 size_t stride);
/* Does all steps of the inverse: out[S], times S. Destroys the spectrum, whose chunks must be contiguous. [rt] */
void fft_inverse(const struct fft *fft, float *spectrum, float *out);
/* Do fft_forward and fft_inverse for n signals; short signals lie side by side in the lanes of a vector. [rt] */
void fft_forward_batch(const struct fft *fft, int n, const float *const *before, const float *const *now, float *work,
                       float *const *spectra, size_t stride);
void fft_inverse_batch(const struct fft *fft, int n, float *const *spectra, float *const *out);

#endif
