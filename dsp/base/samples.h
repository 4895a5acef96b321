/* samples - loops that copy and measure samples, built once for each instruction set. */
#ifndef HALOCONV_SAMPLES_H
#define HALOCONV_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

/* The largest magnitude of a live input, 1.27e30. A transform of 2^27 such samples is still finite: an input's spectra
 * never have NaN, and neither has a product with 0. Only products with a mask may overflow. */
#define SAMPLE_LIVE_MAX 0x1p100f

struct samples {
    /* Copies src to dst with NaN and Inf replaced by 0; returns the number replaced. Raises *peak_bits to the bits of
     * the largest magnitude: the bits of non-negative floats sort as unsigned integers do. src may be dst. */
    size_t (*copy_finite)(float *dst, const float *src, int n, uint32_t *peak_bits);
    /* As copy_finite, and also replaces samples beyond SAMPLE_LIVE_MAX. */
    size_t (*copy_live)(float *dst, const float *src, int n, uint32_t *peak_bits);
    /* Returns how many samples of x are beyond full scale, and raises *peak_bits as copy_finite does. */
    size_t (*measure)(const float *x, int n, uint32_t *peak_bits);
};

/* Returns the fastest build that this processor runs. */
const struct samples *samples_choose(void);

/* Replaces NaN and Inf in an output by 0, if there are any; returns the number replaced. *clipped becomes the result of
 * `measure` for the samples that remain, and *peak_bits is raised. */
static inline size_t samples_finish_output(const struct samples *s, float *x, int n, size_t *clipped,
                                           uint32_t *peak_bits)
{
    uint32_t peak = 0;
    size_t replaced = 0;
    *clipped = s->measure(x, n, &peak);
    if (peak > 0x7f7fffffu) { /* the bits of FLT_MAX */
        peak = 0;
        replaced = s->copy_finite(x, x, n, &peak);
        *clipped = s->measure(x, n, &peak);
    }
    if (peak > *peak_bits) *peak_bits = peak;
    return replaced;
}

#endif
