/* fft_long - transforms of FFT_LONG bins or more (fft.h), cut into short steps: columns, then rows. Built once for
 * each instruction set; see the Makefile.
 *
 * Data is [n][re 16, im 16]: 16 signals, one in each lane. A build with narrower vectors computes LANES at a time.
 */
#include "fft_butterflies.h"

#define SUB LANES
#include "transpose.h"

enum { CHUNK_COLS = FFT_CHUNK / FFT_GROUP };

/* Does a butterfly of a forward pass: points at p, `apart` floats from each other. w: twiddles of points 1 ... radix -
 * 1; NULL: all are 1. */
ALWAYS_INLINE void forward_butterfly(float *p, int apart, int radix, const float *w)
{
    struct cvec a[8];
    for (int q = 0; q < radix; q++) a[q] = c_load(p + q * apart);
    dft(a, radix);
    c_store(p, a[0]);
    for (int q = 1; q < radix; q++) c_store(p + q * apart, w ? c_times(a[q], w + 2 * q - 2) : a[q]);
}
ALWAYS_INLINE void inverse_butterfly(float *p, int apart, int radix, const float *w)
{
    struct cvec a[8];
    a[0] = c_exchange(c_load(p));
    for (int q = 1; q < radix; q++) {
        a[q] = c_exchange(c_load(p + q * apart));
        if (w) a[q] = c_times(a[q], w + 2 * q - 2);
    }
    dft(a, radix);
    for (int q = 0; q < radix; q++) c_store(p + q * apart, c_exchange(a[q]));
}

/* Does all passes of radix 8 except the last one (decimation in frequency): n / len transforms of `len` points. */
ALWAYS_INLINE void forward_middle(float *d, const float *w, int n, int len)
{
    for (; len > 8; w += 14 * (len / 8), len /= 8)
        for (float *base = d; base < d + n * FFT_GROUP; base += len * FFT_GROUP)
            for (int j = 0; j < len / 8; j++)
                forward_butterfly(base + j * FFT_GROUP, len / 8 * FFT_GROUP, 8, w + 14 * j);
}
/* Inverts forward_middle. w: the address behind the last twiddle. */
ALWAYS_INLINE void inverse_middle(float *d, const float *w, int n, int len)
{
    for (int l = 64; l <= len; l *= 8) {
        w -= 14 * (l / 8);
        for (float *base = d; base < d + n * FFT_GROUP; base += l * FFT_GROUP)
            for (int j = 0; j < l / 8; j++) inverse_butterfly(base + j * FFT_GROUP, l / 8 * FFT_GROUP, 8, w + 14 * j);
    }
}

/* Transposes LANES rows of LANES floats, FFT_GROUP apart. */
ALWAYS_INLINE void transpose_tile(float *to, const float *from)
{
    vec a[LANES];
    for (int i = 0; i < LANES; i++) a[i] = vec_load(from + i * FFT_GROUP);
    transpose_lanes(a);
    for (int i = 0; i < LANES; i++) vec_store(to + i * FFT_GROUP, a[i]);
}

/* Transposes 16 points of 16 lanes: points become lanes. */
ALWAYS_INLINE void transpose(float *to, const float *from)
{
    for (int re_im = 0; re_im < FFT_GROUP; re_im += FFT_LANES)
        for (int i = 0; i < FFT_LANES; i += LANES)
            for (int j = 0; j < FFT_LANES; j += LANES)
                transpose_tile(to + re_im + j * FFT_GROUP + i, from + re_im + i * FFT_GROUP + j);
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

/* Does the first pass, which loads the input and weights it. */
ALWAYS_INLINE void columns_first(const struct fft *f, float *d, const float *before, const float *now, int radix)
{
    int m = f->n_rows / radix;
    const float *w = f->column_twiddles;
    size_t apart = (size_t)m * (size_t)f->n_cols;
    for (int j = 0; j < m; j++, w += 2 * (radix - 1)) {
        struct cvec a[8];
        size_t at = (size_t)j * (size_t)f->n_cols;
        for (int q = 0; q < radix; q++) {
            struct cvec z = {vec_load(before + at + q * apart), -vec_load(now + at + q * apart)};
            a[q] = c_times(z, f->weights + 2 * (j + q * m));
        }
        dft(a, radix);
        c_store(d + j * FFT_GROUP, a[0]);
        for (int q = 1; q < radix; q++) c_store(d + (j + q * m) * FFT_GROUP, c_times(a[q], w + 2 * q - 2));
    }
}
/* Does the last pass of the inverse, which weights the output and stores frames. */
ALWAYS_INLINE void columns_last_inverse(const struct fft *f, const float *d, float *out, int radix)
{
    int m = f->n_rows / radix;
    const float *w = f->column_twiddles;
    size_t apart = (size_t)m * (size_t)f->n_cols;
    for (int j = 0; j < m; j++, w += 2 * (radix - 1)) {
        struct cvec a[8];
        a[0] = c_exchange(c_load(d + j * FFT_GROUP));
        for (int q = 1; q < radix; q++) a[q] = c_times(c_exchange(c_load(d + (j + q * m) * FFT_GROUP)), w + 2 * q - 2);
        dft(a, radix);
        for (int q = 0; q < radix; q++) { /* re and im are exchanged: -imaginary part of (im + i re) / weight */
            const float *weight = f->weights + 2 * (j + q * m);
            vec_store(out + (size_t)j * (size_t)f->n_cols + q * apart, a[q].im * weight[1] - a[q].re * weight[0]);
        }
    }
}

static void columns_in(const struct fft *f, float *work, const float *before, const float *now, int step)
{
    float d[FFT_MAX_ROWS * FFT_GROUP] __attribute__((aligned(64)));
    const float *twiddles = f->step_twiddles + (size_t)step * (size_t)f->n_rows * FFT_GROUP;
    int n = f->n_rows, len = n / fft_first_radix(n);
    before += step * FFT_LANES;
    now += step * FFT_LANES;
    for (int l = 0; l < FFT_LANES; l += LANES) {
#define FIRST(radix) columns_first(f, d + l, before + l, now + l, radix)
        WITH_FIRST_RADIX(n, FIRST)
#undef FIRST
        forward_middle(d + l, second_twiddles(f->column_twiddles, n), n, len);
        for (int k = 0; k < n; k += 8) {
            struct cvec a[8];
            for (int q = 0; q < 8; q++) a[q] = c_load(d + (k + q) * FFT_GROUP + l);
            dft_8(a);
            for (int q = 0; q < 8; q++)
                c_store(d + (k + q) * FFT_GROUP + l, c_product(a[q], c_load(twiddles + (k + q) * FFT_GROUP + l)));
        }
    }
    for (int g = 0; g < n / FFT_LANES; g++)
        transpose(work + ((size_t)g * (size_t)f->n_cols + (size_t)step * FFT_LANES) * FFT_GROUP,
                  d + g * FFT_LANES * FFT_GROUP);
}

static void columns_out(const struct fft *f, const float *work, float *out, int step)
{
    float d[FFT_MAX_ROWS * FFT_GROUP] __attribute__((aligned(64)));
    const float *twiddles = f->step_twiddles + (size_t)step * (size_t)f->n_rows * FFT_GROUP;
    int n = f->n_rows, len = n / fft_first_radix(n);
    for (int g = 0; g < n / FFT_LANES; g++)
        transpose(d + g * FFT_LANES * FFT_GROUP,
                  work + ((size_t)g * (size_t)f->n_cols + (size_t)step * FFT_LANES) * FFT_GROUP);
    out += step * FFT_LANES;
    for (int l = 0; l < FFT_LANES; l += LANES) {
        for (int k = 0; k < n; k += 8) {
            struct cvec a[8];
            for (int q = 0; q < 8; q++)
                a[q] = c_product(c_exchange(c_load(d + (k + q) * FFT_GROUP + l)),
                                 c_load(twiddles + (k + q) * FFT_GROUP + l));
            dft_8(a);
            for (int q = 0; q < 8; q++) c_store(d + (k + q) * FFT_GROUP + l, c_exchange(a[q]));
        }
        inverse_middle(d + l, twiddles_end(f->column_twiddles, n), n, len);
#define FIRST(radix) columns_last_inverse(f, d + l, out + l, radix)
        WITH_FIRST_RADIX(n, FIRST)
#undef FIRST
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

ALWAYS_INLINE void rows_first(float *d, const float *w, int n, int radix)
{
    for (int j = 0; j < n / radix; j++)
        forward_butterfly(d + j * FFT_GROUP, n / radix * FFT_GROUP, radix, w + 2 * (radix - 1) * j);
}
ALWAYS_INLINE void rows_last_inverse(float *d, const float *w, int n, int radix)
{
    for (int j = 0; j < n / radix; j++)
        inverse_butterfly(d + j * FFT_GROUP, n / radix * FFT_GROUP, radix, w + 2 * (radix - 1) * j);
}
/* Does the passes after the first: n / len transforms of len points. 8 points of 16 lanes are a chunk. */
ALWAYS_INLINE void rows_rest(float *d, const float *w, int n, int len, float *spectrum, size_t stride)
{
    forward_middle(d, w, n, len);
    for (int k = 0; k < n; k += 8, spectrum += stride) {
        struct cvec a[8];
        for (int q = 0; q < 8; q++) a[q] = c_load(d + (k + q) * FFT_GROUP);
        dft_8(a);
        for (int q = 0; q < 8; q++) c_store(spectrum + q * FFT_GROUP, a[q]);
    }
}
ALWAYS_INLINE void rows_rest_inverse(float *d, const float *w_end, int n, int len)
{
    for (int k = 0; k < n; k += 8) inverse_butterfly(d + k * FFT_GROUP, FFT_GROUP, 8, NULL);
    inverse_middle(d, w_end, n, len);
}

static void rows_in(const struct fft *f, float *work, float *spectrum, size_t stride, int step)
{
    int group = step / f->row_stages, stage = step % f->row_stages, n = f->n_cols, radix = fft_first_radix(n);
    int len = n / radix, n_chunks = n / CHUNK_COLS;
    float *d = work + (size_t)group * (size_t)n * FFT_GROUP;
    const float *w = f->row_twiddles, *w_rest = second_twiddles(w, n);
    spectrum += (size_t)(group * n_chunks) * stride;
    for (int l = 0; l < FFT_LANES; l += LANES) {
        if (stage == 0) {
#define FIRST(radix) rows_first(d + l, w, n, radix)
            WITH_FIRST_RADIX(n, FIRST)
#undef FIRST
        }
        if (f->row_stages == 1)
            rows_rest(d + l, w_rest, n, len, spectrum + l, stride);
        else if (stage > 0)
            rows_rest(d + l + (stage - 1) * len * FFT_GROUP, w_rest, len, len,
                      spectrum + (size_t)((stage - 1) * (len / CHUNK_COLS)) * stride + l, stride);
    }
}

static void rows_out(const struct fft *f, float *work, int step)
{
    int group = step / f->row_stages, stage = step % f->row_stages, n = f->n_cols, radix = fft_first_radix(n);
    int len = n / radix;
    float *d = work + (size_t)group * (size_t)n * FFT_GROUP;
    const float *w = f->row_twiddles, *w_end = twiddles_end(w, n);
    for (int l = 0; l < FFT_LANES; l += LANES) {
        if (f->row_stages == 1)
            rows_rest_inverse(d + l, w_end, n, len);
        else if (stage < radix)
            rows_rest_inverse(d + l + stage * len * FFT_GROUP, w_end, len, len);
        if (f->row_stages == 1 || stage == radix) {
#define FIRST(radix) rows_last_inverse(d + l, w, n, radix)
            WITH_FIRST_RADIX(n, FIRST)
#undef FIRST
        }
    }
}

extern const struct fft_steps FOR_ISA(fft_steps_);
const struct fft_steps FOR_ISA(fft_steps_) = {columns_in, rows_in, rows_out, columns_out};
