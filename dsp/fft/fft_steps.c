/* fft_steps - the steps of the long transforms (fft.h), built once for each SIMD_LEVEL; see the Makefile.
 *
 * Data is [n][re 16, im 16]: 16 signals, one in each lane. A level with narrower vectors takes LANES of them at a time.
 */
#include "fft_passes.h"

enum {
    POINT = 2 * FFT_LANES, /* floats of a point of all lanes */
    CHUNK_COLS = FFT_CHUNK / POINT,
};

/* A butterfly of a forward pass: points at p, `apart` floats from each other; w: the twiddles of points 1 ... radix - 1,
 * NULL: all 1. */
ALWAYS_INLINE void forward_butterfly(float *p, int apart, int radix, const float *w)
{
    struct cvec a[8];
    for (int q = 0; q < radix; q++) a[q] = c_load(p + q * apart);
    dft(a, radix);
    c_store(p, a[0]);
    for (int q = 1; q < radix; q++) c_store(p + q * apart, w ? c_times(a[q], w + 2 * q - 2) : a[q]);
}
ALWAYS_INLINE void backward_butterfly(float *p, int apart, int radix, const float *w)
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

/* The passes of radix 8 but the last one, decimation in frequency: transforms of `len` points, side by side in n. */
ALWAYS_INLINE const float *forward_middle(float *d, const float *w, int n, int len)
{
    for (; len > 8; w += 14 * (len / 8), len /= 8)
        for (float *base = d; base < d + n * POINT; base += len * POINT)
            for (int j = 0; j < len / 8; j++) forward_butterfly(base + j * POINT, len / 8 * POINT, 8, w + 14 * j);
    return w;
}
/* Their inverse. w: behind the last twiddle. */
ALWAYS_INLINE void backward_middle(float *d, const float *w, int n, int len)
{
    for (int l = 64; l <= len; l *= 8) {
        w -= 14 * (l / 8);
        for (float *base = d; base < d + n * POINT; base += l * POINT)
            for (int j = 0; j < l / 8; j++) backward_butterfly(base + j * POINT, l / 8 * POINT, 8, w + 14 * j);
    }
}

#if LANES == 16
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif LANES == 8
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* Transposes LANES rows of LANES floats, POINT apart: each round interleaves two halves. */
ALWAYS_INLINE void transpose_tile(float *to, const float *from)
{
    vec a[LANES], b[LANES];
    for (int i = 0; i < LANES; i++) a[i] = load(from + i * POINT);
    for (int round = 1; round < LANES; round *= 2) {
        for (int i = 0; i < LANES / 2; i++) {
            b[2 * i] = LOW(a[i], a[i + LANES / 2]);
            b[2 * i + 1] = HIGH(a[i], a[i + LANES / 2]);
        }
        for (int i = 0; i < LANES; i++) a[i] = b[i];
    }
    for (int i = 0; i < LANES; i++) store(to + i * POINT, a[i]);
}

/* Transposes 16 points of 16 lanes: points become lanes. */
ALWAYS_INLINE void transpose(float *to, const float *from)
{
    for (int re_im = 0; re_im < POINT; re_im += FFT_LANES)
        for (int i = 0; i < FFT_LANES; i += LANES)
            for (int j = 0; j < FFT_LANES; j += LANES)
                transpose_tile(to + re_im + j * POINT + i, from + re_im + i * POINT + j);
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

/* The first pass, which loads the input and weights it. */
ALWAYS_INLINE void columns_first(const struct fft *f, float *d, const float *before, const float *now, int radix)
{
    int m = f->n_rows / radix;
    const float *w = f->column_twiddles;
    size_t apart = (size_t)m * (size_t)f->n_cols;
    for (int j = 0; j < m; j++, w += 2 * (radix - 1)) {
        struct cvec a[8];
        size_t at = (size_t)j * (size_t)f->n_cols;
        for (int q = 0; q < radix; q++) {
            struct cvec z = {load(before + at + q * apart), -load(now + at + q * apart)};
            a[q] = c_times(z, f->weights + 2 * (j + q * m));
        }
        dft(a, radix);
        c_store(d + j * POINT, a[0]);
        for (int q = 1; q < radix; q++) c_store(d + (j + q * m) * POINT, c_times(a[q], w + 2 * q - 2));
    }
}
/* The last pass back, which weights the output and stores frames. */
ALWAYS_INLINE void columns_last_back(const struct fft *f, const float *d, float *out, int radix)
{
    int m = f->n_rows / radix;
    const float *w = f->column_twiddles;
    size_t apart = (size_t)m * (size_t)f->n_cols;
    for (int j = 0; j < m; j++, w += 2 * (radix - 1)) {
        struct cvec a[8];
        a[0] = c_exchange(c_load(d + j * POINT));
        for (int q = 1; q < radix; q++) a[q] = c_times(c_exchange(c_load(d + (j + q * m) * POINT)), w + 2 * q - 2);
        dft(a, radix);
        for (int q = 0; q < radix; q++) { /* a is exchanged: minus the imaginary part of (im + i re) / weight */
            const float *weight = f->weights + 2 * (j + q * m);
            store(out + (size_t)j * (size_t)f->n_cols + q * apart, a[q].im * weight[1] - a[q].re * weight[0]);
        }
    }
}

static void columns_in(const struct fft *f, float *work, const float *before, const float *now, int step)
{
    float d[FFT_MAX_ROWS * POINT] __attribute__((aligned(64)));
    const float *twiddles = f->step_twiddles + (size_t)step * (size_t)f->n_rows * POINT;
    int n = f->n_rows, radix = first_radix(n);
    before += step * FFT_LANES;
    now += step * FFT_LANES;
    for (int l = 0; l < FFT_LANES; l += LANES) {
        if (radix == 8)
            columns_first(f, d + l, before + l, now + l, 8);
        else if (radix == 4)
            columns_first(f, d + l, before + l, now + l, 4);
        else
            columns_first(f, d + l, before + l, now + l, 2);
        forward_middle(d + l, f->column_twiddles + 2 * (radix - 1) * (n / radix), n, n / radix);
        for (int k = 0; k < n; k += 8) {
            struct cvec a[8];
            for (int q = 0; q < 8; q++) a[q] = c_load(d + (k + q) * POINT + l);
            dft_8(a);
            for (int q = 0; q < 8; q++)
                c_store(d + (k + q) * POINT + l, c_product(a[q], c_load(twiddles + (k + q) * POINT + l)));
        }
    }
    for (int g = 0; g < n / FFT_LANES; g++)
        transpose(work + ((size_t)g * (size_t)f->n_cols + (size_t)step * FFT_LANES) * POINT, d + g * FFT_LANES * POINT);
}

static void columns_out(const struct fft *f, const float *work, float *out, int step)
{
    float d[FFT_MAX_ROWS * POINT] __attribute__((aligned(64)));
    const float *twiddles = f->step_twiddles + (size_t)step * (size_t)f->n_rows * POINT;
    int n = f->n_rows, radix = first_radix(n);
    for (int g = 0; g < n / FFT_LANES; g++)
        transpose(d + g * FFT_LANES * POINT, work + ((size_t)g * (size_t)f->n_cols + (size_t)step * FFT_LANES) * POINT);
    out += step * FFT_LANES;
    for (int l = 0; l < FFT_LANES; l += LANES) {
        for (int k = 0; k < n; k += 8) {
            struct cvec a[8];
            for (int q = 0; q < 8; q++)
                a[q] = c_product(c_exchange(c_load(d + (k + q) * POINT + l)), c_load(twiddles + (k + q) * POINT + l));
            dft_8(a);
            for (int q = 0; q < 8; q++) c_store(d + (k + q) * POINT + l, c_exchange(a[q]));
        }
        const float *end = f->column_twiddles + 2 * (radix - 1) * (n / radix) + fft_middle_floats(n / radix);
        backward_middle(d + l, end, n, n / radix);
        if (radix == 8)
            columns_last_back(f, d + l, out + l, 8);
        else if (radix == 4)
            columns_last_back(f, d + l, out + l, 4);
        else
            columns_last_back(f, d + l, out + l, 2);
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

ALWAYS_INLINE void rows_first(float *d, const float *w, int n, int radix)
{
    for (int j = 0; j < n / radix; j++)
        forward_butterfly(d + j * POINT, n / radix * POINT, radix, w + 2 * (radix - 1) * j);
}
ALWAYS_INLINE void rows_last_back(float *d, const float *w, int n, int radix)
{
    for (int j = 0; j < n / radix; j++)
        backward_butterfly(d + j * POINT, n / radix * POINT, radix, w + 2 * (radix - 1) * j);
}
/* The other passes, of transforms of `len` points in n; a group of 8 points, a chunk, goes to the spectrum. */
ALWAYS_INLINE void rows_rest(float *d, const float *w, int n, int len, float *spectrum, size_t stride)
{
    forward_middle(d, w, n, len);
    for (int k = 0; k < n; k += 8, spectrum += stride) {
        struct cvec a[8];
        for (int q = 0; q < 8; q++) a[q] = c_load(d + (k + q) * POINT);
        dft_8(a);
        for (int q = 0; q < 8; q++) c_store(spectrum + q * POINT, a[q]);
    }
}
ALWAYS_INLINE void rows_rest_back(float *d, const float *w_end, int n, int len)
{
    for (int k = 0; k < n; k += 8) backward_butterfly(d + k * POINT, POINT, 8, NULL);
    backward_middle(d, w_end, n, len);
}

static void rows_in(const struct fft *f, float *work, float *spectrum, size_t stride, int step)
{
    int group = step / f->row_stages, stage = step % f->row_stages, n = f->n_cols, radix = first_radix(n);
    int len = n / radix, n_chunks = n / CHUNK_COLS;
    float *d = work + (size_t)group * (size_t)n * POINT;
    const float *w = f->row_twiddles, *w_rest = w + 2 * (radix - 1) * len;
    spectrum += (size_t)(group * n_chunks) * stride;
    for (int l = 0; l < FFT_LANES; l += LANES) {
        if (stage == 0) {
            if (radix == 8)
                rows_first(d + l, w, n, 8);
            else if (radix == 4)
                rows_first(d + l, w, n, 4);
            else
                rows_first(d + l, w, n, 2);
        }
        if (f->row_stages == 1)
            rows_rest(d + l, w_rest, n, len, spectrum + l, stride);
        else if (stage > 0)
            rows_rest(d + l + (stage - 1) * len * POINT, w_rest, len, len,
                      spectrum + (size_t)((stage - 1) * (len / CHUNK_COLS)) * stride + l, stride);
    }
}

static void rows_out(const struct fft *f, float *work, int step)
{
    int group = step / f->row_stages, stage = step % f->row_stages, n = f->n_cols, radix = first_radix(n);
    int len = n / radix;
    float *d = work + (size_t)group * (size_t)n * POINT;
    const float *w = f->row_twiddles, *w_end = w + 2 * (radix - 1) * len + fft_middle_floats(len);
    for (int l = 0; l < FFT_LANES; l += LANES) {
        if (f->row_stages == 1)
            rows_rest_back(d + l, w_end, n, len);
        else if (stage < radix)
            rows_rest_back(d + l + stage * len * POINT, w_end, len, len);
        if (f->row_stages == 1 || stage == radix) {
            if (radix == 8)
                rows_last_back(d + l, w, n, 8);
            else if (radix == 4)
                rows_last_back(d + l, w, n, 4);
            else
                rows_last_back(d + l, w, n, 2);
        }
    }
}

extern const struct fft_steps AT_LEVEL(fft_steps_);
const struct fft_steps AT_LEVEL(fft_steps_) = {columns_in, rows_in, rows_out, columns_out};
