/* offline - the convolver of files, whole signals and tensors: convolution without a deadline, window by window.
 *
 *   row         frames of one signal in windows of 2S frames; each window is transformed once (dsp/fft/fft.h)
 *   response    partitions; partition p meets window w - ratio p of a row in output window w
 *   list        the products of an output window, each of a row and a response
 *   sum, back   the sum of the products, transformed back: its last S frames are the output window (overlap-save)
 *
 * The callers differ in how they read rows and how they share the windows among threads. The order of a sum depends on
 * the list alone, not on the windows that are computed together.
 */
#ifndef HALOCONV_OFFLINE_H
#define HALOCONV_OFFLINE_H

#include "dsp/fft/fft.h"

#include <stdbool.h>
#include <stdint.h>

struct offline {
    const struct fft *fft;
    int ratio;               /* distance of adjacent partitions in windows                                            */
    int n_entries;           /* entries of a row's ring, which holds the latest windows                               */
    size_t stride;           /* floats from entry to entry                                                            */
    float *spectra;          /* [rows][n_entries][stride]: window w is in entry w % n_entries                         */
    float *zeros;            /* [2S]: the spectrum of silence                                                         */
    struct offline_range {
        int64_t first, last;
    } *ranges;               /* [rows]: windows outside the range are silent and have no spectrum                     */
};

struct offline_product {
    int row;
    int first, end;          /* partitions of the response: [first, end)                                              */
    const float *h;          /* chunk 0 of partition `first`, then chunk 0 of the next partition, ...                 */
};

struct offline_list {
    const struct offline_product *products;
    int n;
    size_t stride;           /* floats from chunk to chunk of a response                                              */
};

/* A range without windows. */
static const struct offline_range offline_silence = {INT64_MIN / 2, INT64_MIN / 2};

/* Makes rings for n_rows silent rows. The caller owns fft. false: no memory; offline_close must still be called. */
bool offline_open(struct offline *o, const struct fft *fft, int ratio, int n_rows, int n_entries);
void offline_close(struct offline *o);

/* Returns the entry of a window in a row's ring. */
float *offline_spectrum(const struct offline *o, int row, int64_t window);

/* Returns the number of windows to compute together if `left` windows are left: 1, 2 or FFT_BLOCKS. */
static inline int offline_windows(int64_t left)
{
    return left >= FFT_BLOCKS ? FFT_BLOCKS : left >= 2 ? 2 : 1;
}

/* Writes to y[t] the products' sum in output window `window` + t, t < n (1, 2 or FFT_BLOCKS), chunks [from, end) of the
 * bins. false: all products are silent; y is then 0. */
bool offline_sum(const struct offline *o, const struct offline_list *list, int64_t window, int n, int from, int end,
                 float *const *y);

/* Transforms a sum back, in place, and writes frames [from, from + n) of its last S frames to out. scratch: [S]. */
void offline_back(const struct offline *o, float *sum, int from, int n, float *out, float *scratch);

#endif
