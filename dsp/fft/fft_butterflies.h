/* fft_butterflies - complex vectors and butterflies of radix 2, 4 and 8 in registers. fft_short.c and fft_long.c, which
 * are built once for each instruction set, make transforms of these butterflies.
 *
 * An inverse transform is the forward one with real and imaginary parts exchanged at loads and stores: exchange(z) = i
 * conj(z), so a product with conj(w) becomes one with w. */
#ifndef HALOCONV_FFT_BUTTERFLIES_H
#define HALOCONV_FFT_BUTTERFLIES_H

#include "dsp/base/vec.h"
#include "fft.h"

#define SQRT_HALF 0.70710678118654752440f

struct cvec {
    vec re, im;
};

ALWAYS_INLINE struct cvec c_load(const float *p)
{
    return (struct cvec){vec_load(p), vec_load(p + FFT_LANES)};
}
ALWAYS_INLINE void c_store(float *p, struct cvec a)
{
    vec_store(p, a.re);
    vec_store(p + FFT_LANES, a.im);
}
ALWAYS_INLINE struct cvec c_exchange(struct cvec a)
{
    return (struct cvec){a.im, a.re};
}
ALWAYS_INLINE struct cvec c_add(struct cvec a, struct cvec b)
{
    return (struct cvec){a.re + b.re, a.im + b.im};
}
ALWAYS_INLINE struct cvec c_sub(struct cvec a, struct cvec b)
{
    return (struct cvec){a.re - b.re, a.im - b.im};
}
/* Returns a times (w[0] + i w[1]), which is the same for all lanes. */
ALWAYS_INLINE struct cvec c_times(struct cvec a, const float *w)
{
    return (struct cvec){a.re * w[0] - a.im * w[1], a.re * w[1] + a.im * w[0]};
}
ALWAYS_INLINE struct cvec c_product(struct cvec a, struct cvec b)
{
    return (struct cvec){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
/* Adds a b to *sum, always in this order: `rings` and `blocks` of one build, without `add`, then give the same bits. */
ALWAYS_INLINE void c_add_product(struct cvec *sum, struct cvec a, struct cvec b)
{
    sum->re += a.re * b.re;
    sum->im += a.re * b.im;
    sum->re -= a.im * b.im;
    sum->im += a.im * b.re;
}

/* dft_2, dft_4 and dft_8 transform 2, 4 and 8 points in registers, in natural order. */
ALWAYS_INLINE void dft_2(struct cvec *a)
{
    struct cvec b = c_sub(a[0], a[1]);
    a[0] = c_add(a[0], a[1]);
    a[1] = b;
}
ALWAYS_INLINE void dft_4(struct cvec *a)
{
    struct cvec s0 = c_add(a[0], a[2]), d0 = c_sub(a[0], a[2]), s1 = c_add(a[1], a[3]), d1 = c_sub(a[1], a[3]);
    a[0] = c_add(s0, s1);
    a[2] = c_sub(s0, s1);
    a[1] = (struct cvec){d0.re + d1.im, d0.im - d1.re};
    a[3] = (struct cvec){d0.re - d1.im, d0.im + d1.re};
}
ALWAYS_INLINE void dft_8(struct cvec *a)
{
    const vec h = broadcast(SQRT_HALF);
    struct cvec s[4], d[4];
    for (int k = 0; k < 4; k++) s[k] = c_add(a[k], a[k + 4]), d[k] = c_sub(a[k], a[k + 4]);
    dft_4(s);
    /* d1 = d[1] e^(-i pi / 4) and d3 = d[3] e^(-3 i pi / 4), both without the factor sqrt(1/2) */
    struct cvec d1 = {d[1].re + d[1].im, d[1].im - d[1].re}, d3 = {d[3].im - d[3].re, -(d[3].re + d[3].im)};
    struct cvec e = {d[0].re + d[2].im, d[0].im - d[2].re}, f = {d[0].re - d[2].im, d[0].im + d[2].re};
    struct cvec g = c_add(d1, d3), k = c_sub(d1, d3);
    a[0] = s[0], a[2] = s[1], a[4] = s[2], a[6] = s[3];
    a[1] = (struct cvec){e.re + h * g.re, e.im + h * g.im};
    a[5] = (struct cvec){e.re - h * g.re, e.im - h * g.im};
    a[3] = (struct cvec){f.re + h * k.im, f.im - h * k.re};
    a[7] = (struct cvec){f.re - h * k.im, f.im + h * k.re};
}
ALWAYS_INLINE void dft(struct cvec *a, int radix)
{
    if (radix == 8)
        dft_8(a);
    else if (radix == 4)
        dft_4(a);
    else
        dft_2(a);
}

/* The twiddles of a transform of n points lie pass by pass; the last pass has none. w: the twiddles of the first pass.
 * second_twiddles returns the second pass's twiddles, twiddles_end the end of all twiddles. */
ALWAYS_INLINE const float *second_twiddles(const float *w, int n)
{
    int radix = fft_first_radix(n);
    return w + 2 * (radix - 1) * (n / radix);
}
ALWAYS_INLINE const float *twiddles_end(const float *w, int n)
{
    w = second_twiddles(w, n);
    for (int len = n / fft_first_radix(n); len > 8; len /= 8) w += 14 * (len / 8);
    return w;
}

/* Does CALL(radix of the first pass of n points) with a constant radix: butterflies then stay in registers. */
#define WITH_FIRST_RADIX(n, CALL)                                                                                      \
    switch (fft_first_radix(n)) {                                                                                      \
    case 8:                                                                                                            \
        CALL(8);                                                                                                       \
        break;                                                                                                         \
    case 4:                                                                                                            \
        CALL(4);                                                                                                       \
        break;                                                                                                         \
    default:                                                                                                           \
        CALL(2);                                                                                                       \
    }

#endif
