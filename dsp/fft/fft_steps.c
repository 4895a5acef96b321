/* long_fft_simd - the steps of the long transform (dsp/fft/fft.h), built once for each SIMD_LEVEL; see the Makefile.
 *
 * Data is [n][re 16, im 16]: 16 signals, one in each lane. A level with narrower vectors takes LANES of them at a time.
 */
#include "fft.h"
#include "dsp/cpu/simd.h"
#include "vec.h"

#include <stdbool.h>

enum {
    POINT = 2 * LONG_LANES, /* floats of a point of all lanes */
    MOST_POINTS = LONG_MOST_ROWS,
    CHUNK_COLS = LONG_CHUNK / POINT,
};

struct cvec {
    vec re, im;
};

ALWAYS_INLINE struct cvec c_load(const float *p)
{
    return (struct cvec){load(p), load(p + LONG_LANES)};
}
ALWAYS_INLINE void c_store(float *p, struct cvec a)
{
    store(p, a.re);
    store(p + LONG_LANES, a.im);
}
ALWAYS_INLINE struct cvec c_add(struct cvec a, struct cvec b)
{
    return (struct cvec){a.re + b.re, a.im + b.im};
}
ALWAYS_INLINE struct cvec c_sub(struct cvec a, struct cvec b)
{
    return (struct cvec){a.re - b.re, a.im - b.im};
}
ALWAYS_INLINE struct cvec c_by_i(struct cvec a) /* times i */
{
    return (struct cvec){-a.im, a.re};
}
/* a times w, or (back) times its conjugate. */
ALWAYS_INLINE struct cvec c_times(struct cvec a, const float *w, bool back)
{
    float im = back ? -w[1] : w[1];
    return (struct cvec){a.re * w[0] - a.im * im, a.re * im + a.im * w[0]};
}

ALWAYS_INLINE int is_odd_power(int n)
{
    return __builtin_ctz((unsigned)n) % 2;
}

/* Butterflies of radix 2 and 4, forward and back: the points at p and `apart` floats on, each times its twiddle in w.
 * has_twiddles: false if the twiddles of a radix 4 are all 1. */
ALWAYS_INLINE void forward_2(float *p, int apart, const float *w)
{
    struct cvec a = c_load(p), b = c_load(p + apart);
    c_store(p, c_add(a, b));
    c_store(p + apart, c_times(c_sub(a, b), w, false));
}
ALWAYS_INLINE void forward_4(float *p, int apart, const float *w, bool has_twiddles)
{
    struct cvec a0 = c_load(p), a1 = c_load(p + apart), a2 = c_load(p + 2 * apart), a3 = c_load(p + 3 * apart);
    struct cvec s0 = c_add(a0, a2), s1 = c_sub(a0, a2), s2 = c_add(a1, a3), s3 = c_by_i(c_sub(a3, a1));
    struct cvec y1 = c_add(s1, s3), y2 = c_sub(s0, s2), y3 = c_sub(s1, s3);
    c_store(p, c_add(s0, s2));
    c_store(p + apart, has_twiddles ? c_times(y1, w, false) : y1);
    c_store(p + 2 * apart, has_twiddles ? c_times(y2, w + 2, false) : y2);
    c_store(p + 3 * apart, has_twiddles ? c_times(y3, w + 4, false) : y3);
}
ALWAYS_INLINE void backward_2(float *p, int apart, const float *w)
{
    struct cvec a = c_load(p), b = c_times(c_load(p + apart), w, true);
    c_store(p, c_add(a, b));
    c_store(p + apart, c_sub(a, b));
}
ALWAYS_INLINE void backward_4(float *p, int apart, const float *w, bool has_twiddles)
{
    struct cvec b0 = c_load(p), b1 = c_load(p + apart), b2 = c_load(p + 2 * apart), b3 = c_load(p + 3 * apart);
    if (has_twiddles) b1 = c_times(b1, w, true), b2 = c_times(b2, w + 2, true), b3 = c_times(b3, w + 4, true);
    struct cvec s0 = c_add(b0, b2), s2 = c_sub(b0, b2), s1 = c_add(b1, b3), s3 = c_by_i(c_sub(b1, b3));
    c_store(p, c_add(s0, s1));
    c_store(p + apart, c_add(s2, s3));
    c_store(p + 2 * apart, c_sub(s0, s1));
    c_store(p + 3 * apart, c_sub(s2, s3));
}

/* Decimation in frequency: natural order in, bins in the passes' order out. */
ALWAYS_INLINE void forward(float *d, const float *w, int n)
{
    int len = n;
    if (is_odd_power(n)) {
        for (int j = 0; j < n / 2; j++, w += 2) forward_2(d + j * POINT, n / 2 * POINT, w);
        len /= 2;
    }
    for (; len >= 4; len /= 4) {
        for (int base = 0; base < n; base += len)
            for (int j = 0; j < len / 4; j++) forward_4(d + (base + j) * POINT, len / 4 * POINT, w + 6 * j, len > 4);
        if (len > 4) w += 6 * (len / 4);
    }
}

/* Its inverse, times n: the same passes in the other direction. */
ALWAYS_INLINE void backward(float *d, const float *table, int n)
{
    bool odd = is_odd_power(n);
    int most = odd ? n / 2 : n;
    for (int len = 4; len <= most; len *= 4) {
        const float *w = table + (odd ? n : 0);
        for (int l = most; l > len; l /= 4) w += 6 * (l / 4);
        for (int base = 0; base < n; base += len)
            for (int j = 0; j < len / 4; j++) backward_4(d + (base + j) * POINT, len / 4 * POINT, w + 6 * j, len > 4);
    }
    if (odd)
        for (int j = 0; j < n / 2; j++) backward_2(d + j * POINT, n / 2 * POINT, table + 2 * j);
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
    for (int re_im = 0; re_im < POINT; re_im += LONG_LANES)
        for (int i = 0; i < LONG_LANES; i += LANES)
            for (int j = 0; j < LONG_LANES; j += LANES)
                transpose_tile(to + re_im + j * POINT + i, from + re_im + i * POINT + j);
}

static void columns_in(const struct long_fft *f, float *work, const float *before, const float *now, int step)
{
    float d[MOST_POINTS * POINT] __attribute__((aligned(64)));
    const float *twiddles = f->step_twiddles + (size_t)step * f->n_rows * POINT;
    before += step * LONG_LANES;
    now += step * LONG_LANES;
    for (int l = 0; l < LONG_LANES; l += LANES) {
        for (int r = 0; r < f->n_rows; r++) {
            struct cvec z = {load(before + (size_t)r * f->n_cols + l), -load(now + (size_t)r * f->n_cols + l)};
            c_store(d + r * POINT + l, c_times(z, f->weights + 2 * r, false));
        }
        forward(d + l, f->column_twiddles, f->n_rows);
        for (int k = 0; k < f->n_rows; k++) {
            struct cvec a = c_load(d + k * POINT + l), t = c_load(twiddles + k * POINT + l);
            c_store(d + k * POINT + l, (struct cvec){a.re * t.re - a.im * t.im, a.re * t.im + a.im * t.re});
        }
    }
    for (int g = 0; g < f->n_rows / LONG_LANES; g++)
        transpose(work + ((size_t)g * f->n_cols + step * LONG_LANES) * POINT, d + g * LONG_LANES * POINT);
}

/* One stage of `forward`: stage 0 is its first pass; stages 1 ... radix are the transforms of n / radix points that
 * this pass leaves, which do not depend on one another. */
ALWAYS_INLINE void forward_stage(float *d, const float *w, int n, int radix, int stage)
{
    int apart = n / radix * POINT;
    if (stage > 0)
        forward(d + (stage - 1) * apart, w + (radix == 2 ? n : 6 * (n / 4)), n / radix);
    else
        for (int j = 0; j < n / radix; j++)
            if (radix == 2)
                forward_2(d + j * POINT, apart, w + 2 * j);
            else
                forward_4(d + j * POINT, apart, w + 6 * j, true);
}

/* One stage of `backward`: its last pass is stage `radix`. */
ALWAYS_INLINE void backward_stage(float *d, const float *w, int n, int radix, int stage)
{
    int apart = n / radix * POINT;
    if (stage < radix)
        backward(d + stage * apart, w + (radix == 2 ? n : 6 * (n / 4)), n / radix);
    else
        for (int j = 0; j < n / radix; j++)
            if (radix == 2)
                backward_2(d + j * POINT, apart, w + 2 * j);
            else
                backward_4(d + j * POINT, apart, w + 6 * j, true);
}

static void rows_in(const struct long_fft *f, float *work, float *spectrum, size_t stride, int step)
{
    int group = step / f->row_stages, stage = step % f->row_stages, radix = f->row_stages - 1;
    float *d = work + (size_t)group * f->n_cols * POINT;
    int n_chunks = f->n_cols / CHUNK_COLS, from = 0, end = n_chunks;
    for (int l = 0; l < LONG_LANES; l += LANES)
        if (radix > 0)
            forward_stage(d + l, f->row_twiddles, f->n_cols, radix, stage);
        else
            forward(d + l, f->row_twiddles, f->n_cols);
    if (radix > 0) from = n_chunks / radix * (stage - 1), end = n_chunks / radix * stage; /* none of stage 0 */
    spectrum += (size_t)group * n_chunks * stride;
    for (int q = from < 0 ? 0 : from; q < end; q++)
        for (int i = 0; i < LONG_CHUNK; i += LANES)
            store(spectrum + (size_t)q * stride + i, load(d + (size_t)q * LONG_CHUNK + i));
}

static void rows_out(const struct long_fft *f, float *work, int step)
{
    int group = step / f->row_stages, stage = step % f->row_stages, radix = f->row_stages - 1;
    float *d = work + (size_t)group * f->n_cols * POINT;
    for (int l = 0; l < LONG_LANES; l += LANES)
        if (radix > 0)
            backward_stage(d + l, f->row_twiddles, f->n_cols, radix, stage);
        else
            backward(d + l, f->row_twiddles, f->n_cols);
}

static void columns_out(const struct long_fft *f, const float *work, float *out, int step)
{
    float d[MOST_POINTS * POINT] __attribute__((aligned(64)));
    const float *twiddles = f->step_twiddles + (size_t)step * f->n_rows * POINT;
    for (int g = 0; g < f->n_rows / LONG_LANES; g++)
        transpose(d + g * LONG_LANES * POINT, work + ((size_t)g * f->n_cols + step * LONG_LANES) * POINT);
    for (int l = 0; l < LONG_LANES; l += LANES) {
        for (int k = 0; k < f->n_rows; k++) {
            struct cvec a = c_load(d + k * POINT + l), t = c_load(twiddles + k * POINT + l);
            c_store(d + k * POINT + l, (struct cvec){a.re * t.re + a.im * t.im, a.im * t.re - a.re * t.im});
        }
        backward(d + l, f->column_twiddles, f->n_rows);
        for (int r = 0; r < f->n_rows; r++) {
            const float *w = f->weights + 2 * r;
            struct cvec z = c_load(d + r * POINT + l);
            store(out + (size_t)r * f->n_cols + step * LONG_LANES + l, z.re * w[1] - z.im * w[0]);
        }
    }
}

/* `tile` points of the chunk: their sums stay in registers over all partitions of all products. */
ALWAYS_INLINE void chunk_products_tile(float *y, const struct long_product *products, int n, bool add, int at, int tile)
{
    struct cvec sum[8];
    for (int i = 0; i < tile; i++) sum[i] = add ? c_load(y + i * POINT) : (struct cvec){{0}, {0}};
    for (int c = 0; c < n; c++) {
        const struct long_product *product = &products[c];
        const float *x = product->x + (size_t)product->slot * LONG_CHUNK + at;
        const float *h = product->h + at;
        for (int p = 0, left = product->slot; p < product->n_partitions; p++, left--) {
            if (left < 0) { /* around the end of the FDL */
                left += product->fdl_slots;
                x += (size_t)product->fdl_slots * LONG_CHUNK;
            }
            for (int i = 0; i < tile; i++) {
                struct cvec a = c_load(x + i * POINT), b = c_load(h + i * POINT);
                sum[i].re += a.re * b.re;
                sum[i].im += a.re * b.im;
                sum[i].re -= a.im * b.im;
                sum[i].im += a.im * b.re;
            }
            x -= LONG_CHUNK;
            h += LONG_CHUNK;
        }
    }
    for (int i = 0; i < tile; i++) c_store(y + i * POINT, sum[i]);
}

static void products(float *y, const struct long_product *list, int n, bool add)
{
    if (LANES == 16) {
        chunk_products_tile(y, list, n, add, 0, CHUNK_COLS);
        return;
    }
    for (int l = 0; l < LONG_LANES; l += LANES)
        for (int i = 0; i < CHUNK_COLS; i += 2) chunk_products_tile(y + i * POINT + l, list, n, add, i * POINT + l, 2);
}

/* n_points points of the chunk, for SIMD_BLOCKS time blocks: each h that is loaded is used for all of them. */
ALWAYS_INLINE void block_products_tile(float *const *y, bool add, const struct simd_product *list, int n, size_t x_at,
                                       size_t h_at, size_t at, int n_points)
{
    struct cvec sum[2 * SIMD_BLOCKS];
    for (int i = 0; i < n_points * SIMD_BLOCKS; i++) sum[i] = (struct cvec){{0}, {0}};
    for (int k = 0; k < n; k++)
        for (int j = 0; j < n_points; j++) {
            struct cvec h = c_load(list[k].h + h_at + at + j * POINT);
            for (int t = 0; t < SIMD_BLOCKS; t++) {
                struct cvec x = c_load(list[k].x[t] + x_at + at + j * POINT), *s = &sum[j * SIMD_BLOCKS + t];
                s->re += x.re * h.re;
                s->im += x.re * h.im;
                s->re -= x.im * h.im;
                s->im += x.im * h.re;
            }
        }
    for (int i = 0; i < n_points * SIMD_BLOCKS; i++) {
        float *out = y[i % SIMD_BLOCKS] + at + i / SIMD_BLOCKS * POINT;
        c_store(out, add ? c_add(c_load(out), sum[i]) : sum[i]);
    }
}

static void block_products(float *const *y, bool add, const struct simd_product *list, int n, size_t x_at, size_t h_at)
{
    if (LANES == LONG_LANES)
        for (size_t at = 0; at < LONG_CHUNK; at += 2 * POINT) block_products_tile(y, add, list, n, x_at, h_at, at, 2);
    else
        for (size_t at = 0; at < LONG_CHUNK; at += POINT)
            for (size_t l = 0; l < LONG_LANES; l += LANES) block_products_tile(y, add, list, n, x_at, h_at, at + l, 1);
}

extern const struct simd_long AT_LEVEL(simd_long_);
const struct simd_long AT_LEVEL(simd_long_) = {columns_in, rows_in, products, rows_out, columns_out, block_products};
