#include "transform.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t transform_size(size_t n)
{
    size_t size = 4;
    while (size < n) size *= 2;
    return size;
}

bool transform_open(struct transform *t, size_t size)
{
    size_t n = size / 2;
    t->size = size;
    t->roots = malloc(n * sizeof *t->roots);
    t->scratch = malloc(n * sizeof *t->scratch);
    if (!t->roots || !t->scratch) {
        transform_close(t);
        return false;
    }
    for (size_t k = 0; k < n; k++) {
        double angle = -2 * M_PI * (double)k / (double)n;
        t->roots[k] = cos(angle) + I * sin(angle);
    }
    return true;
}

void transform_close(struct transform *t)
{
    free(t->roots);
    free(t->scratch);
    *t = (struct transform){0};
}

/* ---- the complex transform ------------------------------------------------------------------------------------------
 *
 * It has Stockham's form: each pass reads x and writes y in the order of the next pass, so no pass reverses bits.
 */

/* Returns a times b, without C's slow rules for infinities. */
static inline double complex complex_product(double complex a, double complex b)
{
    return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}

/* Does a pass of radix 4 over `stride` interleaved transforms of n points each. */
static void pass4(const struct transform *t, size_t n, size_t stride, const double complex *x, double complex *y)
{
    size_t quarter = n / 4, m = stride * quarter;
    for (size_t p = 0; p < quarter; p++) {
        double complex w1 = t->roots[p * stride], w2 = t->roots[2 * p * stride], w3 = t->roots[3 * p * stride];
        const double complex *in = x + stride * p;
        double complex *out = y + 4 * stride * p;
        for (size_t q = 0; q < stride; q++) {
            double complex a = in[q], b = in[q + m], c = in[q + 2 * m], d = in[q + 3 * m];
            double complex even = a + c, odd = a - c, sum = b + d, turned = CMPLX(cimag(b - d), -creal(b - d));
            out[q] = even + sum;
            out[q + stride] = complex_product(w1, odd + turned);
            out[q + 2 * stride] = complex_product(w2, even - sum);
            out[q + 3 * stride] = complex_product(w3, odd - turned);
        }
    }
}

static void pass2(size_t stride, const double complex *x, double complex *y)
{
    for (size_t q = 0; q < stride; q++) {
        double complex a = x[q], b = x[q + stride];
        y[q] = a + b;
        y[q + stride] = a - b;
    }
}

/* Replaces z[size / 2] by its complex transform. */
static void transform_complex(const struct transform *t, double complex *z)
{
    size_t n = t->size / 2, stride = 1;
    double complex *from = z, *to = t->scratch;
    while (n > 1) {
        if (n >= 4) {
            pass4(t, n, stride, from, to);
            n /= 4;
            stride *= 4;
        } else {
            pass2(stride, from, to);
            n = 1;
        }
        double complex *swap = from;
        from = to;
        to = swap;
    }
    if (from != z) memcpy(z, from, t->size / 2 * sizeof *z);
}

/* ---- real transforms ------------------------------------------------------------------------------------------------
 *
 * The even values are the real part, and the odd ones the imaginary part, of a complex signal of half the length. Bin k
 * of the real signal is e + w o, with e and o from bins k and half - k of the complex one, and w = e^(-2 pi i k / size).
 */

static double complex half_root(const struct transform *t, size_t k) /* e^(-2 pi i k / size) */
{
    if (k % 2 == 0) return t->roots[k / 2];
    double angle = -2 * M_PI * (double)k / (double)t->size;
    return CMPLX(cos(angle), sin(angle));
}

void transform_forward(const struct transform *t, double complex *bins)
{
    size_t half = t->size / 2;
    transform_complex(t, bins);
    double complex first = bins[0];
    bins[0] = creal(first) + cimag(first);
    bins[half] = creal(first) - cimag(first);
    for (size_t k = 1; k <= half / 2; k++) {
        double complex a = bins[k], b = conj(bins[half - k]);
        double complex even = (a + b) / 2, odd = (a - b) / 2;
        double complex turned = complex_product(half_root(t, k), CMPLX(cimag(odd), -creal(odd)));
        bins[k] = even + turned;
        bins[half - k] = conj(even - turned);
    }
}

void transform_inverse(const struct transform *t, double complex *bins)
{
    size_t half = t->size / 2;
    double scale = 1.0 / (double)half;
    bins[0] = CMPLX(creal(bins[0]) + creal(bins[half]), -(creal(bins[0]) - creal(bins[half]))) / 2;
    for (size_t k = 1; k <= half / 2; k++) {
        double complex a = bins[k], b = conj(bins[half - k]);
        double complex even = (a + b) / 2, odd = complex_product(conj(half_root(t, k)), (a - b) / 2);
        odd = CMPLX(-cimag(odd), creal(odd));
        bins[k] = conj(even + odd);
        bins[half - k] = even - odd;
    }
    transform_complex(t, bins); /* the forward transform of conjugates is an inverse */
    for (size_t k = 0; k < half; k++) bins[k] = conj(bins[k]) * scale;
}

void transform_response(const struct transform *t, const double *h, size_t n, double complex *bins)
{
    memset(bins, 0, (t->size / 2 + 1) * sizeof *bins);
    memcpy(bins, h, n * sizeof *h);
    transform_forward(t, bins);
}

void transform_response_float(const struct transform *t, const float *h, size_t n, double complex *bins)
{
    double *real = (double *)bins;
    memset(bins, 0, (t->size / 2 + 1) * sizeof *bins);
    for (size_t i = 0; i < n; i++) real[i] = (double)h[i];
    transform_forward(t, bins);
}

bool transform_convolve(const double *a, size_t n_a, const double *b, size_t n_b, double *y)
{
    struct transform t;
    if (!transform_open(&t, transform_size(n_a + n_b - 1))) return false;
    double complex *p = malloc((t.size / 2 + 1) * sizeof *p), *q = malloc((t.size / 2 + 1) * sizeof *q);
    if (p && q) {
        transform_response(&t, a, n_a, p);
        transform_response(&t, b, n_b, q);
        for (size_t k = 0; k <= t.size / 2; k++) p[k] = complex_product(p[k], q[k]);
        transform_inverse(&t, p);
        memcpy(y, p, (n_a + n_b - 1) * sizeof *y);
    }
    bool good = p && q;
    free(p);
    free(q);
    transform_close(&t);
    return good;
}

void transform_delay(const struct transform *t, double complex *bins, double frames)
{
    size_t half = t->size / 2;
    for (size_t k = 0; k <= half; k++) bins[k] *= cexp(-I * 2 * M_PI * (double)k * frames / (double)t->size);
    bins[half] = creal(bins[half]);
}

void transform_minimum_phase(const struct transform *t, double complex *bins)
{
    size_t half = t->size / 2;
    double *cepstrum = (double *)bins;
    for (size_t k = 0; k <= half; k++) bins[k] = log(creal(bins[k]));
    transform_inverse(t, bins);
    for (size_t i = 1; i < half; i++) cepstrum[i] *= 2;
    for (size_t i = half + 1; i < t->size; i++) cepstrum[i] = 0;
    transform_forward(t, bins);
    for (size_t k = 0; k <= half; k++) bins[k] = cexp(bins[k]);
}
