/* fft_short - transforms of less than FFT_LONG bins (fft.h), each in one call.
 *
 * S = rows x SUB. SUB points of a row lie in the lanes of a vector; LANES / SUB channels lie side by side. The Makefile
 * builds this file for each instruction set and some values of LANES and SUB.
 */
#include "fft_butterflies.h"
#include "transpose.h"

enum { CHANNELS = LANES / SUB, MAX_SHORT_ROWS = 32 };

typedef float sub __attribute__((vector_size(SUB * 4), aligned(4), may_alias));

/* Loads SUB floats of each channel. */
ALWAYS_INLINE vec load_channels(const float *const *p, size_t at)
{
#if LANES == SUB
    return vec_load(p[0] + at);
#elif LANES == 2 * SUB && SUB == 8
    return __builtin_shufflevector(*(const sub *)(p[0] + at), *(const sub *)(p[1] + at), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
                                   10, 11, 12, 13, 14, 15);
#elif LANES == 2 * SUB
    return __builtin_shufflevector(*(const sub *)(p[0] + at), *(const sub *)(p[1] + at), 0, 1, 2, 3, 4, 5, 6, 7);
#else
    typedef float two __attribute__((vector_size(32)));
    two a = __builtin_shufflevector(*(const sub *)(p[0] + at), *(const sub *)(p[1] + at), 0, 1, 2, 3, 4, 5, 6, 7);
    two b = __builtin_shufflevector(*(const sub *)(p[2] + at), *(const sub *)(p[3] + at), 0, 1, 2, 3, 4, 5, 6, 7);
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#endif
}
ALWAYS_INLINE void store_channels(float *const *p, size_t at, vec v)
{
#if LANES == SUB
    vec_store(p[0] + at, v);
#elif SUB == 8
    *(sub *)(p[0] + at) = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
    *(sub *)(p[1] + at) = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
#else
    *(sub *)(p[0] + at) = __builtin_shufflevector(v, v, 0, 1, 2, 3);
    *(sub *)(p[1] + at) = __builtin_shufflevector(v, v, 4, 5, 6, 7);
#if LANES == 16
    *(sub *)(p[2] + at) = __builtin_shufflevector(v, v, 8, 9, 10, 11);
    *(sub *)(p[3] + at) = __builtin_shufflevector(v, v, 12, 13, 14, 15);
#endif
#endif
}
/* Loads twiddles, which are the same for every channel. */
ALWAYS_INLINE struct cvec load_twiddles(const float *p)
{
    const float *same[] = {p, p, p, p};
    return (struct cvec){load_channels(same, 0), load_channels(same, SUB)};
}

/* Transposes SUB vectors; their SUB lanes become vectors. (transpose_lanes twice spills registers with AVX-512.) */
ALWAYS_INLINE void transpose_channels(struct cvec *a)
{
    struct cvec b[SUB];
    for (int round = 1; round < SUB; round *= 2) {
        for (int i = 0; i < SUB / 2; i++) {
            b[2 * i] = (struct cvec){LOW(a[i].re, a[i + SUB / 2].re), LOW(a[i].im, a[i + SUB / 2].im)};
            b[2 * i + 1] = (struct cvec){HIGH(a[i].re, a[i + SUB / 2].re), HIGH(a[i].im, a[i + SUB / 2].im)};
        }
        for (int i = 0; i < SUB; i++) a[i] = b[i];
    }
}

/* Does a transform across n vectors, in place, in the order of the passes; w: its twiddles. */
ALWAYS_INLINE void dft_columns(struct cvec *a, int n, const float *w)
{
    int radix = fft_first_radix(n), m = n / radix;
    for (int j = 0; j < m; j++, w += 2 * (radix - 1)) {
        struct cvec b[8];
        for (int q = 0; q < radix; q++) b[q] = a[j + q * m];
        dft(b, radix);
        a[j] = b[0];
        for (int q = 1; q < radix; q++) a[j + q * m] = j > 0 ? c_times(b[q], w + 2 * q - 2) : b[q];
    }
    if (m == 8)
        for (int k = 0; k < n; k += 8) dft_8(a + k);
}
ALWAYS_INLINE void dft_columns_inverse(struct cvec *a, int n, const float *w)
{
    int radix = fft_first_radix(n), m = n / radix;
    if (m == 8)
        for (int k = 0; k < n; k += 8) dft_8(a + k);
    for (int j = 0; j < m; j++, w += 2 * (radix - 1)) {
        struct cvec b[8];
        b[0] = a[j];
        for (int q = 1; q < radix; q++) b[q] = j > 0 ? c_times(a[j + q * m], w + 2 * q - 2) : a[j + q * m];
        dft(b, radix);
        for (int q = 0; q < radix; q++) a[j + q * m] = b[q];
    }
}

/* Returns the floats from the start of a spectrum to vector v. */
ALWAYS_INLINE size_t vector_offset(int v)
{
    int bin = v * SUB;
    return (size_t)bin / FFT_LANES * FFT_GROUP + (size_t)bin % FFT_LANES;
}

ALWAYS_INLINE void in(const struct fft *f, const float *const *before, const float *const *now, float *const *spectrum,
                      int rows)
{
    struct cvec a[MAX_SHORT_ROWS];
    for (int r = 0; r < rows; r++) {
        size_t at = (size_t)r * SUB;
        struct cvec z = {load_channels(before, at), -load_channels(now, at)};
        a[r] = r > 0 ? c_times(z, f->weights + 2 * r) : z;
    }
    dft_columns(a, rows, f->column_twiddles);
    for (int k = 0; k < rows; k++) a[k] = c_product(a[k], load_twiddles(f->step_twiddles + k * 2 * SUB));
    for (int g = 0; g < rows; g += SUB) {
        transpose_channels(a + g);
        dft_columns(a + g, SUB, f->row_twiddles);
    }
    for (int v = 0; v < rows; v++) {
        store_channels(spectrum, vector_offset(v), a[v].re);
        store_channels(spectrum, vector_offset(v) + FFT_LANES, a[v].im);
    }
}

ALWAYS_INLINE void out(const struct fft *f, const float *const *spectrum, float *const *now, int rows)
{
    struct cvec a[MAX_SHORT_ROWS]; /* re and im are exchanged */
    for (int v = 0; v < rows; v++)
        a[v] = (struct cvec){load_channels(spectrum, vector_offset(v) + FFT_LANES),
                             load_channels(spectrum, vector_offset(v))};
    for (int g = 0; g < rows; g += SUB) {
        dft_columns_inverse(a + g, SUB, f->row_twiddles);
        transpose_channels(a + g);
    }
    for (int k = 0; k < rows; k++) a[k] = c_product(a[k], load_twiddles(f->step_twiddles + k * 2 * SUB));
    dft_columns_inverse(a, rows, f->column_twiddles);
    for (int r = 0; r < rows; r++) {
        const float *w = f->weights + 2 * r;
        store_channels(now, (size_t)r * SUB, r > 0 ? a[r].im * w[1] - a[r].re * w[0] : -a[r].re);
    }
}

#if SUB == 8
#define FOR_ROWS(call, rows) ((rows) == 8 ? call(8) : call(16))
#elif defined __AVX2__ /* with AVX2, transforms of 64 bins and more have rows of 8 points */
#define FOR_ROWS(call, rows) ((rows) == 4 ? call(4) : call(8))
#else
#define FOR_ROWS(call, rows) ((rows) == 4 ? call(4) : (rows) == 8 ? call(8) : (rows) == 16 ? call(16) : call(32))
#endif

static void short_in(const struct fft *f, const float *const *before, const float *const *now, float *const *spectrum)
{
#define CALL(rows) in(f, before, now, spectrum, rows)
    FOR_ROWS(CALL, f->n_rows);
#undef CALL
}
static void short_out(const struct fft *f, const float *const *spectrum, float *const *now)
{
#define CALL(rows) out(f, spectrum, now, rows)
    FOR_ROWS(CALL, f->n_rows);
#undef CALL
}

extern const struct fft_short FOR_ISA(fft_short_);
const struct fft_short FOR_ISA(fft_short_) = {CHANNELS, SUB, short_in, short_out};
