/* simd - the inner loops of the CPU backend, built once for each instruction set and chosen at start. */
#ifndef HALOCONV_SIMD_H
#define HALOCONV_SIMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Floats that every loop may read past the end of x and past a spectrum (a whole vector is loaded); also the alignment
 * of spectra in floats. */
#define SIMD_PAD 16

#define SIMD_BLOCKS 4 /* time blocks that cmac serves at once: each h loaded is used four times */

struct simd_row { /* spectra that are multiplied: one of a mask with SIMD_BLOCKS of the input; aligned to SIMD_PAD floats */
    const float *h;
    const float *x[SIMD_BLOCKS];
};

struct long_fft;
struct long_product {   /* one input's partitions times one response's, for one chunk of bins            */
    const float *x;     /* [n_slots][LONG_CHUNK]: a ring of transforms, the newest wanted at `slot`        */
    const float *h;     /* [n_partitions][LONG_CHUNK]                                                     */
    int slot, n_slots, n_partitions;
};

struct simd_long {      /* the pieces of long_fft.h; all pointers aligned to 64 bytes                    */
    void (*columns_in)(const struct long_fft *fft, float *work, const float *before, const float *now, int batch);
    void (*rows_in)(const struct long_fft *fft, float *work, float *spectrum, size_t stride, int piece);
    /* y[LONG_CHUNK] = or += the sums of n products */
    void (*products)(float *y, const struct long_product *products, int n, bool add);
    void (*rows_out)(const struct long_fft *fft, float *work, int piece);
    void (*columns_out)(const struct long_fft *fft, const float *work, float *out, int batch);
};

struct simd {
    const char *name; /* "avx512", "avx2", "baseline" */

    /* dst = src with NaN and Inf replaced by 0; returns how many were. Raises *peak_bits to the bits of the largest
     * magnitude: those of floats that are not negative sort as unsigned integers do. */
    size_t (*copy_finite)(float *dst, const float *src, int n, uint32_t *peak_bits);
    /* How many of x are beyond full scale; raises *peak_bits likewise. */
    size_t (*measure)(const float *x, int n, uint32_t *peak_bits);

    /* y[i] += sum_k h[k] x[i-k], i < n, k < n_taps. Reads x[-(n_taps-1)] to x[n-1 + SIMD_PAD]. Sums 128 taps at a time
     * before adding them up, which keeps the rounding of long and of all-positive masks below -120 dB. */
    void (*fir)(float *y, const float *x, const float *h, int n, int n_taps);

    /* Complex multiply-accumulate of partitions, interleaved re im: for t < n_t, bins [0, n_bins):
     *   y[t*stride] += sum_{p < n_p} x[(t - p)*stride] * h[p*stride]        n_t is 1 or SIMD_BLOCKS
     * All strides in floats; y, x, h aligned to SIMD_PAD floats; n_bins a multiple of SIMD_PAD / 2. */
    void (*cmac)(float *y, const float *x, const float *h, size_t stride, int n_p, int n_t, int n_bins);

    /* The same over a list of rows that may lie anywhere, for SIMD_BLOCKS time blocks t at once:
     *   y[t][i] (add: += else =) sum_r rows[r].x[t][x_at + i] * rows[r].h[h_at + i]
     * over n_bins bins, a multiple of SIMD_PAD / 2. */
    void (*cmac_rows)(float *const *y, bool add, const struct simd_row *rows, int n_rows, size_t x_at, size_t h_at,
                      int n_bins);

    const struct simd_long *pieces;
};

/* The best that this processor runs. */
const struct simd *simd_choose(void);

/* Flush denormals to zero on this thread; returns what simd_denormals_restore puts back. [rt] */
unsigned simd_denormals_off(void);
void simd_denormals_restore(unsigned state);

#endif
